// Fourier transforms and windows of signals.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

uhal_dtype complex_of(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_COMPLEX128 : UHAL_COMPLEX64; }

// Memory of pairs (..., 2) as complex numbers, and back.
View as_complex(const View& pairs) { return View(pairs.data, complex_of(pairs.dtype), pairs.shape, pairs.rank - 1); }

// x (..., 1) or (..., 2), dft_length, axis (since opset 20 an input) -> (..., 2), or (..., 1) for the inverse of one
// side.
class Dft final : public Kernel {
 public:
  explicit Dft(const Description& node)
      : axis_is_input_(node.version() >= 20),
        axis_(node.integer("axis", node.version() >= 20 ? -2 : 1)),
        inverse_(node.integer("inverse", 0) != 0),
        one_sided_(node.integer("onesided", 0) != 0) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank >= 2 && (x.shape[x.rank - 1] == 1 || x.shape[x.rank - 1] == 2),
                 "the last axis has not one or two numbers");
    const int64_t given = axis_is_input_ && call.has(2) ? static_cast<int64_t>(call.scalar(2)) : axis_;
    const int axis = axis_of(call, given, x.rank);
    call.require(axis != x.rank - 1, "the axis of real and imaginary parts is not transformed");
    const bool to_real = inverse_ && one_sided_;
    const int64_t own = to_real ? 2 * (x.shape[axis] - 1) : x.shape[axis];
    const int64_t length = call.has(1) ? static_cast<int64_t>(call.scalar(1)) : own;
    call.require(length > 0, "dft_length is not positive");
    if (to_real) return run_to_real(call, x, axis, length);
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
  // Real numbers from the first half of their frequencies.
  static void run_to_real(Call& call, const View& x, int axis, int64_t length) {
    call.require(x.shape[x.rank - 1] == 2, "frequencies are pairs of numbers");
    Shape shape = shape_of(x), half = shape;
    shape.back() = 1;
    shape[static_cast<size_t>(axis)] = length;
    half[static_cast<size_t>(axis)] = length / 2 + 1;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const View pairs = call.scratch(half, x.dtype);
    const int64_t kept = std::min(length / 2 + 1, x.shape[axis]);
    if (kept < length / 2 + 1) call.fill(pairs, 0);
    const View from = x.sliced(axis, 0, kept), to = pairs.sliced(axis, 0, kept);
    call.launch(UHAL_OP_COPY, {&from}, {&to});
    uhal_fft_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.direction = UHAL_FFT_INVERSE;
    attributes.normalization = UHAL_FFT_BY_LENGTH;
    attributes.axis_count = 1;
    attributes.axes[0] = axis;
    const View frequencies = as_complex(pairs);
    const View signal(y.data, y.dtype, y.shape, y.rank - 1);
    call.launch(UHAL_OP_FFT, {&frequencies}, {&signal}, &attributes);
  }

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

// a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n), where n is the size, or 1 less.
struct Cosines {
  double a[3];
};
constexpr Cosines kHann = {{0.5, 0.5, 0}};
constexpr Cosines kHamming = {{25.0 / 46, 1 - 25.0 / 46, 0}};
constexpr Cosines kBlackman = {{0.42, 0.5, 0.08}};

class CosineWindow final : public Kernel {
 public:
  CosineWindow(const Description& node, const void* data)
      : cosines_(*static_cast<const Cosines*>(data)), periodic_(node.integer("periodic", 1) != 0) {
    node.require(contains(kFloats, node.output_dtype(0)), "a window of integers");
  }
  void run(Call& call) const override {
    const int64_t size = static_cast<int64_t>(call.scalar(0));
    call.require(size >= 0, "the size is negative");
    const View y = call.output(0, {size});
    if (size == 0) return;
    std::vector<double> values(static_cast<size_t>(size));
    const double turn = 2 * std::acos(-1.0) / static_cast<double>(periodic_ || size == 1 ? size : size - 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const double angle = turn * static_cast<double>(i);
      values[i] = cosines_.a[0] - cosines_.a[1] * std::cos(angle) + cosines_.a[2] * std::cos(2 * angle);
    }
    call.move(call.upload(values.data(), {size}, UHAL_FLOAT64), y);
  }

 private:
  const Cosines& cosines_;
  const bool periodic_;
};

// num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz (all on the host) -> (bins of the
// transform, mel bins): triangles whose corners are as far apart in mel.
class MelWeightMatrix final : public Kernel {
 public:
  explicit MelWeightMatrix(const Description& node) {
    node.require(contains(kFloats, node.output_dtype(0)), "weights of integers");
  }
  void run(Call& call) const override {
    const int64_t bins = static_cast<int64_t>(call.scalar(0)), length = static_cast<int64_t>(call.scalar(1));
    const double rate = call.scalar(2), lowest = mel(call.scalar(3)), highest = mel(call.scalar(4));
    call.require(bins >= 0 && length > 0 && rate > 0, "a number of bins or a length or rate of signals that cannot be");
    const int64_t rows = length / 2 + 1;
    const View y = call.output(0, {rows, bins});
    if (y.elements() == 0) return;
    Shape corners(static_cast<size_t>(bins) + 2);
    const double step = (highest - lowest) / static_cast<double>(bins + 2);
    for (size_t i = 0; i < corners.size(); ++i) {
      const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + lowest) / 2595) - 1);
      corners[i] = static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate));
    }
    std::vector<double> values(static_cast<size_t>(rows * bins), 0);
    for (int64_t bin = 0; bin < bins; ++bin) {
      const int64_t low = corners[bin], centre = corners[bin + 1], high = corners[bin + 2];
      const auto at = [&](int64_t row) -> double& { return values[static_cast<size_t>(row * bins + bin)]; };
      call.require(low >= 0 && high <= rows, "the edges lie outside of what the transform has");
      if (low == centre && centre < rows) at(centre) = 1;
      for (int64_t row = low; row <= centre && low < centre && row < rows; ++row) {
        at(row) = static_cast<double>(row - low) / static_cast<double>(centre - low);
      }
      for (int64_t row = centre; row < high; ++row) {
        at(row) = static_cast<double>(high - row) / static_cast<double>(high - centre);
      }
    }
    call.move(call.upload(values.data(), {rows, bins}, UHAL_FLOAT64), y);
  }

 private:
  static double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
};

constexpr DtypeSet kSignals = kWideFloats;

#define WINDOW(op, form)                          \
  {.name = op,                                    \
   .first = 17,                                   \
   .last = kNewestOpset,                          \
   .dtypes = only(UHAL_INT32) | only(UHAL_INT64), \
   .make = make<CosineWindow>,                    \
   .host_inputs = host({0}),                      \
   .data = &form}

const Op kSignalOps[] = {
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
    WINDOW("HannWindow", kHann),
    WINDOW("HammingWindow", kHamming),
    WINDOW("BlackmanWindow", kBlackman),
    {.name = "MelWeightMatrix",
     .first = 17,
     .last = kNewestOpset,
     .dtypes = only(UHAL_INT32) | only(UHAL_INT64),
     .make = make<MelWeightMatrix>,
     .host_inputs = host({0, 1, 2, 3, 4})},
};

#undef WINDOW

}  // namespace

Table signal_ops() { return table(kSignalOps); }

}  // namespace unihal::onnxruntime
