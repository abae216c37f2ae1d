// Copies between a device and ordinary host memory that functions of the host have yet to write or to read. Drivers
// read such memory when the copy is asked for, not in the order of the stream; so the copy goes by way of pinned
// memory, and the host's part of it is itself a function of the host.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/host_work.h"
#include "unihal/memory.h"

namespace unihal::gpu {

struct Device;

class Staging {
 public:
  explicit Staging(const Device& device) : device_(device) {}

  // The copies have been made.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Whether a copy has to take this way: functions of the host are outstanding, on any stream, and the host's side is
  // not pinned.
  static bool is_needed(uhal_copy_kind kind, const void* destination, const void* source);

  // Submits a copy from or to the host. The device is current.
  uhal_status copy(HostWork& host_work, NativeStream stream, void* destination, const void* source, size_t bytes,
                   uhal_copy_kind kind);

 private:
  struct Block {
    void* memory;
    size_t bytes;
    NativeEvent passed;  // behind the last copy by way of it
  };

  uhal_status take(size_t bytes, Block** block);
  uhal_status allocate(size_t bytes, Block* block);

  const Device& device_;
  std::vector<Block> blocks_;  // kept: giving pinned memory back may wait for the device
};

}  // namespace unihal::gpu
