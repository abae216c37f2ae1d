#include "stub/collectives/exchange.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "csrc/backends/common/dtype.h"
#include "stub/collectives/reduction.h"

namespace unihal::stub {
namespace {

const char* kind_name(int32_t kind) {
  static constexpr const char* kNames[] = {
#define UHAL_COLLECTIVE_KIND(KIND, name, ...) #name,
#include "csrc/tables/collectives.def"
  };
  return kind >= 1 && kind < UHAL_COLLECTIVE_KIND_LIMIT ? kNames[kind - 1] : "nothing known";
}

bool reduces(int32_t kind) { return kind == UHAL_ALL_REDUCE || kind == UHAL_REDUCE_SCATTER || kind == UHAL_REDUCE; }

bool has_root(int32_t kind) { return kind == UHAL_BROADCAST || kind == UHAL_REDUCE; }

// What all ranks must have alike.
ChunkHeader header_of(const uhal_collective& collective) {
  ChunkHeader header = {};
  header.kind = collective.kind;
  header.dtype = collective.dtype;
  header.reduction = reduces(collective.kind) ? collective.reduction : 0;
  header.peer = has_root(collective.kind) ? collective.peer : 0;
  header.count = collective.count;
  return header;
}

std::string describe(const ChunkHeader& header) {
  std::string text =
      std::string(kind_name(header.kind)) + " of " + std::to_string(header.count) + " " + dtype_name(header.dtype);
  if (reduces(header.kind)) text += ", reduction " + std::to_string(header.reduction);
  if (has_root(header.kind)) text += ", root " + std::to_string(header.peer);
  return text;
}

// The blocks of a collective, cut into pieces that go through a chunk.
struct Blocks {
  Blocks(const uhal_collective& collective, int32_t rank_count, size_t chunk_bytes)
      : each_source(collective.kind == UHAL_REDUCE_SCATTER || collective.kind == UHAL_ALL_TO_ALL),
        block_bytes(static_cast<size_t>(collective.count * dtype_size(collective.dtype))),
        piece_bytes(each_source ? chunk_bytes / static_cast<size_t>(rank_count) / 64 * 64 : chunk_bytes) {}

  const bool each_source;  // a chunk has a piece for each rank
  const size_t block_bytes;
  const size_t piece_bytes;
};

}  // namespace

void Exchange::describe(const uhal_collective& collective) {
  std::snprintf(what_, sizeof what_, "%s of %lld %s", kind_name(collective.kind),
                static_cast<long long>(collective.count), dtype_name(collective.dtype));
}

// -- steps ------------------------------------------------------------------------------------------------------------

void Exchange::write_header(char* chunk, const ChunkHeader& header) const {
  std::memcpy(chunk, &header, sizeof header);
}

RankFailure Exchange::check_chunk(const char* chunk, int32_t rank, const ChunkHeader& own) const {
  ChunkHeader other;
  std::memcpy(&other, chunk, sizeof other);
  if (std::memcmp(&other, &own, sizeof other) == 0) return {};
  return board_.fail({UHAL_INVALID_ARGUMENT,
                      "rank " + std::to_string(board_.rank()) + " called " + stub::describe(own) + ", but rank " +
                          std::to_string(rank) + " " + stub::describe(other) +
                          "; let all ranks call the same, in the same order, and create the communicators with a new "
                          "id"});
}

// The chunk of this step may be written once all have read what it held.
RankFailure Exchange::wait_until_read() {
  const uint32_t before = step_ - 2;
  const auto is_read = [&](int32_t rank) { return has_reached(segment_.counts(rank).read, before); };
  return board_.wait(
      wait(),
      [&] {
        for (int32_t rank = 0; rank < board_.size(); ++rank) {
          if (!is_read(rank)) return false;
        }
        return true;
      },
      [&](int32_t rank) { return !is_read(rank); });
}

RankFailure Exchange::wait_for_written(bool from_all, int32_t root) {
  const auto is_missing = [&](int32_t rank) {
    return (from_all || rank == root) && !has_reached(segment_.counts(rank).written, step_);
  };
  return board_.wait(
      wait(),
      [&] {
        for (int32_t rank = 0; rank < board_.size(); ++rank) {
          if (is_missing(rank)) return false;
        }
        return true;
      },
      is_missing);
}

void Exchange::finish_step() {
  segment_.counts(board_.rank()).read.store(step_);
  board_.ring_others();
}

RankFailure Exchange::run(const uhal_collective& collective) {
  describe(collective);
  const ChunkHeader header = header_of(collective);
  const int32_t rank = board_.rank(), size = board_.size(), root = collective.peer;
  const Blocks blocks(collective, size, Segment::chunk_bytes(size));
  const auto* const source = static_cast<const char*>(collective.source);
  auto* const destination = static_cast<char*>(collective.destination);
  const bool writes = collective.kind != UHAL_BROADCAST || rank == root;
  const bool reads = collective.kind != UHAL_REDUCE || rank == root;
  const bool from_all = collective.kind != UHAL_BROADCAST;

  for (size_t done = 0; done < blocks.block_bytes; done += blocks.piece_bytes) {
    const size_t bytes = std::min(blocks.piece_bytes, blocks.block_bytes - done);
    ++step_;
    if (RankFailure failure = wait_until_read()) return failure;
    char* const own = segment_.chunk(rank, step_);
    write_header(own, header);
    if (blocks.each_source) {
      for (int32_t to = 0; to < size; ++to) {
        const auto block = static_cast<size_t>(to);
        std::memcpy(own + sizeof header + block * blocks.piece_bytes, source + block * blocks.block_bytes + done,
                    bytes);
      }
    } else if (writes) {
      std::memcpy(own + sizeof header, source + done, bytes);
    }
    segment_.counts(rank).written.store(step_);
    board_.ring_others();
    if (reads) {
      if (RankFailure failure = wait_for_written(from_all, root)) return failure;
      const char* pieces[kMostRanks] = {};
      for (int32_t from = 0; from < size; ++from) {
        if (!from_all && from != root) continue;
        const char* chunk = segment_.chunk(from, step_);
        if (RankFailure failure = check_chunk(chunk, from, header)) return failure;
        pieces[from] =
            chunk + sizeof header + (blocks.each_source ? static_cast<size_t>(rank) * blocks.piece_bytes : 0);
      }
      if (reduces(collective.kind)) {
        reduce_ranks(collective.dtype, collective.reduction, pieces, size, destination + done,
                     static_cast<int64_t>(bytes) / dtype_size(collective.dtype));
      } else if (collective.kind == UHAL_BROADCAST) {
        std::memcpy(destination + done, pieces[root], bytes);
      } else {
        for (int32_t from = 0; from < size; ++from) {
          std::memcpy(destination + static_cast<size_t>(from) * blocks.block_bytes + done, pieces[from], bytes);
        }
      }
    }
    finish_step();
  }
  return {};
}

// -- send and receive -------------------------------------------------------------------------------------------------

struct Exchange::Transfer {
  const uhal_collective* collective;
  ChunkHeader header;  // as the sender writes it
  size_t bytes;
  size_t done = 0;

