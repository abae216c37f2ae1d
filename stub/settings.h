// The stub's environment variables.
#pragma once

#include <cstdint>

#include "unihal/status.h"

namespace unihal::stub {

struct Settings {
  int32_t devices = 1;                  // UNIHAL_STUB_DEVICES: 1 to 64
  uint64_t memory = uint64_t{8} << 30;  // UNIHAL_STUB_MEMORY: bytes of each device, suffix K, M or G
  bool strict = false;                  // UNIHAL_STUB: fast or strict
  uint64_t seed = 0;                    // UNIHAL_STUB_SEED: of the strict mode's delays
};

// Reads the environment. UHAL_INVALID_ARGUMENT after a report that names the variable, its value and what is allowed.
uhal_status read_settings(Settings* settings);

}  // namespace unihal::stub
