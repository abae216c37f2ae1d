// Filling the core's struct of a device's properties.
#ifndef UNIHAL_KERNELS_DEVICE_PROPERTIES_H_
#define UNIHAL_KERNELS_DEVICE_PROPERTIES_H_

#include <algorithm>
#include <cstring>

#include "unihal/device.h"

namespace unihal::kernels {

// Copies what a backend says of a device. The core's struct may be older and shorter; struct_size and the three fields
// it fills itself stay as they are.
inline void copy_properties(uhal_device_properties all, uhal_device_properties* properties) {
  all.struct_size = properties->struct_size;
  all.device_type = properties->device_type;
  all.backend = properties->backend;
  all.ordinal = properties->ordinal;
  std::memcpy(properties, &all, std::min(properties->struct_size, sizeof all));
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_DEVICE_PROPERTIES_H_
