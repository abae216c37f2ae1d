// Putting keys in order on the device, for ops that must meet equal keys one after the other (scatter).
#ifndef UNIHAL_KERNELS_STABLE_ORDER_H_
#define UNIHAL_KERNELS_STABLE_ORDER_H_

#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// Keys and their number are less.
inline constexpr int64_t kMostOrdered = int64_t{1} << 30;

// The ascending order of 32-bit keys, equal ones in the order that they came in. By counting for few keys; by radix
// sort, up to nine bits in three launches, for many.
class StableOrder {
 public:
  // `count` keys, fewer than kMostOrdered, each at most `largest`.
  StableOrder(const DeviceTraits& traits, int64_t count, uint32_t largest);

  // Of the workspace that run needs.
  size_t bytes() const;

  // A kernel that makes the keys can leave the first pass's counts with them, by prelude/tile_counts.h: it runs in
  // groups of `group`, each with a tile of `tile` keys, and counts of each key its lowest bits: `digits`, a power of
  // two, are the values that these can have; 0: this sort counts nothing. `totals` is where they go:
  // totals[tile][digit].
  struct FirstCounts {
    int32_t group;
    int64_t tile;
    int32_t digits;
    void* totals;

    Grid grid(int64_t count) const;
  };
  FirstCounts first_counts(void* workspace) const;

  // Submits the sort. `keys` (uint32) and `workspace` are device memory, aligned to 4 bytes; keys are overwritten.
  // *sorted_keys and *order point into them: order[i] is the number that sorted_keys[i] had in `keys`. `counted`: the
  // first counts are there.
  uhal_status run(Queue& queue, void* keys, void* workspace, const void** sorted_keys, const void** order,
                  bool counted = false) const;

 private:
  uhal_status rank(Queue& queue, const void* keys, void* sorted_keys, void* order) const;
  KernelSpec spec(const char* entry) const;
  int64_t tiles() const { return (count_ + tile_ - 1) / tile_; }
  uint32_t* totals(void* workspace) const { return static_cast<uint32_t*>(workspace) + 3 * count_; }
  int64_t digits() const { return int64_t{1} << digit_bits_; }
  int64_t counts() const { return tiles() * digits(); }  // of each digit in each tile

  int64_t count_;
  int passes_;      // of radix sort; 0: by counting
  int digit_bits_;  // of the keys, in each pass
  int local_bits_;  // of a digit, by which a group puts its tile in order at a time
  int32_t group_;
  int64_t tile_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_STABLE_ORDER_H_
