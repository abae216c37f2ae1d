// Factorizations of many small matrices of real numbers at a time, one matrix in each lane of a vector: a loop over
// elements then does for all of them what LAPACK does in as many calls, of which each is over before it is warm.
//
// Element (i, j) of lane l is a[(j * rows + i) * kLanes<T> + l]; memory is aligned to 32 bytes. What a lane gives does
// not depend on the others. Numbers that are not finite may come out as others than LAPACK's: callers look for such and
// leave their matrices to LAPACK.
#pragma once

#include "stub/ops/matrices.h"

namespace unihal::stub {

template <typename T>
inline constexpr int64_t kLanes = kIsComplex<T> ? 0 : 32 / static_cast<int64_t>(sizeof(T));

// Whether so many matrices, of one group or of all, are worth the lanes. A group takes as long with few of them: of the
// smallest a call of LAPACK takes longer than that, of larger ones a few calls, and from 64 rows or columns on LAPACK
// is as fast for all of them.
template <typename T>
bool fits_lanes(int64_t rows, int64_t columns, int64_t matrices) {
  const int64_t side = std::max(rows, columns);
  return kLanes<T> > 0 && rows > 0 && columns > 0 && side <= 64 && matrices >= (side <= 16 ? 2 : kLanes<T> / 2);
}

// Lane l := matrices[l].
template <typename T>
void load_lanes(const Matrix2<T>* matrices, T* lanes) {
  T* to = lanes;
  const Matrix2<T>& first = matrices[0];
  for (int64_t j = 0; j < first.columns; ++j) {
    for (int64_t i = 0; i < first.rows; ++i, to += kLanes<T>) {
      for (int64_t lane = 0; lane < kLanes<T>; ++lane) to[lane] = matrices[lane].at(i, j);
    }
  }
}

// The first to.columns columns and to.rows rows of a lane, of matrices of `rows` rows.
template <typename T>
void store_lane(const T* lanes, int64_t lane, int64_t rows, const Matrix2<T>& to) {
  for (int64_t j = 0; j < to.columns; ++j) {
    for (int64_t i = 0; i < to.rows; ++i) to.at(i, j) = lanes[(j * rows + i) * kLanes<T> + lane];
  }
}

// The columns order[j] of a lane, of matrices of `rows` rows.
template <typename T>
void store_columns(const T* lanes, int64_t lane, int64_t rows, const int64_t* order, const Matrix2<T>& to) {
  for (int64_t j = 0; j < to.columns; ++j) {
    for (int64_t i = 0; i < to.rows; ++i) to.at(i, j) = lanes[(order[j] * rows + i) * kLanes<T> + lane];
  }
}

// Which lanes have finite numbers only, of `count` elements each.
template <typename T>
void find_finite_lanes(int64_t count, const T* lanes, bool* finite);

// a (m x n) := l and u, but for the columns of l, whose rows are not exchanged with later pivots: exchange_rows does
// that. Pivots count from 0, min(m, n) for each lane; info is as LAPACK's.
template <typename T>
void factorize_lu_in_lanes(int64_t m, int64_t n, T* a, int32_t* pivots, int32_t* info);

// a (m x n) := r in its upper triangle, Householder vectors below it as LAPACK has them; tau has min(m, n) vectors of
// lanes. sure[l]: whether no square of lane l was so small that it lost digits.
template <typename T>
void factorize_qr_in_lanes(int64_t m, int64_t n, T* a, T* tau, bool* sure);

// q (m x columns), whose first columns are the reflectors that factorize_qr_in_lanes left, := the orthonormal columns.
template <typename T>
void form_q_in_lanes(int64_t m, int64_t columns, int64_t reflectors, T* q, const T* tau);

// Whether rotations of so many matrices side by side, of one group or of all, take less time than LAPACK, to which
// values alone are half the work. A group takes as long with few.
constexpr int64_t kMostRotated = 32;
template <typename T>
bool fits_rotations(int64_t values, bool vectors, int64_t matrices) {
  const int64_t most = sizeof(T) == sizeof(float) || vectors ? kMostRotated : 20;
  return kLanes<T> > 0 && values > 0 && values <= most && matrices >= 4;
}

// a (n x n, of which the lower triangle counts) := its eigenvalues on the diagonal, in no order, by Jacobi's rotations;
// v (n x n, may be nullptr) := the orthonormal eigenvectors in its columns. sure[l]: whether lane l ended with what is
// left beside the diagonal below the unit roundoff of its norm, and no square on the way was out of range.
template <typename T>
void find_eigen_in_lanes(int64_t n, T* a, T* v, bool* sure);

// a (m x n, m >= n) := the left singular vectors in its columns, values (n vectors of lanes) := the singular values, in
// no order, v (n x n) := the right singular vectors in its columns, by Jacobi's rotations of columns. If v is nullptr,
// values are all that is found. sure[l]: whether lane l ended with columns that are orthogonal to rounding, no square
// was out of range, and each vector has its digits: of values that are 0 beside the largest it has none.
template <typename T>
void find_singular_in_lanes(int64_t m, int64_t n, T* a, T* values, T* v, bool* sure);

// In l below its diagonal the exchanges of all steps after a column's own.
template <typename T>
void exchange_rows(const Matrix2<T>& lu, const int32_t* pivots) {
  const int64_t steps = std::min(lu.rows, lu.columns);
  for (int64_t k = 1; k < steps; ++k) {
    if (pivots[k] == k) continue;
    for (int64_t j = 0; j < k; ++j) std::swap(lu.at(k, j), lu.at(pivots[k], j));
  }
}

}  // namespace unihal::stub
