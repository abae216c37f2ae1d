// Unary functions and activations, and their gradients.
#include <algorithm>
#include <cmath>

#include "plugins/paddle/kernels/maps.h"

namespace unihal::paddle {
namespace {

// Number: float or double, by Paddle's version.

template <int function, class... Numbers>
void unary_with(Context context, Input x, Numbers... numbers, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  context.map(function, {&in}, {&out}, {static_cast<double>(numbers)...});
}

template <int function, class... Numbers>
void gradient_with(Context context, Input operand, Input dy, Numbers... numbers, Output dx) {
  const View a = operand.view(), b = dy.view();
  const View out = context.allocate(dx, a.dtype);
  context.map(function, {&a, &b}, {&out}, {static_cast<double>(numbers)...});
}

void gelu(Context context, Input x, bool approximate, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  context.map(approximate ? uhal_map_gelu_tanh : uhal_map_gelu_erf, {&in}, {&out});
}

void gelu_grad(Context context, Input x, Input dy, bool approximate, Output dx) {
  const View a = x.view(), b = dy.view();
  const View out = context.allocate(dx, a.dtype);
  context.map(approximate ? uhal_map_gelu_tanh_backward : uhal_map_gelu_erf_backward, {&a, &b}, {&out});
}

// x * clip(x + 3, 0, 6) / 6
void hardswish(Context context, Input x, Output y) {
  unary_with<uhal_map_hard_swish, double, double, double>(context, x, 6, 6, 3, y);
}
void hardswish_grad(Context context, Input x, Input dy, Output dx) {
  gradient_with<uhal_map_hard_swish_backward, double, double, double>(context, x, dy, 6, 6, 3, dx);
}

void swish(Context context, Input x, Output y) { unary<uhal_map_silu>(context, x, y); }
void swish_grad(Context context, Input x, Input dy, Output dx) { gradient<uhal_map_silu_backward>(context, x, dy, dx); }

void elu_grad(Context context, Input x, Input, Input dy, float alpha, Output dx) {
  gradient_with<uhal_map_elu_backward, float>(context, x, dy, alpha, dx);
}

void pow_scalar(Context context, Input x, Scalar exponent, Output y) {
  unary_with<uhal_map_power_scalar, double>(context, x, exponent.number(), y);
}
void pow_scalar_grad(Context context, Input x, Input dy, Scalar exponent, Output dx) {
  gradient_with<uhal_map_power_scalar_backward, double>(context, x, dy, exponent.number(), dx);
}

void clip(Context context, Input x, Scalar low, Scalar high, Output y) {
  if (!(low.number() <= high.number())) {
    invalid(context,
            "min is " + std::to_string(low.number()) + ", above max, which is " + std::to_string(high.number()));
  }
  unary_with<uhal_map_clip, double, double>(context, x, low.number(), high.number(), y);
}
void clip_grad(Context context, Input x, Input dy, Scalar low, Scalar high, Output dx) {
  gradient_with<uhal_map_clip_backward, double, double>(context, x, dy, low.number(), high.number(), dx);
}

void scale(Context context, Input x, Scalar factor, Scalar bias, bool bias_after_scale, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  context.map(bias_after_scale ? uhal_map_scale : uhal_map_add_then_scale, {&in}, {&out},
              {factor.number(), bias.number()});
}

void div_scale(Context context, Input x, Scalar divisor, Output y) {
  unary_with<uhal_map_scale, double, double>(context, x, 1 / divisor.number(), 0, y);
}

void log_grad(Context context, Input x, Input dy, Output dx) { binary<uhal_map_divide>(context, dy, x, dx); }

// mish's threshold only chooses between two ways to compute the same
void mish(Context context, Input x, float, Output y) { unary<uhal_map_mish>(context, x, y); }

void round_to(Context context, Input x, int decimals, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (decimals == 0) return context.map(uhal_map_round_half_to_even, {&in}, {&out});
  const double power = std::pow(10.0, decimals);
  const Scratch scaled(context, accumulator(in.dtype), in);
  context.map(uhal_map_scale, {&in}, {&scaled}, {power, 0});
  context.map(uhal_map_round_half_to_even, {&scaled}, {&scaled});
  context.map(uhal_map_scale, {&scaled}, {&out}, {1 / power, 0});
}

// dx = dy / (x + 1)
void log1p_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch divisor(context, accumulator(in.dtype), in);
  context.map(uhal_map_scale, {&in}, {&divisor}, {1, 1});
  context.map(uhal_map_divide, {&gradient, &divisor}, {&out});
}

// dx = dy / x / log(base). x itself divides: scaled, a negative zero would lose its sign.
template <int base>
void logarithm_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch quotient(context, accumulator(in.dtype), in);
  context.map(uhal_map_divide, {&gradient, &in}, {&quotient});
  context.map(uhal_map_scale, {&quotient}, {&out}, {1 / std::log(base), 0});
}

