// Products of numbers that oneDNN has not, float64 and complex ones, with the BLAS below LAPACK.
//
// BLAS has matrices in columns: a d in rows is the d^T = b^T a^T of columns.
#include <algorithm>
#include <complex>

#include "csrc/backends/common/implementation_note.h"
#include "stub/common/activation.h"
#include "stub/common/parallel.h"
#include "stub/lapack/library.h"
#include "stub/ops/matmul.h"

namespace unihal::stub {
namespace {

// Multiplications from which packing for BLAS pays.
constexpr int64_t kWorthIt = 1 << 12;

// A matrix in columns as BLAS takes it; `usable` is false if its strides are others.
struct Columns {
  bool usable = false;
  char transposed = 'N';
  int32_t leading = 1;
};

Columns columns_of(const MatmulOperand& operand, int64_t rows, int64_t columns) {
  const auto fits = [](int64_t stride, int64_t inner, int64_t outer, int64_t length) {
    return (inner == 1 || length <= 1) && (stride >= length || outer <= 1) && stride <= INT32_MAX;
  };
  Columns found;
  if (fits(operand.row_stride, operand.column_stride, rows, columns)) {  // rows, which are the columns of its transpose
    found = {true, 'N', static_cast<int32_t>(std::max({operand.row_stride, columns, int64_t{1}}))};
  } else if (fits(operand.column_stride, operand.row_stride, columns, rows)) {
    found = {true, 'T', static_cast<int32_t>(std::max({operand.column_stride, rows, int64_t{1}}))};
  }
  return found;
}

bool is_same_view(const MatmulProblem& problem) {
  const MatmulOperand &c = problem.operands[kMatmulC], &d = problem.operands[kMatmulD];
  return c.data == d.data && c.row_stride == d.row_stride && c.column_stride == d.column_stride &&
         std::equal(c.batch_strides, c.batch_strides + problem.batch_rank, d.batch_strides);
}

template <typename T>
void copy_c(const MatmulProblem& problem, const T* c, T* d) {
  const MatmulOperand &from = problem.operands[kMatmulC], &to = problem.operands[kMatmulD];
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < problem.n; ++j)
      d[i * to.row_stride + j * to.column_stride] = c[i * from.row_stride + j * from.column_stride];
  }
}

// A product of a matrix and a column: d (m) = a (m x k) @ b (k), all strides in elements.
template <typename T>
struct VectorProduct {
  int32_t rows = 0, columns = 0;  // of the matrix as BLAS sees it
  char transposed = 'N';
  int32_t leading = 1;
  int32_t x_step = 1, y_step = 1;
  bool usable = false;
};

// Of a problem with one row or one column, where the strides are those of BLAS.
template <typename T>
VectorProduct<T> vector_product(const MatmulProblem& problem, const Columns& a, const Columns& b) {
  VectorProduct<T> product;
  const bool column = problem.n == 1;
  if (!column && problem.m != 1) return product;
  const Columns& matrix = column ? a : b;
  const MatmulOperand& x = problem.operands[column ? kMatmulB : kMatmulA];
  const MatmulOperand& y = problem.operands[kMatmulD];
  const int64_t x_step = problem.k == 1 ? 1 : column ? x.row_stride : x.column_stride;
  const int64_t y_length = column ? problem.m : problem.n;
  const int64_t y_step = y_length == 1 ? 1 : column ? y.row_stride : y.column_stride;
  const auto is_step = [](int64_t step) { return step > 0 && step <= INT32_MAX; };
  if (!matrix.usable || !is_step(x_step) || !is_step(y_step)) return product;
  // In rows a (m x k) is k x m in columns, and b (k x n) is n x k.
  const bool in_rows = matrix.transposed == 'N';
  const auto k = static_cast<int32_t>(problem.k), length = static_cast<int32_t>(y_length);
  product.rows = in_rows == column ? k : length;
  product.columns = in_rows == column ? length : k;
  product.transposed = in_rows == column ? 'T' : 'N';
  product.leading = matrix.leading;
  product.x_step = static_cast<int32_t>(x_step);
  product.y_step = static_cast<int32_t>(y_step);
  product.usable = true;
  return product;
}

