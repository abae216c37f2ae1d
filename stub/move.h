// Plain bytes: parallel memcpy and pattern fill.
#pragma once

#include <cstdint>

namespace unihal::stub {

void move_bytes(void* destination, const void* source, int64_t bytes);

// Repeats a pattern of 1, 2, 4, 8 or 16 bytes, which divides `bytes`.
void fill_bytes(void* destination, const void* pattern, int64_t pattern_bytes, int64_t bytes);

}  // namespace unihal::stub
