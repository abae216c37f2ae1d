// Numbers of two bytes as numbers of float and back, many at a time. Included inside files that are compiled once per
// instruction set: nothing here is shared between them.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstdint>

#include "csrc/backends/common/float_bits.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// With the processor's own instructions NaN keeps its sign and the upper bits of its payload, as on a processor that a
// framework computes on; without them it keeps its sign.
inline float widen_one(Float16 value) {
#ifdef __F16C__
  return _cvtsh_ss(value.bits);
#else
  return float16_to_float(value.bits);
#endif
}
inline float widen_one(Bfloat16 value) { return bfloat16_to_float(value.bits); }

inline void shorten_one(float value, Float16* to) {
#ifdef __F16C__
  to->bits = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  to->bits = float_to_float16(value);
#endif
}
inline void shorten_one(float value, Bfloat16* to) { to->bits = float_to_bfloat16(value); }

// Numbers that are converted together, in registers: no loop becomes the instructions that do it.
inline constexpr int64_t kWidened = 16;

// By masks of all: GCC 12 warns of what the others leave undefined.
#ifdef __AVX512F__
constexpr __mmask16 kAllWidened = 0xffff;
static_assert(kWidened == 16);
#endif

inline void widen_some(const Float16* from, float* to) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  _mm512_storeu_ps(to, _mm512_maskz_cvtph_ps(kAllWidened, halves));
#elif defined(__F16C__)
  const auto* const halves = reinterpret_cast<const __m128i*>(from);
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm_loadu_si128(halves + 1)));
#else
  for (int64_t i = 0; i < kWidened; ++i) to[i] = widen_one(from[i]);
#endif
}

inline void widen_some(const Bfloat16* from, float* to) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m512i words = _mm512_maskz_cvtepu16_epi32(kAllWidened, halves);
  _mm512_storeu_si512(to, _mm512_maskz_slli_epi32(kAllWidened, words, 16));
#elif defined(__AVX2__)
  const auto* const halves = reinterpret_cast<const __m128i*>(from);
  const auto widened = [](__m128i words) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
  };
  _mm256_storeu_ps(to, widened(_mm_loadu_si128(halves)));
  _mm256_storeu_ps(to + 8, widened(_mm_loadu_si128(halves + 1)));
#else
  for (int64_t i = 0; i < kWidened; ++i) to[i] = widen_one(from[i]);
#endif
}

inline void shorten_some(const float* from, Float16* to) {
#if defined(__AVX512F__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m256i halves = _mm512_maskz_cvtps_ph(kAllWidened, _mm512_loadu_ps(from), kNearest);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
#elif defined(__F16C__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* const halves = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(_mm256_loadu_ps(from), kNearest));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(_mm256_loadu_ps(from + 8), kNearest));
#else
  for (int64_t i = 0; i < kWidened; ++i) shorten_one(from[i], to + i);
#endif
}

inline void shorten_some(const float* from, Bfloat16* to) {
#if defined(__AVX512F__)
  const __m512 numbers = _mm512_loadu_ps(from);  // rounded as by float_to_bfloat16()
  const __m512i bits = _mm512_castps_si512(numbers);
  const __m512i upper = _mm512_maskz_srli_epi32(kAllWidened, bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(sum, is_nan, bits, _mm512_set1_epi32(0x400000));
  const __m512i words = _mm512_maskz_srli_epi32(kAllWidened, rounded, 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kAllWidened, words));
#elif defined(__AVX2__)
  const auto rounded = [](__m256 numbers) {  // as float_to_bfloat16()
    const __m256i bits = _mm256_castps_si256(numbers);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)));
    const __m256 is_nan = _mm256_cmp_ps(numbers, numbers, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(sum), quiet, is_nan)), 16);
  };
  const __m256i words = _mm256_packus_epi32(rounded(_mm256_loadu_ps(from)), rounded(_mm256_loadu_ps(from + 8)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(words, 0xd8));
#else
  for (int64_t i = 0; i < kWidened; ++i) shorten_one(from[i], to + i);
#endif
}

// So many numbers, which kWidened divides.
template <int64_t count, class Stored>
inline void widen(const Stored* from, float* to) {
  static_assert(count % kWidened == 0);
#pragma GCC unroll 4
  for (int64_t i = 0; i < count; i += kWidened) widen_some(from + i, to + i);
}
template <int64_t count, class Stored>
inline void shorten(const float* from, Stored* to) {
  static_assert(count % kWidened == 0);
#pragma GCC unroll 4
  for (int64_t i = 0; i < count; i += kWidened) shorten_some(from + i, to + i);
}

// Any number of them.
template <class Stored>
inline void widen_all(int64_t count, const Stored* from, float* to) {
  constexpr int64_t kTogether = 4 * kWidened;
  for (; count >= kTogether; count -= kTogether, from += kTogether, to += kTogether) widen<kTogether>(from, to);
  for (; count >= kWidened; count -= kWidened, from += kWidened, to += kWidened) widen_some(from, to);
  for (int64_t i = 0; i < count; ++i) to[i] = widen_one(from[i]);
}
template <class Stored>
inline void shorten_all(int64_t count, const float* from, Stored* to) {
  constexpr int64_t kTogether = 4 * kWidened;
  for (; count >= kTogether; count -= kTogether, from += kTogether, to += kTogether) shorten<kTogether>(from, to);
  for (; count >= kWidened; count -= kWidened, from += kWidened, to += kWidened) shorten_some(from, to);
  for (int64_t i = 0; i < count; ++i) shorten_one(from[i], to + i);
}

}  // namespace
}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
