// What the expressions of csrc/tables/elementwise.def call, for each compute type. Included by vector_map.cc only,
// inside the namespace of one instruction set: nothing here may be shared between instruction sets, or the linker
// would keep one copy, compiled for any of them.
//
// The mathematical functions carry glibc's vector variants (libmvec, UHAL_HAVE_LIBMVEC), which loops call without
// -ffast-math: NaN and infinities stay right.

#define UHAL_MATH1(name)                                     \
  static inline float name(float x) { return ::name##f(x); } \
  static inline double name(double x) { return ::name(x); }
#define UHAL_MATH2(name)                                                 \
  static inline float name(float x, float y) { return ::name##f(x, y); } \
  static inline double name(double x, double y) { return ::name(x, y); }

UHAL_MATH1(fabs)
UHAL_MATH1(floor)
UHAL_MATH1(ceil)
UHAL_MATH1(rint)
UHAL_MATH1(round)
UHAL_MATH1(trunc)
UHAL_MATH1(sqrt)
UHAL_MATH1(exp)
UHAL_MATH1(expm1)
UHAL_MATH1(log)
UHAL_MATH1(log1p)
UHAL_MATH1(log2)
UHAL_MATH1(log10)
UHAL_MATH1(sin)
UHAL_MATH1(cos)
UHAL_MATH1(tan)
UHAL_MATH1(asin)
UHAL_MATH1(acos)
UHAL_MATH1(atan)
UHAL_MATH1(sinh)
UHAL_MATH1(cosh)
UHAL_MATH1(tanh)
UHAL_MATH1(asinh)
UHAL_MATH1(acosh)
UHAL_MATH1(atanh)
UHAL_MATH1(erf)
UHAL_MATH1(erfc)
UHAL_MATH2(atan2)
UHAL_MATH2(copysign)
UHAL_MATH2(pow)
UHAL_MATH2(fmod)
UHAL_MATH2(fmax)
UHAL_MATH2(fmin)

#undef UHAL_MATH1
#undef UHAL_MATH2

// The C library's takes a call for each element. Numbers of one sign are in the order of their bits.
template <class T, class Bits>
static inline T next_number(T x, T y) {
  Bits bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits += (y > x) == (x > 0) ? 1 : -1;
  constexpr Bits kSign = std::numeric_limits<Bits>::min();
  bits = x == 0 ? (y < 0 ? kSign + 1 : 1) : bits;
  T next;
  __builtin_memcpy(&next, &bits, sizeof next);
  return x == y ? y : x != x || y != y ? x + y : next;
}
static inline float nextafter(float x, float y) { return next_number<float, int32_t>(x, y); }
static inline double nextafter(double x, double y) { return next_number<double, int64_t>(x, y); }

static inline float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return ::fma(x, y, z); }

// The C library's take a call for each element.
static inline double power_of_two(int exponent) {  // one that is a normal number
  const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(exponent) + 1023) << 52;
  double power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return power;
}
static inline int limited(int value, int limit) { return value < -limit ? -limit : value > limit ? limit : value; }
// A product in double is exact, and rounded once.
static inline float ldexp(float x, int exponent) {
  return static_cast<float>(x * power_of_two(limited(exponent, 400)));
}
// By parts, of which none but the last one rounds a result that is not too small for double.
static inline double ldexp(double x, int exponent) {
  exponent = limited(exponent, 2200);
  const int last = limited(exponent, 200), first = limited(exponent - last, 1000);
  return x * power_of_two(first) * power_of_two(exponent - last - first) * power_of_two(last);
}

template <class T>
inline constexpr bool kIsFloating = static_cast<T>(0.5) != 0;
template <class T>
inline constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);

template <class T>
static inline T rsqrt(T x) {
  return 1 / sqrt(x);
}

