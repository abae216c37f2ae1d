// uhal_launch_group_start and uhal_launch_group_end.
#include "unihal/launch_group.h"

#include "csrc/core/base/process_state.h"
#include "csrc/core/handle/stream.h"

namespace unihal::core {
namespace {

uhal_status start(Stream* stream) {
  std::lock_guard<SubmissionLock> lock(stream->submission);
  const uhal_device& device = *stream->device;
  if (stream->launch_groups == 0 && device.launch_group != nullptr) {
    UHAL_EXPECT(
        call_backend(*device.backend, "start of a launch group", device.launch_group->start, stream->backend_stream));
  }
  ++stream->launch_groups;
  return UHAL_OK;
}

uhal_status end(Stream* stream) {
  std::lock_guard<SubmissionLock> lock(stream->submission);
  const uhal_device& device = *stream->device;
  if (stream->launch_groups == 0) {
    return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                     "The stream has no launch group to end; call uhal_launch_group_start first.");
  }
  if (--stream->launch_groups > 0 || device.launch_group == nullptr) return UHAL_OK;
  return call_backend(*device.backend, "end of a launch group", device.launch_group->end, stream->backend_stream);
}

// Does that with the stream of a handle.
uhal_status with_stream(uhal_stream* handle, uhal_status (*step)(Stream* stream)) {
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    return with_device(*stream->device, step(stream.get()));
  });
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_launch_group_start(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  return with_stream(handle, start);
}

uhal_status uhal_launch_group_end(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  return with_stream(handle, end);
}
