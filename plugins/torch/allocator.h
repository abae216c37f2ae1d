// PyTorch's allocators on unihal's stream-ordered one.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "plugins/torch/runtime.h"

namespace unihal::pytorch {

// Device memory of the current device, for its current stream; freed in the order of the stream it was allocated for.
c10::Allocator* device_allocator();

// Host memory that the devices copy from and to at full speed.
at::HostAllocator* pinned_allocator();
bool is_pinned(const void* pointer);

// Work of `stream` uses the allocation too: its memory is not used again before that work has run.
void record_stream(const c10::DataPtr& data, const c10::Stream& stream);

// Keeps host memory that work submitted to `stream` reads or writes until that work has run.
void keep_until_passed(uhal_stream* stream, c10::DeviceIndex device, at::Tensor host);
// Lets go of what is no longer needed.
void release_passed();

}  // namespace unihal::pytorch
