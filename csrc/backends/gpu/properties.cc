#include "csrc/backends/gpu/properties.h"

#include "csrc/kernels/device_properties.h"

namespace unihal::gpu {

void describe_device(const Device& device, uhal_device_properties* properties) {
  uhal_device_properties all = {};
  all.name = device.name.c_str();
  all.vendor = device.architecture.is_stand_in ? "not the backend's vendor" : vendor.vendor;
  all.driver = device.software.c_str();
  all.pci_bus_id = device.pci_bus_id.c_str();
  all.compute_units = device.traits.compute_units;
  all.wavefront_size = device.traits.wavefront_size;
  all.clock_megahertz = device.clock_megahertz;
  all.unified_memory = 0;  // also where host and device share memory: what they see of it is in order only at waits
  all.total_memory = device.total_memory;
  all.max_allocation = device.total_memory;
  all.local_memory = static_cast<uint64_t>(device.traits.local_memory);
  all.supported_dtypes = device.traits.dtypes;
  all.peak_gigaflops_float32 = 2.0 * device.architecture.lanes * all.compute_units * all.clock_megahertz / 1000;
  all.peak_gigabytes_per_second = device.peak_gigabytes_per_second;
  all.figures_are_of = UHAL_FIGURES_OF_DEVICE;
  kernels::copy_properties(all, properties);
}

}  // namespace unihal::gpu
