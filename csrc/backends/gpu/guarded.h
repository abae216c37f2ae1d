// No exception may leave a slot of the backend's tables.
#pragma once

#include "csrc/backends/gpu/api.h"
#include "csrc/kernels/guarded.h"

namespace unihal::gpu {

// Runs a slot's function; what it throws becomes a status and a report.
template <class Function>
uhal_status guarded(Function&& function) {
  return kernels::guarded(vendor.backend, function);
}

}  // namespace unihal::gpu
