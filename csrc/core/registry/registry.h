// Which backend serves which device type, and why the others do not.
#pragma once

#include <vector>

#include "csrc/core/backend/backend.h"
#include "csrc/core/backend/device_types.h"

namespace unihal::core {

// All devices that were opened, in order of opening. They live as long as the process.
std::vector<uhal_device*> open_devices();

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

}  // namespace unihal::core
