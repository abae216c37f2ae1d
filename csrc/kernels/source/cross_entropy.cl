/* cross_entropy and its gradient.
 *
 * Macros: SPARSE: labels are class numbers, else distributions of dtype L; X: the dtype of the logits (of the
 * probabilities, for the gradient), P, G: of the probabilities and the gradient that come out; UHAL_GROUP. Forward also
 * HELD and UNIT of row_units.h, for the logits and what of the two comes out. */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/rows.h"
#include "csrc/kernels/prelude/row_softmax.h"
#include "csrc/kernels/prelude/row_units.h"

UHAL_ROWS(five_rows, 5) /* logits, labels, loss, probabilities, gradient */
UHAL_ROWS(four_rows, 4) /* probabilities, labels, dloss, dlogits */

/* How labels are read, the same for all rows: members by falling size. */
typedef struct {
  int64 ignore_index;
  int64 ticket; /* of uhal_report_error */
  int32 has_ignore;
  int32 wide; /* class numbers are int64, else int32 */
} label_rules;

/* The class number that a row's label is, or -1 for a row that is left out: an ignored one, or one whose number is no
 * class, which one member of the team reports. */
UHAL_INLINE int64 class_number(UHAL_GLOBAL const char* labels, INDEX offset, label_rules rules, INDEX classes,
                               UHAL_GLOBAL int64* errors, int32 reports) {
  const int64 number = rules.wide ? ((UHAL_GLOBAL const int64*)labels)[offset]
                                  : (int64)((UHAL_GLOBAL const int32*)labels)[offset];
  if (rules.has_ignore && number == rules.ignore_index) return -1;
  if (number >= 0 && number < classes) return number;
  if (reports) uhal_report_error(errors, rules.ticket, number, classes);
  return -1;
}

#ifdef FORWARD

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void cross_entropy(
    UHAL_POINTER(x), UHAL_POINTER(labels), UHAL_POINTER(weights), UHAL_POINTER(loss), UHAL_POINTER(probabilities),
    UHAL_POINTER(gradient), UHAL_POINTER(errors), five_rows rows, label_rules rules, INDEX weight_stride,
    int32 has_weights, int32 weights_dtype, int32 loss_dtype, int32 has_probabilities, int32 has_gradient, int32 lanes,
    int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* weights = UHAL_ADDRESS(const char, weights);
  INDEX offsets[5];
  UHAL_FIND_ROW(rows, 5, team, offsets);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  uhal_exponentials total = {-INFINITY, 0};
#if HELD
  T held[HELD];
  READ_ROW(X_LOAD, x, rows.along[0], held, -INFINITY)
  /* A NaN may be left out here: it makes the sum NaN. */
  FOR_OWN(i, k) total.largest = fmax(total.largest, held[k]);
  total.largest = uhal_team_maximum(total.largest, scratch, team);
  FOR_OWN(i, k) total.sum += exp(held[k] - total.largest);
  total.sum = uhal_team_sum(total.sum, scratch, team);
#define LOGIT(i, k) held[k]
#elif UNIT > 1
  for (INDEX i = UNIT * team.lane; i < length; i += UNIT * team.lanes) {
    T unit[UNIT];
    UHAL_WIDE(X_LOAD, UNIT)(x, i, unit);
    total = uhal_add_exponentials(total, unit, UNIT);
  }
  total = uhal_team_exponentials(total, scratch, team);
#else
  T few[FEW];
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, few, -INFINITY)
    total = uhal_add_exponentials(total, few, FEW);
  }
  total = uhal_team_exponentials(total, scratch, team);
#endif
  const T logarithm = log(total.sum);

  T row_loss = 0;
#if SPARSE
  int64 label = -1;
  if (row < rows.count) {
    label = class_number(UHAL_ADDRESS(const char, labels), offsets[1], rules, length,
                         UHAL_ADDRESS(int64, errors), team.lane == 0);
  }
  if (label >= 0) {
    row_loss = logarithm - (X_LOAD(x, (INDEX)label * rows.along[0]) - total.largest);
    if (has_weights) row_loss *= uhal_load(weights_dtype, weights, (INDEX)label * weight_stride);
  }
