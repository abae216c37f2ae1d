// Batch, layer and RMS normalization that the graph pass finds in graphs (fusion/norm.cc), with their gradients. x, y
// and their gradients may be narrow; all else is float32.
#include <limits>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

class FusedNorm : public Kernel {
 public:
  explicit FusedNorm(Construction& construction)
      : Kernel(construction),
        attributes_(norm_attributes(construction.real("epsilon"))),
        has_scale_(construction.boolean("has_scale")) {
    if (construction.has("rank")) rank_ = static_cast<int>(construction.integer("rank"));
  }

 protected:
  // An operand that has a number for each channel, be it by broadcasting.
  View per_channel(Context& context, const View& view, const Shape& channels) const {
    int64_t count = 1;
    for (int64_t size : channels) count *= size;
    if (!context.ok() || view.elements() == count) return view.reshaped({count});
    Shape joint;
    if (!broadcast_shape(shape_of(view), channels, &joint) || joint != channels) {
      context.fail_invalid("Incompatible shapes: " + to_text(channels) + " vs. " + to_text(view));
      return view;
    }
    const View whole = context.temporary(view.dtype, channels);
    if (context.ok()) context.copy(view, whole);
    return whole.reshaped({count});
  }

  bool check_gradient(Context& context, const View& x, const View& gradient) const {
    if (context.ok() && shape_of(gradient) != shape_of(x)) {
      context.fail_invalid("Incompatible shapes: " + to_text(x) + " vs. " + to_text(gradient));
    }
    return context.ok();
  }

  // The optional scale and offset, which begin at an input.
  struct Parameters {
    View scale, offset;
    const View* scale_or_none = nullptr;
    const View* offset_or_none = nullptr;
  };
  void read(Context& context, int first, const Shape& channels, Parameters* parameters) const {
    if (has_scale_) {
      parameters->scale = per_channel(context, context.input(first++), channels);
      parameters->scale_or_none = &parameters->scale;
    }
    if (first < context.input_count()) {
      parameters->offset = per_channel(context, context.input(first), channels);
      parameters->offset_or_none = &parameters->offset;
    }
  }

  uhal_norm_attributes attributes_;
  bool has_scale_;
  int rank_ = 0;  // of x, as the graph's constants have it; 0: any
};

Shape last_axes(const View& x, int first) { return Shape(x.shape + first, x.shape + x.rank); }

// x as points of channels.
View flat(const View& x, int first) {
  int64_t channels = 1;
  for (int i = first; i < x.rank; ++i) channels *= x.shape[i];
  return x.reshaped({channels == 0 ? 0 : x.elements() / channels, channels});
}

class FusedBatchNormBase : public FusedNorm {
 public:
  using FusedNorm::FusedNorm;

 protected:
  bool check_rank(Context& context, const View& x) const {
    if (context.ok() && x.rank < rank_) {
      context.fail_invalid("Invalid reduction dimension: x has shape " + to_text(x) + ", and " +
                           std::to_string(rank_ - 1) + " axes are normalized");
    }
    return context.ok();
  }
};

// (x, [scale], [offset]) -> (y, mean, variance)
class FusedBatchNorm : public FusedBatchNormBase {
 public:
  using FusedBatchNormBase::FusedBatchNormBase;
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!check_rank(context, x)) return;
    const Shape channels = last_axes(x, rank_ - 1);
    Parameters parameters;
    read(context, 1, channels, &parameters);
    const View y = context.output_like(0, x);
    const View mean = context.output(1, UHAL_FLOAT32, channels);
    const View variance = context.output(2, UHAL_FLOAT32, channels);
    if (!context.ok()) return;
    if (x.elements() == 0) {  // the statistics of nothing
      context.fill(mean, std::numeric_limits<double>::quiet_NaN(), 0);
      context.fill(variance, std::numeric_limits<double>::quiet_NaN(), 0);
      return;
    }
    const View from = flat(x, rank_ - 1);
    const View to = flat(y, rank_ - 1);
    const View flat_mean = mean.reshaped({mean.elements()});
    const View flat_variance = variance.reshaped({variance.elements()});
    context.launch(UHAL_OP_BATCH_NORM, {&from, parameters.scale_or_none, parameters.offset_or_none},
                   {&to, &flat_mean, &flat_variance}, &attributes_);
  }
};

