// Segments (what a backend handed out) and the blocks they are divided into.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace unihal::core {

struct Segment;
struct StreamBlocks;
struct GraphBlocks;

// A piece of a segment, live or free. Descriptors are recycled but never deleted, so a thread may look at
// `serial` of a block that it saw earlier without a lock.
struct Block {
  std::atomic<uint64_t> serial{0};  // odd while live; changes at every allocation and free
  char* address = nullptr;
  size_t bytes = 0;
  size_t requested = 0;          // live: what the caller asked for
  GraphBlocks* graph = nullptr;  // live: whose work it was allocated for; nullptr: that of no capture
  Segment* segment = nullptr;
  Block* previous = nullptr;  // neighbours in the segment, by address
  Block* next = nullptr;
  Block* previous_in_bin = nullptr;  // free: neighbours in the bin
  Block* next_in_bin = nullptr;
  StreamBlocks* owner = nullptr;  // free: whose stream order it is in
  uint64_t freed_at = 0;          // free: the allocator's count of frees at that time

  bool live() const { return (serial.load(std::memory_order_relaxed) & 1) != 0; }
};

// One backend allocation. Blocks begin at multiples of its granule.
struct Segment {
  char* base = nullptr;
  size_t bytes = 0;
  size_t granule = 0;
  Block* first = nullptr;
  std::unique_ptr<uint64_t[]> starts;  // one bit per granule: a block begins there
  std::unique_ptr<Block*[]> blocks;    // the block that begins there

  Segment(char* base, size_t bytes, size_t granule);
  void add_start(Block* block);
  void remove_start(const Block* block);
  // The block that contains an address of this segment.
  Block* find(const char* address) const;
};

}  // namespace unihal::core
