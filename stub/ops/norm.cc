#include "stub/ops/norm.h"

namespace unihal::stub {
namespace {

template <typename T>
uhal_status run_batch_norm_in(const Launch& launch, uhal_dtype dtype) {
  const bool forward = launch.op.kind == UHAL_OP_BATCH_NORM;
  return forward ? batch_norm<T>(launch, dtype) : batch_norm_backward<T>(launch, dtype);
}

template <typename T>
uhal_status run_row_norm_in(const Launch& launch, uhal_dtype dtype) {
  switch (launch.op.kind) {
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

const char* refuse_batch_norm(const uhal_op& op) { return refuse_norm_operands(op); }

uhal_status run_batch_norm(const Launch& launch) {
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? run_batch_norm_in<double>(launch, dtype) : run_batch_norm_in<float>(launch, dtype);
}

const char* refuse_row_norm(const uhal_op& op) { return refuse_norm_operands(op); }

uhal_status run_row_norm(const Launch& launch) {
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? run_row_norm_in<double>(launch, dtype) : run_row_norm_in<float>(launch, dtype);
}

}  // namespace unihal::stub
