// Binary arithmetic with broadcasting, its gradients, and sums of tensors.
#include "plugins/paddle/kernels/maps.h"

namespace unihal::paddle {
namespace {

// Paddle may give dx the memory of dz, so dx is written last.

// d(x + y), d(x - y): dz itself, or its negative
template <bool negative>
void add_grad(Context context, Input, Input, Input dz, int, Output dx, Output dy) {
  const View gradient = dz.view();
  if (dy) {
    const View out = context.allocate(dy, gradient.dtype);
    sum_to_shape(context, gradient, out);
    if (negative) context.map(uhal_map_negative, {&out}, {&out});
  }
  if (dx) sum_to_shape(context, gradient, context.allocate(dx, gradient.dtype));
}

// out = function(operands...) summed to out's shape; the function is evaluated in dz's shape.
void map_then_sum(const Context& context, int function, Operands operands, const View& dz, Output out) {
  if (!out) return;
  const View result = context.allocate(out, dz.dtype);
  if (same_shape(result, dz)) return context.map(function, operands, {&result});
  const Scratch full(context, dz.dtype, dz);
  context.map(function, operands, {&full});
  sum_to_shape(context, full, result);
}

void multiply_grad(Context context, Input x, Input y, Input dz, int, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, uhal_map_multiply, {&gradient, &a}, gradient, dy);
  map_then_sum(context, uhal_map_multiply, {&gradient, &b}, gradient, dx);
}

void divide_grad(Context context, Input x, Input y, Input, Input dz, int, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, uhal_map_divide_backward_divisor, {&a, &b, &gradient}, gradient, dy);
  map_then_sum(context, uhal_map_divide, {&gradient, &b}, gradient, dx);
}

template <int first, int second>
void choose_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, second, {&a, &b, &gradient}, gradient, dy);
  map_then_sum(context, first, {&a, &b, &gradient}, gradient, dx);
}

// x + weight * (y - x)
void lerp(Context context, Input x, Input y, Input weight, Output z) {
  const View a = x.view(), b = y.view(), w = weight.view();
  const View out = context.allocate(z, a.dtype);
  context.map(uhal_map_linear_interpolation, {&a, &b, &w}, {&out});
}

// silu(x) * y; without y, of the two halves of x's last axis
void swiglu(Context context, Input x, OptionalInput y, Output z) {
  const View in = x.view(), out = context.allocate(z, in.dtype);
  const int last = in.rank - 1;
  const int64_t half = in.shape[last] / 2;
  const View gate = y ? in : in.sliced(last, 0, half), value = y ? y.view() : in.sliced(last, half, half);
  const Scratch activated(context, accumulator(in.dtype), out);
  context.map(uhal_map_silu, {&gate}, {&activated});
  context.map(uhal_map_multiply, {&activated, &value}, {&out});
}

}  // namespace

KernelTable arithmetic_kernels() {
  return {
      UNIHAL_KERNEL("add", kReal, binary<uhal_map_add>),
      UNIHAL_KERNEL("atan2", kFloats, binary<uhal_map_atan2>),
      UNIHAL_KERNEL("divide", kNumbers, binary<uhal_map_divide>),
      UNIHAL_KERNEL("elementwise_pow", kNumbers, binary<uhal_map_power>),
      UNIHAL_KERNEL("floor_divide", kNumbers, binary<uhal_map_floor_divide>),
      UNIHAL_KERNEL("maximum", kNumbers, binary<uhal_map_maximum>),
      UNIHAL_KERNEL("minimum", kNumbers, binary<uhal_map_minimum>),
      UNIHAL_KERNEL("multiply", kReal, binary<uhal_map_multiply>),
      UNIHAL_KERNEL("remainder", kNumbers, binary<uhal_map_floor_mod>),
      UNIHAL_KERNEL("subtract", kNumbers, binary<uhal_map_subtract>),
      UNIHAL_KERNEL("lerp", kFloats, lerp),
      UNIHAL_KERNEL("swiglu", kFloats, swiglu),
      UNIHAL_KERNEL("grad_add", kFloats, binary<uhal_map_add>),

      UNIHAL_KERNEL("add_grad", kNumbers, add_grad<false>),
      UNIHAL_KERNEL("divide_grad", kFloats, divide_grad),
      UNIHAL_KERNEL("maximum_grad", kFloats,
                    choose_grad<uhal_map_maximum_backward_first, uhal_map_maximum_backward_second>),
      UNIHAL_KERNEL("minimum_grad", kFloats,
                    choose_grad<uhal_map_minimum_backward_first, uhal_map_minimum_backward_second>),
      UNIHAL_KERNEL("multiply_grad", kFloats, multiply_grad),
      UNIHAL_KERNEL("subtract_grad", kFloats, add_grad<true>),
  };
}

}  // namespace unihal::paddle
