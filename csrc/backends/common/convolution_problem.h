// What backends share of convolutions and pooling: attributes with their defaults, and the operands by their roles.
#pragma once

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "unihal/op.h"

namespace unihal {

inline uhal_convolution_attributes convolution_attributes(const uhal_op& op) {
  uhal_convolution_attributes defaults = {};
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) defaults.stride[i] = defaults.dilation[i] = 1;
  defaults.groups = 1;
  return attributes_or(op, defaults);
}

inline uhal_pool_attributes pool_attributes(const uhal_op& op) {
  uhal_pool_attributes defaults = {};
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) defaults.window[i] = defaults.stride[i] = 1;
  return attributes_or(op, defaults);
}

// The operands of a convolution or of one of its gradients in the roles that they have forward: x and y may be dx and
// dy, w dw. `bias` is nullptr where it is absent.
struct ConvolutionOperands {
  const uhal_tensor *x, *w, *y, *bias;
};

inline ConvolutionOperands convolution_operands(const uhal_op& op) {
  switch (op.kind) {
    case UHAL_OP_CONVOLUTION:
      return {op.inputs[0], op.inputs[1], op.outputs[0], op.input_count > 2 ? op.inputs[2] : nullptr};
    case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
      return {op.outputs[0], op.inputs[1], op.inputs[0], nullptr};
    default:
      return {op.inputs[0], op.outputs[0], op.inputs[1], op.output_count > 1 ? op.outputs[1] : nullptr};
  }
}

// Whether a convolution is one of integers: int8 or uint8 into int32.
inline bool is_integer_convolution(const ConvolutionOperands& operands) { return is_integer(operands.y->dtype); }

// Whether all sums of an integer convolution, in any order, are whole numbers that float32 has. If not, they are
// computed in float64, which has all that fit into memory.
inline bool is_exact_in_float32(const ConvolutionOperands& operands) {
  if (operands.bias != nullptr) return false;  // of 32 bits
  double terms = 1;
  for (int i = 1; i < operands.w->rank; ++i) terms *= static_cast<double>(operands.w->shape[i]);
  const auto largest = [](uhal_dtype dtype) { return dtype == UHAL_INT8 ? 128.0 : 255.0; };
  return terms * largest(operands.x->dtype) * largest(operands.w->dtype) <= 0x1p24;
}

// Why no device runs a convolution or its gradient: nullptr, or a static text.
inline const char* refuse_convolution_operands(const uhal_op& op) {
  const ConvolutionOperands operands = convolution_operands(op);
  bool floating = true;
  for (const uhal_tensor* view : {operands.x, operands.w, operands.y, operands.bias}) {
    floating &= view == nullptr || is_floating(view->dtype);
  }
  if (floating) return nullptr;
  const auto is_byte = [](uhal_dtype dtype) { return dtype == UHAL_INT8 || dtype == UHAL_UINT8; };
  if (op.kind != UHAL_OP_CONVOLUTION || !is_byte(operands.x->dtype) || !is_byte(operands.w->dtype) ||
      operands.y->dtype != UHAL_INT32 || (operands.bias != nullptr && operands.bias->dtype != UHAL_INT32)) {
    return "convolution takes floating point, or forward int8 and uint8 into int32 with an int32 bias: cast the "
           "operands "
           "first";
  }
  const uhal_activation activation = convolution_attributes(op).activation;
  if (activation != UHAL_ACTIVATION_NONE && activation != UHAL_ACTIVATION_RELU) {
    return "convolution of integers can fuse relu only";
  }
  return nullptr;
}

}  // namespace unihal
