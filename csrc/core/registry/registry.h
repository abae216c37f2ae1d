// Which backend serves which device type, and why the others do not.
#pragma once

#include <vector>

#include "csrc/core/backend/backend.h"
#include "csrc/core/backend/device_types.h"

namespace unihal::core {

// As uhal_host.is_asked_for: for a backend that is counting its devices, since it reads under the registry's lock.
int32_t is_asked_for(const char* backend);

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

}  // namespace unihal::core
