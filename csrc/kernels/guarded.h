// No exception may leave a slot of a backend's table.
#ifndef UNIHAL_KERNELS_GUARDED_H_
#define UNIHAL_KERNELS_GUARDED_H_

#include <exception>
#include <new>

#include "csrc/kernels/ops.h"

namespace unihal::kernels {

// Runs a slot's function; what it throws becomes a status and a report.
template <class Function>
uhal_status guarded(const char* backend, Function&& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for the %s backend's records", backend);
  } catch (const std::exception& error) {
    return fail(UHAL_INTERNAL, "the %s backend failed: %s", backend, error.what());
  }
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_GUARDED_H_
