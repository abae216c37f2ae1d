// Pooling.
#include <cmath>

#include "plugins/onnxruntime/kernels/quantized.h"

namespace unihal::onnxruntime {
namespace {

// The shape of a pool's output, and its attributes.
struct Pooling {
  uhal_pool_attributes attributes;
  Shape shape;
  int64_t window = 1;  // pixels
  int64_t dilation[UHAL_MAX_SPATIAL] = {1, 1, 1};

  bool has_gaps() const { return dilation[0] > 1 || dilation[1] > 1 || dilation[2] > 1; }
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
    const int64_t room = length + before + after - ((size - 1) * window.dilation(i) + 1);
    call.require(room >= 0 || ceil, "the window is larger than the padded image");
    int64_t count = room < 0 ? 1 : room / stride + 1;
    if (ceil && room > 0 && room % stride != 0) {
      ++count;
      if ((count - 1) * stride >= length + before) --count;  // a window that begins beyond the image is none
    }
    result.attributes.window[i] = size;
    result.dilation[i] = window.dilation(i);
    result.attributes.stride[i] = stride;
    result.attributes.pad_before[i] = before;
    result.attributes.pad_after[i] = after;
    result.shape.push_back(count);
    result.window *= size;
  }
  return result;
}

// x with `value` around it, so far that each window lies in it. *inside: x's place there.
View surrounded(Call& call, const View& x, const Pooling& pooling, double value, View* inside) {
  Shape shape = shape_of(x);
  for (int i = 0; i < x.rank - 2; ++i) {
    const size_t axis = static_cast<size_t>(2 + i);
    const int64_t extent = (pooling.attributes.window[i] - 1) * pooling.dilation[i] + 1;
    const int64_t reach = (pooling.shape[axis] - 1) * pooling.attributes.stride[i] + extent;
    shape[axis] = std::max(reach, pooling.attributes.pad_before[i] + x.shape[2 + i]);
  }
  const View whole = call.scratch(shape, x.dtype);
  call.fill(whole, value);
  *inside = whole;
  for (int i = 0; i < x.rank - 2; ++i) {
    *inside = inside->sliced(2 + i, pooling.attributes.pad_before[i], x.shape[2 + i]);
  }
  return whole;
}

// The windows over what is surrounded, as one view: (N, C, the output's axes, the window's axes).
View windows_of(const View& whole, const Pooling& pooling) {
  View view = whole;
  const int axes = whole.rank - 2;
  view.rank = 2 + 2 * axes;
  for (int i = 0; i < axes; ++i) {
    const int64_t step = whole.strides[2 + i];
    view.shape[2 + i] = pooling.shape[static_cast<size_t>(2 + i)];
    view.strides[2 + i] = step * pooling.attributes.stride[i];
    view.shape[2 + axes + i] = pooling.attributes.window[i];
    view.strides[2 + axes + i] = step * pooling.dilation[i];
  }
  return view;
}

// y (N, C, spatial...) = the sum or maximum of each window.
void reduce_windows(Call& call, const View& windows, uhal_reduction reduction, const View& y) {
  View to = y;
  for (int i = y.rank; i < windows.rank; ++i) to = to.unsqueezed(i);
  const uhal_reduce_attributes attributes = reduce_attributes(reduction);
  call.launch(UHAL_OP_REDUCE, {&windows}, {&to}, &attributes);
}

// The pixels of x under each window, added up.
void add_windows(Call& call, const View& x, const Pooling& pooling, const View& y) {
  View inside;
  const View whole = surrounded(call, x, pooling, 0, &inside);
  call.launch(UHAL_OP_COPY, {&x}, {&inside});
  reduce_windows(call, windows_of(whole, pooling), UHAL_REDUCE_SUM, y);
}

double lowest_of(uhal_dtype dtype) { return dtype == UHAL_UINT8 ? 0 : dtype == UHAL_INT8 ? -128 : -INFINITY; }

class MaxPool final : public Kernel {
 public:
  MaxPool(const Description& node, const void* data)
      : window_(node),
        ceil_(node.integer("ceil_mode", 0) != 0),
        by_columns_(node.integer("storage_order", 0) != 0),
        channels_last_(*static_cast<const bool*>(data)) {}
  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    const Pooling pooling = plan(call, x, window_, UHAL_POOL_MAXIMUM, ceil_);
    const View y = output_images(call, 0, pooling.shape, channels_last_);
    View indices;
    const bool wants_indices = call.wants(1, pooling.shape, &indices);
    if (y.elements() == 0) return;
    if (pooling.has_gaps() || (wants_indices && by_columns_)) {
      return run_by_windows(call, x, pooling, y, wants_indices ? &indices : nullptr);
    }
    if (!wants_indices) return call.launch(UHAL_OP_POOL, {&x}, {&y}, &pooling.attributes);
    call.launch(UHAL_OP_POOL, {&x}, {&y, &indices}, &pooling.attributes);
    count_through(call, x, indices);
  }

