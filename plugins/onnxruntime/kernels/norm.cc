// Softmax and normalizations.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// Statistics, scales and biases are float32 beside narrow dtypes (op.h).
uhal_dtype statistics_dtype(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32; }

// An operand in the dtype of statistics; NULL where it is missing.
struct NormParameter {
  NormParameter(Call& call, int index, uhal_dtype dtype) {
    if (!call.has(index)) return;
    view = call.as(call.input(index), dtype);
    pointer = &view;
  }
  // With the shape of some axes; broadcast where it has another.
  void fit(Call& call, const Shape& shape) {
    if (pointer == nullptr || shape_of(view) == shape) return;
    if (view.elements() == elements_of(shape)) {
      view = view.reshaped(shape);
      return;
    }
    broadcast(call, shape_of(view), shape);
    const View whole = call.scratch(shape, view.dtype);
    call.launch(UHAL_OP_COPY, {&view}, {&whole});
    view = whole;
  }
  View view;
  const View* pointer = nullptr;
};

class Softmax final : public Kernel {
 public:
  Softmax(const Description& node, const void* data)
      : logarithm_(*static_cast<const bool*>(data)),
        is_flat_(node.version() < 13),
        axis_(node.integer("axis", node.version() < 13 ? 1 : -1)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    // Up to opset 12 it is over all axes from `axis` on.
    if (is_flat_) {
      const int64_t axis = axis_ < 0 ? axis_ + x.rank : axis_;
      call.require(axis >= 0 && axis <= x.rank, "there is no such axis");
      int64_t rows = 1;
      for (int64_t i = 0; i < axis; ++i) rows *= x.shape[i];
      const Shape flat = {rows, x.elements() / rows};
      return run(call, x.reshaped(flat), y.reshaped(flat), 1);
    }
    if (x.rank == 0) return run(call, x.unsqueezed(0), y.unsqueezed(0), 0);
    run(call, x, y, axis_of(call, axis_, x.rank));
  }

 private:
  void run(Call& call, const View& x, const View& y, int axis) const {
    const uhal_softmax_attributes attributes = softmax_attributes(axis, logarithm_);
    call.launch(UHAL_OP_SOFTMAX, {&x}, {&y}, &attributes);
  }

  const bool logarithm_, is_flat_;
  const int64_t axis_;
};

constexpr bool kSoftmax = false;
constexpr bool kLogSoftmax = true;

// 1 where the first maximum of a row is, else 0.
class Hardmax final : public Kernel {
 public:
  explicit Hardmax(const Description& node)
      : is_flat_(node.version() < 13), axis_(node.integer("axis", node.version() < 13 ? 1 : -1)) {}
  void run(Call& call) const override {
    View x = call.input(0);
    View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    int axis = 0;
    if (is_flat_) {
      const int64_t first = axis_ < 0 ? axis_ + x.rank : axis_;
      call.require(first >= 0 && first <= x.rank, "there is no such axis");
      int64_t rows = 1;
      for (int64_t i = 0; i < first; ++i) rows *= x.shape[i];
      const Shape flat = {rows, x.elements() / rows};
      x = x.reshaped(flat);
      y = y.reshaped(flat);
      axis = 1;
    } else {
      axis = axis_of(call, axis_, x.rank);
    }
    Shape kept = shape_of(x), without;
    kept[static_cast<size_t>(axis)] = 1;
    for (int i = 0; i < x.rank; ++i) {
      if (i != axis) without.push_back(x.shape[i]);
    }
    const View largest = call.scratch(kept, UHAL_INT64);
    const uhal_axis_attributes attributes = axis_attributes(axis, true);
    call.launch(UHAL_OP_ARG_REDUCE, {&x}, {&largest}, &attributes);
    const View classes = largest.reshaped(without);
    const uhal_index_attributes index = index_attributes(axis);
    call.launch(UHAL_OP_ONE_HOT, {&classes}, {&y}, &index);
  }

 private:
  const bool is_flat_;
  const int64_t axis_;
};

