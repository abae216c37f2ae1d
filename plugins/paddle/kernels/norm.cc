// Batch, layer, group and instance normalization.
#include <optional>

#include "plugins/paddle/kernels/batch_norm.h"
#include "plugins/paddle/kernels/spatial.h"

namespace unihal::paddle {
namespace {

// A gradient of a parameter: computed in `dtype`, stored in the parameter's dtype.
class ParameterGradient {
 public:
  ParameterGradient(const Context& context, Output output, OptionalInput parameter, uhal_dtype dtype,
                    const int64_t* dims, int rank)
      : context_(context) {
    if (!output) return;
    const View all = context.allocate(output, parameter ? parameter.uhal() : dtype);
    stored_ = all.reshaped(dims, rank);
    // Paddle lets parameters have another size where x is empty, and their gradients are zeros.
    if (stored_.elements() != all.elements()) fill_zero(context, all);
    computed_ = stored_;
    present_ = true;
    if (stored_.dtype == dtype) return;
    scratch_.emplace(context, dtype, dims, rank);
    computed_ = *scratch_;
  }
  const uhal_tensor* tensor() const { return present_ ? &computed_ : nullptr; }
  void store_zeros() const {
    if (present_) fill_zero(context_, stored_);
  }
  void store() const {
    if (scratch_) copy_or_cast(context_, computed_, stored_);
  }

 private:
  const Context& context_;
  View stored_, computed_;
  bool present_ = false;
  std::optional<Scratch> scratch_;
};

// Memory for the gradient of x, which every op here computes, also where Paddle wants those of the parameters only.
class InputGradient : public View {
 public:
  InputGradient(const Context& context, Output dx, const View& x) {
    if (!dx) spare_.emplace(context, x.dtype, View(nullptr, x.dtype, x.shape, x.rank));
    static_cast<View&>(*this) = dx ? context.allocate(dx, x.dtype) : static_cast<View>(*spare_);
  }

