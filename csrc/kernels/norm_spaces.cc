#include "csrc/kernels/norm_spaces.h"

#include <algorithm>
#include <cstdint>

namespace unihal::kernels {
namespace {

bool is_batch_norm(uhal_op_kind kind) { return kind == UHAL_OP_BATCH_NORM || kind == UHAL_OP_BATCH_NORM_BACKWARD; }
bool is_group_norm(uhal_op_kind kind) { return kind == UHAL_OP_GROUP_NORM || kind == UHAL_OP_GROUP_NORM_BACKWARD; }

constexpr int64_t kMostUnitBytes = 16;

// The stride along an axis of a view; 0 if it has length 1.
int64_t stride_of(const uhal_tensor& view, int axis) { return view.shape[axis] > 1 ? view.strides[axis] : 0; }

}  // namespace

NormAxes::NormAxes(const uhal_op& op, const NormOperand* operands, int count) : count_(count) {
  const uhal_tensor& x = *operands[0].view;
  const uhal_norm_attributes attributes = norm_attributes(op);
  const bool by_channel = is_batch_norm(op.kind) || is_group_norm(op.kind);
  const int first = by_channel ? 0 : first_normalized_axis(op);
  for (int i = 0; i < x.rank; ++i) {
    if (is_group_norm(op.kind) && i == 1) {
      const int64_t channels = x.shape[1] / attributes.groups;
      Axis& groups = add(attributes.groups, true, true);
      Axis& members = add(channels, false, true);
      for (int k = 0; k < count; ++k) {
        const uhal_tensor* view = operands[k].view;
        if (view == nullptr) continue;
        const bool statistic = operands[k].role == NormOperand::kStatistic;
        const int64_t stride = stride_of(*view, operands[k].role == NormOperand::kParameter ? 0 : 1);
        groups.strides[k] = statistic ? stride : stride * channels;
        members.strides[k] = statistic ? 0 : stride;
      }
      continue;
    }
    const bool is_channel = is_batch_norm(op.kind) && i == 1;
    const bool of_statistic = is_batch_norm(op.kind) ? is_channel : is_group_norm(op.kind) ? i == 0 : i < first;
    const bool of_parameter = by_channel ? is_channel : i >= first;
    Axis& axis = add(x.shape[i], of_statistic, of_parameter);
    for (int k = 0; k < count; ++k) {
      const uhal_tensor* view = operands[k].view;
      if (view == nullptr) continue;
      switch (operands[k].role) {
        case NormOperand::kElements:
          axis.strides[k] = stride_of(*view, i);
          break;
        case NormOperand::kParameter:
          if (of_parameter) axis.strides[k] = stride_of(*view, by_channel ? 0 : i - first);
          break;
        case NormOperand::kStatistic:
          if (of_statistic) axis.strides[k] = stride_of(*view, is_batch_norm(op.kind) ? 0 : i);
          break;
      }
    }
  }
}

NormAxes::Axis& NormAxes::add(int64_t length, bool of_statistic, bool of_parameter) {
  Axis& axis = axes_[rank_++];
  axis = {length, of_statistic, of_parameter, {}};
  return axis;
}

Space NormAxes::space(bool by_parameter, bool differs) const {
  uhal_tensor views[kMaxOperands] = {};
  const uhal_tensor* pointers[kMaxOperands] = {};
  for (int k = 0; k < count_; ++k) pointers[k] = &views[k];
  for (int i = 0; i < rank_; ++i) {
    if ((by_parameter ? axes_[i].of_parameter : axes_[i].of_statistic) != differs) continue;
    for (int k = 0; k < count_; ++k) {
      uhal_tensor& view = views[k];
      view.shape[view.rank] = axes_[i].length;
      view.strides[view.rank++] = axes_[i].strides[k];
    }
  }
  return make_space(pointers, count_);
}

int64_t unit_of_inner(const NormSpaces& spaces, const uhal_tensor* const* views, int count) {
  const auto lies_in = [&](int operand, int64_t unit) {
    const uhal_tensor& view = *views[operand];
    const Space& inner = spaces.inner;
    const int64_t bytes = dtype_size(view.dtype);
    if (unit * bytes > kMostUnitBytes || inner.strides[operand][inner.rank - 1] != 1) return false;
    if (inner.inner() % unit != 0 || reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(unit * bytes) != 0)
      return false;
    for (int i = 0; i + 1 < inner.rank; ++i) {
      if (inner.shape[i] > 1 && inner.strides[operand][i] % unit != 0) return false;
    }
    for (int i = 0; i < spaces.outer.rank; ++i) {
      if (spaces.outer.shape[i] > 1 && spaces.outer.strides[operand][i] % unit != 0) return false;
    }
    return true;
  };
  for (const int64_t unit : {8, 4}) {
    bool all = true;
    for (int k = 0; k < count; ++k) all = all && lies_in(k, unit);
    if (all) return unit;
  }
  return 1;
}

void count_in_units(Space& space, int64_t unit) {
  space.count /= unit;
  space.shape[space.rank - 1] /= unit;
  for (int k = 0; k < space.operands; ++k) space.strides[k][space.rank - 1] *= unit;
}

NormSpaces NormAxes::by_statistic() const { return {space(false, true), space(false, false)}; }

NormSpaces NormAxes::by_parameter() const { return {space(true, true), space(true, false)}; }

}  // namespace unihal::kernels
