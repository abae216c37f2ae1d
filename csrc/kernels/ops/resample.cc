// UHAL_OP_RESAMPLE. Its work-items are the elements of y, in the order of memory as far as the axis' place in it goes.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/rows.h"
#include "kernel_sources.h"

namespace unihal::kernels {

const char* refuse_resample(const DeviceTraits&, const uhal_op& op) {
  for (const uhal_tensor* view : {op.inputs[0], op.inputs[2], op.outputs[0]}) {
    if (!is_floating(view->dtype)) return "resampling takes floating point only: cast the operands first";
  }
  return nullptr;
}

uhal_status run_resample(Queue& queue, const uhal_op& op) {
  const uhal_tensor &x = *op.inputs[0], &first = *op.inputs[1], &weights = *op.inputs[2], &y = *op.outputs[0];
  const int axis = attributes_or(op, uhal_axis_attributes{sizeof(uhal_axis_attributes), 0, 0}).axis;
  const uhal_tensor* views[] = {&y, &x};
  Rows rows(views, 2, axis);
  rows.kind.wide |= !fits_32_bits(first) || !fits_32_bits(weights);
  const int64_t count = rows.count() * rows.length;
  if (count == 0) return UHAL_OK;
  int64_t inner = 1;
  for (int i = 0; i < rows.space.rank; ++i) {
    if (std::abs(rows.space.strides[0][i]) < std::abs(y.strides[axis])) inner *= rows.space.shape[i];
  }
  KernelSpec spec(sources::resample, "resample");
  spec.compute(floating_compute(op)).dtype("X", x.dtype).dtype("W", weights.dtype).dtype("Y", y.dtype);
  rows.kind.define(spec);
  Arguments arguments;
  arguments.pointer(x.data).pointer(first.data).pointer(weights.data).pointer(y.data);
  rows.append(arguments);
  const int64_t plan[] = {
      count, inner, x.shape[axis], weights.shape[1], first.strides[0], weights.strides[0], weights.strides[1]};
  append_indices(arguments, plan, static_cast<int>(std::size(plan)), rows.kind.wide);
  return queue.run(spec, arguments, linear_grid(count, std::min(256, queue.traits().max_group_size)));
}

}  // namespace unihal::kernels
