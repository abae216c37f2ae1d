#include "csrc/core/handle/host_callback.h"

namespace unihal::core {

HostCallback* SpareCallbacks::take() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (HostCallback* callback = first_) {
      first_ = callback->next;
      return callback;
    }
  }
  return new HostCallback;
}

void SpareCallbacks::give_back(HostCallback* callback) {
  std::lock_guard<std::mutex> lock(mutex_);
  callback->next = first_;
  first_ = callback;
}

}  // namespace unihal::core
