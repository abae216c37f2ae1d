// The extension "uhal.collectives" over NCCL or RCCL.
#pragma once

#include "unihal/collectives.h"

namespace unihal::gpu {

const uhal_collectives& collectives_table();

}  // namespace unihal::gpu
