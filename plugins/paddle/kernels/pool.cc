// Pooling in two and three dimensions. Until Paddle 3.0 strides and paddings are int, since 3.1 int64.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "plugins/paddle/kernels/spatial.h"
#include "plugins/paddle/kernels/windows.h"

namespace unihal::paddle {
namespace {

template <class Window, class Numbers>
uhal_pool_attributes pool_attributes_of(const Context& context, const View& x, const Window& window,
                                        const Numbers& strides, const Numbers& paddings, bool exclusive, Text type,
                                        bool global, bool adaptive, Text algorithm) {
  const bool maximum = std::strcmp(type.value, "max") == 0;
  if (!maximum && std::strcmp(type.value, "avg") != 0) {
    unsupported(context, std::string("pooling type \"") + type.value + "\"");
  }
  auto attributes = pool_attributes(maximum     ? UHAL_POOL_MAXIMUM
                                    : exclusive ? UHAL_POOL_AVERAGE_EXCLUDE_PADDING
                                                : UHAL_POOL_AVERAGE_INCLUDE_PADDING);
  attributes.adaptive = adaptive;
  const int axes = x.rank - 2;
  for (int i = 0; i < axes; ++i) {
    const int64_t size = x.shape[i + 2];
    if (global) {
      attributes.window[i] = size;
    } else if (!adaptive) {
      attributes.window[i] = window[i];
      attributes.stride[i] = strides[i];
      set_padding(paddings, algorithm, i, axes, size, attributes.window[i], 1, attributes.stride[i],
                  &attributes.pad_before[i], &attributes.pad_after[i]);
    }
  }
  return attributes;
}

// What an average that counts padding is taken over, where windows reach further: Paddle divides by what of them lies
// within as much padding behind x as there is before it, so that this is an image of its own.
class Framed {
 public:
  Framed(const Context& context, const uhal_pool_attributes& attributes, const View& x, const View& y)
      : attributes_(attributes) {
    if (attributes.mode != UHAL_POOL_AVERAGE_INCLUDE_PADDING || attributes.adaptive != 0) return;
    int64_t dims[UHAL_MAX_RANK];
    std::copy_n(x.shape, x.rank, dims);
    bool reaches = false;
    for (int i = 0; i < x.rank - 2; ++i) {
      const int64_t before = attributes.pad_before[i];
      dims[i + 2] += 2 * before;
      reaches |= (y.shape[i + 2] - 1) * attributes.stride[i] + attributes.window[i] > dims[i + 2];
      attributes_.pad_before[i] = attributes_.pad_after[i] = 0;
    }
    if (!reaches) return;
    attributes_.mode = UHAL_POOL_AVERAGE_EXCLUDE_PADDING;
    inside_ = whole_.emplace(context, x.dtype, dims, x.rank);
    for (int i = 0; i < x.rank - 2; ++i) {
      inside_ = inside_.sliced(i + 2, attributes.pad_before[i], x.shape[i + 2]);
    }
  }

  explicit operator bool() const { return whole_.has_value(); }
  const View& whole() const { return *whole_; }
  const View& inside() const { return inside_; }  // where x is
  const uhal_pool_attributes& attributes() const { return attributes_; }

 private:
  uhal_pool_attributes attributes_;
  std::optional<Scratch> whole_;
  View inside_;
};

template <class Window, class Numbers>
void pool(Context context, Input x, Window window, Numbers strides, Numbers paddings, bool /*ceil_mode*/,
          bool exclusive, Text data_format, Text type, bool global, bool adaptive, Text algorithm, Output y) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last);
  const View out = image(context.allocate(y, in.dtype), last);
  const auto attributes =
      pool_attributes_of(context, in, window, strides, paddings, exclusive, type, global, adaptive, algorithm);
  if (const Framed framed(context, attributes, in, out); framed) {
    fill_zero(context, framed.whole());
    copy_or_cast(context, in, framed.inside());
    return context.run(UHAL_OP_POOL, {&framed.whole()}, {&out}, &framed.attributes());
  }
  context.run(UHAL_OP_POOL, {&in}, {&out}, &attributes);
}

