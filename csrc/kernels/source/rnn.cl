/* rnn: the cells of one step of a recurrent layer, of all directions, sequences and units (csrc/kernels/ops/rnn.cc).
 * The product of the step was done before and lies in the workspace, as do the states. op.h has the equations.
 *
 * Macros: MODE: uhal_rnn_mode; X: the dtype of all operands; PART_FORWARD, PART_BACKWARD or PART_FINISH. */
#define LSTM 0
#define GRU 1
#define RELU 3
#if MODE == LSTM
#define GATES 4
#elif MODE == GRU
#define GATES 3
#else
#define GATES 1
#endif

/* Strides of the axes D, T, B and the last one, in elements; those of lengths' only axis. */
typedef struct {
  INDEX count, batch, hidden, steps;
  INDEX x[4], y[4], reserve[4], dy[4], dproduct[4], initial[3], bias[2];
  INDEX lengths;
} RnnPlan;

/* A work-item's unit. */
typedef struct {
  INDEX direction, sequence, unit, row;
} Unit;

UHAL_INLINE Unit unit_of(INDEX i, INDEX batch, INDEX hidden) {
  Unit at;
  at.unit = i % hidden;
  at.row = i / hidden;
  at.sequence = at.row % batch;
  at.direction = at.row / batch;
  return at;
}

#define PLACE(step) ((reverse >> at.direction & 1) != 0 ? plan.steps - 1 - (step) : (step))
#define OFFSET(strides, place) \
  (at.direction * (strides)[0] + (place) * (strides)[1] + at.sequence * (strides)[2] + at.unit * (strides)[3])
#define STATE_OFFSET(strides) (at.direction * (strides)[0] + at.sequence * (strides)[1] + at.unit * (strides)[2])
#define LENGTH                                                                                \
  (has_lengths == 0   ? plan.steps                                                            \
   : has_lengths == 1 ? (INDEX)UHAL_ADDRESS(const int32, lengths)[at.sequence * plan.lengths] \
                      : length_of(UHAL_ADDRESS(const int64, lengths)[at.sequence * plan.lengths], plan.steps))

/* A length as an INDEX, whatever it is. */
UHAL_INLINE INDEX length_of(int64 length, INDEX steps) {
  return length<0 ? 0 : length>(int64) steps ? steps : (INDEX)length;
}

UHAL_INLINE T sigmoid(T x) { return 1 / (1 + exp(-x)); }

#if PART_FORWARD

