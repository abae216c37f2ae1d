/* softmax and its gradient.
 *
 * Macros: X, Y, and for the gradient G: the dtypes; HELD and UNIT of row_units.h, for all operands; UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/row_softmax.h"
#include "csrc/kernels/prelude/row_units.h"

#ifndef G_STORAGE

UHAL_ROWS(two_rows, 2)

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax(UHAL_POINTER(x), UHAL_POINTER(y), two_rows rows,
                                                           int32 logarithm, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[2];
  UHAL_FIND_ROW(rows, 2, team, offsets);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[1];
  uhal_exponentials total = {-INFINITY, 0};
#if HELD
  T held[HELD];
  READ_ROW(X_LOAD, x, rows.along[0], held, -INFINITY)
  /* A NaN may be left out here: it makes the sum NaN. */
  FOR_OWN(i, k) total.largest = fmax(total.largest, held[k]);
  total.largest = uhal_team_maximum(total.largest, scratch, team);
  FOR_OWN(i, k) {
    const T value = exp(held[k] - total.largest);
    total.sum += value;
    if (!logarithm) held[k] = value;
  }
  total.sum = uhal_team_sum(total.sum, scratch, team);
#define RESULT(i, k) (logarithm ? held[k] - total.largest - scale : held[k] * scale)
#else
  T few[FEW];
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, few, -INFINITY)
    total = uhal_add_exponentials(total, few, FEW);
  }
  total = uhal_team_exponentials(total, scratch, team);
#define RESULT(i, k) (logarithm ? few[k] - total.largest - scale : exp(few[k] - total.largest) * scale)
#endif
  const T scale = logarithm ? log(total.sum) : 1 / total.sum;
#if HELD
  WRITE_ROW(Y_STORE, y, rows.along[1], RESULT)
#else
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, few, 0)
    WRITE_FEW(Y_STORE, y, rows.along[1], i, RESULT)
  }
#endif
}

#else

UHAL_ROWS(three_rows, 3)

/* x is the forward's output y, g its gradient dy, y the result dx. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax_backward(UHAL_POINTER(x), UHAL_POINTER(g), UHAL_POINTER(y),
                                                                    three_rows rows, int32 logarithm, int32 lanes,
                                                                    int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[3];
  UHAL_FIND_ROW(rows, 3, team, offsets);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL const G_STORAGE* g = UHAL_ADDRESS(const G_STORAGE, g) + offsets[1];
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[2];
#if HELD
  T held_x[HELD];
  T held_g[HELD];
  READ_ROW(X_LOAD, x, rows.along[0], held_x, 0)
  READ_ROW(G_LOAD, g, rows.along[1], held_g, 0)
#else
  T held_x[FEW];
  T held_g[FEW];
#endif
#define TERM(k) (logarithm ? held_g[k] : held_x[k] * held_g[k])
#define RESULT(i, k) (logarithm ? held_g[k] - exp(held_x[k]) * sum : held_x[k] * (held_g[k] - sum))
  T sum = 0;
#if HELD
  FOR_OWN(i, k) sum += TERM(k);
#else
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, held_x, 0)
    READ_FEW(G_LOAD, g, rows.along[1], i, held_g, 0)
    UHAL_UNROLL for (int32 k = 0; k < FEW; ++k) sum += TERM(k);
  }
#endif
  sum = uhal_team_sum(sum, scratch, team);
#if HELD
  WRITE_ROW(Y_STORE, y, rows.along[2], RESULT)
#else
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, held_x, 0)
    READ_FEW(G_LOAD, g, rows.along[1], i, held_g, 0)
    WRITE_FEW(Y_STORE, y, rows.along[2], i, RESULT)
  }
#endif
}

#endif
