#include "csrc/core/stream/wait.h"

#include "csrc/core/base/process_state.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/memory/capture.h"

namespace unihal::core {

uhal_status wait_for(Event* event) {
  UHAL_EXPECT(refuse_wait_in_callback("A wait for an event"));
  UHAL_EXPECT(refuse_captured(*event));
  if (!event->recorded.load()) return UHAL_OK;
  uhal_device& device = *event->device;
  HostWait wait(*event);
  uhal_status status =
      call_backend(*device.backend, "event_synchronize", device.backend->table.event_synchronize, event->backend_event);
  wait.over();
  return with_device(device, status);
}

namespace {

uhal_status query(Event* event, int32_t* done) {
  UHAL_EXPECT(refuse_captured(*event));
  if (!event->recorded.load()) {
    *done = 1;
    return UHAL_OK;
  }
  uhal_device& device = *event->device;
  HostWait wait(*event);
  uhal_status status =
      call_backend(*device.backend, "event_query", device.backend->table.event_query, event->backend_event, done);
  if (status == UHAL_OK && *done != 0) wait.over();
  return with_device(device, status);
}

}  // namespace
}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_event_create(uhal_device* device, uhal_event** event) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (event == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "event is NULL; pass the place for the event.");
  *event = nullptr;
  return guarded([&]() -> uhal_status {
    Event* created = event_pool().acquire();
    if (created == nullptr) {
      return UHAL_FAIL(UHAL_RESOURCE_EXHAUSTED, "There are too many events; destroy those that are not used any more.");
    }
    created->device = device;
    created->backend_event = nullptr;
    created->recorded.store(false);
    created->captured.store(0);
    uhal_status status = call_backend(*device->backend, "event_create", device->backend->table.event_create,
                                      device->backend_device, &created->backend_event);
    if (status != UHAL_OK) {
      event_pool().recycle(created);
      return with_device(*device, status);
    }
    *event = event_pool().publish(created);
    return UHAL_OK;
  });
}

uhal_status uhal_event_destroy(uhal_event* handle) {
  UHAL_CHECK_PROCESS();
  if (handle == nullptr) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    PinnedEvent pinned(event_pool(), handle);
    if (!pinned) return refuse_event(handle);
    uhal_device& device = *pinned->device;
    Event* event = pinned.release();
    if (!event_pool().retire(event)) return refuse_event(handle);
    uhal_status status =
        call_backend(*device.backend, "event_destroy", device.backend->table.event_destroy, event->backend_event);
    event->backend_event = nullptr;
    event_pool().recycle(event);
    return with_device(device, status);
  });
}

uhal_status uhal_event_record(uhal_event* event_handle, uhal_stream* stream_handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedEvent event(event_pool(), event_handle);
    if (!event) return refuse_event(event_handle);
    PinnedStream stream(stream_pool(), stream_handle);
    if (!stream) return refuse_stream(stream_handle);
    uhal_device& device = *stream->device;
    if (event->device != &device) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "An event of device %s cannot be recorded on a stream of device %s; create it on the stream's "
                       "device.",
                       event->device->label.c_str(), device.label.c_str());
    }
    std::lock_guard<SubmissionLock> lock(stream->submission);
    if (const Capture* capture = stream->capture.load()) {
      event->captured.store(capture->number);
      return UHAL_OK;
    }
    uhal_status status = call_backend(*device.backend, "event_record", device.backend->table.event_record,
                                      event->backend_event, stream->backend_stream);
    if (status != UHAL_OK) return with_device(device, status);
    note_record(event.get(), *stream);
    event->recorded.store(true);
    event->captured.store(0);
    return UHAL_OK;
  });
}

uhal_status uhal_event_query(uhal_event* handle, int32_t* done) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (done == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "done is NULL; pass the place for the answer.");
    PinnedEvent event(event_pool(), handle);
    if (!event) return refuse_event(handle);
    return query(event.get(), done);
  });
}

uhal_status uhal_event_synchronize(uhal_event* handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedEvent event(event_pool(), handle);
    if (!event) return refuse_event(handle);
    UHAL_EXPECT(refuse_wait_in_callback("uhal_event_synchronize"));
    UHAL_EXPECT(give_way(event.get()));
    return wait_for(event.get());
  });
}

uhal_status uhal_event_elapsed_nanoseconds(uhal_event* start_handle, uhal_event* end_handle, int64_t* nanoseconds) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (nanoseconds == nullptr)
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "nanoseconds is NULL; pass the place for the time.");
    PinnedEvent start(event_pool(), start_handle);
    if (!start) return refuse_event(start_handle);
    PinnedEvent end(event_pool(), end_handle);
    if (!end) return refuse_event(end_handle);
    uhal_device& device = *start->device;
    if (end->device != &device) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The events belong to devices %s and %s; time is measured on one device.",
                       device.label.c_str(), end->device->label.c_str());
    }
    for (Event* event : {start.get(), end.get()}) {
      const char* which = event == start.get() ? "start" : "end";
      if (!event->recorded.load()) {
        return UHAL_FAIL(UHAL_FAILED_PRECONDITION, "The %s event was not recorded; record it on a stream first.",
                         which);
      }
      int32_t done = 0;
      if (uhal_status status = query(event, &done); status != UHAL_OK) return status;
      if (done == 0) {
        return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                         "The %s event has not been reached; call uhal_event_synchronize first.", which);
      }
    }
    return with_device(device, call_backend(*device.backend, "event_elapsed", device.backend->table.event_elapsed,
                                            start->backend_event, end->backend_event, nanoseconds));
  });
}