/* has_product: 0 at a first step from zeros, whose product is not there. */
UHAL_KERNEL void rnn_step(UHAL_POINTER(x), UHAL_POINTER(product), UHAL_POINTER(bias), UHAL_POINTER(lengths),
                          UHAL_POINTER(h), UHAL_POINTER(c), UHAL_POINTER(y), UHAL_POINTER(reserve), RnnPlan plan,
                          T clip, INDEX step, int32 reverse, int32 has_product, int32 has_bias, int32 has_lengths,
                          int32 has_reserve) {
  UHAL_GLOBAL X_STORAGE* states = UHAL_ADDRESS(X_STORAGE, h);
  UHAL_GLOBAL X_STORAGE* y = UHAL_ADDRESS(X_STORAGE, y);
  UHAL_GLOBAL X_STORAGE* reserve = UHAL_ADDRESS(X_STORAGE, reserve);
  UHAL_FOR_ITEMS(i, plan.count) {
    const Unit at = unit_of(i, plan.batch, plan.hidden);
    const INDEX place = PLACE(step);
    const INDEX kept = has_reserve ? OFFSET(plan.reserve, place) : 0;
    const INDEX part = plan.hidden * plan.reserve[3];
#if MODE == LSTM
    UHAL_GLOBAL T* cell = UHAL_ADDRESS(T, c) + i;
#endif
    if (place >= LENGTH) {
      X_STORE(y, OFFSET(plan.y, place), X_LOAD(states, i));
      if (has_reserve) {
        for (INDEX k = 0; k < 4; ++k) X_STORE(reserve, kept + k * part, 0);
#if MODE == LSTM
        X_STORE(reserve, kept + 4 * part, *cell);
#endif
      }
      continue;
    }
    T x[GATES], p[GATES];
    UHAL_UNROLL for (int32 gate = 0; gate < GATES; ++gate) {
      const INDEX column = gate * plan.hidden;
      x[gate] = X_LOAD(UHAL_ADDRESS(const X_STORAGE, x), OFFSET(plan.x, place) + column * plan.x[3]);
      p[gate] = has_product ? UHAL_ADDRESS(const T, product)[at.row * GATES * plan.hidden + column + at.unit] : 0;
      if (has_bias) {
        p[gate] += X_LOAD(UHAL_ADDRESS(const X_STORAGE, bias),
                          at.direction * plan.bias[0] + (column + at.unit) * plan.bias[1]);
      }
    }
    T next;
#if MODE == LSTM
    const T in = sigmoid(x[0] + p[0]), forget = sigmoid(x[1] + p[1]), candidate = tanh(x[2] + p[2]);
    const T out = sigmoid(x[3] + p[3]);
    T inner = forget * *cell + in * candidate;
    if (clip > 0) inner = inner < -clip ? -clip : inner > clip ? clip : inner;
    *cell = inner;
    next = out * tanh(inner);
    if (has_reserve) {
      X_STORE(reserve, kept, in);
      X_STORE(reserve, kept + part, forget);
      X_STORE(reserve, kept + 2 * part, candidate);
      X_STORE(reserve, kept + 3 * part, out);
      X_STORE(reserve, kept + 4 * part, inner);
    }
#elif MODE == GRU
    const T reset = sigmoid(x[0] + p[0]), update = sigmoid(x[1] + p[1]), candidate = tanh(x[2] + reset * p[2]);
    next = (1 - update) * candidate + update * X_LOAD(states, i);
    if (has_reserve) {
      X_STORE(reserve, kept, reset);
      X_STORE(reserve, kept + part, update);
      X_STORE(reserve, kept + 2 * part, candidate);
      X_STORE(reserve, kept + 3 * part, p[2]);
    }
#elif MODE == RELU
    next = x[0] + p[0];
    next = next < 0 ? (T)0 : next;
#else
    next = tanh(x[0] + p[0]);
#endif
    X_STORE(states, i, next);
    X_STORE(y, OFFSET(plan.y, place), next);
  }
}

#elif PART_BACKWARD

/* product: the gradient that came through the product of the step behind; has_product: 0 at the last step, behind which
 * there is none. carry: what came past it, read and written. factor: the gradient of p for the product to come. */
