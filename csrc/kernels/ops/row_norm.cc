// Layer, group and RMS norm and their gradients: source/row_norm.cl, and source/norm_sums.cl for the gradients of scale
// and bias.
#include <algorithm>

#include "csrc/kernels/map_function.h"
#include "csrc/kernels/norm_sums.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Units of a row that a work-item holds in registers: row_norm.cl. A unit is 8 elements of 16 bits, 4, or 1.
constexpr int64_t kDenseCached = 4;
constexpr int64_t kGradientCached = 2;  // of 8 elements
constexpr int64_t kStridedCached = 8;
// Work-items of a team where a row has units for them: they read a whole line of memory at once.
constexpr int64_t kUsualLanes = 64;
constexpr int64_t kShortLanes = 32;  // of 16-bit elements, whose lines have twice as many
// Of a team whose rows lie side by side, so that adjacent teams read adjacent elements.
constexpr int64_t kLanesAcross = 8;
// Work-groups that a compute unit should have, if that takes larger teams.
constexpr int64_t kTeamGroupsPerUnit = 4;
// Of row_norm_gradients: groups of a compute unit at most, as many as their registers let run at once, and rows that a
// team should have, if there are groups for each unit without that.
constexpr int64_t kFusedGroupsPerUnit = 2;
constexpr int64_t kFusedRows = 8;

bool is_centred(uhal_op_kind kind) { return kind != UHAL_OP_RMS_NORM && kind != UHAL_OP_RMS_NORM_BACKWARD; }

