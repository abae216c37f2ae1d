// How a test steers the fake backend and sees what the core did with it.
//
// The backend exports fake_control(), which returns the one Control of its library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fake {

struct Control {
  // Read when they matter; set before.
  std::atomic<int32_t> device_count{2};
  std::atomic<bool> remarks{false};                     // device_count reports what it leaves out
  std::atomic<uint64_t> capacity{uint64_t{256} << 20};  // bytes of one device
  std::atomic<bool> counts_memory{true};                // else it allocates beyond its capacity
  std::atomic<bool> asynchronous{false};                // streams created from now on have a thread
  std::atomic<bool> unified_memory{true};
  std::atomic<bool> silent_failures{false};  // injected failures give no message

  // Fault injection: the n-th call from now fails (1: the next one), 0: none; every_* : each n-th call.
  std::atomic<int64_t> fail_allocation_in{0};
  std::atomic<int64_t> fail_launch_in{0};
  std::atomic<int64_t> every_allocation{0};
  std::atomic<int64_t> every_launch{0};
  std::atomic<int64_t> fail_copy_in{0};
  std::atomic<int64_t> fail_callback_in{0};

  std::atomic<bool> refuse_launches{false};  // of every op, as gaps of the backend

  // Graphs.
  std::atomic<bool> captures{true};  // has the extension
  std::atomic<int64_t> fail_capture_end_in{0};
  std::atomic<int64_t> live_graphs{0};
  std::atomic<int64_t> calls_in_capture{0};  // of slots that the core promises not to call while a stream captures
  std::atomic<void*> last_workspace{nullptr};

  // While true, asynchronous streams do not take new work.
  std::atomic<bool> hold_streams{false};

  // What is alive, and what was called.
  std::atomic<int64_t> live_bytes{0};
  std::atomic<int64_t> live_allocations{0};
  std::atomic<int64_t> live_streams{0};
  std::atomic<int64_t> live_events{0};
  std::atomic<int64_t> allocate_calls{0};
  std::atomic<int64_t> free_calls{0};
  std::atomic<int64_t> launch_calls{0};
  std::atomic<int64_t> count_calls{0};
  std::atomic<int64_t> open_calls{0};
  std::atomic<int64_t> finalize_calls{0};
  std::atomic<int64_t> callback_calls{0};
  std::atomic<int64_t> copy_calls{0};
  std::atomic<uint64_t> bytes_to_device{0};        // by copies from the host
  std::atomic<bool> saw_attributes{false};         // of the last launch: attributes were not NULL
  std::atomic<size_t> saw_attribute_bytes{0};      // and so many of them were what follows
  char seen_attributes[64] = {};                   // for a launch that has ended: the first of them
  std::atomic<int32_t> concurrent_submissions{0};  // most threads ever inside one stream's slots
  std::atomic<int64_t> stray_fills{0};             // that found, when they ran, their memory gone; nothing is written
};

using ControlFunction = Control* (*)();

// Labels of ops that the fake treats specially.
constexpr const char* kFailNow = "fail now";      // launch reports and returns UHAL_INTERNAL
constexpr const char* kFailLater = "fail later";  // the error arrives at the stream
constexpr const char* kWorkspace = "workspace";   // asks the host for scratch memory of the output's bytes

}  // namespace fake
