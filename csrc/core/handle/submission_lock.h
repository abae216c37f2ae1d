// A stream's lock: as std::mutex, without the calls into the C library where nobody waits, which every launch would
// make twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace unihal::core {

#ifdef __SANITIZE_THREAD__

using SubmissionLock = std::mutex;  // whose order ThreadSanitizer looks at

#else

class SubmissionLock {
 public:
  SubmissionLock() = default;
  SubmissionLock(const SubmissionLock&) = delete;
  SubmissionLock& operator=(const SubmissionLock&) = delete;

  void lock() {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) wait();
  }

  bool try_lock() {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }

  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) wake();
  }

 private:
  enum : uint32_t { kFree, kHeld, kWaitedFor };

  __attribute__((cold)) void wait();
  __attribute__((cold)) void wake();

  std::atomic<uint32_t> state_{kFree};
};

#endif

}  // namespace unihal::core
