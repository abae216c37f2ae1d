// The error of asynchronous work that waits on its stream until somebody asks.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "unihal/status.h"

namespace unihal::core {

class StickyError {
 public:
  // Keeps the first error; later ones are usually its consequences.
  void set(uhal_status status, const char* op, const char* message);

  // Reports the error for `device_label` and clears it; UHAL_OK if there is none.
  uhal_status take(const char* device_label);

  void clear();

 private:
  std::atomic<bool> present_{false};
  std::mutex mutex_;
  uhal_status status_ = UHAL_OK;
  std::string op_;
  std::string message_;
};

}  // namespace unihal::core
