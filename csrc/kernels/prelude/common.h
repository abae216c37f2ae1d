/* The part of the dialect that is the same for every compiler: index arithmetic, dtypes in memory, layouts. It follows
 * the compiler's own prelude.
 *
 * An operand x of dtype macro X (KernelSpec::dtype("X", ...)):
 *   UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
 *   T value = X_LOAD(x, i);    X_STORE(y, i, value);
 * Stores round to nearest even, wrap integers, and store 0 or 1 for bool. */
#if UHAL_WIDE_INDEX
typedef int64 INDEX;
#else
typedef int32 INDEX;
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
typedef float uhal_storage_float32;
#if UHAL_HAS_FLOAT64
typedef double uhal_storage_float64;
#endif

UHAL_INLINE uint16 uhal_bfloat16_of_float(float value) {
  const uint32 bits = uhal_bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16)((bits >> 16) | 0x40u); /* NaN stays one */
  return (uint16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#define uhal_load_bool(p, i) ((T)((p)[i] != 0))
#define uhal_load_int8(p, i) ((T)(p)[i])
#define uhal_load_int16(p, i) ((T)(p)[i])
#define uhal_load_int32(p, i) ((T)(p)[i])
#define uhal_load_int64(p, i) ((T)(p)[i])
#define uhal_load_uint8(p, i) ((T)(p)[i])
#define uhal_load_uint16(p, i) ((T)(p)[i])
#define uhal_load_uint32(p, i) ((T)(p)[i])
#define uhal_load_uint64(p, i) ((T)(p)[i])
#define uhal_load_float16(p, i) ((T)uhal_float_of_half(p, i))
#define uhal_load_bfloat16(p, i) ((T)uhal_float_of_bits((uint32)(p)[i] << 16))
#define uhal_load_float32(p, i) ((T)(p)[i])
#define uhal_load_float64(p, i) ((T)(p)[i])

#define uhal_store_bool(p, i, v) ((p)[i] = (uint8)((v) != 0))
#define uhal_store_int8(p, i, v) ((p)[i] = (int8)(v))
#define uhal_store_int16(p, i, v) ((p)[i] = (int16)(v))
#define uhal_store_int32(p, i, v) ((p)[i] = (int32)(v))
#define uhal_store_int64(p, i, v) ((p)[i] = (int64)(v))
#define uhal_store_uint8(p, i, v) ((p)[i] = (uint8)(v))
#define uhal_store_uint16(p, i, v) ((p)[i] = (uint16)(v))
#define uhal_store_uint32(p, i, v) ((p)[i] = (uint32)(v))
#define uhal_store_uint64(p, i, v) ((p)[i] = (uint64)(v))
#define uhal_store_float16(p, i, v) uhal_half_of_float(p, i, v)
#define uhal_store_bfloat16(p, i, v) ((p)[i] = uhal_bfloat16_of_float((float)(v)))
#define uhal_store_float32(p, i, v) ((p)[i] = (float)(v))
#define uhal_store_float64(p, i, v) ((p)[i] = (double)(v))

/* -- dtypes known at launch only: a uniform branch, for kernels whose every combination is not worth a compilation. The
 * numbers are those of uhal_dtype. Complex numbers are none of these. -------------------------------------------- */

UHAL_INLINE T uhal_load(int32 dtype, UHAL_GLOBAL const char* p, INDEX i) {
  switch (dtype) {
#define UHAL_CASE(number, name)                                            \
  case number: {                                                           \
    UHAL_GLOBAL const uhal_storage_##name* q = (UHAL_GLOBAL const uhal_storage_##name*)p; \
    return uhal_load_##name(q, i);                                         \
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
#if UHAL_HAS_FLOAT64
    UHAL_CASE(13, float64)
#endif
#undef UHAL_CASE
    default:
      return (T)((UHAL_GLOBAL const float*)p)[i];
  }
}

UHAL_INLINE void uhal_store(int32 dtype, UHAL_GLOBAL char* p, INDEX i, T value) {
  switch (dtype) {
#define UHAL_CASE(number, name)                                \
  case number: {                                               \
    UHAL_GLOBAL uhal_storage_##name* q = (UHAL_GLOBAL uhal_storage_##name*)p; \
    uhal_store_##name(q, i, value);                            \
    break;                                                     \
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
#if UHAL_HAS_FLOAT64
    UHAL_CASE(13, float64)
#endif
#undef UHAL_CASE
    default:
      ((UHAL_GLOBAL float*)p)[i] = (float)value;
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

/* Adds to offsets[0 to operands-1] the offsets, in elements, of the element at `position` in the order of iteration. A
 * macro, so that the layout is read from where arguments lie. */
#define UHAL_ADD_OFFSETS(layout, operands, position, offsets)                    \
  do {                                                                           \
    INDEX uhal_rest = (position);                                                \
    for (int32 uhal_axis = (int32)(layout).rank - 1; uhal_axis >= 0; --uhal_axis) { \
      const INDEX uhal_length = (layout).shape[uhal_axis];                       \
      const INDEX uhal_next = uhal_axis > 0 ? uhal_rest / uhal_length : 0;       \
      const INDEX uhal_at = uhal_rest - uhal_next * uhal_length;                 \
      uhal_rest = uhal_next;                                                     \
      for (int32 uhal_k = 0; uhal_k < (operands); ++uhal_k) {                    \
        (offsets)[uhal_k] += uhal_at * (layout).strides[uhal_k][uhal_axis];      \
      }                                                                          \
    }                                                                            \
  } while (0)

/* -- errors in data: Queue::error_cell -------------------------------------------------------------------- */

/* Notes a bad index, and the length of the axis that it is outside of; the first one is kept. */
UHAL_INLINE void uhal_report_error(UHAL_GLOBAL int64* cell, int64 ticket, int64 index, int64 length) {
  if (uhal_compare_exchange_int32(cell, 0, (int32)ticket) == 0) {
    cell[1] = index;
    cell[2] = length;
  }
}
