// Which backend serves which device type, and why the others do not.
#pragma once

#include <string>
#include <vector>

#include "csrc/core/backend/backend.h"
#include "csrc/core/backend/device_types.h"

namespace unihal::core {

// As uhal_host.is_asked_for: for a backend that is counting its devices, since it reads under the registry's lock.
int32_t is_asked_for(const char* backend);

// All backends that were loaded.
std::vector<Backend*> loaded_backends();

// The backend of a name, loaded if need be, whether or not it serves a device type; nullptr, and why in *reason, if it
// cannot be.
Backend* find_backend(const std::string& name, std::string* reason);

}  // namespace unihal::core
