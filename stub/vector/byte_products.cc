// Sums of products of numbers of one byte, two at a time. Compiled once per instruction set.

#include <cstring>

#if defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "stub/vector/compute.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {

extern const ByteTile kByteTile;

#if defined(__AVX2__) && !defined(__AVX512F__)

// Twice as many products as float has in a vector, and no sum is rounded.
static void multiply_byte_tile(int64_t pairs, const int16_t* a, const int16_t* b, int32_t* tile) {
  constexpr int64_t kRows = kByteTileRows;
  __m256i sums[kRows][2] = {};
  for (int64_t p = 0; p < pairs; ++p) {
    const auto* own = reinterpret_cast<const __m256i*>(b + p * 2 * kByteTileColumns);
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
    auto* row = reinterpret_cast<__m256i*>(tile + i * kByteTileColumns);
    _mm256_storeu_si256(row, sums[i][0]);
    _mm256_storeu_si256(row + 1, sums[i][1]);
  }
}

const ByteTile kByteTile = multiply_byte_tile;

#else

const ByteTile kByteTile = nullptr;  // float32 computes: a tile was measured with AVX2 only

#endif

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
