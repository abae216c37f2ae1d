// float16 and bfloat16 to and from float32 by their bits, in a form that vectorizes. Independent of the processor's
// flush-to-zero modes, which frameworks set on their threads.
#pragma once

#include <cstdint>
#include <cstring>

namespace unihal {

// Internal linkage on purpose: each instruction set must keep its own compiled copy.
namespace {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float bfloat16_to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest even; NaN stays NaN. What is chosen is whole words, which are cut last: GCC's vectors would choose
// among halves of words, in twice as many instructions.
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const auto word = static_cast<int32_t>(value != value ? bits | 0x400000 : rounded);
  return static_cast<uint16_t>(word >> 16);
}

inline float float16_to_float(uint16_t half) {
  const uint32_t magnitude = half & 0x7fff;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t normal = (magnitude << 13) + (112u << 23);  // 112: the difference of the exponents' biases
  const uint32_t special = normal + (112u << 23);            // infinity and NaN have all exponent bits set
  const uint32_t subnormal = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  return float_of(sign | (magnitude < 0x400 ? subnormal : magnitude >= 0x7c00 ? special : normal));
}

// Rounds to nearest even; beyond the range gives infinity, NaN stays NaN.
inline uint16_t float_to_float16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Below the normal range: adding 0.5 lets the processor round at 2^-24, float16's smallest step.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
  const uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  return static_cast<uint16_t>(sign | (magnitude >= 0x47800000  ? special
                                       : magnitude < 0x38800000 ? subnormal
                                                                : normal));
}

inline float float8_e5m2_to_float(uint8_t byte) { return float16_to_float(static_cast<uint16_t>(byte << 8)); }

inline float float8_e4m3fn_to_float(uint8_t byte) {
  const uint32_t magnitude = byte & 0x7f;
  const uint32_t sign = static_cast<uint32_t>(byte & 0x80) << 24;
  const uint32_t normal = (magnitude << 20) + (120u << 23);  // 120: the difference of the exponents' biases
  const uint32_t subnormal = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
  return float_of(sign | (magnitude < 0x8 ? subnormal : magnitude == 0x7f ? 0x7fc00000 : normal));
}

// Rounds to nearest even; beyond the range gives infinity, NaN stays NaN. Whole words are chosen, and cut last, as
// above; as signed numbers, which vectors compare in one instruction.
inline uint8_t float_to_float8_e5m2(float value) {
  const uint32_t bits = bits_of(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffff);
  const int32_t within = magnitude < 0x47800000 ? magnitude : 0x47800000;  // from there on it is infinity
  const int32_t normal = (within + 0xfffff + ((within >> 21) & 1) - (112 << 23)) >> 21;
  // Below the normal range: adding 128 rounds at 2^-16.
  const auto subnormal =
      static_cast<int32_t>(bits_of(float_of(static_cast<uint32_t>(magnitude)) + 128.0f) - 0x43000000);
  const int32_t number = magnitude < 0x38800000 ? subnormal : normal;
  const int32_t byte = magnitude > 0x7f800000 ? 0x7e : number;
  return static_cast<uint8_t>(static_cast<int32_t>((bits & 0x80000000) | static_cast<uint32_t>(byte) << 24) >> 24);
}

// Rounds to nearest even; beyond the range gives NaN, as there are no infinities.
inline uint8_t float_to_float8_e4m3fn(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 24) & 0x80;
  const uint32_t normal = (magnitude + 0x7ffff + ((magnitude >> 20) & 1) - (120u << 23)) >> 20;
  const uint32_t subnormal = bits_of(float_of(magnitude) + 16384.0f) - 0x46800000;  // rounds at 2^-9
  return static_cast<uint8_t>(sign | (magnitude > 0x43e80000   ? 0x7f               // 464, halfway to what 480 would be
                                      : magnitude < 0x3c800000 ? subnormal
                                                               : normal));
}

// A float that rounds further (to float16 or bfloat16) as the double would: inexact results are rounded to odd.
inline float double_to_float_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = bits_of(nearest);
  const bool toward_zero = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  const bool inexact = back != value && value == value;
  return float_of(inexact && (bits & 1) == 0 ? (toward_zero ? bits - 1 : bits + 1) : bits);
}

}  // namespace

}  // namespace unihal
