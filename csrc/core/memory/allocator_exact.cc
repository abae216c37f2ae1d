// The allocator of a device with UHAL_CHECK_MEMORY: nothing is cached.
#include "csrc/core/memory/allocator.h"

namespace unihal::core {

uhal_status Allocator::allocate_exactly(Stream* stream, size_t bytes, Wait wait, void** pointer, GraphBlocks* capture) {
  ErrorRecordKeeper keeper;
  const uint64_t serial = error_serial();
  uhal_status status = UHAL_OK;
  for (bool waited : {false, true}) {
    if (waited && wait == Wait::kNever) break;
    reclaim(wait == Wait::kNever ? stream : nullptr, waited);
    std::lock_guard<std::mutex> lock(mutex_);
    return_shared();
    if (Block* block = add_segment(bytes, bytes, &status)) {
      hand_out(block, bytes, bytes, capture, pointer);
      return UHAL_OK;
    }
    if (status != UHAL_RESOURCE_EXHAUSTED) break;
  }
  keeper.keep_latest();
  return refuse(bytes, status, serial);
}

void Allocator::return_passed() {
  if (!exact_) return;
  ErrorRecordKeeper keeper;  // what fails here is tried again
  reclaim(nullptr, false);
  std::lock_guard<std::mutex> lock(mutex_);
  return_shared();
}

void Allocator::return_shared() {
  for (BlockBins& bins : shared_.bins) {
    bins.for_each([&](Block* block) { release_segment(block->segment); });
  }
}

}  // namespace unihal::core
