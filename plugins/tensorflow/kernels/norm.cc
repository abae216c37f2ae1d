// Fused batch normalization, versions 1 to 3, and its gradients.
#include <limits>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

class BatchNormBase : public Kernel {
 public:
  explicit BatchNormBase(Construction& construction)
      : Kernel(construction),
        epsilon_(construction.real("epsilon")),
        training_(construction.boolean("is_training")),
        channels_first_(construction.text("data_format").rfind("NC", 0) == 0) {}

 protected:
  View logical(const View& view) const { return channels_first_ ? view : view.channels_first(); }

  bool check(Context& context, const View& x, std::initializer_list<const View*> per_channel) const {
    if (context.ok() && x.rank != 4 && x.rank != 5)
      context.fail_invalid(std::string(op()) + ": x must have rank 4 or 5, got " + to_text(x));
    const int64_t channels = context.ok() ? logical(x).shape[1] : 0;
    for (const View* view : per_channel) {
      if (context.ok() && (view->rank != 1 || view->shape[0] != channels)) {
        context.fail_invalid(std::string(op()) + ": scale, offset, mean and variance must have shape [" +
                             std::to_string(channels) + "], got " + to_text(*view));
      }
    }
    return context.ok();
  }

  double epsilon_;
  bool training_;
  bool channels_first_;
};

// (x, scale, offset, mean, variance) -> (y, batch mean, batch variance, reserve 1: mean, reserve 2: variance,
// [reserve 3: unused]). In training the second and third outputs are the running statistics moved by
// exponential_avg_factor, with the unbiased variance.
class BatchNorm : public BatchNormBase {
 public:
  explicit BatchNorm(Construction& construction) : BatchNormBase(construction) {
    if (construction.has("exponential_avg_factor")) factor_ = construction.real("exponential_avg_factor");
  }

  void compute(Context& context) const override {
    const View x = context.input(0);
    const View scale = context.input(1);
    const View offset = context.input(2);
    const View mean = context.input(3);
    const View variance = context.input(4);
    const bool has_running = !training_ || factor_ != 1;
    if (!check(context, x, {&scale, &offset})) return;
    if (mean.rank != 1 || variance.rank != 1) {
      return context.fail_invalid(std::string(op()) + ": mean and variance must be vectors, got shapes " +
                                  to_text(mean) + " and " + to_text(variance));
    }
    if (has_running && !check(context, x, {&mean, &variance})) return;
    const View output = context.output_like(0, x);
    const View batch_mean = context.output_like(1, scale);
    const View batch_variance = context.output_like(2, scale);
    const View saved_mean = context.output_like(3, scale);
    const View saved_variance = context.output_like(4, scale);
    if (context.output_count() > 5) context.output(5, scale.dtype, Shape{0});
    if (!context.ok()) return;
    if (x.elements() == 0) {  // the statistics of nothing
      for (const View* result : {&batch_mean, &batch_variance, &saved_mean, &saved_variance}) {
        context.fill(*result, std::numeric_limits<double>::quiet_NaN(), 0);
      }
      return;
    }
    const View input = logical(x);
    const View y = logical(output);
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.inference = !training_;
    attributes.unbiased_running = 1;
    attributes.momentum = 1 - factor_;
    if (!training_) {
      context.launch(UHAL_OP_BATCH_NORM, {&input, &scale, &offset, &mean, &variance}, {&y}, &attributes);
      context.copy(mean, batch_mean);
      context.copy(variance, batch_variance);
      context.copy(mean, saved_mean);
      context.copy(variance, saved_variance);
      return;
    }
    if (has_running) {
      context.copy(mean, batch_mean);
      context.copy(variance, batch_variance);
    } else {  // multiplied by 0 below, so they must be finite
      context.zero(batch_mean);
      context.zero(batch_variance);
    }
    context.launch(UHAL_OP_BATCH_NORM, {&input, &scale, &offset, &batch_mean, &batch_variance},
                   {&y, &saved_mean, &saved_variance, &batch_mean, &batch_variance}, &attributes);
  }

 private:
  double factor_ = 1;
};

// (gradient of y, x, scale, reserve 1: mean, reserve 2: variance, [reserve 3]) -> (gradients of x, scale, offset, two
// unused outputs)
class BatchNormGrad : public BatchNormBase {
 public:
  using BatchNormBase::BatchNormBase;
  void compute(Context& context) const override {
    const View gradient = context.input(0);
    const View x = context.input(1);
    const View scale = context.input(2);
    const View mean = context.input(3);
    const View variance = context.input(4);
    if (!check(context, x, {&scale, &mean, &variance})) return;
    if (shape_of(gradient) != shape_of(x)) {
      return context.fail_invalid(std::string(op()) + ": x and y_backprop must have the same shape, got " + to_text(x) +
                                  " and " + to_text(gradient));
    }
    const View output = context.output_like(0, x);
    const View dscale = context.output_like(1, scale);
    const View doffset = context.output_like(2, scale);
    context.output(3, scale.dtype, Shape{0});
    context.output(4, scale.dtype, Shape{0});
    if (!context.ok()) return;
    if (x.elements() == 0) {
      context.zero(dscale);
      context.zero(doffset);
      return;
    }
    const View input = logical(x);
    const View dy = logical(gradient);
    const View dx = logical(output);
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.inference = !training_;
    context.launch(UHAL_OP_BATCH_NORM_BACKWARD, {&input, &dy, &scale, &mean, &variance}, {&dx, &dscale, &doffset},
                   &attributes);
  }
};