 private:
  std::optional<Scratch> spare_;
};

}  // namespace

BatchNorm::BatchNorm(const Context& context, Input x, Input mean, Input variance, OptionalInput scale,
                     OptionalInput bias, Text data_format, Output y, Output mean_out, Output variance_out,
                     Output saved_mean, Output saved_variance, Output reserve_space)
    : in(image(x.view(), channels_last(data_format))),
      statistic(accumulator(in.dtype)),
      gamma(context, scale, statistic, in.shape + 1, 1),
      beta(context, bias, statistic, in.shape + 1, 1),
      running_mean(flat(mean.view())),
      running_variance(flat(variance.view())),
      out(image(context.allocate(y, in.dtype), channels_last(data_format))),
      new_mean(flat(context.allocate(mean_out, statistic))),
      new_variance(flat(context.allocate(variance_out, statistic))),
      batch_mean(context.allocate(saved_mean, statistic, in.shape + 1, 1)),
      batch_variance(context.allocate(saved_variance, statistic, in.shape + 1, 1)) {
  if (!reserve_space) return;
  const int64_t nothing[] = {0};
  context.allocate(reserve_space, UHAL_UINT8, nothing, 1);
}

void batch_norm(Context context, Input x, Input mean, Input variance, OptionalInput scale, OptionalInput bias,
                bool is_test, float momentum, float epsilon, Text data_format, bool use_global_stats,
                bool trainable_statistics, Output y, Output mean_out, Output variance_out, Output saved_mean,
                Output saved_variance, Output reserve_space) {
  const BatchNorm of(context, x, mean, variance, scale, bias, data_format, y, mean_out, variance_out, saved_mean,
                     saved_variance, reserve_space);
  const bool inference = takes_running_statistics(is_test, use_global_stats, trainable_statistics);
  const auto attributes = batch_norm_attributes(momentum, epsilon, inference);
  if (!inference && of.in.elements() == of.in.shape[1]) {  // a channel of one element is not normalized
    copy_or_cast(context, of.in, of.out);
    copy_or_cast(context, of.running_mean, of.new_mean);
    copy_or_cast(context, of.running_variance, of.new_variance);
    fill_zero(context, of.batch_mean);
    fill_zero(context, of.batch_variance);
  } else if (inference) {
    context.run(UHAL_OP_BATCH_NORM,
                {&of.in, of.gamma.tensor(), of.beta.tensor(), &of.running_mean, &of.running_variance}, {&of.out},
                &attributes);
    copy_or_cast(context, of.running_mean, of.new_mean);
    copy_or_cast(context, of.running_variance, of.new_variance);
    copy_or_cast(context, of.running_mean, of.batch_mean);
    copy_or_cast(context, of.running_variance, of.batch_variance);
  } else {
    context.run(UHAL_OP_BATCH_NORM,
                {&of.in, of.gamma.tensor(), of.beta.tensor(), &of.running_mean, &of.running_variance},
                {&of.out, &of.batch_mean, &of.batch_variance, &of.new_mean, &of.new_variance}, &attributes);
  }
}

void batch_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, OptionalInput mean,
                     OptionalInput variance, Input saved_mean, Input saved_variance, OptionalInput, Input dy,
                     float momentum, float epsilon, Text data_format, bool is_test, bool use_global_stats,
                     bool /*trainable_statistics*/, Output dx, Output dscale, Output dbias) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), gradient = image(dy.view(), last);
  const uhal_dtype statistic = accumulator(in.dtype);
  const int64_t channels[] = {in.shape[1]};
  // In a test the running statistics count, also where the forward trained them (Paddle's rule).
  const bool inference = is_test || use_global_stats;
  const Parameter32 gamma(context, scale, statistic, channels, 1);
  const View m = inference && mean ? mean.view() : saved_mean.view();
  const View v = inference && variance ? variance.view() : saved_variance.view();
  const InputGradient made(context, dx, x.view());
  const View out = image(made, last);
  const ParameterGradient dgamma(context, dscale, scale, statistic, channels, 1);
  const ParameterGradient dbeta(context, dbias, bias, statistic, channels, 1);
  if (!inference && in.elements() == in.shape[1]) {
    copy_or_cast(context, gradient, out);
    dgamma.store_zeros();
    dbeta.store_zeros();
    return;
  }
  const auto attributes = batch_norm_attributes(momentum, epsilon, inference);
  context.run(UHAL_OP_BATCH_NORM_BACKWARD, {&in, &gradient, gamma.tensor(), &m, &v},
              {&out, dgamma.tensor(), dbeta.tensor()}, &attributes);
  dgamma.store();
  dbeta.store();
}

namespace {

void batch_norm_infer(Context context, Input x, Input mean, Input variance, Input scale, Input bias, float momentum,
                      float epsilon, Text data_format, Output y, Output mean_out, Output variance_out) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last);
  const uhal_dtype statistic = accumulator(in.dtype);
  const int64_t channels[] = {in.shape[1]};
  const Parameter32 gamma(context, {{scale.handle}}, statistic, channels, 1);
  const Parameter32 beta(context, {{bias.handle}}, statistic, channels, 1);
  const View m = mean.view(), v = variance.view();
  const View out = image(context.allocate(y, in.dtype), last);
  const auto attributes = batch_norm_attributes(momentum, epsilon, true);
  context.run(UHAL_OP_BATCH_NORM, {&in, gamma.tensor(), beta.tensor(), &m, &v}, {&out}, &attributes);
  copy_or_cast(context, m, context.allocate(mean_out, m.dtype));
  copy_or_cast(context, v, context.allocate(variance_out, v.dtype));
}

// Shapes of a layer norm: parameters over the axes from `axis` on, statistics with those axes of length 1.
struct LayerShapes {
  const int64_t* parameter;
  int parameter_rank;
  int64_t statistic[UHAL_MAX_RANK];

