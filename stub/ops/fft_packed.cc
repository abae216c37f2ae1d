#include "stub/ops/fft_packed.h"

#include <algorithm>
#include <utility>

#include "stub/ops/fft_butterflies.h"
#include "stub/ops/fft_lines.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kBytes = 64;
// Two buffers of longer lines leave second-level caches, and the roots that are kept take as much memory.
constexpr int64_t kLongest = 65536;
template <typename T>
using Wide = typename VectorOf<T, kBytes>::type;
template <typename T>
using LooseWide = typename VectorOf<T, kBytes>::loose;
template <typename T>
using WideNumber = Number<T, kBytes>;
template <typename T>
inline constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
// The numbers of as many rows as there are lanes.
template <typename T>
inline constexpr int64_t kSquare = kLanes<T> * kLanes<T>;
// Lines whose columns share a vector at most: of four a half of a vector has two, which are transposed together.
constexpr int kMostSideBySide = 4;
// The elements of a row, a complex number of each lane.
template <typename T>
inline constexpr int64_t kRow = 2 * kLanes<T>;

// The lane that column j of the matrix is in. In the order in which transform_numbers() reads its numbers each half of
// a vector has a half of the butterfly's input.
template <typename T>
constexpr int lane_of(int column) {
  return sizeof(T) == 4 ? column % 4 * 4 + column / 4 : column % 2 * 4 + column / 2;
}

// Where lines are, in registers: what is written might be their place otherwise, for all that the compiler knows.
template <int count, typename T>
struct LinesInRegisters {
  T* of[count];

  UNIHAL_INLINE explicit LinesInRegisters(T* const* lines) {
#pragma GCC unroll 4
    for (int line = 0; line < count; ++line) of[line] = lines[line];
  }
};

template <typename T>
UNIHAL_INLINE void load_packed(const T* from, T sign, WideNumber<T>& number) {
  const Wide<T> low = *reinterpret_cast<const LooseWide<T>*>(from);
  const Wide<T> high = *reinterpret_cast<const LooseWide<T>*>(from + kLanes<T>);
  if constexpr (sizeof(T) == 4) {
    number.re = UNIHAL_SHUFFLE(low, high, Places16, 0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30);
    number.im = UNIHAL_SHUFFLE(low, high, Places16, 1, 9, 17, 25, 3, 11, 19, 27, 5, 13, 21, 29, 7, 15, 23, 31);
  } else {
    number.re = UNIHAL_SHUFFLE(low, high, WidePlaces8, 0, 4, 8, 12, 2, 6, 10, 14);
    number.im = UNIHAL_SHUFFLE(low, high, WidePlaces8, 1, 5, 9, 13, 3, 7, 11, 15);
  }
  number.im *= sign;
}

// Row `row` of so many lines side by side.
template <int lines, typename T>
UNIHAL_INLINE void load_row(const T* const* from, int64_t row, T sign, WideNumber<T>& number) {
  constexpr int kWidth = static_cast<int>(kRow<T>) / lines, kHalf = kLanes<T> / 2;
  const int64_t at = row * kWidth;
  if constexpr (lines == 1) {
    load_packed(from[0] + at, sign, number);
  } else {
    Wide<T> low, high;
    if constexpr (lines == 2) {
      low = *reinterpret_cast<const LooseWide<T>*>(from[0] + at);
      high = *reinterpret_cast<const LooseWide<T>*>(from[1] + at);
    } else {
      static_assert(lines == 4 && kWidth == kHalf);
      load_halves(from[0] + at, from[1] + at, low);
      load_halves(from[2] + at, from[3] + at, high);
    }
    part_pairs(low, high, number.re, number.im);
    number.im *= sign;
  }
}

// To one line, or to two that have half of the numbers each.
template <int together, typename T>
UNIHAL_INLINE void store_packed(const WideNumber<T>& number, T* const* to, int64_t at) {
  static_assert(together <= 2);
  Wide<T> low, high;
  join_pairs(number.re, number.im, low, high);
  *reinterpret_cast<LooseWide<T>*>(to[0] + at) = low;
  *reinterpret_cast<LooseWide<T>*>(together == 2 ? to[1] + at : to[0] + at + kLanes<T>) = high;
}