// Local response normalization over channels, which lie last: y = x * N^-beta, N = bias + alpha * (the sum of the
// squares of 2 * depth_radius + 1 channels).
class LocalResponse : public Kernel {
 public:
  explicit LocalResponse(Construction& construction)
      : Kernel(construction),
        radius_(construction.integer("depth_radius")),
        bias_(construction.real("bias")),
        alpha_(construction.real("alpha")),
        beta_(construction.real("beta")) {}

 protected:
  // The sums of neighbouring channels of float32: a pooling of one axis.
  void sum_neighbours(Context& context, const View& x, const View& sums) const {
    const int64_t channels = x.shape[x.rank - 1];
    const View from = x.reshaped({x.elements() / channels, 1, channels});
    const View to = sums.reshaped({x.elements() / channels, 1, channels});
    uhal_pool_attributes attributes = pool_attributes(UHAL_POOL_AVERAGE_INCLUDE_PADDING);
    attributes.window[0] = 2 * radius_ + 1;
    attributes.pad_before[0] = attributes.pad_after[0] = radius_;
    context.launch(UHAL_OP_POOL, {&from}, {&to}, &attributes);
    context.map(uhal_map_scale, {&sums}, {&sums}, {static_cast<double>(2 * radius_ + 1), 0});
  }

  // N of the operation's definition.
  View norm_of(Context& context, const View& x) const {
    const View squares = context.temporary(UHAL_FLOAT32, x.shape, x.rank);
    const View norm = context.temporary(UHAL_FLOAT32, x.shape, x.rank);
    if (!context.ok()) return norm;
    context.map(uhal_map_square, {&x}, {&squares});
    sum_neighbours(context, squares, norm);
    context.map(uhal_map_scale, {&norm}, {&norm}, {alpha_, bias_});
    return norm;
  }

  bool fits(Context& context, const View& x) const {
    if (context.ok() && x.rank != 4) context.fail_invalid("in must be 4-dimensional, got shape " + to_text(x));
    return context.ok();
  }

  int64_t radius_;
  double bias_;
  double alpha_;
  double beta_;
};

class LocalResponseNorm : public LocalResponse {
 public:
  using LocalResponse::LocalResponse;
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!fits(context, x)) return;
    const View output = context.output_like(0, x);
    if (!context.ok() || output.elements() == 0) return;
    const View norm = norm_of(context, x);
    if (!context.ok()) return;
    context.map(uhal_map_power_scalar, {&norm}, {&norm}, {-beta_});
    context.map(uhal_map_multiply, {&x, &norm}, {&output});
  }
};

// (gradient, input, output): dy * N^-beta - 2 * alpha * beta * x * (the sum of the neighbours' dy * y / N)
class LocalResponseNormGrad : public LocalResponse {
 public:
  using LocalResponse::LocalResponse;
  void compute(Context& context) const override {
    const View dy = context.input(0);
    const View x = context.input(1);
    const View y = context.input(2);
    if (!fits(context, x)) return;
    if (shape_of(dy) != shape_of(x) || shape_of(y) != shape_of(x)) {
      return context.fail_invalid("input_grads, input_image, and out_image should have the same shape, got " +
                                  to_text(dy) + ", " + to_text(x) + " and " + to_text(y));
    }
    const View output = context.output_like(0, x);
    if (!context.ok() || output.elements() == 0) return;
    const View norm = norm_of(context, x);
    const View part = context.temporary(UHAL_FLOAT32, x.shape, x.rank);
    const View sums = context.temporary(UHAL_FLOAT32, x.shape, x.rank);
    if (!context.ok()) return;
    context.map(uhal_map_multiply, {&dy, &y}, {&part});
    context.map(uhal_map_divide, {&part, &norm}, {&part});
    sum_neighbours(context, part, sums);
    context.map(uhal_map_multiply, {&x, &sums}, {&sums});
    context.map(uhal_map_scale, {&sums}, {&sums}, {-2 * alpha_ * beta_, 0});
    context.map(uhal_map_power_scalar, {&norm}, {&norm}, {-beta_});
    context.map(uhal_map_multiply_add, {&dy, &norm, &sums}, {&output});
  }
};

}  // namespace

void register_norm(Registrar& registrar) {
  constexpr DtypeSet kNormFloats = kReducedFloats | only(UHAL_FLOAT32);
  registrar.add<BatchNorm>("FusedBatchNorm", {{"T", only(UHAL_FLOAT32)}});
  registrar.add<BatchNorm>("FusedBatchNormV2", {{"T", kNormFloats}});
  registrar.add<BatchNorm>("FusedBatchNormV3", {{"T", kNormFloats}});
  registrar.add<BatchNormGrad>("FusedBatchNormGrad", {{"T", only(UHAL_FLOAT32)}});
  registrar.add<BatchNormGrad>("FusedBatchNormGradV2", {{"T", kNormFloats}});
  registrar.add<BatchNormGrad>("FusedBatchNormGradV3", {{"T", kNormFloats}});
  const DtypeSet local = kReducedFloats | only(UHAL_FLOAT32);
  registrar.add<LocalResponseNorm>("LRN", {{"T", local}});
  registrar.add<LocalResponseNormGrad>("LRNGrad", {{"T", local}});
}

}  // namespace unihal::tensorflow