class BatchNormalization final : public Kernel {
 public:
  explicit BatchNormalization(const Description& node)
      : epsilon_(node.real("epsilon", 1e-5)),
        momentum_(node.real("momentum", 0.9)),
        trains_(node.version() >= 14 && node.integer("training_mode", 0) != 0) {
    node.require(node.version() >= 7, "an opset before 7");
    node.require(node.integer("spatial", 1) != 0, "statistics for each pixel");
    node.require(node.version() >= 14 || node.output_count() == 1 || !node.has_output(1), "training of opset 7");
  }
  void run(Call& call) const override {
    View x = call.input(0);
    View y = call.output_like(0, x);
    call.require(x.rank >= 2, "the operand has no channels");
    const uhal_dtype dtype = statistics_dtype(x.dtype);
    const NormParameter scale(call, 1, dtype), bias(call, 2, dtype), mean(call, 3, dtype), variance(call, 4, dtype);
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.momentum = momentum_;
    attributes.inference = trains_ ? 0 : 1;
    if (!trains_) {
      if (y.elements() == 0) return;
      return call.launch(UHAL_OP_BATCH_NORM, {&x, scale.pointer, bias.pointer, mean.pointer, variance.pointer}, {&y},
                         &attributes);
    }
    const Shape channels = {x.shape[1]};
    const View batch_mean = call.scratch(channels, dtype), batch_variance = call.scratch(channels, dtype);
    const View next_mean = call.scratch(channels, dtype), next_variance = call.scratch(channels, dtype);
    call.launch(UHAL_OP_BATCH_NORM, {&x, scale.pointer, bias.pointer, mean.pointer, variance.pointer},
                {&y, &batch_mean, &batch_variance, &next_mean, &next_variance}, &attributes);
    View output;
    if (call.wants(1, channels, &output)) call.move(next_mean, output);
    if (call.wants(2, channels, &output)) call.move(next_variance, output);
  }

 private:
  const double epsilon_, momentum_;
  const bool trains_;
};

// y = layer_norm(x) and, where they are asked for, the means and inverse deviations as outputs 1 and 2.
void layer_norm(Call& call, const View& x, const View& y, int axis, double epsilon, NormParameter* scale,
                NormParameter* bias) {
  const Shape normalized(x.shape + axis, x.shape + x.rank);
  Shape rows = shape_of(x);
  for (int i = axis; i < x.rank; ++i) rows[static_cast<size_t>(i)] = 1;
  scale->fit(call, normalized);
  bias->fit(call, normalized);
  View mean, deviation;
  const bool wants_mean = call.wants(1, rows, &mean);
  const bool wants_deviation = call.wants(2, rows, &deviation);
  if (y.elements() == 0) return;
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.axis = axis;
  if (!wants_mean && !wants_deviation) {
    return call.launch(UHAL_OP_LAYER_NORM, {&x, scale->pointer, bias->pointer}, {&y}, &attributes);
  }
  const uhal_dtype dtype = statistics_dtype(x.dtype);
  const View means = call.scratch(rows, dtype), variances = call.scratch(rows, dtype);
  call.launch(UHAL_OP_LAYER_NORM, {&x, scale->pointer, bias->pointer}, {&y, &means, &variances}, &attributes);
  if (wants_mean) call.move(means, mean);
  if (wants_deviation) {
    call.map(uhal_map_scale, {&variances}, {&variances}, {1, epsilon});
    call.map(uhal_map_rsqrt, {&variances}, {&deviation});
  }
}

class LayerNormalization final : public Kernel {
 public:
  explicit LayerNormalization(const Description& node)
      : axis_(node.integer("axis", -1)), epsilon_(node.real("epsilon", 1e-5)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    const uhal_dtype dtype = statistics_dtype(x.dtype);
    NormParameter scale(call, 1, dtype), bias(call, 2, dtype);
    layer_norm(call, x, y, axis_of(call, axis_, x.rank), epsilon_, &scale, &bias);
  }

 private:
  const int64_t axis_;
  const double epsilon_;
};

// x / sqrt(mean(x^2) + epsilon) * scale.
void rms_norm(Call& call, const View& x, const View& y, int axis, double epsilon, NormParameter* scale,
              int inverse_output) {
  Shape rows = shape_of(x);
  for (int i = axis; i < x.rank; ++i) rows[static_cast<size_t>(i)] = 1;
  scale->fit(call, Shape(x.shape + axis, x.shape + x.rank));
  View inverse;
  const bool wants_inverse = inverse_output > 0 && call.wants(inverse_output, rows, &inverse);
  if (y.elements() == 0) return;
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.axis = axis;
  if (!wants_inverse) return call.launch(UHAL_OP_RMS_NORM, {&x, scale->pointer}, {&y}, &attributes);
  const View inverses = call.scratch(rows, statistics_dtype(x.dtype));
  call.launch(UHAL_OP_RMS_NORM, {&x, scale->pointer}, {&y, &inverses}, &attributes);
  call.move(inverses, inverse);
}

class RmsNormalization final : public Kernel {
 public:
  explicit RmsNormalization(const Description& node)
      : axis_(node.integer("axis", -1)), epsilon_(node.real("epsilon", 1e-5)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    NormParameter scale(call, 1, statistics_dtype(x.dtype));
    rms_norm(call, x, y, axis_of(call, axis_, x.rank), epsilon_, &scale, 1);
  }

