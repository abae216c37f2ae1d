// What the core tells of a device.
#pragma once

#include "csrc/backends/gpu/device.h"

namespace unihal::gpu {

// As uhal_backend.device_properties.
void describe_device(const Device& device, uhal_device_properties* properties);

}  // namespace unihal::gpu