template <class T>
static inline T map_clip(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

template <class T>
static inline T map_sigmoid(T x) {
  return 1 / (1 + exp(-x));
}

// The argument of tanh in GELU's approximation: sqrt(2 / pi) * (x + 0.044715 * x^3).
template <class T>
static inline T map_gelu_argument(T x) {
  return static_cast<T>(0.79788456080286535588) * (x + static_cast<T>(0.044715) * x * x * x);
}

// As csrc/kernels/prelude/map_functions.h has it, and for its reason.
template <class T>
static inline T map_gelu_tanh_derivative(T x) {
  const T s = map_sigmoid(2 * map_gelu_argument(x));
  const T slope = static_cast<T>(0.79788456080286535588) * (1 + static_cast<T>(3 * 0.044715) * x * x);
  return s + 2 * x * (s * (1 - s)) * slope;
}

// Integer division by zero gives 0; the most negative integer over -1 wraps instead of trapping.
template <class T>
static inline T map_truncate_divide(T x, T y) {
  if constexpr (kIsFloating<T>) {
    return trunc(x / y);
  } else {
    if (y == 0) return 0;
    if (kIsSigned<T> && y == static_cast<T>(-1)) return -x;
    return x / y;
  }
}

template <class T>
static inline T map_divide(T x, T y) {
  if constexpr (kIsFloating<T>) {
    return x / y;
  } else {
    return map_truncate_divide(x, y);
  }
}

template <class T>
static inline T map_truncate_mod(T x, T y) {
  if constexpr (kIsFloating<T>) {
    return fmod(x, y);
  } else {
    if (y == 0 || (kIsSigned<T> && y == static_cast<T>(-1))) return 0;
    return x % y;
  }
}

// The quotient rounded down, and the remainder with the divisor's sign.
template <class T>
static inline T map_floor_divide(T x, T y) {
  if constexpr (kIsFloating<T>) {
    return floor(x / y);
  } else {
    const T quotient = map_truncate_divide(x, y);
    const T rest = map_truncate_mod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? quotient - 1 : quotient;
  }
}

template <class T>
static inline T map_floor_mod(T x, T y) {
  const T rest = map_truncate_mod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// Integers: by squaring, wrapping on overflow; a negative exponent gives 0 but for the bases 1 and -1.
template <class T>
static inline T map_power(T x, T y) {
  if constexpr (kIsFloating<T>) {
    return pow(x, y);
  } else {
    if (kIsSigned<T> && y < 0) return x == 1 ? 1 : x == static_cast<T>(-1) ? (y % 2 != 0 ? -1 : 1) : 0;
    T result = 1;
    for (; y != 0; y /= 2, x *= x) {
      if (y % 2 != 0) result *= x;
    }
    return result;
  }
}

// Bits: on integers only; map.cc refuses floating operands.
template <class T>
static inline T map_bitwise_not(T x) {
  return static_cast<T>(~static_cast<int64_t>(x));
}
template <class T>
static inline T map_bitwise_and(T x, T y) {
  return static_cast<T>(static_cast<int64_t>(x) & static_cast<int64_t>(y));
}
template <class T>
static inline T map_bitwise_or(T x, T y) {
  return static_cast<T>(static_cast<int64_t>(x) | static_cast<int64_t>(y));
}
template <class T>
static inline T map_bitwise_xor(T x, T y) {
  return static_cast<T>(static_cast<int64_t>(x) ^ static_cast<int64_t>(y));
}

// Shifts by less than 0 or more than 63 bits shift everything out.
template <class T>
static inline T map_shift_left(T x, T y) {
  const uint64_t bits = static_cast<uint64_t>(y);
  return bits > 63 ? T(0) : static_cast<T>(static_cast<uint64_t>(x) << bits);
}
template <class T>
static inline T map_shift_right(T x, T y) {
  const uint64_t bits = static_cast<uint64_t>(y) > 63 ? 63 : static_cast<uint64_t>(y);
  if constexpr (kIsSigned<T>) {
    return static_cast<T>(static_cast<int64_t>(x) >> bits);
  } else {
    return static_cast<uint64_t>(y) > 63 ? T(0) : static_cast<T>(static_cast<uint64_t>(x) >> bits);
  }
}

// Of integers only, as well: pairs of bits are summed, then fours, eights, and all eights by a product.
template <class T>
static inline T map_population_count(T x) {
  uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(x));
  if constexpr (!kIsSigned<T>) bits = static_cast<uint64_t>(x);
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<T>(bits * 0x0101010101010101u >> 56);
}

// And without a sign, until they wrap.
template <class T>
static inline T map_gcd(T x, T y) {
  while (y != 0) {
    const T rest = map_truncate_mod(x, y);
    x = y;
    y = rest;
  }
  return x < 0 ? -x : x;
}
template <class T>
static inline T map_lcm(T x, T y) {
  if (x == 0 || y == 0) return 0;
  const T size = map_truncate_divide(x, map_gcd(x, y));
  return (size < 0 ? -size : size) * (y < 0 ? -y : y);
}