 private:
  // What unihal's pools do not do: gaps between a window's pixels, and indices that count along columns.
  void run_by_windows(Call& call, const View& x, const Pooling& pooling, const View& y, const View* indices) const {
    View inside;
    const View whole = surrounded(call, x, pooling, lowest_of(x.dtype), &inside);
    call.launch(UHAL_OP_COPY, {&x}, {&inside});
    const View windows = windows_of(whole, pooling);
    if (indices == nullptr) return reduce_windows(call, windows, UHAL_REDUCE_MAXIMUM, y);
    const int axes = x.rank - 2;
    const View dense = call.scratch(shape_of(windows), x.dtype);
    call.launch(UHAL_OP_COPY, {&windows}, {&dense});
    Shape shape = pooling.shape;
    shape.push_back(pooling.window);
    const View candidates = dense.reshaped(shape);
    reduce_windows(call, candidates, UHAL_REDUCE_MAXIMUM, y);
    const View chosen = call.scratch(pooling.shape, UHAL_INT64), column = chosen.unsqueezed(chosen.rank);
    const uhal_axis_attributes largest = axis_attributes(candidates.rank - 1, true);
    call.launch(UHAL_OP_ARG_REDUCE, {&candidates}, {&column}, &largest);
    // A pixel's number is the sum of its window's beginning and its place in the window, both in steps of the axes.
    int64_t steps[UHAL_MAX_SPATIAL] = {1, 1, 1};
    for (int i = 1; i < axes; ++i) {
      const int to = by_columns_ ? i : axes - 1 - i, from = by_columns_ ? i - 1 : axes - i;
      steps[to] = steps[from] * x.shape[2 + from];
    }
    Shape places(static_cast<size_t>(pooling.window), 0);
    for (int64_t place = 0; place < pooling.window; ++place) {
      int64_t rest = place;
      for (int i = axes - 1; i >= 0; --i) {
        const int64_t size = pooling.attributes.window[i];
        places[static_cast<size_t>(place)] += rest % size * pooling.dilation[i] * steps[i];
        rest /= size;
      }
    }
    const View table = call.upload(places.data(), {pooling.window}, UHAL_INT64);
    const uhal_index_attributes gather = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&table, &chosen}, {indices}, &gather);
    for (int i = 0; i < axes; ++i) {
      const int64_t length = pooling.shape[static_cast<size_t>(2 + i)];
      uhal_iota_attributes iota = {};
      iota.struct_size = sizeof iota;
      iota.integer_start = -pooling.attributes.pad_before[i] * steps[i];
      iota.integer_step = pooling.attributes.stride[i] * steps[i];
      const View begin = call.scratch(Shape{length}, UHAL_INT64);
      call.launch(UHAL_OP_IOTA, {}, {&begin}, &iota);
      Shape broadcast(static_cast<size_t>(axes), 1);
      broadcast[static_cast<size_t>(i)] = length;
      const View added = begin.reshaped(broadcast);
      call.map(uhal_map_add, {indices, &added}, {indices});
    }
    count_through(call, x, *indices);
  }

  // unihal counts pixels within a channel, ONNX through the whole operand.
  static void count_through(Call& call, const View& x, const View& indices) {
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

  const Window window_;
  const bool ceil_, by_columns_, channels_last_;
};

// The means of windows, for floats and for quantized numbers.
class Averages {
 public:
  explicit Averages(const Description& node)
      : window_(node),
        ceil_(node.integer("ceil_mode", 0) != 0),
        counts_padding_(node.integer("count_include_pad", 0) != 0) {}

  Pooling plan_of(const Call& call, const View& x) const {
    return plan(call, x, window_,
                counts_padding_ ? UHAL_POOL_AVERAGE_INCLUDE_PADDING : UHAL_POOL_AVERAGE_EXCLUDE_PADDING, ceil_);
  }

