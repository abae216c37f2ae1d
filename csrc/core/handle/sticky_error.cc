#include "csrc/core/handle/sticky_error.h"

#include "csrc/core/base/error.h"

namespace unihal::core {

void StickyError::set(uhal_status status, const char* op, const char* message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (present_.load(std::memory_order_relaxed)) return;
  status_ = status;
  op_ = op != nullptr ? op : "";
  message_ = message != nullptr ? message : "";
  present_.store(true, std::memory_order_release);
}

uhal_status StickyError::take(const char* device_label) {
  if (!present_.load(std::memory_order_acquire)) return UHAL_OK;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!present_.load(std::memory_order_relaxed)) return UHAL_OK;
  present_.store(false, std::memory_order_relaxed);
  uhal_status status =
      UHAL_FAIL(status_, "Earlier work of this stream failed: %s%s%s", op_.c_str(), op_.empty() ? "" : ": ",
                message_.empty() ? uhal_status_name(status_) : message_.c_str());
  set_error_op(op_.c_str());
  set_error_device(device_label);
  return status;
}

void StickyError::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  present_.store(false, std::memory_order_relaxed);
}

}  // namespace unihal::core
