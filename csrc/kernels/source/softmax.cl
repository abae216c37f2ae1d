/* softmax and its gradient. Each row is read from memory once, where the members of its team can hold it.
 *
 * Macros: X, Y, and for the gradient G: the dtypes; UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/row_softmax.h"

/* Elements that a work-item holds in registers: kHeld of softmax.cc. */
#define HELD 16

#ifndef G_STORAGE

UHAL_ROWS(two_rows, 2)

/* `scale` is 1 / sum, or log(sum) for the logarithm. */
UHAL_INLINE T softmax_of(T x, T largest, T scale, int32 logarithm) {
  return logarithm ? x - largest - scale : exp(x - largest) * scale;
}

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax(UHAL_POINTER(x), UHAL_POINTER(y), two_rows rows,
                                                           int32 logarithm, int32 lanes, int32 adjacent) {
  UHAL_LOCAL T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_FOR_ROWS(rows, team) {
    INDEX offsets[2];
    UHAL_FIND_ROW(rows, 2, offsets);
    UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
    UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[1];
    uhal_exponentials total = {-INFINITY, 0};
    if (rows.length <= HELD * team.lanes) {
      T held[HELD];
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) {
        const INDEX i = team.lane + k * team.lanes;
        held[k] = i < length ? X_LOAD(x, i * rows.along[0]) : (T)-INFINITY;
      }
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) total.largest = uhal_larger(total.largest, held[k]);
      total.largest = uhal_team_maximum(total.largest, scratch, team);
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) {
        if (k * team.lanes < rows.length) {
          const T value = exp(held[k] - total.largest);
          total.sum += value;
          if (!logarithm) held[k] = value;
        }
      }
      total.sum = uhal_team_sum(total.sum, scratch, team);
      const T scale = logarithm ? log(total.sum) : 1 / total.sum;
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) {
        const INDEX i = team.lane + k * team.lanes;
        if (i < length) Y_STORE(y, i * rows.along[1], logarithm ? held[k] - total.largest - scale : held[k] * scale);
      }
    } else {
      for (INDEX i = team.lane; i < length; i += team.lanes) {
        total = uhal_add_exponential(total, X_LOAD(x, i * rows.along[0]));
      }
      total = uhal_team_exponentials(total, scratch, team);
      const T scale = logarithm ? log(total.sum) : 1 / total.sum;
      for (INDEX i = team.lane; i < length; i += team.lanes) {
        Y_STORE(y, i * rows.along[1], softmax_of(X_LOAD(x, i * rows.along[0]), total.largest, scale, logarithm));
      }
    }
  }
}

#else

UHAL_ROWS(three_rows, 3)

/* What a member adds to the sum of a row: y * dy, of the logarithm dy. */
UHAL_INLINE T term(T y, T dy, int32 logarithm) { return logarithm ? dy : y * dy; }

UHAL_INLINE T gradient(T y, T dy, T sum, int32 logarithm) {
  return logarithm ? dy - exp(y) * sum : y * (dy - sum);
}

/* x is the forward's output y, g its gradient dy, y the result dx. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void softmax_backward(UHAL_POINTER(x), UHAL_POINTER(g), UHAL_POINTER(y),
                                                                    three_rows rows, int32 logarithm, int32 lanes,
                                                                    int32 adjacent) {
  UHAL_LOCAL T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_FOR_ROWS(rows, team) {
    INDEX offsets[3];
    UHAL_FIND_ROW(rows, 3, offsets);
    UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
    UHAL_GLOBAL const G_STORAGE* g = UHAL_ADDRESS(const G_STORAGE, g) + offsets[1];
    UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y) + offsets[2];
    T sum = 0;
    if (rows.length <= HELD * team.lanes) {
      T held_x[HELD];
      T held_g[HELD];
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) {
        const INDEX i = team.lane + k * team.lanes;
        held_x[k] = i < length ? X_LOAD(x, i * rows.along[0]) : 0;
        held_g[k] = i < length ? G_LOAD(g, i * rows.along[1]) : 0;
      }
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) sum += term(held_x[k], held_g[k], logarithm);
      sum = uhal_team_sum(sum, scratch, team);
      UHAL_UNROLL
      for (int32 k = 0; k < HELD; ++k) {
        const INDEX i = team.lane + k * team.lanes;
        if (i < length) Y_STORE(y, i * rows.along[2], gradient(held_x[k], held_g[k], sum, logarithm));
      }
    } else {
      for (INDEX i = team.lane; i < length; i += team.lanes) {
        sum += term(X_LOAD(x, i * rows.along[0]), G_LOAD(g, i * rows.along[1]), logarithm);
      }
      sum = uhal_team_sum(sum, scratch, team);
      for (INDEX i = team.lane; i < length; i += team.lanes) {
        const T dx = gradient(X_LOAD(x, i * rows.along[0]), G_LOAD(g, i * rows.along[1]), sum, logarithm);
        Y_STORE(y, i * rows.along[2], dx);
      }
    }
  }
}

#endif
