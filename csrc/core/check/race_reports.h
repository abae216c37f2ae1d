// The races that were found: told on stderr, and kept for uhal_race_get.
#pragma once

#include "csrc/core/check/access_history.h"

namespace unihal::core {

// Counts a race, keeps it if there are not too many, and prints it unless the same pair was printed before. Takes a
// lock of its own; thread-safe.
void report_race(const Access& earlier, const Access& later);

}  // namespace unihal::core
