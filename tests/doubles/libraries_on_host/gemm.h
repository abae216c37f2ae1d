// The product of BLAS, element by element: D = alpha * op(A) op(B) + beta * C, of matrices by columns.
#pragma once

#include "tests/doubles/libraries_on_host/element.h"

namespace on_host {

struct Matrix {
  const void* data = nullptr;
  int type = kFloat;
  bool transposed = false;
  int64_t leading = 0;
  int64_t stride = 0;  // of a batch

  double at(int64_t row, int64_t column, int64_t batch) const {
    const int64_t place = transposed ? column + row * leading : row + column * leading;
    return read(data, place + batch * stride, type);
  }
};

// `finish(value, row)` makes what is stored of a sum.
template <class Finish>
void multiply(int64_t m, int64_t n, int64_t k, int64_t batch, double alpha, const Matrix& a, const Matrix& b,
              double beta, const Matrix& c, void* d, const Matrix& d_layout, const Finish& finish) {
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t column = 0; column < n; ++column) {
      for (int64_t row = 0; row < m; ++row) {
        double sum = 0;
        for (int64_t term = 0; term < k; ++term) sum += a.at(row, term, i) * b.at(term, column, i);
        const double value = alpha * sum + (beta != 0 ? beta * c.at(row, column, i) : 0);
        write(d, row + column * d_layout.leading + i * d_layout.stride, d_layout.type, finish(value, row));
      }
    }
  }
}

}  // namespace on_host
