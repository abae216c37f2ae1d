// The raw memory of a device, below the core's caching allocator.
//
// Threads: any.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "csrc/backends/opencl/api.h"
#include "unihal/memory.h"

namespace unihal::opencl {

struct Device;

class Memory {
 public:
  // The device's context, limits and name must be set. open() comes before all else.
  explicit Memory(const Device& device) : device_(device) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uhal_status open();

  // The slots of the backend's table.
  uhal_status allocate(uhal_memory_kind kind, size_t bytes, void** pointer);
  uhal_status free(uhal_memory_kind kind, void* pointer, size_t bytes);
  uhal_status info(uint64_t* free_bytes, uint64_t* total_bytes) const;

 private:
  struct Pinned {
    cl_mem buffer;
    void* mapped;  // what the driver gave; the address that the caller has may lie a little behind it
  };

  uhal_status allocate_device(size_t bytes, void** pointer);
  uhal_status allocate_pinned(size_t bytes, void** pointer);
  uhal_status free_device(void* pointer);
  uhal_status free_pinned(void* pointer);
  uhal_status refuse_size(size_t bytes) const;
  uhal_status out_of_memory(cl_int code, size_t bytes, const char* what) const;

  const Device& device_;
  std::atomic<uint64_t> used_{0};  // bytes of device memory

  std::mutex mutex_;  // guards what follows
  cl_command_queue queue_ = nullptr;
  std::map<void*, Pinned> pinned_;
};

}  // namespace unihal::opencl
