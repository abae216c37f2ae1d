// UHAL_OP_ROI_ALIGN and its gradient, which gathers: a pixel goes through the boxes of its image in their order, so
// that each sum has one order and needs no atomic operations.
#include <algorithm>
#include <iterator>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Channels of a work-item where those of a pixel are far from each other; they share the work of finding it.
constexpr int64_t kSharedChannels = 8;

}  // namespace

const char* refuse_roi_align(const DeviceTraits&, const uhal_op& op) {
  for (const uhal_tensor* view : {op.inputs[0], op.inputs[1], op.outputs[0]}) {
    if (!is_floating(view->dtype)) return "regions take floating point only: cast the operands first";
  }
  return nullptr;
}

uhal_status run_roi_align(Queue& queue, const uhal_op& op) {
  const bool forward = op.kind == UHAL_OP_ROI_ALIGN;
  const uhal_tensor &from = *op.inputs[0], &boxes = *op.inputs[1], &images = *op.inputs[2], &to = *op.outputs[0];
  const uhal_tensor &x = forward ? from : to, &y = forward ? to : from;
  const auto attributes = attributes_or(op, uhal_roi_align_attributes{sizeof(uhal_roi_align_attributes), 1, 0, 0});
  const int64_t share = to.strides[1] == 1 || to.shape[1] == 1 ? 1 : kSharedChannels;
  const int64_t shares = (x.shape[1] + share - 1) / share;
  const int64_t count = to.shape[0] * shares * to.shape[2] * to.shape[3];
  if (count == 0) return UHAL_OK;
  bool wide = !fits_32_bits(count);
  for (const uhal_tensor* view : {&x, &y, &boxes, &images}) wide |= !fits_32_bits(*view);
  const Compute compute = floating_compute(op);
  KernelSpec spec(sources::roi_align, forward ? "roi_align" : "roi_align_backward");
  spec.compute(compute).define(forward ? "OF_FORWARD" : "OF_BACKWARD", 1).define("UHAL_WIDE_INDEX", wide);
  spec.define("CHANNELS", share);
  spec.dtype("X", x.dtype).dtype("BOXES", boxes.dtype).dtype("Y", y.dtype);
  Arguments arguments;
  arguments.pointer(from.data).pointer(boxes.data).pointer(images.data).pointer(to.data);
  const int64_t plan[] = {count,
                          x.shape[1],
                          x.shape[0],
                          x.shape[2],
                          x.shape[3],
                          y.shape[0],
                          y.shape[2],
                          y.shape[3],
                          attributes.samples,
                          attributes.aligned,
                          x.strides[0],
                          x.strides[1],
                          x.strides[2],
                          x.strides[3],
                          y.strides[0],
                          y.strides[1],
                          y.strides[2],
                          y.strides[3],
                          boxes.strides[0],
                          boxes.strides[1],
                          images.strides[0]};
  append_indices(arguments, plan, static_cast<int>(std::size(plan)), wide);
  arguments.real(attributes.scale, compute);
  return queue.run(spec, arguments, linear_grid(count, std::min(256, queue.traits().max_group_size)));
}

}  // namespace unihal::kernels
