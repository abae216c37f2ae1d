// Transforms of a few complex numbers in vector registers, one of each lane, which passes of longer transforms consist
// of.
#pragma once

#include <cstdint>

#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {

template <typename T, int bytes>
inline constexpr int64_t kLanesOf = bytes / static_cast<int64_t>(sizeof(T));

// A complex number of each lane.
template <typename T, int bytes>
struct Number {
  typename VectorOf<T, bytes>::type re, im;

  UNIHAL_INLINE Number operator+(const Number& b) const { return {re + b.re, im + b.im}; }
  UNIHAL_INLINE Number operator-(const Number& b) const { return {re - b.re, im - b.im}; }
  UNIHAL_INLINE Number times_minus_i() const { return {im, -re}; }
};

// In memory the real parts of all lanes lie before the imaginary ones.
template <typename T, int bytes>
UNIHAL_INLINE void load(const T* row, Number<T, bytes>& number) {
  number.re = *reinterpret_cast<const typename VectorOf<T, bytes>::type*>(row);
  number.im = *reinterpret_cast<const typename VectorOf<T, bytes>::type*>(row + kLanesOf<T, bytes>);
}

template <typename T, int bytes>
UNIHAL_INLINE void store(T* row, const Number<T, bytes>& number) {
  *reinterpret_cast<typename VectorOf<T, bytes>::type*>(row) = number.re;
  *reinterpret_cast<typename VectorOf<T, bytes>::type*>(row + kLanesOf<T, bytes>) = number.im;
}

// By one number, or by one of each lane.
template <typename T, int bytes, class Factor>
UNIHAL_INLINE void multiply(Number<T, bytes>& number, const Factor& re, const Factor& im) {
  const typename VectorOf<T, bytes>::type product = number.re * re - number.im * im;
  number.im = number.re * im + number.im * re;
  number.re = product;
}

// -- butterflies: transforms of Radix numbers in registers ------------------------------------------------------------

template <typename T, int bytes>
UNIHAL_INLINE void butterfly_4(Number<T, bytes>& a, Number<T, bytes>& b, Number<T, bytes>& c, Number<T, bytes>& d) {
  const Number<T, bytes> sum = a + c, difference = a - c, other = b + d, turned = (b - d).times_minus_i();
  a = sum + other;
  b = difference + turned;
  c = sum - other;
  d = difference - turned;
}

template <int Radix, typename T, int bytes>
UNIHAL_INLINE void butterfly(Number<T, bytes>* a) {
  if constexpr (Radix == 2) {
    const Number<T, bytes> first = a[0];
    a[0] = first + a[1];
    a[1] = first - a[1];
  } else if constexpr (Radix == 3) {
    constexpr T kSine = static_cast<T>(0.866025403784438646763723170752936183L);
    const Number<T, bytes> sum = a[1] + a[2], difference = a[1] - a[2];
    const Number<T, bytes> middle = {a[0].re - sum.re * T(0.5), a[0].im - sum.im * T(0.5)};
    const Number<T, bytes> turned = {difference.im * kSine, -(difference.re * kSine)};
    a[0] = a[0] + sum;
    a[1] = middle + turned;
    a[2] = middle - turned;
  } else if constexpr (Radix == 5) {
    constexpr T kCosine1 = static_cast<T>(0.309016994374947424102293417182819059L);
    constexpr T kCosine2 = static_cast<T>(-0.809016994374947424102293417182819059L);
    constexpr T kSine1 = static_cast<T>(0.951056516295153572116439333379382143L);
    constexpr T kSine2 = static_cast<T>(0.587785252292473129168705954639072769L);
    const Number<T, bytes> sum1 = a[1] + a[4], difference1 = a[1] - a[4], sum2 = a[2] + a[3], difference2 = a[2] - a[3];
    const Number<T, bytes> middle1 = {a[0].re + sum1.re * kCosine1 + sum2.re * kCosine2,
                                      a[0].im + sum1.im * kCosine1 + sum2.im * kCosine2};
    const Number<T, bytes> middle2 = {a[0].re + sum1.re * kCosine2 + sum2.re * kCosine1,
                                      a[0].im + sum1.im * kCosine2 + sum2.im * kCosine1};
    const Number<T, bytes> turned1 = {difference1.im * kSine1 + difference2.im * kSine2,
                                      -(difference1.re * kSine1 + difference2.re * kSine2)};
    const Number<T, bytes> turned2 = {difference1.im * kSine2 - difference2.im * kSine1,
                                      -(difference1.re * kSine2 - difference2.re * kSine1)};
    a[0] = a[0] + sum1 + sum2;
    a[1] = middle1 + turned1;
    a[2] = middle2 + turned2;
    a[3] = middle2 - turned2;
    a[4] = middle1 - turned1;
  } else {
    static_assert(Radix == 4);
    butterfly_4(a[0], a[1], a[2], a[3]);
  }
}

