// UHAL_OP_NONZERO: a launch that counts parts of the mask and leaves a bit for each element, and one that writes the
// positions of each part from where those of the parts before it end. The mask is read once; nothing depends on which
// work-group comes first.

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

// ITEMS and WORD of nonzero.cl.
int64_t items_of(uhal_dtype dtype) { return dtype_size(dtype) == 1 ? 16 : 8; }
constexpr int64_t kWord = 32;

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

}  // namespace

const char* refuse_nonzero(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal("nonzero: dtype %s is not supported; compare it with 0 first, or look at real and imaginary parts",
                 dtype_name(dtype));
}

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
  const int32_t group = team_group_size(queue.traits());
  const int64_t tiles = (space.count + kWord * group - 1) / (kWord * group);
  const DeviceTraits& traits = queue.traits();
  const int64_t wanted =
      std::min(kMostParts, traits.is_cpu ? traits.compute_units : int64_t{16} * traits.compute_units);
  const int64_t part_length = (tiles + wanted - 1) / wanted * kWord * group;
  Grid grid;
  grid.groups[0] = (space.count + part_length - 1) / part_length;
  grid.group_size[0] = group;
  const int64_t total_bytes = grid.groups[0] * static_cast<int64_t>(sizeof(int64_t));
  void* totals;
  uhal_status status =
      queue.workspace(static_cast<size_t>(total_bytes + (space.count + kWord - 1) / kWord * 4), &totals);
  if (status != UHAL_OK) return status;
  void* flags = static_cast<char*>(totals) + total_bytes;

  const auto spec = [&](const char* entry) {
    KernelSpec spec(sources::nonzero, entry);
    spec.compute(compute_of(mask.dtype)).dtype("X", mask.dtype).define("DENSE", is_dense(mask, space));
    spec.define("ITEMS", items_of(mask.dtype));
    kind.define(spec);
    spec.define("UHAL_GROUP", group);
    return spec;
  };
  Arguments counted;
  counted.pointer(mask.data).pointer(totals).pointer(flags);
  append_layout(counted, space, kind);
  append_index(counted, space.count, kind.wide);
  append_index(counted, part_length, kind.wide);
  status = queue.run(spec("count_parts"), counted, grid);
  if (status != UHAL_OK) return status;

  const bool coordinates = indices != nullptr && indices->rank == 2;
  Arguments arguments;
  arguments.pointer(flags).pointer(totals).pointer(count.data).pointer(data_of(indices));
  append_coordinates(arguments, mask, coordinates, kind);
  // A mask of rank 0 has no coordinates to write.
  const int64_t room = indices == nullptr || (coordinates && mask.rank == 0) ? 0 : indices->shape[0];
  for (int64_t value : {space.count, part_length, room, indices != nullptr ? indices->strides[0] : 0,
                        coordinates ? indices->strides[1] : 0}) {
    append_index(arguments, value, kind.wide);
  }
  arguments.int32(count.dtype == UHAL_INT64).int32(indices != nullptr && indices->dtype == UHAL_INT64);
  return queue.run(spec("nonzero"), arguments, grid);
}

}  // namespace unihal::kernels
