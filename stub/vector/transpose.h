// Numbers in vector registers: where they come from and go to, and squares of them.
#pragma once

#include <cstdint>

#include "stub/vector/vectorize.h"

namespace unihal::stub {

#if defined(__clang__)
#define UNIHAL_SHUFFLE(a, b, places, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNIHAL_SHUFFLE(a, b, places, ...) __builtin_shuffle(a, b, places{__VA_ARGS__})
#endif

// Vectors as the compiler has them: on narrower machines they are several registers.
template <typename T, int bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes), may_alias));
  // One anywhere in memory: memcpy() would have it there before it is in a register.
  typedef T loose __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
};

typedef int8_t NarrowPlaces16 __attribute__((vector_size(16)));
typedef int16_t NarrowPlaces8 __attribute__((vector_size(16)));
typedef int32_t Places8 __attribute__((vector_size(32)));
typedef int64_t Places4 __attribute__((vector_size(32)));
typedef int32_t Places16 __attribute__((vector_size(64)));
typedef int64_t WidePlaces8 __attribute__((vector_size(64)));

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

// A vector from two halves.
template <class Half, class Vector>
UNIHAL_INLINE void join_halves(const Half& first, const Half& second, Vector& v) {
  constexpr int kHalf = sizeof(Half) / sizeof(v[0]);
#if defined(__clang__) || __GNUC__ >= 12
  if constexpr (kHalf == 8) {
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  } else if constexpr (kHalf == 4) {
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    static_assert(kHalf == 2);
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3);
  }
#else
#pragma GCC unroll 8
  for (int i = 0; i < kHalf; ++i) {
    v[i] = first[i];
    v[i + kHalf] = second[i];
  }
#endif
}

// A vector from two places, a half from each.
template <class Vector, typename T>
UNIHAL_INLINE void load_halves(const T* low, const T* high, Vector& v) {
  using Half = VectorOf<T, sizeof(Vector) / 2>;
  using Loose = typename Half::loose;
  const typename Half::type first = *reinterpret_cast<const Loose*>(low);
  const typename Half::type second = *reinterpret_cast<const Loose*>(high);
  join_halves(first, second, v);
}

// As many vectors of 16 bytes as each has elements, of one or two bytes, transposed: once for each bit of an element's
// place, elements of the first half of the vectors alternate with those of the second one.
template <class Vector>
UNIHAL_INLINE void transpose_narrow(Vector* v) {
  static_assert(sizeof(Vector) == 16);
  constexpr int kCount = 16 / static_cast<int>(sizeof(v[0][0]));
#pragma GCC unroll 4
  for (int bits = 1; bits < kCount; bits *= 2) {
    Vector w[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      const Vector &low = v[i], &high = v[i + kCount / 2];
      if constexpr (kCount == 16) {
        w[2 * i] = UNIHAL_SHUFFLE(low, high, NarrowPlaces16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        w[2 * i + 1] =
            UNIHAL_SHUFFLE(low, high, NarrowPlaces16, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      } else {
        static_assert(kCount == 8);
        w[2 * i] = UNIHAL_SHUFFLE(low, high, NarrowPlaces8, 0, 8, 1, 9, 2, 10, 3, 11);
        w[2 * i + 1] = UNIHAL_SHUFFLE(low, high, NarrowPlaces8, 4, 12, 5, 13, 6, 14, 7, 15);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = w[i];
  }
}

// A square of elements of one to eight bytes, as large as a vector of 32 bytes (of 16, where they have one or two) has
// elements, transposed: rows of `from` and of `to` are so many elements apart.
template <typename T>
UNIHAL_INLINE void transpose_square(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int kBytes = sizeof(T) <= 2 ? 16 : 32, kCount = kBytes / static_cast<int>(sizeof(T));
  using Vector = typename VectorOf<T, kBytes>::type;
  using Loose = typename VectorOf<T, kBytes>::loose;
  Vector v[kCount];
  if constexpr (kBytes == 16) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = *reinterpret_cast<const Loose*>(from + i * from_step);
    transpose_narrow(v);
  } else {
    // The halves of columns are where the last step of transpose() would bring them.
    constexpr int kHalf = kCount / 2;
#pragma GCC unroll 4
    for (int i = 0; i < kHalf; ++i) {
      load_halves(from + i * from_step, from + (i + kHalf) * from_step, v[i]);
      load_halves(from + i * from_step + kHalf, from + (i + kHalf) * from_step + kHalf, v[i + kHalf]);
    }
    transpose_halves(v);
    transpose_halves(v + kHalf);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) *reinterpret_cast<Loose*>(to + i * to_step) = v[i];
}

// Pairs of numbers from the first and the second of each, vectors of 64 bytes; the other way they are in two vectors.
template <class Vector>
UNIHAL_INLINE void join_pairs(const Vector& first, const Vector& second, Vector& low, Vector& high) {
  static_assert(sizeof(Vector) == 64);
  if constexpr (sizeof(first[0]) == 4) {
    low = UNIHAL_SHUFFLE(first, second, Places16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high = UNIHAL_SHUFFLE(first, second, Places16, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else {
    low = UNIHAL_SHUFFLE(first, second, WidePlaces8, 0, 8, 1, 9, 2, 10, 3, 11);
    high = UNIHAL_SHUFFLE(first, second, WidePlaces8, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}

template <class Vector>
UNIHAL_INLINE void part_pairs(const Vector& low, const Vector& high, Vector& first, Vector& second) {
  static_assert(sizeof(Vector) == 64);
  if constexpr (sizeof(low[0]) == 4) {
    first = UNIHAL_SHUFFLE(low, high, Places16, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    second = UNIHAL_SHUFFLE(low, high, Places16, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  } else {
    first = UNIHAL_SHUFFLE(low, high, WidePlaces8, 0, 2, 4, 6, 8, 10, 12, 14);
    second = UNIHAL_SHUFFLE(low, high, WidePlaces8, 1, 3, 5, 7, 9, 11, 13, 15);
  }
}

}  // namespace unihal::stub
