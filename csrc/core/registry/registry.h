// Which backend serves which device type, and why the others do not.
#pragma once

#include <vector>

#include "csrc/core/backend/backend.h"
#include "csrc/core/backend/device_types.h"

namespace unihal::core {

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

}  // namespace unihal::core
