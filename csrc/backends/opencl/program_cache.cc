#include "csrc/backends/opencl/program_cache.h"

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/device_info.h"

namespace unihal::opencl {

std::string program_key(const Device& device, const std::string& options, const std::string& text) {
  std::string key = "OpenCL program\n";
  for (const cl_uint what : {CL_PLATFORM_NAME, CL_PLATFORM_VERSION}) key += platform_text(device.platform, what) + "\n";
  for (const cl_uint what : {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION}) {
    key += device_text(device.id, what) + "\n";
  }
  return key + device.name + "\n" + options + "\n" + text;
}

cl_program load_program(const Device& device, const std::string& key, const std::string& options) {
  std::string binary;
  if (!DiskCache::shared().load(key, &binary)) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t length = binary.size();
  cl_int taken = CL_SUCCESS;
  cl_int code = CL_SUCCESS;
  const cl_program program =
      api.clCreateProgramWithBinary(device.context, 1, &device.id, &length, &bytes, &taken, &code);
  if (program == nullptr) return nullptr;
  if (taken == CL_SUCCESS &&
      api.clBuildProgram(program, 1, &device.id, options.c_str(), nullptr, nullptr) == CL_SUCCESS) {
    return program;
  }
  api.clReleaseProgram(program);
  return nullptr;
}

void store_program(const std::string& key, const char* name, cl_program program) {
  if (!DiskCache::shared().on()) return;
  size_t length = 0;
  if (api.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, nullptr) != CL_SUCCESS ||
      length == 0) {
    return;
  }
  std::string binary(length, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(&binary[0]);
  if (api.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) return;
  DiskCache::shared().store(key, std::string("program ") + name, binary);
}

}  // namespace unihal::opencl
