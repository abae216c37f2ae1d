#include "stub/norm.h"

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"

namespace unihal::stub {
namespace {

bool is_backward(uhal_op_kind kind) {
  return kind == UHAL_OP_BATCH_NORM_BACKWARD || kind == UHAL_OP_LAYER_NORM_BACKWARD ||
         kind == UHAL_OP_GROUP_NORM_BACKWARD || kind == UHAL_OP_RMS_NORM_BACKWARD;
}

template <typename T>
uhal_status run(const Launch& launch, uhal_dtype dtype) {
  switch (launch.op.kind) {
    case UHAL_OP_BATCH_NORM:
      return batch_norm<T>(launch, dtype);
    case UHAL_OP_BATCH_NORM_BACKWARD:
      return batch_norm_backward<T>(launch, dtype);
    case UHAL_OP_GROUP_NORM:
      return group_norm<T>(launch, dtype);
    case UHAL_OP_GROUP_NORM_BACKWARD:
      return group_norm_backward<T>(launch, dtype);
    case UHAL_OP_LAYER_NORM:
    case UHAL_OP_RMS_NORM:
      return layer_norm<T>(launch, dtype);
    default:
      return layer_norm_backward<T>(launch, dtype);
  }
}

}  // namespace

uhal_norm_attributes norm_attributes(const uhal_op& op) {
  uhal_norm_attributes defaults = {};
  defaults.epsilon = 1e-5;
  defaults.momentum = 0.9;
  defaults.axis = -1;
  defaults.groups = 1;
  return attributes_or(op, defaults);
}

const char* refuse_norm(const uhal_op& op) {
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
  if (is_backward(op.kind) && norm_attributes(op).activation != UHAL_ACTIVATION_NONE) {
    return "gradients of normalization do not fuse the gradient of an activation: apply it to dy first";
  }
  return nullptr;
}

uhal_status run_norm(const Launch& launch) {
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? run<double>(launch, dtype) : run<float>(launch, dtype);
}

}  // namespace unihal::stub
