#include "csrc/backends/opencl/properties.h"

#include "csrc/backends/common/lanes.h"
#include "csrc/backends/opencl/device_info.h"
#include "csrc/kernels/device_properties.h"

namespace unihal::opencl {
namespace {

// Fused multiplications and additions that a compute unit begins in a cycle; 0 where the driver does not say.
int lanes(cl_device_id device) {
  const auto amd = [&](cl_uint what) { return extension_value(device, kAmdQueries, what, cl_uint{0}); };
  const auto nvidia = [&](cl_uint what) { return extension_value(device, kNvidiaQueries, what, cl_uint{0}); };
  const cl_uint of_amd = amd(CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD) * amd(CL_DEVICE_SIMD_WIDTH_AMD);
  if (of_amd != 0) return static_cast<int>(of_amd);
  return lanes_of_capability(static_cast<int>(nvidia(CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)),
                             static_cast<int>(nvidia(CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)));
}

}  // namespace

void describe_device(const Device& device, uhal_device_properties* properties) {
  uhal_device_properties all = {};
  all.name = device.name.c_str();
  all.vendor = device.vendor.c_str();
  all.driver = device.software.c_str();
  all.pci_bus_id = device.pci_bus_id.c_str();
  all.compute_units = device.traits.compute_units;
  all.wavefront_size = device.traits.wavefront_size;
  all.clock_megahertz = static_cast<int32_t>(device_value(device.id, CL_DEVICE_MAX_CLOCK_FREQUENCY, cl_uint{0}));
  all.total_memory = device.total_memory;
  all.max_allocation = device.max_allocation;
  all.local_memory = static_cast<uint64_t>(device.traits.local_memory);
  all.supported_dtypes = device.traits.dtypes;
  all.peak_gigaflops_float32 = 2.0 * lanes(device.id) * all.compute_units * all.clock_megahertz / 1000;
  // OpenCL tells neither the width nor the clock of the memory: peak_gigabytes_per_second stays unknown.
  all.figures_are_of = UHAL_FIGURES_OF_DEVICE;
  kernels::copy_properties(all, properties);
}

}  // namespace unihal::opencl
