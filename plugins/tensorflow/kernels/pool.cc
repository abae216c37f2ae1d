// Maximum and average pooling of 2 and 3 spatial axes, and their gradients. Ops of version 2 have ksize and strides as
// operands in host memory.
#include <algorithm>

#include "plugins/tensorflow/kernels/window.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

template <uhal_pool_mode kMode, bool kWindowIsInput = false>
class Pool : public Kernel {
 public:
  explicit Pool(Construction& construction) : Kernel(construction), window_(construction) {}

  void compute(Context& context) const override {
    const View x = context.input(0);
    const WindowAttributes window = this->window(context, 1);
    if (!context.ok() || !window.fits(context, x)) return;
    const View input = window.logical(x);
    Shape shape;
    const uhal_pool_attributes attributes = describe(context, window, input, &shape);
    if (!context.ok()) return;
    const View output = context.output(0, x.dtype, window.in_memory(shape));
    if (!context.ok() || output.elements() == 0) return;
    const View y = window.logical(output);
    context.launch(UHAL_OP_POOL, {&input}, {&y}, &attributes);
  }

 protected:
  WindowAttributes window(Context& context, int first_input) const {
    return kWindowIsInput ? window_.with_inputs(context, first_input) : window_;
  }

  uhal_pool_attributes describe(Context& context, const WindowAttributes& window, const View& input,
                                Shape* output_shape) const {
    uhal_pool_attributes attributes = pool_attributes(kMode);
    *output_shape = {input.shape[0], input.shape[1]};
    for (int i = 0; i < input.rank - 2; ++i) {
      const auto extent = window.extent(i, input.shape[2 + i], window.window(i));
      attributes.window[i] = window.window(i);
      attributes.stride[i] = window.stride(i);
      attributes.pad_before[i] = extent.pad_before;
      attributes.pad_after[i] = extent.pad_after;
      output_shape->push_back(extent.output);
      if (std::max(extent.pad_before, extent.pad_after) >= window.window(i)) {
        context.fail_invalid(std::string(op()) + ": a window of " + std::to_string(window.window(i)) +
                             " could lie in the padding (" + std::to_string(extent.pad_before) + ", " +
                             std::to_string(extent.pad_after) + ") alone");
      }
    }
    return attributes;
  }

  // Where the maxima lie: numbers of pixels of each image and channel, of the pooled shape in the ABI's order.
  View maxima(Context& context, const View& input, const View& pooled, const uhal_pool_attributes& attributes,
              const WindowAttributes& window) const {
    const Shape shape = window.in_memory(shape_of(pooled));
    const View values = context.temporary(input.dtype, shape.data(), static_cast<int>(shape.size()));
    const View indices = context.temporary(UHAL_INT64, shape.data(), static_cast<int>(shape.size()));
    if (!context.ok()) return View();
    const View y = window.logical(values);
    const View places = window.logical(indices);
    context.launch(UHAL_OP_POOL, {&input}, {&y, &places}, &attributes);
    return places;
  }

  WindowAttributes window_;
};

// (original input, original output, gradient) -> gradient of the input
template <bool kWindowIsInput>
class MaxPoolGrad : public Pool<UHAL_POOL_MAXIMUM, kWindowIsInput> {
 public:
  using Pool<UHAL_POOL_MAXIMUM, kWindowIsInput>::Pool;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    const View dy = context.input(2);
    const WindowAttributes window = this->window(context, 3);
    if (!context.ok() || !window.fits(context, x) || !window.fits(context, y) || !window.fits(context, dy)) return;
    const View input = window.logical(x);
    const View forward = window.logical(y);
    const View gradient = window.logical(dy);
    Shape shape;
    const uhal_pool_attributes attributes = this->describe(context, window, input, &shape);
    if (!context.ok()) return;
    if (shape_of(forward) != shape || shape_of(gradient) != shape) {
      return context.fail_invalid(std::string(this->op()) + ": the output has shape " + to_text(y) +
                                  " and the gradient " + to_text(dy) + ", expected " +
                                  to_text(window.in_memory(shape)));
    }
    const View output = context.output_like(0, x);
    if (!context.ok() || output.elements() == 0) return;
    const View dx = window.logical(output);
    context.launch(UHAL_OP_POOL_BACKWARD, {&gradient, &input, &forward}, {&dx}, &attributes);
  }
};

