// Packed Fourier lines of fewer rows than a square has: the rows of several lines lie one after the other in as many
// squares as they fill.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "stub/ops/fft_packed.h"
#include "stub/ops/fft_squares.h"

namespace unihal::stub::fft_squares {

// Lines of so many rows that fill whole squares together.
template <typename T>
constexpr int stacked_lines(int rows) {
  return kLanes<T> / std::gcd(rows, kLanes<T>);
}

template <typename T>
FftStackedRuns stacked_runs(int rows) {
  constexpr int kNumbers = kLanes<T> / 2;  // of a vector
  FftStackedRuns stacked;
  for (int row = 0; row < rows * stacked_lines<T>(rows);) {
    const int first = row / kNumbers * kNumbers, line = row / rows;
    const int end = std::min(first + kNumbers, (line + 1) * rows);
    const unsigned bits = (1U << (2 * (end - first))) - (1U << (2 * (row - first)));
    stacked.runs.push_back(
        {line, 2 * (first - line * rows), first / kNumbers % 2, static_cast<uint16_t>(bits & 0xffff)});
    row = end;
    if (row % kLanes<T> == 0) stacked.ends.push_back(static_cast<int>(stacked.runs.size()));
  }
  return stacked;
}

// The elements of a vector that a mask names, whose place may be beyond a line where it names none.
UNIHAL_WIDE UNIHAL_INLINE void store_some(const Wide<float>& v, uint16_t mask, float* to) {
#ifdef __x86_64__
  _mm512_mask_storeu_ps(to, mask, reinterpret_cast<const __m512&>(v));
#else
  for (int i = 0; i < kLanes<float>; ++i) {
    if ((mask >> i & 1) != 0) to[i] = v[i];
  }
#endif
}

UNIHAL_WIDE UNIHAL_INLINE void store_some(const Wide<double>& v, uint16_t mask, double* to) {
#ifdef __x86_64__
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), reinterpret_cast<const __m512d&>(v));
#else
  for (int i = 0; i < kLanes<double>; ++i) {
    if ((mask >> i & 1) != 0) to[i] = v[i];
  }
#endif
}

// The transforms of the columns of lines of First * Second rows, in registers.
template <int First, int Second, typename T>
UNIHAL_WIDE void run_stacked_columns(int lines, const T* twiddles, const T* lane_roots, const T* const* from, T sign,
                                     T* x) {
  constexpr int kRows = First * Second;
  constexpr int64_t kStep = kRow<T>;
  for (int line = 0; line < lines; ++line, x += kRows * kStep) {
    const T* const numbers = from[line];
    WideNumber<T> middle[kRows];
#pragma GCC unroll 5
    for (int part = 0; part < Second; ++part) {
      WideNumber<T> a[First];
#pragma GCC unroll 5
      for (int j = 0; j < First; ++j) {
        const int64_t at = kStep * (part + Second * j);
        load_packed(numbers + at, sign, a[j]);
      }
      butterfly<First>(a);
#pragma GCC unroll 5
      for (int j = 0; j < First; ++j) {
        if (j > 0 && part > 0) {
          const T* const twiddle = twiddles + 2 * ((First - 1) * part + j - 1);
          multiply(a[j], twiddle[0], twiddle[1]);
        }
        middle[First * part + j] = a[j];
      }
    }
#pragma GCC unroll 5
    for (int row = 0; row < First; ++row) {
      WideNumber<T> a[Second];
#pragma GCC unroll 5
      for (int j = 0; j < Second; ++j) a[j] = middle[row + First * j];
      if constexpr (Second > 1) butterfly<Second>(a);
#pragma GCC unroll 5
      for (int j = 0; j < Second; ++j) {
        const int64_t at = kStep * (row + First * j);
        if (at > 0) multiply_lanes(lane_roots + at, a[j]);
        store(x + at, a[j]);
      }
    }
  }
}

// The transforms of the rows of so many lines, with `rows` rows each.
template <bool is_scaled, typename T>
UNIHAL_WIDE void run_stacked_rows(int rows, int lines, const FftStackedRuns& stacked, const T* x, T re_factor,
                                  T im_factor, T* const* to) {
  const FftStackedRun* run = stacked.runs.data();
  alignas(kBytes) T columns[2 * kSquare<T>];
  for (int square = 0; square * kLanes<T> < rows * lines; ++square, x += kLanes<T> * kRow<T>) {
    T* const numbers = columns;
    store_rows_of_square<1, is_scaled>(x, re_factor, im_factor, &numbers, 0, kRow<T>);
    for (const FftStackedRun* const end = stacked.runs.data() + stacked.ends[static_cast<size_t>(square)]; run < end;
         ++run) {
      if (run->line >= lines) return;
      const Wide<T>* const vectors = reinterpret_cast<const Wide<T>*>(columns) + run->vector;
      T* target = to[run->line] + run->offset;
      const uint16_t mask = run->mask;
#pragma GCC unroll 2
      for (int j = 0; j < kLanes<T>; ++j, target += 2 * rows) store_some(vectors[2 * j], mask, target);
    }
  }
}

}  // namespace unihal::stub::fft_squares
