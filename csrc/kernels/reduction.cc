#include "csrc/kernels/reduction.h"

#include <algorithm>
#include <limits>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/reduction.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/teams.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kXOperand = 0;
constexpr int kYOperand = 1;

constexpr int64_t kUnroll = 4;         // loads in flight per work-item, at most: UNROLL of reduce.cl
constexpr int64_t kShareOfRow = 32;    // elements of a row that a work-item takes, if there are rows enough
constexpr int64_t kNeighbours = 32;    // neighbours whose loads fill a line of memory
constexpr int64_t kMostSlices = 1024;  // the second launch is then one short loop

// Whether an accumulator is a pair of values.
bool is_pair(int step) { return step >= UHAL_STEP_LOG_SUM_EXP; }

// The step that combines accumulators of a step: squares are squares already. Fewer steps are fewer programs.
int step_of_partials(int step) {
  switch (step) {
    case UHAL_STEP_SUM_OF_SQUARES:
    case UHAL_STEP_SUM_OF_ABSOLUTES:
      return UHAL_STEP_SUM;
    case UHAL_STEP_ALL:
      return UHAL_STEP_PRODUCT;
    case UHAL_STEP_ANY:
      return UHAL_STEP_MAXIMUM;
    default:
      return step;
  }
}

// How the outputs and their elements are divided among work-groups.
struct Division {
  Teams teams;
  int64_t slices;

  // `side_by_side`: the outputs lie closer in memory than the elements of one.
  Division(const DeviceTraits& traits, int64_t outputs, int64_t length, bool side_by_side) : teams(traits) {
    const int64_t wanted = traits.is_cpu ? traits.compute_units : int64_t{8} * traits.compute_units;
    teams.adjacent = !side_by_side;
    int64_t lanes;
    if (side_by_side) {
      const int64_t columns = std::min<int64_t>({power_of_two_from(outputs), kNeighbours, teams.group});
      lanes = std::min<int64_t>(teams.group / columns, power_of_two_from(length));
    } else {
      lanes = power_of_two_from((length + kShareOfRow - 1) / kShareOfRow);
      while (lanes < teams.group && 4 * lanes < length && outputs * lanes < wanted * teams.group) lanes *= 2;
    }
    teams.lanes = static_cast<int32_t>(std::min<int64_t>(lanes, teams.group));
    const int64_t groups = (outputs + teams.per_group() - 1) / teams.per_group();
    const int64_t most = length / (2 * kUnroll * teams.lanes);
    slices = std::clamp(std::min(wanted / groups, most), int64_t{1}, kMostSlices);
  }
};

// One launch: over the elements of x, or over the slices that another one left.
struct ReductionPass {
  const void* x;
  uhal_dtype x_dtype;
  bool partial;
  int step;
  const Space& kept;
  const Space& reduced;
};

uhal_status run_pass(Queue& queue, const Reduction& reduction, const ReductionPass& pass, const Division& division,
                     const LayoutKind& kind, int64_t total, void* partials) {
  KernelSpec spec(sources::reduce, "reduce");
  spec.compute(reduction.compute).define("STEP", pass.step).define("PARTIAL", pass.partial);
  if (!pass.partial) spec.dtype("X", pass.x_dtype);
  kind.define(spec);
  division.teams.define(spec);

  Arguments arguments;
  arguments.pointer(pass.x).pointer(reduction.y.data).pointer(partials);
  append_layout(arguments, pass.kept, kind);
  append_layout(arguments, pass.reduced, kind);
  for (int64_t count : {pass.kept.count, pass.reduced.count, total}) append_index(arguments, count, kind.wide);
  append_neutral(arguments, pass.step, reduction.x.dtype, reduction.compute);
  const int64_t four = 4 * dtype_size(pass.x_dtype);
  const bool aligned = !pass.partial && reinterpret_cast<uintptr_t>(pass.x) % static_cast<uintptr_t>(four) == 0;
  const bool in_fours = aligned && pass.reduced.strides[kXOperand][pass.reduced.rank - 1] == 1;
  arguments.int32(reduction.finish).int32(reduction.y.dtype).int32(in_fours);
  division.teams.append(arguments);

  Grid grid = division.teams.grid(pass.kept.count);
  grid.groups[1] = division.slices;
  return queue.run(spec, arguments, grid);
}

}  // namespace

