// Which of the driver's devices serve.
#pragma once

#include <vector>

#include "unihal/status.h"

namespace unihal::gpu {

// Opens the driver and fills *numbers with the driver's numbers of the devices that serve. Cards of another vendor,
// behind a driver with this vendor's names, serve only if the user asked for the backend by its name. Without any: a
// report of what was looked for, as backend.h says of device_count.
uhal_status choose_devices(bool asked_for, std::vector<int>* numbers);

}  // namespace unihal::gpu
