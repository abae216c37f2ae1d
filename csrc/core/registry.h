// Which backend serves which device type, and why the others do not.
#pragma once

#include <vector>

#include "csrc/core/backend.h"
#include "csrc/core/device_types.h"

namespace unihal::core {

// As uhal_host.is_asked_for: for a backend that is counting its devices, since it reads under the registry's lock.
int32_t is_asked_for(const char* backend);

// All devices that were opened, in order of opening. They live as long as the process.
std::vector<uhal_device*> open_devices();

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

}  // namespace unihal::core
