// Pooling.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// The shape of a pool's output, and its attributes.
struct Pooling {
  uhal_pool_attributes attributes;
  Shape shape;
  int64_t window = 1;  // pixels
};

Pooling plan(const Call& call, const View& x, const Window& window, uhal_pool_mode mode, bool ceil) {
  const int axes = x.rank - 2;
  window.check(call, axes);
  call.require(window.kernel.size() == static_cast<size_t>(axes),
               "kernel_shape has not an entry for each spatial axis");
  Pooling result;
  result.attributes = pool_attributes(mode);
  result.shape = {x.shape[0], x.shape[1]};
  for (int i = 0; i < axes; ++i) {
    const size_t axis = static_cast<size_t>(i);
    const int64_t size = window.kernel[axis], stride = window.stride(i), length = x.shape[2 + i];
    call.require(size > 0, "a window without pixels");
    int64_t before = 0, after = 0;
    window.padding(i, axes, length, size, &before, &after);
    const int64_t room = length + before + after - size;
    call.require(room >= 0 || ceil, "the window is larger than the padded image");
    int64_t count = room < 0 ? 1 : room / stride + 1;
    if (ceil && room > 0 && room % stride != 0) {
      ++count;
      if ((count - 1) * stride >= length + before) --count;  // a window that begins beyond the image is none
    }
    result.attributes.window[i] = size;
    result.attributes.stride[i] = stride;
    result.attributes.pad_before[i] = before;
    result.attributes.pad_after[i] = after;
    result.shape.push_back(count);
    result.window *= size;
  }
  return result;
}

void require_dense(const Description& node, const Window& window) {
  for (const int64_t dilation : window.dilations) node.require(dilation == 1, "a window with gaps");
}

class MaxPool final : public Kernel {
 public:
  MaxPool(const Description& node, const void* data)
      : window_(node), ceil_(node.integer("ceil_mode", 0) != 0), channels_last_(*static_cast<const bool*>(data)) {
    require_dense(node, window_);
    node.require(node.integer("storage_order", 0) == 0 || !node.has_output(1), "indices in the order of columns");
  }
  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    const Pooling pooling = plan(call, x, window_, UHAL_POOL_MAXIMUM, ceil_);
    const View y = output_images(call, 0, pooling.shape, channels_last_);
    View indices;
    const bool wants_indices = call.wants(1, pooling.shape, &indices);
    if (y.elements() == 0) return;
    if (!wants_indices) return call.launch(UHAL_OP_POOL, {&x}, {&y}, &pooling.attributes);
    call.launch(UHAL_OP_POOL, {&x}, {&y, &indices}, &pooling.attributes);
    // unihal counts pixels within a channel, ONNX through the whole operand.
    const int64_t planes = x.shape[0] * x.shape[1];
    uhal_iota_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.integer_step = x.elements() / planes;
    const View begin = call.scratch(Shape{planes}, UHAL_INT64);
    call.launch(UHAL_OP_IOTA, {}, {&begin}, &attributes);
    const View starts = begin.reshaped({planes, 1});
    const View flat = indices.reshaped({planes, indices.elements() / planes});
    call.map(uhal_map_add, {&flat, &starts}, {&flat});
  }

 private:
  const Window window_;
  const bool ceil_, channels_last_;
};

class AveragePool final : public Kernel {
 public:
  AveragePool(const Description& node, const void* data)
      : window_(node),
        ceil_(node.integer("ceil_mode", 0) != 0),
        counts_padding_(node.integer("count_include_pad", 0) != 0),
        channels_last_(*static_cast<const bool*>(data)) {
    require_dense(node, window_);
  }
  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    Pooling pooling =
        plan(call, x, window_, counts_padding_ ? UHAL_POOL_AVERAGE_INCLUDE_PADDING : UHAL_POOL_AVERAGE_EXCLUDE_PADDING,
             ceil_);
    const View y = output_images(call, 0, pooling.shape, channels_last_);
    if (y.elements() == 0) return;
    if (!counts_padding_ || !ceil_) return call.launch(UHAL_OP_POOL, {&x}, {&y}, &pooling.attributes);
    // What lies beyond the padding does not count: the padding becomes zeros of the image.
    Shape padded = shape_of(x);
    for (int i = 0; i < x.rank - 2; ++i) {
      padded[static_cast<size_t>(2 + i)] += pooling.attributes.pad_before[i] + pooling.attributes.pad_after[i];
    }
    const View whole = call.scratch(padded, x.dtype);
    call.fill(whole, 0);
    View inside = whole;
    for (int i = 0; i < x.rank - 2; ++i) {
      inside = inside.sliced(2 + i, pooling.attributes.pad_before[i], x.shape[2 + i]);
      pooling.attributes.pad_before[i] = pooling.attributes.pad_after[i] = 0;
    }
    call.launch(UHAL_OP_COPY, {&x}, {&inside});
    pooling.attributes.mode = UHAL_POOL_AVERAGE_EXCLUDE_PADDING;
    call.launch(UHAL_OP_POOL, {&whole}, {&y}, &pooling.attributes);
  }

 private:
  const Window window_;
  const bool ceil_, counts_padding_, channels_last_;
};

