// Small value types of phi that cross its C++ functions. The same in Paddle 3.0 to 3.3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unihal::paddle {

// phi::Backend. Device types of plugins follow kFirstCustomBackend in the order of their type ids.
enum Backend : uint8_t { kCpuBackend = 1, kCustomBackend = 8, kFirstCustomBackend = 9 };

constexpr int32_t kAnyLayout = 0;  // phi::DataLayout::ANY

// phi::KernelKey.
struct KernelKey {
  uint8_t backend;
  int32_t layout;
  int32_t dtype;
};

// phi::Place.
struct Place {
  int8_t ordinal;
  int8_t kind;
  size_t device_type_id;
};
// phi::DataType.
enum PhiDtype : int32_t { kPhiFloat32 = 10, kPhiFloat64 = 11, kPhiComplex64 = 12, kPhiComplex128 = 13 };

constexpr int8_t kCustomPlace = 9;  // phi::AllocationType::CUSTOM

// The backend of a place of a plugin's device type.
inline uint8_t backend_of(const Place& place) {
  return static_cast<uint8_t>(kFirstCustomBackend + place.device_type_id);
}

}  // namespace unihal::paddle
