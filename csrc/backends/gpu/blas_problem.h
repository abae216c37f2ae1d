// A product as BLAS is told of it. BLAS stores matrices by columns, so it is given d^T = b^T @ a^T: what is called A
// here is the problem's b, what is called B its a, and M its n.
#pragma once

#include <array>
#include <cstdint>

#include "csrc/backends/common/matmul_problem.h"

namespace unihal::gpu {

enum { kBlasA, kBlasB, kBlasC, kBlasD, kBlasOperands };

// A matrix by columns of `leading` elements each, read transposed or as it is.
struct BlasMatrix {
  void* data = nullptr;
  uhal_dtype dtype = UHAL_DTYPE_INVALID;
  bool transposed = false;
  int64_t leading = 0;
  int64_t batch_stride = 0;
};

struct BlasProblem {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  BlasMatrix operands[kBlasOperands];  // C is D where there is none
  const void* bias = nullptr;          // m elements of D's dtype, added to each column; nullptr: none
  bool has_bias = false;
  double alpha = 1;
  double beta = 0;  // of C
  uhal_activation activation = UHAL_ACTIVATION_NONE;
  uhal_math_mode math_mode = UHAL_MATH_STRICT;

  // Of the columns and rows that an operand has in memory.
  int64_t stored_rows(int operand) const;
  int64_t stored_columns(int operand) const;
};

// False for what BLAS cannot be told: strides that are no leading dimension, more than one axis of batch, a c that is
// neither a row nor a matrix as d.
bool make_blas_problem(const MatmulProblem& problem, BlasProblem* result);

// The types that a product is computed in.
struct BlasTypes {
  uhal_dtype input, output, compute;
};

// Those that the libraries know, in the arithmetic of op.h. False for others.
bool find_blas_types(const BlasProblem& problem, BlasTypes* types);

// cudaDataType and hipDataType.
int cuda_data_type(uhal_dtype dtype);

// The factors as the library reads them: in the type of the computation.
struct BlasScalar {
  BlasScalar(double value, uhal_dtype type);
  const void* data() const { return &bits; }
  union {
    float as_float;
    double as_double;
    int32_t as_int32;
    uint64_t bits;
  };
};

// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* address);

// All that a library's choice of an algorithm depends on.
using BlasKey = std::array<int64_t, 24>;
BlasKey key_of(const BlasProblem& problem);

struct BlasKeyHash {
  size_t operator()(const BlasKey& key) const;
};

// Whether work that a library gave up may be done again by another kernel: not if it may have changed its own input.
bool can_begin_again(const BlasProblem& problem);

}  // namespace unihal::gpu
