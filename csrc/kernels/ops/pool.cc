#include <algorithm>
#include <limits>

#include "csrc/backends/common/convolution_problem.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kSpatial = UHAL_MAX_SPATIAL;
constexpr int kOperands = 4;  // of the struct in pool.cl

// Always three spatial axes, leading ones of length 1.
struct Geometry {
  int64_t input[kSpatial], output[kSpatial];
  int64_t window[kSpatial], stride[kSpatial], pad[kSpatial];
  int64_t padded_window;  // the divisor of averages where padding counts; 0: the pixels under the window
};

Geometry geometry_of(const uhal_pool_attributes& attributes, const uhal_tensor& x, const uhal_tensor& y) {
  Geometry g;
  g.padded_window = attributes.mode == UHAL_POOL_AVERAGE_INCLUDE_PADDING && attributes.adaptive == 0 ? 1 : 0;
  const int missing = 2 + kSpatial - x.rank;
  for (int i = 0; i < kSpatial; ++i) {
    const int axis = i - missing;
    const bool given = axis >= 0 && attributes.adaptive == 0;
    g.input[i] = axis < 0 ? 1 : x.shape[2 + axis];
    g.output[i] = axis < 0 ? 1 : y.shape[2 + axis];
    g.window[i] = given ? attributes.window[axis] : 1;
    g.stride[i] = given ? attributes.stride[axis] : 1;
    g.pad[i] = given ? attributes.pad_before[axis] : 0;
    g.padded_window *= g.window[i];
  }
  return g;
}

bool needs_wide_index(const Geometry& g, const uhal_pool_attributes& attributes) {
  bool wide = !fits_32_bits(g.padded_window);
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t reach = attributes.adaptive != 0
                              ? (g.input[i] + 1) * (g.output[i] + 1)
                              : g.pad[i] + g.input[i] + g.window[i] + (g.output[i] + 1) * g.stride[i];
    wide |= !fits_32_bits(reach);
  }
  return wide;
}

// Whether neighbouring channels lie nearer in memory than neighbouring pixels (NHWC).
bool channels_last(const uhal_tensor& view) {
  return view.shape[1] > 1 && std::abs(view.strides[1]) < std::abs(view.strides[view.rank - 1]);
}

// The strides of a view's images, channels and three spatial axes; 0 for an absent view.
void write_strides(const uhal_tensor* view, int64_t* strides) {
  std::fill_n(strides, 2 + kSpatial, 0);
  if (view == nullptr) return;
  for (int i = 0; i < view->rank; ++i) strides[i < 2 ? i : 2 + kSpatial - view->rank + i] = view->strides[i];
}

// What a maximum starts from.
double lowest_of(uhal_dtype dtype) {
  return is_floating(dtype) ? -std::numeric_limits<double>::infinity() : static_cast<double>(lowest_integer(dtype));
}

Compute pool_compute(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_floating(dtype)) return floating_compute(op);
  return dtype == UHAL_UINT64 ? Compute::kUint64 : Compute::kInt64;
}

// The average of all pixels is a mean over the spatial axes, which reduce spreads over more work-items.
bool is_global_mean(const Geometry& g, const uhal_pool_attributes& attributes) {
  if (attributes.mode == UHAL_POOL_MAXIMUM) return false;
  for (int i = 0; i < kSpatial; ++i) {
    const bool covers = attributes.adaptive != 0 || (g.pad[i] == 0 && g.window[i] == g.input[i]);
    if (g.output[i] != 1 || g.input[i] == 0 || !covers) return false;
  }
  return true;
}

uhal_status reduce_to_mean(Queue& queue, const uhal_op& op) {
  uhal_reduce_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = UHAL_REDUCE_MEAN;
  uhal_op reduce = op;
  reduce.kind = UHAL_OP_REDUCE;
  reduce.output_count = 1;
  reduce.attributes = &attributes;
  return run_reduce(queue, reduce);
}

// The struct Problem of pool.cl for these operands, in its order; views[result] is written.
class PoolProblem {
 public:
  PoolProblem(const uhal_pool_attributes& attributes, const Geometry& g, const uhal_tensor* const (&views)[kOperands],
              int result)
      : maximum_(attributes.mode == UHAL_POOL_MAXIMUM), wide_(needs_wide_index(g, attributes)) {
    int64_t* next = members_;
    *next++ = views[result]->shape[1];
    for (const int64_t* row : {g.input, g.output, g.window, g.stride, g.pad}) next = std::copy_n(row, kSpatial, next);
    for (const uhal_tensor* view : views) {
      wide_ |= view != nullptr && (!fits_32_bits(*view) || !fits_32_bits(element_count(*view)));
      write_strides(view, next);
      next += 2 + kSpatial;
    }
    *next++ = attributes.adaptive;
    *next++ = g.padded_window;
    *next++ = channels_last(*views[result]);
  }

  // What programs depend on.
  void define(KernelSpec& spec) const { spec.define("UHAL_WIDE_INDEX", wide_).define("MAXIMUM", maximum_); }

  void append(Arguments& arguments, int64_t count) const {
    int64_t members[kMembers];
    std::copy_n(members_, kMembers - 1, members);
    members[kMembers - 1] = count;
    append_indices(arguments, members, kMembers, wide_);
  }

 private:
  static constexpr int kMembers = 1 + 5 * kSpatial + kOperands * (2 + kSpatial) + 4;

  bool maximum_, wide_;
  int64_t members_[kMembers - 1];
};

Grid grid_of(const Queue& queue, const uhal_tensor& result) {
  return linear_grid(element_count(result), std::min(256, queue.traits().max_group_size));
}

