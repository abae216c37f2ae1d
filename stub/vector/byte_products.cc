// Sums of products of numbers of one byte, two at a time. Compiled once per instruction set.

#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "stub/vector/compute.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {

ByteTiles byte_tiles();

#if defined(__AVX512F__)

static constexpr int64_t kRows = 12, kColumns = 32;
static_assert(kRows * kColumns <= kByteTileElements);

// Twice as many products as float has in a vector, and no sum is rounded.
__attribute__((target("avx512vnni"))) static void multiply_byte_tile(int64_t pairs, const int16_t* a, const int16_t* b,
                                                                     int32_t* tile) {
  __m512i sums[kRows][2] = {};
  for (int64_t p = 0; p < pairs; ++p) {
    const int16_t* const own = b + p * 2 * kColumns;
    const __m512i left = _mm512_loadu_si512(own), right = _mm512_loadu_si512(own + kColumns);
#pragma GCC unroll 12
    for (int64_t i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, a + 2 * (p * kRows + i), sizeof pair);
      const __m512i factors = _mm512_set1_epi32(pair);
      sums[i][0] = _mm512_dpwssd_epi32(sums[i][0], factors, left);
      sums[i][1] = _mm512_dpwssd_epi32(sums[i][1], factors, right);
    }
  }
#pragma GCC unroll 12
  for (int64_t i = 0; i < kRows; ++i) {  // not by memcpy(), which would have the sums in memory from the start
    _mm512_storeu_si512(tile + i * kColumns, sums[i][0]);
    _mm512_storeu_si512(tile + i * kColumns + kColumns / 2, sums[i][1]);
  }
}

// Without an instruction that multiplies pairs and adds them up, float32 is as fast.
ByteTiles byte_tiles() {
  return __builtin_cpu_supports("avx512vnni") ? ByteTiles{multiply_byte_tile, kRows, kColumns} : ByteTiles{};
}

#elif defined(__AVX2__)

static constexpr int64_t kRows = 6, kColumns = 16;
static_assert(kRows * kColumns <= kByteTileElements);

// Twice as many products as float has in a vector, and no sum is rounded.
static void multiply_byte_tile(int64_t pairs, const int16_t* a, const int16_t* b, int32_t* tile) {
  __m256i sums[kRows][2] = {};
  for (int64_t p = 0; p < pairs; ++p) {
    const auto* own = reinterpret_cast<const __m256i*>(b + p * 2 * kColumns);
    const __m256i left = _mm256_loadu_si256(own), right = _mm256_loadu_si256(own + 1);
#pragma GCC unroll 6
    for (int64_t i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, a + 2 * (p * kRows + i), sizeof pair);
      const __m256i factors = _mm256_set1_epi32(pair);
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(factors, left));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(factors, right));
    }
  }
#pragma GCC unroll 6
  for (int64_t i = 0; i < kRows; ++i) {  // not by memcpy(), which would have the sums in memory from the start
    auto* row = reinterpret_cast<__m256i*>(tile + i * kColumns);
    _mm256_storeu_si256(row, sums[i][0]);
    _mm256_storeu_si256(row + 1, sums[i][1]);
  }
}

ByteTiles byte_tiles() { return {multiply_byte_tile, kRows, kColumns}; }

#else

ByteTiles byte_tiles() { return {}; }  // float32 computes: tiles were measured with AVX2 and AVX-512 only

#endif

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
