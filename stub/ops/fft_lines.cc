#include "stub/ops/fft_lines.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "csrc/backends/common/fft_problem.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/fft_butterflies.h"
#include "stub/vector/transpose.h"
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

// Elements of a line that are moved before the next line's, so that rows stay in the first-level cache.
constexpr int64_t kTile = 16;

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

// Rows on their way between lines and a pass: of each of its numbers what a line has in one line of the cache.
template <typename T>
inline constexpr int64_t kTileRows = 64 / (2 * static_cast<int64_t>(sizeof(T)));
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

// Of lines up to this length the next ones are asked for while a block is read or written, of longer ones what follows.
constexpr int64_t kShortLine = 64;

// Rows of columns lie far from one another, where no processor looks ahead by itself.
constexpr int64_t kAhead = 8;
template <bool to_write, typename T>
UNIHAL_INLINE void prefetch_columns(const T* row) {
#pragma GCC unroll 3
  for (int64_t line = 0; line < 3; ++line) {
    __builtin_prefetch(reinterpret_cast<const char*>(row) + std::min<int64_t>(64 * line, 127), to_write);
  }
}

// Where a row has the parts that come first and second in each number of a line: inverse transforms exchange them.
template <typename T>
struct Parts {
  int64_t first, second;
};

// A row's parts from two vectors of its numbers, of which the first has the first two and the middle two of float, or
// the first and the third of double, and back: one shuffle each.
template <typename T>
UNIHAL_INLINE void part_numbers(const Vector<T>* v, Vector<T>& first, Vector<T>& second) {
  if constexpr (sizeof(T) == 4) {
    first = UNIHAL_SHUFFLE(v[0], v[1], Places8, 0, 2, 8, 10, 4, 6, 12, 14);
    second = UNIHAL_SHUFFLE(v[0], v[1], Places8, 1, 3, 9, 11, 5, 7, 13, 15);
  } else {
    first = UNIHAL_SHUFFLE(v[0], v[1], Places4, 0, 4, 2, 6);
    second = UNIHAL_SHUFFLE(v[0], v[1], Places4, 1, 5, 3, 7);
  }
}

template <typename T>
UNIHAL_INLINE void join_parts(const Vector<T>& first, const Vector<T>& second, Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    v[0] = UNIHAL_SHUFFLE(first, second, Places8, 0, 8, 1, 9, 4, 12, 5, 13);
    v[1] = UNIHAL_SHUFFLE(first, second, Places8, 2, 10, 3, 11, 6, 14, 7, 15);
  } else {
    v[0] = UNIHAL_SHUFFLE(first, second, Places4, 0, 4, 2, 6);
    v[1] = UNIHAL_SHUFFLE(first, second, Places4, 1, 5, 3, 7);
  }
}

// GCC moves the numbers of columns one by one, if it is left to find the vectors.
template <typename T>
UNIHAL_VECTORIZED void load_columns(int64_t rows, int64_t rows_left, const T* from, int64_t stride, Parts<T> parts,
                                    T* to) {
  constexpr int64_t kHalf = kWidth<T> / 2;
  for (int64_t row = 0; row < rows; ++row, from += stride, to += kFftRow<T>) {
    if (row + kAhead < rows_left) prefetch_columns<false>(from + kAhead * stride);
    Vector<T> v[2];
    load_halves(from, from + 2 * kHalf, v[0]);
    load_halves(from + kHalf, from + 3 * kHalf, v[1]);
    part_numbers<T>(v, *reinterpret_cast<Vector<T>*>(to + parts.first),
                    *reinterpret_cast<Vector<T>*>(to + parts.second));
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_columns(int64_t rows, int64_t rows_left, const T* from, Parts<T> parts, T first_factor,
                                     T second_factor, T* to, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, from += kFftRow<T>, to += stride) {
    if (row + kAhead < rows_left) prefetch_columns<true>(to + kAhead * stride);
    Vector<T> v[2];
    join_parts<T>(*reinterpret_cast<const Vector<T>*>(from + parts.first) * first_factor,
                  *reinterpret_cast<const Vector<T>*>(from + parts.second) * second_factor, v);
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<Loose<T>*>(to) = UNIHAL_SHUFFLE(v[0], v[1], Places8, 0, 1, 2, 3, 8, 9, 10, 11);
      *reinterpret_cast<Loose<T>*>(to + kWidth<T>) = UNIHAL_SHUFFLE(v[0], v[1], Places8, 4, 5, 6, 7, 12, 13, 14, 15);
    } else {
      *reinterpret_cast<Loose<T>*>(to) = UNIHAL_SHUFFLE(v[0], v[1], Places4, 0, 1, 4, 5);
      *reinterpret_cast<Loose<T>*>(to + kWidth<T>) = UNIHAL_SHUFFLE(v[0], v[1], Places4, 2, 3, 6, 7);
    }
  }
}

