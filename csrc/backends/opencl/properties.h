// What a device tells about itself, for uhal_device_properties.
#pragma once

#include "csrc/backends/opencl/device.h"

namespace unihal::opencl {

// Fills the fields of *properties within its struct_size, except those that the core fills itself.
void describe_device(const Device& device, uhal_device_properties* properties);

}  // namespace unihal::opencl
