// A product with weights of few bits in its simplest form, between an op and what runs it.
#pragma once

#include "unihal/op.h"

namespace unihal {

// A matrix by strides in elements; 0 along an axis that it repeats.
struct QuantizedOperand {
  const void* data = nullptr;  // nullptr: absent
  uhal_dtype dtype = UHAL_DTYPE_INVALID;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// The weights w (k, n) of a UHAL_OP_MATMUL_QUANTIZED: w[i, j] = (q[i, j] - zero[i / block, j]) * scales[i / block, j].
struct QuantizedWeights {
  int64_t k = 0, n = 0;
  int bits = 8;
  bool is_signed = false;
  int64_t block = 1;             // rows that share a scale; at least k where all do
  int64_t blocks = 0;            // along k
  double zero_point = 0;         // where zero_points is absent
  bool packed_zeros = false;     // zero_points are of 4 bits, two a byte
  QuantizedOperand b;            // rows of 4 bits are pairs
  QuantizedOperand scales;       // (blocks, n)
  QuantizedOperand zero_points;  // (blocks, n), or pairs of them

  // Whether b's elements lie closer along k than along n.
  bool along_k() const;
};

uhal_matmul_quantized_attributes matmul_quantized_attributes(const uhal_op& op);

QuantizedWeights quantized_weights(const uhal_op& op);

// A view of w as numbers of `dtype` at `data`, with `pitch` elements from channel to channel (along_k) or row to row.
uhal_tensor dense_weights(const QuantizedWeights& weights, uhal_dtype dtype, void* data, int64_t pitch);

}  // namespace unihal
