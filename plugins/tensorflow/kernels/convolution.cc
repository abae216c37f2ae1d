// Convolutions of 1 to 3 spatial axes, grouped and depthwise, and their gradients.
#include "plugins/tensorflow/kernels/window.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

enum Filter { kDense, kDepthwise };

template <Filter kFilter>
class Convolution : public Kernel {
 public:
  explicit Convolution(Construction& construction) : Kernel(construction), window_(construction) {}

 protected:
  // Filter memory (spatial..., I, O) in the ABI's order (O, I, spatial...). A depthwise filter has M outputs per
  // input channel: (spatial..., I, M) is (spatial..., 1, I*M).
  static View logical_filter(const View& filter) {
    if (kFilter == kDense) return filter.filter_first();
    Shape shape = shape_of(filter);
    const size_t last = shape.size() - 1;
    shape[last] *= shape[last - 1];
    shape[last - 1] = 1;
    return filter.reshaped(shape).filter_first();
  }

  // The input channels of a filter as it lies in memory.
  static int64_t depth_of(const View& filter) { return filter.shape[filter.rank - 2]; }

  // Checks the ranks and channels of logical views, and states the convolution. `depth` is depth_of the filter.
  // `output` may be NULL.
  bool describe(Context& context, const View& input, const View& filter, int64_t depth, const View* output,
                uhal_convolution_attributes* attributes, Shape* output_shape) const {
    const int64_t channels = filter.shape[1];
    const bool ranks_match = input.rank == filter.rank && (output == nullptr || output->rank == input.rank);
    const bool same_depth = kFilter == kDense || input.shape[1] == depth;
    // A filter of no outputs computes nothing; one of no pixels or no depth has no meaning.
    if (filter.elements() == 0 && (filter.shape[0] != 0 || kFilter == kDepthwise || filter.rank != 4)) {
      context.fail_invalid(std::string(op()) + ": the filter must not be empty, got " + to_text(filter) +
                           " (O, I, ...)");
      return false;
    }
    if (!ranks_match || !same_depth || channels == 0 || input.shape[1] == 0 || input.shape[1] % channels != 0 ||
        filter.shape[0] % (input.shape[1] / channels) != 0) {
      context.fail_invalid(
          std::string(op()) + ": input depth must be a multiple of the filter's, and outputs a multiple of " +
          "the groups; got input " + to_text(input) + " (N, C, ...) and filter " + to_text(filter) + " (O, I, ...)");
      return false;
    }
    *attributes = convolution_attributes(math_mode());
    attributes->groups = input.shape[1] / channels;
    *output_shape = {input.shape[0], filter.shape[0]};
    for (int i = 0; i < input.rank - 2; ++i) {
      const auto extent = window_.extent(i, input.shape[2 + i], filter.shape[2 + i]);
      attributes->stride[i] = window_.stride(i);
      attributes->dilation[i] = window_.dilation(i);
      attributes->pad_before[i] = extent.pad_before;
      attributes->pad_after[i] = extent.pad_after;
      output_shape->push_back(extent.output);
    }
    if (output != nullptr && *output_shape != shape_of(*output)) {
      context.fail_invalid(std::string(op()) + ": the gradient has shape " + to_text(*output) + ", expected " +
                           to_text(output_shape->data(), static_cast<int>(output_shape->size())) + " (N, C, ...)");
      return false;
    }
    return true;
  }

  WindowAttributes window_;
};

// (input, filter, [bias]) -> output; with a bias there is an activation, too.
template <Filter kFilter>
class Forward : public Convolution<kFilter> {
 public:
  explicit Forward(Construction& construction)
      : Convolution<kFilter>(construction),
        activation_(construction.has("activation") ? static_cast<uhal_activation>(construction.integer("activation"))
                                                   : UHAL_ACTIVATION_NONE) {}
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View w = context.input(1);
    if (!this->window_.fits(context, x) || !this->window_.fits(context, w)) return;
    const View input = this->window_.logical(x);
    const View filter = this->logical_filter(w);
    uhal_convolution_attributes attributes;
    Shape shape;
    if (!this->describe(context, input, filter, this->depth_of(w), nullptr, &attributes, &shape)) return;
    const View output = context.output(0, x.dtype, this->window_.in_memory(shape));
    if (output.elements() == 0) return;
    const View y = this->window_.logical(output);
    if (context.input_count() == 2) {
      context.launch(UHAL_OP_CONVOLUTION, {&input, &filter}, {&y}, &attributes);
      return;
    }
    const View bias = context.input(2);
    if (!context.ok()) return;
    if (bias.rank != 1 || bias.shape[0] != y.shape[1]) {
      return context.fail_invalid(std::string(this->op()) + ": the bias must have " + std::to_string(y.shape[1]) +
                                  " elements, got " + to_text(bias));
    }
    attributes.activation = activation_;
    context.launch(UHAL_OP_CONVOLUTION, {&input, &filter, &bias}, {&y}, &attributes);
  }

 private:
  uhal_activation activation_;
};

