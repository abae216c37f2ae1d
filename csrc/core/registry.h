// Which backend serves which device type, and why the others do not.
#pragma once

#include <string>
#include <vector>

#include "csrc/core/backend.h"
#include "csrc/core/device_types.h"

namespace unihal::core {

// All devices that were opened, in order of opening. They live as long as the process.
std::vector<uhal_device*> open_devices();

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

// The backend of a name, loaded if need be, whether or not it serves a device type; nullptr, and why in *reason, if it
// cannot be.
Backend* find_backend(const std::string& name, std::string* reason);

}  // namespace unihal::core
