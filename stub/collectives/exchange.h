// How data goes from rank to rank: the collectives, step by step.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/backends/common/rank_board.h"
#include "stub/collectives/segment.h"

namespace unihal::stub {

// One rank's part. All ranks go through the same steps: a rank writes a chunk, reads the others', and may go on as soon
// as the chunk of the step before the last was read by all.
class Exchange {
 public:
  // *step goes on from exchange to exchange.
  Exchange(RankBoard& board, const Segment& segment, uint32_t* step, int64_t timeout_milliseconds,
           int32_t (*is_given_up)())
      : board_(board),
        segment_(segment),
        step_(*step),
        timeout_milliseconds_(timeout_milliseconds),
        is_given_up_(is_given_up) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Send and receive; the others are everybody's.
  static bool is_between_two(const uhal_collective& collective) {
    return collective.kind == UHAL_SEND || collective.kind == UHAL_RECEIVE;
  }

  // A collective of everybody.
  RankFailure run(const uhal_collective& collective);

  // Sends and receives, all at the same time; those of one direction with one peer one after the other.
  RankFailure transfer(const uhal_collective* const* collectives, int32_t count);

 private:
  struct Transfer;

  RankFailure wait_until_read();
  RankFailure wait_for_written(bool from_all, int32_t root);
  RankFailure check_chunk(const char* chunk, int32_t rank, const ChunkHeader& own) const;
  void write_header(char* chunk, const ChunkHeader& header) const;
  void finish_step();
  RankBoard::Wait wait() const { return {what_, timeout_milliseconds_, is_given_up_}; }
  void describe(const uhal_collective& collective);

  RankFailure advance(Transfer* transfer, bool* moved);
  RankFailure advance_all(std::vector<Transfer>* transfers, bool* moved);

  RankBoard& board_;
  const Segment& segment_;
  uint32_t& step_;
  const int64_t timeout_milliseconds_;
  int32_t (*const is_given_up_)();
  char what_[96] = "";
};

}  // namespace unihal::stub
