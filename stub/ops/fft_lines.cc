#include "stub/ops/fft_lines.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "csrc/backends/common/fft_problem.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Above it Bluestein's convolution costs less than sums over all pairs.
constexpr int kLargestRadix = 61;
// Elements of a line that are moved before the next line's, so that rows stay in the first-level cache.
constexpr int64_t kTile = 16;

// A complex number of each lane.
template <typename T>
struct Number {
  Vector<T> re, im;

  UNIHAL_INLINE Number operator+(const Number& b) const { return {re + b.re, im + b.im}; }
  UNIHAL_INLINE Number operator-(const Number& b) const { return {re - b.re, im - b.im}; }
  UNIHAL_INLINE Number times_minus_i() const { return {im, -re}; }
};

template <typename T>
UNIHAL_INLINE void load(const FftRows<T>& rows, int64_t at, Number<T>& number) {
  number.re = *reinterpret_cast<const Vector<T>*>(rows.re + at);
  number.im = *reinterpret_cast<const Vector<T>*>(rows.im + at);
}

template <typename T>
UNIHAL_INLINE void store(const FftRows<T>& rows, int64_t at, const Number<T>& number) {
  *reinterpret_cast<Vector<T>*>(rows.re + at) = number.re;
  *reinterpret_cast<Vector<T>*>(rows.im + at) = number.im;
}

template <typename T>
UNIHAL_INLINE void multiply(Number<T>& number, T re, T im) {
  const Vector<T> product = number.re * re - number.im * im;
  number.im = number.re * im + number.im * re;
  number.re = product;
}

// -- butterflies: transforms of Radix numbers in registers ------------------------------------------------------------

template <typename T>
UNIHAL_INLINE void butterfly_4(Number<T>& a, Number<T>& b, Number<T>& c, Number<T>& d) {
  const Number<T> sum = a + c, difference = a - c, other = b + d, turned = (b - d).times_minus_i();
  a = sum + other;
  b = difference + turned;
  c = sum - other;
  d = difference - turned;
}

template <int Radix, typename T>
UNIHAL_INLINE void butterfly(Number<T>* a) {
  if constexpr (Radix == 2) {
    const Number<T> first = a[0];
    a[0] = first + a[1];
    a[1] = first - a[1];
  } else if constexpr (Radix == 3) {
    constexpr T kSine = static_cast<T>(0.866025403784438646763723170752936183L);
    const Number<T> sum = a[1] + a[2], difference = a[1] - a[2];
    const Number<T> middle = {a[0].re - sum.re * T(0.5), a[0].im - sum.im * T(0.5)};
    const Number<T> turned = {difference.im * kSine, -(difference.re * kSine)};
    a[0] = a[0] + sum;
    a[1] = middle + turned;
    a[2] = middle - turned;
  } else if constexpr (Radix == 4) {
    butterfly_4(a[0], a[1], a[2], a[3]);
  } else if constexpr (Radix == 5) {
    constexpr T kCosine1 = static_cast<T>(0.309016994374947424102293417182819059L);
    constexpr T kCosine2 = static_cast<T>(-0.809016994374947424102293417182819059L);
    constexpr T kSine1 = static_cast<T>(0.951056516295153572116439333379382143L);
    constexpr T kSine2 = static_cast<T>(0.587785252292473129168705954639072769L);
    const Number<T> sum1 = a[1] + a[4], difference1 = a[1] - a[4], sum2 = a[2] + a[3], difference2 = a[2] - a[3];
    const Number<T> middle1 = {a[0].re + sum1.re * kCosine1 + sum2.re * kCosine2,
                               a[0].im + sum1.im * kCosine1 + sum2.im * kCosine2};
    const Number<T> middle2 = {a[0].re + sum1.re * kCosine2 + sum2.re * kCosine1,
                               a[0].im + sum1.im * kCosine2 + sum2.im * kCosine1};
    const Number<T> turned1 = {difference1.im * kSine1 + difference2.im * kSine2,
                               -(difference1.re * kSine1 + difference2.re * kSine2)};
    const Number<T> turned2 = {difference1.im * kSine2 - difference2.im * kSine1,
                               -(difference1.re * kSine2 - difference2.re * kSine1)};
    a[0] = a[0] + sum1 + sum2;
    a[1] = middle1 + turned1;
    a[2] = middle2 + turned2;
    a[3] = middle2 - turned2;
    a[4] = middle1 - turned1;
  } else {
    static_assert(Radix == 8);
    constexpr T kRoot = static_cast<T>(0.707106781186547524400844362104849039L);
    butterfly_4(a[0], a[2], a[4], a[6]);
    butterfly_4(a[1], a[3], a[5], a[7]);
    const Number<T> odd1 = {(a[3].re + a[3].im) * kRoot, (a[3].im - a[3].re) * kRoot};
    const Number<T> odd2 = a[5].times_minus_i();
    const Number<T> odd3 = {(a[7].im - a[7].re) * kRoot, -((a[7].re + a[7].im) * kRoot)};
    const Number<T> even0 = a[0], even1 = a[2], even2 = a[4], even3 = a[6], odd0 = a[1];
    a[0] = even0 + odd0;
    a[1] = even1 + odd1;
    a[2] = even2 + odd2;
    a[3] = even3 + odd3;
    a[4] = even0 - odd0;
    a[5] = even1 - odd1;
    a[6] = even2 - odd2;
    a[7] = even3 - odd3;
  }
}

