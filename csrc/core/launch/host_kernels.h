// The host's own kernels: those of the stub's library, which is loaded for them, and serves no device type by that.
#pragma once

#include <string>

#include "csrc/core/handle/device.h"
#include "unihal/host_kernels.h"

namespace unihal::core {

// The table, or nullptr and why in *reason.
const uhal_host_kernels* host_kernels(std::string* reason);

// Whether these kernels are what a device computes with: then they are no way out.
bool runs_host_kernels(const uhal_device& device);

}  // namespace unihal::core