// At 0 the slope is that of the positive side.
template <class Number>
void leaky_relu_grad(Context context, Input x, Input dy, Number slope, Output dx) {
  gradient_with<uhal_map_leaky_relu_backward, double, double>(context, x, dy, static_cast<double>(slope), 1, dx);
}

// Of limits in the wrong order the upper one wins.
void hardtanh(Context context, Input x, float low, float high, Output y) {
  unary_with<uhal_map_hard_tanh, float, float>(context, x, std::min(low, high), high, y);
}

// dx = dy * (y + 1)
void expm1_grad(Context context, Input y, Input dy, Output dx) {
  const View forward = y.view(), gradient = dy.view(), out = context.allocate(dx, forward.dtype);
  const Scratch factor(context, accumulator(forward.dtype), forward);
  context.map(uhal_map_scale, {&forward}, {&factor}, {1, 1});
  context.map(uhal_map_multiply, {&gradient, &factor}, {&out});
}

}  // namespace

KernelTable activation_kernels() {
  return {
      UNIHAL_KERNEL("abs", kNumbers, unary<uhal_map_absolute>),
      UNIHAL_KERNEL("acos", kFloats, unary<uhal_map_acos>),
      UNIHAL_KERNEL("acosh", kFloats, unary<uhal_map_acosh>),
      UNIHAL_KERNEL("asin", kFloats, unary<uhal_map_asin>),
      UNIHAL_KERNEL("asinh", kFloats, unary<uhal_map_asinh>),
      UNIHAL_KERNEL("atan", kFloats, unary<uhal_map_atan>),
      UNIHAL_KERNEL("atanh", kFloats, unary<uhal_map_atanh>),
      UNIHAL_KERNEL("ceil", kFloats, unary<uhal_map_ceil>),
      UNIHAL_KERNEL("cos", kFloats, unary<uhal_map_cos>),
      UNIHAL_KERNEL("cosh", kFloats, unary<uhal_map_cosh>),
      UNIHAL_KERNEL("erf", kFloats, unary<uhal_map_erf>),
      UNIHAL_KERNEL("exp", kFloats, unary<uhal_map_exp>),
      UNIHAL_KERNEL("expm1", kFloats, unary<uhal_map_expm1>),
      UNIHAL_KERNEL("floor", kFloats, unary<uhal_map_floor>),
      UNIHAL_KERNEL("log", kFloats, unary<uhal_map_log>),
      UNIHAL_KERNEL("log10", kFloats, unary<uhal_map_log10>),
      UNIHAL_KERNEL("log1p", kFloats, unary<uhal_map_log1p>),
      UNIHAL_KERNEL("log2", kFloats, unary<uhal_map_log2>),
      UNIHAL_KERNEL("logsigmoid", kFloats, unary<uhal_map_log_sigmoid>),
      UNIHAL_KERNEL("reciprocal", kFloats, unary<uhal_map_reciprocal>),
      UNIHAL_KERNEL("relu", kNumbers, unary<uhal_map_relu>),
      UNIHAL_KERNEL("relu6", kFloats, unary<uhal_map_relu6>),
      UNIHAL_KERNEL("rsqrt", kFloats, unary<uhal_map_rsqrt>),
      UNIHAL_KERNEL("sigmoid", kFloats, unary<uhal_map_sigmoid>),
      UNIHAL_KERNEL("sign", kNumbers, unary<uhal_map_sign>),
      UNIHAL_KERNEL("silu", kFloats, unary<uhal_map_silu>),
      UNIHAL_KERNEL("sin", kFloats, unary<uhal_map_sin>),
      UNIHAL_KERNEL("sinh", kFloats, unary<uhal_map_sinh>),
      UNIHAL_KERNEL("softsign", kFloats, unary<uhal_map_softsign>),
      UNIHAL_KERNEL("sqrt", kFloats, unary<uhal_map_sqrt>),
      UNIHAL_KERNEL("square", kNumbers, unary<uhal_map_square>),
      UNIHAL_KERNEL("swish", kFloats, swish),
      UNIHAL_KERNEL("tan", kFloats, unary<uhal_map_tan>),
      UNIHAL_KERNEL("tanh", kFloats, unary<uhal_map_tanh>),
      UNIHAL_KERNEL("trunc", kFloats, unary<uhal_map_truncate>),

      UNIHAL_KERNEL("digamma", kFloats, unary<uhal_map_digamma>),
      UNIHAL_KERNEL("erfinv", kFloats, unary<uhal_map_erfinv>),
      UNIHAL_KERNEL("gammaln", kFloats, unary<uhal_map_lgamma>),
      UNIHAL_KERNEL("i0", kFloats, unary<uhal_map_bessel_i0>),
      UNIHAL_KERNEL("i0e", kFloats, unary<uhal_map_bessel_i0e>),
      UNIHAL_KERNEL("i1", kFloats, unary<uhal_map_bessel_i1>),
      UNIHAL_KERNEL("i1e", kFloats, unary<uhal_map_bessel_i1e>),
      UNIHAL_KERNEL("lgamma", kFloats, unary<uhal_map_lgamma>),

      UNIHAL_KERNEL("clip", kNumbers, clip),
      UNIHAL_KERNEL("div_scale", kFloats, div_scale),
      UNIHAL_KERNEL("elu", kFloats, unary_with<uhal_map_elu, float>),
      UNIHAL_KERNEL("gelu", kFloats, gelu),
      UNIHAL_KERNEL("hardsigmoid", kFloats, unary_with<uhal_map_hard_sigmoid, float, float>),
      UNIHAL_KERNEL("hardswish", kFloats, hardswish),
      UNIHAL_KERNEL("hardtanh", kFloats, hardtanh),
      UNIHAL_KERNEL("hard_shrink", kFloats, unary_with<uhal_map_hard_shrink, float>),
      UNIHAL_KERNEL("leaky_relu", kFloats, unary_with<uhal_map_leaky_relu, float>),
      UNIHAL_KERNEL("leaky_relu", kFloats, unary_with<uhal_map_leaky_relu, double>),
      UNIHAL_KERNEL("pow", kFloats | kInt32And64, pow_scalar),
      UNIHAL_KERNEL("scale", kNumbers, scale),
      UNIHAL_KERNEL("selu", kFloats, unary_with<uhal_map_selu, float, float>),
      UNIHAL_KERNEL("softplus", kFloats, unary_with<uhal_map_softplus, float, float>),
      UNIHAL_KERNEL("softplus", kFloats, unary_with<uhal_map_softplus, double, double>),
      UNIHAL_KERNEL("softshrink", kFloats, unary_with<uhal_map_soft_shrink, float>),

      UNIHAL_KERNEL("mish", kFloats, mish),
      UNIHAL_KERNEL("round", kFloats, round_to),
      UNIHAL_KERNEL("thresholded_relu", kFloats, unary_with<uhal_map_thresholded_relu, float, float>),

      UNIHAL_KERNEL("abs_grad", kFloats, gradient<uhal_map_absolute_backward>),
      UNIHAL_KERNEL("ceil_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("clip_grad", kFloats, clip_grad),
      UNIHAL_KERNEL("cos_grad", kFloats, gradient<uhal_map_cos_backward>),
      UNIHAL_KERNEL("digamma_grad", kFloats, gradient<uhal_map_digamma_backward>),
      UNIHAL_KERNEL("erfinv_grad", kFloats, gradient<uhal_map_erfinv_backward>),
      UNIHAL_KERNEL("gammaln_grad", kFloats, gradient<uhal_map_lgamma_backward>),
      UNIHAL_KERNEL("i0_grad", kFloats, gradient<uhal_map_bessel_i0_backward>),
      UNIHAL_KERNEL("i0e_grad", kFloats, gradient_of_input<uhal_map_bessel_i0e_backward>),
      UNIHAL_KERNEL("i1_grad", kFloats, gradient_of_input<uhal_map_bessel_i1_backward>),
      UNIHAL_KERNEL("i1e_grad", kFloats, gradient_of_input<uhal_map_bessel_i1e_backward>),
      UNIHAL_KERNEL("lgamma_grad", kFloats, gradient<uhal_map_lgamma_backward>),
      UNIHAL_KERNEL("elu_grad", kFloats, elu_grad),
      UNIHAL_KERNEL("erf_grad", kFloats, gradient<uhal_map_erf_backward>),
      UNIHAL_KERNEL("exp_grad", kFloats, gradient<uhal_map_multiply>),
      UNIHAL_KERNEL("expm1_grad", kFloats, expm1_grad),
      UNIHAL_KERNEL("floor_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("gelu_grad", kFloats, gelu_grad),
      UNIHAL_KERNEL("hardsigmoid_grad", kFloats, gradient_with<uhal_map_hard_sigmoid_backward, float, float>),
      UNIHAL_KERNEL("hardswish_grad", kFloats, hardswish_grad),
      UNIHAL_KERNEL("hardtanh_grad", kFloats, gradient_with<uhal_map_hard_tanh_backward, float, float>),
      UNIHAL_KERNEL("leaky_relu_grad", kFloats, leaky_relu_grad<float>),
      UNIHAL_KERNEL("leaky_relu_grad", kFloats, leaky_relu_grad<double>),
      UNIHAL_KERNEL("log_grad", kFloats, log_grad),
      UNIHAL_KERNEL("log10_grad", kFloats, logarithm_grad<10>),
      UNIHAL_KERNEL("log1p_grad", kFloats, log1p_grad),
      UNIHAL_KERNEL("log2_grad", kFloats, logarithm_grad<2>),
      UNIHAL_KERNEL("logsigmoid_grad", kFloats, gradient<uhal_map_log_sigmoid_backward>),
      UNIHAL_KERNEL("pow_grad", kFloats, pow_scalar_grad),
      UNIHAL_KERNEL("reciprocal_grad", kFloats, gradient<uhal_map_reciprocal_backward>),
      UNIHAL_KERNEL("relu6_grad", kFloats, gradient<uhal_map_relu6_backward>),
      UNIHAL_KERNEL("relu_grad", kFloats, gradient<uhal_map_relu_backward>),
      UNIHAL_KERNEL("round_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("rsqrt_grad", kFloats, gradient<uhal_map_rsqrt_backward>),
      UNIHAL_KERNEL("selu_grad", kFloats, gradient_with<uhal_map_selu_backward, float, float>),
      UNIHAL_KERNEL("sigmoid_grad", kFloats, gradient<uhal_map_sigmoid_backward>),
      UNIHAL_KERNEL("silu_grad", kFloats, gradient_of_input<uhal_map_silu_backward>),
      UNIHAL_KERNEL("sin_grad", kFloats, gradient<uhal_map_sin_backward>),
      UNIHAL_KERNEL("softplus_grad", kFloats, gradient_with<uhal_map_softplus_backward, float, float>),
      UNIHAL_KERNEL("softplus_grad", kFloats, gradient_with<uhal_map_softplus_backward, double, double>),
      UNIHAL_KERNEL("softsign_grad", kFloats, gradient<uhal_map_softsign_backward>),
      UNIHAL_KERNEL("sqrt_grad", kFloats, gradient<uhal_map_sqrt_backward>),
      UNIHAL_KERNEL("square_grad", kFloats, gradient<uhal_map_square_backward>),
      UNIHAL_KERNEL("swish_grad", kFloats, swish_grad),
      UNIHAL_KERNEL("tanh_grad", kFloats, gradient<uhal_map_tanh_backward>),
  };
}

}  // namespace unihal::paddle
