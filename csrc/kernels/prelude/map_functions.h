/* What the expressions of csrc/tables/elementwise.def call, for the compute type T. The compiler's own exp(), sqrt(),
 * ... are overloaded for float and double.
 *
 * Also the activation that an op applies to its result: after define_activation (csrc/kernels/map_function.h),
 * T uhal_activate(T x). */

#if !UHAL_IS_COMPLEX /* whose functions are complex.h's */
#if UHAL_IS_FLOATING

UHAL_INLINE T map_clip(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
UHAL_INLINE T map_sigmoid(T x) { return 1 / (1 + exp(-x)); }

/* The argument of tanh in GELU's approximation: sqrt(2 / pi) * (x + 0.044715 * x^3). */
UHAL_INLINE T map_gelu_argument(T x) { return C(0.79788456080286535588) * (x + C(0.044715) * x * x * x); }

/* 0.5 * (1 + tanh(u)) is the sigmoid of 2u: by tanh, whose last digits a device may have wrong, large numbers would
 * multiply what is left of 1 - 1. */
UHAL_INLINE T map_gelu_tanh_derivative(T x) {
  const T s = map_sigmoid(2 * map_gelu_argument(x));
  const T slope = C(0.79788456080286535588) * (1 + C(0.134145) * x * x);
  return s + 2 * x * (s * (1 - s)) * slope;
}

UHAL_INLINE T map_divide(T x, T y) { return x / y; }
UHAL_INLINE T map_truncate_divide(T x, T y) { return trunc(x / y); }
UHAL_INLINE T map_truncate_mod(T x, T y) { return fmod(x, y); }
UHAL_INLINE T map_floor_divide(T x, T y) { return floor(x / y); }
UHAL_INLINE T map_power(T x, T y) { return pow(x, y); }

#else /* 64-bit integers */

/* Division by zero gives 0; the most negative integer over -1 wraps instead of trapping. */
UHAL_INLINE T map_truncate_divide(T x, T y) {
  if (y == 0) return 0;
#if UHAL_IS_SIGNED
  if (y == -1) return (T)(0 - (uint64)x);
#endif
  return x / y;
}

UHAL_INLINE T map_divide(T x, T y) { return map_truncate_divide(x, y); }

UHAL_INLINE T map_truncate_mod(T x, T y) {
  if (y == 0) return 0;
#if UHAL_IS_SIGNED
  if (y == -1) return 0;
#endif
  return x % y;
}

/* The quotient rounded down. */
UHAL_INLINE T map_floor_divide(T x, T y) {
  const T quotient = map_truncate_divide(x, y);
  const T rest = map_truncate_mod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? quotient - 1 : quotient;
}

/* By squaring, wrapping on overflow; a negative exponent gives 0 but for the bases 1 and -1. */
UHAL_INLINE T map_power(T x, T y) {
#if UHAL_IS_SIGNED
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
#endif
  uint64 base = (uint64)x;
  uint64 result = 1;
  for (uint64 rest = (uint64)y; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= base;
    base *= base;
  }
  return (T)result;
}

UHAL_INLINE T map_bitwise_not(T x) { return ~x; }
UHAL_INLINE T map_bitwise_and(T x, T y) { return x & y; }
UHAL_INLINE T map_bitwise_or(T x, T y) { return x | y; }
UHAL_INLINE T map_bitwise_xor(T x, T y) { return x ^ y; }

/* Shifts by less than 0 or more than 63 bits shift everything out. */
UHAL_INLINE T map_shift_left(T x, T y) { return (uint64)y > 63 ? (T)0 : (T)((uint64)x << (uint64)y); }
UHAL_INLINE T map_shift_right(T x, T y) {
#if UHAL_IS_SIGNED
  return x >> ((uint64)y > 63 ? (uint64)63 : (uint64)y);
#else
  return y > 63 ? (T)0 : x >> y;
#endif
}

/* Pairs of bits are summed, then fours, eights, and all eights by a product. */
UHAL_INLINE T map_population_count(T x) {
  uint64 bits = (uint64)x;
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (T)(bits * 0x0101010101010101u >> 56);
}

/* Without a sign, until they wrap. */
UHAL_INLINE uint64 map_size(T x) { return x < 0 ? 0 - (uint64)x : (uint64)x; }
UHAL_INLINE T map_gcd(T x, T y) {
  while (y != 0) {
    const T rest = map_truncate_mod(x, y);
    x = y;
    y = rest;
  }
  return (T)map_size(x);
}
UHAL_INLINE T map_lcm(T x, T y) {
  if (x == 0 || y == 0) return 0;
  return (T)(map_size(map_truncate_divide(x, map_gcd(x, y))) * map_size(y));
}

#endif

/* The remainder with the divisor's sign. */
UHAL_INLINE T map_floor_mod(T x, T y) {
  const T rest = map_truncate_mod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
#endif

/* On integers only relu means anything. */
#if defined(UHAL_ACTIVATION_EXPRESSION) && (UHAL_IS_FLOATING || UHAL_ACTIVATION == 1)
UHAL_INLINE T uhal_activate(T x) {
  T r0;
  UHAL_ACTIVATION_EXPRESSION;
  return r0;
}
#else
UHAL_INLINE T uhal_activate(T x) { return x; }
#endif
