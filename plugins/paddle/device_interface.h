// Filling Paddle's C_DeviceInterface, whose layout changes between versions under one version number.
//
// Paddle says how large its struct is; that tells the layout. The struct is a size followed by pointers, so a
// layout is nothing but which slots it has: device_interface.cc lists them once, with the versions that have them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unihal::paddle {

// C_Status, which callbacks return.
enum Status : int32_t { kSuccess = 0, kFailed = 2, kError = 3 };

// A callback under the name that it has in Paddle's device_ext.h.
struct Callback {
  const char* slot;
  void* function;
};

// Fills the slots named in `callbacks` (ended by a null name; a slot may be listed in two forms, see
// device_interface.cc) of an interface of `size` bytes. Returns false, having written nothing, for a size that
// is no known layout.
bool fill_device_interface(void* device_interface, size_t size, const Callback* callbacks);

// "3.0, 3.1, 3.2, 3.3"
extern const char* const kSupportedPaddleVersions;

}  // namespace unihal::paddle
