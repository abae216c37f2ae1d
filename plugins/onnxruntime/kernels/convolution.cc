// Convolutions and pooling.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"
#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {

Window::Window(const Description& node)
    : kernel(node.integers("kernel_shape").value_or(Shape())),
      strides(node.integers("strides").value_or(Shape())),
      dilations(node.integers("dilations").value_or(Shape())),
      pads(node.integers("pads").value_or(Shape())),
      auto_pad(node.text("auto_pad", "NOTSET")) {
  const auto& shape = node.input(0).shape;
  node.require(!shape || (shape->size() >= 3 && shape->size() <= 2 + UHAL_MAX_SPATIAL),
               "other than 1 to 3 spatial axes");
}

void Window::check(const Call& call, int axes) const {
  call.require(axes >= 1 && axes <= UHAL_MAX_SPATIAL, "expected 1 to 3 spatial axes");
  const auto fits = [axes](const Shape& list) { return list.empty() || list.size() == static_cast<size_t>(axes); };
  call.require(fits(kernel) && fits(strides) && fits(dilations),
               "an attribute has not one entry for each spatial axis");
  call.require(pads.empty() || pads.size() == static_cast<size_t>(2 * axes), "pads has not two entries for each axis");
  for (int i = 0; i < axes; ++i) call.require(stride(i) > 0 && dilation(i) > 0, "a stride or dilation is not positive");
}

void Window::padding(int axis, int axes, int64_t length, int64_t size, int64_t* before, int64_t* after) const {
  const int64_t extent = (size - 1) * dilation(axis) + 1;
  *before = *after = 0;
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    const int64_t outputs = (length + stride(axis) - 1) / stride(axis);
    const int64_t total = std::max<int64_t>(0, (outputs - 1) * stride(axis) + extent - length);
    *before = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
    *after = total - *before;
  } else if (auto_pad != "VALID" && !pads.empty()) {
    *before = pads[axis];
    *after = pads[axes + axis];
  }
}

View input_images(const Call& call, int index, bool channels_last) {
  const View x = call.input(index);
  call.require(x.rank >= 3, "the operand has no spatial axes");
  return channels_last ? x.channels_first() : x;
}

View output_images(Call& call, int index, const Shape& shape, bool channels_last) {
  if (!channels_last) return call.output(index, shape);
  Shape last = {shape[0]};
  last.insert(last.end(), shape.begin() + 2, shape.end());
  last.push_back(shape[1]);
  return call.output(index, last).channels_first();
}

uhal_activation activation_of(const Description& node) {
  const std::string name = node.text("activation", "");
  if (name.empty()) return UHAL_ACTIVATION_NONE;
  if (name == "Relu") return UHAL_ACTIVATION_RELU;
  if (name == "Sigmoid") return UHAL_ACTIVATION_SIGMOID;
  if (name == "Tanh") return UHAL_ACTIVATION_TANH;
  node.refuse("activation " + name);
}

namespace {

// ONNX's Conv, and com.microsoft's FusedConv: activation(conv(x, w) + bias + z).
class Convolution final : public Kernel {
 public:
  Convolution(const Description& node, const void* data)
      : window_(node),
        groups_(node.integer("group", 1)),
        activation_(activation_of(node)),
        channels_last_(*static_cast<const bool*>(data)) {}

  // Beside images with the channels last, vendors' libraries want filters as (O, spatial..., I), and oneDNN, which
  // multiplies on the host, takes (spatial..., I, O) without arranging them anew in each run.
  bool pack(const Provider& provider, int index, const View& constant) override {
    if (index != 1 || !channels_last_ || groups_ != 1 || constant.rank < 3 || constant.elements() == 0) return false;
    const bool outputs_last = provider.is_on_host();
    Shape shape(constant.shape + 2, constant.shape + constant.rank);
    if (outputs_last) {
      shape.insert(shape.end(), {constant.shape[1], constant.shape[0]});
    } else {
      shape.insert(shape.begin(), constant.shape[0]);
      shape.push_back(constant.shape[1]);
    }
    const View memory = packed_.allocate(provider, shape, constant.dtype);
    filter_ = outputs_last ? memory.filter_first() : memory.channels_first();
    check(launch(provider.stream(), UHAL_OP_COPY, {&constant}, {&filter_}));
    return true;
  }

