#include "csrc/kernels/rows.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/rows.h"
#include "csrc/kernels/operands.h"

namespace unihal::kernels {
namespace {

// Neighbouring rows whose elements at one place of the axis fill a line of memory together.
constexpr int64_t kNeighbouringRows = 32;

// Members of the team of a short row: enough for loads that fill lines of memory.
constexpr int64_t kFewLanes = 32;

template <class Integer>
void append_rows(Arguments& arguments, const Rows& rows) {
  const Space& space = rows.space;
  Integer packed[1 + UHAL_MAX_RANK * (1 + kMaxOperands) + kMaxOperands + 2] = {};
  Integer* to = packed;
  *to++ = static_cast<Integer>(space.rank);
  for (int i = 0; i < space.rank; ++i) to[i] = static_cast<Integer>(space.shape[i]);
  for (int k = 0; k < space.operands; ++k) {
    to += rows.kind.rank;
    for (int i = 0; i < space.rank; ++i) to[i] = static_cast<Integer>(space.strides[k][i]);
  }
  to += rows.kind.rank;
  for (int k = 0; k < space.operands; ++k) *to++ = static_cast<Integer>(rows.strides[k]);
  *to++ = static_cast<Integer>(space.count);
  *to++ = static_cast<Integer>(rows.length);
  arguments.bytes(packed, sizeof(Integer) * static_cast<size_t>(to - packed));
}

}  // namespace

Rows::Rows(const uhal_tensor* const* views, int operands, int axis) : length(views[0]->shape[axis]) {
  uhal_tensor first[kMaxOperands];
  const uhal_tensor* pointers[kMaxOperands] = {};
  bool narrow = true;
  for (int k = 0; k < operands; ++k) {
    first[k] = first_along(*views[k], axis);
    pointers[k] = &first[k];
    strides[k] = views[k]->shape[axis] == 1 ? 0 : views[k]->strides[axis];
    narrow &= fits_32_bits(*views[k]);
  }
  space = make_space(pointers, operands);
  kind = layout_kind(space);
  kind.wide |= !narrow || !fits_32_bits(space.count * length);
  along = std::abs(strides[0]) <= std::abs(space.strides[0][space.rank - 1]) || space.count == 1;
}

void Rows::append(Arguments& arguments) const {
  if (kind.wide) {
    append_rows<int64_t>(arguments, *this);
  } else {
    append_rows<int32_t>(arguments, *this);
  }
}

int64_t unit_of_rows(const Rows& rows, const uhal_tensor* const* views, int operands) {
  const auto lies_in = [&](int operand, int64_t unit) {
    const uhal_tensor* view = views[operand];
    if (view == nullptr) return true;
    if (unit == 8 && dtype_size(view->dtype) != 2) return false;
    if (rows.strides[operand] != 1 || rows.length % unit != 0) return false;
    for (int i = 0; i < rows.space.rank; ++i) {
      if (rows.space.strides[operand][i] % unit != 0 && rows.space.shape[i] > 1) return false;
    }
    return reinterpret_cast<uintptr_t>(view->data) % static_cast<uintptr_t>(unit * dtype_size(view->dtype)) == 0;
  };
  for (const int64_t unit : {8, 4}) {
    bool all = true;
    for (int k = 0; k < operands; ++k) all = all && lies_in(k, unit);
    if (all) return unit;
  }
  return 1;
}

Teams teams_for_rows(const DeviceTraits& traits, const Rows& rows, int64_t share) {
  Teams teams(traits);
  teams.adjacent = rows.along;
  const int64_t most = power_of_two_from(rows.length);
  int64_t lanes;
  if (rows.along) {
    lanes = std::max(power_of_two_from((rows.length + share - 1) / share), std::min(kFewLanes, most));
  } else {
    lanes = std::min(teams.group / std::min(kNeighbouringRows, power_of_two_from(rows.count())), most);
  }
  teams.lanes = static_cast<int32_t>(std::min<int64_t>(lanes, teams.group));
  return teams;
}

}  // namespace unihal::kernels
