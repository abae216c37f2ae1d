// Batches of matrices: what linear algebra loops over, and how a matrix gets into the columns that LAPACK works on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/implementation_note.h"
#include "csrc/backends/common/space.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/lapack/library.h"
#include "stub/ops/copy.h"

namespace unihal::stub {

// One matrix of a batch, by strides in elements.
template <typename T>
struct Matrix2 {
  T* data;
  int64_t rows, columns;
  int64_t row_stride, column_stride;

  T& at(int64_t i, int64_t j) const { return data[i * row_stride + j * column_stride]; }
  Matrix2 transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  // Whether LAPACK can work on it where it lies: columns without gaps between their elements.
  bool in_columns() const {
    return (row_stride == 1 || rows <= 1) && column_stride >= std::max<int64_t>(rows, 1) && column_stride <= INT32_MAX;
  }
};

template <typename T>
T conjugate(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  return x;
}

// A matrix in columns, in memory of its own.
template <typename T>
Matrix2<T> columns_at(T* data, int64_t rows, int64_t columns) {
  return {data, rows, columns, 1, std::max<int64_t>(rows, 1)};
}

// Copies a matrix to another of its shape.
template <typename T>
void copy_matrix(const Matrix2<T>& from, const Matrix2<T>& to) {
  if (from.row_stride == 1 && to.row_stride == 1) {
    for (int64_t j = 0; j < from.columns; ++j) std::copy_n(&from.at(0, j), from.rows, &to.at(0, j));
  } else if (from.row_stride == 1 && to.column_stride == 1) {
    transpose_elements(from.rows, from.columns, sizeof(T), to.data, to.row_stride, from.data, from.column_stride);
  } else if (from.column_stride == 1 && to.row_stride == 1) {
    transpose_elements(from.columns, from.rows, sizeof(T), to.data, to.column_stride, from.data, from.row_stride);
  } else {
    for (int64_t i = 0; i < from.rows; ++i) {
      for (int64_t j = 0; j < from.columns; ++j) to.at(i, j) = from.at(i, j);
    }
  }
}

// Fills what lies below the diagonal.
template <typename T>
void fill_below(const Matrix2<T>& a, T value) {
  for (int64_t i = 1; i < a.rows; ++i) {
    for (int64_t j = 0; j < std::min(i, a.columns); ++j) a.at(i, j) = value;
  }
}

template <typename T>
void fill_matrix(const Matrix2<T>& a, T value) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) a.at(i, j) = value;
  }
}

template <typename T>
void fill_identity(const Matrix2<T>& a) {
  fill_matrix(a, T(0));
  for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) a.at(i, i) = T(1);
}

// Of adjacent numbers, all of which are looked at: such loops run on vectors.
template <typename T>
bool are_finite(int64_t count, const T* numbers) {
  const auto* parts = reinterpret_cast<const Real<T>*>(numbers);
  int outside = 0;
  for (int64_t i = 0; i < count * (kIsComplex<T> ? 2 : 1); ++i) {
    outside |= std::abs(parts[i]) <= std::numeric_limits<Real<T>>::max() ? 0 : 1;
  }
  return outside == 0;
}

// Of a matrix in columns.
template <typename T>
bool is_finite(const Matrix2<T>& a) {
  for (int64_t j = 0; j < a.columns; ++j) {
    if (!are_finite(a.rows, &a.at(0, j))) return false;
  }
  return true;
}

template <typename T>
constexpr Real<T> not_a_number() {
  return std::numeric_limits<Real<T>>::quiet_NaN();
}

// The operands of an op on matrices: the first operand's matrices, and where those of the others begin.
class MatrixBatch {
 public:
  // `own[i]`: how many of operand i's axes are each matrix' own (2 of a matrix, 1 of a vector, 0 of a number). Absent
  // operands (nullptr) are skipped. The operands' batches broadcast to the first one's.
  MatrixBatch(const uhal_tensor* const* operands, const int* own, int count) {
    const uhal_tensor* views[kMaxOperands];
    for (int i = 0; i < count; ++i) {
      batches_[i] = *(operands[i] != nullptr ? operands[i] : operands[0]);
      batches_[i].rank -= operands[i] != nullptr ? own[i] : own[0];
      views[i] = &batches_[i];
    }
    space_ = make_space(views, count);
  }