template <class Window, class Numbers>
void pool_grad(Context context, Input x, Input y, Input dy, Window window, Numbers strides, Numbers paddings,
               bool /*ceil_mode*/, bool exclusive, Text data_format, Text type, bool global, bool adaptive,
               Text algorithm, Output dx) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), forward = image(y.view(), last), gradient = image(dy.view(), last);
  const View out = image(context.allocate(dx, in.dtype), last);
  const auto attributes =
      pool_attributes_of(context, in, window, strides, paddings, exclusive, type, global, adaptive, algorithm);
  if (attributes.mode == UHAL_POOL_MAXIMUM) {
    context.run(UHAL_OP_POOL_BACKWARD, {&gradient, &in, &forward}, {&out}, &attributes);
  } else if (const Framed framed(context, attributes, in, gradient); framed) {
    context.run(UHAL_OP_POOL_BACKWARD, {&gradient}, {&framed.whole()}, &framed.attributes());
    copy_or_cast(context, framed.inside(), out);
  } else {
    context.run(UHAL_OP_POOL_BACKWARD, {&gradient}, {&out}, &attributes);
  }
}

// The gradient of an average is linear in dy: what its own gradient was given goes through the pool once more. That of
// a maximum Paddle takes by the places alone, which it does not hand over.
template <class Window, class Numbers>
void pool_double_grad(Context context, Input ddx, Window window, Numbers strides, Numbers paddings, bool ceil_mode,
                      bool exclusive, Text data_format, Text type, bool global, bool adaptive, Text algorithm,
                      Output ddy) {
  if (std::strcmp(type.value, "avg") != 0) unsupported(context, "a pool that is not an average");
  pool(context, ddx, std::move(window), std::move(strides), std::move(paddings), ceil_mode, exclusive, data_format,
       type, global, adaptive, algorithm, ddy);
}

// y = (the window's sum of x^p)^(1/p): sums are averages, which count all of a window, times its elements. Of an
// infinite p the maximum of x.
template <class Numbers>
uhal_pool_attributes power_attributes(const Context& context, const View& x, const Integers& window,
                                      const Numbers& strides, const Numbers& paddings, bool global, bool adaptive,
                                      Text algorithm, double p, double* elements) {
  if (adaptive) unsupported(context, "an adaptive window");
  const Text type{p == HUGE_VAL ? "max" : "avg"};
  const auto attributes =
      pool_attributes_of(context, x, window, strides, paddings, false, type, global, false, algorithm);
  *elements = 1;
  for (int i = 0; i < x.rank - 2; ++i) *elements *= static_cast<double>(attributes.window[i]);
  return attributes;
}

template <class Numbers>
void power_pool(Context context, Input x, Integers window, Numbers strides, Numbers paddings, bool, bool,
                Text data_format, Text, bool global, bool adaptive, Text algorithm, float norm, Output y) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), out = image(context.allocate(y, in.dtype), last);
  const double p = static_cast<double>(norm);
  double elements;
  const auto attributes =
      power_attributes(context, in, window, strides, paddings, global, adaptive, algorithm, p, &elements);
  if (out.elements() == 0) return;
  if (attributes.mode == UHAL_POOL_MAXIMUM) return context.run(UHAL_OP_POOL, {&in}, {&out}, &attributes);
  const Scratch powers(context, accumulator(in.dtype), in), sums(context, accumulator(in.dtype), out);
  context.map(uhal_map_power_scalar, {&in}, {&powers}, {p});
  context.run(UHAL_OP_POOL, {&powers}, {&sums}, &attributes);
  context.map(uhal_map_scale, {&sums}, {&sums}, {elements, 0});
  context.map(uhal_map_power_scalar, {&sums}, {&out}, {1 / p});
}

