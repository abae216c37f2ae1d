// Binary arithmetic with broadcasting, its gradients, and sums of tensors.
#include <algorithm>
#include <cmath>
#include <utility>

#include "plugins/paddle/kernels/maps.h"

namespace unihal::paddle {
namespace {

// Paddle may give dx the memory of dz, so dx is written last.

// Where the operand of lower rank begins in the other one's axes, as programs of the old intermediate representation
// say it (operators.elementwise_add and its kin). -1 aligns at the right, and there trailing axes of length 1 do not
// count.
struct Alignment {
  Alignment(const Context& context, const View& x, const View& y, int axis) : first(x), second(y) {
    if (axis == -1 || (axis == 0 && x.rank == y.rank)) return;
    View& low = x.rank < y.rank ? first : second;
    const View& high = x.rank < y.rank ? y : x;
    while (low.rank > 0 && low.rank + axis > high.rank && low.shape[low.rank - 1] == 1) --low.rank;
    if (axis < 0 || axis + low.rank > high.rank) {
      raise(UHAL_INVALID_ARGUMENT, std::string("(unihal) ") + context.kernel() + ": axis is " + std::to_string(axis) +
                                       ", expected -1 to " + std::to_string(high.rank - low.rank) +
                                       " for operands of rank " + std::to_string(x.rank) + " and " +
                                       std::to_string(y.rank));
    }
    while (axis + low.rank < high.rank) low = low.unsqueezed(low.rank);
  }
  // The gradient of an operand, seen as it is.
  static View as(const View& operand, const View& gradient) { return gradient.reshaped(operand.shape, operand.rank); }

  View first, second;
};

// z = function(x, y) with an axis
template <int function>
void binary_at(Context context, Input x, Input y, int axis, Output z) {
  const Alignment operands(context, x.view(), y.view(), axis);
  const View out = context.allocate(z, operands.first.dtype);
  context.map(function, {&operands.first, &operands.second}, {&out});
}

// The same, a bool
template <int function>
void binary_test_at(Context context, Input x, Input y, int axis, Output z) {
  const Alignment operands(context, x.view(), y.view(), axis);
  const View out = context.allocate(z, UHAL_BOOL);
  context.map(function, {&operands.first, &operands.second}, {&out});
}

// The function whose floor is of the exact quotient: Paddle's, of floating-point numbers, is Python's.
int floor_divide_of(const View& operand) {
  return is_floating(operand.dtype) ? uhal_map_floor_divide_exact : uhal_map_floor_divide;
}

void floor_divide(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View out = context.allocate(z, a.dtype);
  context.map(floor_divide_of(a), {&a, &b}, {&out});
}

void floor_divide_at(Context context, Input x, Input y, int axis, Output z) {
  const Alignment operands(context, x.view(), y.view(), axis);
  const View out = context.allocate(z, operands.first.dtype);
  context.map(floor_divide_of(operands.first), {&operands.first, &operands.second}, {&out});
}

// d(x + y), d(x - y): dz itself, or its negative
template <bool negative>
void add_grad(Context context, Input x, Input y, Input dz, int axis, Output dx, Output dy) {
  const View gradient = dz.view();
  const Alignment operands(context, x.shape_only(), y.shape_only(), axis);
  if (dy) {
    const View out = Alignment::as(operands.second, context.allocate(dy, gradient.dtype));
    sum_to_shape(context, gradient, out);
    if (negative) context.map(uhal_map_negative, {&out}, {&out});
  }
  if (dx) sum_to_shape(context, gradient, Alignment::as(operands.first, context.allocate(dx, gradient.dtype)));
}

// out = function(inputs...) summed to the shape of `operand`; the function is evaluated in dz's shape.
void map_then_sum(const Context& context, int function, Operands inputs, const View& dz, const View& operand,
                  Output out, std::initializer_list<double> parameters = {}) {
  if (!out) return;
  const View result = Alignment::as(operand, context.allocate(out, dz.dtype));
  if (same_shape(result, dz)) return context.map(function, inputs, {&result}, parameters);
  const Scratch full(context, dz.dtype, dz);
  context.map(function, inputs, {&full}, parameters);
  sum_to_shape(context, full, result);
}

void multiply_grad(Context context, Input x, Input y, Input dz, int axis, Output dx, Output dy) {
  const Alignment operands(context, x.view(), y.view(), axis);
  const View &a = operands.first, &b = operands.second, gradient = dz.view();
  const int function = is_complex(gradient.dtype) ? uhal_map_multiply_conjugate : uhal_map_multiply;
  map_then_sum(context, function, {&gradient, &a}, gradient, b, dy);
  map_then_sum(context, function, {&gradient, &b}, gradient, a, dx);
}

void divide_grad(Context context, Input x, Input y, Input, Input dz, int axis, Output dx, Output dy) {
  const Alignment operands(context, x.view(), y.view(), axis);
  const View &a = operands.first, &b = operands.second, gradient = dz.view();
  map_then_sum(context, uhal_map_divide_backward_divisor, {&a, &b, &gradient}, gradient, b, dy);
  const int function = is_complex(gradient.dtype) ? uhal_map_divide_conjugate : uhal_map_divide;
  map_then_sum(context, function, {&gradient, &b}, gradient, a, dx);
}

// Equal operands share the gradient evenly.
template <int first, int second>
void choose_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, second, {&a, &b, &gradient}, gradient, b, dy, {0.5});
  map_then_sum(context, first, {&a, &b, &gradient}, gradient, a, dx, {0.5});
}