  LayerShapes(const View& x, int axis) : parameter(x.shape + axis), parameter_rank(x.rank - axis) {
    for (int i = 0; i < x.rank; ++i) statistic[i] = i < axis ? x.shape[i] : 1;
  }
};

uhal_norm_attributes layer_attributes(float epsilon, int axis) {
  auto attributes = norm_attributes(static_cast<double>(epsilon));
  attributes.axis = axis;
  return attributes;
}

void layer_norm(Context context, Input x, OptionalInput scale, OptionalInput bias, float epsilon, int axis, Output y,
                Output mean, Output variance) {
  const View in = x.view();
  const LayerShapes shapes(in, axis);
  const uhal_dtype statistic = accumulator(in.dtype);
  const Parameter32 gamma(context, scale, statistic, shapes.parameter, shapes.parameter_rank);
  const Parameter32 beta(context, bias, statistic, shapes.parameter, shapes.parameter_rank);
  const View out = context.allocate(y, in.dtype);
  const View m = context.allocate(mean, statistic).reshaped(shapes.statistic, in.rank);
  const View v = context.allocate(variance, statistic).reshaped(shapes.statistic, in.rank);
  const auto attributes = layer_attributes(epsilon, axis);
  context.run(UHAL_OP_LAYER_NORM, {&in, gamma.tensor(), beta.tensor()}, {&out, &m, &v}, &attributes);
}

void layer_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, Input mean, Input variance,
                     Input dy, float epsilon, int axis, Output dx, Output dscale, Output dbias) {
  const View in = x.view(), gradient = dy.view();
  const LayerShapes shapes(in, axis);
  const uhal_dtype statistic = accumulator(in.dtype);
  const Parameter32 gamma(context, scale, statistic, shapes.parameter, shapes.parameter_rank);
  const View m = mean.view().reshaped(shapes.statistic, in.rank),
             v = variance.view().reshaped(shapes.statistic, in.rank);
  const InputGradient out(context, dx, in);
  const ParameterGradient dgamma(context, dscale, scale, statistic, shapes.parameter, shapes.parameter_rank);
  const ParameterGradient dbeta(context, dbias, bias, statistic, shapes.parameter, shapes.parameter_rank);
  const auto attributes = layer_attributes(epsilon, axis);
  context.run(UHAL_OP_LAYER_NORM_BACKWARD, {&in, &gradient, gamma.tensor(), &m, &v},
              {&out, dgamma.tensor(), dbeta.tensor()}, &attributes);
  dgamma.store();
  dbeta.store();
}

void group_norm_of(const Context& context, const View& in, OptionalInput scale, OptionalInput bias, double epsilon,
                   int64_t groups, const View& out, Output mean, Output variance) {
  const uhal_dtype statistic = accumulator(in.dtype);
  const int64_t channels[] = {in.shape[1]}, statistics[] = {in.shape[0], groups};
  const Parameter32 gamma(context, scale, statistic, channels, 1), beta(context, bias, statistic, channels, 1);
  const View m = context.allocate(mean, statistic).reshaped(statistics, 2);
  const View v = context.allocate(variance, statistic).reshaped(statistics, 2);
  auto attributes = norm_attributes(epsilon);
  attributes.groups = groups;
  context.run(UHAL_OP_GROUP_NORM, {&in, gamma.tensor(), beta.tensor()}, {&out, &m, &v}, &attributes);
}