// To four lines, each of which has a quarter of both numbers one after the other: halves of vectors would be twice as
// many stores.
template <typename T>
UNIHAL_INLINE void store_packed_pair(const WideNumber<T>& first, const WideNumber<T>& second, T* const* to,
                                     int64_t at) {
  constexpr int kCount = kLanes<T>;
  Wide<T> low[2], high[2];
  join_pairs(first.re, first.im, low[0], low[1]);
  join_pairs(second.re, second.im, high[0], high[1]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    Wide<T> lines[2];
    if constexpr (kCount == 16) {
      lines[0] = UNIHAL_SHUFFLE(low[i], high[i], Places16, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
      lines[1] =
          UNIHAL_SHUFFLE(low[i], high[i], Places16, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    } else {
      lines[0] = UNIHAL_SHUFFLE(low[i], high[i], WidePlaces8, 0, 1, 2, 3, 8, 9, 10, 11);
      lines[1] = UNIHAL_SHUFFLE(low[i], high[i], WidePlaces8, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    *reinterpret_cast<LooseWide<T>*>(to[2 * i] + at) = lines[0];
    *reinterpret_cast<LooseWide<T>*>(to[2 * i + 1] + at) = lines[1];
  }
}

template <typename T>
UNIHAL_INLINE void multiply_lanes(const T* factors, WideNumber<T>& number) {
  WideNumber<T> factor;
  load(factors, factor);
  multiply(number, factor.re, factor.im);
}

// A pass over the columns. The first one reads `first_of` lines, which is 0 in later ones; the last one, which has one
// part, multiplies by the lanes' roots and may be in place.
template <int Radix, int first_of, bool is_last, typename T>
UNIHAL_WIDE void run_columns(int64_t parts, int64_t stride, const T* twiddles, const T* lane_roots,
                             const T* const* from, const T* x, T sign, T* y) {
  constexpr bool kIsFirst = first_of > 0;
  if constexpr (kIsFirst) stride = 1;
  if constexpr (is_last) parts = 1;
  const LinesInRegisters<std::max(first_of, 1), const T> lines(from);
  const int64_t step = kRow<T> * stride, distance = step * parts;
  for (int64_t part = 0; part < parts; ++part, twiddles += 2 * (Radix - 1), y += (Radix - 1) * step) {
    for (const T* const end = x + step; x < end; x += kRow<T>, y += kRow<T>, lane_roots += kRow<T>) {
      transform_numbers<Radix, T, kBytes>(
          [=](int j, auto& number) UNIHAL_INLINE_LAMBDA {
            if constexpr (kIsFirst) {
              load_row<first_of>(lines.of, part + parts * j, sign, number);
            } else {
              load(x + distance * j, number);
            }
          },
          [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
            if constexpr (is_last) {
              multiply_lanes(lane_roots + step * j, number);
            } else if (j > 0 && part > 0) {
              multiply(number, twiddles[2 * j - 2], twiddles[2 * j - 1]);
            }
            store(y + step * j, number);
          });
    }
  }
}

// From as many rows as there are lanes the lanes of one half of a vector, as vectors of the rows' numbers.
template <typename T>
UNIHAL_INLINE void transpose_half(const T* from, Wide<T>* v) {
  constexpr int kHalf = kLanes<T> / 2, kQuarter = kLanes<T> / 4;
  Wide<T> rows[kHalf];
#pragma GCC unroll 8
  for (int i = 0; i < kHalf; ++i) {
    const T* const row = from + (i / kQuarter * kHalf + i % kQuarter) * kRow<T>;
    load_halves(row, row + kQuarter * kRow<T>, rows[i]);
  }
  Wide<T> blocks[kHalf];
  if constexpr (sizeof(T) == 4) {
    Wide<T> pairs[kHalf];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      pairs[i] =
          UNIHAL_SHUFFLE(rows[i], rows[i + 1], Places16, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
      pairs[i + 1] =
          UNIHAL_SHUFFLE(rows[i], rows[i + 1], Places16, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Wide<T>&low = pairs[i / 2 * 4 + i % 2], &high = pairs[i / 2 * 4 + i % 2 + 2];
      blocks[i / 2 * 4 + i % 2 * 2] =
          UNIHAL_SHUFFLE(low, high, Places16, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      blocks[i / 2 * 4 + i % 2 * 2 + 1] =
          UNIHAL_SHUFFLE(low, high, Places16, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  } else {
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
      blocks[i] = UNIHAL_SHUFFLE(rows[i], rows[i + 1], WidePlaces8, 0, 8, 2, 10, 4, 12, 6, 14);
      blocks[i + 1] = UNIHAL_SHUFFLE(rows[i], rows[i + 1], WidePlaces8, 1, 9, 3, 11, 5, 13, 7, 15);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQuarter; ++i) {
    const Wide<T>&low = blocks[i], &high = blocks[i + kQuarter];
    if constexpr (sizeof(T) == 4) {
      v[i] = UNIHAL_SHUFFLE(low, high, Places16, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      v[i + 4] = UNIHAL_SHUFFLE(low, high, Places16, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    } else {
      v[i] = UNIHAL_SHUFFLE(low, high, WidePlaces8, 0, 1, 4, 5, 8, 9, 12, 13);
      v[i + 2] = UNIHAL_SHUFFLE(low, high, WidePlaces8, 2, 3, 6, 7, 10, 11, 14, 15);
    }
  }
}

// The transforms of a square's rows, number j of all to write(j, number).
template <typename T, class Write>
UNIHAL_INLINE void run_rows_of_square(const T* x, const Write& write) {
  constexpr int kHalf = kLanes<T> / 2;
  Wide<T> re[kHalf], im[kHalf];
  transform_numbers<kLanes<T>, T, kBytes>(
      [&](int j, auto& number) UNIHAL_INLINE_LAMBDA {
        const int lane = lane_of<T>(j);
        if (lane % kHalf == 0) {
          transpose_half(x + lane, re);
          transpose_half(x + kLanes<T> + lane, im);
        }
        number.re = re[lane % kHalf];
        number.im = im[lane % kHalf];
      },
      write);
}

// The same to lines, as columns of what they get from `at` on, with `step` elements between them.
template <int together, bool is_scaled, typename T>
UNIHAL_INLINE void store_rows_of_square(const T* x, T re_factor, T im_factor, T* const* to, int64_t at, int64_t step) {
  WideNumber<T> even[kLanes<T> / 2];
  run_rows_of_square(x, [&](int j, auto number) UNIHAL_INLINE_LAMBDA {
    if constexpr (is_scaled) {
      number.re *= re_factor;
      number.im *= im_factor;
    }
    if constexpr (together < 4) {
      store_packed<together>(number, to, at + step * j);
    } else if (j % 2 == 0) {
      even[j / 2] = number;
    } else {
      store_packed_pair(even[j / 2], number, to, at + step * (j - 1));
    }
  });
}

// What the next lines, side by side, have at the rows of the square that begins with row `row`. The rows of a pass are
// in more places of a line than a processor looks ahead at by itself.
template <int lines, typename T>
UNIHAL_INLINE void ask_for_square(const FftNextLines<T>& next, int64_t row) {
  constexpr int64_t kElements = 2 * kSquare<T> / lines;
  const int64_t at = row * (kRow<T> / lines);
#pragma GCC unroll 4
  for (int line = 0; line < lines; ++line) {
    for (int64_t i = at; i < at + kElements; i += kLanes<T>) {
      __builtin_prefetch(next.from + next.from_step * line + i, 0);
      __builtin_prefetch(next.to + next.to_step * line + i, 1);
    }
  }
}

// The transforms of a square's rows, of lines side by side, from row `row` of so many on. `are_few`: a line has fewer
// than a square, but more than half as many. Then vectors go beyond their numbers, to where those of the next column go
// next, and of the last one up to the end of the line.
template <int lines, bool are_few, bool is_scaled, typename T>
UNIHAL_INLINE void run_short_rows(int64_t row, int64_t rows, const T* x, T re_factor, T im_factor, T* const* to) {
  constexpr int kHalf = kLanes<T> / 2, kColumns = kLanes<T> / lines;
  static_assert(!are_few || kColumns <= 4);  // their transforms write one column after the other
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    Wide<T> re[kHalf], im[kHalf];
    transpose_half(x + half * kHalf, re);
    transpose_half(x + kLanes<T> + half * kHalf, im);
#pragma GCC unroll 2
    for (int i = 0; i < lines / 2; ++i) {
      T* const line = to[half * (lines / 2) + i];
      transform_numbers<kColumns, T, kBytes>(
          [&](int j, auto& number) UNIHAL_INLINE_LAMBDA {
            number.re = re[i * kColumns + j];
            number.im = im[i * kColumns + j];
          },
          [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
            if constexpr (is_scaled) {
              number.re *= re_factor;
              number.im *= im_factor;
            }
            const int64_t at = 2 * (row + rows * j);
            if (are_few && j == kColumns - 1) {
              FftPackedRow<T> last;
              T* const whole = last.numbers;
              store_packed<1>(number, &whole, 0);
              std::copy_n(whole, 2 * rows, line + at);
            } else {
              store_packed<1>(number, &line, at);
            }
          });
    }
  }
}

template <bool is_scaled, typename T>
UNIHAL_WIDE void run_few_rows(int64_t rows, const T* x, T re_factor, T im_factor, T* const* to,
                              const FftNextLines<T>& next) {
  ask_for_square<kMostSideBySide>(next, 0);
  run_short_rows<kMostSideBySide, true, is_scaled>(0, rows, x, re_factor, im_factor, to);
}

// Of all rows, of which the last ones of a square before may be transformed again.
template <int lines, bool is_scaled, typename T>
UNIHAL_WIDE void run_rows(int64_t rows, const T* x, T re_factor, T im_factor, T* const* lines_to,
                          const FftNextLines<T>& next_lines) {
  const LinesInRegisters<lines, T> to(lines_to);
  const FftNextLines<T> next = next_lines;
  for (int64_t begin = 0; begin < rows; begin += kLanes<T>) {
    const int64_t row = std::min<int64_t>(begin, rows - kLanes<T>);
    const T* const square = x + row * kRow<T>;
    ask_for_square<lines>(next, begin);
    if constexpr (lines == 1) {
      store_rows_of_square<1, is_scaled>(square, re_factor, im_factor, to.of, 2 * row, 2 * rows);
    } else {
      run_short_rows<lines, false, is_scaled>(row, rows, square, re_factor, im_factor, to.of);
    }
  }
}

// The columns of some lines that are one square together; read(line, j, number) gives row j of a line.
template <int together, typename T, class Read>
UNIHAL_INLINE void run_columns_of_square(const T* lane_roots, T* square, const Read& read) {
  constexpr int kRows = kLanes<T> / together;
  for (int line = 0; line < together; ++line, square += kRows * kRow<T>) {
    transform_numbers<kRows, T, kBytes>([=](int j, auto& number) UNIHAL_INLINE_LAMBDA { read(line, j, number); },
                                        [=](int j, auto number) UNIHAL_INLINE_LAMBDA {
                                          if (j > 0) multiply_lanes(lane_roots + kRow<T> * j, number);
                                          store(square + kRow<T> * j, number);
                                        });
  }
}

// All of some lines that are one square together.
template <int together, bool is_scaled, typename T>
UNIHAL_WIDE void run_square(const T* const* from, const T* lane_roots, T sign, T re_factor, T im_factor, T* const* to,
                            T* square) {
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    load_packed(from[line] + kRow<T> * j, sign, number);
  });
  // What is probably next: more than this is too much where lines are shorter, and where they are longer the processor
  // looks ahead by itself.
  if constexpr (together == 1) {
#pragma GCC unroll 32
    for (int64_t i = 0; i < kLanes<T> * kRow<T>; i += kLanes<T>) {
      __builtin_prefetch(from[0] + kLanes<T> * kRow<T> + i);
    }
  }
  const LinesInRegisters<together, T> lines(to);
  store_rows_of_square<together, is_scaled>(square, re_factor, im_factor, lines.of, 0, kRow<T> / together);
}

// What is read of numbers k of a half spectrum and of m - k, and what is written, as factors for both parts.
template <typename T>
struct PairFactors {
  T low_re, low_im, high_re, high_im;
};

template <typename T>
UNIHAL_INLINE void alternate(T re, T im, Wide<T>& v) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) v[i] = i % 2 == 0 ? re : im;
}

template <typename T>
UNIHAL_INLINE void reverse_numbers(Wide<T>& v) {
  if constexpr (sizeof(T) == 4) {
    v = UNIHAL_SHUFFLE(v, v, Places16, 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  } else {
    v = UNIHAL_SHUFFLE(v, v, WidePlaces8, 6, 7, 4, 5, 2, 3, 0, 1);
  }
}

template <typename T>
UNIHAL_INLINE void exchange_parts(const Wide<T>& v, Wide<T>& exchanged) {
  if constexpr (sizeof(T) == 4) {
    exchanged = UNIHAL_SHUFFLE(v, v, Places16, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  } else {
    exchanged = UNIHAL_SHUFFLE(v, v, WidePlaces8, 1, 0, 3, 2, 5, 4, 7, 6);
  }
}

// Between the transform Z of a line's even elements plus i times its odd ones and its spectrum X, for k = 1 to m - 1:
// with w = exp(-pi i / m), 2 X[k] = Z[k] + conj(Z[m - k]) - i w^k (Z[k] - conj(Z[m - k])), and back
// Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])). Numbers m - k follow from the same sum and
// difference. The middle ones may be formed twice, so both must not be the same memory.
template <bool to_spectrum, typename T, class Roots>
UNIHAL_WIDE void change_pairs(int64_t m, const Roots* roots, const T* from, const PairFactors<T>& read,
                              const PairFactors<T>& written, T* to) {
  constexpr int64_t kNumbers = kLanes<T> / 2;
  Wide<T> read_low, read_high, written_low, written_high;
  alternate(read.low_re, read.low_im, read_low);
  alternate(read.high_re, read.high_im, read_high);
  alternate(written.low_re, written.low_im, written_low);
  alternate(written.high_re, written.high_im, written_high);
  for (int64_t block = 0; block < m / 2; block += kNumbers, ++roots) {
    const int64_t k = std::min(block + 1, m / 2 + 1 - kNumbers), other = m + 1 - k - kNumbers;
    const Wide<T> low = *reinterpret_cast<const LooseWide<T>*>(from + 2 * k) * read_low;
    Wide<T> high = *reinterpret_cast<const LooseWide<T>*>(from + 2 * other);
    reverse_numbers<T>(high);
    const Wide<T> sum = low + high * read_high, difference = low - high * read_high;
    Wide<T> exchanged;
    exchange_parts<T>(difference, exchanged);
    exchanged *= *reinterpret_cast<const Wide<T>*>(roots->re);
    const Wide<T> straight = difference * *reinterpret_cast<const Wide<T>*>(roots->im);
    const Wide<T> turned = to_spectrum ? straight + exchanged : straight - exchanged;
    *reinterpret_cast<LooseWide<T>*>(to + 2 * k) = (sum + turned) * written_low;
    Wide<T> result = (sum - turned) * written_high;
    reverse_numbers<T>(result);
    *reinterpret_cast<LooseWide<T>*>(to + 2 * other) = result;
  }
}

// Of a square of half lines' spectra Z, row r of number j of which is Z[r + rows * j], the same of Z[m - k].
template <int together, typename T>
UNIHAL_INLINE void load_opposite(const T* numbers, int j, WideNumber<T>& number) {
  constexpr int kCount = kLanes<T>;
  const auto opposite = [](const Wide<T>& others, const Wide<T>& firsts, Wide<T>& opposites) UNIHAL_INLINE_LAMBDA {
    if constexpr (sizeof(T) == 4 && together == 1) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    } else if constexpr (sizeof(T) == 4 && together == 2) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 7, 6, 5, 4, 3, 2, 1, 24, 15, 14, 13, 12, 11, 10, 9);
    } else if constexpr (sizeof(T) == 4) {
      opposites = UNIHAL_SHUFFLE(others, firsts, Places16, 16, 3, 2, 1, 20, 7, 6, 5, 24, 11, 10, 9, 28, 15, 14, 13);
    } else if constexpr (together == 1) {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 7, 6, 5, 4, 3, 2, 1);
    } else if constexpr (together == 2) {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 3, 2, 1, 12, 7, 6, 5);
    } else {
      opposites = UNIHAL_SHUFFLE(others, firsts, WidePlaces8, 8, 1, 10, 3, 12, 5, 14, 7);
    }
  };
  WideNumber<T> others, firsts;
  load(numbers + kRow<T> * (kCount - 1 - j), others);
  load(numbers + kRow<T> * ((kCount - j) % kCount), firsts);
  opposite(others.re, firsts.re, number.re);
  opposite(others.im, firsts.im, number.im);
}

// Half the lines' numbers Z, a square of them, to spectra X of m + 1 numbers: 2 X[k] = Z[k] + conj(Z[m - k])
// - i w^k (Z[k] - conj(Z[m - k])) in the lanes in which Z is.
template <int together, typename T>
UNIHAL_WIDE void run_square_from_real(const T* const* from, const T* lane_roots, const T* half_roots, T factor,
                                      T im_factor, T* const* to, T* square) {
  constexpr int64_t kStep = kRow<T> / together;
  T* const numbers = square + 2 * kSquare<T>;
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    load_packed(from[line] + kRow<T> * j, T(1), number);
  });
  run_rows_of_square(square,
                     [=](int j, const auto& number) UNIHAL_INLINE_LAMBDA { store(numbers + kRow<T> * j, number); });
  const LinesInRegisters<together, T> lines(to);
  const T half = factor / 2, im_half = im_factor / 2;
  for (int j = 0; j < kLanes<T>; j += 2, half_roots += 2 * kRow<T>) {
    WideNumber<T> spectrum[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      WideNumber<T> number, opposite, root;
      load(numbers + kRow<T> * (j + i), number);
      load_opposite<together>(numbers, j + i, opposite);
      load(half_roots + kRow<T> * i, root);
      const WideNumber<T> sum = {number.re + opposite.re, number.im - opposite.im};
      const WideNumber<T> difference = {number.re - opposite.re, number.im + opposite.im};
      spectrum[i].re = (sum.re + difference.re * root.im + difference.im * root.re) * half;
      spectrum[i].im = (sum.im + difference.im * root.im - difference.re * root.re) * im_half;
      if constexpr (together < 4) store_packed<together>(spectrum[i], lines.of, kStep * (j + i));
    }
    if constexpr (together == 4) store_packed_pair(spectrum[0], spectrum[1], lines.of, kStep * j);
  }
  for (int line = 0; line < together; ++line) {
    const T* const first = numbers + kLanes<T> / together * line;
    T* const spectrum = to[line];
    constexpr int64_t kLast = 2 * kSquare<T> / together;
    spectrum[0] = (first[0] + first[kLanes<T>]) * factor;
    spectrum[kLast] = (first[0] - first[kLanes<T>]) * factor;
    spectrum[1] = spectrum[kLast + 1] = 0;
  }
}

