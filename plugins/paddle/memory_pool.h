// Paddle's own pool between its tensors and our allocator.
#pragma once

#include <cstddef>

namespace unihal::paddle {

// Sizes are rounded up to multiples of this by Paddle's pool.
constexpr size_t kMinimumChunk = 256;

// From now on the pool gives memory back as soon as its last tensor is gone, and keeps none for later. Otherwise the
// memory check would see what the pool holds, and neither a tensor's end nor its use after that. Returns false if this
// Paddle has no switch for it.
bool keep_no_idle_memory();

// Whether it was called: whether a device with the memory check is in use.
bool keeps_no_idle_memory();

}  // namespace unihal::paddle
