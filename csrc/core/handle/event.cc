#include "csrc/core/handle/event.h"

#include "csrc/core/base/error.h"

namespace unihal::core {

EventPool& event_pool() {
  static EventPool* const instance = new EventPool;
  return *instance;
}

uhal_status refuse_event(const void* handle) {
  if (handle == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The event is NULL; pass one from uhal_event_create.");
  return UHAL_FAIL(
      UHAL_INVALID_ARGUMENT,
      "The event %p does not exist: it was destroyed, or is no event. Use an event between its creation and "
      "its destruction.",
      handle);
}

uhal_status refuse_captured(const Event& event) {
  if (event.captured.load() == 0) return UHAL_OK;
  UHAL_FAIL(
      UHAL_FAILED_PRECONDITION,
      "The event was recorded last in a capture, where it is a place of a graph, for the capturing stream alone to "
      "wait for. Record it again outside the capture.");
  return with_device(*event.device, UHAL_FAILED_PRECONDITION);
}

}  // namespace unihal::core
