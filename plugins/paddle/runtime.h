// Paddle's device callbacks onto the unihal ABI.
#pragma once

#include "plugins/paddle/device_interface.h"

namespace unihal::paddle {

// The callbacks for a device type (a static table, ended by a null slot), or nullptr for one that is not in
// unihal's table of device types.
const Callback* runtime_callbacks(const char* device_type);

}  // namespace unihal::paddle
