// Waits of the host for a stream's or an event's work.
#pragma once

#include "csrc/core/handle/event.h"
#include "csrc/core/handle/stream.h"

namespace unihal::core {

// Waits for a pinned stream. Its sticky error stays for the next query. Refused inside a host callback.
uhal_status wait_for(Stream* stream);

// The same, and returns the sticky error.
uhal_status synchronize(Stream* stream);

// Waits for a pinned event's last record. Refused inside a host callback.
uhal_status wait_for(Event* event);

}  // namespace unihal::core
