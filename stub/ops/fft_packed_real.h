// Fourier transforms of real lines as half as many complex numbers: neighbouring elements are real and imaginary parts.
#pragma once

#include <cstdint>
#include <vector>

#include "stub/ops/fft_packed.h"

namespace unihal::stub {

template <typename T>
class FftPackedRealPlan {
 public:
  // Whether half a line's length is one that complex lines may have.
  static bool takes(int64_t length) { return length % 2 == 0 && FftPackedPlan<T>::takes(length / 2); }

  explicit FftPackedRealPlan(int64_t length);

  int together() const { return halves_.together(); }
  int64_t buffer_elements() const;
  // From real lines to their half spectra of length / 2 + 1 numbers, whose conjugates the inverse transforms are.
  void run_from_real(FftGroups<T> groups, bool inverse, T factor, T* buffer) const;
  // Back. Imaginary parts that a real line's spectrum cannot have are not read.
  void run_to_real(FftGroups<T> groups, bool inverse, T factor, T* buffer) const;

 private:
  // So many of the first groups, with the buffer's lines as their source or their target.
  FftGroups<T> in_buffer(const FftGroups<T>& groups, int64_t count, bool is_source, T* buffer) const;

  int64_t m_;
  // Of the buffer: a line, and how many groups there are at once.
  int64_t line_elements_, groups_;
  FftPackedPlan<T> halves_;
  // -i exp(-2 pi i k / length) of k < m / 2, and what a vector has beyond.
  std::vector<fft_numbers::VectorRoots<T>> roots_;
};

}  // namespace unihal::stub
