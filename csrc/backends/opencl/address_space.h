// Device pointers for hardware without raw ones: reserved addresses, each resolved to (buffer, offset).
//
// The reservation cannot be touched: a host that dereferences a device pointer faults at once. Addresses are handed out
// in granules, in ascending order, and come round again only after the whole reservation was used, so that a stale
// pointer resolves to nothing for as long as possible. A table with an entry per granule resolves an address in
// constant time.
//
// Threads: any. resolve() takes no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "csrc/backends/opencl/api.h"

namespace unihal::opencl {

// What stands behind a range of addresses.
struct Allocation {
  char* base = nullptr;
  size_t bytes = 0;
  cl_mem buffer = nullptr;
  uint64_t number = 0;  // never the same for two allocations, though addresses and handles come again
};

// An address resolved; of NULL, all is 0.
struct Place {
  cl_mem buffer = nullptr;
  size_t offset = 0;
  uint64_t number = 0;  // of the allocation
};

class AddressSpace {
 public:
  static constexpr size_t kGranule = size_t{1} << 20;

  AddressSpace() = default;
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // The process's own, for all devices; never destroyed.
  static AddressSpace& instance();

  // Reserves at most `bytes` of addresses, fewer (but at least 4 GiB) if the system refuses that many. Again and again
  // is once. Empty, or why not and what to do.
  std::string open(size_t bytes);

  size_t size() const { return size_; }

  // Gives `bytes` > 0 of a buffer an address, aligned to kGranule. nullptr if no contiguous addresses are left.
  void* insert(cl_mem buffer, size_t bytes);

  // Takes an address of insert() back: it resolves to nothing from now on. False for any other address.
  bool remove(void* address, Allocation* removed);

  bool contains(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base_) < size_;
  }

  // The buffer behind an address of a live allocation, its end included. False for any other address.
  bool resolve(const void* address, Place* place) const {
    const size_t offset = static_cast<size_t>(static_cast<const char*>(address) - base_);
    if (offset >= size_) return false;
    const Allocation* allocation = granules_[offset / kGranule].load(std::memory_order_acquire);
    if (allocation == nullptr) return false;
    place->buffer = allocation->buffer;
    place->offset = static_cast<size_t>(static_cast<const char*>(address) - allocation->base);
    place->number = allocation->number;
    return place->offset <= allocation->bytes;
  }

 private:
  using Granule = std::atomic<const Allocation*>;
  struct Range {
    size_t end;  // of the granules; the map's key is the first
    std::unique_ptr<Allocation> allocation;
  };

  bool place(size_t count, size_t* first);
  void set(size_t first, size_t end, const Allocation* allocation);

  char* base_ = nullptr;
  size_t size_ = 0;
  Granule* granules_ = nullptr;  // zero pages until written to

  std::mutex mutex_;  // guards what follows
  std::map<size_t, Range> live_;
  size_t next_ = 0;
  uint64_t insertions_ = 0;
};

}  // namespace unihal::opencl
