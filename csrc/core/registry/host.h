// What the core offers to backends.
#pragma once

#include "unihal/backend.h"

namespace unihal::core {

extern const uhal_host kHost;

}  // namespace unihal::core
