#include "csrc/backends/gpu/host_work.h"

#include <memory>

namespace unihal::gpu {

int HostWork::submit(NativeStream stream, uhal_host_function function, void* user_data) {
  auto item = std::make_unique<Item>(Item{this, function, user_data});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  ++outstanding_;
  const int code = api.launch_host_function(stream, hand_over, item.get());
  if (code == kSuccess) {
    static_cast<void>(item.release());
  } else {
    --outstanding_;
  }
  return code;
}

void HostWork::hand_over(void* given) {
  const std::unique_ptr<Item> item(static_cast<Item*>(given));
  HostWork& self = *item->owner;
  std::unique_lock<std::mutex> lock(self.mutex_);
  self.item_ = item.get();
  self.changed_.notify_all();
  self.changed_.wait(lock, [&] { return self.item_ == nullptr; });
}

void HostWork::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || item_ != nullptr; });
    if (item_ == nullptr) return;
    const Item item = *item_;
    lock.unlock();
    item.function(item.user_data);
    --outstanding_;
    lock.lock();
    item_ = nullptr;
    changed_.notify_all();
  }
}

void HostWork::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace unihal::gpu
