#include "csrc/core/handle/submission_lock.h"

#ifndef __SANITIZE_THREAD__

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unihal::core {

// Who has waited cannot tell whether others still do: it holds the lock as one that is waited for.
void SubmissionLock::wait() {
  while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree) {
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, uint32_t{kWaitedFor}, nullptr, nullptr, 0);
  }
}

// The lock may be another stream's by now, since slots are used again; then this wakes nobody, or one who looks again.
void SubmissionLock::wake() { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace unihal::core

#endif
