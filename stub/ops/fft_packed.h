// Fourier transforms of complex lines, whose numbers lie one after the other, in vectors of 64 bytes: one line at a
// time, or a few, in registers and the first-level cache.
//
// A line of n numbers is a matrix with a column for each number of a vector, or of two. Its columns are transformed as
// many lines are; its rows as columns of squares that are transposed in registers. Where a vector has more numbers than
// such a matrix columns, two or four lines lie side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stub/ops/fft_numbers.h"

namespace unihal::stub {

// Groups of lines that are transformed together: the lines of the first one, and how many elements the same ones of the
// next group lie behind them. What is behind the last one is asked for, not read.
template <typename T>
struct FftGroups {
  static constexpr int kMostTogether = 4;

  const T* from[kMostTogether];
  T* to[kMostTogether];
  int64_t from_step, to_step, count;

  void advance(int64_t groups, int together) {
    for (int line = 0; line < together; ++line) {
      from[line] += from_step * groups;
      to[line] += to_step * groups;
    }
    count -= groups;
  }
};

template <typename T>
class FftPackedPlan {
 public:
  // Whether there are such transforms of a length, and they are worth it on this processor.
  static bool takes(int64_t n) { return columns_of(n) > 0; }

  explicit FftPackedPlan(int64_t n);

  // So many lines are transformed together.
  int together() const { return together_; }
  // The elements of the buffer that run() needs, aligned to 64 bytes.
  int64_t buffer_elements() const;
  // The forward transforms, or the unscaled inverse ones, times a factor. Lines may be transformed in place, and those
  // of a group be the same.
  void run(FftGroups<T> groups, bool inverse, T factor, T* buffer) const;

 private:
  using RunColumns = void (*)(int64_t parts, int64_t stride, const fft_numbers::Root<T>* roots,
                              const fft_numbers::VectorRoots<T>* row_roots, const T* const* from, const T* x, T* y);
  using RunRows = void (*)(int64_t rows, const T* x, T factor, const FftGroups<T>& groups);
  using RunInRegisters = void (*)(const fft_numbers::VectorRoots<T>* row_roots, T factor, const FftGroups<T>& groups);

  struct Pass {
    int64_t parts;   // the length of the transforms that remain
    int64_t stride;  // the vectors of those that are done
    size_t roots;    // of part p at roots + (radix - 1) * p
    RunColumns run, run_inverse;
  };

  // Of a line's matrix; 0 where there are no such transforms.
  static int columns_of(int64_t n);

  int columns_, together_;
  int64_t rows_;
  // Either passes over the columns and one over the rows, or all at once. What is not scaled, scaled, and inverse.
  std::vector<Pass> passes_;
  RunRows run_rows_[3] = {};
  RunInRegisters run_in_registers_[3] = {};
  std::vector<fft_numbers::Root<T>> roots_;
  // What each row's vectors are multiplied by when its columns are transformed and itself is not.
  std::vector<fft_numbers::VectorRoots<T>> row_roots_;
};

}  // namespace unihal::stub