 private:
  const int64_t axis_;
  const double epsilon_;
};

// com.microsoft: the norm of input + skip + bias; output 3 is that sum.
class SkipLayerNormalization final : public Kernel {
 public:
  SkipLayerNormalization(const Description& node, const void* data)
      : is_rms_(*static_cast<const bool*>(data)), epsilon_(node.real("epsilon", 1e-12)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View skip = call.input(1);
    const View y = call.output_like(0, x);
    const uhal_dtype dtype = statistics_dtype(x.dtype);
    NormParameter scale(call, 2, dtype), bias(call, is_rms_ ? 99 : 3, dtype);
    View sum;
    if (!call.wants(3, shape_of(x), &sum)) sum = call.scratch_like(x, x.dtype);
    if (y.elements() == 0) return;
    call.map(uhal_map_add, {&x, &skip}, {&sum});
    const int added = is_rms_ ? 3 : 4;
    if (call.has(added)) {
      const View more = call.input(added);
      call.map(uhal_map_add, {&sum, &more}, {&sum});
    }
    if (is_rms_) return rms_norm(call, sum, y, x.rank - 1, epsilon_, &scale, 2);
    layer_norm(call, sum, y, x.rank - 1, epsilon_, &scale, &bias);
  }

 private:
  const bool is_rms_;
  const double epsilon_;
};

class GroupNormalization final : public Kernel {
 public:
  explicit GroupNormalization(const Description& node)
      : groups_(node.integer("num_groups", 0)), epsilon_(node.real("epsilon", 1e-5)), by_group_(node.version() < 21) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    call.require(x.rank >= 2 && groups_ > 0 && x.shape[1] % groups_ == 0, "the channels are no multiple of the groups");
    const uhal_dtype dtype = statistics_dtype(x.dtype);
    NormParameter scale(call, 1, dtype), bias(call, 2, dtype);
    if (y.elements() == 0) return;
    if (by_group_) {
      spread(call, &scale, x.shape[1]);
      spread(call, &bias, x.shape[1]);
    }
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.groups = groups_;
    const Shape statistics = {x.shape[0], groups_};
    const View mean = call.scratch(statistics, dtype), variance = call.scratch(statistics, dtype);
    call.launch(UHAL_OP_GROUP_NORM, {&x, scale.pointer, bias.pointer}, {&y, &mean, &variance}, &attributes);
  }

 private:
  // A number for each group becomes one for each of its channels.
  void spread(Call& call, NormParameter* parameter, int64_t channels) const {
    if (parameter->pointer == nullptr || parameter->view.elements() != groups_) return;
    const View whole = call.scratch(Shape{channels}, parameter->view.dtype);
    const View from = parameter->view.reshaped({groups_, 1});
    const View to = whole.reshaped({groups_, channels / groups_});
    call.launch(UHAL_OP_COPY, {&from}, {&to});
    parameter->view = whole;
  }

  const int64_t groups_;
  const double epsilon_;
  const bool by_group_;
};

// The statistics of each channel of each image.
class InstanceNormalization final : public Kernel {
 public:
  explicit InstanceNormalization(const Description& node) : epsilon_(node.real("epsilon", 1e-5)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    call.require(x.rank >= 2, "the operand has no channels");
    const uhal_dtype dtype = statistics_dtype(x.dtype);
    const NormParameter scale(call, 1, dtype), bias(call, 2, dtype);
    if (y.elements() == 0) return;
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.groups = x.shape[1];
    const Shape statistics = {x.shape[0], x.shape[1]};
    const View mean = call.scratch(statistics, dtype), variance = call.scratch(statistics, dtype);
    call.launch(UHAL_OP_GROUP_NORM, {&x, scale.pointer, bias.pointer}, {&y, &mean, &variance}, &attributes);
  }

 private:
  const double epsilon_;
};

class LpNormalization final : public Kernel {
 public:
  explicit LpNormalization(const Description& node) : axis_(node.integer("axis", -1)), p_(node.integer("p", 2)) {
    node.require(p_ == 1 || p_ == 2, "a norm other than L1 and L2");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const View norm = call.scratch(shape_of(x.with_axis_one(axis_of(call, axis_, x.rank))), x.dtype);
    const uhal_reduce_attributes attributes = reduce_attributes(p_ == 1 ? UHAL_REDUCE_L1_NORM : UHAL_REDUCE_L2_NORM);
    call.launch(UHAL_OP_REDUCE, {&x}, {&norm}, &attributes);
    call.map(uhal_map_divide_no_nan, {&x, &norm}, {&y});
  }

