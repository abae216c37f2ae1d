// The stub's environment variables.
#pragma once

#include <cstdint>

#include "stub/backend/profiles.h"
#include "unihal/status.h"

namespace unihal::stub {

struct Settings {
  int32_t devices = 1;  // UNIHAL_STUB_DEVICES: 1 to 64
  uint64_t memory =
      uint64_t{8} << 30;             // UNIHAL_STUB_MEMORY: bytes of each device, suffix K, M or G; else the profile's
  uint64_t max_allocation = memory;  // the profile's, where it is less
  bool strict = false;               // UNIHAL_STUB: fast or strict
  uint64_t seed = 0;                 // UNIHAL_STUB_SEED: of the strict mode's delays
  bool has_profile = false;          // UNIHAL_STUB_PROFILE: a built-in name or a file
  DeviceProfile profile = {};
};

// Reads the environment. UHAL_INVALID_ARGUMENT after a report that names the variable, its value and what is allowed.
uhal_status read_settings(Settings* settings);

}  // namespace unihal::stub