// (sum of |x|^p under a window)^(1/p).
class LpPool final : public Kernel {
 public:
  explicit LpPool(const Description& node)
      : window_(node), ceil_(node.integer("ceil_mode", 0) != 0), p_(static_cast<double>(node.integer("p", 2))) {
    require_dense(node, window_);
    node.require(p_ > 0, "a norm that is not positive");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank >= 3, "the operand has no spatial axes");
    const Pooling pooling = plan(call, x, window_, UHAL_POOL_AVERAGE_INCLUDE_PADDING, ceil_);
    const View y = call.output(0, pooling.shape);
    if (y.elements() == 0) return;
    const View powers = call.scratch_like(x, x.dtype);
    call.map(uhal_map_absolute, {&x}, {&powers});
    call.map(uhal_map_power_scalar, {&powers}, {&powers}, {p_});
    call.launch(UHAL_OP_POOL, {&powers}, {&y}, &pooling.attributes);
    call.map(uhal_map_scale, {&y}, {&y}, {static_cast<double>(pooling.window), 0});
    call.map(uhal_map_power_scalar, {&y}, {&y}, {1 / p_});
  }

 private:
  const Window window_;
  const bool ceil_;
  const double p_;
};

struct GlobalPoolForm {
  uhal_reduction reduction;
  bool channels_last;
};
constexpr GlobalPoolForm kMean = {UHAL_REDUCE_MEAN, kChannelsFirst};
constexpr GlobalPoolForm kMaximum = {UHAL_REDUCE_MAXIMUM, kChannelsFirst};
constexpr GlobalPoolForm kMeanOfLast = {UHAL_REDUCE_MEAN, kChannelsLast};
constexpr GlobalPoolForm kMaximumOfLast = {UHAL_REDUCE_MAXIMUM, kChannelsLast};

class GlobalPool final : public Kernel {
 public:
  GlobalPool(const Description&, const void* data) : form_(*static_cast<const GlobalPoolForm*>(data)) {}
  void run(Call& call) const override {
    View x = call.input(0);
    call.require(x.rank >= 2, "the operand has no channels");
    if (form_.channels_last) x = x.channels_first();
    Shape shape = shape_of(x);
    for (size_t i = 2; i < shape.size(); ++i) shape[i] = 1;
    const View y = output_images(call, 0, shape, form_.channels_last);
    const uhal_reduce_attributes attributes = reduce_attributes(form_.reduction);
    if (y.elements() != 0) call.launch(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  }

 private:
  const GlobalPoolForm form_;
};

class GlobalLpPool final : public Kernel {
 public:
  explicit GlobalLpPool(const Description& node) : p_(static_cast<double>(node.integer("p", 2))) {
    node.require(p_ > 0, "a norm that is not positive");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank >= 2, "the operand has no channels");
    Shape shape = shape_of(x);
    for (size_t i = 2; i < shape.size(); ++i) shape[i] = 1;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const View powers = call.scratch_like(x, x.dtype);
    call.map(uhal_map_absolute, {&x}, {&powers});
    call.map(uhal_map_power_scalar, {&powers}, {&powers}, {p_});
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    call.launch(UHAL_OP_REDUCE, {&powers}, {&y}, &attributes);
    call.map(uhal_map_power_scalar, {&y}, {&y}, {1 / p_});
  }

 private:
  const double p_;
};

#define POOL(op, from, types, type, form, of_domain) \
  {.name = op,                                       \
   .first = from,                                    \
   .last = kNewestOpset,                             \
   .dtypes = types,                                  \
   .make = make<type>,                               \
   .data = form,                                     \
   .domain = of_domain}

constexpr DtypeSet kMaxima = kFloats | only(UHAL_INT8) | only(UHAL_UINT8);

const Op kRows[] = {
    POOL("MaxPool", 1, kMaxima, MaxPool, &kChannelsFirst, ""),
    POOL("MaxPool", 1, kMaxima, MaxPool, &kChannelsLast, kChannelsLastDomain),
    POOL("AveragePool", 7, kFloats, AveragePool, &kChannelsFirst, ""),
    POOL("AveragePool", 7, kFloats, AveragePool, &kChannelsLast, kChannelsLastDomain),
    POOL("LpPool", 2, kFloats, LpPool, nullptr, ""),
    POOL("GlobalLpPool", 2, kFloats, GlobalLpPool, nullptr, ""),
    POOL("GlobalAveragePool", 1, kFloats, GlobalPool, &kMean, ""),
    POOL("GlobalAveragePool", 1, kFloats, GlobalPool, &kMeanOfLast, kChannelsLastDomain),
    POOL("GlobalMaxPool", 1, kFloats, GlobalPool, &kMaximum, ""),
    POOL("GlobalMaxPool", 1, kFloats, GlobalPool, &kMaximumOfLast, kChannelsLastDomain),
};

}  // namespace

Table pool_ops() { return table(kRows); }

}  // namespace unihal::onnxruntime
