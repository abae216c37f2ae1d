// Fourier transforms, and complex numbers made from real ones and taken apart.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "plugins/paddle/kernels/windows.h"

namespace unihal::paddle {
namespace {

// -- transforms

uhal_fft_attributes transform(const Context& context, Text normalization, bool forward) {
  uhal_fft_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.direction = forward ? UHAL_FFT_FORWARD : UHAL_FFT_INVERSE;
  const char* name = normalization.value;
  if (std::strcmp(name, "ortho") == 0) {
    attributes.normalization = UHAL_FFT_ORTHONORMAL;
  } else if (std::strcmp(name, "forward") == 0) {
    attributes.normalization = forward ? UHAL_FFT_BY_LENGTH : UHAL_FFT_UNSCALED;
  } else if (std::strcmp(name, "backward") == 0) {
    attributes.normalization = forward ? UHAL_FFT_UNSCALED : UHAL_FFT_BY_LENGTH;
  } else {
    invalid(context, std::string("the normalization \"") + name + "\" is not one of forward, backward, ortho");
  }
  return attributes;
}

// The gradient of a transform goes the other way, with the scale that the transform had.
uhal_fft_attributes gradient_transform(const Context& context, Text normalization, bool forward) {
  auto attributes = transform(context, normalization, forward);
  attributes.direction = forward ? UHAL_FFT_INVERSE : UHAL_FFT_FORWARD;
  return attributes;
}

// Axes [begin, end) of the list, in one launch.
void run_axes(const Context& context, const View& x, const View& y, const Span<int64_t>& axes, int begin, int end,
              uhal_fft_attributes attributes) {
  attributes.axis_count = end - begin;
  for (int i = begin; i < end; ++i) attributes.axes[i - begin] = from_front(axes[i], x.rank);
  context.run(UHAL_OP_FFT, {&x}, {&y}, &attributes);
}

// The last axes between real and complex numbers, or all between complex ones, at most three at a time. `x` and `y`
// have the same dtype or one is real; complex axes in front go first on the way to real numbers, and last on the way
// from them.
void run_all(const Context& context, const View& x, const View& y, const Span<int64_t>& axes,
             const uhal_fft_attributes& attributes) {
  if (y.elements() == 0) return;
  if (x.elements() == 0) return fill_zero(context, y);
  const int count = axes.size(), others = std::max(0, count - UHAL_FFT_MAX_AXES);
  if (count == 0) {
    if (x.dtype != y.dtype) invalid(context, "there is no axis along which to transform");
    return copy_or_cast(context, x, y);
  }
  if (others == 0) return run_axes(context, x, y, axes, 0, count, attributes);
  // One axis at a time in front: rare.
  const bool to_real = real_of(y.dtype) == y.dtype;
  const View& shape = to_real ? x : y;
  const Scratch first(context, shape.dtype, shape), second(context, shape.dtype, shape);
  View from = x;
  if (!to_real) {
    run_axes(context, x, first, axes, others, count, attributes);
    from = first;
  }
  for (int i = 0; i < others; ++i) {
    const bool last = !to_real && i == others - 1;
    const View to = last ? y : from.data == first.data ? static_cast<const View&>(second) : first;
    run_axes(context, from, to, axes, i, i + 1, attributes);
    from = to;
  }
  if (to_real) run_axes(context, from, y, axes, others, count, attributes);
}

void fft_c2c(Context context, Input x, Span<int64_t> axes, Text normalization, bool forward, Output y) {
  const View in = x.view();
  run_all(context, in, context.allocate(y, in.dtype), axes, transform(context, normalization, forward));
}
void fft_c2c_grad(Context context, Input dy, Span<int64_t> axes, Text normalization, bool forward, Output dx) {
  const View gradient = dy.view();
  run_all(context, gradient, context.allocate(dx, gradient.dtype), axes,
          gradient_transform(context, normalization, forward));
}

// Without `onesided` all frequencies are given, not half of them.
void fft_r2c(Context context, Input x, Span<int64_t> axes, Text normalization, bool forward, bool onesided, Output y) {
  const View in = x.view(), out = context.allocate(y, complex_of(in.dtype));
  const auto attributes = transform(context, normalization, forward);
  if (onesided) return run_all(context, in, out, axes, attributes);
  const Scratch whole(context, out.dtype, in);
  if (in.elements() > 0) copy_or_cast(context, in, whole);
  run_all(context, whole, out, axes, attributes);
}
void fft_r2c_grad(Context context, Input, Input dy, Span<int64_t> axes, Text normalization, bool forward, bool onesided,
                  Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, real_of(gradient.dtype));
  const auto attributes = gradient_transform(context, normalization, forward);
  const Scratch full(context, gradient.dtype, out), transformed(context, gradient.dtype, out);
  if (out.elements() == 0) return;
  View from = gradient;
  if (onesided) {  // the frequencies that were not given have no gradient
    fill_zero(context, full);
    const int last = from_front(axes[axes.size() - 1], out.rank);
    copy_or_cast(context, gradient, full.sliced(last, 0, gradient.shape[last]));
    from = full;
  }
  run_all(context, from, transformed, axes, attributes);
  context.map(uhal_map_real, {&transformed}, {&out});
}

void fft_c2r(Context context, Input x, Span<int64_t> axes, Text normalization, bool forward, int64_t, Output y) {
  const View in = x.view();
  run_all(context, in, context.allocate(y, real_of(in.dtype)), axes, transform(context, normalization, forward));
}
// A frequency that stands for its conjugate too has twice the gradient.
void fft_c2r_grad(Context context, Input dy, Span<int64_t> axes, Text normalization, bool forward, int64_t, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, complex_of(gradient.dtype));
  run_all(context, gradient, out, axes, gradient_transform(context, normalization, forward));
  if (out.elements() == 0) return;
  const int last = from_front(axes[axes.size() - 1], out.rank);
  const int64_t twice = gradient.shape[last] - out.shape[last];
  if (twice <= 0) return;
  const View doubled = out.sliced(last, 1, twice);
  context.map(uhal_map_scale, {&doubled}, {&doubled}, {2, 0});
}

