#include "csrc/backends/common/quantized_problem.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {
namespace {

QuantizedOperand operand_of(const uhal_tensor* view) {
  QuantizedOperand operand;
  if (view == nullptr) return operand;
  const auto stride = [&](int from_last) {
    const int axis = view->rank - 1 - from_last;
    return axis < 0 || view->shape[axis] == 1 ? 0 : view->strides[axis];
  };
  operand.data = view->data;
  operand.dtype = view->dtype;
  operand.row_stride = stride(1);
  operand.column_stride = stride(0);
  return operand;
}

}  // namespace

uhal_matmul_quantized_attributes matmul_quantized_attributes(const uhal_op& op) {
  return attributes_or(
      op, uhal_matmul_quantized_attributes{sizeof(uhal_matmul_quantized_attributes), 8, UHAL_ACTIVATION_NONE, 0, 0});
}

bool QuantizedWeights::along_k() const {
  const bool one_row = b.row_stride == 0;
  return b.column_stride == 0 || (!one_row && std::abs(b.row_stride) <= std::abs(b.column_stride));
}

QuantizedWeights quantized_weights(const uhal_op& op) {
  const uhal_matmul_quantized_attributes attributes = matmul_quantized_attributes(op);
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& b = *op.inputs[1];
  const uhal_tensor* zero_points = op.input_count > 3 ? op.inputs[3] : nullptr;
  QuantizedWeights weights;
  weights.k = a.shape[a.rank - 1];
  weights.n = b.shape[1];
  weights.bits = attributes.bits;
  weights.is_signed = b.dtype == UHAL_INT8;
  // A power of two in any case, for kernels that shift.
  weights.block = attributes.block_size;
  if (attributes.block_size == 0) {
    weights.block = 16;
    while (weights.block < weights.k) weights.block *= 2;
  }
  weights.blocks = (weights.k + weights.block - 1) / weights.block;
  weights.zero_point = attributes.zero_point;
  weights.b = operand_of(&b);
  weights.scales = operand_of(op.inputs[2]);
  weights.zero_points = operand_of(zero_points);
  weights.packed_zeros = zero_points != nullptr && zero_points->dtype == b.dtype && weights.bits == 4;
  return weights;
}

uhal_tensor dense_weights(const QuantizedWeights& weights, uhal_dtype dtype, void* data, int64_t pitch) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = data;
  view.dtype = dtype;
  view.rank = 2;
  view.shape[0] = weights.k;
  view.shape[1] = weights.n;
  view.strides[0] = weights.along_k() ? 1 : pitch;
  view.strides[1] = weights.along_k() ? pitch : 1;
  return view;
}

}  // namespace unihal
