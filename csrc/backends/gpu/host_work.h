// Functions that a stream calls on the host, in the order of its work: a thread that starts with the first of them. The
// driver's own thread may call nothing of the driver, and our functions may submit work; so it hands each of them over,
// and waits until it has run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "csrc/backends/gpu/api.h"
#include "unihal/stream.h"

namespace unihal::gpu {

class HostWork {
 public:
  HostWork() = default;

  // As stop().
  ~HostWork() { stop(); }
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

  // Submits function(user_data) to a stream of the current device; returns the driver's code. Throws std::bad_alloc or
  // std::system_error; nothing was submitted then.
  int submit(NativeStream stream, uhal_host_function function, void* user_data);

  // Whether functions that were submitted, to any stream of this process, have yet to run.
  static bool is_outstanding() { return outstanding_.load(std::memory_order_acquire) > 0; }

  // Joins the thread. The stream's work has run.
  void stop();

 private:
  struct Item {
    HostWork* owner;
    uhal_host_function function;
    void* user_data;
  };

  static void hand_over(void* item);
  void work();

  static inline std::atomic<int64_t> outstanding_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Item* item_ = nullptr;  // handed over and not done; one at a time, since the stream waits for it
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace unihal::gpu
