#include "stub/common/failure.h"

#include <cstdarg>
#include <cstdio>

namespace unihal::stub {
namespace {

thread_local FailureCapture* innermost = nullptr;

}  // namespace

FailureCapture::FailureCapture() : outer_(innermost) { innermost = this; }

FailureCapture::~FailureCapture() { innermost = outer_; }

const char* refusal(const char* format, ...) {
  thread_local char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

uhal_status fail(uhal_status status, const char* format, ...) {
  char reported[sizeof FailureCapture::text_];
  char* text = innermost != nullptr ? innermost->text_ : reported;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof reported, format, arguments);
  va_end(arguments);
  if (innermost == nullptr) host().report(status, 0, nullptr, text);
  return status;
}

}  // namespace unihal::stub
