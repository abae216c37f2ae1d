// Checks of addresses against live allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "csrc/core/memory/allocator.h"

namespace unihal::core {

// What an address range turned out to be.
enum class RangeCheck {
  kInside,     // within one live allocation of device or managed memory
  kUnknown,    // its start lies in no live allocation
  kOutside,    // it begins in an allocation but reaches beyond it
  kWrongKind,  // within pinned memory, which ops do not take
};

// The allocations that a thread saw last, by address. An entry holds while its block's serial does.
class RecentBlocks {
 public:
  // The calling thread's. What looks at several addresses asks once: it is a call of the loader's.
  static RecentBlocks& of_thread();

  // Whether `bytes` bytes at `address` lie within one of those allocations, of device or managed memory. False says
  // nothing: check_range tells.
  bool hold(const uhal_device* device, const void* address, size_t bytes) const {
    const Entry& entry = entries_[slot(address)];
    return entry.device == device && within(entry.live, address, bytes) &&
           entry.live.block->serial.load(std::memory_order_acquire) == entry.live.serial;
  }

  static bool within(const LiveBlock& live, const void* address, size_t bytes) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(live.base);
    return offset <= live.bytes && bytes <= live.bytes - offset;
  }

  // The entry for an address, for one who has found that hold().
  const LiveBlock& at(const void* address) const { return entries_[slot(address)].live; }

  void remember(const uhal_device* device, const void* address, const LiveBlock& live) {
    entries_[slot(address)] = {device, live};
  }

 private:
  // In a line of the cache.
  struct alignas(64) Entry {
    const uhal_device* device;
    LiveBlock live;
  };
  static constexpr int kEntryBits = 6;
  static constexpr size_t kEntries = size_t{1} << kEntryBits;
  static constexpr uint32_t kHashFactor = 0x9e3779b1;  // Knuth's

  static size_t slot(const void* address) {
    // Allocations are aligned to 256 bytes; views that begin inside one take a slot of their own.
    const auto bits = static_cast<uint32_t>(reinterpret_cast<uint64_t>(address) >> 8);
    return bits * kHashFactor >> (32 - kEntryBits);
  }

  Entry entries_[kEntries];
};

// Checks `bytes` > 0 bytes at `address` against the live allocations of a device. A range that was found
// recently by this thread costs a few comparisons. *found, if wanted, is the allocation.
RangeCheck check_range(uhal_device* device, const void* address, size_t bytes, LiveBlock* found = nullptr);

// This thread will find a block of device or managed memory, which was just allocated, as one that it found recently.
void remember_range(const uhal_device* device, const LiveBlock& live);

// " (it belongs to rdna:1)", if an address that is none of the device's lies in a live allocation of another one; else
// empty. For messages.
std::string other_owner(const uhal_device& device, const void* address);

}  // namespace unihal::core