// One pass of Stockham's form: transforms of length radix * parts become transforms of length `parts`, of `stride`
// elements side by side.
template <int Radix, typename T>
UNIHAL_VECTORIZED void run_pass(int64_t parts, int64_t stride, const T* twiddles, FftRows<T> x, FftRows<T> y) {
  for (int64_t part = 0; part < parts; ++part) {
    T factors[2 * (Radix - 1)];
    std::copy_n(twiddles + 2 * (Radix - 1) * part, 2 * (Radix - 1), factors);
    for (int64_t lane = 0; lane < stride; lane += kWidth<T>) {
      Number<T> a[Radix];
      for (int j = 0; j < Radix; ++j) load(x, lane + stride * (part + parts * j), a[j]);
      butterfly<Radix>(a);
      if (part > 0) {
        for (int j = 1; j < Radix; ++j) multiply(a[j], factors[2 * j - 2], factors[2 * j - 1]);
      }
      for (int j = 0; j < Radix; ++j) store(y, lane + stride * (Radix * part + j), a[j]);
    }
  }
}

// The same for any odd radix: pairs of elements share their cosines and sines.
template <typename T>
UNIHAL_VECTORIZED void run_odd_pass(int radix, int64_t parts, int64_t stride, const T* twiddles, const T* coefficients,
                                    FftRows<T> x, FftRows<T> y) {
  const int half = (radix - 1) / 2;
  for (int64_t part = 0; part < parts; ++part) {
    const T* factors = twiddles + 2 * (radix - 1) * part;
    for (int64_t lane = 0; lane < stride; lane += kWidth<T>) {
      Number<T> first, total, sums[kLargestRadix / 2], differences[kLargestRadix / 2];
      load(x, lane + stride * part, first);
      total = first;
      for (int j = 1; j <= half; ++j) {
        Number<T> low, high;
        load(x, lane + stride * (part + parts * j), low);
        load(x, lane + stride * (part + parts * (radix - j)), high);
        sums[j - 1] = low + high;
        differences[j - 1] = low - high;
        total = total + sums[j - 1];
      }
      store(y, lane + stride * radix * part, total);
      for (int k = 1; k <= half; ++k) {
        Number<T> middle = first;
        Number<T> turned = {first.re - first.re, first.im - first.im};
        for (int j = 1, angle = k; j <= half; ++j, angle = angle + k < radix ? angle + k : angle + k - radix) {
          const T cosine = coefficients[2 * angle], sine = coefficients[2 * angle + 1];
          middle.re += sums[j - 1].re * cosine;
          middle.im += sums[j - 1].im * cosine;
          turned.re -= differences[j - 1].im * sine;
          turned.im += differences[j - 1].re * sine;
        }
        Number<T> low = middle + turned, high = middle - turned;
        multiply(low, factors[2 * k - 2], factors[2 * k - 1]);
        multiply(high, factors[2 * (radix - k) - 2], factors[2 * (radix - k) - 1]);
        store(y, lane + stride * (radix * part + k), low);
        store(y, lane + stride * (radix * part + radix - k), high);
      }
    }
  }
}