// (original input, original output, gradient of the input's gradient) -> gradient of the output's: what lies at the
// maxima.
template <bool kWindowIsInput>
class MaxPoolGradGrad : public Pool<UHAL_POOL_MAXIMUM, kWindowIsInput> {
 public:
  using Pool<UHAL_POOL_MAXIMUM, kWindowIsInput>::Pool;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    const View ddx = context.input(2);
    const WindowAttributes window = this->window(context, 3);
    if (!context.ok() || !window.fits(context, x) || !window.fits(context, y) || !window.fits(context, ddx)) return;
    const View input = window.logical(x);
    const View gradient = window.logical(ddx);
    Shape shape;
    const uhal_pool_attributes attributes = this->describe(context, window, input, &shape);
    if (!context.ok()) return;
    if (shape_of(window.logical(y)) != shape || shape_of(gradient) != shape_of(input)) {
      return context.fail_invalid(std::string(this->op()) + ": the output has shape " + to_text(y) +
                                  " and the gradient " + to_text(ddx) + ", expected " +
                                  to_text(window.in_memory(shape)) + " and " + to_text(x));
    }
    const View output = context.output(0, x.dtype, window.in_memory(shape));
    if (!context.ok() || output.elements() == 0) return;
    const View pooled = window.logical(output);
    const View places = this->maxima(context, input, pooled, attributes, window);
    if (!context.ok()) return;
    const View from = pixels(gradient), at = pixels(places), to = pixels(pooled);
    const uhal_index_attributes index = index_attributes(2);
    context.launch(UHAL_OP_GATHER_ELEMENTS, {&from, &at}, {&to}, &index);
  }

 private:
  // (N, C, space...) as (N, C, pixels): the axes of space lie densely among themselves, whatever the layout.
  static View pixels(const View& logical) {
    View result = logical;
    result.rank = 3;
    result.strides[2] = logical.strides[logical.rank - 1];
    for (int i = 3; i < logical.rank; ++i) result.shape[2] *= logical.shape[i];
    return result;
  }
};

// An operand that counts the elements of (batch, rows, columns, channels), of one image where `whole` is false.
View add_batches(Context& context, const View& places, int64_t image) {
  const View result = context.temporary(UHAL_INT64, places.shape, places.rank);
  const View offsets = context.temporary(UHAL_INT64, places.shape, 1);
  if (!context.ok() || places.elements() == 0) return result;
  uhal_iota_attributes count = {};
  count.struct_size = sizeof count;
  count.integer_step = image;
  context.launch(UHAL_OP_IOTA, {}, {&offsets}, &count);
  View column = offsets;
  while (column.rank < places.rank) column = column.unsqueezed(column.rank);
  context.map(uhal_map_add, {&places, &column}, {&result});
  return result;
}

