#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"

namespace unihal::kernels {

const char* refuse_arg_reduce(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal("arg_reduce: dtype %s is not supported; complex numbers have no order and can be copied and cast only",
                 dtype_name(dtype));
}

uhal_status run_arg_reduce(Queue& queue, const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_axis_attributes{sizeof(uhal_axis_attributes), 0, 0});
  const bool largest = (attributes.flags & UHAL_AXIS_DESCENDING) != 0;
  const uhal_tensor& x = *op.inputs[0];
  const int step = largest ? UHAL_STEP_FIRST_MAXIMUM : UHAL_STEP_FIRST_MINIMUM;
  return run_reduction(queue, {x, *op.outputs[0], step, UHAL_FINISH_NOTHING, compute_of(x.dtype)});
}

}  // namespace unihal::kernels
