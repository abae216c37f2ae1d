// Gradients of gradients. Of y = f(x) with dx = f'(x) dy: ddx, what the loss is to dx, gives f'(x) ddx to dy (ddy), and
// f''(x) dy ddx to x.
#include <utility>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// -- functions of one operand

// ddy = backward(operand, ddx), the function that is the gradient itself
template <int backward>
void backward_of_gradient(Context context, Input operand, Input ddx, Output ddy) {
  const View a = operand.view(), b = ddx.view();
  const View out = context.allocate(ddy, a.dtype);
  context.map(backward, {&a, &b}, {&out});
}

template <class Number>
void leaky_relu_double_grad(Context context, Input x, Input ddx, Number slope, Output ddy) {
  const View a = x.view(), b = ddx.view();
  const View out = context.allocate(ddy, a.dtype);
  context.map(uhal_map_leaky_relu_backward, {&a, &b}, {&out}, {static_cast<double>(slope)});
}

// What the kernels below share: the product of dy and ddx, memory for f' and f'', and what becomes of them.
class Slopes {
 public:
  Slopes(const Context& context, Input x, Input dy, Input ddx)
      : in(x.view()),
        first(context, accumulator(in.dtype), in),
        second(context, first.dtype, in),
        context_(context),
        dy_(dy.view()),
        ddx_(ddx.view()) {}

  // first times ddx, second times both. Either output may have been given the memory of ddx: it is read before the
  // first of them is written.
  void write(Output dx, Output ddy) const {
    if (dx) {
      context_.map(uhal_map_multiply, {&second, &dy_}, {&second});
      context_.map(uhal_map_multiply, {&second, &ddx_}, {&second});
    }
    if (ddy) {
      const View out = context_.allocate(ddy, in.dtype);
      context_.map(uhal_map_multiply, {&first, &ddx_}, {&out});
    }
    if (dx) copy_or_cast(context_, second, context_.allocate(dx, in.dtype));
  }

  View in;
  Scratch first, second;

 private:
  const Context& context_;
  View dy_, ddx_;
};

void square_double_grad(Context context, Input x, Input dy, Input ddx, Output dx, Output ddy) {
  const Slopes slopes(context, x, dy, ddx);
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.first}, {2, 0});
  fill(context, slopes.second, 2, 2);
  slopes.write(dx, ddy);
}

void log_double_grad(Context context, Input x, Input dy, Input ddx, Output dx, Output ddy) {
  const Slopes slopes(context, x, dy, ddx);
  context.map(uhal_map_reciprocal, {&slopes.in}, {&slopes.first});
  context.map(uhal_map_square, {&slopes.first}, {&slopes.second});
  context.map(uhal_map_negative, {&slopes.second}, {&slopes.second});
  slopes.write(dx, ddy);
}

void sin_double_grad(Context context, Input x, Input dy, Input ddx, Output dx, Output ddy) {
  const Slopes slopes(context, x, dy, ddx);
  context.map(uhal_map_cos, {&slopes.in}, {&slopes.first});
  context.map(uhal_map_sin, {&slopes.in}, {&slopes.second});
  context.map(uhal_map_negative, {&slopes.second}, {&slopes.second});
  slopes.write(dx, ddy);
}

void cos_double_grad(Context context, Input x, Input dy, Input ddx, Output dx, Output ddy) {
  const Slopes slopes(context, x, dy, ddx);
  context.map(uhal_map_sin, {&slopes.in}, {&slopes.first});
  context.map(uhal_map_negative, {&slopes.first}, {&slopes.first});
  context.map(uhal_map_cos, {&slopes.in}, {&slopes.second});
  context.map(uhal_map_negative, {&slopes.second}, {&slopes.second});
  slopes.write(dx, ddy);
}