// (input sizes, filter, gradient) -> gradient of the input. The first versions take a tensor of these sizes.
template <Filter kFilter, bool kSizesOfTensor = false>
class BackwardInput : public Convolution<kFilter> {
 public:
  using Convolution<kFilter>::Convolution;
  void compute(Context& context) const override {
    const Shape sizes = kSizesOfTensor ? context.dims(0) : context.host_vector(0);
    const View w = context.input(1);
    const View dy = context.input(2);
    if (!this->window_.fits(context, w) || !this->window_.fits(context, dy)) return;
    if (static_cast<int>(sizes.size()) != w.rank) {
      return context.fail_invalid(std::string(this->op()) + ": input_sizes must have one entry per axis, got " +
                                  to_text(sizes.data(), static_cast<int>(sizes.size())));
    }
    const View filter = this->logical_filter(w);
    const View gradient = this->window_.logical(dy);
    if (!context.check_shape(dy.dtype, sizes)) return;
    const View wanted = this->window_.logical(View(nullptr, dy.dtype, sizes));
    uhal_convolution_attributes attributes;
    Shape shape;
    if (!this->describe(context, wanted, filter, this->depth_of(w), &gradient, &attributes, &shape)) return;
    const View output = context.output(0, dy.dtype, sizes);
    if (!context.ok()) return;
    const View dx = this->window_.logical(output);
    if (dy.elements() == 0) {
      context.zero(output);
    } else if (output.elements() > 0) {
      context.launch(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&gradient, &filter}, {&dx}, &attributes);
    }
  }
};

// (input, filter sizes, gradient) -> gradient of the filter, [gradient of the bias]
template <Filter kFilter, bool kSizesOfTensor = false, bool kHasBias = false>
class BackwardFilter : public Convolution<kFilter> {
 public:
  using Convolution<kFilter>::Convolution;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const Shape sizes = kSizesOfTensor ? context.dims(1) : context.host_vector(1);
    const View dy = context.input(2);
    if (!this->window_.fits(context, x) || !this->window_.fits(context, dy)) return;
    if (static_cast<int>(sizes.size()) != x.rank) {
      return context.fail_invalid(std::string(this->op()) + ": filter_sizes must have one entry per axis, got " +
                                  to_text(sizes.data(), static_cast<int>(sizes.size())));
    }
    const View input = this->window_.logical(x);
    const View gradient = this->window_.logical(dy);
    if (!context.check_shape(dy.dtype, sizes)) return;
    const View wanted(nullptr, dy.dtype, sizes);
    uhal_convolution_attributes attributes;
    Shape shape;
    if (!this->describe(context, input, this->logical_filter(wanted), sizes[sizes.size() - 2], &gradient, &attributes,
                        &shape)) {
      return;
    }
    const View output = context.output(0, dy.dtype, sizes);
    if (!context.ok()) return;
    const View dw = this->logical_filter(output);
    View dbias;
    if (kHasBias) {
      dbias = context.output(1, dy.dtype, {gradient.shape[1]});
      if (!context.ok()) return;
    }
    if (dy.elements() == 0 || x.elements() == 0) {
      context.zero(output);
      if (kHasBias) add_up(context, gradient, dbias);
    } else if (output.elements() > 0) {
      context.launch(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&input, &gradient}, {&dw, kHasBias ? &dbias : nullptr},
                     &attributes);
    }
  }

 private:
  // Sums of what there is no convolution of.
  static void add_up(Context& context, const View& gradient, const View& dbias) {
    if (gradient.elements() == 0) {
      context.zero(dbias);
      return;
    }
    int64_t kept[UHAL_MAX_RANK];
    for (int i = 0; i < gradient.rank; ++i) kept[i] = i == 1 ? gradient.shape[i] : 1;
    const View sum = dbias.reshaped(kept, gradient.rank);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_REDUCE, {&gradient}, {&sum}, &attributes);
  }
};

}  // namespace

void register_convolution(Registrar& registrar) {
  registrar.add<Forward<kDense>>("Conv2D", {{"T", kFloats}});
  registrar.add<BackwardInput<kDense>>("Conv2DBackpropInput", {{"T", kFloats}}, {"input_sizes"});
  registrar.add<BackwardFilter<kDense>>("Conv2DBackpropFilter", {{"T", kFloats}}, {"filter_sizes"});
  registrar.add<Forward<kDense>>("Conv3D", {{"T", kFloats}});
  registrar.add<BackwardInput<kDense>>("Conv3DBackpropInputV2", {{"T", kFloats}}, {"input_sizes"});
  registrar.add<BackwardFilter<kDense>>("Conv3DBackpropFilterV2", {{"T", kFloats}}, {"filter_sizes"});
  const DtypeSet first = only(UHAL_FLOAT16) | only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
  registrar.add<BackwardInput<kDense, true>>("Conv3DBackpropInput", {{"T", first}});
  registrar.add<BackwardFilter<kDense, true>>("Conv3DBackpropFilter", {{"T", first}});
  registrar.add<Forward<kDense>>("Conv", {{"T", kFloats}});
  registrar.add<Forward<kDepthwise>>("DepthwiseConv2dNative", {{"T", kFloats}});
  registrar.add<BackwardInput<kDepthwise>>("DepthwiseConv2dNativeBackpropInput", {{"T", kFloats}}, {"input_sizes"});
  registrar.add<BackwardFilter<kDepthwise>>("DepthwiseConv2dNativeBackpropFilter", {{"T", kFloats}}, {"filter_sizes"});
  registrar.add_own<Forward<kDense>>("UnihalConvolution", {{"T", kFloats}});
  registrar.add_own<Forward<kDepthwise>>("UnihalDepthwiseConvolution", {{"T", kFloats}});
  registrar.add_own<BackwardFilter<kDense, false, true>>("UnihalConvolutionFilterGrad", {{"T", kFloats}},
                                                         {"filter_sizes"});
}

}  // namespace unihal::tensorflow
