/* scan: running sums and their like along an axis. A team of work-items walks along a row, a piece of it after the
 * other. Where there are few rows, each is cut into parts: a first launch writes the totals of the parts, a second one
 * begins each part with those of the parts before.
 *
 * Macros: STEP (reduce_steps.h: sum to minimum), X: the dtype of x, UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/reduce_steps.h"

/* Neighbours along the axis that a work-item takes at a time: kItems of scan.cc. */
#define ITEMS 4

UHAL_ROWS(two_rows, 2) /* x, y */

UHAL_INLINE T combine(T a, T b) {
#if STEP == UHAL_STEP_PRODUCT
  return a * b;
#elif STEP == UHAL_STEP_MAXIMUM
  return uhal_larger(a, b);
#elif STEP == UHAL_STEP_MINIMUM
  return (a < b || a != a) ? a : b;
#else
  return a + b;
#endif
}

UHAL_TEAM_REDUCTION(combine_team, T, combine)

/* Combines what the members before this one have (`neutral` for the first). All members call it together. */
UHAL_INLINE T members_before(T own, UHAL_LOCAL T* scratch, uhal_team team, T neutral) {
  UHAL_LOCAL T* slot = scratch + (int32)UHAL_LOCAL_ID(0);
  *slot = own;
  UHAL_BARRIER();
  for (int32 step = 1; step < team.lanes; step *= 2) {
    const T before = team.lane >= step ? slot[-step * team.distance] : neutral;
    UHAL_BARRIER();
    own = combine(before, own);
    *slot = own;
    UHAL_BARRIER();
  }
  const T before = team.lane > 0 ? slot[-team.distance] : neutral;
  UHAL_BARRIER();
  return before;
}

/* Along axis 0 of the grid: the rows; along axis 1: their parts. `only_totals`: writes totals[row][part], else y. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void scan(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(totals),
                                                        two_rows rows, T neutral, int32 y_dtype, int32 exclusive,
                                                        int32 reverse, int32 only_totals, int32 lanes,
                                                        int32 adjacent) {
  UHAL_LOCAL T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL T* totals = UHAL_ADDRESS(T, totals);
  UHAL_GLOBAL char* y = UHAL_ADDRESS(char, y);
  const INDEX parts = UHAL_GROUP_COUNT(1);
  const INDEX part = UHAL_GROUP_ID(1);
  const INDEX per_part = (rows.length + parts - 1) / parts;
  const INDEX begin = part * per_part < rows.length ? part * per_part : rows.length;
  const INDEX end = begin + per_part < rows.length ? begin + per_part : rows.length;
  UHAL_FOR_ROWS(rows, team) {
    INDEX offsets[2];
    UHAL_FIND_ROW(rows, 2, offsets);
    UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
    T carry = neutral;
    if (!only_totals && part > 0) {
      if (length > 0) {
        for (INDEX i = team.lane; i < part; i += team.lanes) carry = combine(carry, totals[row * parts + i]);
      }
      carry = combine_team(carry, scratch, team);
    }
    for (INDEX piece = begin; piece < end; piece += ITEMS * team.lanes) {
      const INDEX first = piece + ITEMS * team.lane;
      T values[ITEMS];
      T own = neutral;
      UHAL_UNROLL
      for (int32 k = 0; k < ITEMS; ++k) {
        const INDEX i = reverse ? rows.length - 1 - (first + k) : first + k;
        values[k] = length > 0 && first + k < end ? X_LOAD(x, i * rows.along[0]) : neutral;
        own = combine(own, values[k]);
      }
      if (!only_totals) {
        T running = combine(carry, members_before(own, scratch, team, neutral));
        UHAL_UNROLL
        for (int32 k = 0; k < ITEMS; ++k) {
          const INDEX i = reverse ? rows.length - 1 - (first + k) : first + k;
          const T next = combine(running, values[k]);
          if (length > 0 && first + k < end) {
            uhal_store(y_dtype, y, offsets[1] + i * rows.along[1], exclusive ? running : next);
          }
          running = next;
        }
      }
      carry = combine(carry, combine_team(own, scratch, team));
    }
    if (only_totals && length > 0 && team.lane == 0) totals[row * parts + part] = carry;
  }
}
