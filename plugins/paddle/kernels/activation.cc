// Unary functions and activations, and their gradients.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "plugins/paddle/kernels/maps.h"
#include "plugins/paddle/phi_types.h"

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

// A Scalar is read as a real number; Paddle makes complex ones of real numbers where the operand is complex.
void require_real(const Context& context, Scalar number) {
  if (number.imaginary() != 0) unsupported(context, "a complex number as an attribute");
}

void pow_scalar(Context context, Input x, Scalar exponent, Output y) {
  require_real(context, exponent);
  unary_with<uhal_map_power_scalar, double>(context, x, exponent.number(), y);
}
void pow_scalar_grad(Context context, Input x, Input dy, Scalar exponent, Output dx) {
  require_real(context, exponent);
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

// The magnitude of complex numbers is real.
void absolute(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, real_of(in.dtype));
  context.map(uhal_map_absolute, {&in}, {&out});
}

void scale(Context context, Input x, Scalar factor, Scalar bias, bool bias_after_scale, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  if (factor.imaginary() != 0 || bias.imaginary() != 0) {
    if (!is_complex(in.dtype)) unsupported(context, "a complex factor of real numbers");
    const Scratch multiplier(context, in.dtype, nullptr, 0), added(context, in.dtype, nullptr, 0);
    const Scratch part(context, in.dtype, in);
    fill(context, multiplier, factor);
    fill(context, added, bias);
    context.map(bias_after_scale ? uhal_map_multiply : uhal_map_add, {&in, bias_after_scale ? &multiplier : &added},
                {&part});
    return context.map(bias_after_scale ? uhal_map_add : uhal_map_multiply,
                       {&part, bias_after_scale ? &added : &multiplier}, {&out});
  }
  context.map(bias_after_scale ? uhal_map_scale : uhal_map_add_then_scale, {&in}, {&out},
              {factor.number(), bias.number()});
}

void div_scale(Context context, Input x, Scalar divisor, Output y) {
  if (divisor.imaginary() == 0) {
    return unary_with<uhal_map_scale, double, double>(context, x, 1 / divisor.number(), 0, y);
  }
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const Scratch number(context, in.dtype, nullptr, 0);
  fill(context, number, divisor);
  context.map(uhal_map_divide, {&in, &number}, {&out});
}

// dx = dy / x
void log_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  require_same_dtype(context, in, gradient);
  context.map(by_conjugate(in.dtype), {&gradient, &in}, {&out});
}

// dx = dy * y
void exp_grad(Context context, Input y, Input dy, Output dx) {
  const View forward = y.view(), gradient = dy.view(), out = context.allocate(dx, forward.dtype);
  context.map(times_conjugate(forward.dtype), {&gradient, &forward}, {&out});
}

// mish's threshold only chooses between two ways to compute the same
void mish(Context context, Input x, float, Output y) { unary<uhal_map_mish>(context, x, y); }

void round_to(Context context, Input x, int decimals, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (is_integer(in.dtype) && decimals >= 0) return copy_or_cast(context, in, out);
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
  const Scratch divisor(context, working(in.dtype), in);
  context.map(uhal_map_scale, {&in}, {&divisor}, {1, 1});
  context.map(by_conjugate(in.dtype), {&gradient, &divisor}, {&out});
}

// dx = dy / x / log(base). x itself divides: scaled, a negative zero would lose its sign.
template <int base>
void logarithm_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch quotient(context, working(in.dtype), in);
  context.map(by_conjugate(in.dtype), {&gradient, &in}, {&quotient});
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
  const Scratch factor(context, working(forward.dtype), forward);
  context.map(uhal_map_scale, {&forward}, {&factor}, {1, 1});
  context.map(times_conjugate(forward.dtype), {&gradient, &factor}, {&out});
}

