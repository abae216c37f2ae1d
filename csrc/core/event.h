// Events: handles, and the state that the core keeps for each.
#pragma once

#include <atomic>

#include "csrc/core/device.h"
#include "csrc/core/handle_pool.h"
#include "csrc/core/vector_clock.h"
#include "unihal/event.h"

namespace unihal::core {

struct Event : HandleSlot {
  uhal_device* device = nullptr;
  uhal_backend_event* backend_event = nullptr;
  std::atomic<bool> recorded{false};
  VectorClock clock;  // the race check's: what comes before the last record
};

using EventPool = HandlePool<Event, 0x5e, uhal_event*>;
using PinnedEvent = Pinned<EventPool>;
EventPool& event_pool();

// UHAL_INVALID_ARGUMENT about a handle that is not a live event.
uhal_status refuse_event(const void* handle);

// Waits for a pinned event's last record. Refused inside a host callback.
uhal_status wait_for(Event* event);

}  // namespace unihal::core
