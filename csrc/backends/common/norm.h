// What backends share of batch, layer, group and RMS norm and their gradients: attributes with defaults, and what none
// of them takes.
#pragma once

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal {

inline bool is_norm_backward(uhal_op_kind kind) {
  return kind == UHAL_OP_BATCH_NORM_BACKWARD || kind == UHAL_OP_LAYER_NORM_BACKWARD ||
         kind == UHAL_OP_GROUP_NORM_BACKWARD || kind == UHAL_OP_RMS_NORM_BACKWARD;
}

// The op's attributes, with defaults where the caller gave none.
inline uhal_norm_attributes norm_attributes(const uhal_op& op) {
  uhal_norm_attributes defaults = {};
  defaults.epsilon = 1e-5;
  defaults.momentum = 0.9;
  defaults.axis = -1;
  defaults.groups = 1;
  return attributes_or(op, defaults);
}

// nullptr, or why no backend normalizes these operands.
inline const char* refuse_norm_operands(const uhal_op& op) {
  for (int i = 0; i < op.input_count; ++i) {
    if (op.inputs[i] != nullptr && !is_floating(op.inputs[i]->dtype)) {
      return "normalization takes floating point only: cast the operands first";
    }
  }
  for (int i = 0; i < op.output_count; ++i) {
    if (op.outputs[i] != nullptr && !is_floating(op.outputs[i]->dtype)) {
      return "normalization gives floating point results only: cast them afterwards";
    }
  }
  if (is_norm_backward(op.kind) && norm_attributes(op).activation != UHAL_ACTIVATION_NONE) {
    return "gradients of normalization do not fuse the gradient of an activation: apply it to dy first";
  }
  return nullptr;
}

}  // namespace unihal
