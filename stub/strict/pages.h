// Pages and what fills them: shared by the kinds of memory of the strict mode.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unihal::stub::strict {

// What the ABI promises of each allocation.
inline constexpr size_t kAlignment = 256;

size_t page_size();

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// New memory is filled with it: NaN in float16, bfloat16 and float32, a signalling NaN in float64, and as an integer
// of any width no plausible index.
inline constexpr uint16_t kPoison = 0x7FF5;

void fill_with_poison(void* memory, size_t bytes);

}  // namespace unihal::stub::strict