// f = x above 0, else scale (exp(x / width) - 1).
void exponential_unit(const Context& context, const Slopes& slopes, double scale, double width, Output dx, Output ddy) {
  const Scratch positive(context, UHAL_BOOL, slopes.in), zero(context, slopes.first.dtype, nullptr, 0),
      one(context, slopes.first.dtype, nullptr, 0);
  fill_zero(context, zero);
  fill(context, one, 1, 1);
  context.map(uhal_map_greater, {&slopes.in, &zero}, {&positive});
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.second}, {1 / width, 0});
  context.map(uhal_map_exp, {&slopes.second}, {&slopes.second});
  context.map(uhal_map_scale, {&slopes.second}, {&slopes.second}, {scale / width, 0});
  context.map(uhal_map_select, {&positive, &one, &slopes.second}, {&slopes.first});
  context.map(uhal_map_scale, {&slopes.second}, {&slopes.second}, {1 / width, 0});
  context.map(uhal_map_select, {&positive, &zero, &slopes.second}, {&slopes.second});
  slopes.write(dx, ddy);
}
void elu_double_grad(Context context, Input x, Input dy, Input ddx, float alpha, Output dx, Output ddy) {
  exponential_unit(context, Slopes(context, x, dy, ddx), alpha, 1, dx, ddy);
}
void celu_double_grad(Context context, Input x, Input dy, Input ddx, float alpha, Output dx, Output ddy) {
  exponential_unit(context, Slopes(context, x, dy, ddx), alpha, alpha, dx, ddy);
}

// f' = s = sigmoid(beta x), 1 above the threshold; f'' = beta s (1 - s)
template <class Number>
void softplus_double_grad(Context context, Input x, Input dy, Input ddx, Number factor, Number most, Output dx,
                          Output ddy) {
  const auto beta = static_cast<double>(factor), threshold = static_cast<double>(most);
  const Slopes slopes(context, x, dy, ddx);
  const Scratch linear(context, UHAL_BOOL, slopes.in), limit(context, slopes.first.dtype, nullptr, 0),
      one(context, slopes.first.dtype, nullptr, 0);
  fill(context, limit, threshold, 0);
  fill(context, one, 1, 1);
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.first}, {beta, 0});
  context.map(uhal_map_greater, {&slopes.first, &limit}, {&linear});
  context.map(uhal_map_sigmoid, {&slopes.first}, {&slopes.first});
  context.map(uhal_map_select, {&linear, &one, &slopes.first}, {&slopes.first});
  context.map(uhal_map_scale, {&slopes.first}, {&slopes.second}, {-beta, beta});
  context.map(uhal_map_multiply, {&slopes.second, &slopes.first}, {&slopes.second});
  slopes.write(dx, ddy);
}

void pow_double_grad(Context context, Input x, Input dy, Input ddx, Scalar factor, Output dx, Output ddy) {
  const Slopes slopes(context, x, dy, ddx);
  const double n = factor.number();
  const auto power = [&](double exponent, double scale, const View& y) {
    if (scale == 0) return fill_zero(context, y);
    context.map(uhal_map_power_scalar, {&slopes.in}, {&y}, {exponent});
    context.map(uhal_map_scale, {&y}, {&y}, {scale, 0});
  };
  power(n - 1, n, slopes.first);
  power(n - 2, n * (n - 1), slopes.second);
  slopes.write(dx, ddy);
}

// Where f' is known by y: what dx = g(y) dy gives to y is g'(y) dy ddx.
void tanh_double_grad(Context context, Input y, Input dy, Input ddx, Output dy_of_y, Output ddy) {
  const Slopes slopes(context, y, dy, ddx);
  context.map(uhal_map_square, {&slopes.in}, {&slopes.first});
  context.map(uhal_map_scale, {&slopes.first}, {&slopes.first}, {-1, 1});
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.second}, {-2, 0});
  slopes.write(dy_of_y, ddy);
}

void sigmoid_double_grad(Context context, Input y, Input dy, Input ddx, Output dy_of_y, Output ddy) {
  const Slopes slopes(context, y, dy, ddx);
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.first}, {-1, 1});
  context.map(uhal_map_multiply, {&slopes.first, &slopes.in}, {&slopes.first});
  context.map(uhal_map_scale, {&slopes.in}, {&slopes.second}, {-2, 1});
  slopes.write(dy_of_y, ddy);
}