// The numbers of a spectrum that lie before m + 1 - k, in the order of k and the lanes of load_packed().
template <typename T>
UNIHAL_INLINE void load_reversed(const T* from, WideNumber<T>& number) {
  const Wide<T> low = *reinterpret_cast<const LooseWide<T>*>(from);
  const Wide<T> high = *reinterpret_cast<const LooseWide<T>*>(from + kLanes<T>);
  if constexpr (sizeof(T) == 4) {
    number.re = UNIHAL_SHUFFLE(low, high, Places16, 30, 22, 14, 6, 28, 20, 12, 4, 26, 18, 10, 2, 24, 16, 8, 0);
    number.im = UNIHAL_SHUFFLE(low, high, Places16, 31, 23, 15, 7, 29, 21, 13, 5, 27, 19, 11, 3, 25, 17, 9, 1);
  } else {
    number.re = UNIHAL_SHUFFLE(low, high, WidePlaces8, 14, 10, 6, 2, 12, 8, 4, 0);
    number.im = UNIHAL_SHUFFLE(low, high, WidePlaces8, 15, 11, 7, 3, 13, 9, 5, 1);
  }
}

// Back: Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])) as the square is read, and its conjugate for
// the inverse transform. `sign` is that of the imaginary parts of X.
template <int together, typename T>
UNIHAL_WIDE void run_square_to_real(const T* const* from, const T* lane_roots, const T* half_roots, T sign, T factor,
                                    T* const* to, T* square) {
  constexpr int64_t kNumbers = kSquare<T> / together;
  run_columns_of_square<together>(lane_roots, square, [=](int line, int j, auto& number) UNIHAL_INLINE_LAMBDA {
    WideNumber<T> low, high, root;
    load_packed(from[line] + kRow<T> * j, sign, low);
    load_reversed(from[line] + 2 * (kNumbers + 1 - kLanes<T> * (j + 1)), high);
    high.im *= sign;
    if (j == 0) low.im[0] = high.im[0] = 0;
    load(half_roots + kRow<T> * j, root);
    const WideNumber<T> sum = {low.re + high.re, low.im - high.im};
    const WideNumber<T> difference = {low.re - high.re, low.im + high.im};
    number.re = sum.re + difference.re * root.im - difference.im * root.re;
    number.im = -(sum.im + difference.im * root.im + difference.re * root.re);
  });
  const LinesInRegisters<together, T> lines(to);
  store_rows_of_square<together, true>(square, factor, -factor, lines.of, 0, kRow<T> / together);
}