// MaxPoolWithArgmax(input) -> maxima and where they lie: as numbers of elements of the batch, or of each image.
class MaxPoolWithArgmax : public Pool<UHAL_POOL_MAXIMUM> {
 public:
  explicit MaxPoolWithArgmax(Construction& construction)
      : Pool(construction),
        index_dtype_(construction.dtype("Targmax")),
        batched_(construction.boolean("include_batch_in_index")) {}
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!window_.fits(context, x)) return;
    const View input = window_.logical(x);
    Shape shape;
    const uhal_pool_attributes attributes = describe(context, window_, input, &shape);
    if (!context.ok()) return;
    const View output = context.output(0, x.dtype, window_.in_memory(shape));
    const View argmax = context.output(1, index_dtype_, window_.in_memory(shape));
    View indices = context.temporary(UHAL_INT64, output.shape, output.rank);
    const View channels = context.temporary(UHAL_INT64, &x.shape[x.rank - 1], 1);
    if (!context.ok() || output.elements() == 0) return;
    const View y = window_.logical(output);
    const View places = window_.logical(indices);
    context.launch(UHAL_OP_POOL, {&input}, {&y, &places}, &attributes);
    uhal_iota_attributes count = {};
    count.struct_size = sizeof count;
    count.integer_step = 1;
    context.launch(UHAL_OP_IOTA, {}, {&channels}, &count);
    context.map(uhal_map_scale, {&indices}, {&indices}, {static_cast<double>(x.shape[x.rank - 1]), 0});
    context.map(uhal_map_add, {&indices, &channels}, {&indices});
    if (batched_) indices = add_batches(context, indices, x.elements() / x.shape[0]);
    if (context.ok()) context.cast(indices, argmax);
  }

 private:
  uhal_dtype index_dtype_;
  bool batched_;
};

// What MaxPoolGradWithArgmax and its gradient share: (input, gradient, argmax).
class WithArgmax : public Kernel {
 public:
  explicit WithArgmax(Construction& construction)
      : Kernel(construction), batched_(construction.boolean("include_batch_in_index")) {}

 protected:
  // argmax as numbers of elements of the whole input, as a vector.
  View elements(Context& context, const View& input, const View& argmax) const {
    if (batched_ || input.elements() == 0 || argmax.rank == 0) return argmax.reshaped({argmax.elements()});
    return add_batches(context, argmax, input.elements() / input.shape[0]).reshaped({argmax.elements()});
  }

 private:
  bool batched_;
};

class MaxPoolGradWithArgmax : public WithArgmax {
 public:
  using WithArgmax::WithArgmax;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View gradient = context.input(1);
    const View argmax = context.input(2);
    if (!context.ok()) return;
    if (input.rank != 4 || gradient.rank != 4 || shape_of(gradient) != shape_of(argmax)) {
      return context.fail_invalid(
          "MaxPoolGradWithArgmax: expected tensors of rank 4, and a gradient of argmax' shape " + to_text(argmax) +
          ", got input " + to_text(input) + " and gradient " + to_text(gradient));
    }
    const View output = context.output_like(0, input);
    if (!context.ok() || output.elements() == 0 || !context.zero(output) || argmax.elements() == 0) return;
    const View places = elements(context, input, argmax);
    const View flat = output.reshaped({output.elements()});
    const View values = gradient.reshaped({gradient.elements()});
    uhal_index_attributes attributes = index_attributes(0);
    attributes.ignore_out_of_range = 1;
    attributes.reduction = UHAL_REDUCE_SUM;
    if (context.ok()) context.launch(UHAL_OP_SCATTER, {&places, &values}, {&flat}, &attributes);
  }
};

class MaxPoolGradGradWithArgmax : public WithArgmax {
 public:
  using WithArgmax::WithArgmax;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View gradient = context.input(1);
    const View argmax = context.input(2);
    if (!context.ok()) return;
    if (input.rank != 4 || argmax.rank != 4 || shape_of(gradient) != shape_of(input)) {
      return context.fail_invalid(
          "MaxPoolGradGradWithArgmax: expected tensors of rank 4, and a gradient of the input's "
          "shape " +
          to_text(input) + ", got gradient " + to_text(gradient) + " and argmax " + to_text(argmax));
    }
    const View output = context.output(0, input.dtype, argmax.shape, argmax.rank);
    if (!context.ok() || output.elements() == 0) return;
    if (gradient.elements() == 0) {
      context.zero(output);
      return;
    }
    const View places = elements(context, input, argmax);
    const View flat = output.reshaped({output.elements()});
    const View values = gradient.reshaped({gradient.elements()});
    uhal_index_attributes attributes = index_attributes(0);
    attributes.ignore_out_of_range = 1;
    if (context.ok()) context.launch(UHAL_OP_GATHER, {&values, &places}, {&flat}, &attributes);
  }
};

