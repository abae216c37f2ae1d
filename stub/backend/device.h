// A stub device: what both modes share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stub/backend/settings.h"
#include "unihal/backend.h"

struct uhal_backend_device {
  int32_t ordinal;
  uint64_t memory;                // bytes in all that can be had
  std::atomic<uint64_t> used{0};  // bytes of device memory handed out
};

namespace unihal::stub {

// As device_count found them in the environment.
const Settings& settings();

// Whether UNIHAL_STUB asks for the strict mode. Any other value but "fast" is refused by device_count.
bool wants_strict_mode();

// Counts an allocation against the memory of a device: UHAL_RESOURCE_EXHAUSTED, after a report, if it does not fit, or
// is larger than the profile's card gives.
uhal_status take_memory(uhal_backend_device* device, size_t bytes);
void give_memory(uhal_backend_device* device, size_t bytes);

// Reports that the host itself has no memory for `what`.
uhal_status fail_without_host_memory(const char* what);

// The slots of the backend's table that do not depend on the mode.
uhal_status device_count(int32_t* count);
uhal_status device_open(int32_t ordinal, uhal_backend_device** device);
uhal_status device_properties(uhal_backend_device* device, uhal_device_properties* properties);
uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes);

}  // namespace unihal::stub
