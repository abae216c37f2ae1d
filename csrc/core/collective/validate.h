// The checks that every collective passes before a backend sees it.
#pragma once

#include <string>

#include "csrc/core/check/race_checker.h"
#include "csrc/core/collective/communicator.h"

namespace unihal::core {

// A collective that was found sound, and what it touches.
struct CheckedCollective {
  uhal_collective collective;  // as backends get it
  TouchedRange ranges[2];
  int range_count = 0;
  uint64_t bytes = 0;  // that it reads and writes
};

// Checks a collective that one rank calls; count > 0 if UHAL_OK and *nothing is false. A failure's record has the
// message only: see describe_failure.
uhal_status check_collective(const Communicator& communicator, const uhal_collective* collective,
                             CheckedCollective* checked, bool* nothing);

// "all_reduce of 5 float32": what an error's record says of the work.
std::string describe_collective(const uhal_collective& collective);

}  // namespace unihal::core