// dx = dy * function(x), or dy / function(x), where the function is of several steps
class Slope : public Scratch {
 public:
  Slope(const Context& context, const View& x) : Scratch(context, working(x.dtype), x), context_(context) {}
  Slope& of(int function, const View& x, std::initializer_list<double> parameters = {}) {
    context_.map(function, {&x}, {this}, parameters);
    return *this;
  }
  Slope& then(int function, std::initializer_list<double> parameters = {}) { return of(function, *this, parameters); }
  Slope& with(int function, const View& other) {
    context_.map(function, {this, &other}, {this});
    return *this;
  }
  void times(Input dy, Output dx, uhal_dtype dtype) const { finish(times_conjugate(dtype), dy, dx, dtype); }
  void divides(Input dy, Output dx, uhal_dtype dtype) const { finish(by_conjugate(dtype), dy, dx, dtype); }

 private:
  void finish(int function, Input dy, Output dx, uhal_dtype dtype) const {
    const View gradient = dy.view(), out = context_.allocate(dx, dtype);
    context_.map(function, {&gradient, this}, {&out});
  }
  const Context& context_;
};

// dx = dy * function(x)
template <int function>
void slope_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope(context, in).of(function, in).times(dy, dx, in.dtype);
}

// dx = dy / sqrt(factor * x^2 + constant)
template <int factor, int constant>
void inverse_root_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope slope(context, in);
  slope.of(uhal_map_square, in).then(uhal_map_scale, {factor, constant}).then(uhal_map_sqrt).divides(dy, dx, in.dtype);
}
void acos_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope slope(context, in);
  slope.of(uhal_map_square, in).then(uhal_map_scale, {-1, 1}).then(uhal_map_sqrt).then(uhal_map_negative);
  slope.divides(dy, dx, in.dtype);
}

// dx = dy / (factor * x^2 + 1)
template <int factor>
void inverse_tangent_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope(context, in).of(uhal_map_square, in).then(uhal_map_scale, {factor, 1}).divides(dy, dx, in.dtype);
}

void tan_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope(context, in).of(uhal_map_cos, in).then(uhal_map_square).divides(dy, dx, in.dtype);
}

// With s = softplus(x): tanh(s) + x * (1 - tanh(s)^2) * sigmoid(x)
void mish_grad(Context context, Input x, Input dy, float threshold, Output dx) {
  const View in = x.view();
  Slope hyperbolic(context, in), slope(context, in), sigmoid(context, in);
  hyperbolic.of(uhal_map_softplus, in, {1, static_cast<double>(threshold)}).then(uhal_map_tanh);
  sigmoid.of(uhal_map_sigmoid, in);
  slope.of(uhal_map_square, hyperbolic).then(uhal_map_scale, {-1, 1});
  slope.with(uhal_map_multiply, in).with(uhal_map_multiply, sigmoid).with(uhal_map_add, hyperbolic);
  slope.times(dy, dx, in.dtype);
}

// dx = dy where the test of x (or of its absolute value) and a number holds, else dy * 0
template <int test, bool of_absolute>
void kept_grad(Context context, Input x, Input dy, float number, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch limit(context, in.dtype, nullptr, 0), kept(context, UHAL_BOOL, in), size(context, in.dtype, in);
  fill(context, limit, static_cast<double>(number), 0);
  if (of_absolute) context.map(uhal_map_absolute, {&in}, {&size});
  context.map(test, {of_absolute ? static_cast<const View*>(&size) : &in, &limit}, {&kept});
  context.map(uhal_map_multiply, {&gradient, &kept}, {&out});
}
void thresholded_relu_grad(Context context, Input x, Input dy, float threshold, float, Output dx) {
  kept_grad<uhal_map_greater, false>(context, x, dy, threshold, dx);
}

// b * tanh(a * x)
void stanh(Context context, Input x, float a, float b, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  Slope value(context, in);
  value.of(uhal_map_scale, in, {static_cast<double>(a), 0}).then(uhal_map_tanh);
  context.map(uhal_map_scale, {&value}, {&out}, {static_cast<double>(b), 0});
}
void stanh_grad(Context context, Input x, Input dy, float a, float b, Output dx) {
  const View in = x.view();
  const double product = static_cast<double>(a) * static_cast<double>(b);
  Slope slope(context, in);
  slope.of(uhal_map_scale, in, {static_cast<double>(a), 0}).then(uhal_map_tanh).then(uhal_map_square);
  slope.then(uhal_map_scale, {-product, product}).times(dy, dx, in.dtype);
}