// Multiplies rows by one complex number each. Rows from `count` to `rows` become zero.
template <typename T>
UNIHAL_VECTORIZED void multiply_rows(int64_t count, int64_t rows, const T* factors, FftRows<T> x) {
  constexpr int64_t kLanes = kFftLanes<T>;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t lane = 0; lane < kLanes; lane += kWidth<T>) {
      Number<T> number;
      load(x, row * kLanes + lane, number);
      multiply(number, factors[2 * row], factors[2 * row + 1]);
      store(x, row * kLanes + lane, number);
    }
  }
  std::fill(x.re + count * kLanes, x.re + rows * kLanes, T(0));
  std::fill(x.im + count * kLanes, x.im + rows * kLanes, T(0));
}

// Multiplies lane l of row k by start[k] * lanes[k][l]: twiddles of a matrix' columns.
template <typename T>
UNIHAL_VECTORIZED void multiply_columns(int64_t rows, const T* starts, const T* lanes, FftRows<T> x) {
  constexpr int64_t kLanes = kFftLanes<T>;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t lane = 0; lane < kLanes; lane += kWidth<T>) {
      Number<T> factor, number;
      load(FftRows<T>{const_cast<T*>(lanes), const_cast<T*>(lanes) + kLanes}, 2 * row * kLanes + lane, factor);
      load(x, row * kLanes + lane, number);
      multiply(factor, starts[2 * row], starts[2 * row + 1]);
      const Number<T> product = {number.re * factor.re - number.im * factor.im,
                                 number.re * factor.im + number.im * factor.re};
      store(x, row * kLanes + lane, product);
    }
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

// -- moving lines into rows and back
// -----------------------------------------------------------------------------------

// The distance of neighbouring lines, 0 if they have none in common.
int64_t distance(int64_t lanes, const int64_t* offsets) {
  if (lanes < 2) return 0;
  const int64_t step = offsets[1] - offsets[0];
  for (int64_t lane = 2; lane < lanes; ++lane) {
    if (offsets[lane] - offsets[lane - 1] != step) return 0;
  }
  return step;
}

// Rows of columns lie far from one another, where no processor looks ahead by itself.
constexpr int64_t kAhead = 8;
template <bool to_write, typename T>
UNIHAL_INLINE void prefetch_columns(const T* row) {
#pragma GCC unroll 3
  for (int64_t line = 0; line < 3; ++line) {
    __builtin_prefetch(reinterpret_cast<const char*>(row) + std::min<int64_t>(64 * line, 127), to_write);
  }
}

