// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") and the distributions made from its
// words. Compiled once per instruction set. Words are used, and turned into numbers, as TensorFlow does.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "csrc/backends/common/float_bits.h"
#include "stub/vector/compute.h"
#include "stub/vector/vector_math.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

constexpr int64_t kLanes = 64;   // blocks computed side by side, at most
constexpr int64_t kVector = 16;  // their number is rounded up to this, so that vectors are full
constexpr int kRounds = 10;

// Vectors keep words in registers from the first round to the last: a loop over lanes for each round goes through
// memory, and parts and joins halves of vectors. Words lie in the lower halves of 64 bits, which is what products are
// made of; the upper ones are anything.

#if defined(__AVX512F__)

constexpr __mmask8 kAllLanes = 0xff;  // GCC 12 warns without a mask

// Of 8 lanes.
inline void philox_round(__m512i key0, __m512i key1, __m512i (&c)[4]) {
  constexpr int kXor = 0x96;  // of three
  const __m512i product0 = _mm512_maskz_mul_epu32(kAllLanes, c[0], _mm512_set1_epi64(0xD2511F53));
  const __m512i product1 = _mm512_maskz_mul_epu32(kAllLanes, c[2], _mm512_set1_epi64(0xCD9E8D57));
  c[0] = _mm512_ternarylogic_epi64(c[1], key0, _mm512_maskz_srli_epi64(kAllLanes, product1, 32), kXor);
  c[2] = _mm512_ternarylogic_epi64(c[3], key1, _mm512_maskz_srli_epi64(kAllLanes, product0, 32), kXor);
  c[1] = product1;
  c[3] = product0;
}

void philox_rounds(uint64_t key, int64_t lanes, uint32_t* c0, uint32_t* c1, uint32_t* c2, uint32_t* c3) {
  uint32_t* const words[] = {c0, c1, c2, c3};
  for (int64_t i = 0; i < lanes; i += 8) {
    __m512i c[4];
    for (int k = 0; k < 4; ++k) {
      c[k] = _mm512_maskz_cvtepu32_epi64(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words[k] + i)));
    }
    __m512i key0 = _mm512_set1_epi64(static_cast<int64_t>(key));
    __m512i key1 = _mm512_set1_epi64(static_cast<int64_t>(key >> 32));
    for (int round = 0; round < kRounds; ++round) {
      philox_round(key0, key1, c);
      key0 = _mm512_add_epi64(key0, _mm512_set1_epi64(0x9E3779B9));
      key1 = _mm512_add_epi64(key1, _mm512_set1_epi64(0xBB67AE85));
    }
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words[k] + i), _mm512_maskz_cvtepi64_epi32(kAllLanes, c[k]));
    }
  }
}

#elif defined(__AVX2__)

// Of 4 lanes.
inline void philox_round(__m256i key0, __m256i key1, __m256i (&c)[4]) {
  const __m256i product0 = _mm256_mul_epu32(c[0], _mm256_set1_epi64x(0xD2511F53));
  const __m256i product1 = _mm256_mul_epu32(c[2], _mm256_set1_epi64x(0xCD9E8D57));
  c[0] = _mm256_xor_si256(_mm256_xor_si256(c[1], key0), _mm256_srli_epi64(product1, 32));
  c[2] = _mm256_xor_si256(_mm256_xor_si256(c[3], key1), _mm256_srli_epi64(product0, 32));
  c[1] = product1;
  c[3] = product0;
}

void philox_rounds(uint64_t key, int64_t lanes, uint32_t* c0, uint32_t* c1, uint32_t* c2, uint32_t* c3) {
  uint32_t* const words[] = {c0, c1, c2, c3};
  for (int64_t i = 0; i < lanes; i += 8) {
    __m256i first[4], second[4];
    for (int k = 0; k < 4; ++k) {
      const auto* from = reinterpret_cast<const __m128i*>(words[k] + i);
      first[k] = _mm256_cvtepu32_epi64(_mm_loadu_si128(from));
      second[k] = _mm256_cvtepu32_epi64(_mm_loadu_si128(from + 1));
    }
    __m256i key0 = _mm256_set1_epi64x(static_cast<int64_t>(key));
    __m256i key1 = _mm256_set1_epi64x(static_cast<int64_t>(key >> 32));
    for (int round = 0; round < kRounds; ++round) {
      philox_round(key0, key1, first);
      philox_round(key0, key1, second);
      key0 = _mm256_add_epi64(key0, _mm256_set1_epi64x(0x9E3779B9));
      key1 = _mm256_add_epi64(key1, _mm256_set1_epi64x(0xBB67AE85));
    }
    for (int k = 0; k < 4; ++k) {
      const __m256 joined = _mm256_shuffle_ps(_mm256_castsi256_ps(first[k]), _mm256_castsi256_ps(second[k]), 0x88);
      const __m256i ordered = _mm256_permute4x64_epi64(_mm256_castps_si256(joined), 0xD8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words[k] + i), ordered);
    }
  }
}

