#include "csrc/backends/opencl/host_work.h"

#include <utility>

namespace unihal::opencl {

HostWork::~HostWork() { stop(); }

void HostWork::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HostWork::submit(EventReference before, EventReference after, std::function<void()> function) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  items_.push_back({std::move(before), std::move(after), std::move(function)});
  submitted_.notify_one();
}

void HostWork::wait_until(std::chrono::steady_clock::time_point time) {
  std::unique_lock<std::mutex> lock(mutex_);
  rested_.wait_until(lock, time, [this] { return items_.empty() && !working_; });
}

void HostWork::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    working_ = true;
    lock.unlock();
    const cl_event before = item.before.get();
    static_cast<void>(api.clWaitForEvents(1, &before));  // a failure of the work before is its own stream's news
    item.function();
    static_cast<void>(api.clSetUserEventStatus(item.after.get(), CL_COMPLETE));
    item = {};  // what it holds is released before the thread counts as at rest
    lock.lock();
    working_ = false;
    rested_.notify_all();
  }
}

}  // namespace unihal::opencl
