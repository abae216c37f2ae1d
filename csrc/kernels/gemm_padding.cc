#include "csrc/kernels/gemm_padding.h"

#include <algorithm>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/quotient.h"

namespace unihal::kernels {
namespace {

// Below so many multiplications, or so few for each byte that the copies read and write, the copies cost what they
// bring. On an H100 the slow kernels do 5e13 multiplications a second in 16 bits and 3e13 in TF32, the fast ones five
// and three times as many, and a copy moves 2.5e12 bytes; a launch takes 5 us.
constexpr int64_t kLeastWork = int64_t{1} << 31;
constexpr int64_t kLeastWorkOfByte = 64;

}  // namespace

int64_t GemmPadding::Matrix::copied_bytes() const { return copied_rows * copied_columns * dtype_size(operand.dtype); }

bool GemmPadding::is_large_enough(const MatmulProblem& problem) {
  return problem.m * problem.n * problem.k >= kLeastWork;
}

GemmPadding::GemmPadding(const MatmulProblem& problem, int64_t line_bytes) : problem_(problem) {
  m_ = problem.m;
  n_ = problem.n;
  k_ = problem.k;
  if (line_bytes <= 1 || problem.batch_rank != 0 || !is_large_enough(problem)) return;
  if (!find_matrices() || !lengthen(line_bytes) || !is_worth_it()) return;
  for (Matrix& matrix : matrices_) {
    if (!matrix.is_copied) continue;
    matrix.offset = bytes_;
    bytes_ += aligned_bytes(matrix.copied_bytes());
  }
}

// False where a matrix has no lines, or where c is one that d is added to.
bool GemmPadding::find_matrices() {
  const MatmulOperand* operands = problem_.operands;
  const auto take = [&](int number, int64_t rows, int64_t columns) {
    Matrix& matrix = matrices_[number];
    matrix.operand = operands[number];
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.lies_by_rows = columns == 1 || operands[number].column_stride == 1;
    return matrix.lies_by_rows || rows == 1 || operands[number].row_stride == 1;
  };
  if (problem_.beta != 0) {
    const MatmulOperand& bias = operands[kMatmulC];
    if (bias.row_stride != 0 || bias.column_stride != 1) return false;
    take(kMatmulC, 1, problem_.n);
  }
  return take(kMatmulA, problem_.m, problem_.k) && take(kMatmulB, problem_.k, problem_.n) &&
         take(kMatmulD, problem_.m, problem_.n);
}

// Makes longer what lies along a line of the wrong length. False if nothing does, and every line begins where it
// should.
bool GemmPadding::lengthen(int64_t line_bytes) {
  int64_t smallest = dtype_size(problem_.operands[kMatmulD].dtype);
  for (const int number : {kMatmulA, kMatmulB})
    smallest = std::min(smallest, dtype_size(matrices_[number].operand.dtype));
  const int64_t elements = line_bytes / smallest;
  // What the rows and the columns of each are.
  int64_t* const extents[kMatmulOperands][2] = {{&m_, &k_}, {&k_, &n_}, {nullptr, &n_}, {&m_, &n_}};
  bool is_any = false;
  for (const int number : {kMatmulA, kMatmulB, kMatmulD}) {
    Matrix& matrix = matrices_[number];
    int64_t& length = *extents[number][matrix.lies_by_rows ? 1 : 0];
    const int64_t pitch = matrix.lies_by_rows ? matrix.operand.row_stride : matrix.operand.column_stride;
    const bool has_lines = (matrix.lies_by_rows ? matrix.rows : matrix.columns) > 1;
    const int64_t size = dtype_size(matrix.operand.dtype);
    const auto place = reinterpret_cast<uintptr_t>(matrix.operand.data);
    matrix.is_copied = (has_lines && pitch * size % line_bytes != 0) || place % static_cast<uintptr_t>(line_bytes) != 0;
    length = quotient_up(length, elements) * elements;
    is_any |= matrix.is_copied;
  }
  for (int number = 0; number < kMatmulOperands; ++number) {
    Matrix& matrix = matrices_[number];
    if (matrix.rows == 0) continue;  // no c
    matrix.copied_rows = number == kMatmulC ? 1 : *extents[number][0];
    matrix.copied_columns = *extents[number][1];
    matrix.is_copied |= matrix.copied_rows != matrix.rows || matrix.copied_columns != matrix.columns;
    is_any |= matrix.is_copied;
  }
  return is_any;
}

bool GemmPadding::is_worth_it() const {
  int64_t bytes = 0;  // that copies read and write
  for (const Matrix& matrix : matrices_) {
    if (matrix.is_copied) bytes += 2 * matrix.copied_bytes();
  }
  return problem_.m * problem_.n * problem_.k / kLeastWorkOfByte >= bytes;
}

MatmulProblem GemmPadding::product(void* memory) const {
  MatmulProblem product = problem_;
  product.m = m_;
  product.n = n_;
  product.k = k_;
  for (int number = 0; number < kMatmulOperands; ++number) {
    const Matrix& matrix = matrices_[number];
    if (!matrix.is_copied) continue;
    MatmulOperand& operand = product.operands[number];
    operand.data = static_cast<char*>(memory) + matrix.offset;
    operand.row_stride = number == kMatmulC ? 0 : matrix.row_stride();
    operand.column_stride = matrix.column_stride();
  }
  return product;
}

uhal_tensor GemmPadding::part(const Matrix& matrix, void* memory, int64_t row, int64_t column, int64_t rows,
                              int64_t columns) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.dtype = matrix.operand.dtype;
  view.rank = 2;
  view.shape[0] = rows;
  view.shape[1] = columns;
  view.strides[0] = matrix.row_stride();
  view.strides[1] = matrix.column_stride();
  const int64_t place = row * matrix.row_stride() + column * matrix.column_stride();
  view.data = static_cast<char*>(memory) + matrix.offset + place * dtype_size(view.dtype);
  return view;
}

uhal_tensor GemmPadding::given(const Matrix& matrix) {
  uhal_tensor view = part(matrix, nullptr, 0, 0, matrix.rows, matrix.columns);
  view.data = matrix.operand.data;
  view.strides[0] = matrix.operand.row_stride;
  view.strides[1] = matrix.operand.column_stride;
  return view;
}

}  // namespace unihal::kernels
