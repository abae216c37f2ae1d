// What runs a matrix product, besides gemm.h.
#pragma once

#include "csrc/backends/common/matmul_problem.h"
#include "stub/common/kernels.h"

namespace unihal::stub {

// Runs a float32 problem with oneDNN. False, with *status untouched, if oneDNN is not there, cannot do it, or would
// take longer than gemm().
bool matmul_with_onednn(const Launch& launch, const MatmulProblem& problem, uhal_status* status);

}  // namespace unihal::stub
