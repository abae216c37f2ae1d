// Maximum and average pooling of 2 and 3 spatial axes, and their gradients.
#include <algorithm>

#include "plugins/tensorflow/kernels/window.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

template <uhal_pool_mode kMode>
class Pool : public Kernel {
 public:
  explicit Pool(Construction& construction) : Kernel(construction), window_(construction) {}

  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!window_.fits(context, x)) return;
    const View input = window_.logical(x);
    Shape shape;
    const uhal_pool_attributes attributes = describe(context, input, &shape);
    if (!context.ok()) return;
    const View output = context.output(0, x.dtype, window_.in_memory(shape));
    if (!context.ok() || output.elements() == 0) return;
    const View y = window_.logical(output);
    context.launch(UHAL_OP_POOL, {&input}, {&y}, &attributes);
  }

 protected:
  uhal_pool_attributes describe(Context& context, const View& input, Shape* output_shape) const {
    uhal_pool_attributes attributes = pool_attributes(kMode);
    *output_shape = {input.shape[0], input.shape[1]};
    for (int i = 0; i < input.rank - 2; ++i) {
      const auto extent = window_.extent(i, input.shape[2 + i], window_.window(i));
      attributes.window[i] = window_.window(i);
      attributes.stride[i] = window_.stride(i);
      attributes.pad_before[i] = extent.pad_before;
      attributes.pad_after[i] = extent.pad_after;
      output_shape->push_back(extent.output);
      if (std::max(extent.pad_before, extent.pad_after) >= window_.window(i)) {
        context.fail_invalid(std::string(op()) + ": a window of " + std::to_string(window_.window(i)) +
                             " could lie in the padding (" + std::to_string(extent.pad_before) + ", " +
                             std::to_string(extent.pad_after) + ") alone");
      }
    }
    return attributes;
  }

  WindowAttributes window_;
};

// (original input, original output, gradient) -> gradient of the input
class MaxPoolGrad : public Pool<UHAL_POOL_MAXIMUM> {
 public:
  using Pool::Pool;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    const View dy = context.input(2);
    if (!window_.fits(context, x) || !window_.fits(context, y) || !window_.fits(context, dy)) return;
    const View input = window_.logical(x);
    const View forward = window_.logical(y);
    const View gradient = window_.logical(dy);
    Shape shape;
    const uhal_pool_attributes attributes = describe(context, input, &shape);
    if (!context.ok()) return;
    if (shape_of(forward) != shape || shape_of(gradient) != shape) {
      return context.fail_invalid(std::string(op()) + ": the output has shape " + to_text(y) + " and the gradient " +
                                  to_text(dy) + ", expected " + to_text(window_.in_memory(shape)));
    }
    const View output = context.output_like(0, x);
    if (!context.ok() || output.elements() == 0) return;
    const View dx = window_.logical(output);
    context.launch(UHAL_OP_POOL_BACKWARD, {&gradient, &input, &forward}, {&dx}, &attributes);
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
    const uhal_pool_attributes attributes = describe(context, wanted, &shape);
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
  registrar.add<Pool<UHAL_POOL_MAXIMUM>>("MaxPool", {{"T", kFloats}});
  registrar.add<Pool<UHAL_POOL_MAXIMUM>>("MaxPool3D", {{"T", kFloats}});
  registrar.add<MaxPoolGrad>("MaxPoolGrad", {{"T", kFloats}});
  registrar.add<MaxPoolGrad>("MaxPool3DGrad", {{"T", kFloats}});
  registrar.add<Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING>>("AvgPool", {{"T", kFloats}});
  registrar.add<Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING>>("AvgPool3D", {{"T", kFloats}});
  registrar.add<AvgPoolGrad>("AvgPoolGrad", {{"T", kFloats}}, {"orig_input_shape"});
  registrar.add<AvgPoolGrad>("AvgPool3DGrad", {{"T", kFloats}}, {"orig_input_shape"});
}

}  // namespace unihal::tensorflow
