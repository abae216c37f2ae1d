// What runs a matrix product, besides gemm.h.
#pragma once

#include "csrc/backends/common/matmul_problem.h"
#include "stub/common/kernels.h"

namespace unihal::stub {

// Runs a float32 problem with oneDNN. False, with *status untouched, if oneDNN is not there, cannot do it, or would
// take longer than gemm().
bool matmul_with_onednn(const MatmulProblem& problem, uhal_status* status);

// Runs a float32 problem, whose result has elements, with whatever is fastest.
uhal_status matmul_float32(MatmulProblem problem);

// Whether products of bytes into m x n are fastest as such.
bool has_byte_products(int64_t m, int64_t n);

// Runs a problem of the simplest form whose operands are of one byte and whose result is of int32, without alpha, beta
// and c. False, with *status untouched, where there are no products of bytes.
bool matmul_of_bytes(const MatmulProblem& problem, uhal_status* status);

// Runs a problem of the simplest form with BLAS, all of whose operands are of T. False if there is none, the strides
// are not its own, or the problem is too small. Instantiated for double and the complex numbers.
template <typename T>
bool matmul_with_blas(const MatmulProblem& problem);

// Runs a problem of the simplest form whose operands are of complex numbers with parts of R, in vectors of 64 bytes.
// False if this processor has none, or BLAS is faster.
template <typename R>
bool matmul_of_complex(const MatmulProblem& problem);

}  // namespace unihal::stub