// Whether the offsets of an operand are multiples of a unit wherever a row begins, and its data is aligned to that, or
// to 16 bytes: a unit of more is read in two halves.
bool begins_aligned(const Space& rows, int operand, const uhal_tensor& view, int64_t unit) {
  for (int i = 0; i < rows.rank; ++i) {
    if (rows.shape[i] > 1 && rows.strides[operand][i] % unit != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(view.data) %
             static_cast<uintptr_t>(std::min<int64_t>(unit, dtype_size(view.dtype) == 2 ? 8 : 4) *
                                    dtype_size(view.dtype)) ==
         0;
}

// Elements of a dense row for which scale (or bias) has one value; 0 if its values are not dense.
int64_t repeat_of(const Space& elements, int operand) {
  const int last = elements.rank - 1;
  const int64_t* strides = elements.strides[operand];
  if (elements.rank == 1) return strides[0] == 1 || elements.count <= 1 ? 1 : strides[0] == 0 ? elements.count : 0;
  return elements.rank == 2 && strides[0] == 1 && strides[last] == 0 ? elements.shape[last] : 0;
}

// A forward or backward pass over rows. Operands are in the order of the kernel's layouts, x first.
class RowNorm {
 public:
  // The operands that both layouts have are the first four of `count`.
  RowNorm(Queue& queue, const uhal_op& op, const NormOperand* operands, int count)
      : queue_(queue),
        op_(op),
        attributes_(norm_attributes(op)),
        compute_(floating_compute(op)),
        teams_(queue.traits()) {
    spaces_ = NormAxes(op, operands, count).by_statistic();
    for (int k = 0; k < count; ++k) {
      const uhal_tensor* view = operands[k].view;
      if (view == nullptr || operands[k].role != NormOperand::kStatistic) continue;
      statistics_as_computed_ &= view->dtype == compute_dtype(compute_);
    }
    spaces_.inner.operands = 4;
    kind_ = widest(layout_kind(spaces_.outer), layout_kind(spaces_.inner));
    for (unit_ = dtype_size(op.inputs[0]->dtype) == 2 ? 8 : 4; unit_ > 1 && !lies_in_units(operands);) {
      unit_ = unit_ == 8 ? 4 : 1;
    }
    choose_teams();
  }

  // Whether row_norm_gradients takes the rows, with one scale and bias for each element of a row, and then in how many
  // groups; 0 if not.
  int64_t fused_groups() const {
    const DeviceTraits& traits = queue_.traits();
    const bool each = repeat_ == 1 && op_.kind != UHAL_OP_GROUP_NORM_BACKWARD && statistics_as_computed_;
    if (traits.is_cpu || unit_ == 1 || !each || spaces_.inner.count > unit_ * cached() * teams_.group) return 0;
    const int64_t most = traits.compute_units * kFusedGroupsPerUnit;
    const int64_t worth = rows() / (kFusedRows * fused_teams().per_group());
    const int64_t groups = std::clamp(worth, int64_t{traits.compute_units}, most);
    return rows() >= 2 * groups * fused_teams().per_group() ? groups : 0;
  }

  // Their teams: no more members than have a unit to hold.
  Teams fused_teams() const {
    Teams teams = teams_;
    const int64_t units = spaces_.inner.count / unit_;
    teams.lanes =
        static_cast<int32_t>(std::min(power_of_two_from((units + cached() - 1) / cached()), int64_t{teams.group}));
    teams.adjacent = true;
    return teams;
  }

  int64_t rows() const { return spaces_.outer.count; }
  const uhal_norm_attributes& attributes() const { return attributes_; }
  Compute compute() const { return compute_; }

  KernelSpec spec(const char* entry) const {
    KernelSpec spec(sources::row_norm, entry);
    spec.compute(compute_);
    kind_.define(spec);
    teams_.define(spec);
    define_activation(spec, attributes_.activation);
    spec.define("CENTRED", is_centred(op_.kind)).define("UNIT", unit_).define("GRADIENT", is_norm_backward(op_.kind));
    if (unit_ > 1) spec.dtype("X", op_.inputs[0]->dtype).dtype("P", compute_dtype(compute_));
    return spec;
  }

  // The layouts and the numbers of rows and elements.
  void append_rows(Arguments& arguments) const {
    append_layout(arguments, spaces_.outer, kind_);
    append_layout(arguments, spaces_.inner, kind_);
    for (int64_t value : {spaces_.outer.count, spaces_.inner.count, repeat_}) {
      append_index(arguments, value, kind_.wide);
    }
  }

  uhal_status run(const char* entry, Arguments& arguments) {
    teams_.append(arguments);
    return queue_.run(spec(entry), arguments, teams_.grid(rows()));
  }

  uhal_status run_fused(Arguments& arguments) {
    const Teams teams = fused_teams();
    teams.append(arguments);
    return queue_.run(spec("row_norm_gradients").define("FUSED", 1), arguments,
                      teams.grid(fused_groups() * teams.per_group()));
  }

 private:
  // Finds repeat_.
  bool lies_in_units(const NormOperand* operands) {
    const Space& elements = spaces_.inner;
    if (elements.count % unit_ != 0 || elements.count == 0) return false;
    int64_t repeat = 0;
    for (int k = 0; k < 4; ++k) {
      const uhal_tensor* view = operands[k].view;
      if (view == nullptr) continue;
      if (operands[k].role == NormOperand::kElements) {
        if (view->dtype != operands[0].view->dtype || !elements.dense(k)) return false;
        if (!begins_aligned(spaces_.outer, k, *view, unit_)) return false;
      } else {
        const int64_t own = repeat_of(elements, k);
        if (view->dtype != compute_dtype(compute_) || own == 0 || (repeat != 0 && own != repeat)) return false;
        if (own == 1 ? !begins_aligned(spaces_.outer, k, *view, unit_) : own % unit_ != 0) return false;
        repeat = own;
      }
    }
    repeat_ = std::max<int64_t>(1, repeat);
    return true;
  }

  int64_t cached() const {
    return unit_ == 1 ? kStridedCached : unit_ == 8 && is_norm_backward(op_.kind) ? kGradientCached : kDenseCached;
  }

  void choose_teams() {
    const int64_t units = spaces_.inner.count / unit_;
    int64_t lanes = std::max(std::min(power_of_two_from(units), unit_ == 8 ? kShortLanes : kUsualLanes),
                             power_of_two_from((units + cached() - 1) / cached()));
    const DeviceTraits& traits = queue_.traits();
    while (!traits.is_cpu && lanes < units && rows() * lanes < traits.compute_units * kTeamGroupsPerUnit * teams_.group)
      lanes *= 2;
    const int64_t along = std::abs(spaces_.inner.strides[0][spaces_.inner.rank - 1]);
    const int64_t across = std::abs(spaces_.outer.strides[0][spaces_.outer.rank - 1]);
    teams_.adjacent = rows() <= 1 || along <= across;
    if (!teams_.adjacent) lanes = std::min(lanes, kLanesAcross);
    teams_.lanes = static_cast<int32_t>(std::min<int64_t>(lanes, teams_.group));
  }

  Queue& queue_;
  const uhal_op& op_;
  uhal_norm_attributes attributes_;
  Compute compute_;
  Teams teams_;
  NormSpaces spaces_;
  LayoutKind kind_;
  bool statistics_as_computed_ = true;  // of the compute type
  int64_t unit_;                        // UNIT
  int64_t repeat_ = 1;                  // of UNIT > 1: elements for each scale or bias
};

uhal_status normalize_rows(Queue& queue, const uhal_op& op) {
  const bool centred = is_centred(op.kind);
  const uhal_tensor* bias = centred ? input_of(op, 2) : nullptr;
  const uhal_tensor* mean = centred ? output_of(op, 1) : nullptr;
  const NormOperand operands[] = {{op.inputs[0], NormOperand::kElements},
                                  {op.outputs[0], NormOperand::kElements},
                                  {input_of(op, 1), NormOperand::kParameter},
                                  {bias, NormOperand::kParameter},
                                  {mean, NormOperand::kStatistic},
                                  {output_of(op, centred ? 2 : 1), NormOperand::kStatistic}};
  RowNorm norm(queue, op, operands, 6);
  if (norm.rows() == 0) return UHAL_OK;
  Arguments arguments;
  int32_t dtypes[6];
  for (int k = 0; k < 6; ++k) {
    arguments.pointer(data_of(operands[k].view));
    dtypes[k] = dtype_of(operands[k].view);
  }
  norm.append_rows(arguments);
  arguments.bytes(dtypes, sizeof dtypes).real(norm.attributes().epsilon, norm.compute());
  for (int k = 2; k < 6; ++k) arguments.int32(operands[k].view != nullptr);
  return norm.run("row_norm", arguments);
}

// A dense view of the compute type with a statistic's shape, whose data is still to come.
uhal_tensor dense_statistic(const uhal_tensor& shape, Compute compute) {
  uhal_tensor view = shape;
  view.data = nullptr;
  view.dtype = compute_dtype(compute);
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    stride *= std::max<int64_t>(1, view.shape[i]);
  }
  return view;
}

uhal_status row_gradients(Queue& queue, const uhal_op& op) {
  const bool centred = is_centred(op.kind);
  const uhal_tensor* mean = centred ? op.inputs[3] : nullptr;
  const uhal_tensor* spread = op.inputs[centred ? 4 : 3];
  const uhal_tensor* dscale = output_of(op, 1);
  const uhal_tensor* dbias = centred ? output_of(op, 2) : nullptr;
  uhal_tensor inverse = dense_statistic(*spread, floating_compute(op));
  const NormOperand operands[] = {{op.inputs[0], NormOperand::kElements},
                                  {op.inputs[1], NormOperand::kElements},
                                  {input_of(op, 2), NormOperand::kParameter},
                                  {op.outputs[0], NormOperand::kElements},
                                  {mean, NormOperand::kStatistic},
                                  {spread, NormOperand::kStatistic},
                                  {&inverse, NormOperand::kStatistic}};
  RowNorm norm(queue, op, operands, 7);
  const NormSums sums(queue.traits(), op, {op.inputs[0], op.inputs[1], mean, &inverse, dscale, dbias, true});
  const bool wants_sums = dscale != nullptr || dbias != nullptr;
  const int64_t fused = wants_sums && sums.columns() > 0 ? norm.fused_groups() : 0;
  const int64_t pieces = fused * norm.fused_teams().per_group();
  const int64_t inverse_bytes = (norm.rows() * compute_bytes(norm.compute()) + 255) / 256 * 256;
  void* workspace;
  const size_t sums_bytes = fused > 0 ? sums.workspace_bytes(pieces) : sums.workspace_bytes();
  uhal_status status = queue.workspace(static_cast<size_t>(inverse_bytes) + sums_bytes + 256, &workspace);
  if (status != UHAL_OK) return status;
  inverse.data = workspace;
  void* const sums_block = static_cast<char*>(workspace) + inverse_bytes;

  if (norm.rows() > 0) {
    Arguments arguments;
    int32_t dtypes[6];
    for (int k = 0; k < 6; ++k) {
      arguments.pointer(data_of(operands[k].view));
      dtypes[k] = dtype_of(operands[k].view);
    }
    arguments.pointer(fused > 0 ? sums_block : inverse.data);
    norm.append_rows(arguments);
    arguments.bytes(dtypes, sizeof dtypes).real(norm.attributes().epsilon, norm.compute());
    arguments.int32(operands[2].view != nullptr);
    status = fused > 0 ? norm.run_fused(arguments) : norm.run("row_norm_gradient", arguments);
  }
  if (status != UHAL_OK || !wants_sums) return status;
  return fused > 0 ? sums.finish(queue, sums_block, pieces) : sums.run(queue, sums_block);
}

}  // namespace

const char* refuse_row_norm(const DeviceTraits&, const uhal_op& op) { return refuse_norm_operands(op); }

uhal_status run_row_norm(Queue& queue, const uhal_op& op) {
  return is_norm_backward(op.kind) ? row_gradients(queue, op) : normalize_rows(queue, op);
}

}  // namespace unihal::kernels
