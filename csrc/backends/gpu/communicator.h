// A rank of NCCL or RCCL, which neither wait with a limit nor say who is missing: a thread of ours watches the
// collectives under way, and a board in shared memory tells which of this host's ranks have submitted theirs.
//
// The library's calls wait where it connects the ranks, which it does when a communicator is made and at the first
// collective of its kind and size: those calls are made by a thread of their own, for which the submitting thread waits
// with a limit. All later ones only put kernels into the stream, and are made at once.
//
// Threads: submissions one at a time; abort() from any thread meanwhile. Failures of a driver's function are reported,
// all others are returned as texts.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "csrc/backends/common/rank_board.h"
#include "csrc/backends/gpu/collectives_library.h"
#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/event.h"

namespace unihal::gpu {

class ApartCall;

class Communicator {
 public:
  // The library is there.
  Communicator(Device& device, int64_t timeout_milliseconds)
      : device_(device), timeout_milliseconds_(timeout_milliseconds) {}

  // Waits for what is under way.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Waits for the other ranks. After a failure this one is of no use. Throws std::bad_alloc and std::system_error.
  RankFailure open(int32_t rank, int32_t size, const uhal_communicator_id& id);

  // What failed before; then nothing more can be submitted.
  RankFailure earlier_failure() const { return board_->failed() ? board_->failure() : RankFailure(); }

  // Submits batches, each of a communicator of its own, in one group of the library. After a failure their
  // communicators are of no more use. Throws std::bad_alloc, with nothing submitted.
  static RankFailure launch(const uhal_collective_batch* batches, int32_t count);

  void abort();

  static Communicator* from(uhal_backend_communicator* handle) { return reinterpret_cast<Communicator*>(handle); }
  uhal_backend_communicator* handle() { return reinterpret_cast<uhal_backend_communicator*>(this); }

 private:
  // A batch on its way.
  struct Work {
    uhal_collective first = {};
    int32_t count = 0;
    uhal_stream* owner = nullptr;
    bool is_everybodys = false;  // it has collectives of everybody, up to this number
    uint32_t number = 0;
    std::vector<int32_t> peers;  // of its sends and receives
    std::unique_ptr<Event> begin;
    std::unique_ptr<Event> end;
    bool is_submitted = false;
    bool has_begun = false;
    RankBoard::Clock::time_point since;  // from when it waits for other ranks
  };

  RankFailure connect(int32_t rank, int32_t size, const NativeId& id);
  RankFailure native_failure(const char* what, int code) const;

  RankFailure take_work(std::list<Work>* taken);
  RankFailure begin(const uhal_collective_batch& batch);
  RankFailure wait_for(const ApartCall& call, const uhal_collective_batch& batch);
  RankFailure finish(const uhal_collective_batch& batch);
  void fail(const RankFailure& failure);
  bool are_connected(const uhal_collective_batch& batch) const;
  void note_connected(const uhal_collective_batch& batch);

  std::atomic<uint32_t>& submitted_by(int32_t rank) const;
  bool is_missing(const Work& work, int32_t rank) const;
  RankBoard::Wait wait_of(const char* what) const;

  // The watching thread.
  void watch();
  RankFailure look();
  bool is_over(Work* work);
  void give_up(const RankFailure& failure, bool is_call_over);

  Device& device_;
  const int64_t timeout_milliseconds_;
  std::unique_ptr<RankBoard> board_;
  NativeCommunicator submitting_ = nullptr;  // native_ while a batch is submitted
  uint32_t number_ = 0;                      // of everybody's collectives that were submitted
  std::unordered_set<uint64_t> connected_;   // of what kinds and sizes there were collectives

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  NativeCommunicator native_ = nullptr;  // nullptr: given up
  RankBoard::Clock::time_point failed_at_;
  std::list<Work> under_way_;  // in their order; the last may not be submitted yet
  std::list<Work> spare_;      // with their events
  bool stopping_ = false;

  std::thread watcher_;  // last: it uses the others
};

}  // namespace unihal::gpu
