#include "csrc/core/memory/live_range.h"

#include <cstdint>

namespace unihal::core {
namespace {

// The allocations that this thread saw last, by address. An entry holds while its block's serial does.
struct RecentBlock {
  const uhal_device* device;
  LiveBlock live;
};
constexpr size_t kRecentCount = 64;
thread_local RecentBlock recent_blocks[kRecentCount];

RecentBlock& recent_slot(const void* address) {
  // Allocations are aligned to 256 bytes; views that begin inside one take a slot of their own.
  uint64_t bits = reinterpret_cast<uint64_t>(address) >> 8;
  return recent_blocks[(bits ^ bits >> 6 ^ bits >> 12) % kRecentCount];
}

bool within(const LiveBlock& live, const void* address, size_t bytes) {
  uintptr_t start = reinterpret_cast<uintptr_t>(address);
  uintptr_t base = reinterpret_cast<uintptr_t>(live.base);
  return start >= base && bytes <= live.bytes && start - base <= live.bytes - bytes;
}

}  // namespace

std::string other_owner(const uhal_device& device, const void* address) {
  for (uhal_device* other : open_devices()) {
    for (Allocator* allocator : other->allocators) {
      LiveBlock live;
      if (other != &device && allocator->find(address, &live)) return " (it belongs to " + other->label + ")";
    }
  }
  return "";
}

void remember_range(const uhal_device* device, const LiveBlock& live) { recent_slot(live.base) = {device, live}; }

RangeCheck check_range(uhal_device* device, const void* address, size_t bytes, LiveBlock* found) {
  RecentBlock& recent = recent_slot(address);
  if (recent.device == device && within(recent.live, address, bytes) &&
      recent.live.block->serial.load(std::memory_order_acquire) == recent.live.serial) {
    if (found != nullptr) *found = recent.live;
    return RangeCheck::kInside;
  }
  for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
    LiveBlock live;
    if (!device->allocator(kind).find(address, &live)) continue;
    if (found != nullptr) *found = live;
    if (!within(live, address, bytes)) return RangeCheck::kOutside;
    if (kind == UHAL_MEMORY_PINNED) return RangeCheck::kWrongKind;
    recent = {device, live};
    return RangeCheck::kInside;
  }
  return RangeCheck::kUnknown;
}

}  // namespace unihal::core
