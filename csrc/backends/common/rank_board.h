// Where the ranks of a communicator that run on one host see each other: a segment of shared memory, for ranks in one
// process and in several.
//
// The segment is a file in /dev/shm, which only its user may open, named after that user and the communicator's id.
// Whoever comes first makes it, of zeros, which is its first state; once all have come it has no name any more, so that
// nothing is left whatever becomes of the ranks. Segments whose ranks all died before that are removed by the next
// board.
//
// Waiting: each rank has a bell, a futex on which its one waiting thread sleeps and which others ring after a change.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "unihal/status.h"

namespace unihal {

// Why a wait or a creation failed; status UHAL_OK: it did not.
struct RankFailure {
  uhal_status status = UHAL_OK;
  std::string message;

  explicit operator bool() const { return status != UHAL_OK; }
};

class RankBoard {
 public:
  using Clock = std::chrono::steady_clock;

  // All of these and the number of payload bytes are the same on all ranks, but for `rank`.
  struct Place {
    std::string name;  // of letters and digits, from the communicator's id
    int32_t rank = 0;
    int32_t size = 0;
    size_t payload_bytes = 0;
  };

  // Takes a rank's place. nullptr, and why in *failure: UHAL_ALREADY_EXISTS, UHAL_INVALID_ARGUMENT if the others have
  // another size, UHAL_RESOURCE_EXHAUSTED or UHAL_UNAVAILABLE without shared memory. Throws std::bad_alloc.
  static std::unique_ptr<RankBoard> open(const Place& place, RankFailure* failure);

  // The rank leaves; the others are told.
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  int32_t rank() const { return place_.rank; }
  int32_t size() const { return place_.size; }

  // Shared memory of all ranks, aligned to 4096, zeros at first.
  char* payload() const { return payload_; }

  // What a wait is about.
  struct Wait {
    const char* what;  // "all_reduce of 5 float32"
    int64_t timeout_milliseconds;
    int32_t (*is_given_up)();  // the waiting thread's wish to return with UHAL_CANCELLED; may be nullptr
    // How long it sleeps at most before it asks for its condition unrung; others than ranks may bring that about.
    std::chrono::milliseconds longest_sleep{25};
  };

  // Blocks until all ranks have come, and takes the segment's name away. A failure is the whole board's.
  RankFailure await_all(const Wait& wait);

  // Blocks until condition(); missing(rank) tells for whom. On failure the board has failed: UHAL_DEADLINE_EXCEEDED,
  // and UHAL_ABORTED for a missing rank that ended or left, name the ranks. One thread of a rank at a time.
  template <class Condition, class Missing>
  RankFailure wait(const Wait& wait, Condition&& condition, Missing&& missing) {
    if (is_true_soon(condition)) return failed() ? failure() : RankFailure();
    Sleep sleep(*this, wait);
    while (true) {
      const uint32_t bell = sleep.listen();
      if (failed()) return failure();
      if (condition()) return {};
      if (!sleep.until_rung(bell)) continue;
      if (RankFailure found = sleep.look_round([&](int32_t rank) { return missing(rank); })) {
        // A rank that did its part and then left was not waited for in vain.
        if (condition()) return failed() ? failure() : RankFailure();
        return fail(found);
      }
    }
  }

  // Wakes a rank, or all others, after a change that they may wait for.
  void ring(int32_t rank);
  void ring_others();

  // The board is of no more use to any rank: the first failure is kept for all. Returns what it was given. Any thread.
  RankFailure fail(const RankFailure& failure);
  bool failed() const;
  RankFailure failure() const;

  // What is to be said of a wait that is not over: nothing yet; UHAL_ABORTED, if a rank that is waited for has ended or
  // left; or, if it has waited long enough, UHAL_DEADLINE_EXCEEDED.
  template <class Missing>
  RankFailure judge(const Wait& wait, bool is_late, Missing&& missing) const {
    for (int32_t other = 0; other < size(); ++other) {
      if (other == rank() || !missing(other)) continue;
      if (std::string end = end_of(other); !end.empty()) return ended(wait, other, end);
    }
    if (!is_late) return {};
    return timed_out(wait, names_of([&](int32_t other) { return other != rank() && missing(other); }));
  }

  // "rank 2", "ranks 1 and 3", empty: those for which is_meant(rank).
  template <class Predicate>
  std::string names_of(Predicate&& is_meant) const {
    std::string names;
    int32_t count = 0;
    for (int32_t rank = size() - 1; rank >= 0; --rank) {
      if (!is_meant(rank)) continue;
      names = std::to_string(rank) + (count == 0 ? "" : count == 1 ? " and " : ", ") + names;
      ++count;
    }
    return (count == 0 ? "" : count == 1 ? "rank " : "ranks ") + names;
  }

  // What became of a rank of this host, for a person: "has ended (process 17)", "has destroyed its communicator"; empty
  // if it is there, or never came.
  std::string end_of(int32_t rank) const;

  // Whether a rank has taken its place on this host; whether it has left since; whether its process ended without that.
  bool has_come(int32_t rank) const;
  bool has_left(int32_t rank) const;
  bool has_died(int32_t rank) const;

  // Takes the segment's name away: no rank can come any more.
  void remove_name();

 private:
  struct Rank;
  struct Header;

  // The sleeping half of a wait.
  class Sleep {
   public:
    Sleep(RankBoard& board, const Wait& wait);
    ~Sleep();
    uint32_t listen();
    // Whether it is time to look round.
    bool until_rung(uint32_t bell);
    template <class Missing>
    RankFailure look_round(Missing&& missing) {
      if (wait_.is_given_up != nullptr && wait_.is_given_up() != 0) return given_up();
      return board_.judge(wait_, Clock::now() >= deadline_, missing);
    }

   private:
    RankFailure given_up() const;

    RankBoard& board_;
    const Wait& wait_;
    const Clock::time_point deadline_;
  };

  RankBoard(const Place& place, int file, std::string path, char* memory, size_t bytes);

  template <class Condition>
  static bool is_true_soon(Condition& condition) {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
    }
    return false;
  }

  RankFailure join();
  std::string subject(const Wait& wait) const;
  RankFailure ended(const Wait& wait, int32_t other, const std::string& end) const;
  RankFailure timed_out(const Wait& wait, const std::string& missing) const;
  Header& header() const;
  Rank& entry(int32_t rank) const;

  const Place place_;
  int file_;  // -1 once the name is gone
  const std::string path_;
  char* const memory_;
  const size_t bytes_;
  char* payload_ = nullptr;
  bool joined_ = false;
};

}  // namespace unihal
