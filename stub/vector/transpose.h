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

// The first steps of transpose(), which move elements within the halves of vectors: of four vectors with elements of
// four bytes, or two of eight, both halves are squares that are transposed.
template <class Vector>
UNIHAL_INLINE void transpose_halves(Vector* v) {
  static_assert(sizeof(Vector) == 32);
  if constexpr (sizeof(v[0][0]) == 4) {
    Vector pairs[4];
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places8, 0, 8, 1, 9, 4, 12, 5, 13);
      pairs[i + 1] = UNIHAL_SHUFFLE(v[i], v[i + 1], Places8, 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const Vector &low = pairs[k], &high = pairs[k + 2];
      v[2 * k] = UNIHAL_SHUFFLE(low, high, Places8, 0, 1, 8, 9, 4, 5, 12, 13);
      v[2 * k + 1] = UNIHAL_SHUFFLE(low, high, Places8, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  } else {
    static_assert(sizeof(v[0][0]) == 8);
    const Vector first = v[0];
    v[0] = UNIHAL_SHUFFLE(first, v[1], Places4, 0, 4, 2, 6);
    v[1] = UNIHAL_SHUFFLE(first, v[1], Places4, 1, 5, 3, 7);
  }
}

// As many vectors of 32 bytes as each has elements, of four or eight bytes, transposed. Only the last step moves
// elements between the halves of a vector, which costs most: what comes from memory may have it done on the
// way (load_halves()).
template <class Vector>
UNIHAL_INLINE void transpose(Vector* v) {
  constexpr int kHalf = 16 / static_cast<int>(sizeof(v[0][0]));
  transpose_halves(v);
  transpose_halves(v + kHalf);
#pragma GCC unroll 4
  for (int i = 0; i < kHalf; ++i) {
    const Vector low = v[i], high = v[i + kHalf];
    if constexpr (kHalf == 4) {
      v[i] = UNIHAL_SHUFFLE(low, high, Places8, 0, 1, 2, 3, 8, 9, 10, 11);
      v[i + 4] = UNIHAL_SHUFFLE(low, high, Places8, 4, 5, 6, 7, 12, 13, 14, 15);
    } else {
      v[i] = UNIHAL_SHUFFLE(low, high, Places4, 0, 1, 4, 5);
      v[i + 2] = UNIHAL_SHUFFLE(low, high, Places4, 2, 3, 6, 7);
    }
  }
}

// Sixteen bytes anywhere in memory.
template <typename T>
struct HalfOf;
template <>
struct HalfOf<float> {
  typedef float type __attribute__((vector_size(16), aligned(4), may_alias));
};
template <>
struct HalfOf<double> {
  typedef double type __attribute__((vector_size(16), aligned(8), may_alias));
};

// A vector of 32 bytes from two places.
template <class Vector, typename T>
UNIHAL_INLINE void load_halves(const T* low, const T* high, Vector& v) {
  using Half = typename HalfOf<T>::type;
  const Half first = *reinterpret_cast<const Half*>(low), second = *reinterpret_cast<const Half*>(high);
#if defined(__clang__) || __GNUC__ >= 12
  if constexpr (sizeof(T) == 4) {
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3);
  }
#else
  if constexpr (sizeof(T) == 4) {
    v = Vector{first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]};
  } else {
    v = Vector{first[0], first[1], second[0], second[1]};
  }
#endif
}

}  // namespace unihal::stub
