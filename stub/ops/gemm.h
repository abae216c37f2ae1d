// Our own matrix product: for small matrices, for dtypes that oneDNN has not, and for hosts without oneDNN.
#pragma once

#include "unihal/op.h"

namespace unihal::stub {

// A matrix by its first element and strides in elements; both strides may be anything.
template <typename T>
struct Matrix {
  T* data;
  int64_t row_stride;
  int64_t column_stride;

  T& at(int64_t row, int64_t column) const { return data[row * row_stride + column * column_stride]; }
};

// What becomes of the product: d = activation(alpha * a @ b + beta * c).
template <typename T>
struct Epilogue {
  T alpha = 1;
  T beta = 0;
  Matrix<const T> c = {};  // read only if beta is not 0; may be d itself
  uhal_activation activation = UHAL_ACTIVATION_NONE;
};

// d (m x n) = epilogue(a (m x k) @ b (k x n)), on all cores if that pays. Instantiated for float, double and int64_t.
// False when there is no memory for the packed blocks.
template <typename T>
bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, Matrix<T> d,
          const Epilogue<T>& epilogue);

// b (k x n) once and for all, for products with few rows at a time: panels of columns, each with its depth outermost.
template <typename T>
int64_t packed_elements(int64_t n, int64_t k);
template <typename T>
void pack_columns(int64_t n, int64_t k, Matrix<const T> b, T* packed);

// d (m x n) = a (m x k) @ b, or d + a @ b; rows are so many elements apart, their elements adjacent. On all cores if
// that pays and the caller is not one of several already. An element's sum has one order, whatever m is.
template <typename T>
struct RowsProduct {
  int64_t m, n, k;
  const T* a;
  int64_t a_stride;
  const T* packed;
  T* d;
  int64_t d_stride;
  bool add;
};
template <typename T>
void multiply_rows(const RowsProduct<T>& product);

}  // namespace unihal::stub
