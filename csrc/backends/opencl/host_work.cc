#include "csrc/backends/opencl/host_work.h"

#include <utility>

namespace unihal::opencl {

HostWork::~HostWork() {
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

void HostWork::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    const Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    const cl_event before = item.before.get();
    static_cast<void>(api.clWaitForEvents(1, &before));  // a failure of the work before is its own stream's news
    item.function();
    static_cast<void>(api.clSetUserEventStatus(item.after.get(), CL_COMPLETE));
    lock.lock();
  }
}

}  // namespace unihal::opencl
