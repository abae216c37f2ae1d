#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/reduction.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/rows.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Neighbours along the axis that one work-item goes through, twice: the second time they are still in the cache.
constexpr int64_t kScanShare = 16;

// Each part reads the totals of all before it.
constexpr int64_t kMostScanParts = 4096;

// A value and where it was, at most.
constexpr int64_t kPlacedBytes = 16;

uhal_scan_attributes scan_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_scan_attributes{sizeof(uhal_scan_attributes), 0, UHAL_REDUCE_SUM, 0, 0});
}

int scan_step(uhal_reduction reduction) {
  return reduction == UHAL_REDUCE_LOG_SUM_EXP ? UHAL_STEP_LOG_SUM_EXP : combining_step(reduction);
}

int64_t parts_of(const DeviceTraits& traits, const Rows& rows, const Teams& teams) {
  const int64_t wanted = traits.is_cpu ? traits.compute_units : int64_t{8} * traits.compute_units;
  const int64_t groups = (rows.count() + teams.per_group() - 1) / teams.per_group();
  const int64_t most = rows.length / (kScanShare * teams.lanes);
  if (groups >= wanted) return 1;
  return std::clamp(traits.is_cpu ? std::min(wanted / groups, most) : most, int64_t{1}, kMostScanParts);
}

Compute compute_for(uhal_dtype x, uhal_dtype y) {
  if (is_complex(x) || is_complex(y)) {
    return has_float64_parts(x) || has_float64_parts(y) ? Compute::kComplexDouble : Compute::kComplexFloat;
  }
  if (x == UHAL_FLOAT64 || y == UHAL_FLOAT64) return Compute::kDouble;
  return is_floating(x) || is_floating(y) ? Compute::kFloat : compute_of(x);
}

// `indices`, of maxima and minima, may be nullptr.
uhal_status scan(Queue& queue, const uhal_scan_attributes& attributes, const uhal_tensor& x, const uhal_tensor& y,
                 const uhal_tensor* indices) {
  const uhal_tensor* views[] = {&x, &y, indices};
  const Rows rows(views, indices != nullptr ? 3 : 2, attributes.axis);
  if (rows.count() == 0 || rows.length == 0) return UHAL_OK;
  const Compute compute = compute_for(x.dtype, y.dtype);
  const Teams teams = teams_for_rows(queue.traits(), rows, kScanShare);
  const int step = scan_step(attributes.reduction);
  const int64_t parts = parts_of(queue.traits(), rows, teams);

  void* totals = nullptr;
  if (parts > 1) {
    const int64_t bytes = indices != nullptr ? kPlacedBytes : compute_bytes(compute);
    const uhal_status status = queue.workspace(static_cast<size_t>(rows.count() * parts * bytes), &totals);
    if (status != UHAL_OK) return status;
  }
  KernelSpec spec(sources::scan, "scan");
  spec.compute(compute).define("STEP", step).dtype("X", x.dtype).define("PLACES", indices != nullptr);
  rows.kind.define(spec);
  teams.define(spec);
  Grid grid = teams.grid(rows.count());
  grid.groups[1] = parts;
  for (int only_totals = parts > 1 ? 1 : 0; only_totals >= 0; --only_totals) {
    Arguments arguments;
    arguments.pointer(x.data).pointer(y.data).pointer(data_of(indices)).pointer(totals);
    rows.append(arguments);
    append_neutral(arguments, step, x.dtype, compute);
    arguments.int32(y.dtype)
        .int32(indices != nullptr && indices->dtype == UHAL_INT64)
        .int32(attributes.exclusive)
        .int32(attributes.reverse)
        .int32(only_totals);
    teams.append(arguments);
    const uhal_status status = queue.run(spec, arguments, grid);
    if (status != UHAL_OK) return status;
  }
  return UHAL_OK;
}

}  // namespace

const char* refuse_scan(const DeviceTraits&, const uhal_op& op) {
  const uhal_reduction reduction = scan_attributes(op).reduction;
  if (reduction == UHAL_REDUCE_SUM || scan_step(reduction) != UHAL_STEP_SUM) {
    return refuse_complex_reduction("scan", reduction, *op.inputs[0], *op.outputs[0]);
  }
  return refusal("scan: reduction %d is not supported; expected sum, product, maximum, minimum or log_sum_exp",
                 reduction);
}

uhal_status run_scan(Queue& queue, const uhal_op& op) {
  const uhal_scan_attributes attributes = scan_attributes(op);
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const auto run = [&](const uhal_tensor& from, const uhal_tensor& to) {
    return scan(queue, attributes, from, to, output_of(op, 1));
  };
  if (!reduces_parts(attributes.reduction, x, y)) return run(x, y);
  return run_on_parts(x, y, run, [&](const uhal_tensor& view) { return fill_view(queue, 0, 0, view); });
}

}  // namespace unihal::kernels
