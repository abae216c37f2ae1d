#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/reduction.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {
namespace {

struct ReductionRow {
  int step;
  int finish;
};

// By uhal_reduction.
constexpr ReductionRow kReductionRows[] = {
    {UHAL_STEP_SUM, UHAL_FINISH_NOTHING},                 // none
    {UHAL_STEP_SUM, UHAL_FINISH_NOTHING},                 // sum
    {UHAL_STEP_SUM, UHAL_FINISH_MEAN},                    // mean
    {UHAL_STEP_PRODUCT, UHAL_FINISH_NOTHING},             // product
    {UHAL_STEP_MAXIMUM, UHAL_FINISH_NOTHING},             // maximum
    {UHAL_STEP_MINIMUM, UHAL_FINISH_NOTHING},             // minimum
    {UHAL_STEP_ALL, UHAL_FINISH_NOTHING},                 // all
    {UHAL_STEP_ANY, UHAL_FINISH_NOTHING},                 // any
    {UHAL_STEP_SUM_OF_SQUARES, UHAL_FINISH_NOTHING},      // sum of squares
    {UHAL_STEP_SUM_OF_ABSOLUTES, UHAL_FINISH_NOTHING},    // L1 norm
    {UHAL_STEP_SUM_OF_SQUARES, UHAL_FINISH_SQUARE_ROOT},  // L2 norm
    {UHAL_STEP_LOG_SUM_EXP, UHAL_FINISH_NOTHING},         // log_sum_exp
};

// A logarithm of integers needs fractions on the way, in the widest type that the device has.
Compute compute_for(const DeviceTraits& traits, uhal_reduction reduction, uhal_dtype x, uhal_dtype y) {
  if (is_complex(x) || is_complex(y))
    return has_float64_parts(x) || has_float64_parts(y) ? Compute::kComplexDouble : Compute::kComplexFloat;
  if (x == UHAL_FLOAT64 || y == UHAL_FLOAT64) return Compute::kDouble;
  if (is_floating(x) || is_floating(y)) return Compute::kFloat;
  if (reduction == UHAL_REDUCE_LOG_SUM_EXP) return traits.has_float64 ? Compute::kDouble : Compute::kFloat;
  return compute_of(x);
}

}  // namespace

const char* refuse_reduce(const DeviceTraits&, const uhal_op& op) {
  const uhal_reduction reduction = reduction_of(op);
  if (!is_known(reduction)) return refusal("reduce: reduction %d is unknown to this build", reduction);
  return refuse_complex_reduction("reduce", reduction, *op.inputs[0], *op.outputs[0]);
}

uhal_status run_reduce(Queue& queue, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const uhal_reduction reduction = reduction_of(op);
  const ReductionRow& row = kReductionRows[reduction];
  const auto run = [&](const uhal_tensor& from, const uhal_tensor& to) {
    const Compute compute = compute_for(queue.traits(), reduction, from.dtype, to.dtype);
    return run_reduction(queue, {from, to, row.step, row.finish, compute});
  };
  if (!reduces_parts(reduction, x, y)) return run(x, y);
  return run_on_parts(x, y, run, [&](const uhal_tensor& view) { return fill_view(queue, 0, 0, view); });
}

}  // namespace unihal::kernels
