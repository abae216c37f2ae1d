// What backends share of convolutions and pooling: attributes with their defaults, and the operands by their roles.
#pragma once

#include "csrc/backends/common/attributes.h"
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

}  // namespace unihal
