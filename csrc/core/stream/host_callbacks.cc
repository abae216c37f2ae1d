#include "csrc/core/stream/host_callbacks.h"

#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/stream.h"
#include "csrc/core/handle/waiting.h"

namespace unihal::core {
namespace {

// The callback that this thread is submitting, and whether the backend has called it already.
struct Submitting {
  HostCallback* callback = nullptr;
  bool called = false;
};
thread_local Submitting* submitting = nullptr;

void run(HostCallback* callback) {
  note_host_callback(*callback->stream, callback->clock);
  const uhal_host_function function = callback->function;
  void* const user_data = callback->user_data;
  callback->stream->spare_callbacks.give_back(callback);
  const HostCallbackScope scope;
  function(user_data);
}

void call(void* user_data) {
  auto* callback = static_cast<HostCallback*>(user_data);
  if (submitting != nullptr && submitting->callback == callback) {
    submitting->called = true;
  } else {
    run(callback);
  }
}

}  // namespace

uhal_status submit_host_callback(Stream* stream, uhal_host_function function, void* user_data) {
  uhal_device& device = *stream->device;
  HostCallback* callback = stream->spare_callbacks.take();
  callback->stream = stream;
  callback->function = function;
  callback->user_data = user_data;
  Submitting own = {callback};
  uhal_status status;
  {
    std::lock_guard<SubmissionLock> lock(stream->submission);
    note_callback_submission(*stream, &callback->clock);
    submitting = &own;
    status = call_backend(*device.backend, "host_callback", device.backend->table.host_callback, stream->backend_stream,
                          uhal_host_function{call}, static_cast<void*>(callback));
    submitting = nullptr;
  }
  if (status != UHAL_OK) {
    if (!own.called) stream->spare_callbacks.give_back(callback);
    return with_device(device, status);
  }
  if (own.called) run(callback);
  return UHAL_OK;
}

}  // namespace unihal::core
