// Fourier transforms and windows of signals.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

uhal_dtype complex_of(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_COMPLEX128 : UHAL_COMPLEX64; }

// Memory of pairs (..., 2) as complex numbers, and back.
View as_complex(const View& pairs) { return View(pairs.data, complex_of(pairs.dtype), pairs.shape, pairs.rank - 1); }

// x (..., 1) or (..., 2), dft_length, axis (since opset 20 an input) -> (..., 2). Real signals' inverse from one side
// is not in ONNX.
class Dft final : public Kernel {
 public:
  explicit Dft(const Description& node)
      : axis_is_input_(node.version() >= 20),
        axis_(node.integer("axis", node.version() >= 20 ? -2 : 1)),
        inverse_(node.integer("inverse", 0) != 0),
        one_sided_(node.integer("onesided", 0) != 0) {
    node.require(!(inverse_ && one_sided_), "an inverse of one side");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank >= 2 && (x.shape[x.rank - 1] == 1 || x.shape[x.rank - 1] == 2),
                 "the last axis has not one or two numbers");
    const int64_t given = axis_is_input_ && call.has(2) ? static_cast<int64_t>(call.scalar(2)) : axis_;
    const int axis = axis_of(call, given, x.rank);
    call.require(axis != x.rank - 1, "the axis of real and imaginary parts is not transformed");
    const int64_t length = call.has(1) ? static_cast<int64_t>(call.scalar(1)) : x.shape[axis];
    call.require(length > 0, "dft_length is not positive");
    Shape shape = shape_of(x);
    shape.back() = 2;
    shape[static_cast<size_t>(axis)] = one_sided_ ? length / 2 + 1 : length;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    // The signal with zeros to its length, as complex numbers.
    Shape whole = shape;
    whole[static_cast<size_t>(axis)] = length;
    const View pairs = call.scratch(whole, x.dtype);
    const int64_t kept = std::min(length, x.shape[axis]);
    if (kept < length || x.shape[x.rank - 1] == 1) call.fill(pairs, 0);
    const View from = x.sliced(axis, 0, kept);
    const View to = pairs.sliced(axis, 0, kept).sliced(x.rank - 1, 0, x.shape[x.rank - 1]);
    call.launch(UHAL_OP_COPY, {&from}, {&to});
    const View signal = as_complex(pairs);
    uhal_fft_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.direction = inverse_ ? UHAL_FFT_INVERSE : UHAL_FFT_FORWARD;
    attributes.normalization = inverse_ ? UHAL_FFT_BY_LENGTH : UHAL_FFT_UNSCALED;
    attributes.axis_count = 1;
    attributes.axes[0] = axis;
    if (!one_sided_) {
      const View result = as_complex(y);
      return call.launch(UHAL_OP_FFT, {&signal}, {&result}, &attributes);
    }
    const View all = call.scratch_like(signal, signal.dtype);
    call.launch(UHAL_OP_FFT, {&signal}, {&all}, &attributes);
    const View half = all.sliced(axis, 0, length / 2 + 1), result = as_complex(y);
    call.launch(UHAL_OP_COPY, {&half}, {&result});
  }

 private:
  const bool axis_is_input_;
  const int64_t axis_;
  const bool inverse_, one_sided_;
};

// Frames of a signal (B, length, 1 or 2), each `frame_step` further, times a window, and their transforms:
// signal, frame_step, window, frame_length -> (B, frames, bins, 2).
class Stft final : public Kernel {
 public:
  explicit Stft(const Description& node) : one_sided_(node.integer("onesided", 1) != 0) {}
  void run(Call& call) const override {
    View x = call.input(0);
    if (x.rank == 2) x = x.unsqueezed(2);
    call.require(x.rank == 3 && (x.shape[2] == 1 || x.shape[2] == 2), "the signal is not (batch, length, 1 or 2)");
    call.require(x.shape[2] == 1 || !one_sided_, "a complex signal has no transform of one side");
    const int64_t step = static_cast<int64_t>(call.scalar(1));
    const View window = call.has(2) ? call.input(2) : View();
    const bool has_window = window.dtype != UHAL_DTYPE_INVALID;
    call.require(has_window || call.has(3), "there is neither a window nor a length of frames");
    const int64_t length = has_window ? window.elements() : static_cast<int64_t>(call.scalar(3));
    call.require(step > 0 && length > 0 && length <= x.shape[1], "the frames do not fit the signal");
    const int64_t frames = (x.shape[1] - length) / step + 1, bins = one_sided_ ? length / 2 + 1 : length;
    const View y = call.output(0, {x.shape[0], frames, bins, 2});
    if (y.elements() == 0) return;
    // Overlapping frames are one view of the signal.
    View framed = x.unsqueezed(1);
    framed.shape[1] = frames;
    framed.strides[1] = step * x.strides[1];
    framed.shape[2] = length;
    const View pairs = call.scratch(Shape{x.shape[0], frames, length, 2}, x.dtype);
    if (x.shape[2] == 1) call.fill(pairs, 0);
    const View to = pairs.sliced(3, 0, x.shape[2]);
    if (has_window) {
      const View column = window.reshaped({length, 1});
      call.map(uhal_map_multiply, {&framed, &column}, {&to});
    } else {
      call.launch(UHAL_OP_COPY, {&framed}, {&to});
    }
    uhal_fft_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.axis_count = 1;
    attributes.axes[0] = 2;
    const View signal = as_complex(pairs), all = call.scratch_like(signal, signal.dtype);
    call.launch(UHAL_OP_FFT, {&signal}, {&all}, &attributes);
    const View wanted = all.sliced(2, 0, bins), result = as_complex(y);
    call.launch(UHAL_OP_COPY, {&wanted}, {&result});
  }

 private:
  const bool one_sided_;
};

constexpr DtypeSet kSignals = kWideFloats;

const Op kRows[] = {
    {.name = "DFT",
     .first = 17,
     .last = kNewestOpset,
     .dtypes = kSignals,
     .make = make<Dft>,
     .host_inputs = host({1, 2})},
    {.name = "STFT",
     .first = 17,
     .last = kNewestOpset,
     .dtypes = kSignals,
     .make = make<Stft>,
     .host_inputs = host({1, 3})},
};

}  // namespace

Table signal_ops() { return table(kRows); }

}  // namespace unihal::onnxruntime
