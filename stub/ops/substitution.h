// Triangular systems in vectors of 64 bytes: several right sides lie side by side in registers while one row after the
// other is found. OpenBLAS' trsm takes 1.9 times as long for 512 x 512 in float32, with its products in halves 1.4
// times (Zen 4).
#pragma once

#include <cstddef>
#include <cstdint>

namespace unihal::stub {

// a x = b with a lower triangle a, n x n: element (i, k) is a[i * row_step + k * column_step], only those with k <= i
// are read, and the diagonal is taken as ones where `unit_diagonal`. An upper triangle is one from its last element on,
// with negative steps. `T` is float or double.
template <typename T>
struct LowerTriangle {
  const T* a;
  int64_t n;
  int64_t row_step, column_step;
  bool unit_diagonal;
};

// Elements of the memory that solve_in_vectors() needs for the triangle and, for each thread, for right sides.
template <typename T>
size_t packed_triangle_size(int64_t n);
template <typename T>
size_t packed_sides_size(int64_t n);

// The triangle as solve_in_vectors() reads it, `packed` aligned to 64 bytes. Only where has_wide_vectors().
template <typename T>
void pack_triangle(const LowerTriangle<T>& triangle, T* packed);

// Right sides that lie beside each other in registers; what threads share is best a multiple of it.
template <typename T>
inline constexpr int64_t kSidesTogether = 3 * 64 / static_cast<int64_t>(sizeof(T));

// b becomes x: row i of `columns` adjacent elements begins at x + i * row_step. `sides` is aligned to 64 bytes.
template <typename T>
void solve_in_vectors(int64_t n, const T* packed, int64_t columns, T* x, int64_t row_step, T* sides);

}  // namespace unihal::stub
