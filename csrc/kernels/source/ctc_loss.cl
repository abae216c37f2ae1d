/* ctc_loss: forward and backward over the labels with blanks between them, in logarithms (csrc/kernels/ops/ctc_loss.cc).
 * A state is a blank (even numbers) or a label (odd ones). A work-group has a sequence, and goes from step to step.
 *
 * Macros: X: the dtype of logits, loss and gradient; UHAL_GROUP. */
#include "csrc/kernels/prelude/group.h"

typedef struct {
  INDEX steps, batch, classes, states; /* states: of the longest row of labels */
  INDEX logits[3], labels[2], gradient[3];
  INDEX loss, logit_lengths, label_lengths;
  INDEX rows; /* of alphas that are kept: all steps, or 2 */
  INDEX blank;
  INDEX labels_are_int64;
  INDEX logit_length_kind; /* 0: none, 1: int32, 2: int64 */
  INDEX label_length_kind;
} CtcPlan;

UHAL_INLINE INDEX clamped(int64 length, INDEX most) {
  return length < 0 ? 0 : length > (int64)most ? most : (INDEX)length;
}

UHAL_INLINE INDEX length_at(UHAL_GLOBAL const char* lengths, INDEX kind, INDEX at, INDEX most) {
  if (kind == 0) return most;
  return clamped(kind == 2 ? ((UHAL_GLOBAL const int64*)lengths)[at] : ((UHAL_GLOBAL const int32*)lengths)[at], most);
}

#define STEPS_OF(b) \
  length_at(UHAL_ADDRESS(const char, logit_lengths), plan.logit_length_kind, (b) * plan.logit_lengths, plan.steps)
#define STATES_OF(b)                                                                                             \
  (2 * length_at(UHAL_ADDRESS(const char, label_lengths), plan.label_length_kind, (b) * plan.label_lengths,      \
                 (plan.states - 1) / 2) +                                                                        \
   1)

/* A state's class; -1 for a label that is none. A macro, so that the plan is read from where arguments lie. */
#define CLASS_OF(b, s) \
  (((s) & 1) == 0      \
       ? plan.blank    \
       : label_at(UHAL_ADDRESS(const char, labels), plan.labels_are_int64, (b) * plan.labels[0] + (s) / 2 * plan.labels[1], \
                  plan.classes, plan.blank))

UHAL_INLINE INDEX label_at(UHAL_GLOBAL const char* labels, INDEX is_int64, INDEX at, INDEX classes, INDEX blank) {
  const int64 label = is_int64 ? ((UHAL_GLOBAL const int64*)labels)[at] : ((UHAL_GLOBAL const int32*)labels)[at];
  return label >= 0 && label < (int64)classes && label != (int64)blank ? (INDEX)label : -1;
}

UHAL_INLINE T log_sum(T a, T b, T c) {
  T largest = a > b ? a : b;
  largest = largest > c ? largest : c;
  if (largest == -INFINITY) largest = 0;
  return largest + log(exp(a - largest) + exp(b - largest) + exp(c - largest));
}

/* The logarithm of the sum of the exponentials of each row of logits. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void ctc_rows(UHAL_POINTER(logits), UHAL_POINTER(sums), CtcPlan plan,
                                                            int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  const INDEX row = UHAL_GROUP_ID(0) * team.teams + team.index;
  const INDEX classes = row < plan.steps * plan.batch ? plan.classes : 0;
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, logits);
  if (classes > 0) x += row / plan.batch * plan.logits[0] + row % plan.batch * plan.logits[1];
  T largest = -INFINITY;
  for (INDEX c = team.lane; c < classes; c += team.lanes) largest = uhal_larger(largest, X_LOAD(x, c * plan.logits[2]));
  largest = uhal_team_maximum(largest, scratch, team);
  T sum = 0;
  for (INDEX c = team.lane; c < classes; c += team.lanes) sum += exp(X_LOAD(x, c * plan.logits[2]) - largest);
  sum = uhal_team_sum(sum, scratch, team);
  if (classes > 0 && team.lane == 0) UHAL_ADDRESS(T, sums)[row] = largest + log(sum);
}

/* The logarithm of the probability of a state's class at a step. */
#define LOG_OF(t, number)                                                                                           \
  ((number) < 0 ? (T)-INFINITY                                                                                      \
                : X_LOAD(x, (t) * plan.logits[0] + b * plan.logits[1] + (number) * plan.logits[2]) - \
                      sums[(t) * plan.batch + b])

