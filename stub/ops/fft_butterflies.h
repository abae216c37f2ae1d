// Transforms of a few complex numbers in vector registers, which passes of longer transforms consist of. They are the
// same wherever the parts of numbers lie: apart, in two vectors (here), or side by side in one (fft_numbers.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {

template <typename T, int bytes>
inline constexpr int64_t kLanesOf = bytes / static_cast<int64_t>(sizeof(T));

template <typename T>
inline constexpr T kHalfRoot = static_cast<T>(0.707106781186547524400844362104849039L);

// A complex number of each lane, with what the butterflies need of a type of numbers.
template <typename T, int bytes>
struct Number {
  using Element = T;
  // Whether the registers are too few for a butterfly of 8 or 16.
  static constexpr bool kFillRegisters = bytes < 64;

  typename VectorOf<T, bytes>::type re, im;

  UNIHAL_INLINE Number operator+(const Number& b) const { return {re + b.re, im + b.im}; }
  UNIHAL_INLINE Number operator-(const Number& b) const { return {re - b.re, im - b.im}; }
  UNIHAL_INLINE Number operator*(T factor) const { return {re * factor, im * factor}; }
  UNIHAL_INLINE Number times_minus_i() const { return {im, -re}; }
  UNIHAL_INLINE Number times_minus_i(T factor) const { return {im * factor, -(re * factor)}; }
  // By powers 1 and 3 of exp(-pi i / 4).
  UNIHAL_INLINE Number times_eighth() const { return {(re + im) * kHalfRoot<T>, (im - re) * kHalfRoot<T>}; }
  UNIHAL_INLINE Number times_three_eighths() const { return {(im - re) * kHalfRoot<T>, -((re + im) * kHalfRoot<T>)}; }
  UNIHAL_INLINE Number times(T root_re, T root_im) const {
    return {re * root_re - im * root_im, re * root_im + im * root_re};
  }
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

template <int Radix, class Numbers>
UNIHAL_INLINE void butterfly(Numbers* a) {
  using T = typename Numbers::Element;
  if constexpr (Radix == 2) {
    const Numbers first = a[0];
    a[0] = first + a[1];
    a[1] = first - a[1];
  } else if constexpr (Radix == 3) {
    constexpr T kSine = static_cast<T>(0.866025403784438646763723170752936183L);
    const Numbers sum = a[1] + a[2], turned = (a[1] - a[2]).times_minus_i(kSine);
    const Numbers middle = a[0] - sum * T(0.5);
    a[0] = a[0] + sum;
    a[1] = middle + turned;
    a[2] = middle - turned;
  } else if constexpr (Radix == 5) {
    constexpr T kCosine1 = static_cast<T>(0.309016994374947424102293417182819059L);
    constexpr T kCosine2 = static_cast<T>(-0.809016994374947424102293417182819059L);
    constexpr T kSine1 = static_cast<T>(0.951056516295153572116439333379382143L);
    constexpr T kSine2 = static_cast<T>(0.587785252292473129168705954639072769L);
    const Numbers sum1 = a[1] + a[4], difference1 = a[1] - a[4], sum2 = a[2] + a[3], difference2 = a[2] - a[3];
    const Numbers middle1 = a[0] + sum1 * kCosine1 + sum2 * kCosine2;
    const Numbers middle2 = a[0] + sum1 * kCosine2 + sum2 * kCosine1;
    const Numbers turned1 = difference1.times_minus_i(kSine1) + difference2.times_minus_i(kSine2);
    const Numbers turned2 = difference1.times_minus_i(kSine2) - difference2.times_minus_i(kSine1);
    a[0] = a[0] + sum1 + sum2;
    a[1] = middle1 + turned1;
    a[2] = middle2 + turned2;
    a[3] = middle2 - turned2;
    a[4] = middle1 - turned1;
  } else {
    static_assert(Radix == 4);
    const Numbers sum = a[0] + a[2], difference = a[0] - a[2];
    const Numbers other = a[1] + a[3], turned = (a[1] - a[3]).times_minus_i();
    a[0] = sum + other;
    a[1] = difference + turned;
    a[2] = sum - other;
    a[3] = difference - turned;
  }
}

// Where the first half of a large butterfly leaves its numbers: more than the registers hold are better stored once,
// and here, than wherever the compiler finds that it has none left.
template <int count, class Numbers>
struct Halfway {
  using T = typename Numbers::Element;
  alignas(Numbers) T rows[count * sizeof(Numbers) / sizeof(T)];

  UNIHAL_INLINE T* of(int number) { return rows + number * sizeof(Numbers) / sizeof(T); }

