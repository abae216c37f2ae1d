#include "csrc/core/process_state.h"
#include "csrc/core/stream.h"
#include "unihal/op.h"
using namespace unihal::core;
uhal_status uhal_supports(uhal_device* device, const uhal_op* op) {
  return call_backend(*device->backend, "supports", device->backend->table.supports, device->backend_device, op);
}
uhal_status uhal_launch(uhal_stream* handle, const uhal_op* op) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    uhal_device& device = *stream->device;
    std::lock_guard<std::mutex> lock(stream->submission);
    return with_device(
        device, call_backend(*device.backend, "launch", device.backend->table.launch, stream->backend_stream, op));
  });
}
const char* uhal_op_kind_name(uhal_op_kind) { return "op"; }
