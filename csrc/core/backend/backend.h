// A loaded backend: its table, made safe to call, and its devices.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "csrc/core/base/error.h"
#include "unihal/backend.h"

namespace unihal::core {

struct Backend {
  std::string name;
  std::string library;  // path of the file
  uhal_backend table;   // as far as the library's own reaches; NULL slots beyond

  // Set by the registry, once.
  bool counted = false;
  int32_t device_count = 0;
  std::string refusal;  // why it has no device
  std::string remark;   // what it said beside its devices, such as which others it refused

  std::mutex mutex;                           // guards `devices`
  std::vector<uhal_backend_device*> devices;  // by ordinal; nullptr until opened
};

// Completes the record of a slot that failed: a backend may have forgotten to report.
uhal_status finish_backend_failure(const Backend& backend, const char* slot, uhal_status status, uint64_t serial_before)
    __attribute__((cold));

// Calls a slot of a backend's table: call_backend(backend, "allocate", backend.table.allocate, device, ...).
template <class Slot, class... Arguments>
uhal_status call_backend(const Backend& backend, const char* name, Slot slot, Arguments... arguments) {
  uint64_t serial = error_serial();
  uhal_status status = slot(arguments...);
  if (status == UHAL_OK) return UHAL_OK;
  return finish_backend_failure(backend, name, status, serial);
}

}  // namespace unihal::core
