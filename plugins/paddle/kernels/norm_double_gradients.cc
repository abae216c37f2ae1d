// Gradients of the gradients of batch and instance normalization.
//
// With h = (x - m) r, r = 1 / sqrt(v + epsilon), means over the n elements that share a statistic, and
// P(c) = c - mean(c) - h mean(c h), the gradient is dx = scale r P(dy), dscale = sum(dy h), dbias = sum(dy). Of what
// the loss is to these, a = ddx, ddscale and ddbias, come
//   ddy:    scale r P(a) + ddscale h + ddbias
//   dscale: r sum(a P(dy))
//   dx:     ddscale r P(dy) - scale r^2 (h mean(a P(dy)) + mean(dy h) P(a) + mean(a h) P(dy))
// since r P(c) is also the derivative of sum(c h) by x. With statistics that are given, P(c) = c, and dx has the first
// term only.
#include <algorithm>
#include <optional>

#include "plugins/paddle/kernels/spatial.h"

namespace unihal::paddle {
namespace {

// An operand in the dtype of the statistics, dense, and 0 where it is absent.
class Widened : public Scratch {
 public:
  Widened(const Context& context, uhal_dtype dtype, const View& shape, const std::optional<View>& given)
      : Scratch(context, dtype, shape) {
    if (given) {
      copy_or_cast(context, *given, *this);
    } else {
      fill_zero(context, *this);
    }
  }
};

struct OfNorm {
  View x, dy;
  std::optional<View> ddx;
  View mean, variance;                         // x's rank, length 1 along axes that share them
  std::optional<View> scale, ddscale, ddbias;  // (1, channels, 1...)
  bool given_statistics;                       // not those of x
};

class SecondNorm {
 public:
  SecondNorm(const Context& context, const OfNorm& of, double epsilon)
      : context_(context),
        of_(of),
        dtype_(accumulator(of.x.dtype)),
        h_(context, dtype_, of.x, of.x),
        dy_(context, dtype_, of.x, of.dy),
        a_(context, dtype_, of.x, of.ddx),
        r_(context, dtype_, of.mean),
        scale_(context, dtype_, of.scale ? *of.scale : one_channel(), of.scale),
        of_dy_(context, dtype_, of.x),
        of_a_(context, dtype_, of.x),
        part_(context, dtype_, of.x),
        shared_(context, dtype_, of.mean),
        mean_dy_h_(context, dtype_, of.mean),
        mean_a_h_(context, dtype_, of.mean) {
    if (!of.scale) fill(context, scale_, 1, 1);
    context.map(uhal_map_scale, {&of.variance}, {&r_}, {1, epsilon});
    context.map(uhal_map_rsqrt, {&r_}, {&r_});
    context.map(uhal_map_subtract, {&h_, &of.mean}, {&h_});
    context.map(uhal_map_multiply, {&h_, &r_}, {&h_});
    project(dy_, mean_dy_h_, of_dy_);
    project(a_, mean_a_h_, of_a_);
  }

  void write_ddy(const View& y) const {
    context_.map(uhal_map_multiply, {&of_a_, &scale_}, {&part_});
    context_.map(uhal_map_multiply, {&part_, &r_}, {&part_});
    if (of_.ddscale) context_.map(uhal_map_multiply_add, {&h_, &*of_.ddscale, &part_}, {&part_});
    if (of_.ddbias) context_.map(uhal_map_add, {&part_, &*of_.ddbias}, {&part_});
    copy_or_cast(context_, part_, y);
  }

  // y (1, channels, 1...)
  void write_dscale(const View& y) const {
    context_.map(uhal_map_multiply, {&a_, &of_dy_}, {&part_});
    context_.map(uhal_map_multiply, {&part_, &r_}, {&part_});
    sum_to_shape(context_, part_, y);
  }

  void write_dx(const View& y) const {
    const Scratch sum(context_, dtype_, of_.x), term(context_, dtype_, of_.x);
    fill_zero(context_, sum);
    if (!of_.given_statistics) {
      mean_of_product(a_, of_dy_, shared_);
      context_.map(uhal_map_multiply, {&h_, &shared_}, {&sum});
      context_.map(uhal_map_multiply_add, {&of_a_, &mean_dy_h_, &sum}, {&sum});
      context_.map(uhal_map_multiply_add, {&of_dy_, &mean_a_h_, &sum}, {&sum});
      context_.map(uhal_map_multiply, {&sum, &r_}, {&sum});
      context_.map(uhal_map_multiply, {&sum, &scale_}, {&sum});
      context_.map(uhal_map_negative, {&sum}, {&sum});
    }
    if (of_.ddscale) context_.map(uhal_map_multiply_add, {&of_dy_, &*of_.ddscale, &sum}, {&sum});
    context_.map(uhal_map_multiply, {&sum, &r_}, {&sum});
    copy_or_cast(context_, sum, y);
  }

