#include "csrc/core/check/byte_set.h"

#include <algorithm>
#include <numeric>

namespace unihal::core {
namespace {

// Sums of axis positions: all values x0 * stride0 + x1 * stride1 + ... with 0 <= x < count. Both the runs of one view
// and the distances between the runs of two are such sums.
struct Sums {
  int rank = 0;
  std::array<ByteSet::Axis, 2 * UHAL_MAX_RANK> axes;

  void add(uint64_t count, uint64_t stride) {
    if (count > 1 && stride != 0) axes[static_cast<size_t>(rank++)] = {count, stride};
  }

  // Sorts by stride and merges axes that continue each other, so that equal sums have equal axes in the usual cases:
  // if stride1 is a multiple of stride0 and does not leave a gap, their values are those of one longer axis.
  void normalize() {
    std::sort(axes.begin(), axes.begin() + rank,
              [](const ByteSet::Axis& a, const ByteSet::Axis& b) { return a.stride < b.stride; });
    int kept = 0;
    for (int i = 0; i < rank; ++i) {
      ByteSet::Axis next = axes[static_cast<size_t>(i)];
      if (kept > 0) {
        ByteSet::Axis& last = axes[static_cast<size_t>(kept - 1)];
        if (next.stride % last.stride == 0 && next.stride <= last.count * last.stride) {
          last.count += (next.count - 1) * (next.stride / last.stride);
          continue;
        }
      }
      axes[static_cast<size_t>(kept++)] = next;
    }
    rank = kept;
  }
};

// Whether a sum lies within an interval: a depth-first search over the axes, the largest stride first. What the
// smaller strides can still reach leaves few positions to try on each axis of a slice; a common divisor of the
// remaining strides settles column slices at once.
class Search {
 public:
  explicit Search(const Sums& sums) : sums_(sums) {
    for (size_t i = 0; i < static_cast<size_t>(sums.rank); ++i) {
      const ByteSet::Axis& axis = sums.axes[i];
      reach_[i + 1] = reach_[i] + static_cast<int64_t>((axis.count - 1) * axis.stride);
      divisor_[i + 1] = std::gcd(divisor_[i], static_cast<int64_t>(axis.stride));
    }
  }

  Answer finds(int64_t low, int64_t high) {
    if (finds(static_cast<size_t>(sums_.rank), low, high)) return Answer::kYes;
    return steps_ > ByteSet::kLargestSearch ? Answer::kUnknown : Answer::kNo;
  }

 private:
  // With the first `rank` axes.
  bool finds(size_t rank, int64_t low, int64_t high) {
    low = std::max<int64_t>(low, 0);
    high = std::min(high, reach_[rank]);
    if (low > high || ++steps_ > ByteSet::kLargestSearch) return false;
    if (rank == 0) return true;
    const int64_t divisor = divisor_[rank];
    if (high / divisor * divisor < low) return false;
    const auto count = static_cast<int64_t>(sums_.axes[rank - 1].count);
    const auto stride = static_cast<int64_t>(sums_.axes[rank - 1].stride);
    const int64_t below = low - reach_[rank - 1];
    int64_t position = below <= 0 ? 0 : (below + stride - 1) / stride;
    const int64_t last = std::min(count - 1, high / stride);
    for (; position <= last && steps_ <= ByteSet::kLargestSearch; ++position) {
      if (finds(rank - 1, low - position * stride, high - position * stride)) return true;
    }
    return false;
  }

  const Sums& sums_;
  std::array<int64_t, 2 * UHAL_MAX_RANK + 1> reach_ = {};    // the largest sum of the first axes
  std::array<int64_t, 2 * UHAL_MAX_RANK + 1> divisor_ = {};  // the greatest common one of their strides
  int steps_ = 0;
};

}  // namespace

ByteSet::ByteSet(const uhal_tensor& view)
    : low_(reinterpret_cast<uintptr_t>(view.data)), run_(uhal_dtype_size(view.dtype)) {
  Sums sums;
  // First of all: the strides and other lengths of a view without elements may be anything.
  if (std::find(view.shape, view.shape + view.rank, 0) != view.shape + view.rank) {
    run_ = 0;
    return;
  }
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 1) continue;
    const int64_t stride = view.strides[i] * static_cast<int64_t>(run_);
    const int64_t reach = (view.shape[i] - 1) * stride;
    if (stride < 0) low_ -= static_cast<uintptr_t>(-reach);
    sums.add(static_cast<uint64_t>(view.shape[i]), static_cast<uint64_t>(stride < 0 ? -stride : stride));
  }
  sums.normalize();
  for (int i = 0; i < sums.rank; ++i) {
    const Axis& axis = sums.axes[static_cast<size_t>(i)];
    if (axis.stride <= run_) {
      run_ += (axis.count - 1) * axis.stride;
    } else {
      axes_[static_cast<size_t>(rank_++)] = axis;
    }
  }
}

