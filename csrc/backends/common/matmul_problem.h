// A matrix product in its simplest form, between an op and what runs it.
#pragma once

#include "unihal/op.h"

namespace unihal {

enum { kMatmulA, kMatmulB, kMatmulC, kMatmulD, kMatmulOperands };

// A matrix, or a batch of them, by strides in elements. Any strides: 0 where a or b or c is broadcast, negative too.
struct MatmulOperand {
  void* data = nullptr;  // nullptr: an absent c
  uhal_dtype dtype = UHAL_DTYPE_INVALID;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  int64_t batch_strides[UHAL_MAX_RANK] = {};
};

// d[batch...] = activation(alpha * a[batch...] @ b[batch...] + beta * c[batch...]): a is m x k, b k x n, c and d m x n.
struct MatmulProblem {
  int64_t m = 0, n = 0, k = 0;
  int batch_rank = 0;
  int64_t batch[UHAL_MAX_RANK];
  MatmulOperand operands[kMatmulOperands];
  double alpha = 1;
  double beta = 0;  // 0 without c
  uhal_activation activation = UHAL_ACTIVATION_NONE;
  uhal_math_mode math_mode = UHAL_MATH_STRICT;  // another one only where a and b are float32

  int64_t batch_count() const {
    int64_t count = 1;
    for (int i = 0; i < batch_rank; ++i) count *= batch[i];
    return count;
  }
};

// The attributes of a matmul.
uhal_matmul_attributes matmul_attributes(const uhal_op& op);

// The problem of a matmul's views. `c` may be nullptr.
MatmulProblem matmul_problem(const uhal_matmul_attributes& attributes, const uhal_tensor& a, const uhal_tensor& b,
                             const uhal_tensor* c, const uhal_tensor& d);

// Drops batch axes of length 1, joins those that lie one inside the other, makes the innermost one part of the rows
// where b is the same for all of it (one large product is faster than many small ones), and transposes where d is
// column-major: d^T = b^T @ a^T.
void simplify(MatmulProblem& problem);

// d^T = b^T @ a^T: the same numbers from swapped operands.
void transpose(MatmulProblem& problem);

// Why no device runs a matmul: nullptr, or a static text.
const char* refuse_matmul_operands(const uhal_op& op);

}  // namespace unihal
