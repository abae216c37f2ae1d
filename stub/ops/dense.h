// Factorizations of one matrix: LAPACK's where it was found, else plain loops.
#pragma once

#include "stub/ops/matrices.h"

namespace unihal::stub {

// x := the solution of a x = b, b in x; `a` by one of its triangles. Any strides; without gaps along rows or columns of
// both nothing is copied. False: no memory.
template <typename T>
bool solve_triangular(bool upper, bool unit_diagonal, bool conjugated, const Matrix2<T>& a, const Matrix2<T>& x);

// a's lower (upper) triangle := l with a = l l^H (l^H l). The other triangle is not touched. 0, or the order of the
// first leading minor that is not positive, NaN among them: such a pivot stays on the diagonal. False: no memory.
template <typename T>
bool factorize_cholesky(bool upper, const Matrix2<T>& a, int32_t* info);

// a, in columns, := l and u; pivots count from 0. Gives info.
template <typename T>
int32_t factorize_lu(const Matrix2<T>& a, int32_t* pivots);

// What factorize_qr needs beside the matrix.
template <typename T>
struct QrWork {
  T* tau;        // min(m, n)
  T* work;       // `size`; what factorize_qr leaves in it, form_q reads
  int32_t size;  // qr_work_size
  bool panels;   // qr_takes_panels
};

template <typename T>
int32_t qr_work_size(int64_t m, int64_t n, int64_t q_columns);

// Whether m x n is factorized in panels of columns, each of them by recursion.
template <typename T>
bool qr_takes_panels(int64_t m, int64_t n);

// a (m x n, in columns) := r in its upper triangle, Householder vectors below it.
template <typename T>
void factorize_qr(const Matrix2<T>& a, const QrWork<T>& work);

// q (m x k, in columns), whose first min(m, n, k) columns are those that factorize_qr left, := the orthonormal columns.
template <typename T>
void form_q(const Matrix2<T>& q, int64_t reflectors, const QrWork<T>& work);

}  // namespace unihal::stub