/* alphas[b][t][s]: of all beginnings that are at s after step t; and the loss. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void ctc_forward(
    UHAL_POINTER(logits), UHAL_POINTER(labels), UHAL_POINTER(logit_lengths), UHAL_POINTER(label_lengths),
    UHAL_POINTER(sums), UHAL_POINTER(alphas), UHAL_POINTER(likelihoods), UHAL_POINTER(loss), CtcPlan plan,
    int32 zero_infinity) {
  const INDEX b = UHAL_GROUP_ID(0);
  const INDEX steps = STEPS_OF(b), states = STATES_OF(b);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, logits);
  UHAL_GLOBAL const T* sums = UHAL_ADDRESS(const T, sums);
  UHAL_GLOBAL T* alphas = UHAL_ADDRESS(T, alphas) + b * plan.rows * plan.states;
  for (INDEX t = 0; t < steps; ++t) {
    UHAL_GLOBAL T* now = alphas + t % plan.rows * plan.states;
    UHAL_GLOBAL const T* before = alphas + (t + plan.rows - 1) % plan.rows * plan.states;
    for (INDEX s = UHAL_LOCAL_ID(0); s < states; s += UHAL_GROUP) {
      const INDEX number = CLASS_OF(b, s);
      T alpha = s < 2 ? 0 : -INFINITY;
      if (t > 0) {
        const int32 skips = s > 2 && (s & 1) == 1 && number != CLASS_OF(b, s - 2);
        alpha = log_sum(before[s], s > 0 ? before[s - 1] : -INFINITY, skips ? before[s - 2] : -INFINITY);
      }
      now[s] = alpha + LOG_OF(t, number);
    }
    UHAL_GLOBAL_BARRIER();
  }
  if (UHAL_LOCAL_ID(0) == 0) {
    T likelihood = states == 1 ? 0 : -INFINITY;
    if (steps > 0) {
      UHAL_GLOBAL const T* last = alphas + (steps - 1) % plan.rows * plan.states;
      likelihood = log_sum(last[states - 1], states > 1 ? last[states - 2] : -INFINITY, -INFINITY);
    }
    UHAL_ADDRESS(T, likelihoods)[b] = likelihood;
    const T value = likelihood == -INFINITY && zero_infinity ? (T)0 : -likelihood;
    X_STORE(UHAL_ADDRESS(X_STORAGE, loss), b * plan.loss, value);
  }
}

/* Makes of alphas the probabilities of the states at each step, given the labels. betas: two rows for each sequence. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void ctc_backward(
    UHAL_POINTER(logits), UHAL_POINTER(labels), UHAL_POINTER(logit_lengths), UHAL_POINTER(label_lengths),
    UHAL_POINTER(sums), UHAL_POINTER(alphas), UHAL_POINTER(likelihoods), UHAL_POINTER(betas), CtcPlan plan) {
  const INDEX b = UHAL_GROUP_ID(0);
  const T likelihood = UHAL_ADDRESS(const T, likelihoods)[b];
  const INDEX states = STATES_OF(b);
  const INDEX steps = likelihood == -INFINITY ? 0 : STEPS_OF(b);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, logits);
  UHAL_GLOBAL const T* sums = UHAL_ADDRESS(const T, sums);
  UHAL_GLOBAL T* alphas = UHAL_ADDRESS(T, alphas) + b * plan.rows * plan.states;
  UHAL_GLOBAL T* betas = UHAL_ADDRESS(T, betas) + 2 * b * plan.states;
  for (INDEX t = steps - 1; t >= 0; --t) {
    UHAL_GLOBAL T* now = betas + (t & 1) * plan.states; /* with the step's own logarithm */
    UHAL_GLOBAL const T* behind = betas + (1 - (t & 1)) * plan.states;
    for (INDEX s = UHAL_LOCAL_ID(0); s < states; s += UHAL_GROUP) {
      const INDEX number = CLASS_OF(b, s);
      T beta = s >= states - 2 ? 0 : -INFINITY;
      if (t < steps - 1) {
        const int32 skips = s + 2 < states && (s & 1) == 1 && number != CLASS_OF(b, s + 2);
        beta = log_sum(behind[s], s + 1 < states ? behind[s + 1] : -INFINITY, skips ? behind[s + 2] : -INFINITY);
      }
      now[s] = beta + LOG_OF(t, number);
      UHAL_GLOBAL T* alpha = alphas + t * plan.states + s;
      *alpha = exp(*alpha + beta - likelihood);
    }
    UHAL_GLOBAL_BARRIER();
  }
}

