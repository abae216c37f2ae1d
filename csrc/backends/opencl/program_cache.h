// Built programs in the cache on disk (csrc/backends/common/disk_cache.h), as the binaries that the driver gives of
// them.
#pragma once

#include <string>

#include "csrc/backends/opencl/api.h"

namespace unihal::opencl {

struct Device;

// All that a binary depends on: the source, the options, the device, and the versions of its driver and platform.
std::string program_key(const Device& device, const std::string& options, const std::string& text);

// The program of a key, built; nullptr if there is none, or none that the driver takes.
cl_program load_program(const Device& device, const std::string& key, const std::string& options);

// Keeps a built program; nothing if the driver gives no binary. `name` is the source's.
void store_program(const std::string& key, const char* name, cl_program program);

}  // namespace unihal::opencl
