#include "csrc/core/registry/host.h"

#include "csrc/core/backend/backend.h"
#include "csrc/core/base/error.h"
#include "csrc/core/check/allocation_log.h"
#include "csrc/core/handle/device.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/capture.h"
#include "csrc/core/profile/profiler.h"
#include "csrc/core/registry/registry.h"

namespace unihal::core {
namespace {

void report(uhal_status status, int32_t native_code, const char* native_name, const char* message) {
  report_native_error(status, native_code, native_name, message);
}

void stream_error(uhal_stream* handle, uhal_status status, const char* op, const char* message) {
  // A stream that is being destroyed still has work that may fail: look at the slot, alive or not.
  Stream* stream = stream_of_backend(handle);
  if (stream != nullptr && status != UHAL_OK) stream->sticky.set(status, op, message);
}

uhal_status workspace(uhal_stream* handle, size_t bytes, void** pointer) {
  return guarded([&]() -> uhal_status {
    if (pointer == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The place for the workspace's address is NULL.");
    *pointer = nullptr;
    Stream* stream = stream_of_backend(handle);
    if (stream == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "A workspace was asked for an unknown stream.");
    if (bytes > stream->workspace_bytes) {
      // Work that uses the old block was submitted to this stream before, so the block may be freed in its order.
      Allocator& allocator = stream->device->allocator(UHAL_MEMORY_DEVICE);
      size_t wanted = bytes + bytes / 4;
      // Of captured work it is the graph's.
      Capture* const capture = stream->capture.load(std::memory_order_relaxed);
      GraphBlocks* const blocks = capture != nullptr ? &capture->blocks[UHAL_MEMORY_DEVICE] : nullptr;
      if (stream->workspace != nullptr) allocator.free(stream, stream->workspace, blocks);
      stream->workspace = nullptr;
      stream->workspace_bytes = 0;
      void* block = nullptr;
      // The caller holds this stream's lock, so waiting for other streams could be waiting for each other.
      uhal_status status = allocator.allocate(stream, wanted, Allocator::Wait::kNever, &block, blocks);
      if (status != UHAL_OK) return status;
      stream->workspace = block;
      stream->workspace_bytes = wanted;
    }
    *pointer = stream->workspace;
    return UHAL_OK;
  });
}

int32_t is_wait_given_up() { return wait_function_gives_up() ? 1 : 0; }

}  // namespace

const uhal_host kHost = {sizeof(uhal_host), UHAL_ABI_MAJOR, UHAL_ABI_MINOR, report,           stream_error,
                         workspace,         describe_sites, is_asked_for,   is_wait_given_up, note_implementation};

}  // namespace unihal::core
