// The backend's table in the strict mode (UNIHAL_STUB=strict): device memory that only the device can touch, streams
// that run later on threads of their own, new memory poisoned and freed memory gone.
#pragma once

#include "unihal/backend.h"

namespace unihal::stub::strict {

// The table of the fast mode with the slots replaced that differ; lives as long as the process.
const uhal_backend* table(const uhal_backend& fast);

}  // namespace unihal::stub::strict
