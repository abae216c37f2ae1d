// The device types that users name, and the backends that can serve each.
#pragma once

#include <cstddef>
#include <string>

namespace unihal::core {

constexpr size_t kMaxBackendsPerType = 4;

struct DeviceTypeRow {
  const char* name;
  const char* paddle_name;
  const char* tensorflow_name;
  const char* backend_list;                   // "hip,opencl,stub"
  const char* backends[kMaxBackendsPerType];  // the same, in order of preference; ends with nullptr
};

constexpr size_t kDeviceTypeCount = 3;
extern const DeviceTypeRow kDeviceTypes[kDeviceTypeCount];

// The row with a name, or nullptr; name may be nullptr.
const DeviceTypeRow* find_device_type(const char* name);

// Whether any device type lists a backend.
bool is_listed_backend(const std::string& name);

// "iluvatar, rdna, polaris" and "corex, hip, opencl, stub", for messages.
std::string known_device_types();
std::string known_backends();

}  // namespace unihal::core
