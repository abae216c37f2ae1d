/* The part of the dialect that is the same for every compiler: index arithmetic, dtypes in memory, layouts. It follows
 * the compiler's own prelude.
 *
 * An operand x of dtype macro X (KernelSpec::dtype("X", ...)):
 *   UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
 *   T value = X_LOAD(x, i);    X_STORE(y, i, value);
 *   T values[4];  X_LOAD4(x, i, values);  X_STORE4(y, i, values);    where x + i is aligned to four elements
 *   T values[8];  X_LOAD8(x, i, values);  X_STORE8(y, i, values);    to eight elements; float16 and bfloat16 move as
 *                                                                    16 bytes, other dtypes as two fours
 *   UHAL_WIDE(X_LOAD, UNIT)(x, i, values)                            either, by a macro that is 4 or 8
 * Stores round to nearest even, wrap integers, and store 0 or 1 for bool. */
#if UHAL_WIDE_INDEX
typedef int64 INDEX;
#else
typedef int32 INDEX;
#endif

/* A kernel of `count` items, one for each work-item of a linear_grid (queue.h): the statement that follows runs for
 * item i. Such a grid covers all that 32 bits count; without a loop, what is read of the kernel's arguments need not be
 * kept in registers. */
#if UHAL_WIDE_INDEX
#define UHAL_FOR_ITEMS(i, count) for (INDEX i = UHAL_GLOBAL_ID(0); i < (count); i += UHAL_GLOBAL_SIZE(0))
#else
#define UHAL_FOR_ITEMS(i, count) for (INDEX i = UHAL_GLOBAL_ID(0); i < (count); i = (count))
#endif

/* -- dtypes in memory: one row each ------------------------------------------------------------------ */

typedef uint8 uhal_storage_bool;
typedef int8 uhal_storage_int8;
typedef int16 uhal_storage_int16;
typedef int32 uhal_storage_int32;
typedef int64 uhal_storage_int64;
typedef uint8 uhal_storage_uint8;
typedef uint16 uhal_storage_uint16;
typedef uint32 uhal_storage_uint32;
typedef uint64 uhal_storage_uint64;
typedef uint16 uhal_storage_float16;
typedef uint16 uhal_storage_bfloat16;
typedef uint8 uhal_storage_float8_e4m3fn;
typedef uint8 uhal_storage_float8_e5m2;
typedef float uhal_storage_float32;
#if UHAL_HAS_FLOAT64
typedef double uhal_storage_float64;
#endif

