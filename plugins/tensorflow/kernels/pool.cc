// Maximum and average pooling of 2 and 3 spatial axes, and their gradients.
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
    if (!context.ok()) return;
    const View input = window_.logical(x);
    Shape shape;
    const uhal_pool_attributes attributes = describe(input, &shape);
    const View output = context.output(0, x.dtype, window_.in_memory(shape));
    if (output.elements() == 0) return;
    const View y = window_.logical(output);
    context.launch(UHAL_OP_POOL, {&input}, {&y}, &attributes);
  }

 protected:
  uhal_pool_attributes describe(const View& input, Shape* output_shape) const {
    uhal_pool_attributes attributes = pool_attributes(kMode);
    *output_shape = {input.shape[0], input.shape[1]};
    for (int i = 0; i < input.rank - 2; ++i) {
      const auto extent = window_.extent(i, input.shape[2 + i], window_.window(i));
      attributes.window[i] = window_.window(i);
      attributes.stride[i] = window_.stride(i);
      attributes.pad_before[i] = extent.pad_before;
      attributes.pad_after[i] = extent.pad_after;
      output_shape->push_back(extent.output);
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
    if (!context.ok()) return;
    const View input = window_.logical(x);
    const View forward = window_.logical(y);
    const View gradient = window_.logical(dy);
    Shape shape;
    const uhal_pool_attributes attributes = describe(input, &shape);
    const View output = context.output_like(0, x);
    if (output.elements() == 0) return;
    const View dx = window_.logical(output);
    context.launch(UHAL_OP_POOL_BACKWARD, {&gradient, &input, &forward}, {&dx}, &attributes);
  }
};

// (original input's shape, gradient) -> gradient of the input
class AvgPoolGrad : public Pool<UHAL_POOL_AVERAGE_EXCLUDE_PADDING> {
 public:
  using Pool::Pool;
  void compute(Context& context) const override {
    const Shape sizes = context.host_integers(0);
    const View dy = context.input(1);
    const View output = context.output(0, dy.dtype, sizes);
    if (output.elements() == 0) return;
    const View dx = window_.logical(output);
    const View gradient = window_.logical(dy);
    Shape shape;
    const uhal_pool_attributes attributes = describe(dx, &shape);
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
