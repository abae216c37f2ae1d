// Weighted sums of rows of adjacent elements: of interpolation between pixels.
#pragma once

#include <cstdint>

#include "stub/vector/vectorize.h"

namespace unihal::stub {

// y = the weighted sum of kCount rows of `width` elements, which is added to what is there, or begins it.
template <int kCount, bool kBegins, typename T>
UNIHAL_INLINE void sum_some_rows(int64_t width, const T* const* rows, const T* weights, T* __restrict y) {
  const T* row[kCount];
  T weight[kCount];
  for (int t = 0; t < kCount; ++t) {
    row[t] = rows[t];
    weight[t] = weights[t];
  }
  for (int64_t i = 0; i < width; ++i) {
    T sum = kBegins ? weight[0] * row[0][i] : y[i] + weight[0] * row[0][i];
    for (int t = 1; t < kCount; ++t) sum += weight[t] * row[t][i];
    y[i] = sum;
  }
}

template <bool kBegins, typename T>
UNIHAL_INLINE void sum_few_rows(int64_t width, int64_t count, const T* const* rows, const T* weights, T* __restrict y) {
  switch (count) {
    case 0:
      for (int64_t i = 0; kBegins && i < width; ++i) y[i] = 0;
      return;
    case 1:
      return sum_some_rows<1, kBegins>(width, rows, weights, y);
    case 2:
      return sum_some_rows<2, kBegins>(width, rows, weights, y);
    case 3:
      return sum_some_rows<3, kBegins>(width, rows, weights, y);
    default:
      return sum_some_rows<4, kBegins>(width, rows, weights, y);
  }
}

// y = the sum over t of weights[t] * rows[t], each of `width` elements, in the order of t; four of them in one go, so
// that y is not read and written for each. y is none of the rows.
template <typename T>
UNIHAL_INLINE void sum_rows(int64_t width, int64_t count, const T* const* rows, const T* weights, T* __restrict y) {
  sum_few_rows<true>(width, count, rows, weights, y);
  for (int64_t t = 4; t < count; t += 4) sum_few_rows<false>(width, count - t, rows + t, weights + t, y);
}

}  // namespace unihal::stub
