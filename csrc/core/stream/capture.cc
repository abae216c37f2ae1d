#include "csrc/core/stream/capture.h"

#include <memory>

namespace unihal::core {

uhal_status note_captured_range(const Stream& stream, const void* address, bool is_host) {
  Capture* const capture = stream.capture.load(std::memory_order_relaxed);
  if (capture == nullptr) return UHAL_OK;
  if (!capture->note_use(address) && is_host) {
    return refuse_in_capture(stream,
                             "A copy from or to pageable host memory (use pinned memory, uhal_allocate with "
                             "UHAL_MEMORY_PINNED, which a graph can rely on)");
  }
  return UHAL_OK;
}

uhal_status drop_capture(Stream* stream) {
  const uhal_device& device = *stream->device;
  std::unique_ptr<Capture> capture;
  uhal_status status = UHAL_OK;
  {
    std::lock_guard<SubmissionLock> lock(stream->submission);
    if (!stream->is_capturing()) return UHAL_OK;
    capture.reset(detach_capture(stream));
    status = call_backend(*device.backend, "cancel of a capture", capture->table->cancel, stream->backend_stream);
  }
  capture->release_memory();
  return with_device(device, status);
}

}  // namespace unihal::core
