#include "csrc/kernels/layout.h"

#include <algorithm>
#include <cstdlib>

namespace unihal::kernels {
namespace {

constexpr int kSmallRank = 4;

template <class Integer>
void append(Arguments& arguments, const Space& space, int rank) {
  Integer packed[1 + UHAL_MAX_RANK * (1 + kMaxOperands)] = {};
  packed[0] = static_cast<Integer>(space.rank);
  Integer* row = packed + 1;
  for (int i = 0; i < space.rank; ++i) row[i] = static_cast<Integer>(space.shape[i]);
  for (int k = 0; k < space.operands; ++k) {
    row += rank;
    for (int i = 0; i < space.rank; ++i) row[i] = static_cast<Integer>(space.strides[k][i]);
  }
  arguments.bytes(packed, sizeof(Integer) * static_cast<size_t>(1 + rank * (1 + space.operands)));
}

}  // namespace

void always_use_wide_indices() { wide_indices_only.store(true, std::memory_order_relaxed); }

LayoutKind layout_kind(const Space& space) {
  LayoutKind kind = {!fits_32_bits(space.count), space.rank <= kSmallRank ? kSmallRank : UHAL_MAX_RANK};
  for (int k = 0; k < space.operands; ++k) {
    int64_t reach = 0;
    for (int i = 0; i < space.rank; ++i) reach += std::abs(space.strides[k][i]) * (space.shape[i] - 1);
    kind.wide |= !fits_32_bits(reach);
  }
  return kind;
}

LayoutKind widest(const LayoutKind& a, const LayoutKind& b) { return {a.wide || b.wide, std::max(a.rank, b.rank)}; }

void append_layout(Arguments& arguments, const Space& space, const LayoutKind& kind) {
  if (kind.wide) {
    append<int64_t>(arguments, space, kind.rank);
  } else {
    append<int32_t>(arguments, space, kind.rank);
  }
}

}  // namespace unihal::kernels
