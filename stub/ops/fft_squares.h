// Squares of complex numbers, as many rows as a vector of 64 bytes has lanes, of which packed Fourier lines consist:
// where rows come from and go to, and the transforms of their columns and rows.
#pragma once

#include <cstdint>

#include "stub/ops/fft_butterflies.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub::fft_squares {

inline constexpr int kBytes = 64;
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

}  // namespace unihal::stub::fft_squares
