// Discrete Fourier transforms along the last axes, or along axes that an operand names.
#include <algorithm>
#include <numeric>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

enum class Signal { kComplex, kToComplex, kToReal };

// Transforms `input` to `output`, of which the last of `axes` has half a spectrum on the complex side where the other
// is real. An inverse is divided by the number of elements.
void transform(Context& context, View input, const View& output, std::vector<int> axes, bool inverse) {
  if (axes.empty()) {
    context.cast(input, output);
    return;
  }
  const auto launch = [&](const View& from, const View& to, size_t first, size_t count) {
    uhal_fft_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.direction = inverse ? UHAL_FFT_INVERSE : UHAL_FFT_FORWARD;
    attributes.normalization = inverse ? UHAL_FFT_BY_LENGTH : UHAL_FFT_UNSCALED;
    attributes.axis_count = static_cast<int32_t>(count);
    std::copy_n(axes.begin() + static_cast<std::ptrdiff_t>(first), count, attributes.axes);
    return context.launch(UHAL_OP_FFT, {&from}, {&to}, &attributes);
  };
  // Three axes at once: where a real signal is one side, its last ones are the first of a forward transform and the
  // last of an inverse one.
  const size_t last = std::min<size_t>(axes.size(), UHAL_FFT_MAX_AXES);
  const bool to_complex = !contains(kComplex, input.dtype);
  size_t rest = axes.size() - last;
  if (to_complex) {
    const View whole = rest > 0 ? context.temporary_like(output) : output;
    if (!context.ok() || !launch(input, whole, rest, last)) return;
    input = whole;
  }
  for (size_t done = 0; rest > 0;) {
    const size_t count = std::min<size_t>(rest, UHAL_FFT_MAX_AXES);
    rest -= count;
    const bool finish = to_complex && rest == 0;
    const View to = finish ? output : context.temporary_like(input);
    if (!context.ok() || !launch(input, to, done, count)) return;
    done += count;
    input = to;
  }
  if (!to_complex) launch(input, output, axes.size() - last, last);
}

// The input with the lengths along `axes`: cut, or with zeros behind.
View with_lengths(Context& context, const View& input, const std::vector<int>& axes, const Shape& lengths) {
  View part = input;
  Shape wanted = shape_of(input);
  for (size_t i = 0; i < axes.size(); ++i) {
    wanted[static_cast<size_t>(axes[i])] = lengths[i];
    part = part.sliced(axes[i], 0, std::min(lengths[i], input.shape[axes[i]]));
  }
  if (shape_of(part) == wanted) return part;
  const View padded = context.temporary(input.dtype, wanted);
  if (!context.ok() || !context.zero(padded)) return padded;
  View target = padded;
  for (int axis : axes) target = target.sliced(axis, 0, part.shape[axis]);
  if (part.elements() > 0) context.copy(part, target);
  return padded;
}

// FFT, FFT2D, FFT3D and their inverses; RFFT..., IRFFT...(input, lengths). Along the last `kAxes` axes.
template <int kAxes, Signal kSignal, bool kInverse>
class Fft : public Kernel {
 public:
  explicit Fft(Construction& construction)
      : Kernel(construction),
        dtype_(kSignal == Signal::kToReal     ? construction.dtype("Treal")
               : construction.has("Tcomplex") ? construction.dtype("Tcomplex")
                                              : UHAL_COMPLEX64) {}

  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    if (input.rank < kAxes) {
      return context.fail_invalid("Input must have rank of at least " + std::to_string(kAxes) +
                                  " but got: " + to_text(input));
    }
    std::vector<int> axes(kAxes);
    std::iota(axes.begin(), axes.end(), input.rank - kAxes);
    Shape lengths(input.shape + input.rank - kAxes, input.shape + input.rank);
    Shape shape = shape_of(input);
    if (kSignal != Signal::kComplex) {
      const Shape given = context.dims(1);
      lengths = context.host_integers(1);
      if (!context.ok()) return;
      if (given != Shape{kAxes}) {
        return context.fail_invalid("fft_length must have shape [" + std::to_string(kAxes) + "]");
      }
      for (size_t i = 0; i < kAxes; ++i) {
        if (lengths[i] < 0) {
          return context.fail_invalid("fft_length[" + std::to_string(i) +
                                      "] must >= 0, but got: " + std::to_string(lengths[i]));
        }
        const bool half = i == kAxes - 1 && lengths[i] > 0;
        const size_t axis = static_cast<size_t>(axes[i]);
        shape[axis] = half && kSignal == Signal::kToComplex ? lengths[i] / 2 + 1 : lengths[i];
        if (kSignal == Signal::kToReal && i == kAxes - 1) lengths[i] = lengths[i] / 2 + 1;
        if (input.shape[axis] != 0 && input.shape[axis] < lengths[i]) {
          return context.fail_invalid("Input dimension " + std::to_string(axis) + " must have length of at least " +
                                      std::to_string(lengths[i]) + " but got: " + std::to_string(input.shape[axis]));
        }
      }
    }
    const View output = context.output(0, dtype_, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View part = with_lengths(context, input, axes, lengths);
    if (context.ok()) transform(context, part, output, axes, kInverse);
  }

