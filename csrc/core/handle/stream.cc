#include "csrc/core/handle/stream.h"

#include "csrc/core/base/error.h"

namespace unihal::core {

StreamPool& stream_pool() {
  static StreamPool* const instance = new StreamPool;
  return *instance;
}

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

Stream* stream_of_backend(uhal_stream* handle) { return stream_pool().slot(handle); }

}  // namespace unihal::core
