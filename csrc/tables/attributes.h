// How long an op's attributes may be.
#pragma once

#include <cstddef>

namespace unihal {

// Whoever keeps a copy of an op keeps so many bytes of its attributes at most: a caller's struct may be longer than any
// that the kernels know. csrc/core/op/table.cc checks that no kind's struct is longer.
constexpr size_t kLongestAttributes = 4096;

}  // namespace unihal
