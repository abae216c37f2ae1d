// Opening devices.
#pragma once

#include "csrc/core/handle/device.h"

namespace unihal::core {

// Opens device `ordinal` of a backend as a device of a type. Called with the registry's lock held.
uhal_status open_device(const DeviceTypeRow* type, Backend* backend, int32_t ordinal, uhal_device** device);

}  // namespace unihal::core