template <typename T>
UNIHAL_VECTORIZED void load_columns(int64_t rows, const T* from, int64_t stride, T* re, T* im) {
  for (int64_t row = 0; row < rows; ++row) {
    if (row + kAhead < rows) prefetch_columns<false>(from + (row + kAhead) * stride);
    for (int64_t lane = 0; lane < kFftLanes<T>; ++lane) {
      re[row * kFftLanes<T> + lane] = from[row * stride + 2 * lane];
      im[row * kFftLanes<T> + lane] = from[row * stride + 2 * lane + 1];
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_columns(int64_t rows, const T* re, const T* im, T re_factor, T im_factor, T* to,
                                     int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) {
    if (row + kAhead < rows) prefetch_columns<true>(to + (row + kAhead) * stride);
    for (int64_t lane = 0; lane < kFftLanes<T>; ++lane) {
      to[row * stride + 2 * lane] = re[row * kFftLanes<T> + lane] * re_factor;
      to[row * stride + 2 * lane + 1] = im[row * kFftLanes<T> + lane] * im_factor;
    }
  }
}

// Calls visit(row, lane) for squares of vectors, so that what a line has in one line of the cache is moved at once:
// long lines lie in few of a cache's places.
template <typename T, class Visit>
UNIHAL_INLINE void for_each_square(int64_t rows, const Visit& visit) {
  constexpr int64_t kSize = kWidth<T>, kLine = 64 / (2 * static_cast<int64_t>(sizeof(T)));
  for (int64_t begin = 0; begin < rows; begin += kLine) {
    const int64_t end = std::min(rows, begin + kLine);
    for (int64_t lane = 0; lane < kFftLanes<T>; lane += kSize) {
      for (int64_t row = begin; row < end; row += kSize / 2) visit(row, lane);
    }
  }
}

// Complex numbers one after the other in each line. A vector of one line's numbers is a column of real and imaginary
// rows.
template <typename T>
UNIHAL_VECTORIZED void load_lines(int64_t rows, const T* from, const int64_t* offsets, T* re, T* im) {
  constexpr int64_t kLanes = kFftLanes<T>, kSize = kWidth<T>;
  for_each_square<T>(rows, [&](int64_t row, int64_t lane) UNIHAL_INLINE_LAMBDA {
    Vector<T> v[kSize];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
      v[i] = *reinterpret_cast<const Loose<T>*>(from + offsets[lane + i] + 2 * row);
    }
    transpose(v);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSize / 2; ++i) {
      *reinterpret_cast<Loose<T>*>(re + (row + i) * kLanes + lane) = v[2 * i];
      *reinterpret_cast<Loose<T>*>(im + (row + i) * kLanes + lane) = v[2 * i + 1];
    }
  });
}

template <typename T>
UNIHAL_VECTORIZED void store_lines(int64_t rows, const T* re, const T* im, T re_factor, T im_factor, T* to,
                                   const int64_t* offsets) {
  constexpr int64_t kLanes = kFftLanes<T>, kSize = kWidth<T>;
  for_each_square<T>(rows, [&](int64_t row, int64_t lane) UNIHAL_INLINE_LAMBDA {
    Vector<T> v[kSize];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSize / 2; ++i) {
      v[2 * i] = *reinterpret_cast<const Loose<T>*>(re + (row + i) * kLanes + lane) * re_factor;
      v[2 * i + 1] = *reinterpret_cast<const Loose<T>*>(im + (row + i) * kLanes + lane) * im_factor;
    }
    transpose(v);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) *reinterpret_cast<Loose<T>*>(to + offsets[lane + i] + 2 * row) = v[i];
  });
}

template <typename T>
UNIHAL_VECTORIZED void load_part(int64_t rows, int64_t lanes, const T* from, int64_t stride, const int64_t* offsets,
                                 T* to) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const T* line = from + offsets[lane];
      for (int64_t row = begin; row < end; ++row) to[row * kFftLanes<T> + lane] = line[row * stride];
    }
  }
  if (lanes == kFftLanes<T>) return;
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(to + row * kFftLanes<T> + lanes, to + (row + 1) * kFftLanes<T>, T(0));
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_part(int64_t rows, int64_t lanes, const T* from, T factor, T* to, int64_t stride,
                                  const int64_t* offsets) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      T* line = to + offsets[lane];
      for (int64_t row = begin; row < end; ++row) line[row * stride] = from[row * kFftLanes<T> + lane] * factor;
    }
  }
}

// -- factors
// ------------------------------------------------------------------------------------------------------------

