// Losses of two classes, and what a loss may be reduced by.
#include <limits>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// -label log(x + e) - (1 - label) log(1 - x + e)
void log_loss(Context context, Input input, Input label, float epsilon, Output out) {
  const View x = input.view(), labels = label.view();
  const View target = context.allocate(out, x.dtype);
  const Scratch yes(context, accumulator(x.dtype), x), no(context, accumulator(x.dtype), x);
  context.map(uhal_map_scale, {&x}, {&yes}, {1, epsilon});
  context.map(uhal_map_log, {&yes}, {&yes});
  context.map(uhal_map_scale, {&x}, {&no}, {-1, 1 + double{epsilon}});
  context.map(uhal_map_log, {&no}, {&no});
  context.map(uhal_map_linear_interpolation, {&no, &yes, &labels}, {&no});
  context.map(uhal_map_negative, {&no}, {&target});
}

void log_loss_grad(Context context, Input input, Input label, Input dout, float epsilon, Output dx) {
  const View x = input.view(), labels = label.view(), gradient = dout.view();
  const View target = context.allocate(dx, x.dtype);
  const Scratch yes(context, accumulator(x.dtype), x), no(context, accumulator(x.dtype), x);
  context.map(uhal_map_scale, {&x}, {&no}, {-1, 1 + double{epsilon}});
  context.map(uhal_map_scale, {&labels}, {&yes}, {-1, 1});
  context.map(uhal_map_divide, {&yes, &no}, {&no});
  context.map(uhal_map_scale, {&x}, {&yes}, {1, epsilon});
  context.map(uhal_map_divide, {&labels, &yes}, {&yes});
  context.map(uhal_map_subtract, {&no, &yes}, {&no});
  context.map(uhal_map_multiply, {&no, &gradient}, {&target});
}

// max(0, 1 - (2 label - 1) x)
void hinge_loss(Context context, Input logits, Input label, Output out) {
  const View x = logits.view(), labels = label.view();
  const View target = context.allocate(out, x.dtype);
  const Scratch sign(context, accumulator(x.dtype), x);
  context.map(uhal_map_scale, {&labels}, {&sign}, {2, -1});
  context.map(uhal_map_multiply, {&sign, &x}, {&sign});
  context.map(uhal_map_scale, {&sign}, {&sign}, {-1, 1});
  context.map(uhal_map_relu, {&sign}, {&target});
}

void hinge_loss_grad(Context context, Input logits, Input label, Input dloss, Output dx) {
  const View x = logits.view(), labels = label.view(), gradient = dloss.view();
  const View target = context.allocate(dx, x.dtype);
  const Scratch sign(context, accumulator(x.dtype), x), margin(context, accumulator(x.dtype), x);
  context.map(uhal_map_scale, {&labels}, {&sign}, {2, -1});
  context.map(uhal_map_multiply, {&sign, &x}, {&margin});
  context.map(uhal_map_scale, {&margin}, {&margin}, {-1, 1});
  context.map(uhal_map_negative, {&sign}, {&sign});
  context.map(uhal_map_multiply, {&sign, &gradient}, {&sign});
  context.map(uhal_map_relu_backward, {&margin, &sign}, {&target});
}

// reduction: 0 the sum, 1 the mean, 2 none.
void identity_loss(Context context, Input x, int reduction, Output out) {
  const View in = x.view();
  if (reduction == 2) return copy_or_cast(context, in, context.allocate(out, in.dtype));
  const View target = context.allocate(out, in.dtype);
  const auto attributes = reduce_attributes(reduction == 1 ? UHAL_REDUCE_MEAN : UHAL_REDUCE_SUM);
  const View elements = flat(in), one = target.reshaped({1});
  context.run(UHAL_OP_REDUCE, {&elements}, {&one}, &attributes);
}

void identity_loss_grad(Context context, Input x, Input dout, int reduction, Output dx) {
  const View gradient = dout.view();
  const View target = context.allocate(dx, x.uhal());
  if (target.elements() == 0) return;
  if (reduction == 2) return copy_or_cast(context, gradient, target);
  const View one = View(gradient.data, gradient.dtype, nullptr, 0);
  const double share = reduction == 1 ? 1.0 / static_cast<double>(target.elements()) : 1.0;
  context.map(uhal_map_scale, {&one}, {&target}, {share, 0});
}

// dout / (x (1 - x)) where x was not clipped to [eps, 1 - eps]; elsewhere 0, or NaN without an eps.
template <class Number>
void logit_grad(Context context, Input x, Input dout, Number given, Output dx) {
  const auto epsilon = static_cast<double>(given);
  const View in = x.view(), gradient = dout.view();
  const View target = context.allocate(dx, in.dtype);
  const uhal_dtype wide = accumulator(in.dtype);
  const Scratch part(context, wide, in), slope(context, wide, in), clipped(context, in.dtype, in);
  const Scratch inside(context, UHAL_BOOL, in), otherwise(context, wide, nullptr, 0);
  context.map(uhal_map_scale, {&in}, {&part}, {-1, 1});
  context.map(uhal_map_multiply, {&part, &in}, {&part});
  context.map(uhal_map_divide, {&gradient, &part}, {&slope});
  context.map(uhal_map_clip, {&in}, {&clipped}, {epsilon, 1 - epsilon});
  context.map(uhal_map_equal, {&in, &clipped}, {&inside});
  fill(context, otherwise, epsilon == 0 ? std::numeric_limits<double>::quiet_NaN() : 0, 0);
  context.map(uhal_map_select, {&inside, &slope, &otherwise}, {&target});
}

}  // namespace

KernelTable binary_loss_kernels() {
  return {
      UNIHAL_KERNEL("hinge_loss", kWideFloats, hinge_loss),
      UNIHAL_KERNEL("hinge_loss_grad", kWideFloats, hinge_loss_grad),
      UNIHAL_KERNEL("identity_loss", kFloats, identity_loss),
      UNIHAL_KERNEL("identity_loss_grad", kFloats, identity_loss_grad),
      UNIHAL_KERNEL("log_loss", kFloats, log_loss),
      UNIHAL_KERNEL("log_loss_grad", kFloats, log_loss_grad),
      UNIHAL_KERNEL("logit_grad", kFloats, logit_grad<double>),
      UNIHAL_KERNEL("logit_grad", kFloats, logit_grad<float>),
  };
}

}  // namespace unihal::paddle
