/* softmax and its gradient.
 *
 * Macros: X, Y, and for the gradient G: the dtypes; HELD: how many elements a work-item holds in registers, so that
 * each row is read from memory once, or 0 for rows that are too long for their team; UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/row_softmax.h"

#if HELD
/* For each element i of the row that this work-item holds, as number k. */
#define FOR_OWN(i, k) \
  UHAL_UNROLL         \
  for (INDEX k = 0, i = team.lane; k < HELD; ++k, i += team.lanes)
#else
#define FOR_OWN(i, k) for (INDEX i = team.lane; i < length; i += team.lanes)
#endif

#ifndef G_STORAGE

UHAL_ROWS(two_rows, 2)

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax(UHAL_POINTER(x), UHAL_POINTER(y), two_rows rows,
                                                           int32 logarithm, int32 lanes, int32 adjacent) {
  UHAL_LOCAL T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[2];
  UHAL_FIND_ROW(rows, 2, team, offsets);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[1];
  uhal_exponentials total = {-INFINITY, 0};
#if HELD
  T held[HELD];
  FOR_OWN(i, k) held[k] = i < length ? X_LOAD(x, i * rows.along[0]) : (T)-INFINITY;
  FOR_OWN(i, k) total.largest = uhal_larger(total.largest, held[k]);
  total.largest = uhal_team_maximum(total.largest, scratch, team);
  FOR_OWN(i, k) {
    const T value = exp(held[k] - total.largest);
    total.sum += value;
    if (!logarithm) held[k] = value;
  }
  total.sum = uhal_team_sum(total.sum, scratch, team);
#define RESULT(i, k) (logarithm ? held[k] - total.largest - scale : held[k] * scale)
#else
  FOR_OWN(i, k) total = uhal_add_exponential(total, X_LOAD(x, i * rows.along[0]));
  total = uhal_team_exponentials(total, scratch, team);
#define DIFFERENCE(i) (X_LOAD(x, i * rows.along[0]) - total.largest)
#define RESULT(i, k) (logarithm ? DIFFERENCE(i) - scale : exp(DIFFERENCE(i)) * scale)
#endif
  const T scale = logarithm ? log(total.sum) : 1 / total.sum;
  FOR_OWN(i, k) {
    if (i < length) Y_STORE(y, i * rows.along[1], RESULT(i, k));
  }
}

#else

UHAL_ROWS(three_rows, 3)

/* x is the forward's output y, g its gradient dy, y the result dx. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax_backward(UHAL_POINTER(x), UHAL_POINTER(g), UHAL_POINTER(y),
                                                                    three_rows rows, int32 logarithm, int32 lanes,
                                                                    int32 adjacent) {
  UHAL_LOCAL T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[3];
  UHAL_FIND_ROW(rows, 3, team, offsets);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL const G_STORAGE* g = UHAL_ADDRESS(const G_STORAGE, g) + offsets[1];
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[2];
#if HELD
  T held_x[HELD];
  T held_g[HELD];
  FOR_OWN(i, k) {
    held_x[k] = i < length ? X_LOAD(x, i * rows.along[0]) : 0;
    held_g[k] = i < length ? G_LOAD(g, i * rows.along[1]) : 0;
  }
#define X_VALUE(i, k) held_x[k]
#define G_VALUE(i, k) held_g[k]
#else
#define X_VALUE(i, k) X_LOAD(x, i * rows.along[0])
#define G_VALUE(i, k) G_LOAD(g, i * rows.along[1])
#endif
  T sum = 0;
  FOR_OWN(i, k) sum += logarithm ? G_VALUE(i, k) : X_VALUE(i, k) * G_VALUE(i, k);
  sum = uhal_team_sum(sum, scratch, team);
  FOR_OWN(i, k) {
    if (i < length) {
      const T forward = X_VALUE(i, k);
      const T dy = G_VALUE(i, k);
      Y_STORE(y, i * rows.along[2], logarithm ? dy - exp(forward) * sum : forward * (dy - sum));
    }
  }
}

#endif