// (x, mean, variance, [scale], [offset]) -> (y)
class FusedBatchNormInference : public FusedNorm {
 public:
  using FusedNorm::FusedNorm;
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (context.ok() && x.rank == 0) return context.fail_invalid("x must have an axis of channels, got a scalar");
    if (!context.ok()) return;
    const Shape channels = last_axes(x, x.rank - 1);
    const View mean = per_channel(context, context.input(1), channels);
    const View variance = per_channel(context, context.input(2), channels);
    Parameters parameters;
    read(context, 3, channels, &parameters);
    const View y = context.output_like(0, x);
    if (!context.ok() || x.elements() == 0) return;
    uhal_norm_attributes attributes = attributes_;
    attributes.inference = 1;
    const View from = flat(x, x.rank - 1);
    const View to = flat(y, x.rank - 1);
    context.launch(UHAL_OP_BATCH_NORM, {&from, parameters.scale_or_none, parameters.offset_or_none, &mean, &variance},
                   {&to}, &attributes);
  }
};

// (x, gradient, mean, variance, [scale]) -> (x_gradient, scale_gradient, offset_gradient)
class FusedBatchNormGrad : public FusedBatchNormBase {
 public:
  using FusedBatchNormBase::FusedBatchNormBase;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View gradient = context.input(1);
    if (!check_rank(context, x) || !check_gradient(context, x, gradient)) return;
    const Shape channels = last_axes(x, rank_ - 1);
    const View mean = per_channel(context, context.input(2), channels);
    const View variance = per_channel(context, context.input(3), channels);
    Parameters parameters;
    read(context, 4, channels, &parameters);
    const View x_gradient = context.output_like(0, x);
    const View scale_gradient = context.output(1, UHAL_FLOAT32, Shape{mean.elements()});
    const View offset_gradient = context.output(2, UHAL_FLOAT32, Shape{mean.elements()});
    if (!context.ok()) return;
    if (x.elements() == 0) {
      context.zero(scale_gradient);
      context.zero(offset_gradient);
      return;
    }
    const View from = flat(x, rank_ - 1);
    const View dy = flat(gradient, rank_ - 1);
    const View dx = flat(x_gradient, rank_ - 1);
    context.launch(UHAL_OP_BATCH_NORM_BACKWARD, {&from, &dy, parameters.scale_or_none, &mean, &variance},
                   {&dx, &scale_gradient, &offset_gradient}, &attributes_);
  }
};

// Over the last axis.
class FusedRowNormBase : public FusedNorm {
 public:
  using FusedNorm::FusedNorm;

 protected:
  bool check_rank(Context& context, const View& x) const {
    if (context.ok() && (x.rank == 0 || (rank_ != 0 && x.rank != rank_))) {
      context.fail_invalid("Invalid reduction dimension: x has shape " + to_text(x) + ", and its last axis of " +
                           (rank_ == 0 ? "any number" : std::to_string(rank_)) + " is normalized");
    }
    return context.ok();
  }
  View statistic(Context& context, int output, const View& x) const {
    Shape shape = shape_of(x);
    shape.back() = 1;
    return context.output(output, UHAL_FLOAT32, shape);
  }
  // A statistic, with a last axis of length 1.
  View rows(const View& view) const { return view.reshaped({view.elements(), 1}); }
};

