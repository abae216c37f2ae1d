// Copies of host memory that do not wait for the device: the source is copied to pinned memory first, and may be
// changed when the call returns.
//
// A ring of pinned memory, taken at the first copy. The host waits for the device only where the ring is full of copies
// that have not run. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::paddle {

class Staging {
 public:
  // Submits a copy to device memory, which reads `source` before it returns. Larger ones than a piece of the ring are
  // several copies.
  uhal_status copy(uhal_device* device, uhal_stream* stream, void* destination, const void* source, size_t bytes);

  // Waits for the copies under way and gives everything back. A later copy takes it again.
  uhal_status release(uhal_device* device);

 private:
  static constexpr size_t kBytes = size_t{32} << 20;
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  static constexpr size_t kAlignment = 256;
  static constexpr uint64_t kRegions = 128;  // copies under way

  // What one copy reads. Positions count the bytes since the beginning, and lie in the ring modulo its size.
  struct Region {
    uint64_t end = 0;
    uhal_event* passed = nullptr;  // recorded behind the copy
  };

  uhal_status open(uhal_device* device);
  uhal_status reserve(size_t bytes, char** memory);
  uhal_status wait_for_oldest();
  uhal_status copy_piece(uhal_stream* stream, char* destination, const char* source, size_t bytes);

  std::mutex mutex_;
  char* memory_ = nullptr;
  Region regions_[kRegions];
  uint64_t first_ = 0, next_ = 0;         // of the regions in use, modulo kRegions
  uint64_t released_ = 0, reserved_ = 0;  // positions
};

// A device's.
Staging& staging_of(uhal_device* device);

// Releases those of all devices.
void release_staging();

}  // namespace unihal::paddle