// x + weight * (y - x)
void lerp(Context context, Input x, Input y, Input weight, Output z) {
  const View a = x.view(), b = y.view(), w = weight.view();
  require_same_dtype(context, a, b);
  require_same_dtype(context, a, w);
  const View out = context.allocate(z, a.dtype);
  context.map(uhal_map_linear_interpolation, {&a, &b, &w}, {&out});
}

// A float32 sum of gradients takes float16 and bfloat16 ones, as on Paddle's other devices.
void add(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  if (a.dtype != UHAL_FLOAT32 || !is_floating(b.dtype) || b.dtype == UHAL_FLOAT64) require_same_dtype(context, a, b);
  const View out = context.allocate(z, a.dtype);
  context.map(uhal_map_add, {&a, &b}, {&out});
}

// Gradients of functions of two operands that broadcast: each by its own function of x, y and dz
template <int first, int second>
void binary_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, second, {&a, &b, &gradient}, gradient, b, dy);
  map_then_sum(context, first, {&a, &b, &gradient}, gradient, a, dx);
}

// |x| with the sign of y has no gradient to y.
void copysign_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  if (dy) fill_zero(context, context.allocate(dy, b.dtype));
  map_then_sum(context, uhal_map_copysign_backward, {&a, &b, &gradient}, gradient, a, dx);
}

// A step has no gradient, but for its value at 0.
void heaviside_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, uhal_map_heaviside_backward_second, {&a, &gradient}, gradient, b, dy);
  if (dx) fill_zero(context, context.allocate(dx, a.dtype));
}

// The upper incomplete gamma function has no gradient to its shape in Paddle.
void gammaincc_grad(Context context, Input x, Input y, Input dz, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  map_then_sum(context, uhal_map_igammac_backward_second, {&a, &b, &gradient}, gradient, b, dy);
}

// The derivative of order n of digamma
void polygamma(Context context, Input x, int n, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const Scratch order(context, in.dtype, nullptr, 0);
  fill(context, order, n, n);
  context.map(uhal_map_polygamma, {&order, &in}, {&out});
}
void polygamma_grad(Context context, Input x, Input dy, int n, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch order(context, in.dtype, nullptr, 0);
  fill(context, order, n, n);
  context.map(uhal_map_polygamma_backward, {&order, &in, &gradient}, {&out});
}

// log(x / (1 - x)) of x within [epsilon, 1 - epsilon]; NaN outside of [0, 1] if epsilon is 0
template <class Epsilon>
void logit(Context context, Input x, Epsilon epsilon, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const Scratch inside(context, accumulator(in.dtype), in), rest(context, inside.dtype, in);
  const auto least = static_cast<double>(epsilon);
  if (least != 0) {
    // Of an epsilon above 0.5 the lower bound is above the upper one, and has the last word.
    context.map(uhal_map_clip, {&in}, {&inside}, {std::min(least, 1 - least), 1 - least});
    if (least > 1 - least) context.map(uhal_map_clip, {&inside}, {&inside}, {least, HUGE_VAL});
  } else {
    copy_or_cast(context, in, inside);
  }
  context.map(uhal_map_scale, {&inside}, {&rest}, {-1, 1});
  context.map(uhal_map_divide, {&inside, &rest}, {&inside});
  context.map(uhal_map_log, {&inside}, {&out});
}

