#include "stub/ops/pool_rows.h"

namespace unihal::stub {
namespace {

// Places of a row that are taken together: their values and positions stay in the first-level cache.
constexpr int64_t kRun = 256;

// Places [begin, end) of a row, and the tap that they are looked at through: place i sees pixel first + i * stride.
struct Taps {
  int64_t begin, end, first;
};

// Calls visit(z, y, begin, end) for runs of at most kRun places of each row of the output.
template <typename Visit>
UNIHAL_INLINE void for_each_run(const PoolGeometry& g, const Visit& visit) {
  for (int64_t z = 0; z < g.output[0]; ++z) {
    for (int64_t y = 0; y < g.output[1]; ++y) {
      for (int64_t begin = 0; begin < g.output[2]; begin += kRun) {
        visit(z, y, begin, std::min(begin + kRun, g.output[2]));
      }
    }
  }
}

// Calls visit(taps) for each tap of the windows of a run, those of the first pixels first.
template <typename Visit>
UNIHAL_INLINE void for_each_tap(const PoolGeometry& g, int64_t z, int64_t y, int64_t begin, int64_t end,
                                const Visit& visit) {
  const Span depth = g.spans[0][z];
  const Span height = g.spans[1][y];
  for (int64_t plane = depth.begin; plane < depth.end; ++plane) {
    for (int64_t row = height.begin; row < height.end; ++row) {
      for (int64_t tap = 0; tap < g.row_window; ++tap) {
        // Place i sees column i * stride + shift, which must lie in [0, width).
        const int64_t shift = tap - g.row_pad_before;
        const int64_t from = shift >= 0 ? 0 : (-shift + g.row_stride - 1) / g.row_stride;
        const int64_t to = shift >= g.input[2] ? 0 : (g.input[2] - 1 - shift) / g.row_stride + 1;
        const Taps taps = {std::max(begin, from), std::min(end, to), (plane * g.input[1] + row) * g.input[2] + shift};
        if (taps.begin < taps.end) visit(taps);
      }
    }
  }
}

// kStride is the row's stride, so that loads can be shuffles; 0: any. Positions are found only if they are wanted.
template <bool kPositions, int64_t kStride, typename T>
UNIHAL_INLINE void find_maxima(const PoolGeometry& g, int64_t z, int64_t y, int64_t begin, int64_t end, const T* x,
                               T* best, PoolPosition<T>* where) {
  const int64_t stride = kStride != 0 ? kStride : g.row_stride;
  const int64_t first_row = (g.spans[0][z].begin * g.input[1] + g.spans[1][y].begin) * g.input[2];
  for (int64_t i = 0; i < end - begin; ++i) {
    best[i] = kLowest<T>;
    if constexpr (kPositions) where[i] = static_cast<PoolPosition<T>>(first_row + g.spans[2][begin + i].begin);
  }
  for_each_tap(g, z, y, begin, end, [&](const Taps& taps) UNIHAL_INLINE_LAMBDA {
    const T* from = x + taps.first + taps.begin * stride;
    T* values = best + (taps.begin - begin);
    PoolPosition<T>* positions = where + (taps.begin - begin);
    const auto first = static_cast<PoolPosition<T>>(taps.first + taps.begin * stride);
    const int64_t count = taps.end - taps.begin;
    for (int64_t i = 0; i < count; ++i) {
      const T value = from[i * stride];
      const bool larger = is_larger(value, values[i]);
      values[i] = larger ? value : values[i];
      if constexpr (kPositions) positions[i] = larger ? first + static_cast<PoolPosition<T>>(i * stride) : positions[i];
    }
  });
}

template <typename T, int64_t kStride, bool kPositions>
UNIHAL_VECTORIZED void maximum(const PoolGeometry& g, const T* x, T* y, int64_t* indices) {
  T best[kRun];
  PoolPosition<T> where[kRun];
  for_each_run(g, [&](int64_t z, int64_t row, int64_t begin, int64_t end) UNIHAL_INLINE_LAMBDA {
    find_maxima<kPositions, kStride>(g, z, row, begin, end, x, best, where);
    const int64_t place = (z * g.output[1] + row) * g.output[2] + begin;
    for (int64_t i = 0; i < end - begin; ++i) y[place + i] = best[i];
    if constexpr (kPositions) {
      for (int64_t i = 0; i < end - begin; ++i) indices[place + i] = where[i];
    }
  });
}

// The values alone, of windows whose columns fit: first the largest of each column under a row of windows, then of each
// window's columns. False where a value is no number or infinite, which comparisons would pass over: nothing is done
// then that is not done again by the way that sees it.
constexpr int64_t kWidestRow = 1024;

template <typename T>
bool fits_columns(const PoolGeometry& g) {
  return (kRun - 1) * g.row_stride + g.row_window <= kWidestRow;
}

template <typename T, int64_t kStride>
UNIHAL_VECTORIZED bool maximum_by_columns(const PoolGeometry& g, const T* x, T* y) {
  const int64_t stride = kStride != 0 ? kStride : g.row_stride;
  T columns[kWidestRow];
  T poison = 0;
  for_each_run(g, [&](int64_t z, int64_t row, int64_t begin, int64_t end) UNIHAL_INLINE_LAMBDA {
    // Column i of the buffer is pixel first + i of a row; what lies beyond the image stays the lowest.
    const int64_t first = begin * stride - g.row_pad_before;
    const int64_t width = (end - 1 - begin) * stride + g.row_window;
    const int64_t from = std::clamp<int64_t>(-first, 0, width),
                  to = std::clamp<int64_t>(g.input[2] - first, from, width);
    for (int64_t i = 0; i < width; ++i) columns[i] = kLowest<T>;
    for (int64_t plane = g.spans[0][z].begin; plane < g.spans[0][z].end; ++plane) {
      for (int64_t line = g.spans[1][row].begin; line < g.spans[1][row].end; ++line) {
        const T* const pixels = x + (plane * g.input[1] + line) * g.input[2] + first;
#pragma omp simd reduction(+ : poison)
        for (int64_t i = from; i < to; ++i) {
          columns[i] = pixels[i] > columns[i] ? pixels[i] : columns[i];
          if constexpr (std::is_floating_point_v<T>) poison += pixels[i] * T(0);
        }
      }
    }
    T* const out = y + (z * g.output[1] + row) * g.output[2] + begin;
    for (int64_t i = 0; i < end - begin; ++i) out[i] = columns[i * stride];
    for (int64_t tap = 1; tap < g.row_window; ++tap) {
      for (int64_t i = 0; i < end - begin; ++i) {
        const T value = columns[i * stride + tap];
        out[i] = value > out[i] ? value : out[i];
      }
    }
  });
  return poison == 0;
}

template <typename T, int64_t kStride>
UNIHAL_VECTORIZED void maximum_backward(const PoolGeometry& g, const T* x, const T* dy, T* dx) {
  T best[kRun];
  PoolPosition<T> where[kRun];
  for_each_run(g, [&](int64_t z, int64_t row, int64_t begin, int64_t end) UNIHAL_INLINE_LAMBDA {
    if (g.spans[0][z].begin == g.spans[0][z].end || g.spans[1][row].begin == g.spans[1][row].end) return;
    find_maxima<true, kStride>(g, z, row, begin, end, x, best, where);
    const T* gradient = dy + (z * g.output[1] + row) * g.output[2];
    for (int64_t i = begin; i < end; ++i) {
      if (g.spans[2][i].begin != g.spans[2][i].end) dx[where[i - begin]] += gradient[i];
    }
  });
}

template <typename T>
UNIHAL_INLINE T divisor_of(const PoolGeometry& g, int64_t z, int64_t y, int64_t x) {
  const auto length = [](const Span& span) { return span.end - span.begin; };
  return static_cast<T>(g.divisor(length(g.spans[0][z]) * length(g.spans[1][y]) * length(g.spans[2][x])));
}

template <typename T, int64_t kStride>
UNIHAL_VECTORIZED void average(const PoolGeometry& g, const T* x, T* y) {
  const int64_t stride = kStride != 0 ? kStride : g.row_stride;
  T sums[kRun];
  for_each_run(g, [&](int64_t z, int64_t row, int64_t begin, int64_t end) UNIHAL_INLINE_LAMBDA {
    for (int64_t i = 0; i < end - begin; ++i) sums[i] = 0;
    for_each_tap(g, z, row, begin, end, [&](const Taps& taps) UNIHAL_INLINE_LAMBDA {
      const T* from = x + taps.first + taps.begin * stride;
      T* to = sums + (taps.begin - begin);
      const int64_t count = taps.end - taps.begin;
      for (int64_t i = 0; i < count; ++i) to[i] += from[i * stride];
    });
    T* out = y + (z * g.output[1] + row) * g.output[2];
    for (int64_t i = begin; i < end; ++i) out[i] = sums[i - begin] / divisor_of<T>(g, z, row, i);
  });
}

template <typename T, int64_t kStride>
UNIHAL_VECTORIZED void average_backward(const PoolGeometry& g, const T* dy, T* dx) {
  const int64_t stride = kStride != 0 ? kStride : g.row_stride;
  T shares[kRun];
  for_each_run(g, [&](int64_t z, int64_t row, int64_t begin, int64_t end) UNIHAL_INLINE_LAMBDA {
    const T* gradient = dy + (z * g.output[1] + row) * g.output[2];
    for (int64_t i = begin; i < end; ++i) shares[i - begin] = gradient[i] / divisor_of<T>(g, z, row, i);
    for_each_tap(g, z, row, begin, end, [&](const Taps& taps) UNIHAL_INLINE_LAMBDA {
      const T* from = shares + (taps.begin - begin);
      T* to = dx + taps.first + taps.begin * stride;
      const int64_t count = taps.end - taps.begin;
      for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
    });
  });
}

}  // namespace

template <typename T>
void pool_rows_maximum(const PoolGeometry& g, const T* x, T* y, int64_t* indices) {
  if (indices == nullptr && fits_columns<T>(g)) {
    const auto run = g.row_stride == 1   ? maximum_by_columns<T, 1>
                     : g.row_stride == 2 ? maximum_by_columns<T, 2>
                                         : maximum_by_columns<T, 0>;
    if (run(g, x, y)) return;
  }
  if (indices == nullptr) {
    const auto run = g.row_stride == 1   ? maximum<T, 1, false>
                     : g.row_stride == 2 ? maximum<T, 2, false>
                                         : maximum<T, 0, false>;
    run(g, x, y, nullptr);
  } else {
    maximum<T, 0, true>(g, x, y, indices);
  }
}

template <typename T>
void pool_rows_maximum_backward(const PoolGeometry& g, const T* x, const T* dy, T* dx) {
  const auto run = g.row_stride == 1   ? maximum_backward<T, 1>
                   : g.row_stride == 2 ? maximum_backward<T, 2>
                                       : maximum_backward<T, 0>;
  run(g, x, dy, dx);
}

template <typename T>
void pool_rows_average(const PoolGeometry& g, const T* x, T* y) {
  const auto run = g.row_stride == 1 ? average<T, 1> : g.row_stride == 2 ? average<T, 2> : average<T, 0>;
  run(g, x, y);
}

template <typename T>
void pool_rows_average_backward(const PoolGeometry& g, const T* dy, T* dx) {
  const auto run = g.row_stride == 1   ? average_backward<T, 1>
                   : g.row_stride == 2 ? average_backward<T, 2>
                                       : average_backward<T, 0>;
  run(g, dy, dx);
}

template void pool_rows_maximum<float>(const PoolGeometry&, const float*, float*, int64_t*);
template void pool_rows_maximum<double>(const PoolGeometry&, const double*, double*, int64_t*);
template void pool_rows_maximum<int64_t>(const PoolGeometry&, const int64_t*, int64_t*, int64_t*);
template void pool_rows_maximum_backward<float>(const PoolGeometry&, const float*, const float*, float*);
template void pool_rows_maximum_backward<double>(const PoolGeometry&, const double*, const double*, double*);
template void pool_rows_average<float>(const PoolGeometry&, const float*, float*);
template void pool_rows_average<double>(const PoolGeometry&, const double*, double*);
template void pool_rows_average_backward<float>(const PoolGeometry&, const float*, float*);
template void pool_rows_average_backward<double>(const PoolGeometry&, const double*, double*);

}  // namespace unihal::stub
