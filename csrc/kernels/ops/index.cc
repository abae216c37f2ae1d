// UHAL_OP_GATHER, UHAL_OP_SCATTER and their nd and elements variants.
//
// A gather is one kernel: rows that are contiguous are copied in pieces of up to 16 bytes, neighbouring work-items
// having neighbouring pieces, as the lookup in a table of embeddings wants it.
//
// A scatter puts its updates in the order of the places that they are for, equal ones as they come in row-major order,
// and then gives each element of a place to one work-item, which combines the updates in that order. So it needs no
// atomic operations on data, takes any dtype, accumulates halves in float32 without a copy of y, and gives the same
// bits each time: those of a loop over all updates. The price is the sort (of the indices only, not of the rows) and
// that many updates of one place are added one after the other.

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/index_problem.h"
#include "csrc/backends/common/op_names.h"
#include "csrc/backends/common/reduction.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/stable_order.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kRows = 0;  // in the space of a gather
constexpr int kData = 1;
constexpr int kIndices = 2;

// Elements that a work-item of a gather copies: TURNS of index.cl.
constexpr int64_t kTurns = 4;

// A type of the dialect to copy elements with.
struct ElementType {
  const char* name;
  const char* zero;
};

// Of 16 bytes there are two: copied whole where memory is aligned so, and complex128, which is aligned to 8.
ElementType element_type(int64_t bytes, bool aligned) {
  switch (bytes) {
    case 1:
      return {"uint8", "0"};
    case 2:
      return {"uint16", "0"};
    case 4:
      return {"uint32", "0"};
    case 8:
      return {"uint64", "0"};
    default:
      return aligned ? ElementType{"T4", "UHAL_ZEROS"} : ElementType{"Pair", "{0, 0}"};
  }
}

// Elements between the first that the problem's lookups reach and the last.
int64_t lookup_reach(const IndexProblem& problem) {
  int64_t reach = 0;
  for (int c = 0; c < problem.components; ++c) {
    reach += std::abs(problem.strides[c]) * std::max<int64_t>(problem.lengths[c] - 1, 0);
  }
  return reach;
}

// The layouts that hold a space and the lookups of a problem.
LayoutKind kind_of(const Space& space, const IndexProblem& problem) {
  LayoutKind kind = layout_kind(space);
  int64_t reach = lookup_reach(problem);
  for (int i = 0; i < problem.data.rank; ++i) {
    reach += std::abs(problem.data.strides[i]) * std::max<int64_t>(problem.data.shape[i] - 1, 0);
  }
  for (int c = 0; c < problem.components; ++c) kind.wide |= !fits_32_bits(problem.lengths[c]);
  kind.wide |= !fits_32_bits(reach) || !fits_32_bits(problem.component_stride * problem.components);
  return widest(kind, {false, problem.components <= 4 ? 4 : UHAL_MAX_RANK});
}

// Appends the struct Lookup of index.cl.
void append_lookup(Arguments& arguments, const IndexProblem& problem, const uhal_index_attributes& attributes,
                   const LayoutKind& kind) {
  int64_t members[4 + 2 * UHAL_MAX_RANK] = {problem.components, problem.component_stride,
                                            problem.indices.dtype == UHAL_INT64, attributes.negative_wraps};
  std::copy_n(problem.lengths, problem.components, members + 4);
  std::copy_n(problem.strides, problem.components, members + 4 + kind.rank);
  append_indices(arguments, members, 4 + 2 * kind.rank, kind.wide);
}

// Appends where bad indices are reported: nowhere if the op ignores them.
uhal_status append_error_cell(Arguments& arguments, Queue& queue, const uhal_op& op,
                              const uhal_index_attributes& attributes) {
  void* cell = nullptr;
  int64_t ticket = 0;
  if (attributes.ignore_out_of_range == 0) {
    const uhal_status status = queue.error_cell(op, &cell, &ticket);
    if (status != UHAL_OK) return status;
  }
  arguments.pointer(cell).int64(ticket);
  return UHAL_OK;
}

// Data without elements has no memory: all lookups fail.
const void* memory_of(const IndexProblem& problem) {
  return element_count(problem.data) == 0 || std::count(problem.lengths, problem.lengths + problem.components, 0) > 0
             ? nullptr
             : problem.data.data;
}