#else

void philox_rounds(uint64_t key, int64_t lanes, uint32_t* c0, uint32_t* c1, uint32_t* c2, uint32_t* c3) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC ivdep
    for (int64_t i = 0; i < lanes; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0[i];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<uint32_t>(product1);
      c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

#endif

void philox(uint64_t key, const uint64_t* counter, int64_t blocks, uint32_t* words) {
  for (int64_t first = 0; first < blocks; first += kLanes) {
    const int64_t count = blocks - first < kLanes ? blocks - first : kLanes;
    // Not a constant: GCC would unroll the loops over lanes whole, and then not vectorize them.
    const int64_t lanes = (count + kVector - 1) / kVector * kVector;
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int64_t i = 0; i < lanes; ++i) {
      const uint64_t low = counter[0] + static_cast<uint64_t>(first + i);
      const uint64_t high = counter[1] + (low < counter[0] ? 1 : 0);
      c0[i] = static_cast<uint32_t>(low);
      c1[i] = static_cast<uint32_t>(low >> 32);
      c2[i] = static_cast<uint32_t>(high);
      c3[i] = static_cast<uint32_t>(high >> 32);
    }
    philox_rounds(key, lanes, c0, c1, c2, c3);
    for (int64_t i = 0; i < count; ++i) {
      words[4 * (first + i) + 0] = c0[i];
      words[4 * (first + i) + 1] = c1[i];
      words[4 * (first + i) + 2] = c2[i];
      words[4 * (first + i) + 3] = c3[i];
    }
  }
}

// The low 23 bits become the fraction of a number in [1, 2).
inline float unit_float(uint32_t word) { return float_of((word & 0x7fffff) | 0x3f800000) - 1.0f; }

inline double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{0x3ff} << 52) | (static_cast<uint64_t>(high & 0xfffff) << 32) | low;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value - 1.0;
}

void uniform_float(int64_t count, const uint32_t* words, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = unit_float(words[i]);
}

void uniform_double(int64_t count, const uint32_t* words, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = unit_double(words[2 * i], words[2 * i + 1]);
}

constexpr double kTwoPi = 2 * 3.14159265358979323846;

// Box and Muller's transform of two uniform numbers into two normal ones. 1e-7 keeps the logarithm finite. The angle
// is rounded to float once, as TensorFlow does: one step of it would be seen in the result.
void normal_float(int64_t count, const uint32_t* words, float* out) {
  for (int64_t i = 0; i < count; i += 2) {
    const float first = unit_float(words[i]);
    const float radius = ::sqrtf(-2.0f * ::logf(first < 1.0e-7f ? 1.0e-7f : first));
    const float angle = static_cast<float>(kTwoPi * unit_float(words[i + 1]));
    out[i] = ::sinf(angle) * radius;
    out[i + 1] = ::cosf(angle) * radius;
  }
}

void normal_double(int64_t count, const uint32_t* words, double* out) {
  for (int64_t i = 0; i < count; i += 2) {
    const double first = unit_double(words[2 * i], words[2 * i + 1]);
    const double radius = ::sqrt(-2.0 * ::log(first < 1.0e-7 ? 1.0e-7 : first));
    const double angle = kTwoPi * unit_double(words[2 * i + 2], words[2 * i + 3]);
    out[i] = ::sin(angle) * radius;
    out[i + 1] = ::cos(angle) * radius;
  }
}

}  // namespace

extern const RandomLoops kRandomLoops;
const RandomLoops kRandomLoops = {philox, philox_rounds, uniform_float, uniform_double, normal_float, normal_double};

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