template <typename T>
using RunColumns = void (*)(int64_t parts, int64_t stride, const T* twiddles, const T* lane_roots, const T* const* from,
                            const T* x, T sign, T* y);

template <int Radix, typename T>
RunColumns<T> columns_run(int lines, bool is_first, bool is_last) {
  if (!is_first) return is_last ? run_columns<Radix, 0, true, T> : run_columns<Radix, 0, false, T>;
  // One pass is enough for columns of a butterfly, of one line.
  if (is_last) return run_columns<Radix, 1, true, T>;
  return lines == 1 ? run_columns<Radix, 1, false, T>
                    : (lines == 2 ? run_columns<Radix, 2, false, T> : run_columns<Radix, 4, false, T>);
}

template <int lines, typename T>
void run_rows(int64_t rows, T* x, T factor, T sign, T* const* to, const FftNextLines<T>& next) {
  const bool is_scaled = factor != 1 || sign != 1;
  auto run = is_scaled ? run_rows<lines, true, T> : run_rows<lines, false, T>;
  if (rows < kLanes<T>) {
    std::fill(x + rows * kRow<T>, x + kLanes<T> * kRow<T>, T(0));
    run = is_scaled ? run_few_rows<true, T> : run_few_rows<false, T>;
  }
  run(rows, x, factor, factor * sign, to, next);
}

