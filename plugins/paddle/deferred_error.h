// An error of earlier work that came out where Paddle ignores failures: it waits for the next call that may fail.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "plugins/paddle/error.h"

namespace unihal::paddle {

// Any thread.
class DeferredError {
 public:
  // Keeps the calling thread's error record, for the call named `call`. The first is kept; later ones are usually its
  // consequences.
  void keep(uhal_status status, const char* call) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (present_.load(std::memory_order_relaxed)) return;
    status_ = status;
    message_ = describe_last_error(call);
    present_.store(true, std::memory_order_release);
  }

  // Throws the error that was kept, once.
  void raise_if_kept() {
    if (!present_.load(std::memory_order_acquire)) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (present_.exchange(false)) raise(status_, message_);
  }

 private:
  std::atomic<bool> present_{false};
  std::mutex mutex_;
  uhal_status status_ = UHAL_OK;
  std::string message_;
};

}  // namespace unihal::paddle
