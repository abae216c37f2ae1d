// Reductions across ranks.
#pragma once

#include <cstdint>

#include "unihal/collectives.h"

namespace unihal::stub {

// Reduces element i of all sources, in their order, into element i of the destination, which is none of them. Aligned
// memory, `elements` of a real dtype. float16 and bfloat16 are added in float32 and rounded once.
void reduce_ranks(uhal_dtype dtype, uhal_reduction reduction, const char* const* sources, int32_t source_count,
                  char* destination, int64_t elements);

}  // namespace unihal::stub
