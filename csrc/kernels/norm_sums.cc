#include "csrc/kernels/norm_sums.h"

#include <algorithm>

#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Work-groups for each compute unit, where there is work for so many, and elements for each work-item at least.
constexpr int64_t kSumGroupsPerUnit = 8;
constexpr int64_t kGroupsPerCore = 2;
constexpr int64_t kElementsPerItem = 16;
// Work-items that add up the pieces of a column: the others of the group have columns beside it, a line of memory.
constexpr int64_t kMostColumnFinishers = 16;
// Columns that a work-group takes side by side: enough for a full line of memory in each access.
constexpr int64_t kAdjacentColumns = 64;

// Points are counted in units, of as many elements as *unit says.
NormSpaces spaces_of(const uhal_op& op, const NormSums::Operands& operands, int64_t* unit) {
  const NormOperand list[] = {{operands.x, NormOperand::kElements},       {operands.dy, NormOperand::kElements},
                              {operands.mean, NormOperand::kStatistic},   {operands.spread, NormOperand::kStatistic},
                              {operands.dscale, NormOperand::kParameter}, {operands.dbias, NormOperand::kParameter}};
  NormSpaces spaces = NormAxes(op, list, 6).by_parameter();
  spaces.inner.operands = 4;  // parameters do not vary there
  const uhal_tensor* const elements[] = {operands.x, operands.dy};
  const bool alike = !operands.per_point && operands.x->dtype == operands.dy->dtype;
  *unit = alike ? unit_of_inner(spaces, elements, 2) : 1;
  count_in_units(spaces.inner, *unit);
  return spaces;
}

}  // namespace

ColumnPlan::ColumnPlan(const DeviceTraits& traits, int64_t columns, int64_t points, int64_t column_stride,
                       int64_t point_stride, int64_t unit)
    : teams(traits) {
  const int64_t points_per_item = kElementsPerItem / unit;
  teams.adjacent = columns <= 1 || std::abs(point_stride) <= std::abs(column_stride);
  if (teams.adjacent) {
    const int64_t lanes = std::max(std::min<int64_t>(points, kAdjacentColumns), points / points_per_item);
    teams.lanes = static_cast<int32_t>(std::min<int64_t>(teams.group, power_of_two_from(lanes)));
  } else {
    const int64_t side_by_side = std::min({power_of_two_from(columns), kAdjacentColumns, int64_t{teams.group}});
    teams.lanes = static_cast<int32_t>(std::min(power_of_two_from(points), teams.group / side_by_side));
  }
  const int64_t blocks = std::max<int64_t>(1, (columns + teams.per_group() - 1) / teams.per_group());
  const int64_t wanted = traits.compute_units * (traits.is_cpu ? kGroupsPerCore : kSumGroupsPerUnit);
  const int64_t most = std::max<int64_t>(1, points / (points_per_item * teams.lanes));
  pieces = std::clamp((wanted + blocks - 1) / blocks, int64_t{1}, most);
}

NormSums::NormSums(const DeviceTraits& traits, const uhal_op& op, const Operands& operands)
    : operands_(operands),
      unit_(1),
      spaces_(spaces_of(op, operands, &unit_)),
      compute_(floating_compute(op)),
      epsilon_(norm_attributes(op).epsilon),
      plan_(traits, spaces_.outer.count, spaces_.inner.count, spaces_.outer.strides[0][spaces_.outer.rank - 1],
            spaces_.inner.strides[0][spaces_.inner.rank - 1], unit_),
      kind_(widest(layout_kind(spaces_.outer), layout_kind(spaces_.inner))) {
  kind_.wide |= !fits_32_bits(2 * plan_.pieces * spaces_.outer.count);
}

size_t NormSums::workspace_bytes(int64_t pieces) const {
  return static_cast<size_t>(2 * pieces * columns() * compute_bytes(compute_));
}

KernelSpec NormSums::spec(const char* entry, const LayoutKind& kind) const {
  KernelSpec spec(sources::norm_sums, entry);
  spec.compute(compute_);
  kind.define(spec);
  plan_.teams.define(spec);
  spec.define("UNIT", unit_);
  if (operands_.x->dtype == operands_.dy->dtype) {
    spec.dtype("X", operands_.x->dtype);
  } else {
    spec.define("MIXED", 1);
  }
  return spec;
}

uhal_status NormSums::run(Queue& queue, void* sums) const {
  if (columns() == 0) return UHAL_OK;
  Arguments arguments;
  arguments.pointer(operands_.x->data).pointer(operands_.dy->data).pointer(data_of(operands_.mean));
  arguments.pointer(operands_.spread->data).pointer(sums);
  append_layout(arguments, spaces_.outer, kind_);
  append_layout(arguments, spaces_.inner, kind_);
  for (int64_t value : {columns(), spaces_.inner.count, plan_.pieces}) append_index(arguments, value, kind_.wide);
  const int32_t dtypes[] = {operands_.x->dtype, operands_.dy->dtype, dtype_of(operands_.mean), operands_.spread->dtype};
  arguments.bytes(dtypes, sizeof dtypes).real(epsilon_, compute_);
  arguments.int32(operands_.per_point).int32(operands_.mean != nullptr);
  plan_.teams.append(arguments);
  const uhal_status status = queue.run(spec("column_sums", kind_), arguments, plan_.grid(columns()));
  return status == UHAL_OK ? finish(queue, sums, plan_.pieces) : status;
}

uhal_status NormSums::finish(Queue& queue, void* sums, int64_t pieces) const {
  LayoutKind kind = kind_;
  kind.wide |= !fits_32_bits(2 * pieces * columns());
  Teams teams = plan_.teams;  // for their group
  teams.adjacent = false;
  teams.lanes = static_cast<int32_t>(std::min({power_of_two_from(pieces), kMostColumnFinishers, int64_t{teams.group}}));
  Arguments arguments;
  arguments.pointer(sums).pointer(data_of(operands_.dscale)).pointer(data_of(operands_.dbias));
  append_layout(arguments, spaces_.outer, kind);
  for (int64_t value : {columns(), pieces}) append_index(arguments, value, kind.wide);
  arguments.int32(dtype_of(operands_.dscale)).int32(dtype_of(operands_.dbias));
  arguments.int32(operands_.dscale != nullptr).int32(operands_.dbias != nullptr);
  teams.append(arguments);
  return queue.run(spec("finish_column_sums", kind), arguments, teams.grid(columns()));
}

}  // namespace unihal::kernels
