// The device memory of the strict mode: one sparse memory file that is mapped twice.
//
// The device side of the mapping can never be touched: its addresses are the device pointers, and a host that
// dereferences one faults. The shadow side is what kernels and copies work on; it can be touched where an allocation
// is live. Both sides have the same size, so an address of one is an address of the other plus a constant.
//
// Each allocation has pages of its own with a page between it and the next that nobody can touch, and ends less than
// 256 bytes before that page. Addresses are handed out in ascending order and come round again only after the whole
// reservation was used, so that a stale pointer meets nothing for as long as possible.
//
// One for all devices of the process, never destroyed. Threads: any. find() may be called by signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "unihal/status.h"

namespace unihal::stub::strict {

class AddressSpace {
 public:
  enum class Side { kNone, kDevice, kShadow };

  // What is known about an address of the reservation.
  struct Finding {
    bool known = false;  // false: nothing was ever allocated at or shortly before it
    bool live = false;
    int32_t device = 0;
    const void* base = nullptr;  // device pointers
    size_t bytes = 0;            // as requested
  };

  // The process's own; made by the first call.
  static AddressSpace& instance();

  // Reserves the addresses, once. UHAL_RESOURCE_EXHAUSTED or UHAL_UNIMPLEMENTED after a report of what the system
  // refused.
  uhal_status open();

  // Poisoned memory, aligned to 256 bytes. `bytes` > 0.
  uhal_status allocate(int32_t device, size_t bytes, void** pointer);

  // `pointer` came from allocate(). Its pages go back to the system.
  uhal_status free(void* pointer);

  // Where kernels find the memory of a device pointer; other addresses stay as they are.
  template <class T>
  T* shadow(T* pointer) const {
    return side(pointer) == Side::kDevice ? reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + distance())
                                          : pointer;
  }

  Side side(const void* address) const;

  // The device pointer of an address of the shadow side.
  const void* device_pointer(const void* shadow) const {
    return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(shadow) - distance());
  }

  // The allocation that contains a device pointer, live or else freed of late; failing that, the last one that ends
  // before it. Takes no lock that it would have to wait for: false when the table is being changed.
  bool find(const void* pointer, Finding* finding);

 private:
  // Offsets into the reservation.
  struct Allocation {
    size_t begin = 0;  // of its pages; they end with the guard page
    size_t end = 0;    // after the guard page
    size_t start = 0;  // of the memory itself
    size_t bytes = 0;  // as requested
    int32_t device = 0;
  };

  // How many freed allocations are remembered for reports.
  static constexpr size_t kRemembered = 4096;

  AddressSpace() = default;
  uintptr_t distance() const { return reinterpret_cast<uintptr_t>(shadow_) - reinterpret_cast<uintptr_t>(device_); }
  bool reserve(size_t bytes);
  bool place(size_t length, size_t* offset);
  Finding describe(const Allocation& allocation, bool live) const;

  char* device_ = nullptr;
  char* shadow_ = nullptr;
  size_t size_ = 0;  // of each side
  int file_ = -1;

  std::mutex mutex_;                    // guards what follows
  std::map<size_t, Allocation> live_;   // by `begin`
  size_t next_ = 0;                     // where the search for room begins
  Allocation freed_[kRemembered] = {};  // a ring
  size_t frees_ = 0;
};

}  // namespace unihal::stub::strict
