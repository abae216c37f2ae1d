// Events: handles, and the state that the core keeps for each.
#pragma once

#include <atomic>

#include "csrc/core/base/handle_pool.h"
#include "csrc/core/handle/device.h"
#include "csrc/core/handle/vector_clock.h"
#include "unihal/event.h"

namespace unihal::core {

struct Event : HandleSlot {
  uhal_device* device = nullptr;
  uhal_backend_event* backend_event = nullptr;
  std::atomic<bool> recorded{false};
  std::atomic<uint64_t> captured{0};  // the number of the capture that the last record was in; 0: in none
  VectorClock clock;                  // the race check's: what comes before the last record
};

using EventPool = HandlePool<Event, 0x5e, uhal_event*>;
using PinnedEvent = Pinned<EventPool>;
EventPool& event_pool();

// UHAL_INVALID_ARGUMENT about a handle that is not a live event.
__attribute__((cold)) uhal_status refuse_event(const void* handle);

// UHAL_FAILED_PRECONDITION if the event's last record was in a capture.
uhal_status refuse_captured(const Event& event);

}  // namespace unihal::core