template <int together, typename T>
void run_square(const T* const* from, const T* lane_roots, T sign, T factor, T* const* to, T* square) {
  const bool is_scaled = factor != 1 || sign != 1;
  const auto run = is_scaled ? run_square<together, true, T> : run_square<together, false, T>;
  run(from, lane_roots, sign, factor, factor * sign, to, square);
}

}  // namespace

template <typename T>
int FftPackedPlan<T>::columns_of(int64_t n) {
  if (!has_wide_vectors() || n > kLongest) return 0;
  if (kSquare<T> % n == 0 && kSquare<T> / n <= kMostTogether) return kLanes<T>;
  for (int columns = kLanes<T>; columns >= kLanes<T> / kMostSideBySide; columns /= 2) {
    // Squares that are not full are for the shortest lines, of which run_few_rows() takes four columns.
    const bool few = columns == kLanes<T> / kMostSideBySide && columns == 4 && n / columns > kLanes<T> / 2;
    if (n % columns != 0 || (n / columns < kLanes<T> && !few)) continue;
    int64_t rest = n;
    for (const int prime : {2, 3, 5}) {
      while (rest % prime == 0) rest /= prime;
    }
    return rest == 1 ? columns : 0;
  }
  return 0;
}

template <typename T>
FftPackedPlan<T>::FftPackedPlan(int64_t n)
    : n_(n),
      rows_(n / columns_of(n)),
      is_square_(kSquare<T> % n == 0),
      together_(static_cast<int>(is_square_ ? kSquare<T> / n : kLanes<T> * rows_ / n)) {
  const RootsOfUnity<T> roots(n);
  int64_t length = rows_;
  for (const int radix : radices_of(rows_)) {
    const int64_t parts = length / radix;
    passes_.push_back({radix, parts, twiddles_.size()});
    for (int64_t part = 0; part < parts; ++part) {
      for (int j = 1; j < radix; ++j) {
        T re, im;
        roots.get(part * j * (n / length), &re, &im);
        twiddles_.push_back(re);
        twiddles_.push_back(im);
      }
    }
    length = parts;
  }
  lane_roots_.resize(static_cast<size_t>(rows_));
  const int columns = static_cast<int>(n / rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    T* const re = lane_roots_[static_cast<size_t>(row)].numbers;
    for (int i = 0; i < kLanes<T>; ++i) {
      const int lane = columns == kLanes<T> ? lane_of<T>(i) : i;
      roots.get(row * (i % columns), re + lane, re + kLanes<T> + lane);
    }
  }
}