// x - tanh(x)
void tanh_shrink(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const Slope hyperbolic(context, in);
  context.map(uhal_map_tanh, {&in}, {&hyperbolic});
  context.map(uhal_map_subtract, {&in, &hyperbolic}, {&out});
}
void tanh_shrink_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view();
  Slope(context, in).of(uhal_map_tanh, in).then(uhal_map_square).times(dy, dx, in.dtype);
}

// x, or alpha * (exp(x / alpha) - 1) below 0
void celu(Context context, Input x, float alpha, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const double a = static_cast<double>(alpha);
  const Scratch zero(context, in.dtype, nullptr, 0), below(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  Slope value(context, in);
  value.of(uhal_map_scale, in, {1 / a, 0}).then(uhal_map_expm1).then(uhal_map_scale, {a, 0});
  context.map(uhal_map_less, {&in, &zero}, {&below});
  context.map(uhal_map_select, {&below, &value, &in}, {&out});
}
void celu_grad(Context context, Input x, Input dy, float alpha, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  const Scratch zero(context, in.dtype, nullptr, 0), above(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  Slope slope(context, in);
  slope.of(uhal_map_scale, in, {1 / static_cast<double>(alpha), 0}).then(uhal_map_exp);
  slope.with(uhal_map_multiply, gradient);
  context.map(uhal_map_greater, {&in, &zero}, {&above});
  context.map(uhal_map_select, {&above, &gradient, &slope}, {&out});
}

// x, or alpha * x where x is not positive; alpha has one number, one for each channel, or one for each element of a
// sample.
View slopes_of(const Context& context, const View& alpha, const View& x, Text data_format, Text mode) {
  int64_t dims[UHAL_MAX_RANK];
  if (std::strcmp(mode.value, "element") == 0) {
    for (int i = 0; i < x.rank; ++i) dims[i] = i == 0 ? 1 : x.shape[i];
  } else {
    std::fill_n(dims, x.rank, 1);
    if (std::strcmp(mode.value, "channel") == 0) {
      if (x.rank < 2) invalid(context, "x has no axis of channels");
      const int channel = std::strcmp(data_format.value, "NCHW") == 0 ? 1 : x.rank - 1;
      dims[channel] = x.shape[channel];
    }
  }
  const View result = alpha.reshaped(dims, x.rank);
  if (result.elements() != alpha.elements()) {
    invalid(context, "alpha has " + std::to_string(alpha.elements()) + " elements, expected " +
                         std::to_string(result.elements()));
  }
  return result;
}
void prelu(Context context, Input x, Input alpha, Text data_format, Text mode, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  require_same_dtype(context, in, alpha.view());
  if (out.elements() == 0) return;
  const View slopes = slopes_of(context, alpha.view(), in, data_format, mode);
  const Scratch zero(context, in.dtype, nullptr, 0), above(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  Slope part(context, in);
  context.map(uhal_map_multiply, {&slopes, &in}, {&part});
  context.map(uhal_map_greater, {&in, &zero}, {&above});
  context.map(uhal_map_select, {&above, &in, &part}, {&out});
}
void prelu_grad(Context context, Input x, Input alpha, Input dy, Text data_format, Text mode, Output dx,
                Output dalpha) {
  const View in = x.view(), gradient = dy.view();
  const View to_alpha = dalpha ? context.allocate(dalpha, in.dtype) : View();
  const View out = dx ? context.allocate(dx, in.dtype) : View();
  if (in.elements() == 0) {
    if (dalpha) fill_zero(context, to_alpha);
    return;
  }
  const Scratch zero(context, accumulator(in.dtype), nullptr, 0), above(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  context.map(uhal_map_greater, {&in, &zero}, {&above});
  Slope part(context, in);
  if (dalpha) {
    context.map(uhal_map_multiply, {&in, &gradient}, {&part});
    context.map(uhal_map_select, {&above, &zero, &part}, {&part});
    sum_to_shape(context, part, slopes_of(context, to_alpha, in, data_format, mode));
  }
  if (dx) {
    const View slopes = slopes_of(context, alpha.view(), in, data_format, mode);
    context.map(uhal_map_multiply, {&slopes, &gradient}, {&part});
    context.map(uhal_map_select, {&above, &gradient, &part}, {&out});
  }
}

}  // namespace

KernelTable activation_kernels() {
  return {
      UNIHAL_KERNEL("abs", kNumbers | kComplex, absolute),
      UNIHAL_KERNEL("acos", kFloats | kComplex, unary<uhal_map_acos>),
      UNIHAL_KERNEL("acosh", kFloats | kComplex, unary<uhal_map_acosh>),
      UNIHAL_KERNEL("asin", kFloats | kComplex, unary<uhal_map_asin>),
      UNIHAL_KERNEL("asinh", kFloats | kComplex, unary<uhal_map_asinh>),
      UNIHAL_KERNEL("atan", kFloats | kComplex, unary<uhal_map_atan>),
      UNIHAL_KERNEL("atanh", kFloats | kComplex, unary<uhal_map_atanh>),
      UNIHAL_KERNEL("ceil", kNumbers, rounding<uhal_map_ceil>),
      UNIHAL_KERNEL("cos", kFloats | kComplex, unary<uhal_map_cos>),
      UNIHAL_KERNEL("cosh", kFloats | kComplex, unary<uhal_map_cosh>),
      UNIHAL_KERNEL("erf", kFloats, unary<uhal_map_erf>),
      UNIHAL_KERNEL("exp", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_exp>),
      UNIHAL_KERNEL("expm1", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_expm1>),
      UNIHAL_KERNEL("floor", kNumbers, rounding<uhal_map_floor>),
      UNIHAL_KERNEL("log", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_log>),
      UNIHAL_KERNEL("log10", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_log10>),
      UNIHAL_KERNEL("log1p", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_log1p>),
      UNIHAL_KERNEL("log2", kFloats | kComplex | kInt32And64, unary_floating<uhal_map_log2>),
      UNIHAL_KERNEL("logsigmoid", kFloats, unary<uhal_map_log_sigmoid>),
      UNIHAL_KERNEL("reciprocal", kFloats | kComplex, unary<uhal_map_reciprocal>),
      UNIHAL_KERNEL("relu", kNumbers, unary<uhal_map_relu>),
      UNIHAL_KERNEL("relu6", kFloats, unary<uhal_map_relu6>),
      UNIHAL_KERNEL("rsqrt", kFloats, unary<uhal_map_rsqrt>),
      UNIHAL_KERNEL("sigmoid", kFloats | kComplex, unary<uhal_map_sigmoid>),
      UNIHAL_KERNEL("sign", kNumbers | kComplex, unary<uhal_map_sign>),
      UNIHAL_KERNEL("silu", kFloats | kComplex, unary<uhal_map_silu>),
      UNIHAL_KERNEL("sin", kFloats | kComplex, unary<uhal_map_sin>),
      UNIHAL_KERNEL("sinh", kFloats | kComplex, unary<uhal_map_sinh>),
      UNIHAL_KERNEL("softsign", kFloats, unary<uhal_map_softsign>),
      UNIHAL_KERNEL("sqrt", kFloats | kComplex, unary<uhal_map_sqrt>),
      UNIHAL_KERNEL("square", kNumbers | kComplex, unary<uhal_map_square>),
      UNIHAL_KERNEL("swish", kFloats, swish),
      UNIHAL_KERNEL("tan", kFloats | kComplex, unary<uhal_map_tan>),
      UNIHAL_KERNEL("tanh", kFloats | kComplex, unary<uhal_map_tanh>),
      UNIHAL_KERNEL("trunc", kNumbers, rounding<uhal_map_truncate>),

      UNIHAL_KERNEL("digamma", kFloats, unary<uhal_map_digamma>),
      UNIHAL_KERNEL("erfinv", kFloats, unary<uhal_map_erfinv>),
      UNIHAL_KERNEL("gammaln", kFloats, unary<uhal_map_lgamma>),
      UNIHAL_KERNEL("i0", kFloats, unary<uhal_map_bessel_i0>),
      UNIHAL_KERNEL("i0e", kFloats, unary<uhal_map_bessel_i0e>),
      UNIHAL_KERNEL("i1", kFloats, unary<uhal_map_bessel_i1>),
      UNIHAL_KERNEL("i1e", kFloats, unary<uhal_map_bessel_i1e>),
      UNIHAL_KERNEL("lgamma", kFloats, unary<uhal_map_lgamma>),

      UNIHAL_KERNEL("clip", kNumbers, clip),
      UNIHAL_KERNEL("div_scale", kFloats | kComplex, div_scale),
      UNIHAL_KERNEL("elu", kFloats, unary_with<uhal_map_elu, float>),
      UNIHAL_KERNEL("gelu", kFloats, gelu),
      UNIHAL_KERNEL("hardsigmoid", kFloats, unary_with<uhal_map_hard_sigmoid, float, float>),
      UNIHAL_KERNEL("hardswish", kFloats, hardswish),
      UNIHAL_KERNEL("hardtanh", kFloats, hardtanh),
      UNIHAL_KERNEL("hard_shrink", kFloats, unary_with<uhal_map_hard_shrink, float>),
      UNIHAL_KERNEL("leaky_relu", kFloats, unary_with<uhal_map_leaky_relu, float>),
      UNIHAL_KERNEL("leaky_relu", kFloats, unary_with<uhal_map_leaky_relu, double>),
      UNIHAL_KERNEL("pow", kFloats | kInt32And64 | kComplex, pow_scalar),
      UNIHAL_KERNEL("scale", kNumbers | kComplex, scale),
      UNIHAL_KERNEL("selu", kFloats, unary_with<uhal_map_selu, float, float>),
      UNIHAL_KERNEL("softplus", kFloats, unary_with<uhal_map_softplus, float, float>),
      UNIHAL_KERNEL("softplus", kFloats, unary_with<uhal_map_softplus, double, double>),
      UNIHAL_KERNEL("softshrink", kFloats, unary_with<uhal_map_soft_shrink, float>),

      UNIHAL_KERNEL("mish", kFloats, mish),
      UNIHAL_KERNEL("round", kFloats | kInt32And64, round_to),
      UNIHAL_KERNEL("rint", kNumbers, rounding<uhal_map_round_half_to_even>),
      UNIHAL_KERNEL("rint_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("thresholded_relu", kFloats, unary_with<uhal_map_thresholded_relu, float, float>),

      UNIHAL_KERNEL("celu", kFloats, celu),
      UNIHAL_KERNEL("prelu", kFloats, prelu),
      UNIHAL_KERNEL("stanh", kFloats, stanh),
      UNIHAL_KERNEL("tanh_shrink", kFloats, tanh_shrink),

      UNIHAL_KERNEL("acos_grad", kFloats | kComplex, acos_grad),
      UNIHAL_KERNEL("acosh_grad", kFloats | kComplex, inverse_root_grad<1, -1>),
      UNIHAL_KERNEL("asin_grad", kFloats | kComplex, inverse_root_grad<-1, 1>),
      UNIHAL_KERNEL("asinh_grad", kFloats | kComplex, inverse_root_grad<1, 1>),
      UNIHAL_KERNEL("atan_grad", kFloats | kComplex, inverse_tangent_grad<1>),
      UNIHAL_KERNEL("atanh_grad", kFloats | kComplex, inverse_tangent_grad<-1>),
      UNIHAL_KERNEL("celu_grad", kFloats, celu_grad),
      UNIHAL_KERNEL("cosh_grad", kFloats | kComplex, slope_grad<uhal_map_sinh>),
      UNIHAL_KERNEL("hard_shrink_grad", kFloats, kept_grad<uhal_map_greater_equal, true>),
      UNIHAL_KERNEL("mish_grad", kFloats, mish_grad),
      UNIHAL_KERNEL("prelu_grad", kFloats, prelu_grad),
      UNIHAL_KERNEL("sinh_grad", kFloats | kComplex, slope_grad<uhal_map_cosh>),
      UNIHAL_KERNEL("softshrink_grad", kFloats, kept_grad<uhal_map_greater, true>),
      UNIHAL_KERNEL("stanh_grad", kFloats, stanh_grad),
      UNIHAL_KERNEL("tan_grad", kFloats | kComplex, tan_grad),
      UNIHAL_KERNEL("tanh_shrink_grad", kFloats, tanh_shrink_grad),
      UNIHAL_KERNEL("thresholded_relu_grad", kFloats, thresholded_relu_grad),
      UNIHAL_KERNEL("trunc_grad", kFloats | kInt32And64, gradient_zero),
      UNIHAL_KERNEL("abs_grad", kFloats | kComplex, gradient<uhal_map_absolute_backward>),
      UNIHAL_KERNEL("ceil_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("clip_grad", kFloats, clip_grad),
      UNIHAL_KERNEL("cos_grad", kFloats | kComplex, gradient<uhal_map_cos_backward>),
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
      UNIHAL_KERNEL("exp_grad", kFloats | kComplex, exp_grad),
      UNIHAL_KERNEL("expm1_grad", kFloats | kComplex, expm1_grad),
      UNIHAL_KERNEL("floor_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("gelu_grad", kFloats, gelu_grad),
      UNIHAL_KERNEL("hardsigmoid_grad", kFloats, gradient_with<uhal_map_hard_sigmoid_backward, float, float>),
      UNIHAL_KERNEL("hardswish_grad", kFloats, hardswish_grad),
      UNIHAL_KERNEL("hardtanh_grad", kFloats, gradient_with<uhal_map_hard_tanh_backward, float, float>),
      UNIHAL_KERNEL("leaky_relu_grad", kFloats, leaky_relu_grad<float>),
      UNIHAL_KERNEL("leaky_relu_grad", kFloats, leaky_relu_grad<double>),
      UNIHAL_KERNEL("log_grad", kFloats | kComplex, log_grad),
      UNIHAL_KERNEL("log10_grad", kFloats | kComplex, logarithm_grad<10>),
      UNIHAL_KERNEL("log1p_grad", kFloats | kComplex, log1p_grad),
      UNIHAL_KERNEL("log2_grad", kFloats | kComplex, logarithm_grad<2>),
      UNIHAL_KERNEL("logsigmoid_grad", kFloats, gradient<uhal_map_log_sigmoid_backward>),
      UNIHAL_KERNEL("pow_grad", kFloats | kComplex, pow_scalar_grad),
      UNIHAL_KERNEL("reciprocal_grad", kFloats | kComplex, gradient<uhal_map_reciprocal_backward>),
      UNIHAL_KERNEL("relu6_grad", kFloats, gradient<uhal_map_relu6_backward>),
      UNIHAL_KERNEL("relu_grad", kFloats, gradient<uhal_map_relu_backward>),
      UNIHAL_KERNEL("round_grad", kFloats, gradient_zero),
      UNIHAL_KERNEL("rsqrt_grad", kFloats, gradient<uhal_map_rsqrt_backward>),
      UNIHAL_KERNEL("selu_grad", kFloats, gradient_with<uhal_map_selu_backward, float, float>),
      UNIHAL_KERNEL("sigmoid_grad", kFloats | kComplex, gradient<uhal_map_sigmoid_backward>),
      UNIHAL_KERNEL("silu_grad", kFloats | kComplex, gradient_of_input<uhal_map_silu_backward>),
      UNIHAL_KERNEL("sin_grad", kFloats | kComplex, gradient<uhal_map_sin_backward>),
      UNIHAL_KERNEL("softplus_grad", kFloats, gradient_with<uhal_map_softplus_backward, float, float>),
      UNIHAL_KERNEL("softplus_grad", kFloats, gradient_with<uhal_map_softplus_backward, double, double>),
      UNIHAL_KERNEL("softsign_grad", kFloats, gradient<uhal_map_softsign_backward>),
      UNIHAL_KERNEL("sqrt_grad", kFloats | kComplex, gradient<uhal_map_sqrt_backward>),
      UNIHAL_KERNEL("square_grad", kFloats | kComplex, gradient<uhal_map_square_backward>),
      UNIHAL_KERNEL("swish_grad", kFloats, swish_grad),
      UNIHAL_KERNEL("tanh_grad", kFloats | kComplex, gradient<uhal_map_tanh_backward>),
  };
}

}  // namespace unihal::paddle