// Here Paddle gives dx: dx = g(y) dy, so that g' dy = (g' / g) dx.
void sqrt_double_grad(Context context, Input y, Input dx, Input ddx, Output dy_of_y, Output ddy) {
  const Slopes slopes(context, y, dx, ddx);
  context.map(uhal_map_reciprocal, {&slopes.in}, {&slopes.second});
  context.map(uhal_map_scale, {&slopes.second}, {&slopes.first}, {0.5, 0});
  context.map(uhal_map_negative, {&slopes.second}, {&slopes.second});
  slopes.write(dy_of_y, ddy);
}

void rsqrt_double_grad(Context context, Input y, Input dx, Input ddx, Output dy_of_y, Output ddy) {
  const Slopes slopes(context, y, dx, ddx);
  context.map(uhal_map_square, {&slopes.in}, {&slopes.first});
  context.map(uhal_map_multiply, {&slopes.first, &slopes.in}, {&slopes.first});
  context.map(uhal_map_scale, {&slopes.first}, {&slopes.first}, {-0.5, 0});
  context.map(uhal_map_reciprocal, {&slopes.in}, {&slopes.second});
  context.map(uhal_map_scale, {&slopes.second}, {&slopes.second}, {3, 0});
  slopes.write(dy_of_y, ddy);
}

// -- arithmetic of two operands

void require_right_alignment(const Context& context, int axis) {
  if (axis != -1) unsupported(context, "an axis other than -1");
}

template <int sign>
void add_double_grad(Context context, Input, Input dz, OptionalInput ddx, OptionalInput ddy, int axis, Output ddz) {
  require_right_alignment(context, axis);
  const View out = context.allocate(ddz, dz.uhal());
  const Scratch zero(context, out.dtype, nullptr, 0);
  fill_zero(context, zero);
  const View first = ddx ? ddx.view() : static_cast<const View&>(zero),
             second = ddy ? ddy.view() : static_cast<const View&>(zero);
  context.map(sign > 0 ? uhal_map_add : uhal_map_subtract, {&first, &second}, {&out});
}

// out = the sum of a * b over the axes along which it is broadcast; 0 without b.
void product_sum(const Context& context, const View& a, OptionalInput b, uhal_dtype dtype, Output out) {
  if (!out) return;
  const View target = context.allocate(out, dtype);
  if (!b) return fill_zero(context, target);
  const View factor = b.view();
  const Scratch part(context, is_complex(dtype) ? dtype : accumulator(dtype), a);
  context.map(is_complex(dtype) ? uhal_map_multiply_conjugate : uhal_map_multiply, {&a, &factor}, {&part});
  sum_to_shape(context, part, target);
}

void multiply_double_grad(Context context, Input x, Input y, Input dz, OptionalInput ddx, OptionalInput ddy, int axis,
                          Output dx, Output dy, Output ddz) {
  require_right_alignment(context, axis);
  const View a = x.view(), b = y.view(), gradient = dz.view();
  if (ddz) {
    // Paddle may give it the memory of an operand that is still needed.
    const Scratch sum(context, a.dtype, gradient), part(context, a.dtype, gradient);
    fill_zero(context, sum);
    if (ddx) {
      const View first = ddx.view();
      context.map(uhal_map_multiply, {&first, &b}, {&sum});
    }
    if (ddy) {
      const View second = ddy.view();
      context.map(uhal_map_multiply, {&a, &second}, {&part});
      context.map(uhal_map_add, {&sum, &part}, {&sum});
    }
    const Scratch kept(context, a.dtype, gradient);
    copy_or_cast(context, gradient, kept);
    product_sum(context, kept, ddy, a.dtype, dx);
    product_sum(context, kept, ddx, a.dtype, dy);
    copy_or_cast(context, sum, context.allocate(ddz, a.dtype));
    return;
  }
  product_sum(context, gradient, ddy, a.dtype, dx);
  product_sum(context, gradient, ddx, a.dtype, dy);
}

