#include "stub/ops/fft_lines.h"

#include <algorithm>

#include "csrc/backends/common/fft_problem.h"
#include "stub/ops/fft_butterflies.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Above it Bluestein's convolution costs less than sums over all pairs.
constexpr int kLargestRadix = 61;

// Calls run(constant) with the radix as a constant, for one that has a butterfly.
template <class Run>
void with_radix(int radix, const Run& run) {
  switch (radix) {
    case 2:
      return run(std::integral_constant<int, 2>());
    case 3:
      return run(std::integral_constant<int, 3>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 5:
      return run(std::integral_constant<int, 5>());
    case 8:
      return run(std::integral_constant<int, 8>());
    default:
      return run(std::integral_constant<int, 16>());
  }
}

bool has_butterfly(int radix) { return radix <= 5 || radix == 8 || radix == 16; }

// The radices of a length, with the largest butterflies; none if a prime factor is too large for one. First and last
// are radices with a butterfly of their own, if there are any: these passes go to and from lines.
std::vector<int> radices_of(int64_t n) {
  std::vector<int> radices, others;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (int passes = (twos + 3) / 4; passes > 0; --passes) {
    radices.push_back(1 << (twos / passes));
    twos -= twos / passes;
  }
  for (int prime = 3; prime <= kLargestRadix; prime += 2) {
    for (; n % prime == 0; n /= prime) (has_butterfly(prime) ? radices : others).push_back(prime);
  }
  radices.insert(radices.begin() + (radices.empty() ? 0 : 1), others.begin(), others.end());
  if (n > 1) radices.clear();
  return radices;
}

// One pass of Stockham's form: transforms of length radix * parts become transforms of length `parts`, of `stride` rows
// side by side.
template <int Radix, typename T>
UNIHAL_VECTORIZED void run_pass(int64_t parts, int64_t stride, const T* twiddles, const T* x, T* y) {
  const int64_t step = kFftRow<T> * stride, distance = step * parts;
  for (int64_t part = 0; part < parts; ++part, twiddles += 2 * (Radix - 1), y += (Radix - 1) * step) {
    for (const T* const end = x + step; x < end; x += kFftRow<T>, y += kFftRow<T>) {
      transform_numbers<Radix, Number<T, 32>>([=](int j, auto& number)
                                                  UNIHAL_INLINE_LAMBDA { load(x + distance * j, number); },
                                              [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
                                                if (j > 0 && part > 0)
                                                  multiply(number, twiddles[2 * j - 2], twiddles[2 * j - 1]);
                                                store(y + step * j, number);
                                              });
    }
  }
}

// Rows on their way between lines and a pass, so many of each of its numbers.
template <typename T>
struct alignas(64) FftTile {
  T rows[16 * kTileRows<T> * kFftRow<T>];

  T* of(int number) { return rows + number * kTileRows<T> * kFftRow<T>; }
};

// Parts `begin` to begin + count of the first pass, whose rows have none at their sides.
template <int Radix, typename T>
UNIHAL_VECTORIZED void run_first_parts(int64_t begin, int64_t count, const T* twiddles, const T* tile, T* y) {
  constexpr int64_t kDistance = kTileRows<T> * kFftRow<T>;
  twiddles += 2 * (Radix - 1) * begin;
  y += Radix * kFftRow<T> * begin;
  for (int64_t part = begin; part < begin + count; ++part) {
    transform_numbers<Radix, Number<T, 32>>([=](int j, auto& number)
                                                UNIHAL_INLINE_LAMBDA { load(tile + kDistance * j, number); },
                                            [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
                                              if (j > 0 && part > 0)
                                                multiply(number, twiddles[2 * j - 2], twiddles[2 * j - 1]);
                                              store(y + kFftRow<T> * j, number);
                                            });
    tile += kFftRow<T>;
    twiddles += 2 * (Radix - 1);
    y += Radix * kFftRow<T>;
  }
}

// So many rows of the last pass, which has one part; those of its numbers are `distance` elements apart.
template <int Radix, typename T>
UNIHAL_VECTORIZED void run_last_rows(int64_t count, int64_t distance, const T* x, T* tile) {
  for (int64_t row = 0; row < count; ++row, x += kFftRow<T>, tile += kFftRow<T>) {
    transform_numbers<Radix, Number<T, 32>>(
        [=](int j, auto& number) UNIHAL_INLINE_LAMBDA { load(x + distance * j, number); },
        [=](int j, const auto& number) UNIHAL_INLINE_LAMBDA { store(tile + kTileRows<T> * kFftRow<T> * j, number); });
  }
}

// The same for any odd radix: pairs of elements share their cosines and sines.
template <typename T>
UNIHAL_VECTORIZED void run_odd_pass(int radix, int64_t parts, int64_t stride, const T* twiddles, const T* coefficients,
                                    const T* x, T* y) {
  const int half = (radix - 1) / 2;
  for (int64_t part = 0; part < parts; ++part) {
    const T* factors = twiddles + 2 * (radix - 1) * part;
    for (int64_t row = 0; row < stride; ++row) {
      const T* const from = x + kFftRow<T> * (row + stride * part);
      T* const to = y + kFftRow<T> * (row + stride * radix * part);
      Number<T, 32> first, total, sums[kLargestRadix / 2], differences[kLargestRadix / 2];
      load(from, first);
      total = first;
      for (int j = 1; j <= half; ++j) {
        Number<T, 32> low, high;
        load(from + kFftRow<T> * stride * parts * j, low);
        load(from + kFftRow<T> * stride * parts * (radix - j), high);
        sums[j - 1] = low + high;
        differences[j - 1] = low - high;
        total = total + sums[j - 1];
      }
      store(to, total);
      for (int k = 1; k <= half; ++k) {
        Number<T, 32> middle = first;
        Number<T, 32> turned = {first.re - first.re, first.im - first.im};
        for (int j = 1, angle = k; j <= half; ++j, angle = angle + k < radix ? angle + k : angle + k - radix) {
          const T cosine = coefficients[2 * angle], sine = coefficients[2 * angle + 1];
          middle.re += sums[j - 1].re * cosine;
          middle.im += sums[j - 1].im * cosine;
          turned.re -= differences[j - 1].im * sine;
          turned.im += differences[j - 1].re * sine;
        }
        Number<T, 32> low = middle + turned, high = middle - turned;
        multiply(low, factors[2 * k - 2], factors[2 * k - 1]);
        multiply(high, factors[2 * (radix - k) - 2], factors[2 * (radix - k) - 1]);
        store(to + kFftRow<T> * stride * k, low);
        store(to + kFftRow<T> * stride * (radix - k), high);
      }
    }
  }
}

// Multiplies rows by one complex number each. Rows from `count` to `rows` become zero.
template <typename T>
UNIHAL_VECTORIZED void multiply_rows(int64_t count, int64_t rows, const T* factors, T* x) {
  for (int64_t row = 0; row < count; ++row) {
    Number<T, 32> number;
    load(x + row * kFftRow<T>, number);
    multiply(number, factors[2 * row], factors[2 * row + 1]);
    store(x + row * kFftRow<T>, number);
  }
  std::fill(x + count * kFftRow<T>, x + rows * kFftRow<T>, T(0));
}

// Exchanges the parts of all numbers: between two transforms, so that the second is the inverse one.
template <typename T>
UNIHAL_VECTORIZED void exchange_parts(int64_t rows, T* x) {
  for (int64_t row = 0; row < rows; ++row) {
    Number<T, 32> number;
    load(x + row * kFftRow<T>, number);
    const Number<T, 32> exchanged = {number.im, number.re};
    store(x + row * kFftRow<T>, exchanged);
  }
}

}  // namespace