#else
  UHAL_GLOBAL const L_STORAGE* labels = UHAL_ADDRESS(const L_STORAGE, labels) + offsets[1];
  for (INDEX i = team.lane; i < length; i += team.lanes) {
    T share = L_LOAD(labels, i * rows.along[1]);
    if (has_weights) share *= uhal_load(weights_dtype, weights, i * weight_stride);
    /* A class without a share adds nothing, however unlikely it is. */
    if (share != 0) row_loss -= share * (X_LOAD(x, i * rows.along[0]) - total.largest - logarithm);
  }
  row_loss = uhal_team_sum(row_loss, scratch, team);
#endif
  if (row < rows.count && team.lane == 0) uhal_store(loss_dtype, UHAL_ADDRESS(char, loss), offsets[2], row_loss);

  if (has_probabilities || has_gradient) {
    UHAL_GLOBAL P_STORAGE* probabilities = UHAL_ADDRESS(P_STORAGE, probabilities) + offsets[3];
    UHAL_GLOBAL G_STORAGE* gradient = UHAL_ADDRESS(G_STORAGE, gradient) + offsets[4];
    const T scale = 1 / total.sum;
#define PROBABILITY(i, k) (exp(LOGIT(i, k) - total.largest) * scale)
#if SPARSE
#define DIFFERENCE(i, k) (label < 0 ? 0 : PROBABILITY(i, k) - (T)((i) == label))
#else
#define DIFFERENCE(i, k) (PROBABILITY(i, k) - L_LOAD(labels, (i)*rows.along[1]))
#endif
#if HELD
    if (has_probabilities) {
      WRITE_ROW(P_STORE, probabilities, rows.along[3], PROBABILITY)
    }
    if (has_gradient) {
      WRITE_ROW(G_STORE, gradient, rows.along[4], DIFFERENCE)
    }
#elif UNIT > 1
#define LOGIT(i, k) unit[k]
    for (INDEX i = UNIT * team.lane; i < length; i += UNIT * team.lanes) {
      T unit[UNIT], result[UNIT];
      UHAL_WIDE(X_LOAD, UNIT)(x, i, unit);
      if (has_probabilities) {
        UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) result[u] = PROBABILITY(i + u, u);
        UHAL_WIDE(P_STORE, UNIT)(probabilities, i, result);
      }
      if (has_gradient) {
        UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) result[u] = DIFFERENCE(i + u, u);
        UHAL_WIDE(G_STORE, UNIT)(gradient, i, result);
      }
    }
#else
#define LOGIT(i, k) few[k]
    FOR_OWN_FEW(i) {
      READ_FEW(X_LOAD, x, rows.along[0], i, few, 0)
      if (has_probabilities) {
        WRITE_FEW(P_STORE, probabilities, rows.along[3], i, PROBABILITY)
      }
      if (has_gradient) {
        WRITE_FEW(G_STORE, gradient, rows.along[4], i, DIFFERENCE)
      }
    }
#endif
  }
}

#else

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void cross_entropy_backward(
    UHAL_POINTER(x), UHAL_POINTER(labels), UHAL_POINTER(dloss), UHAL_POINTER(gradient), UHAL_POINTER(errors),
    four_rows rows, label_rules rules, int32 dloss_dtype, int32 lanes, int32 adjacent) {
  const uhal_team team = uhal_make_team(lanes, adjacent);
  INDEX offsets[4];
  UHAL_FIND_ROW(rows, 4, team, offsets);
  if (length == 0) return;
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x) + offsets[0];
  UHAL_GLOBAL G_STORAGE* gradient = UHAL_ADDRESS(G_STORAGE, gradient) + offsets[3];
  const T factor = uhal_load(dloss_dtype, UHAL_ADDRESS(const char, dloss), offsets[2]);
#if SPARSE
  const int64 label = class_number(UHAL_ADDRESS(const char, labels), offsets[1], rules, length,
                                   UHAL_ADDRESS(int64, errors), team.lane == 0);
#else
  UHAL_GLOBAL const L_STORAGE* labels = UHAL_ADDRESS(const L_STORAGE, labels) + offsets[1];
#endif
#if SPARSE
#define RESULT(i, k) (label < 0 ? 0 : (few[k] - (T)((i) == label)) * factor)
#else
#define RESULT(i, k) ((few[k] - L_LOAD(labels, (i)*rows.along[1])) * factor)
#endif
  T few[FEW];
  FOR_OWN_FEW(i) {
    READ_FEW(X_LOAD, x, rows.along[0], i, few, 0)
    WRITE_FEW(G_STORE, gradient, rows.along[3], i, RESULT)
  }
}

#endif