// (original input's shape, gradient) -> gradient of the input
class AvgPoolGrad : public Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING> {
 public:
  using Pool::Pool;
  void compute(Context& context) const override {
    const Shape sizes = context.host_vector(0);
    const View dy = context.input(1);
    if (!window_.fits(context, dy)) return;
    if (static_cast<int>(sizes.size()) != dy.rank) {
      return context.fail_invalid(std::string(op()) + ": orig_input_shape must have " + std::to_string(dy.rank) +
                                  " entries, got " + to_text(sizes));
    }
    const View gradient = window_.logical(dy);
    Shape shape;
    if (!context.check_shape(dy.dtype, sizes)) return;
    const View wanted = window_.logical(View(nullptr, dy.dtype, sizes));
    const uhal_pool_attributes attributes = describe(context, window_, wanted, &shape);
    if (context.ok() && shape_of(gradient) != shape) {
      return context.fail_invalid(std::string(op()) + ": the gradient has shape " + to_text(dy) + ", expected " +
                                  to_text(window_.in_memory(shape)));
    }
    const View output = context.output(0, dy.dtype, sizes);
    if (!context.ok() || output.elements() == 0) return;
    const View dx = window_.logical(output);
    context.launch(UHAL_OP_POOL_BACKWARD, {&gradient}, {&dx}, &attributes);
  }
};

}  // namespace

void register_pool(Registrar& registrar) {
  using MaxPool = Pool<UHAL_POOL_MAXIMUM>;
  using MaxPoolV2 = Pool<UHAL_POOL_MAXIMUM, true>;
  const std::initializer_list<const char*> window = {"ksize", "strides"};
  // Forward, integers too: gradients of these are no gradients.
  const DtypeSet pooled = kFloats | kSignedIntegers | only(UHAL_UINT8) | only(UHAL_UINT16);
  registrar.add<MaxPool>("MaxPool", {{"T", pooled}});
  registrar.add<MaxPoolV2>("MaxPoolV2", {{"T", pooled}}, window);
  registrar.add<MaxPool>("MaxPool3D", {{"T", kFloats}});
  registrar.add<MaxPoolGrad<false>>("MaxPoolGrad", {{"T", kFloats}});
  registrar.add<MaxPoolGrad<true>>("MaxPoolGradV2", {{"T", kFloats}}, window);
  registrar.add<MaxPoolGrad<false>>("MaxPool3DGrad", {{"T", kFloats}});
  registrar.add<MaxPoolGradGrad<false>>("MaxPoolGradGrad", {{"T", kFloats}});
  registrar.add<MaxPoolGradGrad<true>>("MaxPoolGradGradV2", {{"T", kFloats}}, window);
  registrar.add<MaxPoolGradGrad<false>>("MaxPool3DGradGrad", {{"T", kFloats}});
  registrar.add<MaxPoolWithArgmax>("MaxPoolWithArgmax", {{"T", pooled}, {"Targmax", kIndices}});
  registrar.add<MaxPoolGradWithArgmax>("MaxPoolGradWithArgmax", {{"T", kNumbers}, {"Targmax", kIndices}});
  registrar.add<MaxPoolGradGradWithArgmax>("MaxPoolGradGradWithArgmax", {{"T", kNumbers}, {"Targmax", kIndices}});
  registrar.add<Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING>>("AvgPool", {{"T", kFloats}});
  registrar.add<Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING>>("AvgPool3D", {{"T", kFloats}});
  registrar.add<AvgPoolGrad>("AvgPoolGrad", {{"T", kFloats}}, {"orig_input_shape"});
  registrar.add<AvgPoolGrad>("AvgPool3DGrad", {{"T", kFloats}}, {"orig_input_shape"});
}

}  // namespace unihal::tensorflow
