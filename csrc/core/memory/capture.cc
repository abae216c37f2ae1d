#include "csrc/core/memory/capture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "csrc/core/base/error.h"

namespace unihal::core {

bool Capture::note_use(const void* address) {
  const auto note = [&](const uhal_device& owner) {
    for (Allocator* allocator : owner.allocators) {
      LiveBlock live;
      if (!allocator->find(address, &live)) continue;
      const bool is_own = live.graph >= std::begin(blocks) && live.graph < std::end(blocks);
      // Of what is freed and allocated again in the capture the first one counts: it is gone, and must be found out.
      if (!is_own) uses_.emplace(live.block, Use{live, &owner});
      return true;
    }
    return false;
  };
  if (note(*device)) return true;
  const std::vector<uhal_device*> devices = open_devices();  // pinned memory may be another one's
  return std::any_of(devices.begin(), devices.end(), [&](const uhal_device* other) { return note(*other); });
}

uhal_status Capture::check_memory() const {
  for (const auto& [block, use] : uses_) {
    if (block->serial.load(std::memory_order_acquire) == use.live.serial) continue;
    return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                     "The graph uses an allocation of %zu bytes at %p of %s that was freed since it was captured. Keep "
                     "what a graph reads and writes until the graph is destroyed, or capture again.",
                     use.live.bytes, static_cast<void*>(use.live.base), use.device->label.c_str());
  }
  return UHAL_OK;
}

void Capture::release_memory() {
  if (workspace != nullptr) {
    device->allocator(UHAL_MEMORY_DEVICE).free(nullptr, std::exchange(workspace, nullptr));
  }
  for (uhal_memory_kind kind = 0; kind < UHAL_MEMORY_KIND_COUNT; ++kind) {
    device->allocator(kind).release(&blocks[kind]);
  }
}

Capture* detach_capture(Stream* stream) {
  Capture* const capture = stream->capture.exchange(nullptr);
  std::swap(stream->workspace, capture->workspace);
  std::swap(stream->workspace_bytes, capture->workspace_bytes);
  return capture;
}

}  // namespace unihal::core
