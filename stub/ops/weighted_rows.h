// Weighted sums of rows of adjacent elements: of interpolation between pixels.
#pragma once

#include <cstdint>

#include "stub/vector/vectorize.h"

namespace unihal::stub {

// y = the sum over t of weights[t] * rows[t], each of `width` elements, in the order of t; four of them in one go, so
// that y is not read and written for each. y is none of the rows.
template <typename T>
UNIHAL_INLINE void sum_rows(int64_t width, int64_t count, const T* const* rows, const T* weights, T* __restrict y) {
  int64_t t = 0;
  if (count < 4) {
    for (int64_t i = 0; i < width; ++i) y[i] = 0;
  }
  for (; t + 4 <= count; t += 4) {
    const T *a = rows[t], *b = rows[t + 1], *c = rows[t + 2], *d = rows[t + 3];
    const T wa = weights[t], wb = weights[t + 1], wc = weights[t + 2], wd = weights[t + 3];
    if (t == 0) {
      for (int64_t i = 0; i < width; ++i) y[i] = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];
    } else {
      for (int64_t i = 0; i < width; ++i) y[i] = y[i] + wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];
    }
  }
  for (; t < count; ++t) {
    const T* row = rows[t];
    const T weight = weights[t];
    for (int64_t i = 0; i < width; ++i) y[i] += weight * row[i];
  }
}

}  // namespace unihal::stub