#ifndef UHAL_OWN_BFLOAT16 /* the compiler's prelude has these two: by an instruction */
UHAL_INLINE uint16 uhal_bfloat16_of_float(float value) {
  const uint32 bits = uhal_bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16)((bits >> 16) | 0x40u); /* NaN stays one */
  return (uint16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Two neighbours in memory, the first in the lower half. */
UHAL_INLINE uint32 uhal_bfloat16_pair(float first, float second) {
  return (uint32)uhal_bfloat16_of_float(first) | (uint32)uhal_bfloat16_of_float(second) << 16;
}
#endif

/* float8 by its bits, as csrc/backends/common/float_bits.h has it. */
UHAL_INLINE float uhal_float_of_float8_e5m2(uint32 byte) {
  const uint32 magnitude = byte & 0x7fu;
  const uint32 sign = (byte & 0x80u) << 24;
  const uint32 normal = (magnitude << 21) + (112u << 23);
  const uint32 special = normal + (112u << 23);
  const uint32 subnormal = uhal_bits_of_float((float)(int32)magnitude * (1.0f / 65536.0f));
  return uhal_float_of_bits(sign | (magnitude < 4u ? subnormal : magnitude >= 0x7cu ? special : normal));
}
UHAL_INLINE float uhal_float_of_float8_e4m3fn(uint32 byte) {
  const uint32 magnitude = byte & 0x7fu;
  const uint32 sign = (byte & 0x80u) << 24;
  const uint32 normal = (magnitude << 20) + (120u << 23);
  const uint32 subnormal = uhal_bits_of_float((float)(int32)magnitude * (1.0f / 512.0f));
  return uhal_float_of_bits(sign | (magnitude < 8u ? subnormal : magnitude == 0x7fu ? 0x7fc00000u : normal));
}
UHAL_INLINE uint8 uhal_float8_e5m2_of_float(float value) {
  const uint32 bits = uhal_bits_of_float(value);
  const uint32 magnitude = bits & 0x7fffffffu;
  const uint32 normal = (magnitude + 0xfffffu + ((magnitude >> 21) & 1u) - (112u << 23)) >> 21;
  const uint32 subnormal = uhal_bits_of_float(uhal_float_of_bits(magnitude) + 128.0f) - 0x43000000u;
  const uint32 special = magnitude > 0x7f800000u ? 0x7eu : 0x7cu;
  return (uint8)((bits >> 24 & 0x80u) | (magnitude >= 0x47800000u  ? special
                                         : magnitude < 0x38800000u ? subnormal
                                                                   : normal));
}
UHAL_INLINE uint8 uhal_float8_e4m3fn_of_float(float value) {
  const uint32 bits = uhal_bits_of_float(value);
  const uint32 magnitude = bits & 0x7fffffffu;
  const uint32 normal = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u) - (120u << 23)) >> 20;
  const uint32 subnormal = uhal_bits_of_float(uhal_float_of_bits(magnitude) + 16384.0f) - 0x46800000u;
  return (uint8)((bits >> 24 & 0x80u) | (magnitude > 0x43e80000u   ? 0x7fu
                                         : magnitude < 0x3c800000u ? subnormal
                                                                   : normal));
}

/* A float that rounds further, to float16 or bfloat16, as the T itself would: from a double, inexact results are
 * rounded to the odd neighbour, so that they stay on their side of the middle between two short numbers. */
#if UHAL_COMPUTE_double || UHAL_COMPUTE_complex_double
UHAL_INLINE float uhal_narrow(R value) {
  const float nearest = (float)value;
  const uint32 bits = uhal_bits_of_float(nearest);
  if ((R)nearest == value || value != value || (bits & 1u) != 0) return nearest;
  const R magnitude = value < 0 ? -value : value;
  const R near = nearest < 0 ? -(R)nearest : (R)nearest;
  return uhal_float_of_bits(near > magnitude ? bits - 1u : bits + 1u);
}
#else
#define uhal_narrow(v) ((float)(v))
#endif
#define uhal_narrow_of(v) uhal_narrow(UHAL_REAL(v))

#define uhal_load_bool(p, i) C(((p)[i] != 0))
#define uhal_load_int8(p, i) C((p)[i])
#define uhal_load_int16(p, i) C((p)[i])
#define uhal_load_int32(p, i) C((p)[i])
#define uhal_load_int64(p, i) C((p)[i])
#define uhal_load_uint8(p, i) C((p)[i])
#define uhal_load_uint16(p, i) C((p)[i])
#define uhal_load_uint32(p, i) C((p)[i])
#define uhal_load_uint64(p, i) C((p)[i])
#define uhal_load_float16(p, i) C(uhal_float_of_half(p, i))
#define uhal_load_bfloat16(p, i) C(uhal_float_of_bits((uint32)(p)[i] << 16))
#define uhal_load_float8_e4m3fn(p, i) C(uhal_float_of_float8_e4m3fn((p)[i]))
#define uhal_load_float8_e5m2(p, i) C(uhal_float_of_float8_e5m2((p)[i]))
#define uhal_load_float32(p, i) C((p)[i])
#define uhal_load_float64(p, i) C((p)[i])