uhal_status run_reduction(Queue& queue, const Reduction& reduction) {
  const uhal_tensor* views[] = {&reduction.x, &reduction.y};
  const Space space = make_space(views, 2);
  Space kept = axes_of(space, kYOperand, Axes::kKept);
  Space reduced = axes_of(space, kYOperand, Axes::kReduced);
  if (kept.count == 0) return UHAL_OK;
  const int64_t total = reduced.count;
  const LayoutKind kind = layout_kind(space);
  const bool side_by_side = space.strides[kYOperand][space.rank - 1] != 0;
  const Division division(queue.traits(), kept.count, reduced.count, side_by_side);
  const ReductionPass first = {reduction.x.data, reduction.x.dtype, false, reduction.step, kept, reduced};
  if (division.slices == 1) return run_pass(queue, reduction, first, division, kind, total, nullptr);

  // Both members of a pair take as much room as the larger one.
  const int64_t value_bytes = compute_bytes(reduction.compute);
  const int64_t bytes = is_pair(reduction.step) ? 2 * std::max<int64_t>(value_bytes, kind.wide ? 8 : 4) : value_bytes;
  void* partials;
  uhal_status status = queue.workspace(static_cast<size_t>(division.slices * kept.count * bytes), &partials);
  if (status != UHAL_OK) return status;
  status = run_pass(queue, reduction, first, division, kind, total, partials);
  if (status != UHAL_OK) return status;

  // The slices are an axis of length `slices` before the outputs.
  int64_t stride = 1;
  for (int i = kept.rank - 1; i >= 0; --i) {
    kept.strides[kXOperand][i] = stride;
    stride *= kept.shape[i];
  }
  reduced.rank = 1;
  reduced.count = reduced.shape[0] = division.slices;
  reduced.strides[kXOperand][0] = kept.count;
  const ReductionPass second = {partials, UHAL_DTYPE_INVALID, true, step_of_partials(reduction.step), kept, reduced};
  Division whole(queue.traits(), kept.count, reduced.count, kept.count > 1);
  whole.slices = 1;
  return run_pass(queue, reduction, second, whole, kind, total, nullptr);
}

int combining_step(uhal_reduction reduction) {
  switch (reduction) {
    case UHAL_REDUCE_PRODUCT:
      return UHAL_STEP_PRODUCT;
    case UHAL_REDUCE_MAXIMUM:
      return UHAL_STEP_MAXIMUM;
    case UHAL_REDUCE_MINIMUM:
      return UHAL_STEP_MINIMUM;
    default:
      return UHAL_STEP_SUM;
  }
}

Compute compute_of(uhal_dtype dtype) {
  if (is_complex(dtype)) return dtype == UHAL_COMPLEX128 ? Compute::kComplexDouble : Compute::kComplexFloat;
  if (is_floating(dtype)) return dtype == UHAL_FLOAT64 ? Compute::kDouble : Compute::kFloat;
  return dtype == UHAL_UINT64 ? Compute::kUint64 : Compute::kInt64;
}

const char* refuse_complex_reduction(const char* name, uhal_reduction reduction, const uhal_tensor& x,
                                     const uhal_tensor& y) {
  if (reduces_complex(reduction) || (!is_complex(x.dtype) && !is_complex(y.dtype))) return nullptr;
  return refusal("%s %s is not defined on complex numbers, got %s; expected sum, mean or product", name,
                 reduction_name(reduction), dtype_name(is_complex(x.dtype) ? x.dtype : y.dtype));
}

void append_neutral(Arguments& arguments, int step, uhal_dtype dtype, Compute compute) {
  const bool floating = compute == Compute::kFloat || compute == Compute::kDouble;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (step) {
    case UHAL_STEP_PRODUCT:
    case UHAL_STEP_ALL:
      arguments.real(1, compute);
      return;
    case UHAL_STEP_MAXIMUM:
    case UHAL_STEP_LOG_SUM_EXP:
      if (floating) {
        arguments.real(-kInfinity, compute);
      } else {
        arguments.int64(lowest_integer(dtype));
      }
      return;
    case UHAL_STEP_MINIMUM:
      if (floating) {
        arguments.real(kInfinity, compute);
      } else {
        arguments.value_of(highest_integer(dtype));
      }
      return;
    default:
      arguments.real(0, compute);
  }
}

}  // namespace unihal::kernels