  void run(Call& call, const View& x, Pooling pooling, const View& y) const {
    if (pooling.has_gaps()) {
      add_windows(call, x, pooling, y);
      const View count = counts(call, x, pooling);
      return call.map(uhal_map_divide_no_nan, {&y, &count}, {&y});
    }
    if (!counts_padding_ || !ceil_) return call.launch(UHAL_OP_POOL, {&x}, {&y}, &pooling.attributes);
    // What lies beyond the padding does not count: the padding becomes zeros of the image.
    const View whole = padded(call, x, pooling);
    for (int i = 0; i < x.rank - 2; ++i) pooling.attributes.pad_before[i] = pooling.attributes.pad_after[i] = 0;
    pooling.attributes.mode = UHAL_POOL_AVERAGE_EXCLUDE_PADDING;
    call.launch(UHAL_OP_POOL, {&whole}, {&y}, &pooling.attributes);
  }

 private:
  static View padded(Call& call, const View& x, const Pooling& pooling) {
    Shape shape = shape_of(x);
    for (int i = 0; i < x.rank - 2; ++i) {
      shape[static_cast<size_t>(2 + i)] += pooling.attributes.pad_before[i] + pooling.attributes.pad_after[i];
    }
    const View whole = call.scratch(shape, x.dtype);
    call.fill(whole, 0);
    View inside = whole;
    for (int i = 0; i < x.rank - 2; ++i) {
      inside = inside.sliced(2 + i, pooling.attributes.pad_before[i], x.shape[2 + i]);
    }
    call.launch(UHAL_OP_COPY, {&x}, {&inside});
    return whole;
  }

  // How many pixels of each window count, for one channel of one image.
  View counts(Call& call, const View& x, const Pooling& pooling) const {
    Shape plane = shape_of(x), shape = pooling.shape;
    plane[0] = plane[1] = shape[0] = shape[1] = 1;
    Pooling reaching = pooling;
    reaching.shape = shape;
    for (int i = 0; counts_padding_ && i < x.rank - 2; ++i) {
      plane[static_cast<size_t>(2 + i)] += pooling.attributes.pad_before[i] + pooling.attributes.pad_after[i];
      reaching.attributes.pad_before[i] = reaching.attributes.pad_after[i] = 0;
    }
    const View ones = call.scratch(plane, x.dtype), result = call.scratch(shape, x.dtype);
    call.fill(ones, 1);
    add_windows(call, ones, reaching, result);
    return result;
  }

  const Window window_;
  const bool ceil_, counts_padding_;
};

class AveragePool final : public Kernel {
 public:
  AveragePool(const Description& node, const void* data)
      : averages_(node), channels_last_(*static_cast<const bool*>(data)) {}
  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    const Pooling pooling = averages_.plan_of(call, x);
    const View y = output_images(call, 0, pooling.shape, channels_last_);
    if (y.elements() != 0) averages_.run(call, x, pooling, y);
  }

 private:
  const Averages averages_;
  const bool channels_last_;
};

// com.microsoft: x, x_scale, x_zero, y_scale, y_zero.
class QLinearAveragePool final : public Kernel {
 public:
  explicit QLinearAveragePool(const Description& node)
      : averages_(node), channels_last_(node.integer("channels_last", 0) != 0) {}
  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    const Pooling pooling = averages_.plan_of(call, x);
    const View y = output_images(call, 0, pooling.shape, channels_last_);
    if (y.elements() == 0) return;
    const View wide = dequantized(call, x, 1, 2), means = call.scratch(pooling.shape, UHAL_FLOAT32);
    averages_.run(call, wide, pooling, means);
    quantize(call, means, 3, 4, y);
  }

 private:
  const Averages averages_;
  const bool channels_last_;
};

// (sum of |x|^p under a window)^(1/p).
class LpPool final : public Kernel {
 public:
  explicit LpPool(const Description& node)
      : window_(node), ceil_(node.integer("ceil_mode", 0) != 0), p_(static_cast<double>(node.integer("p", 2))) {
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
    if (pooling.has_gaps()) {
      add_windows(call, powers, pooling, y);
    } else {
      call.launch(UHAL_OP_POOL, {&powers}, {&y}, &pooling.attributes);
      call.map(uhal_map_scale, {&y}, {&y}, {static_cast<double>(pooling.window), 0});
    }
    call.map(uhal_map_power_scalar, {&y}, {&y}, {1 / p_});
  }

 private:
  const Window window_;
  const bool ceil_;
  const double p_;
};

