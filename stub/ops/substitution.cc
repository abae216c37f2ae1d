#include "stub/ops/substitution.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Rows that are found together: with three vectors of each, 24 of the 32 registers are sums.
constexpr int64_t kRows = 8;

constexpr int64_t panels_of(int64_t n) { return (n + kRows - 1) / kRows; }

// Before panel p lie p (p + 1) / 2 squares of kRows x kRows.
constexpr int64_t panel_offset(int64_t panel) { return kRows * kRows * (panel * (panel + 1) / 2); }

// Right sides that fill `vectors` vectors, of all panels' rows. What the rows before a panel contribute is a product,
// in which each element of the triangle meets all vectors; then the panel's own rows follow from each other.
template <typename T, int vectors>
UNIHAL_WIDE void substitute(int64_t panels, const T* packed, T* sides) {
  using Vector = typename VectorOf<T, 64>::type;
  constexpr int64_t kRow = vectors * 64 / static_cast<int64_t>(sizeof(T));
  const auto row = [sides](int64_t i) UNIHAL_INLINE_LAMBDA { return reinterpret_cast<Vector*>(sides + i * kRow); };
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t first = panel * kRows;
    Vector sums[kRows][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) sums[r][v] = row(first + r)[v];
    }
    for (int64_t k = 0; k < first; ++k, packed += kRows) {
      Vector found[vectors];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) found[v] = row(k)[v];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) sums[r][v] -= packed[r] * found[v];
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < kRows; ++k, packed += kRows) {
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) row(first + k)[v] = sums[k][v] = sums[k][v] / packed[k];
#pragma GCC unroll 8
      for (int r = k + 1; r < kRows; ++r) {
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) sums[r][v] -= packed[r] * sums[k][v];
      }
    }
  }
}

// Columns 0 to `count`, a multiple of kRows, of kRows rows from `first` on, whose elements are adjacent, one way or the
// other.
template <typename T>
UNIHAL_WIDE void pack_rows(const LowerTriangle<T>& triangle, int64_t first, int64_t count, T* packed) {
  constexpr int64_t kSide = 32 / static_cast<int64_t>(sizeof(T));
  const bool backwards = triangle.column_step < 0;
  for (int64_t row = 0; row < kRows; row += kSide) {
    const T* const from = triangle.a + (first + row) * triangle.row_step;
    T* const to = packed + row;
    for (int64_t k = 0; k < count; k += kSide) {
      const int64_t last = k + kSide - 1;
      if (backwards) {
        transpose_square(from - last, triangle.row_step, to + last * kRows, -kRows);
      } else {
        transpose_square(from + k, triangle.row_step, to + k * kRows, kRows);
      }
    }
  }
}

template <typename T>
using Substitute = void (*)(int64_t, const T*, T*);

template <typename T>
constexpr Substitute<T> kSubstitute[] = {nullptr, substitute<T, 1>, substitute<T, 2>, substitute<T, 3>};

}  // namespace

template <typename T>
size_t packed_triangle_size(int64_t n) {
  return static_cast<size_t>(panel_offset(panels_of(n)));
}

template <typename T>
size_t packed_sides_size(int64_t n) {
  return static_cast<size_t>(panels_of(n) * kRows * kSidesTogether<T>);
}

template <typename T>
void pack_triangle(const LowerTriangle<T>& triangle, T* packed) {
  const auto at = [&triangle](int64_t i, int64_t k) {
    return triangle.a[i * triangle.row_step + k * triangle.column_step];
  };
  for (int64_t first = 0; first < triangle.n; first += kRows) {
    const int64_t rows = std::min(kRows, triangle.n - first);
    if (rows == kRows && std::abs(triangle.column_step) == 1) {
      pack_rows(triangle, first, first, packed);
    } else {
      for (int64_t k = 0; k < first; ++k) {
        for (int64_t r = 0; r < kRows; ++r) packed[k * kRows + r] = r < rows ? at(first + r, k) : T(0);
      }
    }
    packed += first * kRows;
    for (int64_t k = 0; k < kRows; ++k, packed += kRows) {
      std::fill_n(packed, kRows, T(0));
      packed[k] = k >= rows || triangle.unit_diagonal ? T(1) : at(first + k, first + k);
      for (int64_t r = k + 1; r < rows; ++r) packed[r] = at(first + r, first + k);
    }
  }
}

template <typename T>
void solve_in_vectors(int64_t n, const T* packed, int64_t columns, T* x, int64_t row_step, T* sides) {
  constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t panels = panels_of(n);
  for (int64_t first = 0; first < columns; first += kSidesTogether<T>) {
    const int64_t own = std::min(kSidesTogether<T>, columns - first);
    const int64_t vectors = (own + kLanes - 1) / kLanes, row = vectors * kLanes;
    const size_t bytes = static_cast<size_t>(own) * sizeof(T);
    if (own < row || n < panels * kRows) std::fill_n(sides, panels * kRows * row, T(0));
    for (int64_t i = 0; i < n; ++i) std::memcpy(sides + i * row, x + first + i * row_step, bytes);
    kSubstitute<T>[vectors](panels, packed, sides);
    for (int64_t i = 0; i < n; ++i) std::memcpy(x + first + i * row_step, sides + i * row, bytes);
  }
}

#define UNIHAL_INSTANTIATE(T)                                           \
  template size_t packed_triangle_size<T>(int64_t);                     \
  template size_t packed_sides_size<T>(int64_t);                        \
  template void pack_triangle<T>(const LowerTriangle<T>& triangle, T*); \
  template void solve_in_vectors<T>(int64_t, const T*, int64_t, T*, int64_t, T*);
UNIHAL_INSTANTIATE(float)
UNIHAL_INSTANTIATE(double)
#undef UNIHAL_INSTANTIATE

}  // namespace unihal::stub
