// Memory. What a device has lies at addresses that the host may not touch, and once more where the streams' threads
// reach it.
//
// Threads: any.
#pragma once

#include <cstddef>

#include "tests/doubles/hip_on_host/device.h"

namespace on_host {

enum class Kind { kDevice, kPinned, kManaged };

// Returns a code. Device memory is counted.
int allocate(Device& device, Kind kind, size_t bytes, void** pointer);

// Returns a code: only the start of an allocation of that kind is taken (managed memory as the device's).
int release(Kind kind, void* pointer);

// Where a stream's thread reaches `bytes` at an address: of an allocation, or of ordinary host memory. nullptr if they
// are not all in the allocation that they begin in.
char* reach(void* address, size_t bytes);

// Whether an address is in no allocation.
bool is_ordinary(const void* address);

}  // namespace on_host
