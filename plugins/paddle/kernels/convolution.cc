// Convolutions in two and three dimensions, their gradients, and transposed ones. Filters are (O, I, spatial...) in
// every layout of the image.
#include "plugins/paddle/kernels/spatial.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

// SAME makes the dilation 1, as Paddle does. Where Paddle's division gives an output although the window exceeds the
// padded image (it rounds towards zero), the image has more padding at its end.
uhal_convolution_attributes convolution_attributes_of(const Context& context, const View& x, const View& w,
                                                      const View& y, Span<int> strides, Span<int> paddings,
                                                      Text algorithm, Span<int> dilations, int groups) {
  require_same_dtype(context, x, w);
  auto attributes = convolution_attributes(dnn_math_mode());
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
  const auto attributes =
      convolution_attributes_of(context, in, w, out, strides, paddings, algorithm, dilations, groups);
  context.run(UHAL_OP_CONVOLUTION, {&in, &w}, {&out}, &attributes);
}

void convolution_grad(const Context& context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings,
                      Text algorithm, Span<int> dilations, int groups, Text data_format, Output dx, Output dw) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const auto attributes =
      convolution_attributes_of(context, in, w, gradient, strides, paddings, algorithm, dilations, groups);
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

// ddy = conv(ddx, w) + conv(x, ddw); dx is what a convolution with ddw has, dw one of ddx.
void convolution_double_grad(const Context& context, Input x, Input filter, Input dy, OptionalInput ddx,
                             OptionalInput ddw, Span<int> strides, Span<int> paddings, Text algorithm,
                             Span<int> dilations, int groups, Text data_format, Output dx, Output dw, Output ddy) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const auto attributes =
      convolution_attributes_of(context, in, w, gradient, strides, paddings, algorithm, dilations, groups);
  const View din = ddx ? image(ddx.view(), last) : View(), dfilter = ddw ? ddw.view() : View();
  if (ddy) {
    const View dense = context.allocate(ddy, in.dtype);
    const View out = image(dense, last);
    if (ddx) {
      context.run(UHAL_OP_CONVOLUTION, {&din, &w}, {&out}, &attributes);
    } else {
      fill_zero(context, dense);
    }
    if (ddw) {
      const Scratch part(context, in.dtype, dense);
      const View seen = image(part, last);
      context.run(UHAL_OP_CONVOLUTION, {&in, &dfilter}, {&seen}, &attributes);
      context.map(uhal_map_add, {&dense, &part}, {&dense});
    }
  }
  if (dx) {
    const View dense = context.allocate(dx, in.dtype);
    const View out = image(dense, last);
    if (ddw) {
      context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&gradient, &dfilter}, {&out}, &attributes);
    } else {
      fill_zero(context, dense);
    }
  }
  if (dw) {
    const View out = context.allocate(dw, w.dtype);
    if (ddx) {
      context.run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&din, &gradient}, {&out}, &attributes);
    } else {
      fill_zero(context, out);
    }
  }
}
void conv_double_grad(Context context, Input x, Input filter, Input dy, OptionalInput ddx, OptionalInput ddw,
                      Span<int> strides, Span<int> paddings, Text algorithm, Span<int> dilations, int groups,
                      Text data_format, Output dx, Output dw, Output ddy) {
  convolution_double_grad(context, x, filter, dy, ddx, ddw, strides, paddings, algorithm, dilations, groups,
                          data_format, dx, dw, ddy);
}
void grouped_conv_double_grad(Context context, Input x, Input filter, Input dy, OptionalInput ddx, OptionalInput ddw,
                              Span<int> strides, Span<int> paddings, Text algorithm, int groups, Span<int> dilations,
                              Text data_format, Output dx, Output dw, Output ddy) {
  convolution_double_grad(context, x, filter, dy, ddx, ddw, strides, paddings, algorithm, dilations, groups,
                          data_format, dx, dw, ddy);
}

// A transposed convolution is the gradient of one whose image is our output; filter (C_in, C_out/groups, ...).
template <class OutputSize>
void conv_transpose(Context context, Input x, Input filter, Span<int> strides, Span<int> paddings, Span<int>,
                    OutputSize, Text algorithm, int groups, Span<int> dilations, Text data_format, Output y) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view();
  const View out = image(context.allocate(y, in.dtype), last);
  const auto attributes =
      convolution_attributes_of(context, out, w, in, strides, paddings, algorithm, dilations, groups);
  context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&in, &w}, {&out}, &attributes);
}