// Where the first half of a large butterfly leaves its numbers: more than the registers hold are better stored once,
// and here, than wherever the compiler finds that it has none left.
template <int Numbers, typename T, int bytes>
struct Halfway {
  alignas(bytes) T rows[Numbers * 2 * kLanesOf<T, bytes>];

  UNIHAL_INLINE T* of(int number) { return rows + number * 2 * kLanesOf<T, bytes>; }

  // What was put here is in memory, and what is read from now on is read from there.
  UNIHAL_INLINE void settle() { asm volatile("" : : "r"(rows) : "memory"); }
};

// The numbers that read(j, number) gives, transformed, to write(j, number).
template <int Radix, typename T, int bytes, class Read, class Write>
UNIHAL_INLINE void transform_numbers(const Read& read, const Write& write) {
  constexpr T kRoot = static_cast<T>(0.707106781186547524400844362104849039L);
  if constexpr (Radix == 8) {
    constexpr bool kIsStored = bytes < 64;
    Halfway<4, T, bytes> even;
    Number<T, bytes> first[4], a[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) read(2 * j, first[j]);
    butterfly<4>(first);
    if constexpr (kIsStored) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) store(even.of(j), first[j]);
      even.settle();
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) read(2 * j + 1, a[j]);
    butterfly<4>(a);
    a[1] = {(a[1].re + a[1].im) * kRoot, (a[1].im - a[1].re) * kRoot};
    a[2] = a[2].times_minus_i();
    a[3] = {(a[3].im - a[3].re) * kRoot, -((a[3].re + a[3].im) * kRoot)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      if constexpr (kIsStored) load(even.of(j), first[j]);
      write(j, first[j] + a[j]);
      write(j + 4, first[j] - a[j]);
    }
  } else if constexpr (Radix == 16) {
    constexpr T kCosine = static_cast<T>(0.923879532511286756128183189396788287L);
    constexpr T kSine = static_cast<T>(0.382683432365089771728459984030398866L);
    // The last columns stay where there are registers for them.
    constexpr int kStored = bytes == 64 ? 1 : 4;
    Halfway<16, T, bytes> columns;
    Number<T, bytes> kept[4][4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Number<T, bytes>* const a = kept[k];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) read(k + 4 * j, a[j]);
      butterfly<4>(a);
      if (k == 1) {
        multiply(a[1], kCosine, -kSine);
        a[2] = {(a[2].re + a[2].im) * kRoot, (a[2].im - a[2].re) * kRoot};
        multiply(a[3], kSine, -kCosine);
      } else if (k == 2) {
        a[1] = {(a[1].re + a[1].im) * kRoot, (a[1].im - a[1].re) * kRoot};
        a[2] = a[2].times_minus_i();
        a[3] = {(a[3].im - a[3].re) * kRoot, -((a[3].re + a[3].im) * kRoot)};
      } else if (k == 3) {
        multiply(a[1], kSine, -kCosine);
        a[2] = {(a[2].im - a[2].re) * kRoot, -((a[2].re + a[2].im) * kRoot)};
        multiply(a[3], -kCosine, kSine);
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        if (k < kStored) store(columns.of(4 * j + k), a[j]);
      }
      if (k == kStored - 1) columns.settle();
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Number<T, bytes> a[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        if (j < kStored) {
          load(columns.of(4 * k + j), a[j]);
        } else {
          a[j] = kept[j][k];
        }
      }
      butterfly<4>(a);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) write(k + 4 * j, a[j]);
    }
  } else {
    Number<T, bytes> a[Radix];
#pragma GCC unroll 5
    for (int j = 0; j < Radix; ++j) read(j, a[j]);
    butterfly<Radix>(a);
#pragma GCC unroll 5
    for (int j = 0; j < Radix; ++j) write(j, a[j]);
  }
}

}  // namespace unihal::stub
