// The bytes that a strided view names, and whether two views have one in common.
#pragma once

#include <array>
#include <cstdint>

#include "unihal/tensor.h"

namespace unihal::core {

enum class Answer { kNo, kYes, kUnknown };

// Whether two indices of a sound view name one element: by the same search as ByteSet::meets().
Answer repeats_elements(const uhal_tensor& view);

// Runs of consecutive bytes at regular distances. The same bytes named in two ways (axes permuted, merged, reversed,
// repeated, or windows that overlap) nearly always give equal sets, so that equality may be used to save work.
class ByteSet {
 public:
  // An axis of the runs: `count` > 1 of them, `stride` bytes apart.
  struct Axis {
    uint64_t count;
    uint64_t stride;
    bool operator==(const Axis& other) const { return count == other.count && stride == other.stride; }
  };

  // The bytes of a sound view, none if the view has no elements.
  explicit ByteSet(const uhal_tensor& view);
  ByteSet(uintptr_t begin, uint64_t bytes) : low_(begin), run_(bytes) {}

  bool empty() const { return run_ == 0; }
  // All bytes from begin() to end() belong to it.
  bool dense() const { return rank_ == 0; }
  uintptr_t begin() const { return low_; }
  uintptr_t end() const { return low_ + reach(); }

  bool operator==(const ByteSet& other) const;

  // Whether a byte belongs to both: exact, but for views of many axes whose strides have nothing to do with each
  // other (unknown in frameworks), where the search is given up after kLargestSearch steps and the answer is kUnknown.
  Answer meets(const ByteSet& other) const;
  // As meets(), where what is not known counts as no: a yes is always true.
  bool overlaps(const ByteSet& other) const { return meets(other) == Answer::kYes; }
  static constexpr int kLargestSearch = 1 << 16;

  // Calls visit(begin, bytes) for each run, while it returns true; whether all were visited. Runs of a view whose
  // elements are distinct have no byte in common.
  template <class Visit>
  bool visit_runs(Visit&& visit) const {
    if (empty()) return true;
    const auto rank = static_cast<size_t>(rank_);
    std::array<uint64_t, UHAL_MAX_RANK> position = {};
    uintptr_t begin = low_;
    while (true) {
      if (!visit(begin, run_)) return false;
      size_t axis = 0;
      for (; axis < rank; ++axis) {
        begin += axes_[axis].stride;
        if (++position[axis] < axes_[axis].count) break;
        begin -= axes_[axis].count * axes_[axis].stride;
        position[axis] = 0;
      }
      if (axis == rank) return true;
    }
  }

 private:
  uint64_t reach() const;  // bytes from the first to the last

  uintptr_t low_;
  uint64_t run_;
  int rank_ = 0;
  std::array<Axis, UHAL_MAX_RANK> axes_;  // by ascending stride; all strides are larger than the run
};

}  // namespace unihal::core
