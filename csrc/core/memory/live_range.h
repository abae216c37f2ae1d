// Checks of addresses against live allocations.
#pragma once

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

// Checks `bytes` > 0 bytes at `address` against the live allocations of a device. A range that was found
// recently by this thread costs a few comparisons. *found, if wanted, is the allocation.
RangeCheck check_range(uhal_device* device, const void* address, size_t bytes, LiveBlock* found = nullptr);

// This thread will find a block of device or managed memory, which was just allocated, as one that it found recently.
void remember_range(const uhal_device* device, const LiveBlock& live);

// " (it belongs to rdna:1)", if an address that is none of the device's lies in a live allocation of another one; else
// empty. For messages.
std::string other_owner(const uhal_device& device, const void* address);

}  // namespace unihal::core