uint64_t ByteSet::reach() const {
  uint64_t bytes = run_;
  for (size_t i = 0; i < static_cast<size_t>(rank_); ++i) bytes += (axes_[i].count - 1) * axes_[i].stride;
  return bytes;
}

bool ByteSet::operator==(const ByteSet& other) const {
  return low_ == other.low_ && run_ == other.run_ && rank_ == other.rank_ &&
         std::equal(axes_.begin(), axes_.begin() + rank_, other.axes_.begin());
}

Answer ByteSet::meets(const ByteSet& other) const {
  if (empty() || other.empty() || end() <= other.begin() || other.end() <= begin()) return Answer::kNo;
  if (dense() && other.dense()) return Answer::kYes;
  // A run of this and one of the other have a byte in common if this one's start minus the other's lies within
  // (-run, other.run). Positions of the other are counted from its end, so that all strides add up.
  Sums distances;
  for (size_t i = 0; i < static_cast<size_t>(rank_); ++i) distances.add(axes_[i].count, axes_[i].stride);
  for (size_t i = 0; i < static_cast<size_t>(other.rank_); ++i) {
    distances.add(other.axes_[i].count, other.axes_[i].stride);
  }
  distances.normalize();
  const auto last_run = static_cast<int64_t>(other.end() - other.run_);
  const int64_t zero = last_run - static_cast<int64_t>(begin());
  return Search(distances).finds(zero - static_cast<int64_t>(run_) + 1, zero + static_cast<int64_t>(other.run_) - 1);
}

Answer repeats_elements(const uhal_tensor& view) {
  // The axes by ascending stride; in elements, since elements coincide wholly or not at all.
  int rank = 0;
  std::array<ByteSet::Axis, UHAL_MAX_RANK> axes;
  if (std::count(view.shape, view.shape + view.rank, 0) != 0) return Answer::kNo;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] == 0) return Answer::kYes;
    const auto stride = static_cast<uint64_t>(view.strides[i] < 0 ? -view.strides[i] : view.strides[i]);
    int place = rank++;
    for (; place > 0 && axes[static_cast<size_t>(place - 1)].stride > stride; --place) {
      axes[static_cast<size_t>(place)] = axes[static_cast<size_t>(place - 1)];
    }
    axes[static_cast<size_t>(place)] = {static_cast<uint64_t>(view.shape[i]), stride};
  }
  // Two indices name one element if their difference d, not zero, has the sum 0. Let d's entry of the largest stride
  // that is not zero be positive (else swap the two): then the axes below it add up to minus that entry's part. Their
  // entries are counted from the lowest, so that all terms add up as in ByteSet::meets().
  uint64_t reach = 0;  // of the axes below
  for (int i = 0; i < rank; ++i) {
    const ByteSet::Axis& axis = axes[static_cast<size_t>(i)];
    if (axis.stride <= reach) {
      Sums sums;
      for (int k = 0; k < i; ++k) {
        sums.add(2 * axes[static_cast<size_t>(k)].count - 1, axes[static_cast<size_t>(k)].stride);
      }
      sums.add(axis.count - 1, axis.stride);
      sums.normalize();
      const auto zero = static_cast<int64_t>(reach - axis.stride);
      if (const Answer answer = Search(sums).finds(zero, zero); answer != Answer::kNo) return answer;
    }
    reach += (axis.count - 1) * axis.stride;
  }
  return Answer::kNo;
}

}  // namespace unihal::core
