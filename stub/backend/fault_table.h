// Fault injection around a backend table.
#pragma once

#include "unihal/backend.h"

namespace unihal::stub {

// A table whose slots ask for faults (faults.h) and then call the slots of `inner`, which must have every slot but
// `extension`, and live as long as the process. To be called once.
const uhal_backend* with_faults(const uhal_backend& inner);

// For work that is no slot of the table: UHAL_OK, or the failure of a lost device, reported.
uhal_status fail_if_lost();

}  // namespace unihal::stub