template <typename T>
bool FftLinePlan<T>::is_smooth(int64_t n) {
  return n == 1 || !radices_of(n).empty();
}

template <typename T>
FftLinePlan<T>::FftLinePlan(int64_t n) : n_(n) {
  if (!is_smooth(n)) {
    convolved_ = std::make_unique<FftLinePlan>(smooth_length(2 * n - 1));
    chirp_ = fft_chirp<T>(n);
    filter_ = fft_conjugate_chirp(n, convolved_->n_, chirp_);
    FftLongPlan<T>(convolved_->n_).run(fft_packed(filter_.data()), fft_packed(filter_.data()), 1, 1);
    return;
  }
  const RootsOfUnity<T> roots(n);
  int64_t length = n;
  for (const int radix : radices_of(n)) {
    const int64_t parts = length / radix;
    Pass pass = {radix, parts, numbers_.size(), 0};
    numbers_.resize(numbers_.size() + static_cast<size_t>(2 * (radix - 1) * parts));
    T* twiddle = numbers_.data() + pass.twiddles;
    for (int64_t part = 0; part < parts; ++part) {
      for (int j = 1; j < radix; ++j, twiddle += 2) roots.get(part * j * (n / length), twiddle, twiddle + 1);
    }
    if (!has_butterfly(radix)) {
      pass.coefficients = numbers_.size();
      numbers_.resize(numbers_.size() + static_cast<size_t>(2 * radix));
      T* coefficient = numbers_.data() + pass.coefficients;
      for (int j = 0; j < radix; ++j, coefficient += 2) roots.get(j * (n / radix), coefficient, coefficient + 1);
    }
    passes_.push_back(pass);
    length = parts;
  }
}

