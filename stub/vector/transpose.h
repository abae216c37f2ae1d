// Squares of numbers in vector registers.
#pragma once

#include <cstdint>

#include "stub/vector/vectorize.h"

namespace unihal::stub {

#if defined(__clang__)
#define UNIHAL_SHUFFLE(a, b, places, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNIHAL_SHUFFLE(a, b, places, ...) __builtin_shuffle(a, b, places{__VA_ARGS__})
#endif

typedef int32_t Places8 __attribute__((vector_size(32)));
typedef int64_t Places4 __attribute__((vector_size(32)));

// As many vectors of 32 bytes as each has elements, of four or eight bytes, transposed. Only the last step moves
// elements between the halves of a vector, which costs most.
template <class Vector>
UNIHAL_INLINE void transpose(Vector* v) {
  static_assert(sizeof(Vector) == 32);
  if constexpr (sizeof(v[0][0]) == 4) {
    Vector pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places8, 0, 8, 1, 9, 4, 12, 5, 13);
      pairs[i + 1] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places8, 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const Vector &low = pairs[i + k], &high = pairs[i + k + 2];
        fours[i + 2 * k] = UNIHAL_SHUFFLE(low, high, Places8, 0, 1, 8, 9, 4, 5, 12, 13);
        fours[i + 2 * k + 1] = UNIHAL_SHUFFLE(low, high, Places8, 2, 3, 10, 11, 6, 7, 14, 15);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = UNIHAL_SHUFFLE(fours[i], fours[i + 4], Places8, 0, 1, 2, 3, 8, 9, 10, 11);
      v[i + 4] = UNIHAL_SHUFFLE(fours[i], fours[i + 4], Places8, 4, 5, 6, 7, 12, 13, 14, 15);
    }
  } else {
    static_assert(sizeof(v[0][0]) == 8);
    Vector pairs[4];
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places4, 0, 4, 2, 6);
      pairs[i + 1] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places4, 1, 5, 3, 7);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      v[i] = UNIHAL_SHUFFLE(pairs[i], pairs[i + 2], Places4, 0, 1, 4, 5);
      v[i + 2] = UNIHAL_SHUFFLE(pairs[i], pairs[i + 2], Places4, 2, 3, 6, 7);
    }
  }
}

}  // namespace unihal::stub