// silu(x) * y; without y, of the two halves of x's last axis
void swiglu(Context context, Input x, OptionalInput y, Output z) {
  const View in = x.view(), out = context.allocate(z, in.dtype);
  if (y) require_same_dtype(context, in, y.view());
  if (out.elements() == 0) return;
  const int last = in.rank - 1;
  const int64_t half = in.shape[last] / 2;
  const View gate = y ? in : in.sliced(last, 0, half), value = y ? y.view() : in.sliced(last, half, half);
  const Scratch activated(context, accumulator(in.dtype), out);
  context.map(uhal_map_silu, {&gate}, {&activated});
  context.map(uhal_map_multiply, {&activated, &value}, {&out});
}

// Of a silu(x) * y: dy * y * silu'(x), and dy * silu(x)
void swiglu_grad(Context context, Input x, OptionalInput y, Input dz, Output dx, Output dy) {
  const View in = x.view(), gradient = dz.view();
  const View out = dx ? context.allocate(dx, in.dtype) : View();
  const View second = y && dy ? context.allocate(dy, in.dtype) : View();
  if (gradient.elements() == 0) {
    if (dx && out.elements() > 0) fill_zero(context, out);
    if (y && dy && second.elements() > 0) fill_zero(context, second);
    return;
  }
  const int last = in.rank - 1;
  const int64_t half = in.shape[last] / 2;
  const View gate = y ? in : in.sliced(last, 0, half), value = y ? y.view() : in.sliced(last, half, half);
  const Scratch part(context, accumulator(in.dtype), gradient);
  if (dx) {
    const View to = y ? out : out.sliced(last, 0, half);
    context.map(uhal_map_multiply, {&gradient, &value}, {&part});
    context.map(uhal_map_silu_backward, {&gate, &part}, {&to});
  }
  if (y ? static_cast<bool>(dy) : static_cast<bool>(dx)) {
    const View to = y ? second : out.sliced(last, half, half);
    context.map(uhal_map_silu, {&gate}, {&part});
    context.map(uhal_map_multiply, {&part, &gradient}, {&to});
  }
}

// d(x + weight * (y - x)); the weight has no gradient in Paddle.
void lerp_grad(Context context, Input, Input, Input weight, Input, Input dz, Output dx, Output dy) {
  const View w = weight.view(), gradient = dz.view();
  const Scratch part(context, accumulator(gradient.dtype), gradient), rest(context, part.dtype, w);
  if (dy) {
    const View out = context.allocate(dy, gradient.dtype);
    context.map(uhal_map_multiply, {&gradient, &w}, {&part});
    sum_to_shape(context, part, out);
  }
  if (dx) {
    const View out = context.allocate(dx, gradient.dtype);
    context.map(uhal_map_scale, {&w}, {&rest}, {-1, 1});
    context.map(uhal_map_multiply, {&gradient, &rest}, {&part});
    sum_to_shape(context, part, out);
  }
}

// d(x^y): y * x^(y - 1) * dz, 0 where y is 0; log(x) * x^y * dz, 0 where x is 0 and y is not negative
void power_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  const View first = dx ? context.allocate(dx, a.dtype) : View(), second = dy ? context.allocate(dy, b.dtype) : View();
  const uhal_dtype dtype = working(a.dtype);
  const int times = times_conjugate(dtype);
  const Scratch zero(context, dtype, nullptr, 0), part(context, dtype, gradient), test(context, UHAL_BOOL, gradient);
  const Scratch result(context, dtype, gradient);
  const Scratch zero_real(context, real_of(dtype), nullptr, 0);
  fill_zero(context, zero);
  fill_zero(context, zero_real);
  if (dy) {
    const Scratch logarithm(context, dtype, a), is_zero(context, UHAL_BOOL, a), not_negative(context, UHAL_BOOL, b);
    context.map(uhal_map_log, {&a}, {&logarithm});
    context.map(uhal_map_power, {&a, &b}, {&part});
    context.map(uhal_map_multiply, {&part, &logarithm}, {&part});
    context.map(times, {&gradient, &part}, {&part});
    context.map(uhal_map_equal, {&a, &zero}, {&is_zero});
    if (is_complex(dtype)) {
      const Scratch real(context, real_of(dtype), b);
      context.map(uhal_map_real, {&b}, {&real});
      context.map(uhal_map_greater_equal, {&real, &zero_real}, {&not_negative});
    } else {
      context.map(uhal_map_greater_equal, {&b, &zero}, {&not_negative});
    }
    context.map(uhal_map_logical_and, {&is_zero, &not_negative}, {&test});
    context.map(uhal_map_select, {&test, &zero, &part}, {&result});
    sum_to_shape(context, result, second);
  }
  if (dx) {
    const Scratch less(context, dtype, b), is_zero(context, UHAL_BOOL, b);
    context.map(uhal_map_scale, {&b}, {&less}, {1, -1});
    context.map(uhal_map_power, {&a, &less}, {&part});
    context.map(uhal_map_multiply, {&part, &b}, {&part});
    context.map(times, {&gradient, &part}, {&part});
    context.map(uhal_map_equal, {&b, &zero}, {&is_zero});
    context.map(uhal_map_select, {&is_zero, &zero, &part}, {&result});
    sum_to_shape(context, result, first);
  }
}

