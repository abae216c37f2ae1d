// Fourier transforms of complex lines in host memory: the sums of the definition by mixed radices (Stockham's autosort
// form of Cooley and Tukey's algorithm), lengths with large prime factors by Bluestein's convolution.
//
// The lanes of vector registers hold elements of neighbouring lines, so that all arithmetic is vector arithmetic
// whatever the radix. A long line is a matrix of n1 x n2 elements: its columns are the lines of a first step, its rows
// those of a second (Bailey's four-step algorithm).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace unihal::stub {

// Vectors as the compiler has them: on narrower machines they are several registers.
template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(32), may_alias));
  typedef float loose __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(32), may_alias));
  typedef double loose __attribute__((vector_size(32), aligned(8), may_alias));
};
template <typename T>
using Vector = typename VectorOf<T>::type;
// One anywhere in memory: memcpy() would have it there before it is in a register.
template <typename T>
using Loose = typename VectorOf<T>::loose;
template <typename T>
inline constexpr int64_t kWidth = 32 / static_cast<int64_t>(sizeof(T));

// Lines that are transformed together, a vector of lanes: as many again would put long lines out of the second-level
// cache (2048 complex numbers of float32, for which two buffers of 128 KiB do, took a third longer).
template <typename T>
inline constexpr int64_t kFftLanes = 32 / static_cast<int64_t>(sizeof(T));

// The elements of a plane of so many rows. Planes that follow one another begin in different eighths of a cache's
// places (64, a line each), however long lines are: the rows that a pass reads lie in few of them where lengths are
// powers of two.
template <typename T>
int64_t fft_plane(int64_t rows) {
  return ((rows + 63) / 64 * 64 + 16) * kFftLanes<T>;
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

// Rows of kFftLanes elements, row k with element k of each line, in two planes.
template <typename T>
struct FftRows {
  T* re;
  T* im;

  FftRows exchanged() const { return {im, re}; }
};

// Copies `rows` elements of each of `lanes` lines, which begin at the offsets, into rows or out of them, with factors
// for both parts. Lanes without a line are filled with zeros.
template <typename T>
void load_fft_rows(int64_t rows, int64_t lanes, const FftSignal<T>& from, const int64_t* offsets, FftRows<T> to);
template <typename T>
void store_fft_rows(int64_t rows, int64_t lanes, FftRows<T> from, const FftSignal<T>& to, const int64_t* offsets,
                    T re_factor, T im_factor);

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
  FftRows<T> run(FftRows<T> rows, FftRows<T> other) const;

 private:
  struct Pass {
    int radix;
    int64_t parts;        // the length of the transforms that remain
    size_t twiddles;      // of part p > 0 at twiddles + 2 * (radix - 1) * p
    size_t coefficients;  // cosines and sines of a radix without a butterfly of its own
  };

  FftRows<T> convolve(FftRows<T> rows, FftRows<T> other) const;

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
