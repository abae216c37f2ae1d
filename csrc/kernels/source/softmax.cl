/* softmax and its gradient.
 *
 * Macros: X, Y, and for the gradient G: the dtypes; HELD: how many elements a work-item holds in registers, so that
 * each row is read from memory once, or 0 for rows that are too long for their team; DENSE: with HELD, each row lies
 * dense in all operands, in aligned fours; UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/row_softmax.h"

/* FOR_OWN: for each element i of the row that this work-item has, held as number k.
 * READ_ROW: held[0 to HELD-1] = the row's elements at x, or `rest` beyond its end.
 * WRITE_ROW: the row at y = result(i, k). */
#if DENSE
/* A work-item's elements are aligned fours of neighbours, a team's fours lie side by side. */
#define FOR_OWN(i, k) UHAL_UNROLL for (INDEX k = 0; k < HELD; ++k)
#define FOR_OWN_FOURS(i, k) UHAL_UNROLL for (INDEX k = 0, i = 4 * team.lane; k < HELD; k += 4, i += 4 * team.lanes)
#define READ_ROW(load, load4, x, along, held, rest)             \
  FOR_OWN_FOURS(i, k) {                                         \
    if (i < length) {                                           \
      load4(x, i, held + k);                                    \
    } else {                                                    \
      held[k] = held[k + 1] = held[k + 2] = held[k + 3] = rest; \
    }                                                           \
  }
#define WRITE_ROW(y, along, result)                                                                \
  FOR_OWN_FOURS(i, k) {                                                                            \
    if (i < length) {                                                                              \
      T four[4];                                                                                   \
      four[0] = result(i, k), four[1] = result(i + 1, k + 1), four[2] = result(i + 2, k + 2);      \
      four[3] = result(i + 3, k + 3);                                                              \
      Y_STORE4(y, i, four);                                                                        \
    }                                                                                              \
  }
#else
#if HELD
#define FOR_OWN(i, k) UHAL_UNROLL for (INDEX k = 0, i = team.lane; k < HELD; ++k, i += team.lanes)
#else
#define FOR_OWN(i, k) for (INDEX i = team.lane; i < length; i += team.lanes)
#endif
#define READ_ROW(load, load4, x, along, held, rest) \
  FOR_OWN(i, k) { held[k] = i < length ? load(x, i * along) : (T)rest; }
#define WRITE_ROW(y, along, result)                      \
  FOR_OWN(i, k) {                                        \
    if (i < length) Y_STORE(y, i * along, result(i, k)); \
  }
#endif

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
  READ_ROW(X_LOAD, X_LOAD4, x, rows.along[0], held, -INFINITY)
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
  WRITE_ROW(y, rows.along[1], RESULT)
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
  READ_ROW(X_LOAD, X_LOAD4, x, rows.along[0], held_x, 0)
  READ_ROW(G_LOAD, G_LOAD4, g, rows.along[1], held_g, 0)
#define X_VALUE(i, k) held_x[k]
#define G_VALUE(i, k) held_g[k]
#else
#define X_VALUE(i, k) X_LOAD(x, i * rows.along[0])
#define G_VALUE(i, k) G_LOAD(g, i * rows.along[1])
#endif
  T sum = 0;
  FOR_OWN(i, k) sum += logarithm ? G_VALUE(i, k) : X_VALUE(i, k) * G_VALUE(i, k);
  sum = uhal_team_sum(sum, scratch, team);
#define RESULT(i, k) \
  (logarithm ? G_VALUE(i, k) - exp(X_VALUE(i, k)) * sum : X_VALUE(i, k) * (G_VALUE(i, k) - sum))
  WRITE_ROW(y, rows.along[2], RESULT)
}

#endif