// Where lines are, in registers: written rows might be the offsets otherwise, for all that the compiler knows.
template <typename T>
struct LinePlaces {
  static constexpr int64_t kLanes = kFftLanes<std::remove_const_t<T>>;
  T* of[kLanes];

  UNIHAL_INLINE LinePlaces(T* from, const int64_t* offsets) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLanes; ++i) of[i] = from + offsets[i];
  }

  // Asks for what the lines have `ahead` of a row, where the second half of a line of the cache begins.
  template <bool to_write>
  UNIHAL_INLINE void prefetch(int64_t row, int64_t ahead) const {
    if ((row & (kLanes / 2)) == 0) return;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLanes; ++i) __builtin_prefetch(of[i] + 2 * row + ahead, to_write);
  }

  // Asks for what the first and the last line have there.
  template <bool to_write>
  UNIHAL_INLINE void prefetch_ends(int64_t at) const {
    __builtin_prefetch(of[0] + at, to_write);
    __builtin_prefetch(of[kLanes - 1] + at, to_write);
  }
};

// Complex numbers one after the other in each line: half a vector of one line's numbers is a column of real and
// imaginary parts. `rows` is a multiple of four numbers of float, or two of double.
template <typename T>
UNIHAL_VECTORIZED void load_lines(int64_t rows, const T* from, const int64_t* offsets, int64_t ahead, Parts<T> parts,
                                  T* to) {
  constexpr int64_t kSize = kWidth<T>, kHalf = kSize / 2;
  const LinePlaces<const T> lines(from, offsets);
  for (int64_t row = 0; row < rows; row += kHalf) {
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half, to += kHalf / 2 * kFftRow<T>) {
      const int64_t at = 2 * row + half * kHalf;
      Vector<T> v[kHalf];
#pragma GCC unroll 4
      for (int64_t i = 0; i < kHalf; ++i) load_halves(lines.of[i] + at, lines.of[i + kHalf] + at, v[i]);
      transpose_halves(v);
#pragma GCC unroll 2
      for (int64_t i = 0; i < kHalf / 2; ++i) {
        *reinterpret_cast<Vector<T>*>(to + i * kFftRow<T> + parts.first) = v[2 * i];
        *reinterpret_cast<Vector<T>*>(to + i * kFftRow<T> + parts.second) = v[2 * i + 1];
      }
    }
    lines.template prefetch<false>(row, ahead);
  }
}

// Whole vectors are stored: half ones would be as many again, and a cache takes one at a time.
template <typename T>
UNIHAL_VECTORIZED void store_lines(int64_t rows, const T* from, Parts<T> parts, T first_factor, T second_factor, T* to,
                                   const int64_t* offsets, int64_t ahead) {
  constexpr int64_t kSize = kWidth<T>;
  const LinePlaces<T> lines(to, offsets);
  for (int64_t row = 0; row < rows; row += kSize / 2, from += kSize / 2 * kFftRow<T>) {
    Vector<T> v[kSize];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSize / 2; ++i) {
      v[2 * i] = *reinterpret_cast<const Vector<T>*>(from + i * kFftRow<T> + parts.first) * first_factor;
      v[2 * i + 1] = *reinterpret_cast<const Vector<T>*>(from + i * kFftRow<T> + parts.second) * second_factor;
    }
    transpose(v);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) *reinterpret_cast<Loose<T>*>(lines.of[i] + 2 * row) = v[i];
    lines.template prefetch<true>(row, ahead);
  }
}

