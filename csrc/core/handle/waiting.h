// Whether the calling thread may wait for the device: not inside a host callback, and elsewhere it may be asked to give
// up.
#pragma once

#include "csrc/core/base/error.h"
#include "unihal/stream.h"

namespace unihal::core {

struct Event;
struct Stream;

// While it exists, the calling thread runs a host callback.
class HostCallbackScope {
 public:
  HostCallbackScope();
  ~HostCallbackScope();
  HostCallbackScope(const HostCallbackScope&) = delete;
  HostCallbackScope& operator=(const HostCallbackScope&) = delete;
};

bool in_host_callback();

// UHAL_FAILED_PRECONDITION inside a host callback, about a function that waits: what it waits for may come after the
// callback, and then neither would ever end.
uhal_status refuse_wait_in_callback(const char* function);

// Until the stream's work has run, or the event was reached; UHAL_CANCELLED if the thread's wait function
// (uhal_set_wait_function) asks to give up before. Without such a function, and where asking the backend fails, it
// returns at once: whoever wants to be sure waits afterwards.
uhal_status give_way(Stream* stream);
uhal_status give_way(Event* event);

// Whether the calling thread's wait function asks to give up; false without one. It runs the function.
bool wait_function_gives_up();

}  // namespace unihal::core
