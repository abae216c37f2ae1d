/* scan: running sums and their like along an axis. The members of a team share a row: each combines its neighbours
 * along the axis, learns what the members before it have, and goes through its neighbours again. Where there are few
 * rows, each is cut into parts: a first launch writes the totals of the parts, a second one begins each part with those
 * of the parts before.
 *
 * With PLACES a maximum or minimum carries where it was last.
 *
 * Macros: STEP (reduce_steps.h: sum to minimum, or log_sum_exp), X: the dtype of x, PLACES, UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/reduce_steps.h"

#if PLACES
#define OPERANDS 3 /* x, y, indices */
#else
#define OPERANDS 2
#endif
UHAL_ROWS(operand_rows, OPERANDS)

/* -- what is carried along a row ------------------------------------------------------------------------ */

#if PLACES

typedef struct {
  T value;
  INDEX place; /* in the order of the scan; -1: of nothing */
} carried;

UHAL_INLINE carried nothing(T neutral) {
  carried result = {neutral, -1};
  return result;
}

UHAL_INLINE carried element(T value, INDEX place) {
  carried result = {value, place};
  return result;
}

/* NaN counts as the extreme; of equals, the last. So the order in which values are combined does not matter. */
UHAL_INLINE carried combine(carried a, carried b) {
#if STEP == UHAL_STEP_MAXIMUM
  const int32 beyond = b.value > a.value;
#else
  const int32 beyond = b.value < a.value;
#endif
  const int32 a_nan = a.value != a.value;
  const int32 b_nan = b.value != b.value;
  const int32 equal = (a_nan && b_nan) || a.value == b.value;
  return (equal ? b.place > a.place : b_nan || (beyond && !a_nan)) ? b : a;
}

#define VALUE_OF(carried) (carried).value

#else

typedef T carried;

UHAL_INLINE T nothing(T neutral) { return neutral; }

UHAL_INLINE T element(T value, INDEX place) { return value; }

UHAL_INLINE T combine(T a, T b) {
#if UHAL_IS_COMPLEX /* a product: of sums the parts are summed up */
  return complex_multiply(a, b);
#elif STEP == UHAL_STEP_PRODUCT
  return a * b;
#elif STEP == UHAL_STEP_MAXIMUM
  return uhal_larger(a, b);
#elif STEP == UHAL_STEP_MINIMUM
  return (a < b || a != a) ? a : b;
#elif STEP == UHAL_STEP_LOG_SUM_EXP
  const T larger = a > b ? a : b, smaller = a > b ? b : a;
  if (larger - larger != 0) return smaller != smaller ? smaller : larger; /* infinite, or NaN */
  return larger + log1p(exp(smaller - larger));
#else
  return a + b;
#endif
}

#define VALUE_OF(carried) (carried)

#endif

UHAL_TEAM_REDUCTION(combine_team, carried, combine)

/* Members whose values one member combines by itself. */
#define BLOCK 16

/* Combines what the members before this one have (`neutral` for the first). All members call it together. In two levels,
 * as the reductions of group.h. */
UHAL_INLINE carried members_before(carried own, UHAL_LOCAL carried* scratch, uhal_team team, carried neutral) {
  UHAL_LOCAL carried* first = scratch + (int32)UHAL_LOCAL_ID(0) - team.lane * team.distance;
  const int32 block = team.lane / BLOCK;
  first[team.lane * team.distance] = own;
  UHAL_BARRIER();
  carried in_block = neutral;
  for (int32 member = block * BLOCK; member < team.lane; ++member) {
    in_block = combine(in_block, first[member * team.distance]);
  }
  UHAL_BARRIER();
  if (team.lane % BLOCK == BLOCK - 1) first[block * team.distance] = combine(in_block, own);
  UHAL_BARRIER();
  carried blocks = neutral;
  for (int32 before = 0; before < block; ++before) blocks = combine(blocks, first[before * team.distance]);
  UHAL_BARRIER();
  return combine(blocks, in_block);
}

/* Along axis 0 of the grid: the rows; along axis 1: their parts. `only_totals`: writes totals[row][part], else y, and
 * with PLACES the places as int32 or int64. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void scan(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(indices),
                                                        UHAL_POINTER(totals), operand_rows rows, T neutral,
                                                        int32 y_dtype, int32 indices_are_int64, int32 exclusive,
                                                        int32 reverse, int32 only_totals, int32 lanes,
                                                        int32 adjacent) {
  UHAL_LOCAL_MEMORY carried scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[OPERANDS];
  UHAL_FIND_ROW(rows, OPERANDS, team, offsets);
  UHAL_GLOBAL carried* totals = UHAL_ADDRESS(carried, totals);
  const INDEX parts = UHAL_GROUP_COUNT(1);
  const INDEX part = UHAL_GROUP_ID(1);

  /* A member's share is `share` neighbours along the axis; those of all parts together cover the row. */
  const INDEX share = (rows.length + parts * team.lanes - 1) / (parts * team.lanes);
  const INDEX at = (part * team.lanes + team.lane) * share;
  const INDEX begin = at < length ? at : length;
  const INDEX end = begin + share < length ? begin + share : length;
  const INDEX step = reverse ? -rows.along[0] : rows.along[0];
  const INDEX y_step = reverse ? -rows.along[1] : rows.along[1];
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  if (reverse && length > 0) {
    x += (length - 1) * rows.along[0];
    offsets[1] += (length - 1) * rows.along[1];
  }

  carried earlier = nothing(neutral); /* of the parts before */
  if (length > 0 && !only_totals) {
    for (INDEX i = team.lane; i < part; i += team.lanes) earlier = combine(earlier, totals[row * parts + i]);
  }
  earlier = combine_team(earlier, scratch, team);

  carried own = nothing(neutral);
  for (INDEX i = begin; i < end; ++i) own = combine(own, element(X_LOAD(x, i * step), i));
  const carried before = members_before(own, scratch, team, nothing(neutral));

  if (only_totals) {
    if (length > 0 && team.lane == team.lanes - 1) totals[row * parts + part] = combine(before, own);
  } else {
    carried running = combine(earlier, before);
    for (INDEX i = begin; i < end; ++i) {
      const carried next = combine(running, element(X_LOAD(x, i * step), i));
      uhal_store(y_dtype, UHAL_ADDRESS(char, y), offsets[1] + i * y_step, VALUE_OF(exclusive ? running : next));
#if PLACES
      const INDEX place = reverse ? length - 1 - next.place : next.place;
      const INDEX to = offsets[2] + (reverse ? length - 1 - i : i) * rows.along[2];
      if (indices_are_int64) {
        UHAL_ADDRESS(int64, indices)[to] = place;
      } else {
        UHAL_ADDRESS(int32, indices)[to] = (int32)place;
      }
#endif
      running = next;
    }
  }
}
