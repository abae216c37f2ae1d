// UHAL_OP_RANDOM_DISTRIBUTION: a work-item per number.
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {

const char* refuse_random_distribution(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_random_distribution(Queue& queue, const uhal_op& op) {
  const auto attributes =
      attributes_or(op, uhal_random_distribution_attributes{
                            sizeof(uhal_random_distribution_attributes), UHAL_RANDOM_GAMMA, 0, 0, {0, 0}});
  const uhal_tensor& p = *op.inputs[0];
  const uhal_tensor& q = input_of(op, 1) != nullptr ? *op.inputs[1] : p;
  const uhal_tensor& y = *op.outputs[0];
  const uhal_tensor order = row_major_view(y);
  const uhal_tensor* views[] = {&order, &y, &p, &q};
  const Space space = make_space(views, 4);
  if (space.count == 0) return UHAL_OK;
  const Compute compute = floating_compute(op);
  const LayoutKind kind = layout_kind(space);
  KernelSpec spec(sources::random_distribution, "random_distribution");
  spec.compute(compute).dtype("Y", y.dtype).dtype("P", p.dtype).dtype("Q", q.dtype);
  spec.define("WIDE_T", compute == Compute::kDouble).define("DISTRIBUTION", attributes.distribution);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(y.data).pointer(p.data).pointer(q.data);
  append_index(arguments, space.count, kind.wide);
  arguments.value_of(attributes.key).value_of(attributes.counter[0]).value_of(attributes.counter[1]);
  append_layout(arguments, space, kind);
  return queue.run(spec, arguments, linear_grid(space.count, std::min(256, queue.traits().max_group_size)));
}

}  // namespace unihal::kernels