// -- windows of signals, each transformed

uhal_fft_attributes transform_of_windows(bool normalized, bool forward) {
  uhal_fft_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.direction = forward ? UHAL_FFT_FORWARD : UHAL_FFT_INVERSE;
  attributes.normalization = normalized ? UHAL_FFT_ORTHONORMAL : UHAL_FFT_UNSCALED;
  attributes.axis_count = 1;
  attributes.axes[0] = 1;
  return attributes;
}

// How many windows signals (batch, length) have.
int64_t count_windows(const Context& context, const View& signals, const View& weights, int length, int hop) {
  require_same_dtype(context, signals, weights);
  if (signals.rank != 2 || weights.rank != 1 || weights.shape[0] != length) {
    invalid(context, "expected signals (batch, length) and a window of n_fft numbers");
  }
  if (length < 1 || hop < 1 || signals.shape[1] < length) {
    invalid(context, "n_fft is " + std::to_string(length) + " and hop_length " + std::to_string(hop) +
                         ", of signals of length " + std::to_string(signals.shape[1]));
  }
  return 1 + (signals.shape[1] - length) / hop;
}

// y (batch, frequencies, windows)
void stft(Context context, Input x, Input window, int length, int hop, bool normalized, bool onesided, Output y) {
  const View in = x.view(), weights = window.view();
  const int64_t count = count_windows(context, in, weights, length, hop);
  const int64_t dims[] = {in.shape[0], onesided ? length / 2 + 1 : length, count};
  const View out = context.allocate(y, complex_of(in.dtype), dims, 3);
  if (out.elements() == 0) return;
  const View all = windows(in, 1, length, count, hop);
  const Scratch weighted(context, onesided ? in.dtype : out.dtype, all);
  const View column = weights.reshaped({1, length, 1});
  context.map(uhal_map_multiply, {&all, &column}, {&weighted});
  const auto attributes = transform_of_windows(normalized, true);
  context.run(UHAL_OP_FFT, {&weighted}, {&out}, &attributes);
}

void stft_grad(Context context, Input x, Input window, Input dy, int length, int hop, bool normalized, bool onesided,
               Output dx) {
  const View weights = window.view(), gradient = dy.view(), signals = x.shape_only();
  const int64_t count = count_windows(context, signals, weights, length, hop), batch = signals.shape[0];
  const int64_t frequencies = onesided ? length / 2 + 1 : length;
  if (gradient.rank != 3 || gradient.shape[0] != batch || gradient.shape[1] != frequencies ||
      gradient.shape[2] != count) {
    invalid(context, "the gradient has not the result's shape");
  }
  const View out = context.allocate(dx, weights.dtype, signals.shape, 2);
  fill_zero(context, out);
  if (gradient.elements() == 0) return;
  const int64_t dims[] = {batch, length, count};
  const Scratch full(context, gradient.dtype, dims, 3), transformed(context, gradient.dtype, dims, 3);
  View from = gradient;
  if (onesided) {  // the frequencies that were not given have no gradient
    fill_zero(context, full);
    copy_or_cast(context, gradient, full.sliced(1, 0, frequencies));
    from = full;
  }
  const auto attributes = transform_of_windows(normalized, false);
  context.run(UHAL_OP_FFT, {&from}, {&transformed}, &attributes);
  const Scratch parts(context, out.dtype, dims, 3);
  const View column = weights.reshaped({1, length, 1});
  context.map(uhal_map_real, {&transformed}, {&parts});
  context.map(uhal_map_multiply, {&parts, &column}, {&parts});
  add_windows(context, parts, 1, hop, out);
}