template <typename T>
void multiply_vector(const Lapack<T>& library, const VectorProduct<T>& product, T alpha, T beta, const T* matrix,
                     const T* x, T* y) {
  if (beta == T(0)) {  // what lies there may be NaN
    const int64_t length = product.transposed == 'T' ? product.columns : product.rows;
    for (int64_t i = 0; i < length; ++i) y[i * product.y_step] = T(0);
  }
  library.gemv(&product.transposed, &product.rows, &product.columns, &alpha, matrix, &product.leading, x,
               &product.x_step, &beta, y, &product.y_step, 1);
}

template <typename T>
void activate_all(const MatmulProblem& problem, T* d) {
  if constexpr (!kIsComplex<T>) {
    const MatmulOperand& to = problem.operands[kMatmulD];
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        T& element = d[i * to.row_stride + j * to.column_stride];
        element = activate(problem.activation, element);
      }
    }
  }
}

}  // namespace

template <typename T>
bool matmul_with_blas(const MatmulProblem& problem) {
  const Lapack<T>* library = lapack<T>();
  if (library == nullptr || library->gemm == nullptr || problem.alpha == 0 || problem.k == 0) return false;
  if (std::max({problem.m, problem.n, problem.k}) > INT32_MAX) return false;
  if (problem.m * problem.n < kWorthIt && problem.m * problem.n * problem.k < kWorthIt) return false;
  const Columns a = columns_of(problem.operands[kMatmulA], problem.m, problem.k);
  const Columns b = columns_of(problem.operands[kMatmulB], problem.k, problem.n);
  const Columns d = columns_of(problem.operands[kMatmulD], problem.m, problem.n);
  const VectorProduct<T> vector = vector_product<T>(problem, a, b);
  if (!vector.usable && (!a.usable || !b.usable || !d.usable || d.transposed != 'N')) return false;
  note_implementation(host(), "%s", lapack_description());
  const bool copies = problem.beta != 0 && !is_same_view(problem);
  const auto m = static_cast<int32_t>(problem.m), n = static_cast<int32_t>(problem.n);
  const auto k = static_cast<int32_t>(problem.k);
  const T alpha = static_cast<Real<T>>(problem.alpha), beta = static_cast<Real<T>>(problem.beta);
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      T* data[kMatmulOperands];
      for (int i = 0; i < kMatmulOperands; ++i) {
        data[i] = static_cast<T*>(problem.operands[i].data);
        int64_t rest = index;
        for (int axis = problem.batch_rank - 1; axis >= 0 && data[i] != nullptr; --axis) {
          data[i] += rest % problem.batch[axis] * problem.operands[i].batch_strides[axis];
          rest /= problem.batch[axis];
        }
      }
      if (copies) copy_c(problem, data[kMatmulC], data[kMatmulD]);
      if (vector.usable) {
        const bool column = problem.n == 1;
        multiply_vector(*library, vector, alpha, beta, data[column ? kMatmulA : kMatmulB],
                        data[column ? kMatmulB : kMatmulA], data[kMatmulD]);
      } else {
        library->gemm(&b.transposed, &a.transposed, &n, &m, &k, &alpha, data[kMatmulB], &b.leading, data[kMatmulA],
                      &a.leading, &beta, data[kMatmulD], &d.leading, 1, 1);
      }
      if (problem.activation != UHAL_ACTIVATION_NONE) activate_all(problem, data[kMatmulD]);
    }
  };
  const int threads = kThreads ? omp_get_max_threads() : 1;
  const int64_t count = problem.batch_count();
  set_lapack_threads(count >= threads ? 1 : threads);
  if (count >= threads) {
    parallel_for(count, problem.m * problem.n * problem.k / 8 + 1, range);
  } else {
    range(0, count);
  }
  return true;
}

template bool matmul_with_blas<double>(const MatmulProblem&);
template bool matmul_with_blas<std::complex<float>>(const MatmulProblem&);
template bool matmul_with_blas<std::complex<double>>(const MatmulProblem&);

}  // namespace unihal::stub
