/* Resampling and its gradient (csrc/kernels/ops/resize.cc). Both gather: a work-item has an element of the result.
 *
 * Macros: UHAL_WIDE_INDEX; dtypes FROM and TO; MODE, a uhal_resize_mode; SPATIAL, the number of spatial axes. */

/* A spatial axis. Coordinate i of y lies at (i * numerator + offset) / denominator of x, exactly. */
typedef struct {
  INDEX numerator;
  INDEX offset;
  INDEX denominator;
  INDEX x_length;
  INDEX y_length;
  INDEX step_bits; /* of a nearest pixel's float32 step; 0: the fraction is exact */
} Axis;

/* The result's elements are numbered in the order of memory: coordinate a is number / divisors[a] % lengths[a]. Axes are
 * N, C, and three spatial ones, leading ones of length 1. */
typedef struct {
  INDEX count;
  INDEX divisors[5];
  INDEX lengths[5];
  INDEX to_strides[5];
  INDEX from_strides[5];
  Axis axes[3];
} Plan;

#if MODE == 0
#define TAPS 1
#define ROUNDING 2 /* coordinates by which float32 steps may be off */
#define BEFORE 0   /* taps before the pixel that a position lies in */
#elif MODE == 1
#define TAPS 2
#define ROUNDING 0
#define BEFORE 0
#else
#define TAPS 4
#define ROUNDING 0
#define BEFORE 1
#endif

/* The quotient rounded down; the denominator is positive. */
UHAL_INLINE INDEX floor_divide(INDEX numerator, INDEX denominator) {
  const INDEX quotient = numerator / denominator;
  return quotient - (quotient * denominator > numerator ? 1 : 0);
}

/* Cubic convolution (Keys) with the coefficient of OpenCV, PyTorch and Paddle; x is a distance up to 1, or from 1 to 2. */
UHAL_INLINE T cubic_near(T x) { return (C(1.25) * x - C(2.25)) * x * x + 1; }
UHAL_INLINE T cubic_far(T x) { return ((C(-0.75) * x + C(3.75)) * x - 6) * x + 3; }

/* The weights of the taps of coordinate i of y. Returns the pixel of the first, which may lie outside x. */
UHAL_INLINE INDEX taps_of(Axis axis, INDEX i, T* weights) {
  INDEX position = i * axis.numerator + axis.offset;
#if MODE == 1
  if (position < 0) position = 0;
#endif
  const INDEX pixel = floor_divide(position, axis.denominator);
#if MODE == 0
  weights[0] = 1;
  if (axis.step_bits != 0) {
    const float single = ((float)i + (axis.offset != 0 ? 0.5f : 0.0f)) * uhal_float_of_bits(axis.step_bits);
    return single < (float)axis.x_length ? (INDEX)single : axis.x_length;
  }
#else
  const T fraction = (T)(position - pixel * axis.denominator) / (T)axis.denominator;
#if MODE == 1
  weights[0] = 1 - fraction;
  weights[1] = fraction;
#else
  weights[0] = cubic_far(1 + fraction);
  weights[1] = cubic_near(fraction);
  weights[2] = cubic_near(1 - fraction);
  weights[3] = cubic_far(2 - fraction);
#endif
#endif
  return pixel - BEFORE;
}

/* A pixel outside x stands for the nearest one inside. */
UHAL_INLINE INDEX inside(INDEX pixel, INDEX length) { return pixel < 0 ? 0 : pixel < length ? pixel : length - 1; }

#define COORDINATE(plan, axis, i) ((i) / (plan).divisors[axis] % (plan).lengths[axis])

