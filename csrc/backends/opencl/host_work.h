// Functions that a stream calls on the host, in the order of its work: a thread that starts with the first of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "csrc/backends/opencl/event.h"

namespace unihal::opencl {

class HostWork {
 public:
  HostWork() = default;

  // As stop().
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

  // Calls `function` once `before` is reached, whether or not the work before it succeeded, and completes the user
  // event `after` then. Throws std::bad_alloc or std::system_error; nothing was submitted then.
  void submit(EventReference before, EventReference after, std::function<void()> function);

  // Blocks until all functions have been called and the thread is at rest, at most until a time.
  void wait_until(std::chrono::steady_clock::time_point time);

  // Calls what is left, then joins the thread. Nothing is submitted afterwards.
  void stop();

 private:
  struct Item {
    EventReference before;
    EventReference after;
    std::function<void()> function;
  };

  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable submitted_;
  std::condition_variable rested_;
  std::deque<Item> items_;
  bool working_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace unihal::opencl