// Of z = x / y: ddz = (ddx - z ddy) / y; -dx ddy to z; dx (z ddy - ddx) / y to y.
void divide_double_grad(Context context, Input y, Input z, Input dz, OptionalInput dx, OptionalInput ddx,
                        OptionalInput ddy, int axis, Output dy, Output dz_of_z, Output ddz) {
  require_right_alignment(context, axis);
  const View b = y.view(), result = z.view(), gradient = dz.view();
  const uhal_dtype wide = accumulator(b.dtype);
  const Scratch quotient(context, wide, result), share(context, wide, result), zero(context, wide, nullptr, 0);
  fill_zero(context, zero);
  const View first = ddx ? ddx.view() : static_cast<const View&>(zero),
             second = ddy ? ddy.view() : static_cast<const View&>(zero);
  // (ddx - z ddy) / y, and dx = dz / y
  context.map(uhal_map_multiply, {&result, &second}, {&quotient});
  context.map(uhal_map_subtract, {&first, &quotient}, {&quotient});
  context.map(uhal_map_divide, {&quotient, &b}, {&quotient});
  if (dx) {
    const View given = dx.view();
    context.map(uhal_map_add, {&given, &zero}, {&share});
  } else {
    context.map(uhal_map_divide, {&gradient, &b}, {&share});
  }
  if (dy) {
    const Scratch part(context, wide, result);
    context.map(uhal_map_multiply, {&share, &quotient}, {&part});
    context.map(uhal_map_negative, {&part}, {&part});
    sum_to_shape(context, part, context.allocate(dy, b.dtype));
  }
  if (dz_of_z) {
    const View out = context.allocate(dz_of_z, b.dtype);
    context.map(uhal_map_multiply, {&share, &second}, {&share});
    context.map(uhal_map_negative, {&share}, {&out});
  }
  if (ddz) copy_or_cast(context, quotient, context.allocate(ddz, b.dtype));
}

}  // namespace

KernelTable double_gradient_kernels() {
  return {
      UNIHAL_KERNEL("abs_double_grad", kFloats, backward_of_gradient<uhal_map_absolute_backward>),
      UNIHAL_KERNEL("add_double_grad", kFloats, add_double_grad<1>),
      UNIHAL_KERNEL("celu_double_grad", kFloats, celu_double_grad),
      UNIHAL_KERNEL("cos_double_grad", kFloats, cos_double_grad),
      UNIHAL_KERNEL("divide_double_grad", kFloats, divide_double_grad),
      UNIHAL_KERNEL("elu_double_grad", kFloats, elu_double_grad),
      UNIHAL_KERNEL("leaky_relu_double_grad", kFloats, leaky_relu_double_grad<double>),
      UNIHAL_KERNEL("leaky_relu_double_grad", kFloats, leaky_relu_double_grad<float>),
      UNIHAL_KERNEL("log_double_grad", kFloats, log_double_grad),
      UNIHAL_KERNEL("multiply_double_grad", kFloats | kComplex, multiply_double_grad),
      UNIHAL_KERNEL("pow_double_grad", kFloats, pow_double_grad),
      UNIHAL_KERNEL("relu_double_grad", kFloats, backward_of_gradient<uhal_map_relu_backward>),
      UNIHAL_KERNEL("rsqrt_double_grad", kFloats, rsqrt_double_grad),
      UNIHAL_KERNEL("sigmoid_double_grad", kFloats, sigmoid_double_grad),
      UNIHAL_KERNEL("sin_double_grad", kFloats, sin_double_grad),
      UNIHAL_KERNEL("softplus_double_grad", kFloats, softplus_double_grad<double>),
      UNIHAL_KERNEL("softplus_double_grad", kFloats, softplus_double_grad<float>),
      UNIHAL_KERNEL("sqrt_double_grad", kFloats, sqrt_double_grad),
      UNIHAL_KERNEL("square_double_grad", kFloats, square_double_grad),
      UNIHAL_KERNEL("subtract_double_grad", kFloats, add_double_grad<-1>),
      UNIHAL_KERNEL("tanh_double_grad", kFloats, tanh_double_grad),
  };
}

}  // namespace unihal::paddle