template <class OutputSize>
void conv_transpose_grad(Context context, Input x, Input filter, Input dy, Span<int> strides, Span<int> paddings,
                         Span<int>, OutputSize, Text algorithm, int groups, Span<int> dilations, Text data_format,
                         Output dx, Output dw) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const auto attributes =
      convolution_attributes_of(context, gradient, w, in, strides, paddings, algorithm, dilations, groups);
  if (dx) {
    const View out = image(context.allocate(dx, in.dtype), last);
    context.run(UHAL_OP_CONVOLUTION, {&gradient, &w}, {&out}, &attributes);
  }
  if (dw) {
    const View out = context.allocate(dw, w.dtype);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&gradient, &in}, {&out}, &attributes);
  }
}

// A transposed convolution y has dx = conv(dy, w) and dw = what a filter has of the image dy and the gradient x.
void conv_transpose_double_grad(Context context, Input x, Input filter, Input dy, Input ddx, Input ddw,
                                Span<int> strides, Span<int> paddings, Span<int>, Integers, Text algorithm, int groups,
                                Span<int> dilations, Text data_format, Output dx, Output dw, Output ddy) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), w = filter.view(), gradient = image(dy.view(), last);
  const View din = image(ddx.view(), last), dfilter = ddw.view();
  const auto attributes =
      convolution_attributes_of(context, gradient, w, in, strides, paddings, algorithm, dilations, groups);
  if (ddy) {
    const View dense = context.allocate(ddy, in.dtype);
    const View out = image(dense, last);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&din, &w}, {&out}, &attributes);
    const Scratch part(context, in.dtype, dense);
    const View seen = image(part, last);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&in, &dfilter}, {&seen}, &attributes);
    context.map(uhal_map_add, {&dense, &part}, {&dense});
  }
  if (dx) {
    const View out = image(context.allocate(dx, in.dtype), last);
    context.run(UHAL_OP_CONVOLUTION, {&gradient, &dfilter}, {&out}, &attributes);
  }
  if (dw) {
    const View out = context.allocate(dw, w.dtype);
    context.run(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&gradient, &din}, {&out}, &attributes);
  }
}

}  // namespace

KernelTable convolution_kernels() {
  return {
      UNIHAL_KERNEL("conv2d", kFloats, conv),
      UNIHAL_KERNEL("conv2d_grad", kFloats, conv_grad),
      UNIHAL_KERNEL("conv2d_double_grad", kFloats, conv_double_grad),
      UNIHAL_KERNEL("conv3d_double_grad", kFloats, grouped_conv_double_grad),
      UNIHAL_KERNEL("depthwise_conv2d_double_grad", kFloats, grouped_conv_double_grad),
      UNIHAL_KERNEL("conv2d_transpose_double_grad", kFloats, conv_transpose_double_grad),
      UNIHAL_KERNEL("conv3d", kFloats, grouped_conv),
      UNIHAL_KERNEL("conv3d_grad", kFloats, grouped_conv_grad),
      UNIHAL_KERNEL("depthwise_conv2d", kFloats, grouped_conv),
      UNIHAL_KERNEL("depthwise_conv2d_grad", kFloats, grouped_conv_grad),
      UNIHAL_KERNEL("conv2d_transpose", kFloats, conv_transpose<Integers>),
      UNIHAL_KERNEL("conv2d_transpose_grad", kFloats, conv_transpose_grad<Integers>),
      UNIHAL_KERNEL("conv3d_transpose", kFloats, conv_transpose<Span<int>>),
      UNIHAL_KERNEL("conv3d_transpose_grad", kFloats, conv_transpose_grad<Span<int>>),
      UNIHAL_KERNEL("depthwise_conv2d_transpose", kFloats, conv_transpose<Integers>),
      UNIHAL_KERNEL("depthwise_conv2d_transpose_grad", kFloats, conv_transpose_grad<Integers>),
  };
}

}  // namespace unihal::paddle
