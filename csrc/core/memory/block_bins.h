// Free blocks by size: lists per size class, with a bitmap to find the next class that has any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "csrc/core/memory/segment.h"

namespace unihal::core {

class BlockBins {
 public:
  void insert(Block* block);
  void remove(Block* block);

  // The smallest of the blocks looked at that hold `bytes`, or nullptr; it stays in its bin.
  Block* best_fit(size_t bytes) const;

  // The largest free block's size, 0 if there is none.
  size_t largest() const;

  bool empty() const;

  // Calls visit(block) for each block; visit may remove the block that it is given.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (Block* head : heads_) {
      while (head != nullptr) {
        Block* next = head->next_in_bin;
        visit(head);
        head = next;
      }
    }
  }

 private:
  // Eight classes per power of two, from 256 bytes to 2^48.
  static constexpr int kSmallestShift = 8;
  static constexpr int kClassShift = 3;
  static constexpr int kBinCount = (48 - kSmallestShift) << kClassShift;
  static constexpr int kWordCount = kBinCount / 64;

  static int bin_of(size_t bytes);
  int next_bin(int from) const;  // the first with blocks at or after `from`; kBinCount if none

  Block* heads_[kBinCount] = {};
  uint64_t filled_[kWordCount] = {};
};

}  // namespace unihal::core
