// What of an op is newer than its kind. A backend that was built before would pass over it and compute something else.
#pragma once

#include <cstdint>

#include "csrc/core/op/table.h"

namespace unihal::core {

// The minor of the ABI that a backend must know to run an op of a kind that it knows.
struct NewPart {
  uint32_t minor = 0;          // 0: nothing is newer than the kind
  const char* what = nullptr;  // for messages
};

// The newest part of a checked op. Kinds, functions and dtypes are no parts: backends refuse numbers that they do not
// know, and float8 is asked of their properties.
NewPart newest_part(const OpView& op);

}  // namespace unihal::core