/* Complex numbers in memory, aligned as their parts are, for a complex T. */
#if UHAL_IS_COMPLEX
#define UHAL_COMPLEX_DTYPE(name, part, number)                                                                      \
  typedef struct {                                                                                                  \
    part x, y;                                                                                                      \
  } uhal_storage_##name;                                                                                            \
  UHAL_INLINE T uhal_get_##name(UHAL_GLOBAL const uhal_storage_##name* p) { return uhal_complex(p->x, p->y); }      \
  UHAL_INLINE void uhal_put_##name(UHAL_GLOBAL uhal_storage_##name* p, T value) {                                   \
    p->x = (part)value.x;                                                                                           \
    p->y = (part)value.y;                                                                                           \
  }                                                                                                                 \
  UHAL_INLINE void uhal_get4_##name(UHAL_GLOBAL const uhal_storage_##name* p, T* values) {                          \
    const uhal_four_##number low = *(UHAL_GLOBAL const uhal_four_##number*)p;                                       \
    const uhal_four_##number high = *(UHAL_GLOBAL const uhal_four_##number*)(p + 2);                                \
    values[0] = uhal_complex(low.x, low.y), values[1] = uhal_complex(low.z, low.w);                                 \
    values[2] = uhal_complex(high.x, high.y), values[3] = uhal_complex(high.z, high.w);                             \
  }                                                                                                                 \
  UHAL_INLINE void uhal_put4_##name(UHAL_GLOBAL uhal_storage_##name* p, const T* values) {                          \
    uhal_four_##number low, high;                                                                                   \
    low.x = (part)values[0].x, low.y = (part)values[0].y, low.z = (part)values[1].x, low.w = (part)values[1].y;     \
    high.x = (part)values[2].x, high.y = (part)values[2].y, high.z = (part)values[3].x, high.w = (part)values[3].y; \
    *(UHAL_GLOBAL uhal_four_##number*)p = low;                                                                      \
    *(UHAL_GLOBAL uhal_four_##number*)(p + 2) = high;                                                               \
  }
UHAL_COMPLEX_DTYPE(complex64, float, float32)
#define uhal_load_complex64(p, i) uhal_get_complex64((p) + (i))
#define uhal_store_complex64(p, i, v) uhal_put_complex64((p) + (i), v)
#define uhal_load4_complex64(p, i, v) uhal_get4_complex64((p) + (i), v)
#define uhal_store4_complex64(p, i, v) uhal_put4_complex64((p) + (i), v)
#define uhal_load8_complex64(p, i, v) UHAL_TWO_FOURS(uhal_load4_complex64, p, i, v)
#define uhal_store8_complex64(p, i, v) UHAL_TWO_FOURS(uhal_store4_complex64, p, i, v)
#if UHAL_HAS_FLOAT64
UHAL_COMPLEX_DTYPE(complex128, double, float64)
#define uhal_load_complex128(p, i) uhal_get_complex128((p) + (i))
#define uhal_store_complex128(p, i, v) uhal_put_complex128((p) + (i), v)
#define uhal_load4_complex128(p, i, v) uhal_get4_complex128((p) + (i), v)
#define uhal_store4_complex128(p, i, v) uhal_put4_complex128((p) + (i), v)
#define uhal_load8_complex128(p, i, v) UHAL_TWO_FOURS(uhal_load4_complex128, p, i, v)
#define uhal_store8_complex128(p, i, v) UHAL_TWO_FOURS(uhal_store4_complex128, p, i, v)
#endif
#endif

/* By way of a wider integer, so that numbers beyond a narrow type wrap as integers do (UHAL_OP_CAST), and do not
 * saturate. */
#define uhal_to_int8(v) ((int8)(int32)(v))
#define uhal_to_int16(v) ((int16)(int32)(v))
#define uhal_to_uint8(v) ((uint8)(int32)(v))
#define uhal_to_uint16(v) ((uint16)(int32)(v))
#define uhal_to_uint32(v) ((uint32)(int64)(v))
#define uhal_store_bool(p, i, v) ((p)[i] = (uint8)(UHAL_REAL(v) != 0))
#define uhal_store_int8(p, i, v) ((p)[i] = uhal_to_int8(UHAL_REAL(v)))
#define uhal_store_int16(p, i, v) ((p)[i] = uhal_to_int16(UHAL_REAL(v)))
#define uhal_store_int32(p, i, v) ((p)[i] = (int32)UHAL_REAL(v))
#define uhal_store_int64(p, i, v) ((p)[i] = (int64)UHAL_REAL(v))
#define uhal_store_uint8(p, i, v) ((p)[i] = uhal_to_uint8(UHAL_REAL(v)))
#define uhal_store_uint16(p, i, v) ((p)[i] = uhal_to_uint16(UHAL_REAL(v)))
#define uhal_store_uint32(p, i, v) ((p)[i] = uhal_to_uint32(UHAL_REAL(v)))
#define uhal_store_uint64(p, i, v) ((p)[i] = (uint64)UHAL_REAL(v))
#define uhal_store_float16(p, i, v) uhal_half_of_float(p, i, uhal_narrow(UHAL_REAL(v)))
#define uhal_store_bfloat16(p, i, v) ((p)[i] = uhal_bfloat16_of_float(uhal_narrow(UHAL_REAL(v))))
#define uhal_store_float8_e4m3fn(p, i, v) ((p)[i] = uhal_float8_e4m3fn_of_float(uhal_narrow(UHAL_REAL(v))))
#define uhal_store_float8_e5m2(p, i, v) ((p)[i] = uhal_float8_e5m2_of_float(uhal_narrow(UHAL_REAL(v))))
#define uhal_store_float32(p, i, v) ((p)[i] = (float)UHAL_REAL(v))
#define uhal_store_float64(p, i, v) ((p)[i] = (double)UHAL_REAL(v))

/* Four neighbours at once; float16's are the compiler's own. */
#define UHAL_LOAD4(name, convert, p, i, v)                                                       \
  do {                                                                                           \
    const uhal_four_##name uhal_four = *(UHAL_GLOBAL const uhal_four_##name*)((p) + (i));        \
    (v)[0] = convert(uhal_four.x), (v)[1] = convert(uhal_four.y), (v)[2] = convert(uhal_four.z); \
    (v)[3] = convert(uhal_four.w);                                                               \
  } while (0)
#define UHAL_STORE4(name, convert, p, i, v)                                             \
  do {                                                                                  \
    uhal_four_##name uhal_four;                                                         \
    uhal_four.x = convert(UHAL_REAL((v)[0])), uhal_four.y = convert(UHAL_REAL((v)[1])); \
    uhal_four.z = convert(UHAL_REAL((v)[2])), uhal_four.w = convert(UHAL_REAL((v)[3])); \
    *(UHAL_GLOBAL uhal_four_##name*)((p) + (i)) = uhal_four;                            \
  } while (0)
typedef uhal_four_uint8 uhal_four_float8_e4m3fn;
typedef uhal_four_uint8 uhal_four_float8_e5m2;
#define uhal_from_float8_e4m3fn(v) C(uhal_float_of_float8_e4m3fn(v))
#define uhal_from_float8_e5m2(v) C(uhal_float_of_float8_e5m2(v))
#define uhal_to_float8_e4m3fn(v) uhal_float8_e4m3fn_of_float(uhal_narrow(v))
#define uhal_to_float8_e5m2(v) uhal_float8_e5m2_of_float(uhal_narrow(v))
#define uhal_from_bool(v) C(((v) != 0))
#define uhal_from_number(v) C((v))
#define uhal_from_bfloat16(v) C(uhal_float_of_bits((uint32)(v) << 16))
#define uhal_to_bool(v) ((uint8)((v) != 0))
#define uhal_to_bfloat16(v) uhal_bfloat16_of_float(uhal_narrow(v))

#define uhal_load4_bool(p, i, v) UHAL_LOAD4(bool, uhal_from_bool, p, i, v)
#define uhal_load4_int8(p, i, v) UHAL_LOAD4(int8, uhal_from_number, p, i, v)
#define uhal_load4_int16(p, i, v) UHAL_LOAD4(int16, uhal_from_number, p, i, v)
#define uhal_load4_int32(p, i, v) UHAL_LOAD4(int32, uhal_from_number, p, i, v)
#define uhal_load4_int64(p, i, v) UHAL_LOAD4(int64, uhal_from_number, p, i, v)
#define uhal_load4_uint8(p, i, v) UHAL_LOAD4(uint8, uhal_from_number, p, i, v)
#define uhal_load4_uint16(p, i, v) UHAL_LOAD4(uint16, uhal_from_number, p, i, v)
#define uhal_load4_uint32(p, i, v) UHAL_LOAD4(uint32, uhal_from_number, p, i, v)
#define uhal_load4_uint64(p, i, v) UHAL_LOAD4(uint64, uhal_from_number, p, i, v)
#define uhal_load4_bfloat16(p, i, v) UHAL_LOAD4(bfloat16, uhal_from_bfloat16, p, i, v)
#define uhal_load4_float8_e4m3fn(p, i, v) UHAL_LOAD4(float8_e4m3fn, uhal_from_float8_e4m3fn, p, i, v)
#define uhal_load4_float8_e5m2(p, i, v) UHAL_LOAD4(float8_e5m2, uhal_from_float8_e5m2, p, i, v)
#define uhal_load4_float32(p, i, v) UHAL_LOAD4(float32, uhal_from_number, p, i, v)
#define uhal_load4_float64(p, i, v) UHAL_LOAD4(float64, uhal_from_number, p, i, v)

#define uhal_store4_bool(p, i, v) UHAL_STORE4(bool, uhal_to_bool, p, i, v)
#define uhal_store4_int8(p, i, v) UHAL_STORE4(int8, uhal_to_int8, p, i, v)
#define uhal_store4_int16(p, i, v) UHAL_STORE4(int16, uhal_to_int16, p, i, v)
#define uhal_store4_int32(p, i, v) UHAL_STORE4(int32, (int32), p, i, v)
#define uhal_store4_int64(p, i, v) UHAL_STORE4(int64, (int64), p, i, v)
#define uhal_store4_uint8(p, i, v) UHAL_STORE4(uint8, uhal_to_uint8, p, i, v)
#define uhal_store4_uint16(p, i, v) UHAL_STORE4(uint16, uhal_to_uint16, p, i, v)
#define uhal_store4_uint32(p, i, v) UHAL_STORE4(uint32, uhal_to_uint32, p, i, v)
#define uhal_store4_uint64(p, i, v) UHAL_STORE4(uint64, (uint64), p, i, v)
#define uhal_store4_bfloat16(p, i, v) UHAL_STORE4(bfloat16, uhal_to_bfloat16, p, i, v)
#define uhal_store4_float8_e4m3fn(p, i, v) UHAL_STORE4(float8_e4m3fn, uhal_to_float8_e4m3fn, p, i, v)
#define uhal_store4_float8_e5m2(p, i, v) UHAL_STORE4(float8_e5m2, uhal_to_float8_e5m2, p, i, v)
#define uhal_store4_float32(p, i, v) UHAL_STORE4(float32, (float), p, i, v)
#define uhal_store4_float64(p, i, v) UHAL_STORE4(float64, (double), p, i, v)

/* Eight neighbours at once; float16's are the compiler's own. */
#define UHAL_WIDE_OF(name, unit) name##unit
#define UHAL_WIDE(name, unit) UHAL_WIDE_OF(name, unit)
#define UHAL_LOAD_WORDS(low, high, p, i, v)                                                \
  do {                                                                                     \
    const uhal_four_uint32 uhal_words = *(UHAL_GLOBAL const uhal_four_uint32*)((p) + (i)); \
    (v)[0] = low(uhal_words.x), (v)[1] = high(uhal_words.x), (v)[2] = low(uhal_words.y);   \
    (v)[3] = high(uhal_words.y), (v)[4] = low(uhal_words.z), (v)[5] = high(uhal_words.z);  \
    (v)[6] = low(uhal_words.w), (v)[7] = high(uhal_words.w);                               \
  } while (0)
#define UHAL_STORE_WORDS(pair, p, i, v)                                  \
  do {                                                                   \
    uhal_four_uint32 uhal_words;                                         \
    uhal_words.x = pair(uhal_narrow_of((v)[0]), uhal_narrow_of((v)[1])); \
    uhal_words.y = pair(uhal_narrow_of((v)[2]), uhal_narrow_of((v)[3])); \
    uhal_words.z = pair(uhal_narrow_of((v)[4]), uhal_narrow_of((v)[5])); \
    uhal_words.w = pair(uhal_narrow_of((v)[6]), uhal_narrow_of((v)[7])); \
    *(UHAL_GLOBAL uhal_four_uint32*)((p) + (i)) = uhal_words;            \
  } while (0)
#define uhal_low_bfloat16(word) C(uhal_float_of_bits((word) << 16))
#define uhal_high_bfloat16(word) C(uhal_float_of_bits((word) & 0xffff0000u))
#define uhal_load8_bfloat16(p, i, v) UHAL_LOAD_WORDS(uhal_low_bfloat16, uhal_high_bfloat16, p, i, v)
#define uhal_store8_bfloat16(p, i, v) UHAL_STORE_WORDS(uhal_bfloat16_pair, p, i, v)
#define UHAL_TWO_FOURS(access, p, i, v) \
  do {                                  \
    access(p, i, v);                    \
    access(p, (i) + 4, (v) + 4);        \
  } while (0)
#define uhal_load8_bool(p, i, v) UHAL_TWO_FOURS(uhal_load4_bool, p, i, v)
#define uhal_load8_int8(p, i, v) UHAL_TWO_FOURS(uhal_load4_int8, p, i, v)
#define uhal_load8_int16(p, i, v) UHAL_TWO_FOURS(uhal_load4_int16, p, i, v)
#define uhal_load8_int32(p, i, v) UHAL_TWO_FOURS(uhal_load4_int32, p, i, v)
#define uhal_load8_int64(p, i, v) UHAL_TWO_FOURS(uhal_load4_int64, p, i, v)
#define uhal_load8_uint8(p, i, v) UHAL_TWO_FOURS(uhal_load4_uint8, p, i, v)
#define uhal_load8_uint16(p, i, v) UHAL_TWO_FOURS(uhal_load4_uint16, p, i, v)
#define uhal_load8_uint32(p, i, v) UHAL_TWO_FOURS(uhal_load4_uint32, p, i, v)
#define uhal_load8_uint64(p, i, v) UHAL_TWO_FOURS(uhal_load4_uint64, p, i, v)
#define uhal_load8_float8_e4m3fn(p, i, v) UHAL_TWO_FOURS(uhal_load4_float8_e4m3fn, p, i, v)
#define uhal_load8_float8_e5m2(p, i, v) UHAL_TWO_FOURS(uhal_load4_float8_e5m2, p, i, v)
#define uhal_load8_float32(p, i, v) UHAL_TWO_FOURS(uhal_load4_float32, p, i, v)
#define uhal_load8_float64(p, i, v) UHAL_TWO_FOURS(uhal_load4_float64, p, i, v)
#define uhal_store8_bool(p, i, v) UHAL_TWO_FOURS(uhal_store4_bool, p, i, v)
#define uhal_store8_int8(p, i, v) UHAL_TWO_FOURS(uhal_store4_int8, p, i, v)
#define uhal_store8_int16(p, i, v) UHAL_TWO_FOURS(uhal_store4_int16, p, i, v)
#define uhal_store8_int32(p, i, v) UHAL_TWO_FOURS(uhal_store4_int32, p, i, v)
#define uhal_store8_int64(p, i, v) UHAL_TWO_FOURS(uhal_store4_int64, p, i, v)
#define uhal_store8_uint8(p, i, v) UHAL_TWO_FOURS(uhal_store4_uint8, p, i, v)
#define uhal_store8_uint16(p, i, v) UHAL_TWO_FOURS(uhal_store4_uint16, p, i, v)
#define uhal_store8_uint32(p, i, v) UHAL_TWO_FOURS(uhal_store4_uint32, p, i, v)
#define uhal_store8_uint64(p, i, v) UHAL_TWO_FOURS(uhal_store4_uint64, p, i, v)
#define uhal_store8_float8_e4m3fn(p, i, v) UHAL_TWO_FOURS(uhal_store4_float8_e4m3fn, p, i, v)
#define uhal_store8_float8_e5m2(p, i, v) UHAL_TWO_FOURS(uhal_store4_float8_e5m2, p, i, v)
#define uhal_store8_float32(p, i, v) UHAL_TWO_FOURS(uhal_store4_float32, p, i, v)
#define uhal_store8_float64(p, i, v) UHAL_TWO_FOURS(uhal_store4_float64, p, i, v)

/* -- dtypes known at launch only: a uniform branch, for kernels whose every combination is not worth a compilation. The
 * numbers are those of uhal_dtype; complex ones where T is complex. ----------------------------------------------- */

UHAL_INLINE T uhal_load(int32 dtype, UHAL_GLOBAL const char* p, INDEX i) {
  switch (dtype) {
#define UHAL_CASE(number, name)                                                           \
  case number: {                                                                          \
    UHAL_GLOBAL const uhal_storage_##name* q = (UHAL_GLOBAL const uhal_storage_##name*)p; \
    return uhal_load_##name(q, i);                                                        \
  }
    UHAL_CASE(1, bool)
    UHAL_CASE(2, int8)
    UHAL_CASE(3, int16)
    UHAL_CASE(4, int32)
    UHAL_CASE(5, int64)
    UHAL_CASE(6, uint8)
    UHAL_CASE(7, uint16)
    UHAL_CASE(8, uint32)
    UHAL_CASE(9, uint64)
    UHAL_CASE(10, float16)
    UHAL_CASE(11, bfloat16)
    UHAL_CASE(16, float8_e4m3fn)
    UHAL_CASE(17, float8_e5m2)
#if UHAL_HAS_FLOAT64
    UHAL_CASE(13, float64)
#endif
#if UHAL_IS_COMPLEX
    UHAL_CASE(14, complex64)
#if UHAL_HAS_FLOAT64
    UHAL_CASE(15, complex128)
#endif
#endif
#undef UHAL_CASE
    default:
      return C(((UHAL_GLOBAL const float*)p)[i]);
  }
}

UHAL_INLINE void uhal_store(int32 dtype, UHAL_GLOBAL char* p, INDEX i, T value) {
  switch (dtype) {
#define UHAL_CASE(number, name)                                               \
  case number: {                                                              \
    UHAL_GLOBAL uhal_storage_##name* q = (UHAL_GLOBAL uhal_storage_##name*)p; \
    uhal_store_##name(q, i, value);                                           \
    break;                                                                    \
  }
    UHAL_CASE(1, bool)
    UHAL_CASE(2, int8)
    UHAL_CASE(3, int16)
    UHAL_CASE(4, int32)
    UHAL_CASE(5, int64)
    UHAL_CASE(6, uint8)
    UHAL_CASE(7, uint16)
    UHAL_CASE(8, uint32)
    UHAL_CASE(9, uint64)
    UHAL_CASE(10, float16)
    UHAL_CASE(11, bfloat16)
    UHAL_CASE(16, float8_e4m3fn)
    UHAL_CASE(17, float8_e5m2)
#if UHAL_HAS_FLOAT64
    UHAL_CASE(13, float64)
#endif
#if UHAL_IS_COMPLEX
    UHAL_CASE(14, complex64)
#if UHAL_HAS_FLOAT64
    UHAL_CASE(15, complex128)
#endif
#endif
#undef UHAL_CASE
    default:
      ((UHAL_GLOBAL float*)p)[i] = (float)UHAL_REAL(value);
  }
}

/* -- layouts: what append_layout (layout.h) passes ------------------------------------------------------ */

/* A struct type for views of `operands` operands over one shape; UHAL_RANK is the most axes that it holds. */
#define UHAL_LAYOUT(type, operands)     \
  typedef struct {                      \
    INDEX rank;                         \
    INDEX shape[UHAL_RANK];             \
    INDEX strides[operands][UHAL_RANK]; \
  } type;

/* Element i of an array of UHAL_RANK in a kernel's argument, where i is no constant. By comparisons, which are scalar
 * work: compilers for AMD's GPUs copy an argument that is indexed by a variable to private memory, which is off the
 * chip. */
#if UHAL_RANK == 4
#define UHAL_AT(array, i) ((i) < 2 ? (i) == 0 ? (array)[0] : (array)[1] : (i) == 2 ? (array)[2] : (array)[3])
#else
#define UHAL_AT(array, i)                                       \
  ((i) < 4    ? (i) < 2    ? (i) == 0 ? (array)[0] : (array)[1] \
                : (i) == 2 ? (array)[2]                         \
                           : (array)[3]                         \
   : (i) < 6  ? (i) == 4 ? (array)[4] : (array)[5]              \
   : (i) < 8  ? (i) == 6 ? (array)[6] : (array)[7]              \
   : (i) == 8 ? (array)[8]                                      \
              : (array)[9])
#endif

/* Adds to offsets[0 to operands-1] the offsets, in elements, of the element at `position` in the order of iteration. A
 * macro, so that the layout is read from where arguments lie. Few axes are unrolled; ten would be too much code. */
#if UHAL_RANK == 4
#define UHAL_ADD_OFFSETS(layout, operands, position, offsets)                                       \
  do {                                                                                              \
    INDEX uhal_rest = (position);                                                                   \
    UHAL_UNROLL for (int32 uhal_axis = UHAL_RANK - 1; uhal_axis >= 0; --uhal_axis) {                \
      if (uhal_axis < (int32)(layout).rank) UHAL_ADD_AXIS(layout, operands, UHAL_ELEMENT, offsets); \
    }                                                                                               \
  } while (0)
#else
#define UHAL_ADD_OFFSETS(layout, operands, position, offsets)                       \
  do {                                                                              \
    INDEX uhal_rest = (position);                                                   \
    for (int32 uhal_axis = (int32)(layout).rank - 1; uhal_axis >= 0; --uhal_axis) { \
      UHAL_ADD_AXIS(layout, operands, UHAL_AT, offsets);                            \
    }                                                                               \
  } while (0)
#endif
#define UHAL_ELEMENT(array, i) ((array)[i])
#define UHAL_ADD_AXIS(layout, operands, at, offsets)                          \
  do {                                                                        \
    const INDEX uhal_length = at((layout).shape, uhal_axis);                  \
    const INDEX uhal_next = uhal_axis > 0 ? uhal_rest / uhal_length : 0;      \
    const INDEX uhal_at = uhal_rest - uhal_next * uhal_length;                \
    uhal_rest = uhal_next;                                                    \
    UHAL_UNROLL for (int32 uhal_k = 0; uhal_k < (operands); ++uhal_k) {       \
      (offsets)[uhal_k] += uhal_at * at((layout).strides[uhal_k], uhal_axis); \
    }                                                                         \
  } while (0)

/* -- errors in data: Queue::error_cell -------------------------------------------------------------------- */

/* Notes a bad index, and the length of the axis that it is outside of; the first one is kept. */
UHAL_INLINE void uhal_report_error(UHAL_GLOBAL int64* cell, int64 ticket, int64 index, int64 length) {
  if (uhal_compare_exchange_int32(cell, 0, (int32)ticket) == 0) {
    cell[1] = index;
    cell[2] = length;
  }
}