 private:
  uhal_dtype dtype_;
};

// FFTND and its like (input, lengths, axes). An input that is shorter than its length is filled with zeros.
template <Signal kSignal, bool kInverse>
class FftNd : public Kernel {
 public:
  explicit FftNd(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype(kSignal == Signal::kToReal ? "Treal" : "Tcomplex")) {}

  void compute(Context& context) const override {
    const View input = context.input(0);
    Shape lengths = context.host_vector(1);
    const Shape given = context.host_vector(2);
    if (!context.ok()) return;
    if (given.empty() || given.size() != lengths.size()) {
      return context.fail_invalid(std::string(op()) +
                                  ": fft_length and axes must be of one length of at least 1, got " + to_text(lengths) +
                                  " and " + to_text(given));
    }
    std::vector<int> axes;
    Shape shape = shape_of(input);
    for (size_t i = 0; i < given.size(); ++i) {
      axes.push_back(checked_axis(context, given[i], input.rank));
      if (!context.ok()) return;
      if (std::count(axes.begin(), axes.end(), axes.back()) > 1) {
        return context.fail_invalid(std::string(op()) + ": axis " + std::to_string(given[i]) + " is given twice");
      }
      if (lengths[i] < 0) {
        return context.fail_invalid(std::string(op()) + ": fft_length must not be negative, got " + to_text(lengths));
      }
      const bool half = i + 1 == given.size() && lengths[i] > 0;
      shape[static_cast<size_t>(axes[i])] = half && kSignal == Signal::kToComplex ? lengths[i] / 2 + 1 : lengths[i];
      if (half && kSignal == Signal::kToReal) lengths[i] = lengths[i] / 2 + 1;
    }
    const View output = context.output(0, dtype_, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (input.elements() == 0) {
      context.zero(output);
      return;
    }
    const View part = with_lengths(context, input, axes, lengths);
    if (context.ok()) transform(context, part, output, axes, kInverse);
  }

 private:
  uhal_dtype dtype_;
};

template <int kAxes>
void register_along_last(Registrar& registrar, const std::string& suffix) {
  constexpr const char* kLength = "fft_length";
  // The registrar keeps no names.
  const auto name = [&](const char* prefix) { return prefix + suffix; };
  registrar.add<Fft<kAxes, Signal::kComplex, false>>(name("FFT").c_str(), {{"Tcomplex", kComplex}});
  registrar.add<Fft<kAxes, Signal::kComplex, true>>(name("IFFT").c_str(), {{"Tcomplex", kComplex}});
  for (const auto& [real, complex] :
       {std::pair(UHAL_FLOAT32, UHAL_COMPLEX64), std::pair(UHAL_FLOAT64, UHAL_COMPLEX128)}) {
    const std::initializer_list<TypeConstraint> types = {{"Treal", only(real)}, {"Tcomplex", only(complex)}};
    registrar.add<Fft<kAxes, Signal::kToComplex, false>>(name("RFFT").c_str(), types, {kLength});
    registrar.add<Fft<kAxes, Signal::kToReal, true>>(name("IRFFT").c_str(), types, {kLength});
  }
}

}  // namespace

void register_fft(Registrar& registrar) {
  register_along_last<1>(registrar, "");
  register_along_last<2>(registrar, "2D");
  register_along_last<3>(registrar, "3D");
  const std::initializer_list<const char*> host = {"fft_length", "axes"};
  registrar.add<FftNd<Signal::kComplex, false>>("FFTND", {{"Tcomplex", kComplex}}, host);
  registrar.add<FftNd<Signal::kComplex, true>>("IFFTND", {{"Tcomplex", kComplex}}, host);
  for (const auto& [real, complex] :
       {std::pair(UHAL_FLOAT32, UHAL_COMPLEX64), std::pair(UHAL_FLOAT64, UHAL_COMPLEX128)}) {
    const std::initializer_list<TypeConstraint> types = {{"Treal", only(real)}, {"Tcomplex", only(complex)}};
    registrar.add<FftNd<Signal::kToComplex, false>>("RFFTND", types, host);
    registrar.add<FftNd<Signal::kToReal, true>>("IRFFTND", types, host);
  }
  // The names of old graphs.
  registrar.add<Fft<1, Signal::kComplex, false>>("BatchFFT", {});
  registrar.add<Fft<2, Signal::kComplex, false>>("BatchFFT2D", {});
  registrar.add<Fft<3, Signal::kComplex, false>>("BatchFFT3D", {});
  registrar.add<Fft<1, Signal::kComplex, true>>("BatchIFFT", {});
  registrar.add<Fft<2, Signal::kComplex, true>>("BatchIFFT2D", {});
  registrar.add<Fft<3, Signal::kComplex, true>>("BatchIFFT3D", {});
}

}  // namespace unihal::tensorflow