// Two vectors of the numbers of eight lines of float, or four of double: those whose parts one shuffle of both brings
// into the lines' order.
template <typename T>
UNIHAL_INLINE void load_numbers_of_row(const LinePlaces<const T>& lines, int64_t at, Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    typedef double Number __attribute__((aligned(4), may_alias));
    typedef double Numbers __attribute__((vector_size(32)));
    const auto number = [&](int lane)
                            UNIHAL_INLINE_LAMBDA { return *reinterpret_cast<const Number*>(lines.of[lane] + at); };
    v[0] = reinterpret_cast<Vector<T>>(Numbers{number(0), number(1), number(4), number(5)});
    v[1] = reinterpret_cast<Vector<T>>(Numbers{number(2), number(3), number(6), number(7)});
  } else {
    load_halves(lines.of[0] + at, lines.of[2] + at, v[0]);
    load_halves(lines.of[1] + at, lines.of[3] + at, v[1]);
  }
}

// Lanes without a line lie where the last one does, which has to be written after them: what columns are multiplied by
// tells them apart.
template <typename T>
UNIHAL_INLINE void store_numbers_of_row(const LinePlaces<T>& lines, int64_t at, const Vector<T>* v) {
  if constexpr (sizeof(T) == 4) {
    typedef double Number __attribute__((aligned(4), may_alias));
    typedef double Numbers __attribute__((vector_size(32)));
    const Numbers low = reinterpret_cast<Numbers>(v[0]), high = reinterpret_cast<Numbers>(v[1]);
#pragma GCC unroll 8
    for (int lane = 7; lane >= 0; --lane) {
      const int place = lane / 4 * 2 + lane % 2;
      *reinterpret_cast<Number*>(lines.of[lane] + at) = lane % 4 < 2 ? low[place] : high[place];
    }
  } else {
    typedef double Half __attribute__((vector_size(16), aligned(8), may_alias));
#pragma GCC unroll 2
    for (int i = 1; i >= 0; --i) {
      *reinterpret_cast<Half*>(lines.of[2 * i + 1] + at) = Half{v[1][2 * i], v[1][2 * i + 1]};
      *reinterpret_cast<Half*>(lines.of[2 * i] + at) = Half{v[0][2 * i], v[0][2 * i + 1]};
    }
  }
}

// Complex numbers anywhere: lines that are neighbours but for a gap, or are not at all.
template <typename T>
UNIHAL_VECTORIZED void load_numbers(int64_t rows, int64_t rows_left, const T* from, int64_t stride,
                                    const int64_t* offsets, Parts<T> parts, T* to) {
  const LinePlaces<const T> lines(from, offsets);
  for (int64_t row = 0; row < rows; ++row, to += kFftRow<T>) {
    if (row + kAhead < rows_left) lines.template prefetch_ends<false>((row + kAhead) * stride);
    Vector<T> v[2];
    load_numbers_of_row(lines, row * stride, v);
    part_numbers<T>(v, *reinterpret_cast<Vector<T>*>(to + parts.first),
                    *reinterpret_cast<Vector<T>*>(to + parts.second));
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_numbers(int64_t rows, int64_t rows_left, const T* from, Parts<T> parts, T first_factor,
                                     T second_factor, T* to, int64_t stride, const int64_t* offsets) {
  const LinePlaces<T> lines(to, offsets);
  for (int64_t row = 0; row < rows; ++row, from += kFftRow<T>) {
    if (row + kAhead < rows_left) lines.template prefetch_ends<true>((row + kAhead) * stride);
    Vector<T> v[2];
    join_parts<T>(*reinterpret_cast<const Vector<T>*>(from + parts.first) * first_factor,
                  *reinterpret_cast<const Vector<T>*>(from + parts.second) * second_factor, v);
    store_numbers_of_row(lines, row * stride, v);
  }
}

template <typename T>
UNIHAL_VECTORIZED void load_part(int64_t rows, const T* from, int64_t stride, const int64_t* offsets, T* to) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < kFftLanes<T>; ++lane) {
      const T* line = from + offsets[lane];
      for (int64_t row = begin; row < end; ++row) to[row * kFftRow<T> + lane] = line[row * stride];
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void store_part(int64_t rows, int64_t lanes, const T* from, T factor, T* to, int64_t stride,
                                  const int64_t* offsets) {
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      T* line = to + offsets[lane];
      for (int64_t row = begin; row < end; ++row) line[row * stride] = from[row * kFftRow<T> + lane] * factor;
    }
  }
}