  void run(Call& call) const override {
    const View x = input_images(call, 0, channels_last_);
    const View w = packed_.is_there() ? filter_ : call.input(1);
    call.require(x.rank == w.rank, "x and w are not of one number of axes");
    const int axes = x.rank - 2;
    window_.check(call, axes);
    call.require(groups_ > 0 && x.shape[1] == w.shape[1] * groups_ && w.shape[0] % groups_ == 0,
                 "the channels of x, w and the groups do not go together");
    uhal_convolution_attributes attributes = convolution_attributes(call.math_mode());
    attributes.groups = groups_;
    Shape shape = {x.shape[0], w.shape[0]};
    for (int i = 0; i < axes; ++i) {
      const int64_t size = w.shape[2 + i];
      window_.padding(i, axes, x.shape[2 + i], size, &attributes.pad_before[i], &attributes.pad_after[i]);
      attributes.stride[i] = window_.stride(i);
      attributes.dilation[i] = window_.dilation(i);
      const int64_t room = x.shape[2 + i] + attributes.pad_before[i] + attributes.pad_after[i] -
                           ((size - 1) * attributes.dilation[i] + 1);
      call.require(room >= 0, "the filter is larger than the padded image");
      shape.push_back(room / attributes.stride[i] + 1);
    }
    const View y = output_images(call, 0, shape, channels_last_);
    if (y.elements() == 0) return;
    const bool adds = call.has(3);
    attributes.activation = adds ? UHAL_ACTIVATION_NONE : activation_;
    if (call.has(2)) {
      const View bias = call.input(2);
      call.launch(UHAL_OP_CONVOLUTION, {&x, &w, &bias}, {&y}, &attributes);
    } else {
      call.launch(UHAL_OP_CONVOLUTION, {&x, &w}, {&y}, &attributes);
    }
    if (!adds) return;
    const View z = call.input(3);
    call.map(uhal_map_add, {&y, &z}, {&y});
    if (activation_ == UHAL_ACTIVATION_RELU) call.map(uhal_map_relu, {&y}, {&y});
    if (activation_ == UHAL_ACTIVATION_SIGMOID) call.map(uhal_map_sigmoid, {&y}, {&y});
    if (activation_ == UHAL_ACTIVATION_TANH) call.map(uhal_map_tanh, {&y}, {&y});
  }

 private:
  const Window window_;
  const int64_t groups_;
  const uhal_activation activation_;
  const bool channels_last_;
  Packed packed_;
  View filter_;  // (O, I, spatial...)
};

// Each pixel of x spreads over y: the gradient of a convolution. w is (channels of x, channels of y / groups, ...).
class ConvTranspose final : public Kernel {
 public:
  explicit ConvTranspose(const Description& node)
      : window_(node),
        groups_(node.integer("group", 1)),
        output_padding_(node.integers("output_padding").value_or(Shape())),
        output_shape_(node.integers("output_shape").value_or(Shape())) {}

  void run(Call& call) const override {
    const View x = call.input(0);
    const View w = call.input(1);
    call.require(x.rank >= 3 && x.rank == w.rank, "x and w are not of one number of axes");
    const int axes = x.rank - 2;
    window_.check(call, axes);
    const size_t count = static_cast<size_t>(axes);
    call.require(groups_ > 0 && x.shape[1] == w.shape[0] && x.shape[1] % groups_ == 0,
                 "the channels of x, w and the groups do not go together");
    call.require(output_padding_.empty() || output_padding_.size() == count,
                 "output_padding has not an entry for each axis");
    call.require(output_shape_.empty() || output_shape_.size() >= count, "output_shape has not an entry for each axis");
    uhal_convolution_attributes attributes = convolution_attributes(call.math_mode());
    attributes.groups = groups_;
    Shape shape = {x.shape[0], w.shape[1] * groups_};
    for (int i = 0; i < axes; ++i) {
      const int64_t more = output_padding_.empty() ? 0 : output_padding_[i];
      const int64_t whole =
          window_.stride(i) * (x.shape[2 + i] - 1) + more + (w.shape[2 + i] - 1) * window_.dilation(i) + 1;
      int64_t before = window_.pads.empty() ? 0 : window_.pads[i];
      int64_t after = window_.pads.empty() ? 0 : window_.pads[axes + i];
      int64_t length = whole - before - after;
      const bool is_same = window_.auto_pad == "SAME_UPPER" || window_.auto_pad == "SAME_LOWER";
      if (!output_shape_.empty() || is_same) {
        length = output_shape_.empty() ? x.shape[2 + i] * window_.stride(i)
                                       : output_shape_[output_shape_.size() - count + static_cast<size_t>(i)];
        const int64_t total = std::max<int64_t>(0, whole - length);
        before = window_.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        after = total - before;
      } else if (window_.auto_pad == "VALID") {
        before = after = 0;
        length = whole;
      }
      call.require(length > 0, "the padding takes all of the output");
      attributes.pad_before[i] = before;
      attributes.pad_after[i] = std::max<int64_t>(0, after - more);  // as a convolution of y into x has it
      attributes.stride[i] = window_.stride(i);
      attributes.dilation[i] = window_.dilation(i);
      shape.push_back(length);
    }
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    call.launch(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&x, &w}, {&y}, &attributes);
    if (!call.has(2)) return;
    const View bias = call.input(2);
    Shape column(static_cast<size_t>(axes) + 1, 1);
    column[0] = bias.elements();
    const View as_column = bias.reshaped(column);
    call.map(uhal_map_add, {&y, &as_column}, {&y});
  }

 private:
  const Window window_;
  const int64_t groups_;
  const Shape output_padding_, output_shape_;
};

const Op kConvolutionOps[] = {
    {.name = "ConvTranspose", .first = 1, .last = kNewestOpset, .dtypes = kFloats, .make = make<ConvTranspose>},
    {.name = "Conv",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Convolution>,
     .data = &kChannelsFirst},
    {.name = "Conv",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Convolution>,
     .data = &kChannelsLast,
     .domain = kChannelsLastDomain},
    {.name = "FusedConv",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<Convolution>,
     .data = &kChannelsFirst,
     .domain = kMicrosoft},
};

}  // namespace

Table convolution_ops() { return table(kConvolutionOps); }

}  // namespace unihal::onnxruntime
