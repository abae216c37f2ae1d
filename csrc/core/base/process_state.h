// Whether this process may use devices: not after uhal_finalize, and not in a forked child.
#pragma once

#include <atomic>

#include "unihal/status.h"

namespace unihal::core {

enum class ProcessState : int { kRunning, kForked, kFinalized };

extern std::atomic<ProcessState> process_state;

// Fills the error record for a process that may not use devices.
__attribute__((cold)) uhal_status refuse_process();

// The first line of every function that touches a device: before any lock, which a fork may have left taken.
inline uhal_status check_process() {
  if (process_state.load(std::memory_order_relaxed) == ProcessState::kRunning) return UHAL_OK;
  return refuse_process();
}

#define UHAL_CHECK_PROCESS() \
  if (uhal_status process_status = ::unihal::core::check_process(); process_status != UHAL_OK) return process_status

// From now on a forked child is refused: a driver's state and threads do not survive fork().
void note_device_use();

// Devices are being looked for: a child forked meanwhile is refused as well, since it inherits half a state.
class EnumerationScope {
 public:
  EnumerationScope();
  ~EnumerationScope();
  EnumerationScope(const EnumerationScope&) = delete;
  EnumerationScope& operator=(const EnumerationScope&) = delete;
};

// Ends the use of devices. False if that was done before, or in a forked child.
bool begin_finalize();

}  // namespace unihal::core