// x - floor(x / y) * y
void remainder_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  if (dy) {
    const View out = context.allocate(dy, b.dtype);
    const Scratch part(context, accumulator(a.dtype), gradient);
    context.map(uhal_map_divide, {&a, &b}, {&part});
    context.map(uhal_map_floor, {&part}, {&part});
    context.map(uhal_map_multiply, {&part, &gradient}, {&part});
    context.map(uhal_map_negative, {&part}, {&part});
    sum_to_shape(context, part, out);
  }
  if (dx) sum_to_shape(context, gradient, context.allocate(dx, a.dtype));
}

// d atan2(x, y): y * dz / (x^2 + y^2), -x * dz / (x^2 + y^2)
void atan2_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  const uhal_dtype dtype = accumulator(a.dtype);
  const Scratch divisor(context, dtype, gradient), part(context, dtype, gradient), square(context, dtype, b);
  context.map(uhal_map_square, {&b}, {&square});
  context.map(uhal_map_multiply_add, {&a, &a, &square}, {&divisor});
  if (dy) {
    const View out = context.allocate(dy, b.dtype);
    context.map(uhal_map_multiply, {&a, &gradient}, {&part});
    context.map(uhal_map_negative, {&part}, {&part});
    context.map(uhal_map_divide, {&part, &divisor}, {&part});
    sum_to_shape(context, part, out);
  }
  if (dx) {
    const View out = context.allocate(dx, a.dtype);
    context.map(uhal_map_multiply, {&b, &gradient}, {&part});
    context.map(uhal_map_divide, {&part, &divisor}, {&part});
    sum_to_shape(context, part, out);
  }
}

// The product of vectors, or of rows of matrices
void dot(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view(), out = context.allocate(z, a.dtype);
  require_same_dtype(context, a, b);
  if (a.rank == 0) return context.map(uhal_map_multiply, {&a, &b}, {&out});
  const Scratch products(context, is_floating(a.dtype) ? accumulator(a.dtype) : a.dtype, a);
  context.map(uhal_map_multiply, {&a, &b}, {&products});
  sum_to_shape(context, products, out.reshaped(a.with_axis_one(a.rank - 1).shape, a.rank));
}
void dot_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view();
  const View gradient = a.rank == 0 ? dz.view() : dz.view().reshaped(a.with_axis_one(a.rank - 1).shape, a.rank);
  for (const auto& [other, output] : {std::pair(&a, dy), std::pair(&b, dx)}) {
    if (!output) continue;
    const View out = context.allocate(output, a.dtype);
    context.map(times_conjugate(a.dtype), {&gradient, other}, {&out});
  }
}

}  // namespace