 private:
  const int64_t axis_, p_;
};

// x / (bias + alpha / size * sum of the squares of `size` channels around) ^ beta.
class Lrn final : public Kernel {
 public:
  explicit Lrn(const Description& node)
      : alpha_(node.real("alpha", 1e-4)),
        beta_(node.real("beta", 0.75)),
        bias_(node.real("bias", 1)),
        size_(node.integer("size", 1)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    call.require(x.rank >= 2 && size_ > 0, "the operand has no channels, or size is not positive");
    if (y.elements() == 0) return;
    const View squares = call.scratch_like(x, x.dtype);
    call.map(uhal_map_square, {&x}, {&squares});
    const View means = call.scratch_like(x, x.dtype);
    uhal_pool_attributes attributes = pool_attributes(UHAL_POOL_AVERAGE_INCLUDE_PADDING);
    attributes.window[0] = size_;
    attributes.pad_before[0] = (size_ - 1) / 2;
    attributes.pad_after[0] = size_ - 1 - (size_ - 1) / 2;
    const Shape seen = {x.shape[0], 1, x.shape[1], x.elements() / (x.shape[0] * x.shape[1])};
    const View from = squares.reshaped(seen), to = means.reshaped(seen);
    call.launch(UHAL_OP_POOL, {&from}, {&to}, &attributes);
    call.map(uhal_map_scale, {&means}, {&means}, {alpha_, bias_});
    call.map(uhal_map_power_scalar, {&means}, {&means}, {beta_});
    call.map(uhal_map_divide, {&x, &means}, {&y});
  }

 private:
  const double alpha_, beta_, bias_;
  const int64_t size_;
};

// (x - mean) / sqrt(variance) along axes.
class MeanVarianceNormalization final : public Kernel {
 public:
  explicit MeanVarianceNormalization(const Description& node) : axes_(node.integers("axes").value_or(Shape{0, 2, 3})) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    Shape kept = shape_of(x);
    for (const int64_t axis : axes_) kept[static_cast<size_t>(axis_of(call, axis, x.rank))] = 1;
    const View mean = call.scratch(kept, x.dtype), variance = call.scratch(kept, x.dtype);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MEAN);
    call.launch(UHAL_OP_REDUCE, {&x}, {&mean}, &attributes);
    const View squares = call.scratch_like(x, x.dtype);
    call.map(uhal_map_squared_difference, {&x, &mean}, {&squares});
    call.launch(UHAL_OP_REDUCE, {&squares}, {&variance}, &attributes);
    call.map(uhal_map_sqrt, {&variance}, {&variance});
    call.map(uhal_map_scale, {&variance}, {&variance}, {1, 1e-9});
    call.map(uhal_map_subtract, {&x, &mean}, {&y});
    call.map(uhal_map_divide, {&y, &variance}, {&y});
  }

 private:
  const Shape axes_;
};

constexpr bool kOfDifferences = false;  // layer norm
constexpr bool kOfSquares = true;       // RMS norm

#define NORM(op, from, type) {.name = op, .first = from, .last = kNewestOpset, .dtypes = kFloats, .make = make<type>}

const Op kNormOps[] = {
    {.name = "Softmax",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Softmax>,
     .reuse = Reuse::kInPlace,
     .data = &kSoftmax},
    {.name = "LogSoftmax",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Softmax>,
     .reuse = Reuse::kInPlace,
     .data = &kLogSoftmax},
    NORM("Hardmax", 1, Hardmax),
    NORM("BatchNormalization", 7, BatchNormalization),
    NORM("LayerNormalization", 1, LayerNormalization),
    NORM("RMSNormalization", 23, RmsNormalization),
    NORM("SimplifiedLayerNormalization", 1, RmsNormalization),
    NORM("GroupNormalization", 18, GroupNormalization),
    NORM("InstanceNormalization", 6, InstanceNormalization),
    NORM("LpNormalization", 1, LpNormalization),
    NORM("LRN", 1, Lrn),
    NORM("MeanVarianceNormalization", 9, MeanVarianceNormalization),
    {.name = "SkipLayerNormalization",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<SkipLayerNormalization>,
     .data = &kOfDifferences,
     .domain = kMicrosoft},
    {.name = "SkipSimplifiedLayerNormalization",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<SkipLayerNormalization>,
     .data = &kOfSquares,
     .domain = kMicrosoft},
};

#undef NORM

}  // namespace

Table norm_ops() { return table(kNormOps); }

}  // namespace unihal::onnxruntime
