/* reduce and arg_reduce. One team of work-items combines the elements of one output, or of a slice of them where there
 * are few outputs; a second launch (PARTIAL) combines the slices.
 *
 * Macros: STEP (reduce_steps.h), PARTIAL: x holds accumulators, X: the dtype of x (if not PARTIAL), UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/reduce_steps.h"

UHAL_LAYOUT(kept_layout, 2)    /* x and y over the outputs */
UHAL_LAYOUT(reduced_layout, 2) /* x over the elements of one output */

/* -- accumulators --------------------------------------------------------------------------------------- */

#if STEP == UHAL_STEP_LOG_SUM_EXP

/* sum = sum(exp(x - shift(largest))). */
typedef struct {
  T largest;
  T sum;
} accumulator;

/* An infinite largest element would make x - largest NaN. */
UHAL_INLINE T shift(T largest) { return largest - largest == 0 ? largest : 0; }

UHAL_INLINE accumulator nothing(T neutral) {
  accumulator result = {neutral, 0};
  return result;
}

UHAL_INLINE accumulator element(T value, INDEX position) {
  accumulator result = {value, exp(value - shift(value))};
  return result;
}

/* `sum` for another shift. That of nothing stays nothing, however far apart the shifts. */
UHAL_INLINE T shifted(accumulator a, T to) { return a.sum == 0 ? 0 : a.sum * exp(shift(a.largest) - to); }

UHAL_INLINE accumulator combine(accumulator a, accumulator b) {
  accumulator result;
  result.largest = uhal_larger(a.largest, b.largest);
  result.sum = shifted(a, shift(result.largest)) + shifted(b, shift(result.largest));
  return result;
}

#elif STEP == UHAL_STEP_FIRST_MAXIMUM || STEP == UHAL_STEP_FIRST_MINIMUM

typedef struct {
  T value;
  INDEX position; /* -1: of nothing */
} accumulator;

UHAL_INLINE accumulator nothing(T neutral) {
  accumulator result = {neutral, -1};
  return result;
}

UHAL_INLINE accumulator element(T value, INDEX position) {
  accumulator result = {value, position};
  return result;
}

/* NaN counts as the extreme; of equals, the first. */
UHAL_INLINE accumulator combine(accumulator a, accumulator b) {
#if STEP == UHAL_STEP_FIRST_MAXIMUM
  const int32 beyond = b.value > a.value;
#else
  const int32 beyond = b.value < a.value;
#endif
  const int32 a_nan = a.value != a.value;
  const int32 b_nan = b.value != b.value;
  const int32 equal = (a_nan && b_nan) || a.value == b.value;
  const int32 better = equal ? b.position < a.position : b_nan || (beyond && !a_nan);
  return b.position >= 0 && (a.position < 0 || better) ? b : a;
}

#else

typedef T accumulator;

UHAL_INLINE T nothing(T neutral) { return neutral; }

UHAL_INLINE T element(T value, INDEX position) {
#if STEP == UHAL_STEP_ALL || STEP == UHAL_STEP_ANY
  return value != 0;
#elif STEP == UHAL_STEP_SUM_OF_SQUARES
  return value * value;
#elif STEP == UHAL_STEP_SUM_OF_ABSOLUTES
  return value < 0 ? -value : value;
#else
  return value;
#endif
}

UHAL_INLINE T combine(T a, T b) {
#if UHAL_IS_COMPLEX /* a product: of sums the parts are summed up */
  return complex_multiply(a, b);
#elif STEP == UHAL_STEP_PRODUCT || STEP == UHAL_STEP_ALL
  return a * b;
#elif STEP == UHAL_STEP_MAXIMUM || STEP == UHAL_STEP_ANY
  return uhal_larger(a, b);
#elif STEP == UHAL_STEP_MINIMUM
  return (a < b || a != a) ? a : b;
#else
  return a + b;
#endif
}

#endif

UHAL_TEAM_REDUCTION(combine_team, accumulator, combine)

/* -- reading -------------------------------------------------------------------------------------------- */

