// UHAL_OP_NONZERO and UHAL_OP_COMPACT: a launch that counts parts of the mask and leaves of each run of elements, where
// they are few, the places that are not 0 or what is compacted there, else a bit for each element; and one that writes
// the positions of each part, or the elements there, from where those of the parts before it end. The mask is read
// once; nothing depends on which work-group comes first.

#include <algorithm>

#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/teams.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kMask = 1;  // in the space; 0 is its row-major order

// ITEMS, WORD and TILES of nonzero.cl.
int64_t items_of(uhal_dtype dtype) { return dtype_size(dtype) == 1 ? 16 : 8; }
constexpr int64_t kWord = 32;
constexpr int64_t kTilesOfRun = 8;

// A group adds up the counts of all parts before its own.
constexpr int64_t kMostParts = 2048;

// Whether the mask lies in order, and aligned for loads of several elements.
bool is_dense(const uhal_tensor& mask, const Space& space) {
  return space.rank == 1 && space.strides[kMask][0] == 1 &&
         reinterpret_cast<uintptr_t>(mask.data) %
                 static_cast<uintptr_t>(items_of(mask.dtype) * dtype_size(mask.dtype)) ==
             0;
}

// Appends the struct Coordinates of nonzero.cl.
void append_coordinates(Arguments& arguments, const uhal_tensor& mask, bool wanted, const LayoutKind& kind) {
  int64_t members[1 + UHAL_MAX_RANK] = {wanted ? mask.rank : 0};
  std::copy_n(mask.shape, mask.rank, members + 1);
  append_indices(arguments, members, 1 + kind.rank, kind.wide);
}

// The type of the dialect to copy elements of so many bytes with; of 16 bytes it is half of one.
const char* element_type(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "uint8";
    case 2:
      return "uint16";
    case 4:
      return "uint32";
    default:
      return "uint64";
  }
}

// What is compacted: a tensor, and whether it lies in order.
struct Elements {
  const uhal_tensor& x;
  bool in_order;
};

// The first launch, and what the second one is told of it.
class CountedParts {
 public:
  // `elements`: null where places are wanted. `kind` holds the mask's layout, theirs, and that of what is written.
  CountedParts(Queue& queue, const uhal_tensor& mask, const Space& space, const Elements* elements,
               const LayoutKind& kind)
      : mask_(mask), space_(space), elements_(elements), kind_(kind) {
    group_ = team_group_size(queue.traits());
    const int64_t tile = kWord * group_;
    const int64_t tiles = (space.count + tile - 1) / tile;
    const DeviceTraits& traits = queue.traits();
    const int64_t wanted =
        std::min(kMostParts, traits.is_cpu ? traits.compute_units : int64_t{16} * traits.compute_units);
    int64_t tiles_of_part = (tiles + wanted - 1) / wanted;
    if (tiles_of_part > kTilesOfRun) tiles_of_part = (tiles_of_part + kTilesOfRun - 1) / kTilesOfRun * kTilesOfRun;
    length_ = tiles_of_part * tile;
    tiles_ = tiles;
    grid_.groups[0] = (space.count + length_ - 1) / length_;
    grid_.group_size[0] = group_;
  }

  uhal_status launch(Queue& queue) {
    // Words of flags are read in aligned fours; a run begins at each tile at most.
    const int64_t flag_bytes = (space_.count + 4 * kWord - 1) / (4 * kWord) * 16;
    const int64_t total_bytes = grid_.groups[0] * static_cast<int64_t>(sizeof(int64_t));
    const int64_t count_bytes = tiles_ * static_cast<int64_t>(sizeof(int32_t));
    const uhal_status status = queue.workspace(static_cast<size_t>(flag_bytes + total_bytes + count_bytes), &flags_);
    if (status != UHAL_OK) return status;
    totals_ = static_cast<char*>(flags_) + flag_bytes;
    counts_ = static_cast<char*>(totals_) + total_bytes;
    Arguments arguments;
    arguments.pointer(mask_.data).pointer(totals_).pointer(counts_).pointer(flags_);
    if (gathers()) arguments.pointer(elements_->x.data);
    append_layout(arguments, space_, kind_);
    append_lengths(arguments);
    return queue.run(spec("count_parts"), arguments, grid_);
  }

  KernelSpec spec(const char* entry) const {
    KernelSpec spec(sources::nonzero, entry);
    spec.compute(compute_of(mask_.dtype)).dtype("X", mask_.dtype).define("DENSE", is_dense(mask_, space_));
    spec.define("ITEMS", items_of(mask_.dtype));
    kind_.define(spec);
    spec.define("UHAL_GROUP", group_).define("GATHER", gathers());
    if (elements_ != nullptr) {
      const int64_t bytes = dtype_size(elements_->x.dtype);
      spec.define_text("ELEMENT", element_type(bytes)).define("HALVES", bytes == 16 ? 2 : 1);
    }
    return spec;
  }

