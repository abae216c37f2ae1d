#include "csrc/core/memory/live_range.h"

namespace unihal::core {
namespace {

thread_local RecentBlocks recent_blocks;

}  // namespace

__attribute__((hot)) RecentBlocks& RecentBlocks::of_thread() { return recent_blocks; }

std::string other_owner(const uhal_device& device, const void* address) {
  for (uhal_device* other : open_devices()) {
    for (Allocator* allocator : other->allocators) {
      LiveBlock live;
      if (other != &device && allocator->find(address, &live)) return " (it belongs to " + other->label + ")";
    }
  }
  return "";
}

void remember_range(const uhal_device* device, const LiveBlock& live) {
  recent_blocks.remember(device, live.base, live);
}

RangeCheck check_range(uhal_device* device, const void* address, size_t bytes, LiveBlock* found) {
  RecentBlocks& recent = recent_blocks;
  if (recent.hold(device, address, bytes)) {
    if (found != nullptr) *found = recent.at(address);
    return RangeCheck::kInside;
  }
  for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
    LiveBlock live;
    if (!device->allocator(kind).find(address, &live)) continue;
    if (found != nullptr) *found = live;
    if (!RecentBlocks::within(live, address, bytes)) return RangeCheck::kOutside;
    if (kind == UHAL_MEMORY_PINNED) return RangeCheck::kWrongKind;
    recent.remember(device, address, live);
    return RangeCheck::kInside;
  }
  return RangeCheck::kUnknown;
}

}  // namespace unihal::core
