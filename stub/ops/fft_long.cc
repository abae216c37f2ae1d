// One long line, as a matrix whose columns and rows are lines, or as a convolution.

#include <algorithm>
#include <atomic>
#include <cmath>

#include "csrc/backends/common/fft_problem.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/fft_butterflies.h"
#include "stub/ops/fft_lines.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Multiplies lane l of row k by start[k] * lanes[k][l]: twiddles of a matrix' columns.
template <typename T>
UNIHAL_VECTORIZED void multiply_columns(int64_t rows, const T* starts, const T* lanes, T* x) {
  for (int64_t row = 0; row < rows; ++row) {
    Number<T, 32> factor, number;
    load(lanes + row * kFftRow<T>, factor);
    load(x + row * kFftRow<T>, number);
    multiply(factor, starts[2 * row], starts[2 * row + 1]);
    const Number<T, 32> product = {number.re * factor.re - number.im * factor.im,
                                   number.re * factor.im + number.im * factor.re};
    store(x + row * kFftRow<T>, product);
  }
}

template <typename T>
UNIHAL_VECTORIZED void multiply_packed(int64_t count, const T* factors, T* x) {
  for (int64_t i = 0; i < count; ++i) {
    const T re = x[2 * i] * factors[2 * i] - x[2 * i + 1] * factors[2 * i + 1];
    x[2 * i + 1] = x[2 * i] * factors[2 * i + 1] + x[2 * i + 1] * factors[2 * i];
    x[2 * i] = re;
  }
}

// The divisor of a length that is nearest to its root from below.
int64_t middle_divisor(int64_t n) {
  int64_t divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (divisor * divisor > n) --divisor;
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

template <typename T>
FftLongPlan<T>::FftLongPlan(int64_t n) : n_(n) {
  if (!FftLinePlan<T>::is_smooth(n)) {
    convolved_ = std::make_unique<FftLongPlan>(smooth_length(2 * n - 1));
    chirp_ = fft_chirp<T>(n);
    filter_ = fft_conjugate_chirp(n, convolved_->n_, chirp_);
    convolved_->run(fft_packed(filter_.data()), fft_packed(filter_.data()), 1, 1);
    return;
  }
  columns_ = std::make_unique<FftLinePlan<T>>(middle_divisor(n));
  rows_ = std::make_unique<FftLinePlan<T>>(n / columns_->length());
  roots_ = std::make_unique<RootsOfUnity<T>>(n);
  lane_roots_.resize(static_cast<size_t>(columns_->length() * kFftRow<T>));
  for (int64_t row = 0; row < columns_->length(); ++row) {
    T* re = lane_roots_.data() + row * kFftRow<T>;
    for (int64_t lane = 0; lane < kFftLanes<T>; ++lane)
      roots_->get(row * lane % n, re + lane, re + kFftLanes<T> + lane);
  }
}

template <typename T>
bool FftLongPlan<T>::run(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor, T im_factor) const {
  return convolved_ != nullptr ? run_convolution(source, target, re_factor, im_factor)
                               : run_matrix(source, target, re_factor, im_factor);
}

template <typename T>
bool FftLongPlan<T>::run_matrix(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor,
                                T im_factor) const {
  ScratchFrame frame;
  T* matrix = frame.take<T>(static_cast<size_t>(2 * n_));
  return matrix != nullptr && run_columns(source, matrix) && run_rows(matrix, target, re_factor, im_factor);
}

// The transforms of the columns i2 of x[i1 * n2 + i2], times exp(-2 pi i k1 i2 / n).
template <typename T>
bool FftLongPlan<T>::run_columns(const FftSignal<T>& source, T* matrix) const {
  constexpr int64_t kLanes = kFftLanes<T>;
  const int64_t n1 = columns_->length(), n2 = rows_->length();
  const int64_t size = fft_buffer<T>(columns_->rows());
  std::atomic<bool> complete{true};
  parallel_for((n2 + kLanes - 1) / kLanes, 16 * n1 * kLanes, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* buffer = frame.take<T>(static_cast<size_t>(2 * size));
    T* starts = frame.take<T>(static_cast<size_t>(2 * n1));
    if (buffer == nullptr || starts == nullptr) {
      complete = false;
      return;
    }
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kLanes;
      const int64_t lanes = std::min(kLanes, n2 - first);
      int64_t from[kLanes], to[kLanes];
      for (int64_t lane = 0; lane < lanes; ++lane) {
        from[lane] = (first + lane) * source.stride;
        to[lane] = 2 * (first + lane);
      }
      const FftLines<T> columns({source.re, source.im, n2 * source.stride}, n1, lanes, from);
      T* const rows = columns_->load_and_run(columns, buffer, buffer + size);
      for (int64_t row = 0; row < n1; ++row) roots_->get(row * first, starts + 2 * row, starts + 2 * row + 1);
      multiply_columns(n1, starts, lane_roots_.data(), rows);
      FftLines<T>({matrix, matrix + 1, 2 * n2}, n1, lanes, to).store(0, n1, rows, T(1), T(1));
    }
  });
  return complete;
}

