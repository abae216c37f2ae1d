// Pinned and managed memory of the strict mode: host memory, poisoned when new, with a page on either side that nobody
// can touch. It ends less than 256 bytes before the upper one.
//
// Threads: any.
#pragma once

#include <cstddef>

#include "unihal/status.h"

namespace unihal::stub::strict {

// Aligned to 256 bytes. UHAL_RESOURCE_EXHAUSTED after a report when the host has no memory left.
uhal_status allocate_guarded(size_t bytes, void** pointer);

// `bytes` as allocated.
uhal_status free_guarded(void* pointer, size_t bytes);

}  // namespace unihal::stub::strict
