#include "csrc/core/handle/stream.h"

#include "csrc/core/base/error.h"

namespace unihal::core {

uhal_status refuse_stream(const void* handle) {
  if (handle == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The stream is NULL; pass one from uhal_stream_create or the device's default.");
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "The stream %p does not exist: it was destroyed, or is no stream. Use a stream between its creation "
                   "and its destruction.",
                   handle);
}

uhal_status refuse_in_capture(const Stream& stream, const char* what) {
  if (!stream.is_capturing()) return UHAL_OK;
  UHAL_FAIL(
      UHAL_FAILED_PRECONDITION,
      "%s cannot be captured, and this stream is capturing a graph. Leave it out of the capture, which goes on, or "
      "use another stream.",
      what);
  return with_device(*stream.device, UHAL_FAILED_PRECONDITION);
}

Stream* stream_of_backend(uhal_stream* handle) { return stream_pool().slot(handle); }

}  // namespace unihal::core
