// A rank of the stub: collectives on host memory, through a segment that all ranks of this host share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "csrc/backends/common/rank_board.h"
#include "stub/collectives/segment.h"
#include "unihal/collectives.h"

namespace unihal::stub {

class Communicator {
 public:
  // Waits for the other ranks. nullptr, and why in *failure. Throws std::bad_alloc.
  static std::unique_ptr<Communicator> create(int32_t rank, int32_t size, const uhal_communicator_id& id,
                                              int64_t timeout_milliseconds, RankFailure* failure);

  // Waits for the turns that were taken.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // What failed before; then nothing more can be submitted.
  RankFailure earlier_failure() const { return board_->failed() ? board_->failure() : RankFailure(); }

  // The order of what is submitted. Each turn that is taken is run.
  uint64_t take_turn();

  // Waits for its turn, then for the other ranks, and does collectives on memory that the host can touch. Sends and
  // receives that follow each other go on at the same time.
  RankFailure run(uint64_t turn, const uhal_collective* const* collectives, int32_t count);

  // Any thread.
  void abort();

  static Communicator* from(uhal_backend_communicator* handle) { return reinterpret_cast<Communicator*>(handle); }
  uhal_backend_communicator* handle() { return reinterpret_cast<uhal_backend_communicator*>(this); }

 private:
  Communicator(std::unique_ptr<RankBoard> board, int64_t timeout_milliseconds);

  RankFailure run_all(const uhal_collective* const* collectives, int32_t count);

  const std::unique_ptr<RankBoard> board_;
  const Segment segment_;
  const int64_t timeout_milliseconds_;
  uint32_t step_ = 0;  // of this rank's chunks

  std::mutex mutex_;  // guards what follows
  std::condition_variable turned_;
  uint64_t taken_ = 0;
  uint64_t done_ = 0;
};

}  // namespace unihal::stub
