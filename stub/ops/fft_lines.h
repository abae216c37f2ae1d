// Fourier transforms of complex lines in host memory: the sums of the definition by mixed radices (Stockham's autosort
// form of Cooley and Tukey's algorithm), lengths with large prime factors by Bluestein's convolution.
//
// The lanes of vector registers hold elements of neighbouring lines, so that all arithmetic is vector arithmetic
// whatever the radix. A long line is a matrix of n1 x n2 elements: its columns are the lines of a first step, its rows
// those of a second (Bailey's four-step algorithm).
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "stub/ops/fft_butterflies.h"

namespace unihal::stub {

template <typename T>
using Vector = typename VectorOf<T, 32>::type;
template <typename T>
using Loose = typename VectorOf<T, 32>::loose;
template <typename T>
inline constexpr int64_t kWidth = 32 / static_cast<int64_t>(sizeof(T));

// Lines that are transformed together, a vector of lanes: as many again would put long lines out of the second-level
// cache (2048 complex numbers of float32, for which two buffers of 128 KiB do, took a third longer).
template <typename T>
inline constexpr int64_t kFftLanes = 32 / static_cast<int64_t>(sizeof(T));

// The elements of a row: the real parts of a number of each line, then the imaginary ones.
template <typename T>
inline constexpr int64_t kFftRow = 2 * kFftLanes<T>;

// Rows of a line's neighbouring numbers that one line of the cache has.
template <typename T>
inline constexpr int64_t kTileRows = 64 / (2 * static_cast<int64_t>(sizeof(T)));

// The elements of a buffer of so many rows. Buffers that follow one another begin in different quarters of a cache's
// places (64, a line each), however long lines are: the rows that a pass reads lie in few of them where lengths are
// powers of two.
template <typename T>
int64_t fft_buffer(int64_t rows) {
  return ((rows + 63) / 64 * 64 + 16) * kFftRow<T>;
}

// Where the elements of a line lie: element k at re[k * stride] and im[k * stride]. A part without memory is read as
// zero and not written. With both parts exchanged a forward transform is the inverse one, of source and target alike.
template <typename T>
struct FftSignal {
  T* re;
  T* im;
  int64_t stride;

  FftSignal exchanged() const { return {im, re, stride}; }
  FftSignal from(int64_t element) const { return moved(element * stride); }
  FftSignal moved(int64_t offset) const {
    return {re != nullptr ? re + offset : nullptr, im != nullptr ? im + offset : nullptr, stride};
  }
};

// Complex numbers one after the other.
template <typename T>
FftSignal<T> fft_packed(T* data) {
  return {data, data + 1, 2};
}

// Up to kFftLanes lines of one length, which begin at offsets from the elements of a signal.
template <typename T>
class FftLines {
 public:
  FftLines(const FftSignal<T>& signal, int64_t length, int64_t lanes, const int64_t* offsets);

  // Copies so many elements of each line, from `begin` on, into the first rows of `to`. Lanes without a line have the
  // last one's elements.
  void load(int64_t begin, int64_t rows, T* to) const;
  // The other way, times factors for both parts. Lanes without a line have to be what the last one's is, as they are
  // after load() and the same arithmetic in each lane.
  void store(int64_t begin, int64_t rows, const T* from, T re_factor, T im_factor) const;

 private:
  // Where neighbouring numbers are: in neighbouring lines, in each line, or neither.
  enum class Layout { kColumns, kPacked, kApart };

  FftSignal<T> signal_;
  int64_t length_, lanes_;
  int64_t offsets_[kFftLanes<T>];
  Layout layout_ = Layout::kApart;
  int64_t ahead_ = 0;          // from a number of packed lines to what is asked for meanwhile
  T* numbers_ = nullptr;       // where the parts of each number are neighbours
  bool is_exchanged_ = false;  // the imaginary part is the first of them
};

// The powers of exp(-2 pi i / n), more precise than T.
template <typename T>
class RootsOfUnity {
 public:
  explicit RootsOfUnity(int64_t n);
  // Power k, 0 <= k < n.
  void get(int64_t k, T* re, T* im) const;