// The radices of a length, with the largest butterflies; none if a prime factor is too large for one.
std::vector<int> radices_of(int64_t n) {
  std::vector<int> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (; twos >= 3 && twos != 4; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos == 1) radices.push_back(2);
  for (int prime = 3; prime <= kLargestRadix; prime += 2) {
    for (; n % prime == 0; n /= prime) radices.push_back(prime);
  }
  if (n > 1) radices.clear();
  return radices;
}

// The divisor of a length that is nearest to its root from below.
int64_t middle_divisor(int64_t n) {
  int64_t divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (divisor * divisor > n) --divisor;
  while (n % divisor != 0) --divisor;
  return divisor;
}

// exp(-pi i k^2 / n) for k below n.
template <typename T>
std::vector<T> chirp_of(int64_t n) {
  const RootsOfUnity<T> roots(2 * n);
  std::vector<T> chirp(static_cast<size_t>(2 * n));
  for (int64_t k = 0; k < n; ++k) {
    const auto power = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) % (2 * n));
    roots.get(power, &chirp[2 * k], &chirp[2 * k + 1]);
  }
  return chirp;
}

// What a line is convolved with: the chirp's conjugate in both directions, over the convolution's length.
template <typename T>
std::vector<T> conjugate_chirp(int64_t n, int64_t length, const std::vector<T>& chirp) {
  std::vector<T> filter(static_cast<size_t>(2 * length), T(0));
  for (int64_t k = 0; k < n; ++k) {
    const int64_t back = k == 0 ? 0 : length - k;
    filter[2 * k] = filter[2 * back] = chirp[2 * k] / static_cast<T>(length);
    filter[2 * k + 1] = filter[2 * back + 1] = -chirp[2 * k + 1] / static_cast<T>(length);
  }
  return filter;
}

}  // namespace

template <typename T>
RootsOfUnity<T>::RootsOfUnity(int64_t n) {
  while ((int64_t{1} << (2 * shift_)) < n) ++shift_;
  const auto fill = [n](std::vector<Root>& roots, int64_t count, int64_t step) {
    const Precise turn = 2 * std::acos(Precise(-1)) / static_cast<Precise>(n);
    for (int64_t k = 0; k < count; ++k) {
      const Precise angle = turn * static_cast<Precise>(k * step);
      roots.push_back({std::cos(angle), -std::sin(angle)});
    }
  };
  fill(low_, std::min(n, int64_t{1} << shift_), 1);
  fill(high_, ((n - 1) >> shift_) + 1, int64_t{1} << shift_);
}

template <typename T>
void RootsOfUnity<T>::get(int64_t k, T* re, T* im) const {
  const Root& low = low_[static_cast<size_t>(k & ((int64_t{1} << shift_) - 1))];
  const Root& high = high_[static_cast<size_t>(k >> shift_)];
  *re = static_cast<T>(low.re * high.re - low.im * high.im);
  *im = static_cast<T>(low.re * high.im + low.im * high.re);
}

template <typename T>
void load_fft_rows(int64_t rows, int64_t lanes, const FftSignal<T>& from, const int64_t* offsets, FftRows<T> to) {
  // Complex numbers as a whole, with their parts exchanged or not.
  const bool is_complex = from.re != nullptr && from.im != nullptr && std::abs(from.re - from.im) == 1;
  const FftRows<T> planes = is_complex && from.im < from.re ? to.exchanged() : to;
  int64_t done = 0;
  if (is_complex && lanes == kFftLanes<T>) {
    const T* const numbers = std::min(from.re, from.im);
    if (distance(lanes, offsets) == 2) {
      return load_columns(rows, numbers + offsets[0], from.stride, planes.re, planes.im);
    }
    if (from.stride == 2) {
      done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
      load_lines(done, numbers, offsets, planes.re, planes.im);
    }
  }
  const FftSignal<T> rest = from.from(done);
  const int64_t at = done * kFftLanes<T>;
  for (const auto& [part, plane] : {std::pair{rest.re, to.re + at}, std::pair{rest.im, to.im + at}}) {
    if (part != nullptr) {
      load_part(rows - done, lanes, part, from.stride, offsets, plane);
    } else {
      std::fill_n(plane, (rows - done) * kFftLanes<T>, T(0));
    }
  }
}