#if PARTIAL
typedef accumulator input;
#define READ(x, offset, position) ((x)[offset])
#else
typedef X_STORAGE input;
#define READ(x, offset, position) element(X_LOAD(x, offset), position)
#endif

/* Loads in flight per work-item, each with an accumulator of its own; of aligned fours, FOURS. */
#if STEP == UHAL_STEP_LOG_SUM_EXP
#define UNROLL 2 /* each has two exponentials: code, not loads, is the limit */
#define FOURS 1
#else
#define UNROLL 4
#define FOURS 4
#endif

#if !PARTIAL
/* A team member's share of `count` neighbours, a multiple of four, in aligned fours: as many bytes as a work-item loads
 * at once. The first has this position along the axis. */
UHAL_INLINE accumulator read_fours(accumulator result, UHAL_GLOBAL const input* x, INDEX count, INDEX position,
                                   T neutral, uhal_team team) {
  const INDEX step = 4 * team.lanes;
  accumulator sums[4];
  T values[FOURS][4];
  UHAL_UNROLL
  for (int32 k = 0; k < 4; ++k) sums[k] = nothing(neutral);
  INDEX i = 4 * team.lane;
  for (; i + (FOURS - 1) * step < count; i += FOURS * step) {
    UHAL_UNROLL
    for (int32 n = 0; n < FOURS; ++n) X_LOAD4(x, i + n * step, values[n]);
    UHAL_UNROLL
    for (int32 n = 0; n < FOURS; ++n) {
      UHAL_UNROLL
      for (int32 k = 0; k < 4; ++k) sums[k] = combine(sums[k], element(values[n][k], position + i + n * step + k));
    }
  }
  for (; i < count; i += step) {
    X_LOAD4(x, i, values[0]);
    UHAL_UNROLL
    for (int32 k = 0; k < 4; ++k) sums[k] = combine(sums[k], element(values[0][k], position + i + k));
  }
  return combine(result, combine(combine(sums[0], sums[1]), combine(sums[2], sums[3])));
}
#endif

/* A team member's share of `count` elements that lie `stride` apart; the first has this position along the axis. */
UHAL_INLINE accumulator read_run(accumulator result, UHAL_GLOBAL const input* x, INDEX count, INDEX stride,
                                 INDEX position, T neutral, uhal_team team) {
  INDEX i = team.lane;
  if (i + (UNROLL - 1) * team.lanes < count) {
    accumulator sums[UNROLL];
    UHAL_UNROLL
    for (int32 k = 0; k < UNROLL; ++k) sums[k] = nothing(neutral);
    for (; i + (UNROLL - 1) * team.lanes < count; i += UNROLL * team.lanes) {
      UHAL_UNROLL
      for (int32 k = 0; k < UNROLL; ++k) {
        const INDEX at = i + k * team.lanes;
        sums[k] = combine(sums[k], READ(x, at * stride, position + at));
      }
    }
    UHAL_UNROLL
    for (int32 width = UNROLL / 2; width > 0; width /= 2) {
      UHAL_UNROLL
      for (int32 k = 0; k < width; ++k) sums[k] = combine(sums[k], sums[k + width]);
    }
    result = combine(result, sums[0]);
  }
  for (; i < count; i += team.lanes) result = combine(result, READ(x, i * stride, position + i));
  return result;
}

/* -- results -------------------------------------------------------------------------------------------- */

#if STEP != UHAL_STEP_FIRST_MAXIMUM && STEP != UHAL_STEP_FIRST_MINIMUM && !UHAL_IS_COMPLEX

UHAL_INLINE T square_root(T value) {
#if UHAL_IS_FLOATING
  return sqrt(value);
#else
  /* Of a sum of squares: an unsigned number, however large. Down, from an estimate in float and one step of Newton's. */
  const uint64 square = (uint64)value;
  if (square == 0) return 0;
  uint64 root = (uint64)sqrt((float)square);
  root = (root + square / root) / 2;
  if (root > 0xffffffffu) root = 0xffffffffu;
  while (root * root > square) --root;
  while (root < 0xffffffffu && (root + 1) * (root + 1) <= square) ++root;
  return (T)root;
#endif
}