UHAL_KERNEL void rnn_step_backward(UHAL_POINTER(dy), UHAL_POINTER(y), UHAL_POINTER(reserve), UHAL_POINTER(initial),
                                   UHAL_POINTER(lengths), UHAL_POINTER(product), UHAL_POINTER(carry), UHAL_POINTER(c),
                                   UHAL_POINTER(dx), UHAL_POINTER(dproduct), UHAL_POINTER(factor), RnnPlan plan,
                                   INDEX step, int32 reverse, int32 has_product, int32 has_initial, int32 has_lengths) {
  UHAL_GLOBAL const X_STORAGE* y = UHAL_ADDRESS(const X_STORAGE, y);
  UHAL_GLOBAL const X_STORAGE* reserve = UHAL_ADDRESS(const X_STORAGE, reserve);
  UHAL_FOR_ITEMS(i, plan.count) {
    const Unit at = unit_of(i, plan.batch, plan.hidden);
    const INDEX place = PLACE(step);
    UHAL_GLOBAL T* carried = UHAL_ADDRESS(T, carry) + i;
    T dh = *carried + X_LOAD(UHAL_ADDRESS(const X_STORAGE, dy), OFFSET(plan.dy, place));
    if (has_product) dh += UHAL_ADDRESS(const T, product)[i];
    T dx[GATES], dp[GATES];
    if (place >= LENGTH) {
      UHAL_UNROLL for (int32 gate = 0; gate < GATES; ++gate) dx[gate] = dp[gate] = 0;
      *carried = dh;
    } else {
#if MODE == LSTM || MODE == GRU
      const INDEX part = plan.hidden * plan.reserve[3];
      const INDEX kept = OFFSET(plan.reserve, place);
      T before = 0; /* an LSTM's cell, a GRU's state */
      if (step > 0) {
#if MODE == LSTM
        before = X_LOAD(reserve, OFFSET(plan.reserve, PLACE(step - 1)) + 4 * part);
#else
        before = X_LOAD(y, OFFSET(plan.y, PLACE(step - 1)));
#endif
      } else if (has_initial) {
        before = X_LOAD(UHAL_ADDRESS(const X_STORAGE, initial), STATE_OFFSET(plan.initial));
      }
#endif
#if MODE == LSTM
      UHAL_GLOBAL T* cell = UHAL_ADDRESS(T, c) + i;
      const T in = X_LOAD(reserve, kept), forget = X_LOAD(reserve, kept + part);
      const T candidate = X_LOAD(reserve, kept + 2 * part), out = X_LOAD(reserve, kept + 3 * part);
      const T shown = tanh(X_LOAD(reserve, kept + 4 * part));
      const T dc = *cell + dh * out * (1 - shown * shown);
      dx[0] = dc * candidate * in * (1 - in);
      dx[1] = dc * before * forget * (1 - forget);
      dx[2] = dc * in * (1 - candidate * candidate);
      dx[3] = dh * shown * out * (1 - out);
      *cell = dc * forget;
      *carried = 0;
#elif MODE == GRU
      const T reset = X_LOAD(reserve, kept), update = X_LOAD(reserve, kept + part);
      const T candidate = X_LOAD(reserve, kept + 2 * part);
      dx[2] = dh * (1 - update) * (1 - candidate * candidate);
      dx[1] = dp[1] = dh * (before - candidate) * update * (1 - update);
      dx[0] = dp[0] = dx[2] * X_LOAD(reserve, kept + 3 * part) * reset * (1 - reset);
      dp[2] = dx[2] * reset;
      *carried = dh * update;
#else
      const T result = X_LOAD(y, OFFSET(plan.y, place));
#if MODE == RELU
      dx[0] = result > 0 ? dh : 0;
#else
      dx[0] = dh * (1 - result * result);
#endif
      *carried = 0;
#endif
#if MODE != GRU
      UHAL_UNROLL for (int32 gate = 0; gate < GATES; ++gate) dp[gate] = dx[gate];
#endif
    }
    UHAL_UNROLL for (int32 gate = 0; gate < GATES; ++gate) {
      const INDEX column = gate * plan.hidden;
      X_STORE(UHAL_ADDRESS(X_STORAGE, dx), OFFSET(plan.x, place) + column * plan.x[3], dx[gate]);
#if MODE == GRU
      X_STORE(UHAL_ADDRESS(X_STORAGE, dproduct), OFFSET(plan.dproduct, place) + column * plan.dproduct[3], dp[gate]);
#endif
      X_STORE(UHAL_ADDRESS(X_STORAGE, factor), at.row * GATES * plan.hidden + column + at.unit, dp[gate]);
    }
  }
}

#else

/* The gradients of the states before the first step. */
UHAL_KERNEL void rnn_finish(UHAL_POINTER(product), UHAL_POINTER(carry), UHAL_POINTER(dh0), RnnPlan plan,
                            int32 has_product) {
  UHAL_FOR_ITEMS(i, plan.count) {
    const Unit at = unit_of(i, plan.batch, plan.hidden);
    T dh = UHAL_ADDRESS(const T, carry)[i];
    if (has_product) dh += UHAL_ADDRESS(const T, product)[i];
    X_STORE(UHAL_ADDRESS(X_STORAGE, dh0), STATE_OFFSET(plan.initial), dh);
  }
}

#endif