// The transforms of the rows k1 give y[k2 * n1 + k1].
template <typename T>
bool FftLongPlan<T>::run_rows(T* matrix, const FftSignal<T>& target, T re_factor, T im_factor) const {
  constexpr int64_t kLanes = kFftLanes<T>;
  const int64_t n1 = columns_->length(), n2 = rows_->length();
  const int64_t size = fft_buffer<T>(rows_->rows());
  std::atomic<bool> complete{true};
  parallel_for((n1 + kLanes - 1) / kLanes, 16 * n2 * kLanes, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* buffer = frame.take<T>(static_cast<size_t>(2 * size));
    if (buffer == nullptr) {
      complete = false;
      return;
    }
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kLanes;
      const int64_t lanes = std::min(kLanes, n1 - first);
      int64_t from[kLanes], to[kLanes];
      for (int64_t lane = 0; lane < lanes; ++lane) {
        from[lane] = 2 * (first + lane) * n2;
        to[lane] = (first + lane) * target.stride;
      }
      const FftLines<T> results({target.re, target.im, n1 * target.stride}, n2, lanes, to);
      rows_->run(FftLines<T>(fft_packed(matrix), n2, lanes, from), results, re_factor, im_factor, buffer,
                 buffer + size);
    }
  });
  return complete;
}

template <typename T>
bool FftLongPlan<T>::run_convolution(const FftSignal<T>& source, const FftSignal<T>& target, T re_factor,
                                     T im_factor) const {
  const int64_t length = convolved_->n_;
  ScratchFrame frame;
  T* line = frame.take<T>(static_cast<size_t>(2 * length));
  if (line == nullptr) return false;
  for (int64_t k = 0; k < n_; ++k) {
    line[2 * k] = source.re != nullptr ? source.re[k * source.stride] : T(0);
    line[2 * k + 1] = source.im != nullptr ? source.im[k * source.stride] : T(0);
  }
  std::fill(line + 2 * n_, line + 2 * length, T(0));
  multiply_packed(n_, chirp_.data(), line);
  const FftSignal<T> packed = fft_packed(line);
  if (!convolved_->run(packed, packed, 1, 1)) return false;
  multiply_packed(length, filter_.data(), line);
  if (!convolved_->run(packed.exchanged(), packed.exchanged(), 1, 1)) return false;
  multiply_packed(n_, chirp_.data(), line);
  for (int64_t k = 0; k < n_; ++k) {
    if (target.re != nullptr) target.re[k * target.stride] = line[2 * k] * re_factor;
    if (target.im != nullptr) target.im[k * target.stride] = line[2 * k + 1] * im_factor;
  }
  return true;
}

template class FftLongPlan<float>;
template class FftLongPlan<double>;

}  // namespace unihal::stub