uhal_status run_forward(Queue& queue, const uhal_op& op, const uhal_pool_attributes& attributes) {
  const uhal_tensor* x = op.inputs[0];
  const uhal_tensor* y = op.outputs[0];
  const uhal_tensor* indices = output_of(op, 1);
  const Geometry g = geometry_of(attributes, *x, *y);
  if (is_global_mean(g, attributes)) return reduce_to_mean(queue, op);
  const Compute compute = pool_compute(op);
  KernelSpec spec(sources::pool, "pool");
  spec.compute(compute).define("FORWARD", 1).dtype("X", x->dtype).dtype("Y", y->dtype);
  spec.define("HAS_INDICES", indices != nullptr).dtype("INDICES", indices != nullptr ? indices->dtype : UHAL_INT32);
  Arguments arguments;
  arguments.pointer(x->data).pointer(y->data).pointer(data_of(indices));
  const PoolProblem problem(attributes, g, {x, y, indices, nullptr}, 1);
  problem.define(spec);
  problem.append(arguments, element_count(*y));
  arguments.real(lowest_of(x->dtype), compute);
  return queue.run(spec, arguments, grid_of(queue, *y));
}

// Whether no pixel lies in two windows, so that each can be written by one of them.
bool are_apart(const Geometry& g, const uhal_pool_attributes& attributes) {
  bool are = attributes.adaptive == 0;
  for (int i = 0; i < kSpatial; ++i) are &= g.output[i] > 0 && g.window[i] <= g.stride[i] && g.pad[i] < g.window[i];
  return are;
}

// CELL of pool.cl.
int cell_of(const Geometry& g) {
  constexpr int kCell = 2;
  const auto is_filled = [&](int axis, int64_t length) {
    return g.window[axis] == length && g.stride[axis] == length && g.pad[axis] == 0 &&
           g.input[axis] == length * g.output[axis];
  };
  return is_filled(0, 1) && is_filled(1, kCell) && is_filled(2, kCell) ? kCell : 0;
}

// SIDE of pool.cl: the windows that networks have.
int64_t side_of(const Geometry& g, const uhal_pool_attributes& attributes) {
  constexpr int64_t kWidest = 3;
  const bool is_planar = g.input[0] == 1 && g.output[0] == 1 && g.window[0] == 1 && g.stride[0] == 1 && g.pad[0] == 0;
  const bool is_square = g.window[1] == g.window[2] && g.stride[1] == g.stride[2];
  return is_planar && is_square && attributes.adaptive == 0 && g.window[1] <= kWidest && g.stride[1] <= 2 ? g.window[1]
                                                                                                          : 0;
}

uhal_status run_backward(Queue& queue, const uhal_op& op, const uhal_pool_attributes& attributes) {
  const bool maximum = attributes.mode == UHAL_POOL_MAXIMUM;
  const uhal_tensor* dy = op.inputs[0];
  const uhal_tensor* x = maximum ? op.inputs[1] : nullptr;
  const uhal_tensor* y = maximum ? op.inputs[2] : nullptr;
  const uhal_tensor* dx = op.outputs[0];
  const Geometry g = geometry_of(attributes, *dx, *dy);
  const PoolProblem problem(attributes, g, {x, y, dy, dx}, 3);
  const auto spec_of = [&](const char* entry) {
    KernelSpec spec(sources::pool, entry);
    spec.compute(floating_compute(op)).define("FORWARD", 0).dtype("X", dtype_of(x)).dtype("Y", dtype_of(y));
    spec.dtype("GRADIENT", dy->dtype).dtype("RESULT", dx->dtype);
    const int64_t side = side_of(g, attributes);
    spec.define("CELL", cell_of(g)).define("SIDE", side).define("STEP", side != 0 ? g.stride[1] : 0);
    problem.define(spec);
    return spec;
  };
  if (are_apart(g, attributes)) {
    Arguments arguments;
    arguments.pointer(data_of(x)).pointer(data_of(y)).pointer(dy->data).pointer(dx->data);
    problem.append(arguments, element_count(*dy));
    return queue.run(spec_of("pool_backward_apart"), arguments, grid_of(queue, *dy));
  }
  void* winners = nullptr;
  if (maximum && element_count(*y) != 0) {
    uhal_status status = queue.workspace(sizeof(uint32_t) * static_cast<size_t>(element_count(*y)), &winners);
    if (status != UHAL_OK) return status;
    Arguments arguments;
    arguments.pointer(x->data).pointer(y->data).pointer(winners);
    problem.append(arguments, element_count(*y));
    status = queue.run(spec_of("pool_winners"), arguments, grid_of(queue, *y));
    if (status != UHAL_OK) return status;
  }
  Arguments arguments;
  arguments.pointer(winners).pointer(dy->data).pointer(dx->data);
  problem.append(arguments, element_count(*dx));
  return queue.run(spec_of("pool_backward"), arguments, grid_of(queue, *dx));
}

}  // namespace

const char* refuse_pool(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_floating(dtype)) return nullptr;
  const bool maximum = pool_attributes(op).mode == UHAL_POOL_MAXIMUM;
  if (op.kind == UHAL_OP_POOL && maximum && is_integer(dtype)) return nullptr;
  return "pooling takes floating point, and for a maximum without gradient integers: cast the operand first";
}

uhal_status run_pool(Queue& queue, const uhal_op& op) {
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  const uhal_pool_attributes attributes = pool_attributes(op);
  return op.kind == UHAL_OP_POOL ? run_forward(queue, op, attributes) : run_backward(queue, op, attributes);
}

}  // namespace unihal::kernels