template <typename T>
void store_fft_rows(int64_t rows, int64_t lanes, FftRows<T> from, const FftSignal<T>& to, const int64_t* offsets,
                    T re_factor, T im_factor) {
  const bool is_complex = to.re != nullptr && to.im != nullptr && std::abs(to.re - to.im) == 1;
  const bool is_exchanged = is_complex && to.im < to.re;
  const FftRows<T> planes = is_exchanged ? from.exchanged() : from;
  const T first = is_exchanged ? im_factor : re_factor, second = is_exchanged ? re_factor : im_factor;
  int64_t done = 0;
  if (is_complex && lanes == kFftLanes<T>) {
    T* const numbers = std::min(to.re, to.im);
    if (distance(lanes, offsets) == 2) {
      return store_columns(rows, planes.re, planes.im, first, second, numbers + offsets[0], to.stride);
    }
    if (to.stride == 2) {
      done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
      store_lines(done, planes.re, planes.im, first, second, numbers, offsets);
    }
  }
  const FftSignal<T> rest = to.from(done);
  const int64_t at = done * kFftLanes<T>;
  if (to.re != nullptr) store_part(rows - done, lanes, from.re + at, re_factor, rest.re, to.stride, offsets);
  if (to.im != nullptr) store_part(rows - done, lanes, from.im + at, im_factor, rest.im, to.stride, offsets);
}

// -- lines of one length
// ------------------------------------------------------------------------------------------------

template <typename T>
bool FftLinePlan<T>::is_smooth(int64_t n) {
  return n == 1 || !radices_of(n).empty();
}