template <typename T>
int64_t FftPackedPlan<T>::buffer_elements() const {
  const int64_t rows = is_square_ ? kLanes<T> : std::max<int64_t>(rows_, kLanes<T>);
  return kRow<T> * rows * (passes_.size() > 2 ? 2 : 1);
}

template <typename T>
void FftPackedPlan<T>::run(const T* const* from, T* const* to, bool inverse, T factor, const FftNextLines<T>& next,
                           T* buffer) const {
  const T sign = inverse ? T(-1) : T(1);
  const T* const roots = lane_roots();
  if (is_square_) {
    const auto run = together_ == 1 ? run_square<1, T> : together_ == 2 ? run_square<2, T> : run_square<4, T>;
    return run(from, roots, sign, factor, to, buffer);
  }
  T *x = nullptr, *y = buffer, *other = buffer + kRow<T> * rows_;
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    const bool is_first = i == 0, is_last = i + 1 == passes_.size();
    if (is_last && !is_first) std::swap(y, other);  // in place
    with_radix(pass.radix, [&](auto radix) {
      columns_run<radix(), T>(together_, is_first, is_last)(pass.parts, rows_ / pass.parts / pass.radix,
                                                            twiddles_.data() + pass.twiddles, roots, from, x, sign, y);
    });
    x = y;
    std::swap(y, other);
  }
  const auto run = together_ == 1 ? run_rows<1, T> : together_ == 2 ? run_rows<2, T> : run_rows<4, T>;
  run(rows_, x, factor, sign, to, next);
}