bool is_aligned(const void* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

// Whether rows and data can be seen as elements twice as large.
bool can_double(const Space& space, const IndexProblem& problem, int64_t bytes) {
  const int last = space.rank - 1;
  if (bytes > 8 || space.shape[last] % 2 != 0 || space.strides[kIndices][last] != 0 ||
      space.strides[kRows][last] != 1 || space.strides[kData][last] != 1) {
    return false;
  }
  for (int i = 0; i < last; ++i) {
    if (space.strides[kRows][i] % 2 != 0 || space.strides[kData][i] % 2 != 0) return false;
  }
  for (int c = 0; c < problem.components; ++c) {
    if (problem.strides[c] % 2 != 0) return false;
  }
  return is_aligned(problem.rows.data, 2 * bytes) && is_aligned(problem.data.data, 2 * bytes);
}

// Sees rows and data as elements as large as they allow, and returns their bytes.
int64_t widen(Space& space, IndexProblem& problem) {
  int64_t bytes = dtype_size(problem.rows.dtype);
  const int last = space.rank - 1;
  for (; can_double(space, problem, bytes); bytes *= 2) {
    space.count /= 2;
    space.shape[last] /= 2;
    for (int i = 0; i < last; ++i) {
      space.strides[kRows][i] /= 2;
      space.strides[kData][i] /= 2;
    }
    for (int c = 0; c < problem.components; ++c) problem.strides[c] /= 2;
  }
  return bytes;
}

int32_t group_size(const Queue& queue) { return std::min(256, queue.traits().max_group_size); }

uhal_status gather(Queue& queue, const uhal_op& op, const uhal_index_attributes& attributes) {
  IndexProblem problem = make_index_problem(op);
  const uhal_tensor* views[] = {&problem.rows, &problem.data, &problem.indices};
  Space space = make_space(views, 3);
  if (space.count == 0) return UHAL_OK;
  const void* const data = memory_of(problem);
  const LayoutKind kind = kind_of(space, problem);
  const int64_t bytes = widen(space, problem);
  const ElementType element = element_type(bytes, dtype_size(problem.rows.dtype) < 16);

  KernelSpec spec(sources::index, "gather");
  spec.define_text("ELEMENT", element.name).define_text("ZERO", element.zero);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(problem.rows.data).pointer(data).pointer(problem.indices.data);
  const uhal_status status = append_error_cell(arguments, queue, op, attributes);
  if (status != UHAL_OK) return status;
  append_index(arguments, space.count, kind.wide);
  append_layout(arguments, space, kind);
  append_lookup(arguments, problem, attributes, kind);
  const int64_t items = (space.count + kTurns - 1) / kTurns;
  return queue.run(spec, arguments, linear_grid(items, group_size(queue), INT64_MAX));
}

// The updates of a scatter: one per index, each a window of elements.
struct Updates {
  Space space;    // row-major order, rows, data, indices, keys
  Space window;   // data, rows
  uint32_t keys;  // of the places that updates can be for; one less than the key of no place
};

// What make_space needs of a view to leave out some axes of rows.
uhal_tensor reduced(const IndexProblem& problem, const uhal_tensor& view, bool to_indices) {
  uhal_tensor result = view;
  for (int i = 0; i < view.rank; ++i) {
    if (problem.of_index[i] != to_indices) result.shape[i] = 1;
  }
  return result;
}

// The number of places; a number too large is cut to INT64_MAX.
int64_t places_of(const IndexProblem& problem) {
  int64_t places = 1;
  const auto multiply = [&](int64_t length) {
    if (__builtin_mul_overflow(places, length, &places)) places = INT64_MAX;
  };
  for (int c = 0; c < problem.components; ++c) multiply(problem.lengths[c]);
  for (int i = 0; i < problem.rows.rank; ++i) {
    if (problem.of_both[i]) multiply(problem.rows.shape[i]);
  }
  return places;
}

int64_t updates_of(const IndexProblem& problem) { return element_count(reduced(problem, problem.rows, true)); }

Updates make_updates(const IndexProblem& problem) {
  const uhal_tensor order = row_major_view(reduced(problem, problem.rows, true));
  uhal_tensor keys = order;
  int64_t key_stride = 1;
  for (int c = 0; c < problem.components; ++c) key_stride *= problem.lengths[c];
  for (int i = order.rank - 1; i >= 0; --i) {
    keys.strides[i] = problem.of_both[i] ? key_stride : 0;
    if (problem.of_both[i]) key_stride *= order.shape[i];
  }
  const uhal_tensor rows = reduced(problem, problem.rows, true);
  const uhal_tensor data = reduced(problem, problem.data, true);
  const uhal_tensor indices = reduced(problem, problem.indices, true);
  const uhal_tensor* ordered[] = {&order, &rows, &data, &indices, &keys};
  const uhal_tensor data_window = reduced(problem, problem.data, false);
  const uhal_tensor rows_window = reduced(problem, problem.rows, false);
  const uhal_tensor* windows[] = {&data_window, &rows_window};
  return {make_space(ordered, 5), make_space(windows, 2), static_cast<uint32_t>(places_of(problem))};
}

// Device memory for one array after the other.
class Parts {
 public:
  // Sets aside `bytes`, and returns where they begin in the block.
  size_t take(size_t bytes) {
    const size_t offset = size_;
    size_ += (bytes + 255) / 256 * 256;
    return offset;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

uhal_status scatter(Queue& queue, const uhal_op& op, const uhal_index_attributes& attributes) {
  const IndexProblem problem = make_index_problem(op);
  if (element_count(problem.rows) == 0) return UHAL_OK;
  const Updates updates = make_updates(problem);
  const int64_t count = updates.space.count;
  const int64_t window = updates.window.count;
  LayoutKind kind = widest(kind_of(updates.space, problem), layout_kind(updates.window));
  kind.wide |= !fits_32_bits(count * window);

  const StableOrder sort(queue.traits(), count, updates.keys);
  const size_t offset_bytes = static_cast<size_t>(count) * (kind.wide ? 8 : 4);
  Parts parts;
  const size_t keys_at = parts.take(static_cast<size_t>(count) * sizeof(uint32_t));
  const size_t rows_at = parts.take(offset_bytes);
  const size_t data_at = parts.take(offset_bytes);
  const size_t sort_at = parts.take(sort.bytes());
  void* workspace;
  uhal_status status = queue.workspace(parts.size(), &workspace);
  if (status != UHAL_OK) return status;
  char* const block = static_cast<char*>(workspace);

  Arguments located;
  located.pointer(problem.indices.data).pointer(block + keys_at).pointer(block + rows_at).pointer(block + data_at);
  status = append_error_cell(located, queue, op, attributes);
  if (status != UHAL_OK) return status;
  append_index(located, count, kind.wide);
  located.value_of(updates.keys);
  append_layout(located, updates.space, kind);
  append_lookup(located, problem, attributes, kind);
  KernelSpec locate(sources::index, "locate");
  kind.define(locate);
  status = queue.run(locate, located, linear_grid(count, group_size(queue)));
  if (status != UHAL_OK) return status;

  const void* sorted_keys;
  const void* order;
  status = sort.run(queue, block + keys_at, block + sort_at, &sorted_keys, &order);
  if (status != UHAL_OK) return status;

  const bool overwrites = attributes.reduction == UHAL_REDUCE_NONE;
  KernelSpec apply(sources::scatter, overwrites ? "overwrite" : "combine");
  kind.define(apply);
  Arguments applied;
  applied.pointer(memory_of(problem)).pointer(problem.rows.data).pointer(sorted_keys).pointer(order);
  applied.pointer(block + data_at).pointer(block + rows_at);
  append_index(applied, count, kind.wide);
  append_index(applied, window, kind.wide);
  applied.value_of(updates.keys);
  if (overwrites) {
    apply.define_text("ELEMENT", element_type(dtype_size(problem.data.dtype), false).name);
  } else {
    apply.dtype("DATA", problem.data.dtype).compute(compute_of(problem.data.dtype));
    applied.int32(attributes.reduction);
  }
  append_layout(applied, updates.window, kind);
  return queue.run(apply, applied, linear_grid(count * window, group_size(queue)));
}

}  // namespace

const char* refuse_index(const DeviceTraits&, const uhal_op& op) {
  if (is_gather(op)) return nullptr;
  const uhal_reduction reduction = index_attributes(op).reduction;
  const char* const name = op_kind_name(op.kind);
  if (reduction != UHAL_REDUCE_NONE) {
    if (reduction != UHAL_REDUCE_SUM && reduction != UHAL_REDUCE_PRODUCT && reduction != UHAL_REDUCE_MAXIMUM &&
        reduction != UHAL_REDUCE_MINIMUM) {
      return refusal("%s: reduction %d is not supported; expected none, sum, product, maximum or minimum", name,
                     reduction);
    }
    if (const char* reason = refuse_complex_reduction(name, reduction, *op.inputs[1], *op.outputs[0])) return reason;
  }
  const IndexProblem problem = make_index_problem(op);
  if (places_of(problem) >= kMostOrdered || updates_of(problem) >= kMostOrdered) {
    return refusal(
        "%s: more than 2^30 indices, or places that they can address, cannot be put in order; scatter in "
        "parts",
        name);
  }
  return nullptr;
}

uhal_status run_index(Queue& queue, const uhal_op& op) {
  const uhal_index_attributes attributes = index_attributes(op);
  return is_gather(op) ? gather(queue, op, attributes) : scatter(queue, op, attributes);
}

}  // namespace unihal::kernels
