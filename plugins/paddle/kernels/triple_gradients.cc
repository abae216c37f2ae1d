// Gradients of the gradients' gradients. Of y = f(x): dy1 is what the first gradient multiplied f' with, ddx what the
// second one was given; the double gradient's results were f'' dy1 ddx for x and f' ddx for dy1. Of what the loss is to
// these (of_x, of_dy) come
//   x:   f''' dy1 ddx of_x + f'' ddx of_dy
//   dy1: f'' ddx of_x
//   ddx: f'' dy1 of_x + f' of_dy
// where of_dy, dy1 or ddx that are not given count as 0. Functions of y have derivatives with respect to y.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

class Terms {
 public:
  Terms(const Context& context, Input x)
      : in(x.view()),
        first(context, working(in.dtype), in),
        second(context, first.dtype, in),
        third(context, first.dtype, in),
        context_(context) {}

  View in;
  Scratch first, second, third;

  void write(const OptionalInput& dy, const OptionalInput& ddx, const OptionalInput& of_x, const OptionalInput& of_dy,
             Output x_out, Output dy_out, Output ddx_out) const {
    const Scratch for_x(context_, first.dtype, in), for_dy(context_, first.dtype, in),
        for_ddx(context_, first.dtype, in), part(context_, first.dtype, in);
    // Either result may have been given the memory of an operand: all are made before the first is written.
    fill_zero(context_, for_x);
    fill_zero(context_, for_ddx);
    add_product(third, {&dy, &ddx, &of_x}, part, for_x);
    add_product(second, {&ddx, &of_dy}, part, for_x);
    fill_zero(context_, for_dy);
    add_product(second, {&ddx, &of_x}, part, for_dy);
    add_product(second, {&dy, &of_x}, part, for_ddx);
    add_product(first, {&of_dy}, part, for_ddx);
    if (x_out) copy_or_cast(context_, for_x, context_.allocate(x_out, in.dtype));
    if (dy_out) copy_or_cast(context_, for_dy, context_.allocate(dy_out, in.dtype));
    if (ddx_out) copy_or_cast(context_, for_ddx, context_.allocate(ddx_out, in.dtype));
  }

 private:
  void add_product(const View& slope, std::initializer_list<const OptionalInput*> factors, const View& part,
                   const View& sum) const {
    for (const OptionalInput* factor : factors) {
      if (!*factor) return;
    }
    copy_or_cast(context_, slope, part);
    for (const OptionalInput* factor : factors) {
      const View other = factor->view();
      context_.map(uhal_map_multiply, {&part, &other}, {&part});
    }
    context_.map(uhal_map_add, {&sum, &part}, {&sum});
  }

  const Context& context_;
};

void negate(const Context& context, const View& x) { context.map(uhal_map_negative, {&x}, {&x}); }

template <int function, int derivative, bool derivative_is_negative>
void wave_triple_grad(Context context, Input x, OptionalInput dy, OptionalInput ddx, Input of_x, OptionalInput of_dy,
                      Output x_out, Output dy_out, Output ddx_out) {
  const Terms terms(context, x);
  context.map(derivative, {&terms.in}, {&terms.first});
  context.map(function, {&terms.in}, {&terms.second});
  if (derivative_is_negative) negate(context, terms.first);
  negate(context, terms.second);
  context.map(uhal_map_negative, {&terms.first}, {&terms.third});
  terms.write(dy, ddx, OptionalInput{of_x}, of_dy, x_out, dy_out, ddx_out);
}

// Of y: dx = dy g(y) with g = 1 - y^2, so that the second gradient gave g'(y) dy ddx to y and g(y) ddx to dy.
void tanh_triple_grad(Context context, Input y, Input dy, Input ddx, OptionalInput of_y, OptionalInput of_dy,
                      Output y_out, Output dy_out, Output ddx_out) {
  const Terms terms(context, y);
  context.map(uhal_map_square, {&terms.in}, {&terms.first});
  context.map(uhal_map_scale, {&terms.first}, {&terms.first}, {-1, 1});
  context.map(uhal_map_scale, {&terms.in}, {&terms.second}, {-2, 0});
  fill(context, terms.third, -2, -2);
  terms.write(OptionalInput{dy}, OptionalInput{ddx}, of_y, of_dy, y_out, dy_out, ddx_out);
}

// The same with g = y - y^2.
void sigmoid_triple_grad(Context context, Input y, Input dy, Input ddx, Input of_y, OptionalInput of_dy, Output y_out,
                         Output dy_out, Output ddx_out) {
  const Terms terms(context, y);
  context.map(uhal_map_square, {&terms.in}, {&terms.first});
  context.map(uhal_map_subtract, {&terms.in, &terms.first}, {&terms.first});
  context.map(uhal_map_scale, {&terms.in}, {&terms.second}, {-2, 1});
  fill(context, terms.third, -2, -2);
  terms.write(OptionalInput{dy}, OptionalInput{ddx}, OptionalInput{of_y}, of_dy, y_out, dy_out, ddx_out);
}

void pow_triple_grad(Context context, Input x, Input dy, Input ddx, Input of_x, OptionalInput of_dy, Scalar factor,
                     Output x_out, Output dy_out, Output ddx_out) {
  const Terms terms(context, x);
  const double n = factor.number();
  const auto power = [&](double exponent, double scale, const View& y) {
    if (scale == 0) return fill_zero(context, y);
    context.map(uhal_map_power_scalar, {&terms.in}, {&y}, {exponent});
    context.map(uhal_map_scale, {&y}, {&y}, {scale, 0});
  };
  power(n - 1, n, terms.first);
  power(n - 2, n * (n - 1), terms.second);
  power(n - 3, n * (n - 1) * (n - 2), terms.third);
  terms.write(OptionalInput{dy}, OptionalInput{ddx}, OptionalInput{of_x}, of_dy, x_out, dy_out, ddx_out);
}

}  // namespace

KernelTable triple_gradient_kernels() {
  return {
      UNIHAL_KERNEL("cos_triple_grad", kFloats, wave_triple_grad<uhal_map_cos, uhal_map_sin, true>),
      UNIHAL_KERNEL("pow_triple_grad", kFloats, pow_triple_grad),
      UNIHAL_KERNEL("sigmoid_triple_grad", kFloats, sigmoid_triple_grad),
      UNIHAL_KERNEL("sin_triple_grad", kFloats, wave_triple_grad<uhal_map_sin, uhal_map_cos, false>),
      UNIHAL_KERNEL("tanh_triple_grad", kFloats, tanh_triple_grad),
  };
}

}  // namespace unihal::paddle
