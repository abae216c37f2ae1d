#include "csrc/core/backend/backend.h"

namespace unihal::core {

uhal_status finish_backend_failure(const Backend& backend, const char* slot, uhal_status status,
                                   uint64_t serial_before) {
  if (error_serial() == serial_before) {
    return UHAL_FAIL(status,
                     "The backend '%s' failed in %s with %s and gave no message. Please report it to its authors.",
                     backend.name.c_str(), slot, uhal_status_name(status));
  }
  return status;
}

}  // namespace unihal::core
