#include "csrc/kernels/held_copies.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kMostItems = int64_t{1} << 30;

// Of one side.
HeldRange range_of(const void* data, const RowCopy& copy, int64_t pitch) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const auto length = static_cast<uintptr_t>(copy.columns * copy.unit);
  const auto bytes = static_cast<uintptr_t>(pitch * copy.unit);
  const auto last = begin + bytes * static_cast<uintptr_t>(copy.rows - 1);
  const bool has_gaps = copy.rows > 1 && bytes > length;
  return {begin, last + length, has_gaps ? bytes : 0, has_gaps ? length : 0};
}

}  // namespace

bool HeldCopies::hold(const uhal_op& op) {
  RowCopy copy;
  if (op.kind != UHAL_OP_COPY || !joins_copies(traits_) || refuse_dtypes(traits_, op) != nullptr) return false;
  if (!as_row_copy(*op.inputs[0], *op.outputs[0], &copy)) return false;
  const HeldRange to = range_of(copy.to, copy, copy.to_pitch), from = range_of(copy.from, copy, copy.from_pitch);
  if (count_ == 0) {
    items_ = 0;
    ranges_.clear();
  } else if (count_ == kMostJoinedCopies || copy.unit != copies_[0].unit ||
             items_ + copy.rows * copy.columns > kMostItems || !ranges_.allows_write(to) ||
             !ranges_.allows_read(from)) {
    return false;
  }
  ranges_.add_write(to);
  ranges_.add_read(from);
  items_ += copy.rows * copy.columns;
  copies_[count_++] = copy;
  return true;
}

uhal_status HeldCopies::submit(Queue& queue) {
  if (count_ == 0) return UHAL_OK;
  const uhal_status status = run_joined_copies(queue, copies_, count_);
  count_ = 0;
  return status;
}

}  // namespace unihal::kernels
