// Streams: handles, and the state that the core keeps for each.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/core/base/handle_pool.h"
#include "csrc/core/handle/device.h"
#include "csrc/core/handle/host_callback.h"
#include "csrc/core/handle/sticky_error.h"
#include "csrc/core/handle/submission_lock.h"
#include "csrc/core/handle/vector_clock.h"
#include "unihal/backend.h"

namespace unihal::core {

struct Capture;

// Host memory that work of a stream may use after the call that submitted it.
struct QueuedMemory {
  QueuedMemory() = default;
  QueuedMemory(const QueuedMemory&) = delete;
  QueuedMemory& operator=(const QueuedMemory&) = delete;
  virtual ~QueuedMemory() = default;
};

// What every launch touches comes first, in a line of the cache.
struct alignas(64) Stream : HandleSlot {
  SubmissionLock submission;  // one submitter at a time
  uhal_device* device = nullptr;
  uhal_backend_stream* backend_stream = nullptr;

  // What is being captured (csrc/core/memory/capture.h), or nullptr. Changed and looked into with `submission` held.
  std::atomic<Capture*> capture{nullptr};
  bool is_capturing() const { return capture.load(std::memory_order_relaxed) != nullptr; }

  uint64_t number = 0;  // in order of creation
  StickyError sticky;
  VectorClock clock;  // the race check's: what comes before the stream's next work
  SpareCallbacks spare_callbacks;

  // Scratch memory for the backend (host->workspace); guarded by `submission`.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  int launch_groups = 0;  // that are open (uhal_launch_group_start); guarded by `submission`

  // Of work that was queued in part before the backend failed: kept until the stream ends. Guarded by `submission`.
  std::vector<std::unique_ptr<QueuedMemory>> abandoned;
};

using StreamPool = HandlePool<Stream, 0x5a, uhal_stream*>;
using PinnedStream = Pinned<StreamPool>;
// Never destroyed: other threads may still use streams while the process ends.
inline StreamPool& stream_pool() {
  static StreamPool* const instance = new StreamPool;
  return *instance;
}

// UHAL_INVALID_ARGUMENT about a handle that is not a live stream.
__attribute__((cold)) uhal_status refuse_stream(const void* handle);

// UHAL_FAILED_PRECONDITION if the stream is capturing, about something that cannot be captured: "A host callback".
uhal_status refuse_in_capture(const Stream& stream, const char* what);

// The stream of a handle that a backend got as `owner`, even while it is being destroyed.
Stream* stream_of_backend(uhal_stream* handle);

}  // namespace unihal::core
