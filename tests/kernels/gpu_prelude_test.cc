// What csrc/kernels/prelude/gpu.h computes itself, where a compiler for CUDA has nothing built in: run on the host,
// against the conversions that the stub uses.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "csrc/backends/common/float_bits.h"

// The prelude takes this compiler for CoreX's clang: attributes of its mean nothing here, and these functions are
// CUDA's.
float rsqrtf(float x);
double rsqrt(double x);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattributes"
#pragma GCC diagnostic ignored "-Wunused-function"
#ifndef __clang__
#define __clang__ 1
#endif
namespace prelude {
#include "csrc/kernels/prelude/gpu.h"
}
#pragma GCC diagnostic pop

namespace unihal {
namespace {

TEST(GpuPreludeTest, EveryFloat16IsTheFloatThatItStandsFor) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float expected = float16_to_float(static_cast<uint16_t>(half));
    const float found = prelude::uhal_float_of_half_bits(static_cast<uint16_t>(half));
    if (expected != expected) {
      ASSERT_NE(found, found) << half;
    } else {
      ASSERT_EQ(bits_of(expected), bits_of(found)) << half;
    }
  }
}

void expect_rounded(uint32_t bits) {
  const float value = float_of(bits);
  const uint16_t found = prelude::uhal_half_bits_of_float(value);
  if (value != value) {
    ASSERT_TRUE((found & 0x7c00) == 0x7c00 && (found & 0x3ff) != 0) << bits;
  } else {
    ASSERT_EQ(float_to_float16(value), found) << bits;
  }
}

// The middle between two neighbours of float16, what lies beside it, and the neighbours.
TEST(GpuPreludeTest, FloatsAreRoundedToTheNearestFloat16AndTiesToEven) {
  for (uint32_t half = 0; half <= 0x7c00; ++half) {
    const uint32_t bits = bits_of(float16_to_float(static_cast<uint16_t>(half)));
    const uint32_t next = half < 0x7bff ? bits_of(float16_to_float(static_cast<uint16_t>(half + 1))) : bits + 0x2000;
    const double middle = (static_cast<double>(float_of(bits)) + static_cast<double>(float_of(next))) / 2;
    for (const uint32_t near : {bits, bits_of(static_cast<float>(middle))}) {
      for (const uint32_t magnitude : {near == 0 ? 0 : near - 1, near, near + 1}) {
        expect_rounded(magnitude);
        expect_rounded(magnitude | 0x80000000);
      }
    }
  }
}

TEST(GpuPreludeTest, FloatsOfAllSizesAreRounded) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 997) expect_rounded(static_cast<uint32_t>(bits));
}

}  // namespace
}  // namespace unihal
