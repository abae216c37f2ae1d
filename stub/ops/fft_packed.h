// Fourier transforms of complex lines, whose numbers lie one after the other, in vectors of 64 bytes: one line at a
// time, in the first-level cache.
//
// A line of n numbers is a matrix with a column for each lane of a vector. Its columns are transformed as many lines
// are (fft_lines.h), without a shuffle; its rows as columns of squares of numbers that are transposed in registers.
// Lines with fewer rows than a square are stacked in squares (fft_stacked.h); where n is no multiple of the lanes, two
// or four lines with half or a quarter of the columns lie side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unihal::stub {

// A complex number of each lane of a vector: the real parts, then the imaginary ones.
template <typename T>
struct alignas(64) FftPackedRow {
  T numbers[128 / sizeof(T)];
};

// Where the lines that follow probably are, so many elements from one to the next: they are asked for meanwhile.
template <typename T>
struct FftNextLines {
  const T* from;
  int64_t from_step;
  const T* to;
  int64_t to_step;
};

// What a vector of rows of stacked lines, all of one column, is to a line: numbers that lie beside one another in it,
// too.
struct FftStackedRun {
  int line;
  int offset;  // in the line, in elements, of the vector's first element, which may be another line's
  int vector;  // of the column's two in a square
  uint16_t mask;
};

// All of them, in the order of the lines; a square's end before number ends[square].
struct FftStackedRuns {
  std::vector<FftStackedRun> runs;
  std::vector<int> ends;
};

template <typename T>
class FftPackedPlan {
 public:
  // Whether there are such transforms of a length, and they are worth it on this processor.
  static bool takes(int64_t n) { return columns_of(n) > 0; }

  explicit FftPackedPlan(int64_t n);

  // So many lines, side by side or one after the other in a square, are transformed together.
  static constexpr int kMostTogether = 64 / static_cast<int>(sizeof(T));
  int together() const { return together_; }
  // Whether together they are one square.
  bool is_square() const { return is_square_; }
  // The elements of the buffer that run() needs, aligned to 64 bytes.
  int64_t buffer_elements() const;
  // The forward transforms, or the unscaled inverse ones, times a factor, of together() lines. Lines may be transformed
  // in place, and the last ones be the same.
  void run(const T* const* from, T* const* to, bool inverse, T factor, const FftNextLines<T>& next, T* buffer) const;
  // What the columns' transforms are multiplied by.
  const T* lane_roots() const { return lane_roots_.front().numbers; }

 private:
  struct Pass {
    int radix;
    int64_t parts;    // the length of the transforms that remain
    size_t twiddles;  // of part p > 0 at twiddles + 2 * (radix - 1) * p
  };

  // Of a line's matrix; 0 where there are no such transforms.
  static int columns_of(int64_t n);
  // Whether lines of a length have fewer rows than a square, of as many columns as there are lanes.
  static bool is_stacked(int64_t n);

  int64_t n_, rows_;
  bool is_square_;
  int together_;
  std::vector<Pass> passes_;
  std::vector<T> twiddles_;
  std::vector<FftPackedRow<T>> lane_roots_;
  FftStackedRuns stacked_;
};

}  // namespace unihal::stub