 private:
  static View one_channel() {
    const int64_t one[] = {1};
    return View(nullptr, UHAL_FLOAT32, one, 1);
  }
  void mean(const View& x, const View& y) const {
    const auto attributes = reduce_attributes(UHAL_REDUCE_MEAN);
    context_.run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  }
  void mean_of_product(const View& a, const View& b, const View& y) const {
    context_.map(uhal_map_multiply, {&a, &b}, {&part_});
    mean(part_, y);
  }
  // y = P(c), which needs mean(c h)
  void project(const View& c, const View& mean_c_h, const View& y) const {
    copy_or_cast(context_, c, y);
    if (of_.given_statistics) return;
    mean(c, shared_);
    context_.map(uhal_map_subtract, {&y, &shared_}, {&y});
    mean_of_product(c, h_, mean_c_h);
    context_.map(uhal_map_multiply, {&h_, &mean_c_h}, {&part_});
    context_.map(uhal_map_subtract, {&y, &part_}, {&y});
  }

  const Context& context_;
  const OfNorm& of_;
  const uhal_dtype dtype_;
  const Widened h_, dy_, a_;
  const Scratch r_;
  const Widened scale_;
  const Scratch of_dy_, of_a_, part_, shared_, mean_dy_h_, mean_a_h_;
};

std::optional<View> channels_of(const OptionalInput& x, const int64_t* dims, int rank) {
  if (!x) return std::nullopt;
  return x.view().reshaped(dims, rank);
}

void write_second_gradients(const Context& context, const OfNorm& of, double epsilon, const OptionalInput& scale,
                            const int64_t* channels, bool last, Output dx, Output dscale, Output ddy) {
  if (of.x.elements() == 0) {
    if (dx) context.allocate(dx, of.x.dtype);
    if (ddy) context.allocate(ddy, of.x.dtype);
    if (dscale) fill_zero(context, context.allocate(dscale, scale ? scale.uhal() : accumulator(of.x.dtype)));
    return;
  }
  // The outputs may have been given the operands' memory: all is read before the first is written.
  const SecondNorm second(context, of, epsilon);
  const Scratch for_dx(context, of.x.dtype, of.x), for_ddy(context, of.x.dtype, of.x);
  if (dx) second.write_dx(for_dx);
  if (ddy) second.write_ddy(for_ddy);
  if (dscale) {
    const View out = context.allocate(dscale, scale ? scale.uhal() : accumulator(of.x.dtype));
    second.write_dscale(out.reshaped(channels, of.x.rank));
  }
  if (dx) copy_or_cast(context, for_dx, image(context.allocate(dx, of.x.dtype), last));
  if (ddy) copy_or_cast(context, for_ddy, image(context.allocate(ddy, of.x.dtype), last));
}

void batch_norm_double_grad(Context context, Input x, OptionalInput scale, OptionalInput mean, OptionalInput variance,
                            Input saved_mean, Input saved_variance, Input dy, OptionalInput ddx, OptionalInput ddscale,
                            OptionalInput ddbias, float /*momentum*/, float epsilon, Text data_format, bool is_test,
                            bool use_global_stats, bool /*trainable_statistics*/, Output dx, Output dscale,
                            Output ddy) {
  const bool last = channels_last(data_format), given = is_test || use_global_stats;
  const View in = image(x.view(), last);
  int64_t channels[UHAL_MAX_RANK];
  std::fill(channels, channels + in.rank, 1);
  channels[1] = in.shape[1];
  const View m = given && mean ? mean.view() : saved_mean.view();
  const View v = given && variance ? variance.view() : saved_variance.view();
  OfNorm of{in,
            image(dy.view(), last),
            std::nullopt,
            m.reshaped(channels, in.rank),
            v.reshaped(channels, in.rank),
            channels_of(scale, channels, in.rank),
            channels_of(ddscale, channels, in.rank),
            channels_of(ddbias, channels, in.rank),
            given};
  if (ddx) of.ddx = image(ddx.view(), last);
  write_second_gradients(context, of, static_cast<double>(epsilon), scale, channels, last, dx, dscale, ddy);
}

void instance_norm_double_grad(Context context, Input x, OptionalInput scale, Input saved_mean, Input saved_variance,
                               Input dy, OptionalInput ddx, OptionalInput ddscale, OptionalInput ddbias, float epsilon,
                               Output dx, Output dscale, Output ddy) {
  const View in = x.view();
  int64_t channels[UHAL_MAX_RANK], statistics[UHAL_MAX_RANK];
  std::fill(channels, channels + in.rank, 1);
  std::fill(statistics, statistics + in.rank, 1);
  channels[1] = statistics[1] = in.shape[1];
  statistics[0] = in.shape[0];
  OfNorm of{in,
            dy.view(),
            std::nullopt,
            saved_mean.view().reshaped(statistics, in.rank),
            saved_variance.view().reshaped(statistics, in.rank),
            channels_of(scale, channels, in.rank),
            channels_of(ddscale, channels, in.rank),
            channels_of(ddbias, channels, in.rank),
            false};
  if (ddx) of.ddx = ddx.view();
  write_second_gradients(context, of, static_cast<double>(epsilon), scale, channels, false, dx, dscale, ddy);
}

}  // namespace

KernelTable norm_double_gradient_kernels() {
  return {
      UNIHAL_KERNEL("batch_norm_double_grad", kFloats, batch_norm_double_grad),
      UNIHAL_KERNEL("instance_norm_double_grad", kFloats, instance_norm_double_grad),
  };
}

}  // namespace unihal::paddle
