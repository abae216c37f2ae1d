// What the ranks of a communicator share: a piece of memory of bounded size, through which data of any size goes in
// chunks.
//
// Each rank has two chunks that it writes in turn, at its odd and even steps, and that all others read; each pair of
// ranks has a channel of two smaller ones for each direction, for send and receive. A chunk begins with the collective
// that it belongs to, so that calls which do not go together are found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "unihal/collectives.h"

namespace unihal::stub {

inline constexpr int32_t kMostRanks = 64;

// The collective of a chunk. Ranks whose calls go together write the same.
struct ChunkHeader {
  int32_t kind;
  int32_t dtype;
  int32_t reduction;
  int32_t peer;
  int64_t count;
  int64_t unused[5];
};
static_assert(sizeof(ChunkHeader) == 64);

// How many chunks were written and read. They wrap around.
struct ChunkCounts {
  alignas(64) std::atomic<uint32_t> written;
  alignas(64) std::atomic<uint32_t> read;
};

// Whether a count has got to a step.
inline bool has_reached(const std::atomic<uint32_t>& count, uint32_t step) {
  return static_cast<int32_t>(count.load() - step) >= 0;
}

// Where things lie.
class Segment {
 public:
  Segment(char* memory, int32_t ranks) : memory_(memory), ranks_(ranks) {}

  static size_t bytes(int32_t ranks);

  // Of a chunk, without its header: multiples of 64.
  static size_t chunk_bytes(int32_t ranks);
  static size_t channel_bytes(int32_t ranks);

  ChunkCounts& counts(int32_t rank) const;
  char* chunk(int32_t rank, uint32_t step) const;  // its header, then the data

  ChunkCounts& channel_counts(int32_t from, int32_t to) const;
  char* channel_chunk(int32_t from, int32_t to, uint32_t step) const;

 private:
  size_t channel(int32_t from, int32_t to) const;

  char* const memory_;
  const int32_t ranks_;
};

}  // namespace unihal::stub