KernelTable arithmetic_kernels() {
  return {
      UNIHAL_KERNEL("add", kEvery, add),
      UNIHAL_KERNEL("atan2", kFloats, binary<uhal_map_atan2>),
      UNIHAL_KERNEL("divide", kNumbers | kComplex, binary<uhal_map_divide>),
      UNIHAL_KERNEL("elementwise_pow", kNumbers | kComplex, binary<uhal_map_power>),
      UNIHAL_KERNEL("floor_divide", kNumbers, floor_divide),
      UNIHAL_KERNEL("maximum", kNumbers, binary<uhal_map_maximum>),
      UNIHAL_KERNEL("minimum", kNumbers, binary<uhal_map_minimum>),
      UNIHAL_KERNEL("multiply", kEvery, binary<uhal_map_multiply>),
      UNIHAL_KERNEL("remainder", kNumbers, binary<uhal_map_floor_mod>),
      UNIHAL_KERNEL("subtract", kNumbers | kComplex, binary<uhal_map_subtract>),
      UNIHAL_KERNEL("trunc_divide", kNumbers, binary<uhal_map_truncate_divide>),
      UNIHAL_KERNEL("copysign", kFloats, binary<uhal_map_copysign>),
      UNIHAL_KERNEL("heaviside", kNumbers, binary<uhal_map_heaviside>),
      UNIHAL_KERNEL("nextafter", kWideFloats, binary<uhal_map_nextafter>),
      UNIHAL_KERNEL("gammaincc", kFloats, binary<uhal_map_igammac>),
      UNIHAL_KERNEL("polygamma", kFloats, polygamma),
      UNIHAL_KERNEL("logit", kFloats, logit<float>),
      UNIHAL_KERNEL("logit", kFloats, logit<double>),
      UNIHAL_KERNEL("lerp", kFloats, lerp),
      UNIHAL_KERNEL("swiglu", kFloats, swiglu),
      UNIHAL_KERNEL("grad_add", kFloats | kComplex, binary<uhal_map_add>),

      UNIHAL_KERNEL("add_raw", kEvery, binary_at<uhal_map_add>),
      UNIHAL_KERNEL("divide_raw", kNumbers | kComplex, binary_at<uhal_map_divide>),
      UNIHAL_KERNEL("elementwise_pow_raw", kNumbers | kComplex, binary_at<uhal_map_power>),
      UNIHAL_KERNEL("equal_raw", kEvery, binary_test_at<uhal_map_equal>),
      UNIHAL_KERNEL("floor_divide_raw", kNumbers, floor_divide_at),
      UNIHAL_KERNEL("greater_equal_raw", kReal, binary_test_at<uhal_map_greater_equal>),
      UNIHAL_KERNEL("greater_than_raw", kReal, binary_test_at<uhal_map_greater>),
      UNIHAL_KERNEL("less_equal_raw", kReal, binary_test_at<uhal_map_less_equal>),
      UNIHAL_KERNEL("less_than_raw", kReal, binary_test_at<uhal_map_less>),
      UNIHAL_KERNEL("maximum_raw", kNumbers, binary_at<uhal_map_maximum>),
      UNIHAL_KERNEL("minimum_raw", kNumbers, binary_at<uhal_map_minimum>),
      UNIHAL_KERNEL("multiply_raw", kEvery, binary_at<uhal_map_multiply>),
      UNIHAL_KERNEL("not_equal_raw", kEvery, binary_test_at<uhal_map_not_equal>),
      UNIHAL_KERNEL("remainder_raw", kNumbers, binary_at<uhal_map_floor_mod>),
      UNIHAL_KERNEL("subtract_raw", kNumbers | kComplex, binary_at<uhal_map_subtract>),

      UNIHAL_KERNEL("dot", kFloats | kInt32And64 | kComplex, dot),
      UNIHAL_KERNEL("dot_grad", kFloats | kInt32And64 | kComplex, dot_grad),

      UNIHAL_KERNEL("atan2_grad", kFloats, atan2_grad),
      UNIHAL_KERNEL("elementwise_pow_grad", kFloats | kComplex, power_grad),
      UNIHAL_KERNEL("lerp_grad", kFloats, lerp_grad),
      UNIHAL_KERNEL("remainder_grad", kFloats, remainder_grad),
      UNIHAL_KERNEL("swiglu_grad", kFloats, swiglu_grad),
      UNIHAL_KERNEL("add_grad", kNumbers | kComplex, add_grad<false>),
      UNIHAL_KERNEL("copysign_grad", kFloats, copysign_grad),
      UNIHAL_KERNEL("divide_grad", kFloats | kComplex, divide_grad),
      UNIHAL_KERNEL("fmax_grad", kFloats, binary_grad<uhal_map_fmax_backward_first, uhal_map_fmax_backward_second>),
      UNIHAL_KERNEL("fmin_grad", kFloats, binary_grad<uhal_map_fmin_backward_first, uhal_map_fmin_backward_second>),
      UNIHAL_KERNEL("gammaincc_grad", kFloats, gammaincc_grad),
      UNIHAL_KERNEL("heaviside_grad", kFloats, heaviside_grad),
      UNIHAL_KERNEL("maximum_grad", kFloats,
                    choose_grad<uhal_map_maximum_backward_first, uhal_map_maximum_backward_second>),
      UNIHAL_KERNEL("minimum_grad", kFloats,
                    choose_grad<uhal_map_minimum_backward_first, uhal_map_minimum_backward_second>),
      UNIHAL_KERNEL("multiply_grad", kFloats | kComplex, multiply_grad),
      UNIHAL_KERNEL("polygamma_grad", kFloats, polygamma_grad),
      UNIHAL_KERNEL("subtract_grad", kFloats | kComplex, add_grad<true>),
  };
}

}  // namespace unihal::paddle
