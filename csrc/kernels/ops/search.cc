// UHAL_OP_SEARCH_SORTED: a work-item per value.

#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/rows.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "kernel_sources.h"

namespace unihal::kernels {

const char* refuse_search(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal("search_sorted: dtype %s is not supported; complex numbers have no order", dtype_name(dtype));
}

uhal_status run_search(Queue& queue, const uhal_op& op) {
  const uhal_tensor& sorted = *op.inputs[0];
  const uhal_tensor& values = *op.inputs[1];
  const uhal_tensor& y = *op.outputs[0];
  const auto attributes = attributes_or(op, uhal_search_attributes{sizeof(uhal_search_attributes), 0, 0});
  const uhal_tensor rows = rows_to_search(sorted, values);
  const uhal_tensor* views[] = {&y, &values, &rows};
  const Space space = make_space(views, 3);
  if (space.count == 0) return UHAL_OK;
  LayoutKind kind = layout_kind(space);
  kind.wide |= !fits_32_bits(sorted);
  KernelSpec spec(sources::search, "search_sorted");
  spec.compute(compute_of(values.dtype)).dtype("X", values.dtype);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(sorted.data).pointer(values.data).pointer(y.data);
  append_layout(arguments, space, kind);
  for (int64_t value : {space.count, sorted.shape[sorted.rank - 1], sorted.strides[sorted.rank - 1]}) {
    append_index(arguments, value, kind.wide);
  }
  arguments.int32(attributes.right).int32(y.dtype == UHAL_INT64);
  return queue.run(spec, arguments, linear_grid(space.count, std::min(256, queue.traits().max_group_size)));
}

}  // namespace unihal::kernels