/* x -> y */
UHAL_KERNEL void resize(UHAL_POINTER(from), UHAL_POINTER(to), Plan plan) {
  UHAL_GLOBAL const FROM_STORAGE* x = UHAL_ADDRESS(const FROM_STORAGE, from);
  UHAL_GLOBAL TO_STORAGE* y = UHAL_ADDRESS(TO_STORAGE, to);
  UHAL_FOR_ITEMS(i, plan.count) {
    INDEX place = 0;
    INDEX image = 0;
    for (int32 a = 0; a < 2; ++a) {
      const INDEX coordinate = COORDINATE(plan, a, i);
      place += coordinate * plan.to_strides[a];
      image += coordinate * plan.from_strides[a];
    }
    INDEX first[3];
    T weights[3][TAPS];
    for (int32 a = 3 - SPATIAL; a < 3; ++a) {
      const INDEX coordinate = COORDINATE(plan, 2 + a, i);
      place += coordinate * plan.to_strides[2 + a];
      first[a] = taps_of(plan.axes[a], coordinate, weights[a]);
    }
    T sum = 0;
#if SPATIAL > 2
    for (int32 tz = 0; tz < TAPS; ++tz) {
      const INDEX plane = image + inside(first[0] + tz, plan.axes[0].x_length) * plan.from_strides[2];
      const T weight_z = weights[0][tz];
#else
    {
      const INDEX plane = image;
      const T weight_z = 1;
#endif
#if SPATIAL > 1
      for (int32 ty = 0; ty < TAPS; ++ty) {
        const INDEX row = plane + inside(first[1] + ty, plan.axes[1].x_length) * plan.from_strides[3];
        const T weight_y = weight_z * weights[1][ty];
#else
      {
        const INDEX row = plane;
        const T weight_y = weight_z;
#endif
        for (int32 tx = 0; tx < TAPS; ++tx) {
          const INDEX pixel = row + inside(first[2] + tx, plan.axes[2].x_length) * plan.from_strides[4];
          sum += weight_y * weights[2][tx] * FROM_LOAD(x, pixel);
        }
      }
    }
    TO_STORE(y, place, sum);
  }
}

/* The coordinates of y, `low` to `high`-1, whose taps may include pixel j of x. Positions rise with coordinates. */
UHAL_INLINE void readers_of(Axis axis, INDEX j, INDEX* low, INDEX* high) {
  *low = 0;
  *high = axis.y_length;
  if (axis.numerator == 0) return;
  if (j > 0) {
    const INDEX least = (j + BEFORE - (TAPS - 1)) * axis.denominator - axis.offset;
    const INDEX bound = -floor_divide(-least, axis.numerator) - ROUNDING;
    if (bound > 0) *low = bound;
  }
  if (j < axis.x_length - 1) {
    const INDEX beyond = (j + BEFORE + 1) * axis.denominator - axis.offset;
    const INDEX bound = -floor_divide(-beyond, axis.numerator) + ROUNDING;
    if (bound < *high) *high = bound;
  }
}

/* What pixel j of x weighs in coordinate i of y. */
UHAL_INLINE T weight_of(Axis axis, INDEX j, INDEX i) {
  T weights[TAPS];
  const INDEX first = taps_of(axis, i, weights);
  T sum = 0;
  for (int32 t = 0; t < TAPS; ++t) sum += inside(first + t, axis.x_length) == j ? weights[t] : 0;
  return sum;
}

/* dy -> dx */
UHAL_KERNEL void resize_backward(UHAL_POINTER(from), UHAL_POINTER(to), Plan plan) {
  UHAL_GLOBAL const FROM_STORAGE* dy = UHAL_ADDRESS(const FROM_STORAGE, from);
  UHAL_GLOBAL TO_STORAGE* dx = UHAL_ADDRESS(TO_STORAGE, to);
  UHAL_FOR_ITEMS(i, plan.count) {
    INDEX place = 0;
    INDEX image = 0;
    for (int32 a = 0; a < 2; ++a) {
      const INDEX coordinate = COORDINATE(plan, a, i);
      place += coordinate * plan.to_strides[a];
      image += coordinate * plan.from_strides[a];
    }
    INDEX at[3];
    INDEX low[3];
    INDEX high[3];
    for (int32 a = 3 - SPATIAL; a < 3; ++a) {
      at[a] = COORDINATE(plan, 2 + a, i);
      place += at[a] * plan.to_strides[2 + a];
      readers_of(plan.axes[a], at[a], &low[a], &high[a]);
    }
    T sum = 0;
#if SPATIAL > 2
    for (INDEX z = low[0]; z < high[0]; ++z) {
      const INDEX plane = image + z * plan.from_strides[2];
      const T weight_z = weight_of(plan.axes[0], at[0], z);
#else
    {
      const INDEX plane = image;
      const T weight_z = 1;
#endif
#if SPATIAL > 1
      for (INDEX y = low[1]; y < high[1]; ++y) {
        const INDEX row = plane + y * plan.from_strides[3];
        const T weight_y = weight_z * weight_of(plan.axes[1], at[1], y);
#else
      {
        const INDEX row = plane;
        const T weight_y = weight_z;
#endif
        for (INDEX x = low[2]; x < high[2]; ++x) {
          const T weight = weight_y * weight_of(plan.axes[2], at[2], x);
#if MODE == 0
          if (weight == 0) continue; /* no reader after all: infinities are none of this pixel's */
#endif
          sum += weight * FROM_LOAD(dy, row + x * plan.from_strides[4]);
        }
      }
    }
    TO_STORE(dx, place, sum);
  }
}