// x, indices, output_shape: each number at the place that MaxPool found it at, zeros elsewhere.
class MaxUnpool final : public Kernel {
 public:
  explicit MaxUnpool(const Description& node) : window_(node) {}
  void run(Call& call) const override {
    const View x = call.input(0), indices = call.input(1);
    const int axes = x.rank - 2;
    window_.check(call, axes);
    call.require(window_.kernel.size() == static_cast<size_t>(axes),
                 "kernel_shape has not an entry for each spatial axis");
    call.require(indices.elements() == x.elements(), "there is not an index for each number");
    Shape shape = {x.shape[0], x.shape[1]};
    for (int i = 0; i < axes; ++i) {
      const int64_t before = window_.pads.empty() ? 0 : window_.pads[static_cast<size_t>(i)];
      const int64_t after = window_.pads.empty() ? 0 : window_.pads[static_cast<size_t>(axes + i)];
      shape.push_back((x.shape[2 + i] - 1) * window_.stride(i) - before - after +
                      window_.kernel[static_cast<size_t>(i)]);
    }
    const Shape given = call.has(2) ? call.integers(2) : shape;
    call.require(given.size() == shape.size(), "output_shape has not an entry for each axis");
    for (size_t i = 0; i < given.size(); ++i) call.require(given[i] >= shape[i], "output_shape has too little room");
    const View y = call.output(0, given);
    call.fill(y, 0);
    if (x.elements() == 0 || elements_of(shape) == 0) return;
    // The indices count through the shape that the pool had; what output_shape has more is zeros at the ends.
    const bool grows = given != shape;
    const View whole = grows ? call.scratch(shape, x.dtype) : y;
    if (grows) call.fill(whole, 0);
    const View places = indices.reshaped({indices.elements()}), numbers = x.reshaped({x.elements()});
    const View flat = whole.reshaped({whole.elements()});
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_SCATTER_ELEMENTS, {&places, &numbers}, {&flat}, &attributes);
    if (!grows) return;
    View corner = y;
    for (int i = 0; i < y.rank; ++i) corner = corner.sliced(i, 0, whole.shape[i]);
    call.launch(UHAL_OP_COPY, {&whole}, {&corner});
  }

 private:
  const Window window_;
};

struct GlobalPoolForm {
  uhal_reduction reduction;
  bool channels_last;
};
constexpr GlobalPoolForm kGlobalMean = {UHAL_REDUCE_MEAN, kChannelsFirst};
constexpr GlobalPoolForm kGlobalMaximum = {UHAL_REDUCE_MAXIMUM, kChannelsFirst};
constexpr GlobalPoolForm kGlobalMeanOfLast = {UHAL_REDUCE_MEAN, kChannelsLast};
constexpr GlobalPoolForm kGlobalMaximumOfLast = {UHAL_REDUCE_MAXIMUM, kChannelsLast};

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

const Op kPoolOps[] = {
    POOL("MaxPool", 1, kMaxima, MaxPool, &kChannelsFirst, ""),
    POOL("MaxPool", 1, kMaxima, MaxPool, &kChannelsLast, kChannelsLastDomain),
    POOL("AveragePool", 7, kFloats, AveragePool, &kChannelsFirst, ""),
    POOL("AveragePool", 7, kFloats, AveragePool, &kChannelsLast, kChannelsLastDomain),
    POOL("LpPool", 2, kFloats, LpPool, nullptr, ""),
    {.name = "MaxUnpool",
     .first = 9,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<MaxUnpool>,
     .host_inputs = host({2})},
    {.name = "NhwcMaxPool",
     .first = 1,
     .last = 1,
     .dtypes = kBytes,
     .make = make<MaxPool>,
     .data = &kChannelsLast,
     .domain = kMicrosoft},
    {.name = "QLinearAveragePool",
     .first = 1,
     .last = 1,
     .dtypes = kBytes,
     .make = make<QLinearAveragePool>,
     .domain = kMicrosoft},
    POOL("GlobalLpPool", 2, kFloats, GlobalLpPool, nullptr, ""),
    POOL("GlobalAveragePool", 1, kFloats, GlobalPool, &kGlobalMean, ""),
    POOL("GlobalAveragePool", 1, kFloats, GlobalPool, &kGlobalMeanOfLast, kChannelsLastDomain),
    POOL("GlobalMaxPool", 1, kFloats, GlobalPool, &kGlobalMaximum, ""),
    POOL("GlobalMaxPool", 1, kFloats, GlobalPool, &kGlobalMaximumOfLast, kChannelsLastDomain),
};

#undef POOL

}  // namespace

Table pool_ops() { return table(kPoolOps); }

}  // namespace unihal::onnxruntime
