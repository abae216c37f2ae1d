// What submissions and the end of a stream have to do with its capture.
#pragma once

#include "csrc/core/memory/capture.h"

namespace unihal::core {

// Before a copy or a fill is submitted: notes what it uses if the stream, whose submission lock is held, is capturing.
// UHAL_FAILED_PRECONDITION for a range of host memory that is no pinned memory of ours.
uhal_status note_captured_range(const Stream& stream, const void* address, bool is_host);

// After it was: counts it.
inline void count_captured(const Stream& stream, uint64_t bytes, uint64_t flops = 0) {
  if (Capture* capture = stream.capture.load(std::memory_order_relaxed)) capture->count(bytes, flops);
}

// Ends the capture of a stream, if there is one, without a graph. The caller holds no lock.
uhal_status drop_capture(Stream* stream);

}  // namespace unihal::core