/* What each logit would have as its gradient without labels. */
UHAL_KERNEL void ctc_softmax(UHAL_POINTER(logits), UHAL_POINTER(logit_lengths), UHAL_POINTER(sums),
                             UHAL_POINTER(likelihoods), UHAL_POINTER(gradient), CtcPlan plan, INDEX count) {
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, logits);
  UHAL_GLOBAL const T* sums = UHAL_ADDRESS(const T, sums);
  UHAL_FOR_ITEMS(i, count) {
    const INDEX number = i % plan.classes, row = i / plan.classes, b = row % plan.batch, t = row / plan.batch;
    const int32 counts = t < STEPS_OF(b) && UHAL_ADDRESS(const T, likelihoods)[b] != -INFINITY;
    X_STORE(UHAL_ADDRESS(X_STORAGE, gradient),
            t * plan.gradient[0] + b * plan.gradient[1] + number * plan.gradient[2],
            counts ? exp(LOG_OF(t, number)) : 0);
  }
}

/* Takes from it the probabilities of the states, class by class: an item for the blank and for each label at a step; the
 * first of equal labels sums them all. `count` is steps * batch * (labels + 1). */
UHAL_KERNEL void ctc_subtract(UHAL_POINTER(logits), UHAL_POINTER(labels), UHAL_POINTER(logit_lengths),
                              UHAL_POINTER(label_lengths), UHAL_POINTER(sums), UHAL_POINTER(alphas),
                              UHAL_POINTER(likelihoods), UHAL_POINTER(gradient), CtcPlan plan, INDEX count) {
  const INDEX kinds = (plan.states - 1) / 2 + 1;
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, logits);
  UHAL_GLOBAL const T* sums = UHAL_ADDRESS(const T, sums);
  UHAL_FOR_ITEMS(i, count) {
    const INDEX kind = i % kinds, row = i / kinds, b = row % plan.batch, t = row / plan.batch;
    const INDEX states = STATES_OF(b);
    const INDEX first = kind == 0 ? 0 : 2 * kind - 1;
    if (t >= STEPS_OF(b) || first >= states || UHAL_ADDRESS(const T, likelihoods)[b] == -INFINITY) continue;
    UHAL_GLOBAL const T* found = UHAL_ADDRESS(const T, alphas) + (b * plan.rows + t) * plan.states;
    const INDEX number = CLASS_OF(b, first);
    int32 is_first = number >= 0;
    for (INDEX s = 1; s < first && is_first; s += 2) is_first = CLASS_OF(b, s) != number;
    if (!is_first) continue;
    T sum = 0;
    for (INDEX s = first; s < states; s += 2) {
      if (CLASS_OF(b, s) == number) sum += found[s];
    }
    X_STORE(UHAL_ADDRESS(X_STORAGE, gradient), t * plan.gradient[0] + b * plan.gradient[1] + number * plan.gradient[2],
            exp(LOG_OF(t, number)) - sum);
  }
}