 private:
  using Precise = std::conditional_t<sizeof(T) == 4, double, long double>;
  struct Root {
    Precise re, im;
  };
  int shift_ = 0;
  std::vector<Root> low_, high_;
};

// Bluestein's chirp, exp(-pi i k^2 / n) for k below n, and what a line is convolved with: its conjugate in both
// directions, over the convolution's length.
template <typename T>
std::vector<T> fft_chirp(int64_t n);
template <typename T>
std::vector<T> fft_conjugate_chirp(int64_t n, int64_t length, const std::vector<T>& chirp);

// How lines of one length are transformed, kFftLanes at a time.
template <typename T>
class FftLinePlan {
 public:
  explicit FftLinePlan(int64_t n);

  int64_t length() const { return n_; }
  // Rows that each of the two buffers of run() needs.
  int64_t rows() const { return convolved_ != nullptr ? convolved_->n_ : n_; }
  // Whether the length is a product of small primes.
  static bool is_smooth(int64_t n);

  // The forward transform, unscaled, of the lines in `rows`; the result is in the buffer that is given back.
  T* run(T* rows, T* other) const;
  // The same from lines, to lines with factors for both parts, and both: the first pass takes what it reads from the
  // lines, the last one gives them what it writes, so that rows go through the buffers twice less. Lines that are read
  // and written may be the same.
  T* load_and_run(const FftLines<T>& from, T* rows, T* other) const;
  void run_and_store(T* rows, T* other, const FftLines<T>& to, T re_factor, T im_factor) const;
  void run(const FftLines<T>& from, const FftLines<T>& to, T re_factor, T im_factor, T* rows, T* other) const;

 private:
  struct Pass {
    int radix;
    int64_t parts;        // the length of the transforms that remain
    size_t twiddles;      // of part p > 0 at twiddles + 2 * (radix - 1) * p
    size_t coefficients;  // cosines and sines of a radix without a butterfly of its own
  };

  // Whether the first and the last pass can do so.
  bool begins_with_lines() const;
  bool ends_with_lines() const;
  void run_whole_pass(const Pass& pass, const T* x, T* y) const;
  void run_first_pass(const FftLines<T>& from, T* y) const;
  void run_last_pass(const T* x, const FftLines<T>& to, T re_factor, T im_factor) const;
  T* run_passes(size_t begin, size_t end, T* rows, T* other) const;
  T* convolve(T* rows, T* other) const;

  int64_t n_;
  std::vector<Pass> passes_;
  std::vector<T> numbers_;
  // Bluestein: the plan of the convolution's length, the chirp, and the transform of its conjugate.
  std::unique_ptr<FftLinePlan> convolved_;
  std::vector<T> chirp_, filter_;
};

// How one long line is transformed.
template <typename T>
class FftLongPlan {
 public:
  explicit FftLongPlan(int64_t n);

  int64_t length() const { return n_; }

  // target = transform(source) with factors for both parts; source and target may be the same memory. On several
  // threads unless it runs on one of several already. False if the host has no memory left.
  bool run(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor, T im_factor) const;

 private:
  bool run_matrix(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor, T im_factor) const;
  bool run_convolution(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor, T im_factor) const;
  bool run_columns(const FftSignal<T>& source, T* matrix) const;
  bool run_rows(T* matrix, const FftSignal<T>& target, T re_factor, T im_factor) const;

  int64_t n_;
  std::unique_ptr<FftLinePlan<T>> columns_, rows_;
  std::unique_ptr<RootsOfUnity<T>> roots_;
  std::vector<T> lane_roots_;
  std::unique_ptr<FftLongPlan> convolved_;
  std::vector<T> chirp_, filter_;
};

}  // namespace unihal::stub