template <typename T>
void FftLinePlan<T>::run_whole_pass(const Pass& pass, const T* x, T* y) const {
  const int64_t stride = n_ / pass.parts / pass.radix;
  const T* const twiddles = numbers_.data() + pass.twiddles;
  if (!has_butterfly(pass.radix)) {
    return run_odd_pass(pass.radix, pass.parts, stride, twiddles, numbers_.data() + pass.coefficients, x, y);
  }
  with_radix(pass.radix, [&](auto radix) { run_pass<radix()>(pass.parts, stride, twiddles, x, y); });
}

template <typename T>
void FftLinePlan<T>::run_first_pass(const FftLines<T>& from, T* y) const {
  const Pass& pass = passes_.front();
  const T* const twiddles = numbers_.data() + pass.twiddles;
  with_radix(pass.radix, [&](auto radix) {
    FftTile<T> tile;
    for (int64_t begin = 0; begin < pass.parts; begin += kTileRows<T>) {
      const int64_t count = std::min(kTileRows<T>, pass.parts - begin);
      for (int j = 0; j < radix; ++j) from.load(begin + pass.parts * j, count, tile.of(j));
      run_first_parts<radix()>(begin, count, twiddles, tile.rows, y);
    }
  });
}

template <typename T>
void FftLinePlan<T>::run_last_pass(const T* x, const FftLines<T>& to, T re_factor, T im_factor) const {
  const int64_t rows = n_ / passes_.back().radix;
  with_radix(passes_.back().radix, [&](auto radix) {
    FftTile<T> tile;
    for (int64_t begin = 0; begin < rows; begin += kTileRows<T>) {
      const int64_t count = std::min(kTileRows<T>, rows - begin);
      run_last_rows<radix()>(count, rows * kFftRow<T>, x + begin * kFftRow<T>, tile.rows);
      for (int j = 0; j < radix; ++j) to.store(begin + rows * j, count, tile.of(j), re_factor, im_factor);
    }
  });
}

template <typename T>
T* FftLinePlan<T>::run_passes(size_t begin, size_t end, T* rows, T* other) const {
  for (size_t i = begin; i < end; ++i) {
    run_whole_pass(passes_[i], rows, other);
    std::swap(rows, other);
  }
  return rows;
}

template <typename T>
bool FftLinePlan<T>::begins_with_lines() const {
  return convolved_ == nullptr && passes_.size() >= 2 && has_butterfly(passes_.front().radix);
}

template <typename T>
bool FftLinePlan<T>::ends_with_lines() const {
  return convolved_ == nullptr && passes_.size() >= 2 && has_butterfly(passes_.back().radix);
}

template <typename T>
T* FftLinePlan<T>::run(T* rows, T* other) const {
  return convolved_ != nullptr ? convolve(rows, other) : run_passes(0, passes_.size(), rows, other);
}

template <typename T>
T* FftLinePlan<T>::load_and_run(const FftLines<T>& from, T* rows, T* other) const {
  if (begins_with_lines()) {
    run_first_pass(from, rows);
    return run_passes(1, passes_.size(), rows, other);
  }
  from.load(0, n_, rows);
  return run(rows, other);
}

template <typename T>
void FftLinePlan<T>::run_and_store(T* rows, T* other, const FftLines<T>& to, T re_factor, T im_factor) const {
  if (ends_with_lines()) {
    return run_last_pass(run_passes(0, passes_.size() - 1, rows, other), to, re_factor, im_factor);
  }
  to.store(0, n_, run(rows, other), re_factor, im_factor);
}

template <typename T>
void FftLinePlan<T>::run(const FftLines<T>& from, const FftLines<T>& to, T re_factor, T im_factor, T* rows,
                         T* other) const {
  if (begins_with_lines() && ends_with_lines()) {
    run_first_pass(from, rows);
    return run_last_pass(run_passes(1, passes_.size() - 1, rows, other), to, re_factor, im_factor);
  }
  to.store(0, n_, load_and_run(from, rows, other), re_factor, im_factor);
}

// Bluestein: j * k = (j^2 + k^2 - (k - j)^2) / 2 makes the transform a convolution between two products with a chirp.
template <typename T>
T* FftLinePlan<T>::convolve(T* rows, T* other) const {
  const int64_t length = convolved_->n_;
  multiply_rows(n_, length, chirp_.data(), rows);
  T* const spectrum = convolved_->run(rows, other);
  multiply_rows(length, length, filter_.data(), spectrum);
  exchange_parts(length, spectrum);
  T* const result = convolved_->run(spectrum, spectrum == rows ? other : rows);
  exchange_parts(n_, result);
  multiply_rows(n_, n_, chirp_.data(), result);
  return result;
}

template class FftLinePlan<float>;
template class FftLinePlan<double>;

}  // namespace unihal::stub
