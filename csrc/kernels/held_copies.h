// Copies of a launch group that are held back to become one launch: the parts of a concatenation, or of a split.
//
// Held at a time are copies of rows in units of one size, which are independent. Threads: one at a time.
#ifndef UNIHAL_KERNELS_HELD_COPIES_H_
#define UNIHAL_KERNELS_HELD_COPIES_H_

#include "csrc/kernels/held_ranges.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {

class HeldCopies {
 public:
  explicit HeldCopies(const DeviceTraits& traits) : traits_(traits) {}
  HeldCopies(const HeldCopies&) = delete;
  HeldCopies& operator=(const HeldCopies&) = delete;

  bool is_empty() const { return count_ == 0; }

  // Holds a validated op back, if it is a copy that can be and goes with what is held already. Else nothing changes.
  bool hold(const uhal_op& op);

  // Submits what is held as one launch. Nothing is held afterwards, whatever it returns.
  uhal_status submit(Queue& queue);

 private:
  const DeviceTraits& traits_;
  int count_ = 0;
  int64_t items_ = 0;
  RowCopy copies_[kMostJoinedCopies];
  HeldRanges<kMostJoinedCopies, kMostJoinedCopies> ranges_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_HELD_COPIES_H_
