// The raw memory of a device, below the core's caching allocator.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unihal/memory.h"

namespace unihal::gpu {

struct Device;

class Memory {
 public:
  explicit Memory(const Device& device) : device_(device) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // The slots of the backend's table. allocate() throws std::bad_alloc.
  uhal_status allocate(uhal_memory_kind kind, size_t bytes, void** pointer) const;
  uhal_status free(uhal_memory_kind kind, void* pointer) const;
  uhal_status info(uint64_t* free_bytes, uint64_t* total_bytes) const;

  // Whether an address lies in pinned memory that came from here, of any device.
  static bool is_pinned(const void* address);

 private:
  const Device& device_;
};

}  // namespace unihal::gpu