// (x, [scale], [offset]) -> (y, mean, variance), or (y, inverse)
template <bool kRms>
class FusedRowNorm : public FusedRowNormBase {
 public:
  using FusedRowNormBase::FusedRowNormBase;
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!check_rank(context, x)) return;
    Parameters parameters;
    read(context, 1, last_axes(x, x.rank - 1), &parameters);
    const View y = context.output_like(0, x);
    const View first = statistic(context, 1, x);
    const View second = kRms ? first : statistic(context, 2, x);
    if (!context.ok()) return;
    if (x.elements() == 0) {  // the statistics of nothing
      context.fill(first, std::numeric_limits<double>::quiet_NaN(), 0);
      if (!kRms) context.fill(second, std::numeric_limits<double>::quiet_NaN(), 0);
      return;
    }
    const View from = flat(x, x.rank - 1);
    const View to = flat(y, x.rank - 1);
    const View mean = rows(first);
    const View variance = rows(second);
    if (kRms) {
      context.launch(UHAL_OP_RMS_NORM, {&from, parameters.scale_or_none}, {&to, &mean}, &attributes_);
    } else {
      context.launch(UHAL_OP_LAYER_NORM, {&from, parameters.scale_or_none, parameters.offset_or_none},
                     {&to, &mean, &variance}, &attributes_);
    }
  }
};

// (x, gradient, mean, variance, [scale]) -> (x_gradient, scale_gradient, offset_gradient), or (x, gradient, inverse,
// [scale]) -> (x_gradient, scale_gradient)
template <bool kRms>
class FusedRowNormGrad : public FusedRowNormBase {
 public:
  using FusedRowNormBase::FusedRowNormBase;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View gradient = context.input(1);
    if (!check_rank(context, x) || !check_gradient(context, x, gradient)) return;
    const Shape channels = last_axes(x, x.rank - 1);
    const View mean = rows(context.input(2));
    const View variance = kRms ? mean : rows(context.input(3));
    Parameters parameters;
    read(context, kRms ? 3 : 4, channels, &parameters);
    const View x_gradient = context.output_like(0, x);
    const View scale_gradient = context.output(1, UHAL_FLOAT32, channels);
    const View offset_gradient = kRms ? scale_gradient : context.output(2, UHAL_FLOAT32, channels);
    if (!context.ok()) return;
    if (x.elements() == 0) {
      context.zero(scale_gradient);
      if (!kRms) context.zero(offset_gradient);
      return;
    }
    const View from = flat(x, x.rank - 1);
    const View dy = flat(gradient, x.rank - 1);
    const View dx = flat(x_gradient, x.rank - 1);
    const View* scale = parameters.scale_or_none;
    const View* dscale = has_scale_ ? &scale_gradient : nullptr;
    if (kRms) {
      context.launch(UHAL_OP_RMS_NORM_BACKWARD, {&from, &dy, scale, &mean}, {&dx, dscale}, &attributes_);
    } else {
      context.launch(UHAL_OP_LAYER_NORM_BACKWARD, {&from, &dy, scale, &mean, &variance},
                     {&dx, dscale, &offset_gradient}, &attributes_);
    }
  }
};

}  // namespace

void register_fused_norm(Registrar& registrar) {
  // Statistics, scale, offset and their gradients are float32, as the ABI has them.
  const std::initializer_list<TypeConstraint> types = {{"T", kReducedFloats | only(UHAL_FLOAT32)}};
  registrar.add_own<FusedBatchNorm>("UnihalBatchNorm", types);
  registrar.add_own<FusedBatchNormInference>("UnihalBatchNormInference", types);
  registrar.add_own<FusedBatchNormGrad>("UnihalBatchNormGrad", types);
  registrar.add_own<FusedRowNorm<false>>("UnihalLayerNorm", types);
  registrar.add_own<FusedRowNormGrad<false>>("UnihalLayerNormGrad", types);
  registrar.add_own<FusedRowNorm<true>>("UnihalRmsNorm", types);
  registrar.add_own<FusedRowNormGrad<true>>("UnihalRmsNormGrad", types);
}

}  // namespace unihal::tensorflow
