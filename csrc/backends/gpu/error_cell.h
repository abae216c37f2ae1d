// Where kernels note bad data: a few bytes of device memory per stream, read back when the stream is asked.
//
// Threads: get() as submissions, one at a time; collect() from any thread meanwhile.
#pragma once

#include <atomic>
#include <mutex>

#include "unihal/backend.h"

namespace unihal::gpu {

struct Device;

class ErrorCell {
 public:
  explicit ErrorCell(Device& device) : device_(device) {}
  ~ErrorCell();
  ErrorCell(const ErrorCell&) = delete;
  ErrorCell& operator=(const ErrorCell&) = delete;

  // As Queue::error_cell(); the device is current.
  uhal_status get(const uhal_op& op, void** cell, int64_t* ticket);

  // If a kernel got the cell since the last call, reads it, makes what it says the sticky error of the stream, and
  // empties it. The work submitted to the stream before this thread's call has run; the device is current.
  uhal_status collect(uhal_stream* owner);

  // The same, whether it got the cell since or long ago; nothing if none ever did.
  uhal_status read_out(uhal_stream* owner);

  // Whether a kernel ever got it.
  bool is_used() const { return address_ != nullptr; }

 private:
  uhal_status take_content(uhal_stream* owner);

  Device& device_;
  void* address_ = nullptr;
  std::atomic<bool> given_{false};
  std::mutex mutex_;  // one reader at a time
};

}  // namespace unihal::gpu