#endif

UHAL_INLINE void write(UHAL_GLOBAL char* y, int32 dtype, INDEX offset, accumulator result, int32 finish, INDEX length) {
#if STEP == UHAL_STEP_FIRST_MAXIMUM || STEP == UHAL_STEP_FIRST_MINIMUM
  if (dtype == 5) { /* int64 */
    ((UHAL_GLOBAL int64*)y)[offset] = result.position;
  } else {
    ((UHAL_GLOBAL int32*)y)[offset] = (int32)result.position;
  }
#elif STEP == UHAL_STEP_LOG_SUM_EXP
  uhal_store(dtype, y, offset, log(result.sum) + shift(result.largest));
#elif UHAL_IS_COMPLEX
  uhal_store(dtype, y, offset, result);
#else
  if (finish == UHAL_FINISH_SQUARE_ROOT) result = square_root(result);
#if UHAL_IS_FLOATING
  if (finish == UHAL_FINISH_MEAN) result /= (T)length;
#else
  if (finish == UHAL_FINISH_MEAN && length > 0) result /= (T)length;
#endif
  uhal_store(dtype, y, offset, result);
#endif
}

/* -- the kernel ----------------------------------------------------------------------------------------- */

/* Along axis 0 of the grid: the outputs; along axis 1: the slices of the `length` elements that each has, in the order
 * of their layout. More than one slice write to partials[slice][output]. `total` is what the mean divides by. `in_fours`: x is aligned
 * to four elements, and elements along the innermost axis are neighbours. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void reduce(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(partials),
                                                          kept_layout kept, reduced_layout reduced, INDEX outputs,
                                                          INDEX length, INDEX total, T neutral, int32 finish,
                                                          int32 y_dtype, int32 in_fours, int32 lanes,
                                                          int32 adjacent) {
  UHAL_LOCAL_MEMORY accumulator scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const input* x = UHAL_ADDRESS(const input, x);
  const INDEX slices = UHAL_GROUP_COUNT(1);
  const INDEX slice = UHAL_GROUP_ID(1);
  const INDEX per_slice = ((length + slices - 1) / slices + 3) & ~(INDEX)3; /* fours stay aligned */
  const INDEX begin = slice * per_slice < length ? slice * per_slice : length;
  const INDEX end = begin + per_slice < length ? begin + per_slice : length;
  const INDEX inner = UHAL_AT(reduced.shape, reduced.rank - 1);
  const INDEX stride = UHAL_AT(reduced.strides[0], reduced.rank - 1);

  const INDEX output = UHAL_GROUP_ID(0) * team.teams + team.index;
  INDEX offsets[2] = {0, 0};
  accumulator result = nothing(neutral);
  if (output < outputs) {
    UHAL_ADD_OFFSETS(kept, 2, output, offsets);
    if (inner >= 2 * team.lanes || reduced.rank == 1) {
      /* Along the innermost axis the team runs without a division. */
      for (INDEX position = begin; position < end;) {
        const INDEX along = position % inner;
        const INDEX count = inner - along < end - position ? inner - along : end - position;
        INDEX from[2] = {offsets[0], 0};
        UHAL_ADD_OFFSETS(reduced, 2, position, from);
#if !PARTIAL
        if (in_fours && ((count | from[0]) & 3) == 0) {
          result = read_fours(result, x + from[0], count, position, neutral, team);
        } else
#endif
          result = read_run(result, x + from[0], count, stride, position, neutral, team);
        position += count;
      }
    } else {
      for (INDEX position = begin + team.lane; position < end; position += team.lanes) {
        INDEX from[2] = {offsets[0], 0};
        UHAL_ADD_OFFSETS(reduced, 2, position, from);
        result = combine(result, READ(x, from[0], position));
      }
    }
  }
  result = combine_team(result, scratch, team);
  if (output < outputs && team.lane == 0) {
    if (slices > 1) {
      UHAL_ADDRESS(accumulator, partials)[slice * outputs + output] = result;
    } else {
      write(UHAL_ADDRESS(char, y), y_dtype, offsets[1], result, finish, total);
    }
  }
}