// dx = x^(p - 1) * the sum of dy * y^(1 - p) of the windows that it is in
template <class Numbers>
void power_pool_grad(Context context, Input x, Input y, Input dy, Integers window, Numbers strides, Numbers paddings,
                     bool, bool, Text data_format, Text, bool global, bool adaptive, Text algorithm, float norm,
                     Output dx) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), forward = image(y.view(), last), gradient = image(dy.view(), last);
  const View out = image(context.allocate(dx, in.dtype), last);
  const double p = static_cast<double>(norm);
  double elements;
  const auto attributes =
      power_attributes(context, in, window, strides, paddings, global, adaptive, algorithm, p, &elements);
  if (out.elements() == 0) return;
  if (attributes.mode == UHAL_POOL_MAXIMUM) {
    return context.run(UHAL_OP_POOL_BACKWARD, {&gradient, &in, &forward}, {&out}, &attributes);
  }
  const uhal_dtype dtype = accumulator(in.dtype);
  const Scratch part(context, dtype, forward), sums(context, dtype, in), slope(context, dtype, in);
  context.map(uhal_map_power_scalar, {&forward}, {&part}, {p - 1});
  context.map(uhal_map_divide_no_nan, {&gradient, &part}, {&part});  // of a window of zeros nothing
  context.run(UHAL_OP_POOL_BACKWARD, {&part}, {&sums}, &attributes);
  context.map(uhal_map_power_scalar, {&in}, {&slope}, {p - 1});
  context.map(uhal_map_scale, {&sums}, {&sums}, {elements, 0});
  context.map(uhal_map_multiply, {&sums, &slope}, {&out});
}

// The maximum, and where in its channel it was.
template <class Numbers>
void pool_with_index(Context context, Input x, Numbers window, Numbers strides, Numbers paddings, bool global,
                     bool adaptive, bool /*ceil_mode*/, Output y, Output places) {
  const View in = x.view(), out = context.allocate(y, in.dtype), at = context.allocate(places, UHAL_INT32);
  auto attributes =
      pool_attributes_of(context, in, window, strides, paddings, true, Text{"max"}, global, adaptive, Text{"EXPLICIT"});
  context.run(UHAL_OP_POOL, {&in}, {&out, &at}, &attributes);
}

template <class Numbers>
void pool_with_index_grad(Context context, Input, Input places, Input dy, Numbers, Numbers, Numbers, bool, bool, bool,
                          Output dx) {
  const View gradient = dy.view();
  add_at_pixels(context, places.view(), gradient, context.allocate(dx, gradient.dtype));
}

}  // namespace

KernelTable pool_kernels() {
  return {
      UNIHAL_KERNEL("pool2d", kFloats, pool<Integers, Span<int64_t>>),
      UNIHAL_KERNEL("pool2d", kFloats, pool<Integers, Span<int>>),
      UNIHAL_KERNEL("pool2d_grad", kFloats, pool_grad<Integers, Span<int64_t>>),
      UNIHAL_KERNEL("pool2d_grad", kFloats, pool_grad<Integers, Span<int>>),
      UNIHAL_KERNEL("pool2d_double_grad", kFloats, pool_double_grad<Integers, Span<int64_t>>),
      UNIHAL_KERNEL("pool2d_double_grad", kFloats, pool_double_grad<Integers, Span<int>>),
      UNIHAL_KERNEL("pool3d", kFloats, pool<Span<int64_t>, Span<int64_t>>),
      UNIHAL_KERNEL("pool3d", kFloats, pool<Span<int>, Span<int>>),
      UNIHAL_KERNEL("pool3d_grad", kFloats, pool_grad<Span<int64_t>, Span<int64_t>>),
      UNIHAL_KERNEL("pool3d_grad", kFloats, pool_grad<Span<int>, Span<int>>),
      UNIHAL_KERNEL("lp_pool2d", kFloats, power_pool<Span<int64_t>>),
      UNIHAL_KERNEL("lp_pool2d", kFloats, power_pool<Span<int>>),
      UNIHAL_KERNEL("lp_pool2d_grad", kFloats, power_pool_grad<Span<int64_t>>),
      UNIHAL_KERNEL("lp_pool2d_grad", kFloats, power_pool_grad<Span<int>>),
      UNIHAL_KERNEL("max_pool2d_with_index", kFloats, pool_with_index<Span<int>>),
      UNIHAL_KERNEL("max_pool2d_with_index_grad", kFloats, pool_with_index_grad<Span<int>>),
      UNIHAL_KERNEL("max_pool3d_with_index", kFloats, pool_with_index<Span<int>>),
      UNIHAL_KERNEL("max_pool3d_with_index_grad", kFloats, pool_with_index_grad<Span<int>>),
  };
}

}  // namespace unihal::paddle