template <typename T>
bool FftPackedRealPlan<T>::takes_spectra(int64_t length) {
  const int64_t m = length / 2;
  return takes_lines(length) && (m % kSquare<T> == 0 || kSquare<T> % m == 0);
}

template <typename T>
FftPackedRealPlan<T>::FftPackedRealPlan(int64_t length) : m_(length / 2), halves_(m_) {
  constexpr int64_t kNumbers = kLanes<T> / 2;
  const RootsOfUnity<T> powers(length);
  if (halves_.is_square()) {
    const int rows = kLanes<T> / together();
    const auto add = [&](std::vector<FftPackedRow<T>>& table, int count, const auto& place_of) {
      for (int j = 0; j < count; ++j) {
        T* const re = table.emplace_back().numbers;
        for (int i = 0; i < kLanes<T>; ++i) {
          const auto [k, lane] = place_of(j, i);
          powers.get(k, re + lane, re + kLanes<T> + lane);
        }
      }
    };
    add(spectrum_roots_, kLanes<T>, [&](int j, int lane) { return std::pair{lane % rows + rows * j, lane}; });
    add(row_roots_, rows, [&](int j, int column) { return std::pair{kLanes<T> * j + column, lane_of<T>(column)}; });
    return;
  }
  for (int64_t block = 0; block < m_ / 2; block += kNumbers) {
    const int64_t first = std::min(block + 1, m_ / 2 + 1 - kNumbers);
    Roots& roots = roots_.emplace_back();
    for (int64_t i = 0; i < kNumbers; ++i) {
      T re, im;
      powers.get(first + i, &re, &im);
      roots.im[2 * i] = roots.im[2 * i + 1] = im;
      roots.re[2 * i] = re;
      roots.re[2 * i + 1] = -re;
    }
  }
}

