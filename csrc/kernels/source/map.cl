/* Elementwise functions, one or several in a chain, in one pass over memory. ops/map.cc chooses among:
 *
 *   flat      all operands lie in the order of iteration, or repeat along it (scalars, rows, columns); dtypes are known
 *             here. A work-item has four elements, or eight where no operand that varies has more than 16 bits.
 *   joined    (UHAL_JOINED) several maps alike, each with operands and a length of its own, for which addresses are numbers
 *             in an argument: all operands lie in the order of iteration or are one element; of GPU backends only.
 *   strided   (UHAL_STRIDED) any strides and dtypes, as arguments; only the functions and T are known here.
 *
 * A chain is text: UHAL_STEPS functions of elementwise.def, in order. Values are numbered: the inputs come first, then
 * the results of each step; UHAL_VALUES is how many there are, and room for the four results that a step always sets, of
 * which later ones overwrite those that it does not have. For step k, STEP<k> is the function's statements, STEP<k>_OPERANDS has the numbers of the
 * values that it takes, 8 bits each, and STEP<k>_RESULT is the number of its first result. UHAL_RESULTS has the numbers of
 * the values that are stored, 8 bits each. The function of an op is a chain of one step. */
#include "csrc/kernels/prelude/map_functions.h"
#if UHAL_IS_FLOATING
#include "csrc/tables/special_functions.h"
#endif

#define BYTE(number, k) ((int32)((uint64)(number) >> (8 * (k)) & 255))

