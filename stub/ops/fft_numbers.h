// Complex numbers as they lie in memory, the parts of each side by side, in vectors of 64 bytes: arithmetic, and
// squares that are transposed. Packed Fourier lines consist of them.
#pragma once

#include <cstdint>
#include <cstring>

#include "stub/ops/fft_butterflies.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub::fft_numbers {

template <typename T>
using Wide = typename VectorOf<T, 64>::type;
template <typename T>
using LooseWide = typename VectorOf<T, 64>::loose;
// The elements of a vector, and its numbers.
template <typename T>
inline constexpr int kElements = 64 / static_cast<int>(sizeof(T));
template <typename T>
inline constexpr int kNumbers = kElements<T> / 2;

// One number in all places.
UNIHAL_INLINE void fill_numbers(float re, float im, Wide<float>& v) {
  const float parts[2] = {re, im};
  double both;
  std::memcpy(&both, parts, sizeof both);
  const Wide<double> all = {both, both, both, both, both, both, both, both};
  v = reinterpret_cast<const Wide<float>&>(all);
}

UNIHAL_INLINE void fill_numbers(double re, double im, Wide<double>& v) {
  v = Wide<double>{re, im, re, im, re, im, re, im};
}

// For inverse transforms the roots of all arithmetic are conjugated.
template <typename T, bool inverse>
struct PackedNumbers {
  using Element = T;
  static constexpr bool kFillRegisters = false;

  Wide<T> v;

  UNIHAL_INLINE PackedNumbers operator+(const PackedNumbers& b) const { return {v + b.v}; }
  UNIHAL_INLINE PackedNumbers operator-(const PackedNumbers& b) const { return {v - b.v}; }
  UNIHAL_INLINE PackedNumbers operator*(T factor) const { return {v * factor}; }
  // With both parts in each other's place.
  UNIHAL_INLINE PackedNumbers exchanged() const {
    if constexpr (sizeof(T) == 4) {
      return {UNIHAL_SHUFFLE(v, v, Places16, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)};
    } else {
      return {UNIHAL_SHUFFLE(v, v, WidePlaces8, 1, 0, 3, 2, 5, 4, 7, 6)};
    }
  }
  UNIHAL_INLINE PackedNumbers times_minus_i(T factor = 1) const {
    Wide<T> factors;
    fill_numbers(inverse ? -factor : factor, inverse ? factor : -factor, factors);
    return {exchanged().v * factors};
  }
  UNIHAL_INLINE PackedNumbers times_eighth() const { return (*this + times_minus_i()) * kHalfRoot<T>; }
  UNIHAL_INLINE PackedNumbers times_three_eighths() const { return (times_minus_i() - *this) * kHalfRoot<T>; }
  UNIHAL_INLINE PackedNumbers times(T re, T im) const { return {v * re + times_minus_i(-im).v}; }
};

template <typename T, bool inverse>
UNIHAL_INLINE void load(const T* from, PackedNumbers<T, inverse>& numbers) {
  numbers.v = *reinterpret_cast<const LooseWide<T>*>(from);
}

template <typename T, bool inverse>
UNIHAL_INLINE void store(T* to, const PackedNumbers<T, inverse>& numbers) {
  *reinterpret_cast<LooseWide<T>*>(to) = numbers.v;
}

// A root of a forward transform: the imaginary part with both signs, as exchanged parts are multiplied by it.
template <typename T>
struct Root {
  T re, im[2];
};

// A root of each number of a vector: the real parts twice each.
template <typename T>
struct alignas(64) VectorRoots {
  T re[kElements<T>], im[kElements<T>];
};

template <typename T, bool inverse>
UNIHAL_INLINE void multiply(const Root<T>& root, PackedNumbers<T, inverse>& numbers) {
  Wide<T> im;
  fill_numbers(root.im[0], root.im[1], im);
  const Wide<T> turned = numbers.exchanged().v * im;
  numbers.v = inverse ? numbers.v * root.re - turned : numbers.v * root.re + turned;
}

template <typename T, bool inverse>
UNIHAL_INLINE void multiply(const VectorRoots<T>& roots, PackedNumbers<T, inverse>& numbers) {
  const Wide<T> straight = numbers.v * *reinterpret_cast<const Wide<T>*>(roots.re);
  const Wide<T> turned = numbers.exchanged().v * *reinterpret_cast<const Wide<T>*>(roots.im);
  numbers.v = inverse ? straight - turned : straight + turned;
}

// As many vectors as each has numbers, transposed.
template <typename T, bool inverse>
UNIHAL_INLINE void transpose_numbers(PackedNumbers<T, inverse>* rows) {
  using Places = Wide<double>;  // of which a number of float32 is one
  constexpr int kCount = kNumbers<T>;
  Places v[kCount], w[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) v[i] = reinterpret_cast<const Places&>(rows[i].v);
  // The quarters of two vectors that have even places, or odd ones.
  const auto evens = [](const Places& a, const Places& b, Places& to)
                         UNIHAL_INLINE_LAMBDA { to = UNIHAL_SHUFFLE(a, b, WidePlaces8, 0, 1, 4, 5, 8, 9, 12, 13); };
  const auto odds = [](const Places& a, const Places& b, Places& to)
                        UNIHAL_INLINE_LAMBDA { to = UNIHAL_SHUFFLE(a, b, WidePlaces8, 2, 3, 6, 7, 10, 11, 14, 15); };
  if constexpr (sizeof(T) == 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      w[i] = UNIHAL_SHUFFLE(v[2 * i], v[2 * i + 1], WidePlaces8, 0, 8, 2, 10, 4, 12, 6, 14);
      w[i + 4] = UNIHAL_SHUFFLE(v[2 * i], v[2 * i + 1], WidePlaces8, 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const Places* const pairs = w + 4 * odd;
      Places a, b, c, d;
      evens(pairs[0], pairs[1], a);
      evens(pairs[2], pairs[3], b);
      odds(pairs[0], pairs[1], c);
      odds(pairs[2], pairs[3], d);
      evens(a, b, v[odd]);
      odds(a, b, v[odd + 4]);
      evens(c, d, v[odd + 2]);
      odds(c, d, v[odd + 6]);
    }
  } else {
    evens(v[0], v[1], w[0]);
    evens(v[2], v[3], w[1]);
    odds(v[0], v[1], w[2]);
    odds(v[2], v[3], w[3]);
    evens(w[0], w[1], v[0]);
    odds(w[0], w[1], v[2]);
    evens(w[2], w[3], v[1]);
    odds(w[2], w[3], v[3]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) rows[i].v = reinterpret_cast<const Wide<T>&>(v[i]);
}

// A vector from so many places, a part from each.
template <int places, typename T>
UNIHAL_INLINE void load_parts(const T* const* from, int64_t at, Wide<T>& v) {
  if constexpr (places == 2) {
    load_halves(from[0] + at, from[1] + at, v);
  } else {
    static_assert(places == 4);
    using Half = typename VectorOf<T, 32>::type;
    Half low, high;
    load_halves(from[0] + at, from[1] + at, low);
    load_halves(from[2] + at, from[3] + at, high);
    join_halves(low, high, v);
  }
}

}  // namespace unihal::stub::fft_numbers
