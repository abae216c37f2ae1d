// The slots of the extension "uhal.collectives" that both modes share, and what their launches have in common.
#pragma once

#include "stub/collectives/communicator.h"

namespace unihal::stub {

// Reports a failure, as fail() does.
uhal_status report(const RankFailure& failure);

// Whether these batches may be submitted: the device is there, and no communicator failed before.
uhal_status check_batches(const uhal_collective_batch* batches, int32_t count);

// "all_reduce"; of several: the first one's.
const char* name_of(const uhal_collective_batch& batch);

// The table of a mode, which brings its own launch.
uhal_collectives collectives_with(uhal_status (*launch)(const uhal_collective_batch* batches, int32_t count));

}  // namespace unihal::stub
