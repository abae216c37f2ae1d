#include "csrc/core/stream/wait.h"

#include <algorithm>
#include <atomic>

#include "csrc/core/base/process_state.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/allocator.h"
#include "csrc/core/stream/capture.h"
#include "csrc/core/stream/host_callbacks.h"

namespace unihal::core {
namespace {

uhal_status wait_in_any_place(Stream* stream) {
  // Without the submission lock: work that is waited for may itself submit (a host callback).
  uhal_device& device = *stream->device;
  HostWait wait(*stream);
  uhal_status status = call_backend(*device.backend, "stream_synchronize", device.backend->table.stream_synchronize,
                                    stream->backend_stream);
  // Also if it failed: that is the caller's news, which reports of races would bury.
  wait.over();
  if (device.allocation_log != nullptr) {
    for (Allocator* allocator : device.allocators) allocator->return_passed();
  }
  return with_device(device, status);
}

// A wait of a capturing stream, for what its own work has reached anyway.
uhal_status wait_in_capture(const Capture& capture, const Stream& stream, const Event& event) {
  const uint64_t captured = event.captured.load();
  if (captured == capture.number || (captured == 0 && !event.recorded.load())) return UHAL_OK;
  return refuse_in_capture(stream, "A wait for an event that was not recorded in this capture");
}

}  // namespace

uhal_status wait_for(Stream* stream) {
  UHAL_EXPECT(refuse_wait_in_callback("A wait for a stream"));
  UHAL_EXPECT(refuse_in_capture(*stream, "A wait for the stream"));
  return wait_in_any_place(stream);
}

uhal_status synchronize(Stream* stream) {
  UHAL_EXPECT(refuse_wait_in_callback("A wait for a stream"));
  uhal_status status = wait_for(stream);
  uhal_status sticky = stream->sticky.take(stream->device->label.c_str());
  return sticky != UHAL_OK ? sticky : status;
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_stream_create(uhal_device* device, uhal_stream** stream) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (stream == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "stream is NULL; pass the place for the stream.");
  *stream = nullptr;
  return guarded([&]() -> uhal_status {
    Stream* created = stream_pool().acquire();
    if (created == nullptr) {
      return UHAL_FAIL(UHAL_RESOURCE_EXHAUSTED,
                       "There are too many streams; destroy those that are not used any more.");
    }
    static std::atomic<uint64_t> numbers{0};
    created->device = device;
    created->backend_stream = nullptr;
    created->number = numbers.fetch_add(1);
    created->workspace = nullptr;
    created->workspace_bytes = 0;
    created->sticky.clear();
    created->capture.store(nullptr);
    // The owner's handle is valid only once the backend has created its part.
    uhal_stream* handle = stream_pool().next_handle(created);
    uhal_status status = call_backend(*device->backend, "stream_create", device->backend->table.stream_create,
                                      device->backend_device, handle, &created->backend_stream);
    if (status != UHAL_OK) {
      stream_pool().recycle(created);
      return with_device(*device, status);
    }
    stream_pool().publish(created);
    std::lock_guard<std::mutex> lock(device->mutex);
    device->streams.push_back(handle);
    *stream = handle;
    return UHAL_OK;
  });
}

uhal_status uhal_stream_destroy(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  if (handle == nullptr) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    PinnedStream pinned(stream_pool(), handle);
    if (!pinned) return refuse_stream(handle);
    UHAL_EXPECT(refuse_wait_in_callback("uhal_stream_destroy"));
    UHAL_EXPECT(give_way(pinned.get()));
    uhal_device& device = *pinned->device;
    {
      std::lock_guard<std::mutex> lock(device.mutex);
      if (device.default_stream == handle) {
        return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                         "This is the default stream of %s, which the core owns; destroy only streams from "
                         "uhal_stream_create.",
                         device.label.c_str());
      }
    }
    Stream* stream = pinned.release();
    if (!stream_pool().retire(stream)) return refuse_stream(handle);
    {
      std::lock_guard<std::mutex> lock(device.mutex);
      device.streams.erase(std::remove(device.streams.begin(), device.streams.end(), handle), device.streams.end());
    }
    static_cast<void>(drop_capture(stream));
    uhal_status status = synchronize(stream);
    if (stream->workspace != nullptr) device.allocator(UHAL_MEMORY_DEVICE).free(nullptr, stream->workspace);
    for (Allocator* allocator : device.allocators) allocator->forget_stream(stream);
    uhal_status destroyed =
        call_backend(*device.backend, "stream_destroy", device.backend->table.stream_destroy, stream->backend_stream);
    stream->backend_stream = nullptr;
    stream->launch_groups = 0;
    stream->abandoned.clear();
    stream_pool().recycle(stream);
    return status != UHAL_OK ? status : with_device(device, destroyed);
  });
}

