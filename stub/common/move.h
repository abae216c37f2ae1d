// Plain bytes: parallel memcpy and pattern fill, and writing around the caches.
#pragma once

#include <cstdint>

namespace unihal::stub {

void move_bytes(void* destination, const void* source, int64_t bytes);

// Repeats a pattern of 1, 2, 4, 8 or 16 bytes, which divides `bytes`.
void fill_bytes(void* destination, const void* pattern, int64_t pattern_bytes, int64_t bytes);

// Results of at least this size are better written around the caches: they would not stay there until they are read,
// and an ordinary store first loads the line that it overwrites, a third of the traffic of an addition.
inline constexpr int64_t kStreamBytes = int64_t{16} << 20;

// How much of a result is best computed before it is written around the caches: then the processor reads operands of
// the next piece while it writes. With 4 KiB an addition takes longer than with ordinary stores.
inline constexpr int64_t kStreamPiece = 1024;

// As memcpy, with stores around the caches. The thread calls finish_streaming() before others may read the result.
void stream_bytes(void* destination, const void* source, int64_t bytes);
void finish_streaming();

}  // namespace unihal::stub
