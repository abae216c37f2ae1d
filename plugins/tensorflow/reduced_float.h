// Numbers of half the digits as the host reads them.
#pragma once

#include <cmath>
#include <cstdint>

namespace unihal::tensorflow {

// The value of a float16's or bfloat16's bits.
inline double reduced_float(uint16_t bits, bool is_half) {
  const int fraction_bits = is_half ? 10 : 7;
  const int exponent_bits = 15 - fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
  return bits >> 15 != 0 ? -value : value;
}

}  // namespace unihal::tensorflow
