#include "csrc/backends/gpu/blas_problem.h"

#include <algorithm>

namespace unihal::gpu {
namespace {

constexpr BlasTypes kTypes[] = {
    {UHAL_FLOAT32, UHAL_FLOAT32, UHAL_FLOAT32},   {UHAL_FLOAT64, UHAL_FLOAT64, UHAL_FLOAT64},
    {UHAL_FLOAT16, UHAL_FLOAT16, UHAL_FLOAT32},   {UHAL_FLOAT16, UHAL_FLOAT32, UHAL_FLOAT32},
    {UHAL_BFLOAT16, UHAL_BFLOAT16, UHAL_FLOAT32}, {UHAL_BFLOAT16, UHAL_FLOAT32, UHAL_FLOAT32},
    {UHAL_INT8, UHAL_INT32, UHAL_INT32},
};

// The longest sum of products of int8 that no int32 overflows, so that it wraps nowhere.
constexpr int64_t kLongestInt8Sum = INT32_MAX / (128 * 128);

// A row-major matrix is a column-major one of the transposed; so rows of the problem become columns here.
bool make_matrix(const MatmulOperand& operand, int64_t rows, int64_t columns, int batch_rank, BlasMatrix* matrix) {
  matrix->data = operand.data;
  matrix->dtype = operand.dtype;
  matrix->batch_stride = batch_rank == 0 ? 0 : operand.batch_strides[0];
  if (matrix->batch_stride < 0) return false;
  const bool by_rows = (columns == 1 || operand.column_stride == 1) &&
                       (rows == 1 || operand.row_stride >= std::max<int64_t>(columns, 1));
  const bool by_columns = (rows == 1 || operand.row_stride == 1) && (columns == 1 || operand.column_stride >= rows);
  if (!by_rows && !by_columns) return false;
  matrix->transposed = !by_rows;
  if (by_rows) {
    matrix->leading = rows == 1 ? columns : operand.row_stride;
  } else {
    matrix->leading = columns == 1 ? rows : operand.column_stride;
  }
  return true;
}

}  // namespace

int64_t BlasProblem::stored_rows(int operand) const {
  const bool transposed = operands[operand].transposed;
  if (operand == kBlasA) return transposed ? k : m;
  if (operand == kBlasB) return transposed ? n : k;
  return m;
}

int64_t BlasProblem::stored_columns(int operand) const {
  const bool transposed = operands[operand].transposed;
  if (operand == kBlasA) return transposed ? m : k;
  if (operand == kBlasB) return transposed ? k : n;
  return n;
}

bool make_blas_problem(const MatmulProblem& problem, BlasProblem* result) {
  if (problem.batch_rank > 1 || problem.m == 0 || problem.n == 0 || problem.k == 0) return false;
  BlasProblem blas;
  blas.m = problem.n;
  blas.n = problem.m;
  blas.k = problem.k;
  blas.batch = problem.batch_count();
  blas.alpha = problem.alpha;
  blas.math_mode = problem.math_mode;
  blas.beta = problem.beta;
  blas.activation = problem.activation;
  const MatmulOperand* operands = problem.operands;
  const int batch_rank = problem.batch_rank;
  BlasMatrix* matrices = blas.operands;
  if (!make_matrix(operands[kMatmulB], problem.k, problem.n, batch_rank, &matrices[kBlasA])) return false;
  if (!make_matrix(operands[kMatmulA], problem.m, problem.k, batch_rank, &matrices[kBlasB])) return false;
  if (!make_matrix(operands[kMatmulD], problem.m, problem.n, batch_rank, &matrices[kBlasD])) return false;
  if (matrices[kBlasD].transposed || (blas.batch > 1 && matrices[kBlasD].batch_stride == 0)) return false;
  matrices[kBlasC] = matrices[kBlasD];
  if (problem.beta != 0) {
    const MatmulOperand& c = operands[kMatmulC];
    const bool is_row = problem.m > 1 && c.row_stride == 0 && (problem.n == 1 || c.column_stride == 1) &&
                        (batch_rank == 0 || c.batch_strides[0] == 0);
    if (is_row) {
      if (problem.beta != 1 || c.dtype != operands[kMatmulD].dtype) return false;
      blas.has_bias = true;
      blas.bias = c.data;
      blas.beta = 0;
    } else if (!make_matrix(c, problem.m, problem.n, batch_rank, &matrices[kBlasC]) || matrices[kBlasC].transposed) {
      return false;
    }
  }
  *result = blas;
  return true;
}

bool find_blas_types(const BlasProblem& problem, BlasTypes* types) {
  const BlasMatrix* operands = problem.operands;
  if (operands[kBlasA].dtype != operands[kBlasB].dtype || operands[kBlasC].dtype != operands[kBlasD].dtype)
    return false;
  for (const BlasTypes& row : kTypes) {
    if (row.input != operands[kBlasA].dtype || row.output != operands[kBlasD].dtype) continue;
    const bool is_integer = row.compute == UHAL_INT32;
    if (is_integer && (problem.k > kLongestInt8Sum || problem.alpha != 1 || problem.beta != 0 || problem.has_bias)) {
      return false;
    }
    *types = row;
    return true;
  }
  return false;
}

int cuda_data_type(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
      return 1;
    case UHAL_FLOAT16:
      return 2;
    case UHAL_INT8:
      return 3;
    case UHAL_INT32:
      return 10;
    case UHAL_BFLOAT16:
      return 14;
    default:
      return 0;
  }
}

BlasScalar::BlasScalar(double value, uhal_dtype type) : bits(0) {
  if (type == UHAL_FLOAT64) {
    as_double = value;
  } else if (type == UHAL_INT32) {
    as_int32 = static_cast<int32_t>(value);
  } else {
    as_float = static_cast<float>(value);
  }
}

uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(value & -value);
}

BlasKey key_of(const BlasProblem& problem) {
  BlasKey key = {problem.m, problem.n, problem.k, problem.batch};
  size_t at = 4;
  for (const BlasMatrix& matrix : problem.operands) {
    key[at++] = matrix.leading;
    key[at++] = matrix.batch_stride;
    key[at++] = matrix.dtype | int64_t{matrix.transposed} << 8 | int64_t{alignment_of(matrix.data)} << 16;
  }
  key[at++] = problem.activation;
  key[at++] = problem.math_mode;
  key[at++] = problem.has_bias;
  key[at++] = problem.beta != 0;
  return key;
}

size_t BlasKeyHash::operator()(const BlasKey& key) const {
  uint64_t hash = 0;
  for (const int64_t word : key) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

bool can_begin_again(const BlasProblem& problem) {
  return problem.beta == 0 || problem.operands[kBlasC].data != problem.operands[kBlasD].data;
}

}  // namespace unihal::gpu
