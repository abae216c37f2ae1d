// UHAL_OP_NON_MAX_SUPPRESSION.
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kBlock = 32;  // boxes, as in the source

}  // namespace

const char* refuse_non_max_suppression(const DeviceTraits&, const uhal_op& op) {
  return is_floating(op.inputs[0]->dtype) ? nullptr : "boxes are floating point: cast them first";
}

uhal_status run_non_max_suppression(Queue& queue, const uhal_op& op) {
  const uhal_tensor &boxes = *op.inputs[0], &keep = *op.outputs[0];
  const auto attributes =
      attributes_or(op, uhal_non_max_suppression_attributes{sizeof(uhal_non_max_suppression_attributes), 0.5});
  const int64_t count = boxes.shape[0];
  if (count == 0) return UHAL_OK;
  const auto bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  void* workspace;
  uhal_status status = queue.workspace(2 * bytes, &workspace);
  if (status != UHAL_OK) return status;
  void* const removed = static_cast<char*>(workspace) + bytes;

  const bool wide = !fits_32_bits(boxes) || !fits_32_bits(keep) || !fits_32_bits(4 * count);
  const Compute compute = floating_compute(op);
  const auto run = [&](const char* entry, int64_t items, Arguments& arguments) {
    KernelSpec spec(sources::non_max_suppression, entry);
    spec.compute(compute).dtype("BOXES", boxes.dtype).define("UHAL_WIDE_INDEX", wide);
    return queue.run(spec, arguments, linear_grid(items, std::min(256, queue.traits().max_group_size)));
  };
  Arguments found;
  found.pointer(boxes.data).pointer(workspace).pointer(removed);
  for (const int64_t value : {count, boxes.strides[0], boxes.strides[1]}) append_index(found, value, wide);
  found.real(attributes.threshold, compute);
  status = run("find_overlaps", count, found);
  for (int64_t first = 0; first < count && status == UHAL_OK; first += kBlock) {
    Arguments arguments;
    arguments.pointer(boxes.data).pointer(workspace).pointer(removed).pointer(keep.data);
    for (const int64_t value : {count - first, first, boxes.strides[0], boxes.strides[1], keep.strides[0]}) {
      append_index(arguments, value, wide);
    }
    arguments.real(attributes.threshold, compute);
    status = run("suppress_block", count - first, arguments);
  }
  return status;
}

}  // namespace unihal::kernels
