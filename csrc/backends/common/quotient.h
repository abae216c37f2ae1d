// Lengths and sizes in whole parts.
#pragma once

#include <cstdint>

namespace unihal {

constexpr int64_t quotient_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// Of a part of a workspace that another part follows: as many bytes, and those up to where that one is aligned for
// whatever it holds.
template <class Integer>
constexpr Integer aligned_bytes(Integer bytes) {
  constexpr Integer kAlignedTo = 256;
  return (bytes + kAlignedTo - 1) / kAlignedTo * kAlignedTo;
}

}  // namespace unihal