// -- complex numbers

void complex(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View out = context.allocate(z, complex_of(a.dtype));
  context.map(uhal_map_complex, {&a, &b}, {&out});
}
void complex_grad(Context context, Input, Input, Input dz, Output dx, Output dy) {
  const View gradient = dz.view();
  const Scratch part(context, real_of(gradient.dtype), gradient);
  if (dx) {
    context.map(uhal_map_real, {&gradient}, {&part});
    sum_to_shape(context, part, context.allocate(dx, part.dtype));
  }
  if (dy) {
    context.map(uhal_map_imaginary, {&gradient}, {&part});
    sum_to_shape(context, part, context.allocate(dy, part.dtype));
  }
}

void conj(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  context.map(uhal_map_conjugate, {&in}, {&out});
}
void angle(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, real_of(in.dtype));
  context.map(uhal_map_angle, {&in}, {&out});
}
void angle_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  if (real_of(in.dtype) == in.dtype) return fill_zero(context, out);
  context.map(uhal_map_angle_backward, {&in, &gradient}, {&out});
}

// The real or the imaginary parts; eager mode makes views of these itself.
template <int function>
void complex_part(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, real_of(in.dtype));
  context.map(function, {&in}, {&out});
}
// dx = dy, or i dy
template <bool imaginary>
void part_grad(Context context, Input dy, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, complex_of(gradient.dtype));
  const Scratch zero(context, gradient.dtype, nullptr, 0);
  fill_zero(context, zero);
  if (imaginary) {
    context.map(uhal_map_complex, {&zero, &gradient}, {&out});
  } else {
    context.map(uhal_map_complex, {&gradient, &zero}, {&out});
  }
}

// Complex numbers as pairs of real ones, last; eager mode makes views of these itself.
View pairs(const View& x) {
  View result(x.data, real_of(x.dtype), x.shape, x.rank);
  result.shape[result.rank] = 2;
  return View(x.data, result.dtype, result.shape, result.rank + 1);
}
void as_real(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, real_of(in.dtype));
  copy_or_cast(context, pairs(in), out);
}
void as_complex(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, complex_of(in.dtype));
  copy_or_cast(context, in, pairs(out));
}

}  // namespace

KernelTable spectrum_kernels() {
  return {
      UNIHAL_KERNEL("fft_c2c", kComplex, fft_c2c),
      UNIHAL_KERNEL("fft_c2c_grad", kComplex, fft_c2c_grad),
      UNIHAL_KERNEL("fft_r2c", kWideFloats, fft_r2c),
      UNIHAL_KERNEL("fft_r2c_grad", kComplex, fft_r2c_grad),
      UNIHAL_KERNEL("fft_c2r", kComplex, fft_c2r),
      UNIHAL_KERNEL("fft_c2r_grad", kWideFloats, fft_c2r_grad),
      UNIHAL_KERNEL("stft", kWideFloats, stft),
      UNIHAL_KERNEL("stft_grad", kWideFloats, stft_grad),
      UNIHAL_KERNEL("as_complex", kWideFloats, as_complex),
      UNIHAL_KERNEL("as_real", kComplex, as_real),
      UNIHAL_KERNEL("complex", kWideFloats, complex),
      UNIHAL_KERNEL("complex_grad", kWideFloats, complex_grad),
      UNIHAL_KERNEL("real", kComplex, complex_part<uhal_map_real>),
      UNIHAL_KERNEL("real_grad", kComplex, part_grad<false>),
      UNIHAL_KERNEL("imag", kComplex, complex_part<uhal_map_imaginary>),
      UNIHAL_KERNEL("imag_grad", kComplex, part_grad<true>),
      UNIHAL_KERNEL("conj", kFloats | kInt32And64 | kComplex, conj),
      UNIHAL_KERNEL("angle", kWideFloats | kComplex, angle),
      UNIHAL_KERNEL("angle_grad", kWideFloats | kComplex, angle_grad),
  };
}

}  // namespace unihal::paddle