template <typename T>
FftLinePlan<T>::FftLinePlan(int64_t n) : n_(n) {
  if (!is_smooth(n)) {
    convolved_ = std::make_unique<FftLinePlan>(smooth_length(2 * n - 1));
    chirp_ = chirp_of<T>(n);
    filter_ = conjugate_chirp(n, convolved_->n_, chirp_);
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
    if (radix > 5 && radix != 8) {
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
FftRows<T> FftLinePlan<T>::run(FftRows<T> rows, FftRows<T> other) const {
  if (convolved_ != nullptr) return convolve(rows, other);
  int64_t stride = kFftLanes<T>;
  for (const Pass& pass : passes_) {
    const T* twiddles = numbers_.data() + pass.twiddles;
    switch (pass.radix) {
      case 2:
        run_pass<2>(pass.parts, stride, twiddles, rows, other);
        break;
      case 3:
        run_pass<3>(pass.parts, stride, twiddles, rows, other);
        break;
      case 4:
        run_pass<4>(pass.parts, stride, twiddles, rows, other);
        break;
      case 5:
        run_pass<5>(pass.parts, stride, twiddles, rows, other);
        break;
      case 8:
        run_pass<8>(pass.parts, stride, twiddles, rows, other);
        break;
      default:
        run_odd_pass(pass.radix, pass.parts, stride, twiddles, numbers_.data() + pass.coefficients, rows, other);
    }
    stride *= pass.radix;
    std::swap(rows, other);
  }
  return rows;
}

// Bluestein: j * k = (j^2 + k^2 - (k - j)^2) / 2 makes the transform a convolution between two products with a chirp.
template <typename T>
FftRows<T> FftLinePlan<T>::convolve(FftRows<T> rows, FftRows<T> other) const {
  const int64_t length = convolved_->n_;
  multiply_rows(n_, length, chirp_.data(), rows);
  const FftRows<T> spectrum = convolved_->run(rows, other);
  multiply_rows(length, length, filter_.data(), spectrum);
  const FftRows<T> free = spectrum.re == rows.re ? other : rows;
  const FftRows<T> result = convolved_->run(spectrum.exchanged(), free.exchanged()).exchanged();
  multiply_rows(n_, n_, chirp_.data(), result);
  return result;
}

// -- one long line
// --------------------------------------------------------------------------------------------------------

template <typename T>
FftLongPlan<T>::FftLongPlan(int64_t n) : n_(n) {
  if (!FftLinePlan<T>::is_smooth(n)) {
    convolved_ = std::make_unique<FftLongPlan>(smooth_length(2 * n - 1));
    chirp_ = chirp_of<T>(n);
    filter_ = conjugate_chirp(n, convolved_->n_, chirp_);
    convolved_->run(fft_packed(filter_.data()), fft_packed(filter_.data()), 1, 1);
    return;
  }
  columns_ = std::make_unique<FftLinePlan<T>>(middle_divisor(n));
  rows_ = std::make_unique<FftLinePlan<T>>(n / columns_->length());
  roots_ = std::make_unique<RootsOfUnity<T>>(n);
  lane_roots_.resize(static_cast<size_t>(2 * columns_->length() * kFftLanes<T>));
  for (int64_t row = 0; row < columns_->length(); ++row) {
    T* re = lane_roots_.data() + 2 * row * kFftLanes<T>;
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
  const int64_t plane = fft_plane<T>(columns_->rows());
  std::atomic<bool> complete{true};
  parallel_for((n2 + kLanes - 1) / kLanes, 16 * n1 * kLanes, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* buffer = frame.take<T>(static_cast<size_t>(4 * plane));
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
      FftRows<T> rows = {buffer, buffer + plane};
      load_fft_rows(n1, lanes, FftSignal<T>{source.re, source.im, n2 * source.stride}, from, rows);
      rows = columns_->run(rows, {buffer + 2 * plane, buffer + 3 * plane});
      for (int64_t row = 0; row < n1; ++row) roots_->get(row * first, starts + 2 * row, starts + 2 * row + 1);
      multiply_columns(n1, starts, lane_roots_.data(), rows);
      store_fft_rows(n1, lanes, rows, FftSignal<T>{matrix, matrix + 1, 2 * n2}, to, T(1), T(1));
    }
  });
  return complete;
}

// The transforms of the rows k1 give y[k2 * n1 + k1].
template <typename T>
bool FftLongPlan<T>::run_rows(T* matrix, const FftSignal<T>& target, T re_factor, T im_factor) const {
  constexpr int64_t kLanes = kFftLanes<T>;
  const int64_t n1 = columns_->length(), n2 = rows_->length();
  const int64_t plane = fft_plane<T>(rows_->rows());
  std::atomic<bool> complete{true};
  parallel_for((n1 + kLanes - 1) / kLanes, 16 * n2 * kLanes, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* buffer = frame.take<T>(static_cast<size_t>(4 * plane));
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
      FftRows<T> rows = {buffer, buffer + plane};
      load_fft_rows(n2, lanes, fft_packed(matrix), from, rows);
      rows = rows_->run(rows, {buffer + 2 * plane, buffer + 3 * plane});
      store_fft_rows(n2, lanes, rows, FftSignal<T>{target.re, target.im, n1 * target.stride}, to, re_factor, im_factor);
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

#define UNIHAL_INSTANTIATE(T)                                                                        \
  template class RootsOfUnity<T>;                                                                    \
  template class FftLinePlan<T>;                                                                     \
  template class FftLongPlan<T>;                                                                     \
  template void load_fft_rows<T>(int64_t, int64_t, const FftSignal<T>&, const int64_t*, FftRows<T>); \
  template void store_fft_rows<T>(int64_t, int64_t, FftRows<T>, const FftSignal<T>&, const int64_t*, T, T);
UNIHAL_INSTANTIATE(float)
UNIHAL_INSTANTIATE(double)

}  // namespace unihal::stub