uhal_status uhal_stream_query(uhal_stream* handle, int32_t* done) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (done == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "done is NULL; pass the place for the answer.");
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    UHAL_EXPECT(refuse_in_capture(*stream, "A query of the stream"));
    uhal_device& device = *stream->device;
    HostWait wait(*stream);
    uhal_status status =
        call_backend(*device.backend, "stream_query", device.backend->table.stream_query, stream->backend_stream, done);
    if (status == UHAL_OK && *done != 0) wait.over();
    uhal_status sticky = stream->sticky.take(device.label.c_str());
    return sticky != UHAL_OK ? sticky : with_device(device, status);
  });
}

uhal_status uhal_stream_synchronize(uhal_stream* handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    UHAL_EXPECT(refuse_wait_in_callback("uhal_stream_synchronize"));
    UHAL_EXPECT(give_way(stream.get()));
    return synchronize(stream.get());
  });
}

uhal_status uhal_stream_wait_event(uhal_stream* handle, uhal_event* event_handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    PinnedEvent event(event_pool(), event_handle);
    if (!event) return refuse_event(event_handle);
    uhal_device& device = *stream->device;
    if (!stream->is_capturing()) {
      UHAL_EXPECT(refuse_captured(*event));
      if (!event->recorded.load()) return UHAL_OK;
      // Devices do not wait for each other's events on all backends; the host can always.
      if (event->device->backend_device != device.backend_device) return wait_for(event.get());
    }
    std::lock_guard<SubmissionLock> lock(stream->submission);
    if (const Capture* capture = stream->capture.load()) return wait_in_capture(*capture, *stream, *event);
    uhal_status status = call_backend(*device.backend, "stream_wait_event", device.backend->table.stream_wait_event,
                                      stream->backend_stream, event->backend_event);
    if (status == UHAL_OK) note_wait(stream.get(), *event);
    return with_device(device, status);
  });
}

uhal_status uhal_stream_host_callback(uhal_stream* handle, uhal_host_function function, void* user_data) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (function == nullptr)
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The host function is NULL; pass the one to call.");
    PinnedStream stream(stream_pool(), handle);
    if (!stream) return refuse_stream(handle);
    UHAL_EXPECT(refuse_in_capture(*stream, "A host callback"));
    if (stream->device->backend->table.host_callback != nullptr) {
      return submit_host_callback(stream.get(), function, user_data);
    }
    // Without the lock, since the function may submit to this stream. Inside another callback too: the backend has none
    // that its streams would wait for.
    UHAL_EXPECT(wait_in_any_place(stream.get()));
    const HostCallbackScope scope;
    function(user_data);
    return UHAL_OK;
  });
}

uhal_device* uhal_stream_device(uhal_stream* handle) {
  if (check_process() != UHAL_OK) return nullptr;
  PinnedStream stream(stream_pool(), handle);
  if (!stream) {
    refuse_stream(handle);
    return nullptr;
  }
  return stream->device;
}