  int64_t count() const { return space_.count; }

  // Calls body(cursor) for each matrix, whose cost is `work` units: on several threads where there are enough of them,
  // else one after the other with LAPACK on all threads.
  template <class Body>
  void for_each(double work, const Body& body) const {
    if (space_.count == 0) return;
    const int threads = kThreads ? omp_get_max_threads() : 1;
    const int64_t units = work_units(work);
    const bool side_by_side = space_.count >= threads;
    set_lapack_threads(side_by_side ? 1 : threads);
    const auto range = [&](int64_t begin, int64_t end) {
      Cursor cursor(space_, begin);
      for (; begin < end; ++begin, cursor.advance(1)) body(static_cast<const Cursor&>(cursor));
    };
    if (side_by_side) {
      parallel_for(space_.count, units, range);
    } else {
      range(0, space_.count);
    }
  }

  // Calls body(cursor, matrices) for each group of `most` matrices but the last one, which may have fewer: where they
  // begin does not depend on the threads.
  template <class Body>
  void for_each_group(int64_t most, double work, const Body& body) const {
    set_lapack_threads(1);
    parallel_for(space_.count, work_units(work), most, [&](int64_t begin, int64_t end) {
      Cursor cursor(space_, begin);
      while (begin < end) {
        const int64_t matrices = std::min(most, end - begin);
        body(static_cast<const Cursor&>(cursor), matrices);
        cursor.skip(matrices);
        begin += matrices;
      }
    });
  }

 private:
  static constexpr int kMaxOperands = 6;
  static int64_t work_units(double work) { return static_cast<int64_t>(std::min(work, 1e15)) + 1; }
  uhal_tensor batches_[kMaxOperands];
  Space space_;
};

// The matrix of an operand at an offset of a batch.
template <typename T>
Matrix2<T> matrix_of(const uhal_tensor& view, int64_t offset) {
  const int r = view.rank;
  return {static_cast<T*>(view.data) + offset, view.shape[r - 2], view.shape[r - 1],
          view.shape[r - 2] == 1 ? 1 : view.strides[r - 2], view.strides[r - 1]};
}

// An operand of one axis for each matrix.
template <typename T>
struct Vector1 {
  T* data;
  int64_t stride;
  T& operator[](int64_t i) const { return data[i * stride]; }
};
template <typename T>
Vector1<T> vector_of(const uhal_tensor& view, int64_t offset) {
  return {static_cast<T*>(view.data) + offset, view.strides[view.rank - 1]};
}

inline int64_t rows_of(const uhal_tensor& view) { return view.shape[view.rank - 2]; }
inline int64_t columns_of(const uhal_tensor& view) { return view.shape[view.rank - 1]; }

// Calls function(T()) with the type of a dtype that linear algebra takes.
template <class Function>
uhal_status with_number_type(uhal_dtype dtype, const Function& function) {
  switch (dtype) {
    case UHAL_FLOAT32:
      return function(float());
    case UHAL_FLOAT64:
      return function(double());
    case UHAL_COMPLEX64:
      return function(std::complex<float>());
    default:
      return function(std::complex<double>());
  }
}

// nullptr, or why an op on these matrices is not run: LAPACK counts in 32 bits.
inline const char* refuse_long_sides(const uhal_op& op) {
  for (int i = 0; i < op.input_count; ++i) {
    const uhal_tensor& view = *op.inputs[i];
    if (std::max(rows_of(view), columns_of(view)) > INT32_MAX) {
      return refusal("matrices have at most 2^31 - 1 rows and columns");
    }
  }
  return nullptr;
}

// The same for what only LAPACK computes.
inline const char* refuse_without_lapack(const uhal_op& op, const char* what) {
  if (lapack<float>() == nullptr) return refusal("%s are computed by LAPACK; here are %s", what, lapack_description());
  return refuse_long_sides(op);
}

inline uhal_status fail_without_memory() {
  return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for a copy of a matrix");
}

// What a workspace query gave, as a number of elements.
template <typename T>
int32_t work_size(const T& answer) {
  const double size = std::real(answer);
  // float32 rounds large numbers, perhaps downward.
  return static_cast<int32_t>(std::clamp(size * (1 + 1e-6) + 1, 1.0, double(INT32_MAX)));
}

}  // namespace unihal::stub
