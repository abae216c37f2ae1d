// Sizes of dtypes, for code that a launch goes through.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unihal/tensor.h"

namespace unihal::core {

// In order of the enumerators.
inline constexpr uint8_t kDtypeBytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1};
static_assert(sizeof kDtypeBytes == UHAL_DTYPE_COUNT, "a size for each dtype");

// As uhal_dtype_size, of a dtype that there is.
inline size_t dtype_bytes(uhal_dtype dtype) { return kDtypeBytes[dtype]; }

}  // namespace unihal::core