/* The step's names for its operands, results and parameters hide those of other steps. */
#define STEP(k)                                                                               \
  {                                                                                           \
    const T x0 = v[BYTE(STEP##k##_OPERANDS, 0)], x1 = v[BYTE(STEP##k##_OPERANDS, 1)];         \
    const T x2 = v[BYTE(STEP##k##_OPERANDS, 2)], x3 = v[BYTE(STEP##k##_OPERANDS, 3)];         \
    const T x4 = v[BYTE(STEP##k##_OPERANDS, 4)], x5 = v[BYTE(STEP##k##_OPERANDS, 5)];         \
    const T x6 = v[BYTE(STEP##k##_OPERANDS, 6)], x7 = v[BYTE(STEP##k##_OPERANDS, 7)];         \
    const T x = x0, y = x1, z = x2;                                                           \
    const R p0 = p.of[k][0], p1 = p.of[k][1], p2 = p.of[k][2], p3 = p.of[k][3], p4 = p.of[k][4]; \
    T r0 = C(0), r1 = C(0), r2 = C(0), r3 = C(0);                                             \
    STEP##k;                                                                                  \
    v[STEP##k##_RESULT] = r0, v[STEP##k##_RESULT + 1] = r1;                                   \
    v[STEP##k##_RESULT + 2] = r2, v[STEP##k##_RESULT + 3] = r3;                               \
  }

#define EACH_1(M) M(0)
#define EACH_2(M) EACH_1(M) M(1)
#define EACH_3(M) EACH_2(M) M(2)
#define EACH_4(M) EACH_3(M) M(3)
#define EACH_5(M) EACH_4(M) M(4)
#define EACH_6(M) EACH_5(M) M(5)
#define EACH_7(M) EACH_6(M) M(6)
#define EACH_8(M) EACH_7(M) M(7)
#define EACH_9(M) EACH_8(M) M(8)
#define EACH_10(M) EACH_9(M) M(9)
#define EACH_11(M) EACH_10(M) M(10)
#define EACH_12(M) EACH_11(M) M(11)
#define EACH_13(M) EACH_12(M) M(12)
#define EACH_14(M) EACH_13(M) M(13)
#define EACH_15(M) EACH_14(M) M(14)
#define EACH_16(M) EACH_15(M) M(15)
#define EACH_OF(count, M) EACH_##count(M)
#define EACH(count, M) EACH_OF(count, M)

typedef struct {
  R of[UHAL_STEPS][8];
} Parameters;

#define INPUT_POINTER(k) UHAL_POINTER(x##k),
#define OUTPUT_POINTER(k) UHAL_POINTER(y##k),
#define OPERAND_POINTERS EACH(UHAL_OUTPUTS, OUTPUT_POINTER) EACH(UHAL_INPUTS, INPUT_POINTER)

#if UHAL_STRIDED

UHAL_LAYOUT(Layout, UHAL_INPUTS + UHAL_OUTPUTS)
#define DTYPE(k) ((int32)((dtypes >> (5 * (k))) & 31))
#define LOAD(k) \
  v[k] = uhal_load(DTYPE(UHAL_OUTPUTS + k), UHAL_ADDRESS(const char, x##k), offsets[UHAL_OUTPUTS + k]);
#define STORE(k) uhal_store(DTYPE(k), UHAL_ADDRESS(char, y##k), offsets[k], v[BYTE(UHAL_RESULTS, k)]);

/* dtypes: the operands' uhal_dtype, 5 bits each. */
UHAL_KERNEL void strided(OPERAND_POINTERS const Parameters p, const Layout layout, int64 dtypes, INDEX count) {
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[UHAL_INPUTS + UHAL_OUTPUTS];
    for (int32 k = 0; k < UHAL_INPUTS + UHAL_OUTPUTS; ++k) offsets[k] = 0;
    UHAL_ADD_OFFSETS(layout, UHAL_INPUTS + UHAL_OUTPUTS, i, offsets);
    T v[UHAL_VALUES];
    EACH(UHAL_INPUTS, LOAD)
    EACH(UHAL_STEPS, STEP)
    EACH(UHAL_OUTPUTS, STORE)
  }
}

#else

/* How input k repeats: UHAL_MODES has 2 bits for each. Element i of the outputs takes
 *   SCALAR 0: element 0      DENSE 1: element i      ROW 2: element i % period      COLUMN 3: i / repeat % period
 * UHAL_UNIT: 4 or 8, of which addresses, and periods of rows and repeats of columns, are multiples; or 1. */
#define MODE(k) ((UHAL_MODES >> (2 * (k))) & 3)
#define DENSE 1
#define ROW 2
#define COLUMN 3

#if UHAL_JOINED

/* Of UHAL_MEMBERS maps; `first` is the work-item that begins with element 0. */
typedef struct {
  uint64 address[UHAL_MEMBERS][UHAL_OUTPUTS + UHAL_INPUTS];
  int32 count[UHAL_MEMBERS];
  int32 first[UHAL_MEMBERS];
} Members;

#define POSITION(k, i) (MODE(k) == DENSE ? (i) : 0)
#define INPUT(k) UHAL_ADDRESS_IN(const X##k##_STORAGE, maps.address[member][UHAL_OUTPUTS + k])
#define OUTPUT(k) UHAL_ADDRESS_IN(Y##k##_STORAGE, maps.address[member][k])

#else

typedef struct {
  INDEX period[UHAL_INPUTS];
  INDEX repeat[UHAL_INPUTS];
} Repeats;

#define POSITION(k, i)                      \
  (MODE(k) == DENSE    ? (i)                \
   : MODE(k) == ROW    ? (i) % r.period[k]  \
   : MODE(k) == COLUMN ? (i) / r.repeat[k] % r.period[k] \
                       : 0)
#define INPUT(k) UHAL_ADDRESS(const X##k##_STORAGE, x##k)
#define OUTPUT(k) UHAL_ADDRESS(Y##k##_STORAGE, y##k)

#endif

#define LOAD_ONE(k) v[k] = X##k##_LOAD(INPUT(k), POSITION(k, at));
#define STORE_ONE(k) Y##k##_STORE(OUTPUT(k), at, v[BYTE(UHAL_RESULTS, k)]);

/* The element at `at`. */
#define ONE_ELEMENT             \
  {                             \
    T v[UHAL_VALUES];                \
    EACH(UHAL_INPUTS, LOAD_ONE) \
    EACH(UHAL_STEPS, STEP)      \
    EACH(UHAL_OUTPUTS, STORE_ONE) \
  }

#define LOAD_UNIT(k)                                                        \
  if (MODE(k) == DENSE || MODE(k) == ROW) {                                 \
    UHAL_WIDE(X##k##_LOAD, UHAL_UNIT)(INPUT(k), POSITION(k, first), in[k]); \
  } else {                                                                  \
    const T value = X##k##_LOAD(INPUT(k), POSITION(k, first));              \
    UHAL_UNROLL for (int32 u = 0; u < UHAL_UNIT; ++u) in[k][u] = value;     \
  }
#define TAKE_LANE(k) v[k] = in[k][lane];
#define PUT_LANE(k) out[k][lane] = v[BYTE(UHAL_RESULTS, k)];
#define STORE_UNIT(k) UHAL_WIDE(Y##k##_STORE, UHAL_UNIT)(OUTPUT(k), first, out[k]);

/* Constant lanes, without a loop: arrays that are indexed by constants only stay in registers. */
#define LANE(number)             \
  {                              \
    enum { lane = number };      \
    T v[UHAL_VALUES];                 \
    EACH(UHAL_INPUTS, TAKE_LANE) \
    EACH(UHAL_STEPS, STEP)       \
    EACH(UHAL_OUTPUTS, PUT_LANE) \
  }

/* UHAL_UNIT elements from `first` on, of those before `count`. */
#define ONE_UNIT                                             \
  if (first + UHAL_UNIT <= count) {                          \
    T in[UHAL_INPUTS][UHAL_UNIT];                            \
    T out[UHAL_OUTPUTS][UHAL_UNIT];                          \
    EACH(UHAL_INPUTS, LOAD_UNIT)                             \
    LANES                                                    \
    EACH(UHAL_OUTPUTS, STORE_UNIT)                           \
  } else {                                                   \
    for (INDEX at = first; at < count; ++at) ONE_ELEMENT     \
  }
#if UHAL_UNIT == 8
#define LANES LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
#else
#define LANES LANE(0) LANE(1) LANE(2) LANE(3)
#endif

#if UHAL_JOINED

UHAL_KERNEL void joined(const Members maps, const Parameters p, int32 members) {
  const int32 item = UHAL_GLOBAL_ID(0);
  int32 member = 0;
  for (int32 k = 1; k < members; ++k) member = item >= maps.first[k] ? k : member;
  const INDEX first = (item - maps.first[member]) * UHAL_UNIT, count = maps.count[member];
#if UHAL_UNIT > 1
  ONE_UNIT
#else
  const INDEX at = first;
  if (at < count) ONE_ELEMENT
#endif
}

#else

/* No loop over the grid: there is a work-item for each unit. */
UHAL_KERNEL void flat(OPERAND_POINTERS const Parameters p, const Repeats r, INDEX count) {
#if UHAL_UNIT > 1
  const INDEX first = UHAL_GLOBAL_ID(0) * UHAL_UNIT;
  ONE_UNIT
#else
  /* Neighbouring work-items read neighbouring elements. */
  const INDEX first = UHAL_GROUP_ID(0) * 4 * UHAL_LOCAL_SIZE(0) + UHAL_LOCAL_ID(0);
  for (int32 k = 0; k < 4; ++k) {
    const INDEX at = first + k * UHAL_LOCAL_SIZE(0);
    if (at < count) ONE_ELEMENT
  }
#endif
}

#endif

#endif