  bool sends() const { return collective->kind == UHAL_SEND; }
  int32_t peer() const { return collective->peer; }
  bool over() const { return done == bytes; }
};

// Moves what can be moved without waiting.
RankFailure Exchange::advance(Transfer* transfer, bool* moved) {
  const int32_t rank = board_.rank(), peer = transfer->peer();
  const int32_t from = transfer->sends() ? rank : peer, to = transfer->sends() ? peer : rank;
  ChunkCounts& counts = segment_.channel_counts(from, to);
  const size_t most = Segment::channel_bytes(board_.size());
  while (!transfer->over()) {
    const uint32_t written = counts.written.load(), read = counts.read.load();
    const bool can_move = transfer->sends() ? written - read < 2 : written != read;
    if (!can_move) break;
    const size_t bytes = std::min(most, transfer->bytes - transfer->done);
    char* const chunk = segment_.channel_chunk(from, to, transfer->sends() ? written : read);
    if (transfer->sends()) {
      write_header(chunk, transfer->header);
      std::memcpy(chunk + sizeof(ChunkHeader), static_cast<const char*>(transfer->collective->source) + transfer->done,
                  bytes);
      counts.written.store(written + 1);
    } else {
      if (RankFailure failure = check_chunk(chunk, peer, transfer->header)) return failure;
      std::memcpy(static_cast<char*>(transfer->collective->destination) + transfer->done, chunk + sizeof(ChunkHeader),
                  bytes);
      counts.read.store(read + 1);
    }
    transfer->done += bytes;
    *moved = true;
    board_.ring(peer);
  }
  return {};
}

// Those of one direction with one peer share a channel, and go one after the other.
RankFailure Exchange::advance_all(std::vector<Transfer>* transfers, bool* moved) {
  for (size_t i = 0; i < transfers->size(); ++i) {
    Transfer& transfer = (*transfers)[i];
    const bool is_behind =
        std::any_of(transfers->begin(), transfers->begin() + static_cast<ptrdiff_t>(i), [&](const Transfer& earlier) {
          return !earlier.over() && earlier.sends() == transfer.sends() && earlier.peer() == transfer.peer();
        });
    if (is_behind || transfer.over()) continue;
    if (RankFailure failure = advance(&transfer, moved)) return failure;
  }
  return {};
}

RankFailure Exchange::transfer(const uhal_collective* const* collectives, int32_t count) {
  std::vector<Transfer> transfers;
  for (int32_t i = 0; i < count; ++i) {
    const uhal_collective& collective = *collectives[i];
    ChunkHeader header = header_of(collective);
    header.kind = UHAL_SEND;
    transfers.push_back({&collective, header, static_cast<size_t>(collective.count * dtype_size(collective.dtype))});
  }
  while (true) {
    const auto first = std::find_if(transfers.begin(), transfers.end(), [](const Transfer& t) { return !t.over(); });
    if (first == transfers.end()) return {};
    describe(*first->collective);
    RankFailure mismatch;
    RankFailure failure = board_.wait(
        wait(),
        [&] {
          bool moved = false;
          mismatch = advance_all(&transfers, &moved);
          return moved || mismatch;
        },
        [&](int32_t rank) {
          return std::any_of(transfers.begin(), transfers.end(),
                             [&](const Transfer& t) { return !t.over() && t.peer() == rank; });
        });
    if (mismatch) return mismatch;
    if (failure) return failure;
  }
}

}  // namespace unihal::stub
