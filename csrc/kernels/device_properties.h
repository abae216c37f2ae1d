// Filling the core's struct of a device's properties, and what follows from them.
#ifndef UNIHAL_KERNELS_DEVICE_PROPERTIES_H_
#define UNIHAL_KERNELS_DEVICE_PROPERTIES_H_

#include <algorithm>
#include <cstring>

#include "csrc/kernels/queue.h"
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

// The share of a work-item by the work-items of a wavefront. Those of 64 are AMD's GCN: a SIMD has 256 registers for
// each lane, and four of them 64 KiB of local memory; with four wavefronts on each a work-item has a quarter of the
// registers and 64 bytes. Other GPUs have registers enough for the fastest tiles.
inline ItemShare item_share(int32_t wavefront_size) {
  ItemShare share;
  if (wavefront_size == 64) share.registers = share.local_memory = 64;
  return share;
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_DEVICE_PROPERTIES_H_
