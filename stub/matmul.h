// A matrix product in its simplest form, between matmul.cc and what runs it.
#pragma once

#include "stub/kernels.h"

namespace unihal::stub {

enum { kMatmulA, kMatmulB, kMatmulC, kMatmulD, kMatmulOperands };

struct MatmulOperand {
  void* data = nullptr;  // nullptr: an absent c
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  int64_t batch_strides[UHAL_MAX_RANK] = {};  // 0 where it is broadcast
};

// d[batch...] = activation(alpha * a[batch...] @ b[batch...] + beta * c[batch...]), all of one dtype.
struct MatmulProblem {
  int64_t m, n, k;
  int batch_rank = 0;
  int64_t batch[UHAL_MAX_RANK];
  MatmulOperand operands[kMatmulOperands];
  double alpha = 1;
  double beta = 0;  // 0 without c
  uhal_activation activation = UHAL_ACTIVATION_NONE;

  int64_t batch_count() const {
    int64_t count = 1;
    for (int i = 0; i < batch_rank; ++i) count *= batch[i];
    return count;
  }
};

// Runs a float32 problem with oneDNN. False, with *status untouched, if oneDNN is not there, cannot do it, or would
// take longer than gemm().
bool matmul_with_onednn(const Launch& launch, const MatmulProblem& problem, uhal_status* status);

}  // namespace unihal::stub