void group_norm_grad_of(const Context& context, const View& in, OptionalInput scale, OptionalInput bias, Input mean,
                        Input variance, const View& gradient, double epsilon, int64_t groups, const View& out,
                        Output dscale, Output dbias) {
  const uhal_dtype statistic = accumulator(in.dtype);
  const int64_t channels[] = {in.shape[1]}, statistics[] = {in.shape[0], groups};
  const Parameter32 gamma(context, scale, statistic, channels, 1);
  const View m = mean.view().reshaped(statistics, 2), v = variance.view().reshaped(statistics, 2);
  const ParameterGradient dgamma(context, dscale, scale, statistic, channels, 1);
  const ParameterGradient dbeta(context, dbias, bias, statistic, channels, 1);
  auto attributes = norm_attributes(epsilon);
  attributes.groups = groups;
  context.run(UHAL_OP_GROUP_NORM_BACKWARD, {&in, &gradient, gamma.tensor(), &m, &v},
              {&out, dgamma.tensor(), dbeta.tensor()}, &attributes);
  dgamma.store();
  dbeta.store();
}

template <class Number>
void group_norm(Context context, Input x, OptionalInput scale, OptionalInput bias, Number epsilon, int groups,
                Text data_format, Output y, Output mean, Output variance) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), out = image(context.allocate(y, in.dtype), last);
  group_norm_of(context, in, scale, bias, static_cast<double>(epsilon), groups, out, mean, variance);
}

template <class Number>
void group_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, Input, Input mean,
                     Input variance, Input dy, Number epsilon, int groups, Text data_format, Output dx, Output dscale,
                     Output dbias) {
  const bool last = channels_last(data_format);
  const InputGradient made(context, dx, x.view());
  const View in = image(x.view(), last), out = image(made, last);
  group_norm_grad_of(context, in, scale, bias, mean, variance, image(dy.view(), last), static_cast<double>(epsilon),
                     groups, out, dscale, dbias);
}

// A group per channel. saved_variance is the variance, as in batch_norm.
void instance_norm(Context context, Input x, OptionalInput scale, OptionalInput bias, float epsilon, Output y,
                   Output saved_mean, Output saved_variance) {
  const View in = x.view();
  group_norm_of(context, in, scale, bias, static_cast<double>(epsilon), in.shape[1], context.allocate(y, in.dtype),
                saved_mean, saved_variance);
}

void instance_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, Input saved_mean,
                        Input saved_variance, Input dy, float epsilon, Output dx, Output dscale, Output dbias) {
  const View in = x.view();
  group_norm_grad_of(context, in, scale, bias, saved_mean, saved_variance, dy.view(), static_cast<double>(epsilon),
                     in.shape[1], InputGradient(context, dx, in), dscale, dbias);
}

// Paddle 3.0: no bias, which is there where the scale is.
void instance_norm_grad_without_bias(Context context, Input x, OptionalInput scale, Input saved_mean,
                                     Input saved_variance, Input dy, float epsilon, Output dx, Output dscale,
                                     Output dbias) {
  instance_norm_grad(context, x, scale, scale, saved_mean, saved_variance, dy, epsilon, dx, dscale, dbias);
}

}  // namespace

KernelTable norm_kernels() {
  return {
      UNIHAL_KERNEL("batch_norm", kFloats, batch_norm),
      UNIHAL_KERNEL("batch_norm_grad", kFloats, batch_norm_grad),
      UNIHAL_KERNEL("batch_norm_infer", kFloats, batch_norm_infer),
      UNIHAL_KERNEL("layer_norm", kFloats, layer_norm),
      UNIHAL_KERNEL("layer_norm_grad", kFloats, layer_norm_grad),
      UNIHAL_KERNEL("group_norm", kFloats, group_norm<float>),
      UNIHAL_KERNEL("group_norm", kFloats, group_norm<double>),
      UNIHAL_KERNEL("group_norm_grad", kFloats, group_norm_grad<float>),
      UNIHAL_KERNEL("group_norm_grad", kFloats, group_norm_grad<double>),
      UNIHAL_KERNEL("instance_norm", kFloats, instance_norm),
      UNIHAL_KERNEL("instance_norm_grad", kFloats, instance_norm_grad),
      UNIHAL_KERNEL("instance_norm_grad", kFloats, instance_norm_grad_without_bias),
  };
}

}  // namespace unihal::paddle
