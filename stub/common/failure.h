// Where a failure's message goes: to the calling thread's error record, or to whoever runs the work for another thread.
#pragma once

#include "stub/common/kernels.h"

namespace unihal::stub {

// While it lives, fail() on this thread keeps the last message here instead of reporting it: for threads whose error
// record nobody reads. Captures of one thread nest.
class FailureCapture {
 public:
  FailureCapture();
  ~FailureCapture();
  FailureCapture(const FailureCapture&) = delete;
  FailureCapture& operator=(const FailureCapture&) = delete;

  // The last message, empty if there was none.
  const char* message() const { return text_; }

 private:
  friend uhal_status fail(uhal_status status, const char* format, ...);

  FailureCapture* outer_;
  char text_[512] = "";
};

}  // namespace unihal::stub
