// Convolutions in two and three dimensions, their gradients, and transposed ones. Filters are (O, I, spatial...) in
// every layout of the image.
#include "plugins/paddle/kernels/spatial.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

// SAME makes the dilation 1, as Paddle does. Where Paddle's division gives an output although the window exceeds the
// padded image (it rounds towards zero), the image has more padding at its end.
uhal_convolution_attributes attributes_of(const Context& context, const View& x, const View& w, const View& y,
                                          Span<int> strides, Span<int> paddings, Text algorithm, Span<int> dilations,
                                          int groups) {
  require_same_dtype(context, x, w);
  auto attributes = convolution_attributes(convolution_math_mode());
  const int axes = x.rank - 2;
  attributes.groups = groups;
  for (int i = 0; i < axes; ++i) {
    attributes.stride[i] = strides[i];
    attributes.dilation[i] = std::strcmp(algorithm.value, "SAME") == 0 ? 1 : dilations[i];
    set_padding(paddings, algorithm, i, axes, x.shape[i + 2], w.shape[i + 2], attributes.dilation[i],
                attributes.stride[i], &attributes.pad_before[i], &attributes.pad_after[i]);
    const int64_t reach = (w.shape[i + 2] - 1) * attributes.dilation[i] + 1;
    const int64_t excess = reach - x.shape[i + 2] - attributes.pad_before[i] - attributes.pad_after[i];
    if (excess > 0 && y.shape[i + 2] == 1) attributes.pad_after[i] += excess;
  }
  return attributes;
}

void convolution(const Context& context, Input x, Input filter, Span<int> strides, Span<int> paddings, Text algorithm,
                 Span<int> dilations, int groups, Text data_format, Output y) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view();
  const View out = image(context.allocate(y, in.dtype), last);
  const auto attributes = attributes_of(context, in, w, out, strides, paddings, algorithm, dilations, groups);
  context.run(UHAL_OP_CONVOLUTION, {&in, &w}, {&out}, &attributes);
}

void convolution_grad(const Context& context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings,
                      Text algorithm, Span<int> dilations, int groups, Text data_format, Output dx, Output dw) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const auto attributes = attributes_of(context, in, w, gradient, strides, paddings, algorithm, dilations, groups);
  if (dx) {
    const View out = image(context.allocate(dx, in.dtype), last);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&gradient, &w}, {&out}, &attributes);
  }
  if (dw) {
    const View out = context.allocate(dw, w.dtype);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&in, &gradient}, {&out}, &attributes);
  }
}

// Paddle orders the last attributes in two ways.
void conv(Context context, Input x, Input filter, Span<int> strides, Span<int> paddings, Text algorithm,
          Span<int> dilations, int groups, Text data_format, Output y) {
  convolution(context, x, filter, strides, paddings, algorithm, dilations, groups, data_format, y);
}
void conv_grad(Context context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings, Text algorithm,
               Span<int> dilations, int groups, Text data_format, Output dx, Output dw) {
  convolution_grad(context, x, filter, dy, strides, paddings, algorithm, dilations, groups, data_format, dx, dw);
}
void grouped_conv(Context context, Input x, Input filter, Span<int> strides, Span<int> paddings, Text algorithm,
                  int groups, Span<int> dilations, Text data_format, Output y) {
  convolution(context, x, filter, strides, paddings, algorithm, dilations, groups, data_format, y);
}
void grouped_conv_grad(Context context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings,
                       Text algorithm, int groups, Span<int> dilations, Text data_format, Output dx, Output dw) {
  convolution_grad(context, x, filter, dy, strides, paddings, algorithm, dilations, groups, data_format, dx, dw);
}

// A transposed convolution is the gradient of one whose image is our output; filter (C_in, C_out/groups, ...).
void conv_transpose(Context context, Input x, Input filter, Span<int> strides, Span<int> paddings, Span<int>, Integers,
                    Text algorithm, int groups, Span<int> dilations, Text data_format, Output y) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view();
  const View out = image(context.allocate(y, in.dtype), last);
  const auto attributes = attributes_of(context, out, w, in, strides, paddings, algorithm, dilations, groups);
  context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&in, &w}, {&out}, &attributes);
}

void conv_transpose_grad(Context context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings,
                         Span<int>, Integers, Text algorithm, int groups, Span<int> dilations, Text data_format,
                         Output dx, Output dw) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const auto attributes = attributes_of(context, gradient, w, in, strides, paddings, algorithm, dilations, groups);
  if (dx) {
    const View out = image(context.allocate(dx, in.dtype), last);
    context.run(UHAL_OP_CONVOLUTION, {&gradient, &w}, {&out}, &attributes);
  }
  if (dw) {
    const View out = context.allocate(dw, w.dtype);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&gradient, &in}, {&out}, &attributes);
  }
}

}  // namespace

KernelTable convolution_kernels() {
  return {
      UNIHAL_KERNEL("conv2d", kFloats, conv),
      UNIHAL_KERNEL("conv2d_grad", kFloats, conv_grad),
      UNIHAL_KERNEL("conv3d", kFloats, grouped_conv),
      UNIHAL_KERNEL("conv3d_grad", kFloats, grouped_conv_grad),
      UNIHAL_KERNEL("depthwise_conv2d", kFloats, grouped_conv),
      UNIHAL_KERNEL("depthwise_conv2d_grad", kFloats, grouped_conv_grad),
      UNIHAL_KERNEL("conv2d_transpose", kFloats, conv_transpose),
      UNIHAL_KERNEL("conv2d_transpose_grad", kFloats, conv_transpose_grad),
  };
}

}  // namespace unihal::paddle