  // What was put here is in memory, and what is read from now on is read from there.
  UNIHAL_INLINE void settle() { asm volatile("" : : "r"(rows) : "memory"); }
};

// Of coprime factors: where number k of the first one's transforms and j of the second one's belong, at k + First * j.
template <int First, int Second>
constexpr std::array<int, First * Second> coprime_places() {
  std::array<int, First * Second> places = {};
  for (int i = 0; i < First * Second; ++i) places[static_cast<size_t>(i % First + First * (i % Second))] = i;
  return places;
}

template <int Radix, class Numbers, class Read, class Write>
UNIHAL_INLINE void transform_numbers(const Read& read, const Write& write);

// Of First * Second numbers, either by Good's and Thomas' algorithm, which needs no roots in between, or of 3 * 3.
template <int First, int Second, class Numbers, class Read, class Write>
UNIHAL_INLINE void transform_in_two(const Read& read, const Write& write) {
  using T = typename Numbers::Element;
  constexpr bool kIsCoprime = First != Second;
  constexpr int kRadix = First * Second;
  constexpr auto kPlaces = coprime_places<First, Second>();
  Numbers middle[kRadix];
#pragma GCC unroll 9
  for (int part = 0; part < Second; ++part) {
    Numbers* const a = middle + First * part;
    transform_numbers<First, Numbers>(
        [&](int j, auto& number) UNIHAL_INLINE_LAMBDA {
          read(kIsCoprime ? (Second * j + First * part) % kRadix : part + Second * j, number);
        },
        [=](int j, auto number) UNIHAL_INLINE_LAMBDA { a[j] = number; });
    if constexpr (!kIsCoprime) {
      static_assert(kRadix == 9);
      constexpr T kCosine1 = static_cast<T>(0.766044443118978035202392650555416674L);
      constexpr T kSine1 = static_cast<T>(0.642787609686539326322643409907263433L);
      constexpr T kCosine2 = static_cast<T>(0.173648177666930348851716626769314796L);
      constexpr T kSine2 = static_cast<T>(0.984807753012208059366743024589523014L);
      constexpr T kCosine4 = static_cast<T>(-0.939692620785908384054109277324731470L);
      constexpr T kSine4 = static_cast<T>(0.342020143325668733044099614682259581L);
      if (part == 1) a[1] = a[1].times(kCosine1, -kSine1);
      if (part == 1) a[2] = a[2].times(kCosine2, -kSine2);
      if (part == 2) a[1] = a[1].times(kCosine2, -kSine2);
      if (part == 2) a[2] = a[2].times(kCosine4, -kSine4);
    }
  }
#pragma GCC unroll 5
  for (int k = 0; k < First; ++k) {
    transform_numbers<Second, Numbers>(
        [&](int j, auto& number) UNIHAL_INLINE_LAMBDA { number = middle[First * j + k]; },
        [&](int j, auto number) UNIHAL_INLINE_LAMBDA {
          write(kIsCoprime ? kPlaces[static_cast<size_t>(k + First * j)] : k + First * j, number);
        });
  }
}

// The numbers that read(j, number) gives, transformed, to write(j, number).
template <int Radix, class Numbers, class Read, class Write>
UNIHAL_INLINE void transform_numbers(const Read& read, const Write& write) {
  using T = typename Numbers::Element;
  if constexpr (Radix == 8) {
    Halfway<4, Numbers> even;
    Numbers first[4], a[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) read(2 * j, first[j]);
    butterfly<4>(first);
    if constexpr (Numbers::kFillRegisters) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) store(even.of(j), first[j]);
      even.settle();
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) read(2 * j + 1, a[j]);
    butterfly<4>(a);
    a[1] = a[1].times_eighth();
    a[2] = a[2].times_minus_i();
    a[3] = a[3].times_three_eighths();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      if constexpr (Numbers::kFillRegisters) load(even.of(j), first[j]);
      write(j, first[j] + a[j]);
      write(j + 4, first[j] - a[j]);
    }
  } else if constexpr (Radix == 16) {
    constexpr T kCosine = static_cast<T>(0.923879532511286756128183189396788287L);
    constexpr T kSine = static_cast<T>(0.382683432365089771728459984030398866L);
    // The last columns stay where there are registers for them.
    constexpr int kStored = Numbers::kFillRegisters ? 4 : 0;
    Halfway<16, Numbers> columns;
    Numbers kept[4][4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Numbers* const a = kept[k];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) read(k + 4 * j, a[j]);
      butterfly<4>(a);
      if (k == 1) {
        a[1] = a[1].times(kCosine, -kSine);
        a[2] = a[2].times_eighth();
        a[3] = a[3].times(kSine, -kCosine);
      } else if (k == 2) {
        a[1] = a[1].times_eighth();
        a[2] = a[2].times_minus_i();
        a[3] = a[3].times_three_eighths();
      } else if (k == 3) {
        a[1] = a[1].times(kSine, -kCosine);
        a[2] = a[2].times_three_eighths();
        a[3] = a[3].times(-kCosine, kSine);
      }
      if (k < kStored) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) store(columns.of(4 * j + k), a[j]);
      }
      if (k == kStored - 1) columns.settle();
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Numbers a[4];
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
  } else if constexpr (Radix == 6 || Radix == 10 || Radix == 18) {
    transform_in_two<2, Radix / 2, Numbers>(read, write);
  } else if constexpr (Radix == 12 || Radix == 20) {
    transform_in_two<4, Radix / 4, Numbers>(read, write);
  } else if constexpr (Radix == 9 || Radix == 15) {
    transform_in_two<3, Radix / 3, Numbers>(read, write);
  } else if constexpr (Radix == 24) {
    transform_in_two<3, 8, Numbers>(read, write);
  } else {
    Numbers a[Radix];
#pragma GCC unroll 5
    for (int j = 0; j < Radix; ++j) read(j, a[j]);
    butterfly<Radix>(a);
#pragma GCC unroll 5
    for (int j = 0; j < Radix; ++j) write(j, a[j]);
  }
}

}  // namespace unihal::stub