  // Arguments of the second launch: the first one's results, and where their sum goes.
  Arguments results(const uhal_tensor* count) const {
    Arguments arguments;
    arguments.pointer(flags_).pointer(totals_).pointer(counts_).pointer(data_of(count));
    return arguments;
  }

  void append_lengths(Arguments& arguments) const {
    append_index(arguments, space_.count, kind_.wide);
    append_index(arguments, length_, kind_.wide);
  }

  const Grid& grid() const { return grid_; }

 private:
  // Whether the first launch leaves elements, not places: where x lies in order, since the layouts of two tensors are
  // more than gfx803's scalar registers hold.
  bool gathers() const { return elements_ != nullptr && elements_->in_order; }

  const uhal_tensor& mask_;
  const Space& space_;
  const Elements* elements_;
  const LayoutKind kind_;
  int32_t group_;
  int64_t length_;
  int64_t tiles_;
  Grid grid_;
  void* flags_ = nullptr;
  void* totals_ = nullptr;
  void* counts_ = nullptr;
};

const char* refuse_mask(const char* op, const uhal_tensor& mask) {
  if (is_real(mask.dtype)) return nullptr;
  return refusal(
      "%s: a mask of dtype %s is not supported; compare it with 0 first, or look at real and imaginary parts", op,
      dtype_name(mask.dtype));
}

}  // namespace

const char* refuse_nonzero(const DeviceTraits&, const uhal_op& op) { return refuse_mask("nonzero", *op.inputs[0]); }

uhal_status run_nonzero(Queue& queue, const uhal_op& op) {
  const uhal_tensor& mask = *op.inputs[0];
  const uhal_tensor& count = *op.outputs[0];
  const uhal_tensor* indices = output_of(op, 1);
  const uhal_tensor order = row_major_view(mask);
  const uhal_tensor* views[] = {&order, &mask};
  const Space space = make_space(views, 2);
  if (space.count == 0) return fill_view(queue, 0, 0, count);

  LayoutKind kind = widest(layout_kind(space), {false, mask.rank <= 4 ? 4 : UHAL_MAX_RANK});
  kind.wide |= indices != nullptr && !fits_32_bits(*indices);
  CountedParts parts(queue, mask, space, nullptr, kind);
  const uhal_status status = parts.launch(queue);
  if (status != UHAL_OK) return status;

  const bool coordinates = indices != nullptr && indices->rank == 2;
  Arguments arguments = parts.results(&count);
  arguments.pointer(data_of(indices));
  append_coordinates(arguments, mask, coordinates, kind);
  parts.append_lengths(arguments);
  // A mask of rank 0 has no coordinates to write.
  const int64_t room = indices == nullptr || (coordinates && mask.rank == 0) ? 0 : indices->shape[0];
  for (int64_t value : {room, indices != nullptr ? indices->strides[0] : 0, coordinates ? indices->strides[1] : 0}) {
    append_index(arguments, value, kind.wide);
  }
  arguments.int32(count.dtype == UHAL_INT64).int32(indices != nullptr && indices->dtype == UHAL_INT64);
  return queue.run(parts.spec("nonzero"), arguments, parts.grid());
}

const char* refuse_compact(const DeviceTraits&, const uhal_op& op) { return refuse_mask("compact", *op.inputs[1]); }

uhal_status run_compact(Queue& queue, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& mask = *op.inputs[1];
  const uhal_tensor& values = *op.outputs[0];
  const uhal_tensor* count = output_of(op, 1);
  const uhal_tensor order = row_major_view(x);
  const uhal_tensor* mask_views[] = {&order, &mask};
  const uhal_tensor* data_views[] = {&order, &x};
  const Space space = make_space(mask_views, 2), data = make_space(data_views, 2);
  if (space.count == 0) return count == nullptr ? UHAL_OK : fill_view(queue, 0, 0, *count);

  const Elements elements{x, data.rank == 1 && data.strides[1][0] == 1};
  LayoutKind kind = widest(layout_kind(space), layout_kind(data));
  kind.wide |= !fits_32_bits(values);
  CountedParts parts(queue, mask, space, &elements, kind);
  const uhal_status status = parts.launch(queue);
  if (status != UHAL_OK) return status;

  Arguments arguments = parts.results(count);
  arguments.pointer(x.data).pointer(values.data);
  append_layout(arguments, data, kind);
  parts.append_lengths(arguments);
  append_index(arguments, values.shape[0], kind.wide);
  append_index(arguments, values.strides[0], kind.wide);
  arguments.int32(count != nullptr && count->dtype == UHAL_INT64);
  return queue.run(parts.spec("compact"), arguments, parts.grid());
}

}  // namespace unihal::kernels
