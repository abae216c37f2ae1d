// What clGetDeviceInfo and clGetPlatformInfo know.
#pragma once

#include <string>

#include "csrc/backends/opencl/api.h"

namespace unihal::opencl {

// The extensions that name vendors' queries. A query is of no meaning to other drivers: its number may be one of
// theirs.
inline constexpr char kAmdQueries[] = "cl_amd_device_attribute_query";
inline constexpr char kNvidiaQueries[] = "cl_nv_device_attribute_query";

// Printable ASCII without spaces at the ends; empty if the driver does not say.
std::string device_text(cl_device_id device, cl_uint what);
std::string platform_text(cl_platform_id platform, cl_uint what);

// `otherwise` if the driver does not know the query, or answers with another size.
template <class Value>
Value device_value(cl_device_id device, cl_uint what, Value otherwise) {
  Value value;
  size_t bytes = 0;
  const cl_int code = api.clGetDeviceInfo(device, what, sizeof value, &value, &bytes);
  return code == CL_SUCCESS && bytes == sizeof value ? value : otherwise;
}

// Whether the device has an extension, such as "cl_khr_fp64".
bool has_extension(cl_device_id device, const std::string& name);

// The value of a query that an extension brings; `otherwise` also where the device has not the extension.
template <class Value>
Value extension_value(cl_device_id device, const char* extension, cl_uint what, Value otherwise) {
  return has_extension(device, extension) ? device_value(device, what, otherwise) : otherwise;
}

// The name that people know the board by.
std::string board_name(cl_device_id device);

// "0000:03:00.0", empty if the driver does not say.
std::string pci_bus_id(cl_device_id device);

// "PoCL 3.1, OpenCL 3.0": the driver's version and the device's.
std::string driver_text(cl_platform_id platform, cl_device_id device);

}  // namespace unihal::opencl
