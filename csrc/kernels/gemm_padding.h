// Products of which a library is given longer copies.
//
// Libraries' fast kernels move 16 bytes at a time: they want every line of a matrix in memory (a row, or a column of
// what lies by columns) to begin at a multiple of that and to be such a multiple long. On an H100, cuBLASLt 13 takes
// 3.4 ms for 4096x768 by 768x50257 in bfloat16, and 0.47 ms with 50264 columns. So where the work is worth them,
// operands that are not so get copies with longer lines, and d is copied out of one. What is added along k is zeros,
// so that the sums stay what they are; what is added elsewhere comes to nothing that is copied.
#ifndef UNIHAL_KERNELS_GEMM_PADDING_H_
#define UNIHAL_KERNELS_GEMM_PADDING_H_

#include <cstddef>
#include <cstdint>

#include "csrc/backends/common/matmul_problem.h"
#include "unihal/status.h"

namespace unihal::kernels {

class GemmPadding {
 public:
  // Whether a product is large enough for copies to be worth it.
  static bool is_large_enough(const MatmulProblem& problem);

  // Of a simplified problem that a library takes, whose lines are best multiples of so many bytes (1: of any).
  GemmPadding(const MatmulProblem& problem, int64_t line_bytes);

  // Whether anything is copied. Else the problem is to be run as it is.
  bool is_needed() const { return bytes_ != 0; }

  // Device memory of the copies, a multiple of 256.
  size_t bytes() const { return static_cast<size_t>(bytes_); }

  // The product of the copies, which lie at `memory` (bytes() of it, aligned to 256).
  MatmulProblem product(void* memory) const;

  // Makes the copies of what is read: copy(from, to) copies a view, zero(view) fills one with zeros.
  template <class Copy, class Zero>
  uhal_status prepare(void* memory, const Copy& copy, const Zero& zero) const;

  // Copies d out, if it has a copy.
  template <class Copy>
  uhal_status finish(void* memory, const Copy& copy) const;

 private:
  // A matrix, or a bias of one row, of `rows` x `columns`, as the problem has it and as its copy.
  struct Matrix {
    MatmulOperand operand;
    int64_t rows = 0, columns = 0;
    int64_t copied_rows = 0, copied_columns = 0;
    bool lies_by_rows = true;
    bool is_copied = false;
    int64_t offset = 0;  // of the copy
    int64_t row_stride() const { return lies_by_rows ? copied_columns : 1; }
    int64_t column_stride() const { return lies_by_rows ? 1 : copied_rows; }
    int64_t copied_bytes() const;
  };

  bool find_matrices();
  bool lengthen(int64_t line_bytes);
  bool is_worth_it() const;

  // The first rows x columns elements of a matrix behind (row, column), in its copy.
  static uhal_tensor part(const Matrix& matrix, void* memory, int64_t row, int64_t column, int64_t rows,
                          int64_t columns);
  static uhal_tensor given(const Matrix& matrix);
  template <class Zero>
  static uhal_status zero_the_rest(const Matrix& matrix, void* memory, const Zero& zero);

  MatmulProblem problem_;
  int64_t m_ = 0, n_ = 0, k_ = 0;  // of the copies
  Matrix matrices_[kMatmulOperands];
  int64_t bytes_ = 0;
};

template <class Zero>
uhal_status GemmPadding::zero_the_rest(const Matrix& matrix, void* memory, const Zero& zero) {
  const int64_t rows = matrix.copied_rows - matrix.rows;
  const int64_t columns = matrix.copied_columns - matrix.columns;
  uhal_status status = UHAL_OK;
  if (columns != 0) status = zero(part(matrix, memory, 0, matrix.columns, matrix.copied_rows, columns));
  if (rows != 0 && status == UHAL_OK) status = zero(part(matrix, memory, matrix.rows, 0, rows, matrix.columns));
  return status;
}

template <class Copy, class Zero>
uhal_status GemmPadding::prepare(void* memory, const Copy& copy, const Zero& zero) const {
  for (const int number : {kMatmulA, kMatmulB, kMatmulC}) {
    const Matrix& matrix = matrices_[number];
    if (!matrix.is_copied) continue;
    uhal_status status = copy(given(matrix), part(matrix, memory, 0, 0, matrix.rows, matrix.columns));
    if (status == UHAL_OK) status = zero_the_rest(matrix, memory, zero);
    if (status != UHAL_OK) return status;
  }
  return UHAL_OK;
}

template <class Copy>
uhal_status GemmPadding::finish(void* memory, const Copy& copy) const {
  const Matrix& d = matrices_[kMatmulD];
  return d.is_copied ? copy(part(d, memory, 0, 0, d.rows, d.columns), given(d)) : UHAL_OK;
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_GEMM_PADDING_H_
