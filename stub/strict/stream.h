// Streams of the strict mode: a thread each, which runs commands in order of submission, later than their call.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "stub/graph/graph.h"
#include "stub/strict/delays.h"
#include "unihal/backend.h"

namespace unihal::stub::strict {

// A piece of submitted work.
struct Command {
  std::string name;  // for errors and reports of faults: "matmul", "copy.host_to_device"

  // Called on the stream's thread. A failure, with its message from fail(), becomes the stream's sticky error.
  std::function<uhal_status()> run;
};

// Submissions come from one thread at a time; everything else may be called from any thread.
class Stream {
 public:
  // Starts the thread. Throws std::system_error or std::bad_alloc.
  Stream(uhal_stream* owner, uint64_t seed, uint64_t number);

  // Runs what is left, then joins the thread.
  ~Stream();

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Throws std::bad_alloc; nothing was submitted then.
  void submit(Command command);

  // Whether all submitted work has run.
  bool idle();

  // Blocks until all submitted work has run.
  void synchronize();

  // As synchronize(), but gives up at a time. Whether all has run.
  bool synchronize_until(std::chrono::steady_clock::time_point time);

  // Ends a delay of the work submitted so far: somebody waits for it.
  void hurry();

  uhal_stream* owner() const { return owner_; }

  // Touched by submissions only.
  GraphBeingCaptured capturing;

  // As ~Stream(), for the end of the process, when handles stay valid.
  void stop();

  static Stream* from(uhal_backend_stream* handle) { return reinterpret_cast<Stream*>(handle); }
  uhal_backend_stream* handle() { return reinterpret_cast<uhal_backend_stream*>(this); }

 private:
  void work();
  void dawdle(const Delay& delay);
  void execute(const Command& command);

  uhal_stream* const owner_;
  const uint64_t number_;
  Delays delays_;  // the thread's own

  std::mutex mutex_;  // guards what follows
  std::condition_variable submitted_;
  std::condition_variable hurried_;
  std::condition_variable completed_;
  std::deque<Command> queue_;
  uint64_t submissions_ = 0;
  uint64_t completions_ = 0;
  uint64_t awaited_ = 0;  // the submission that somebody waits for
  bool stopping_ = false;

  std::thread thread_;  // last: it uses the others
};

}  // namespace unihal::stub::strict