template <typename T>
int64_t FftPackedRealPlan<T>::buffer_elements() const {
  return 2 * m_ * together() + halves_.buffer_elements();
}

template <typename T>
void FftPackedRealPlan<T>::run_from_real(const T* const* from, T* const* to, bool inverse, T factor,
                                         const FftNextLines<T>& next, T* buffer) const {
  if (halves_.is_square()) {
    const auto run = together() == 1   ? run_square_from_real<1, T>
                     : together() == 2 ? run_square_from_real<2, T>
                                       : run_square_from_real<4, T>;
    return run(from, halves_.lane_roots(), spectrum_roots_.front().numbers, factor, inverse ? -factor : factor, to,
               buffer);
  }
  T* lines[FftPackedPlan<T>::kMostTogether];
  for (int i = 0; i < together(); ++i) lines[i] = buffer + 2 * m_ * i;
  halves_.run(from, lines, false, T(1), next, buffer + 2 * m_ * together());
  const T half = factor / 2, im_half = inverse ? -half : half;
  const PairFactors<T> read = {1, 1, 1, -1}, written = {half, im_half, half, -im_half};
  for (int i = 0; i < together(); ++i) {
    const T* const line = lines[i];
    T* const spectrum = to[i];
    change_pairs<true>(m_, roots_.data(), line, read, written, spectrum);
    spectrum[0] = (line[0] + line[1]) * factor;
    spectrum[2 * m_] = (line[0] - line[1]) * factor;
    spectrum[1] = spectrum[2 * m_ + 1] = 0;
  }
}

template <typename T>
void FftPackedRealPlan<T>::run_to_real(const T* const* from, T* const* to, bool inverse, T factor,
                                       const FftNextLines<T>& next, T* buffer) const {
  const T sign = inverse ? T(1) : T(-1);
  if (halves_.is_square()) {
    const auto run = together() == 1   ? run_square_to_real<1, T>
                     : together() == 2 ? run_square_to_real<2, T>
                                       : run_square_to_real<4, T>;
    return run(from, halves_.lane_roots(), row_roots_.front().numbers, sign, factor, to, buffer);
  }
  T* const line = buffer;
  const PairFactors<T> read = {1, sign, 1, -sign}, written = {1, 1, 1, -1};
  change_pairs<false>(m_, roots_.data(), from[0], read, written, line);
  line[0] = from[0][0] + from[0][2 * m_];
  line[1] = from[0][0] - from[0][2 * m_];
  halves_.run(&line, to, true, factor, next, buffer + 2 * m_);
}

template class FftPackedPlan<float>;
template class FftPackedPlan<double>;
template class FftPackedRealPlan<float>;
template class FftPackedRealPlan<double>;

}  // namespace unihal::stub
