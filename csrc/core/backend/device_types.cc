#include "csrc/core/backend/device_types.h"

#include <cstring>

#include "csrc/core/base/struct_size.h"
#include "unihal/device.h"

namespace unihal::core {

const DeviceTypeRow kDeviceTypes[kDeviceTypeCount] = {
    {"iluvatar", "iluvatar", "ILUVATAR", "corex,stub", {"corex", "stub"}},
    {"rdna", "rdna", "RDNA", "hip,opencl,stub", {"hip", "opencl", "stub"}},
    {"polaris", "polaris", "POLARIS", "opencl,hip,stub", {"opencl", "hip", "stub"}},
};

const DeviceTypeRow* find_device_type(const char* name) {
  for (const DeviceTypeRow& row : kDeviceTypes) {
    if (name != nullptr && strcmp(row.name, name) == 0) return &row;
  }
  return nullptr;
}

bool is_listed_backend(const std::string& name) {
  for (const DeviceTypeRow& row : kDeviceTypes) {
    for (const char* backend : row.backends) {
      if (backend != nullptr && name == backend) return true;
    }
  }
  return false;
}

std::string known_device_types() {
  std::string names;
  for (const DeviceTypeRow& row : kDeviceTypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string known_backends() {
  std::string names;
  for (const DeviceTypeRow& row : kDeviceTypes) {
    for (const char* backend : row.backends) {
      if (backend == nullptr || strcmp(backend, "stub") == 0 || names.find(backend) != std::string::npos) continue;
      names += std::string(backend) + ", ";
    }
  }
  return names + "stub";
}

}  // namespace unihal::core

using namespace unihal::core;

size_t uhal_device_type_count(void) { return kDeviceTypeCount; }

uhal_status uhal_device_type_get(size_t index, uhal_device_type_info* info) {
  if (index >= kDeviceTypeCount) {
    return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no device type number %zu; there are %zu.", index, kDeviceTypeCount);
  }
  const DeviceTypeRow& row = kDeviceTypes[index];
  uhal_device_type_info value = {sizeof value, row.name, row.paddle_name, row.tensorflow_name, row.backend_list};
  return copy_out(value, info, "info");
}
