// Fourier transforms of real lines as half as many complex numbers: neighbouring elements are real and imaginary parts.
// Lines that are one square become spectra, and spectra lines, in the square's lanes; longer ones in passes of their
// own.
#pragma once

#include <cstdint>
#include <vector>

#include "stub/ops/fft_packed.h"

namespace unihal::stub {

template <typename T>
class FftPackedRealPlan {
 public:
  // Whether half a line's length is one that complex lines may have; and of those, whether half spectra are transformed
  // back in less time than in lanes of many lines, which was measured.
  static bool takes_lines(int64_t length) { return length % 2 == 0 && FftPackedPlan<T>::takes(length / 2); }
  static bool takes_spectra(int64_t length);

  explicit FftPackedRealPlan(int64_t length);

  int together() const { return halves_.together(); }
  int64_t buffer_elements() const;
  // From real lines to their half spectra of length / 2 + 1 numbers, whose conjugates the inverse transforms are.
  void run_from_real(const T* const* from, T* const* to, bool inverse, T factor, const FftNextLines<T>& next,
                     T* buffer) const;
  // Back. Imaginary parts that a real line's spectrum cannot have are not read.
  void run_to_real(const T* const* from, T* const* to, bool inverse, T factor, const FftNextLines<T>& next,
                   T* buffer) const;

 private:
  // Of as many numbers k as a vector holds, twice each: the imaginary part of exp(-2 pi i k / length), and the real one
  // with alternating signs.
  struct alignas(64) Roots {
    T im[64 / sizeof(T)], re[64 / sizeof(T)];
  };

  int64_t m_;
  FftPackedPlan<T> halves_;
  std::vector<Roots> roots_;  // from k = 1 on; the last ones end with k = m / 2
  // Where lines are one square together, instead: of the numbers that are written of a spectrum, and read.
  std::vector<FftPackedRow<T>> spectrum_roots_, row_roots_;
};

}  // namespace unihal::stub
