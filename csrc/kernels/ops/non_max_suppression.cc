// UHAL_OP_NON_MAX_SUPPRESSION.
#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/teams.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kBlock = 32;  // boxes, as in the source

uhal_non_max_suppression_attributes suppression_attributes(const uhal_op& op) {
  return attributes_or(
      op, uhal_non_max_suppression_attributes{sizeof(uhal_non_max_suppression_attributes), 0.5, 1, 0, 0, 0});
}

}  // namespace

const char* refuse_non_max_suppression(const DeviceTraits&, const uhal_op& op) {
  return is_floating(op.inputs[0]->dtype) ? nullptr : "boxes are floating point: cast them first";
}

uhal_status run_non_max_suppression(Queue& queue, const uhal_op& op) {
  const uhal_tensor &boxes = *op.inputs[0], &keep = *op.outputs[0];
  const auto attributes = suppression_attributes(op);
  const int axis = boxes.rank - 2;
  const int64_t count = boxes.shape[axis], lists = axis == 1 ? boxes.shape[0] : 1;
  if (count * lists == 0) return UHAL_OK;
  const int64_t list_stride = axis == 1 ? boxes.strides[0] : 0, keep_list_stride = axis == 1 ? keep.strides[0] : 0;
  const auto bytes = static_cast<size_t>(count * lists) * sizeof(uint32_t);
  void* workspace;
  uhal_status status = queue.workspace(2 * bytes, &workspace);
  if (status != UHAL_OK) return status;
  void* const removed = static_cast<char*>(workspace) + bytes;

  const bool wide = !fits_32_bits(boxes) || !fits_32_bits(keep) || !fits_32_bits(4 * count * lists);
  const Compute compute = floating_compute(op);
  const int32_t group = team_group_size(queue.traits());
  const auto run = [&](const char* entry, const Grid& grid, Arguments& arguments) {
    arguments.real(attributes.threshold, compute).real(attributes.extent, compute);
    KernelSpec spec(sources::non_max_suppression, entry);
    spec.compute(compute)
        .dtype("BOXES", boxes.dtype)
        .define("UHAL_WIDE_INDEX", wide)
        .define("UHAL_GROUP", group)
        .define("ORDERED", attributes.ordered != 0);
    return queue.run(spec, arguments, grid);
  };
  const auto* const box_strides = boxes.strides + axis;
  if (attributes.decay != 1 && attributes.threshold > 0.5) {
    Arguments arguments;
    arguments.pointer(boxes.data).pointer(workspace).pointer(keep.data);
    for (const int64_t value :
         {count, list_stride, box_strides[0], box_strides[1], keep_list_stride, keep.strides[axis]}) {
      append_index(arguments, value, wide);
    }
    arguments.real(attributes.decay, compute);
    Grid grid;
    grid.groups[0] = lists;
    grid.group_size[0] = group;
    return run("suppress_one_by_one", grid, arguments);
  }
  Arguments found;
  found.pointer(boxes.data).pointer(workspace).pointer(removed);
  for (const int64_t value : {count * lists, count, list_stride, box_strides[0], box_strides[1]}) {
    append_index(found, value, wide);
  }
  status = run("find_overlaps", linear_grid(count * lists, group), found);
  for (int64_t first = 0; first < count && status == UHAL_OK; first += kBlock) {
    const int64_t rest = count - first;
    Arguments arguments;
    arguments.pointer(boxes.data).pointer(workspace).pointer(removed).pointer(keep.data);
    for (const int64_t value : {rest * lists, rest, first, list_stride, box_strides[0], box_strides[1],
                                keep_list_stride, keep.strides[axis]}) {
      append_index(arguments, value, wide);
    }
    status = run("suppress_block", linear_grid(rest * lists, group), arguments);
  }
  return status;
}

}  // namespace unihal::kernels
