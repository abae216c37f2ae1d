// Streams, each a thread that does its work in order, and events.
//
// Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/doubles/hip_on_host/device.h"

namespace on_host {

// A place in a stream's work.
class Mark {
 public:
  bool is_passed() const;
  void wait() const;
  void pass();

  // When the stream passed it, which it has.
  std::chrono::steady_clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_passed_ = false;
  std::chrono::steady_clock::time_point time_;
};

struct Event {
  Event(Device* owner, bool tells_times) : device(owner), is_timed(tells_times) {}

  // Of the last record; nullptr before the first.
  std::shared_ptr<Mark> mark() const;
  void set_mark(std::shared_ptr<Mark> mark);

  Device* const device;
  const bool is_timed;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

class Stream {
 public:
  // Work returns a code. Other than 0 loses the device, whose streams drop what work they have left.
  using Work = std::function<int()>;

  // Starts the thread, which holds the stream until close() and the end of its work.
  static std::shared_ptr<Stream> open(Device* device);

  // While the stream captures, the work is noted instead.
  void submit(Work work);

  // What was captured, in order.
  using Captured = std::vector<Work>;

  // False if it captures already.
  bool begin_capture();

  // Whether it captures; what was asked for then cannot be, and costs the capture.
  bool spoil_capture();

  // nullptr if it was spoiled, or none was begun.
  std::shared_ptr<const Captured> end_capture();

  // Submits a place of its own, which is passed even where the device is lost.
  std::shared_ptr<Mark> mark();

  bool is_idle() const;
  void wait() const;

  // Lets the thread end after the work submitted so far; does not wait for it.
  void close();

  Device* const device;

 private:
  struct Item {
    Work work;
    std::shared_ptr<Mark> mark;
  };

  explicit Stream(Device* owner) : device(owner) {}
  void run();
  void add(Item item);
  static int do_work(const Work& work);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_busy_ = false;
  bool is_closing_ = false;
  std::shared_ptr<Captured> captured_;
  bool is_spoiled_ = false;
};

// Calls a function on the one thread that serves host functions, and waits until it has returned.
void call_on_driver_thread(void (*function)(void*), void* user_data);

// Whether the calling thread is that one.
bool is_driver_thread();

}  // namespace on_host
