#include "stub/collectives/segment.h"

#include <algorithm>

namespace unihal::stub {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kChunks = 2;  // of a rank, and of a channel

// All chunks together take about so much, but each has a useful size.
constexpr size_t kChunkBudget = size_t{4} << 20, kLeastChunk = size_t{64} << 10, kMostChunk = size_t{1} << 20;
constexpr size_t kChannelBudget = size_t{1} << 20, kLeastChannel = size_t{2} << 10, kMostChannel = size_t{128} << 10;

size_t share(size_t budget, size_t parts, size_t least, size_t most) {
  return std::clamp(budget / parts, least, most) / kLine * kLine;
}

size_t of(int32_t ranks) { return static_cast<size_t>(ranks); }

size_t counts_bytes(int32_t ranks) { return of(ranks) * sizeof(ChunkCounts); }
size_t chunks_bytes(int32_t ranks) { return of(ranks) * kChunks * (sizeof(ChunkHeader) + Segment::chunk_bytes(ranks)); }
size_t channel_counts_bytes(int32_t ranks) { return of(ranks) * of(ranks) * sizeof(ChunkCounts); }

}  // namespace

size_t Segment::chunk_bytes(int32_t ranks) { return share(kChunkBudget, of(ranks), kLeastChunk, kMostChunk); }

size_t Segment::channel_bytes(int32_t ranks) {
  return share(kChannelBudget, of(ranks) * of(ranks), kLeastChannel, kMostChannel);
}

size_t Segment::bytes(int32_t ranks) {
  const size_t channels = of(ranks) * of(ranks) * kChunks * (sizeof(ChunkHeader) + channel_bytes(ranks));
  return counts_bytes(ranks) + chunks_bytes(ranks) + channel_counts_bytes(ranks) + channels;
}

ChunkCounts& Segment::counts(int32_t rank) const { return reinterpret_cast<ChunkCounts*>(memory_)[rank]; }

char* Segment::chunk(int32_t rank, uint32_t step) const {
  const size_t number = of(rank) * kChunks + step % kChunks;
  return memory_ + counts_bytes(ranks_) + number * (sizeof(ChunkHeader) + chunk_bytes(ranks_));
}

size_t Segment::channel(int32_t from, int32_t to) const { return of(from) * of(ranks_) + of(to); }

ChunkCounts& Segment::channel_counts(int32_t from, int32_t to) const {
  char* const begin = memory_ + counts_bytes(ranks_) + chunks_bytes(ranks_);
  return reinterpret_cast<ChunkCounts*>(begin)[channel(from, to)];
}

char* Segment::channel_chunk(int32_t from, int32_t to, uint32_t step) const {
  char* const begin = memory_ + counts_bytes(ranks_) + chunks_bytes(ranks_) + channel_counts_bytes(ranks_);
  const size_t number = channel(from, to) * kChunks + step % kChunks;
  return begin + number * (sizeof(ChunkHeader) + channel_bytes(ranks_));
}

}  // namespace unihal::stub
