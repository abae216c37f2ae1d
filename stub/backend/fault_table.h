// Fault injection around a backend table.
#pragma once

#include "unihal/backend.h"

namespace unihal::stub {

// A table whose slots ask for faults (faults.h) and then call the slots of `inner`, which must have every slot but
// `extension`, and live as long as the process. To be called once.
const uhal_backend* with_faults(const uhal_backend& inner);

}  // namespace unihal::stub