// -- factors
// ------------------------------------------------------------------------------------------------------------

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
FftLines<T>::FftLines(const FftSignal<T>& signal, int64_t length, int64_t lanes, const int64_t* offsets)
    : signal_(signal), length_(length), lanes_(lanes) {
  std::copy_n(offsets, lanes, offsets_);
  std::fill(offsets_ + lanes, offsets_ + kFftLanes<T>, offsets[lanes - 1]);
  if (signal.re == nullptr || signal.im == nullptr || std::abs(signal.re - signal.im) != 1) return;
  numbers_ = std::min(signal.re, signal.im);
  is_exchanged_ = signal.im < signal.re;
  const int64_t step = distance(kFftLanes<T>, offsets_);
  if (step == 2) {
    layout_ = Layout::kColumns;
  } else if (signal.stride == 2) {
    layout_ = Layout::kPacked;
    ahead_ = length <= kShortLine && step > 0 ? kFftLanes<T> * step : 2 * kTileRows<T>;
  }
}

template <typename T>
void FftLines<T>::load(int64_t begin, int64_t rows, T* to) const {
  const Parts<T> parts = {is_exchanged_ ? kFftLanes<T> : 0, is_exchanged_ ? 0 : kFftLanes<T>};
  int64_t done = 0;
  if (layout_ == Layout::kColumns) {
    const T* const first = numbers_ + offsets_[0] + begin * signal_.stride;
    return load_columns(rows, length_ - begin, first, signal_.stride, parts, to);
  }
  if (layout_ == Layout::kPacked) {
    done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
    load_lines(done, numbers_ + 2 * begin, offsets_, ahead_, parts, to);
    if (done == rows) return;
  }
  const FftSignal<T> rest = signal_.from(begin + done);
  to += done * kFftRow<T>;
  if (numbers_ != nullptr) {
    const T* const first = std::min(rest.re, rest.im);
    return load_numbers(rows - done, length_ - begin - done, first, rest.stride, offsets_, parts, to);
  }
  for (const auto& [part, at] : {std::pair{rest.re, to}, std::pair{rest.im, to + kFftLanes<T>}}) {
    if (part != nullptr) {
      load_part(rows - done, part, signal_.stride, offsets_, at);
    } else {
      for (int64_t row = 0; row < rows - done; ++row) std::fill_n(at + row * kFftRow<T>, kFftLanes<T>, T(0));
    }
  }
}

template <typename T>
void FftLines<T>::store(int64_t begin, int64_t rows, const T* from, T re_factor, T im_factor) const {
  const Parts<T> parts = {is_exchanged_ ? kFftLanes<T> : 0, is_exchanged_ ? 0 : kFftLanes<T>};
  const T first = is_exchanged_ ? im_factor : re_factor, second = is_exchanged_ ? re_factor : im_factor;
  int64_t done = 0;
  if (layout_ == Layout::kColumns) {
    T* const target = numbers_ + offsets_[0] + begin * signal_.stride;
    return store_columns(rows, length_ - begin, from, parts, first, second, target, signal_.stride);
  }
  if (layout_ == Layout::kPacked) {
    done = rows / (kWidth<T> / 2) * (kWidth<T> / 2);
    store_lines(done, from, parts, first, second, numbers_ + 2 * begin, offsets_, ahead_);
    if (done == rows) return;
  }
  const FftSignal<T> rest = signal_.from(begin + done);
  from += done * kFftRow<T>;
  if (numbers_ != nullptr) {
    T* const target = std::min(rest.re, rest.im);
    return store_numbers(rows - done, length_ - begin - done, from, parts, first, second, target, rest.stride,
                         offsets_);
  }
  if (rest.re != nullptr) store_part(rows - done, lanes_, from, re_factor, rest.re, rest.stride, offsets_);
  from += kFftLanes<T>;
  if (rest.im != nullptr) store_part(rows - done, lanes_, from, im_factor, rest.im, rest.stride, offsets_);
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

#define UNIHAL_INSTANTIATE(T)     \
  template class FftLines<T>;     \
  template class RootsOfUnity<T>; \
  template class FftLinePlan<T>;  \
  template class FftLongPlan<T>;
UNIHAL_INSTANTIATE(float)
UNIHAL_INSTANTIATE(double)

}  // namespace unihal::stub
