/* Pooling and its gradient: a work-item takes an element of the result, forward by a walk over its window, backward
 * over the windows that a pixel lies in; where a maximum was taken, each window's place of it is found first. Backward
 * where windows do not overlap, it takes a window, and writes the pixels from there to the next one.
 *
 * Macros: FORWARD; MAXIMUM, else the average; HAS_INDICES; the dtypes X, Y, INDICES (forward) and X, Y, GRADIENT,
 * RESULT (backward); CELL: windows of CELL x CELL pixels lie side by side in images without any other pixel, or 0; SIDE
 * and STEP: images have two axes, windows SIDE x SIDE pixels, STEP apart, so that places are cheap to find, or 0. T is a
 * 64-bit integer for integers. */
typedef struct {
  INDEX channels;
  INDEX input[3], output[3], window[3], stride[3], pad[3];
  INDEX strides[4][5]; /* forward: of x, y, indices; backward: of x, y, dy, dx. Images, channels, spatial axes. */
  INDEX adaptive;
  INDEX padded_window; /* the divisor of averages where padding counts; 0: the pixels under the window */
  INDEX channels_last; /* the result's neighbours in memory are channels */
  INDEX count;         /* elements of the result */
} Problem;

/* Pixels under a window along an axis, or windows over a pixel: from begin to end - 1. */
typedef struct {
  INDEX begin, end;
} Span;

UHAL_INLINE Span window_span(INDEX place, INDEX input, INDEX output, INDEX window, INDEX stride, INDEX pad,
                             INDEX adaptive) {
  Span span;
  if (adaptive) {
    span.begin = place * input / output;
    span.end = ((place + 1) * input + output - 1) / output;
  } else {
    const INDEX begin = place * stride - pad;
    span.begin = min(max(begin, (INDEX)0), input);
    span.end = min(max(begin + window, span.begin), input);
  }
  return span;
}

/* The windows that contain a pixel. */
UHAL_INLINE Span place_span(INDEX pixel, INDEX input, INDEX output, INDEX window, INDEX stride, INDEX pad,
                            INDEX adaptive) {
  Span span;
  if (adaptive) {
    span.begin = pixel * output / input;
    span.end = ((pixel + 1) * output - 1) / input + 1;
  } else {
    const INDEX reach = pixel + pad;
    span.begin = reach < window ? 0 : (reach - window) / stride + 1;
    span.end = reach / stride + 1;
  }
  span.end = min(span.end, output);
  return span;
}

#define SPAN(function, axis, position) function(position, GEOMETRY_##axis)
#if SIDE
#define FIRST_AXIS 1
#define GEOMETRY_0 1, 1, 1, 1, 0, 0
#define GEOMETRY_1 problem.input[1], problem.output[1], SIDE, STEP, problem.pad[1], 0
#define GEOMETRY_2 problem.input[2], problem.output[2], SIDE, STEP, problem.pad[2], 0
#else
#define FIRST_AXIS 0
#define GEOMETRY(axis)                                                                                     \
  problem.input[axis], problem.output[axis], problem.window[axis], problem.stride[axis], problem.pad[axis], \
      problem.adaptive
#define GEOMETRY_0 GEOMETRY(0)
#define GEOMETRY_1 GEOMETRY(1)
#define GEOMETRY_2 GEOMETRY(2)
#endif

/* Where in an operand the element with coordinates at[0] to at[4] lies. */
#define OFFSET(operand, at)                                                                                  \
  ((at)[0] * problem.strides[operand][0] + (at)[1] * problem.strides[operand][1] +                           \
   (at)[2] * problem.strides[operand][2] + (at)[3] * problem.strides[operand][3] +                           \
   (at)[4] * problem.strides[operand][4])

/* Sets at[0] to at[4], the coordinates of the element at a position of the result, whose spatial lengths are given. */
#define COORDINATES(position, lengths, at)                             \
  do {                                                                 \
    INDEX rest = (position);                                           \
    if (problem.channels_last) {                                       \
      (at)[1] = rest % problem.channels;                               \
      rest /= problem.channels;                                        \
    }                                                                  \
    (at)[2] = 0;                                                       \
    UHAL_UNROLL for (int32 axis = 2; axis >= FIRST_AXIS; --axis) {     \
      const INDEX next = rest / (lengths)[axis];                       \
      (at)[2 + axis] = rest - next * (lengths)[axis];                  \
      rest = next;                                                     \
    }                                                                  \
    if (!problem.channels_last) {                                      \
      (at)[1] = rest % problem.channels;                               \
      rest /= problem.channels;                                        \
    }                                                                  \
    (at)[0] = rest;                                                    \
  } while (0)

/* What the sum over a window is divided by. */
#define DIVISOR(planes, lines, columns)                                                                     \
  max((INDEX)1, problem.padded_window != 0                                                                  \
                    ? problem.padded_window                                                                 \
                    : ((planes).end - (planes).begin) * ((lines).end - (lines).begin) * ((columns).end - (columns).begin))

#if FORWARD

UHAL_KERNEL void pool(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(indices), Problem problem, T lowest) {
  UHAL_GLOBAL const X_STORAGE* const x_data = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL Y_STORAGE* const y_data = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, problem.count) {
    INDEX at[5];
    COORDINATES(i, problem.output, at);
    const Span planes = SPAN(window_span, 0, at[2]);
    const Span lines = SPAN(window_span, 1, at[3]);
    const Span columns = SPAN(window_span, 2, at[4]);
    const INDEX image = at[0] * problem.strides[0][0] + at[1] * problem.strides[0][1];
#if MAXIMUM
    /* The first of equals stays, a NaN wins. */
    T best = lowest;
    INDEX where = (planes.begin * problem.input[1] + lines.begin) * problem.input[2] + columns.begin;
#else
    T best = 0;
#endif
    for (INDEX z = planes.begin; z < planes.end; ++z) {
      for (INDEX line = lines.begin; line < lines.end; ++line) {
        const INDEX from = image + z * problem.strides[0][2] + line * problem.strides[0][3];
        for (INDEX column = columns.begin; column < columns.end; ++column) {
          const T value = X_LOAD(x_data, from + column * problem.strides[0][4]);
#if MAXIMUM
          if (value > best || (value != value && best == best)) {
            best = value;
            where = (z * problem.input[1] + line) * problem.input[2] + column;
          }
#else
          best += value;
#endif
        }
      }
    }
#if !MAXIMUM
    best /= (T)DIVISOR(planes, lines, columns);
#endif
    const INDEX to = OFFSET(1, at);
    Y_STORE(y_data, to, best);
#if HAS_INDICES
    INDICES_STORE(UHAL_ADDRESS(INDICES_STORAGE, indices), OFFSET(2, at), where);
#endif
  }
}

#else

/* The tap of a window, counted from its first pixel that is inside. */
#define TAP(planes, lines, columns, z, line, column)                                                            \
  ((((z) - (planes).begin) * ((lines).end - (lines).begin) + (line) - (lines).begin) *                           \
       ((columns).end - (columns).begin) +                                                                      \
   (column) - (columns).begin)

#if MAXIMUM
#define NO_TAP 0xffffffffu

/* Both are the maximum of a window. */
UHAL_INLINE int32 alike(T a, T b) { return a == b || (a != a && b != b); }

/* winners[window]: the tap of the first pixel that is the maximum; windows in the order in which COORDINATES counts
 * them. Here `problem` has the windows as its result. */
UHAL_KERNEL void pool_winners(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(winners), Problem problem) {
  UHAL_GLOBAL const X_STORAGE* const x_data = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const Y_STORAGE* const y_data = UHAL_ADDRESS(const Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, problem.count) {
    INDEX at[5];
    COORDINATES(i, problem.output, at);
    const Span planes = SPAN(window_span, 0, at[2]);
    const Span lines = SPAN(window_span, 1, at[3]);
    const Span columns = SPAN(window_span, 2, at[4]);
    const INDEX image = at[0] * problem.strides[0][0] + at[1] * problem.strides[0][1];
    const T maximum = Y_LOAD(y_data, OFFSET(1, at));
    uint32 winner = NO_TAP;
    for (INDEX z = planes.begin; z < planes.end && winner == NO_TAP; ++z) {
      for (INDEX line = lines.begin; line < lines.end && winner == NO_TAP; ++line) {
        const INDEX from = image + z * problem.strides[0][2] + line * problem.strides[0][3];
        for (INDEX column = columns.begin; column < columns.end && winner == NO_TAP; ++column) {
          if (alike(X_LOAD(x_data, from + column * problem.strides[0][4]), maximum)) {
            winner = (uint32)TAP(planes, lines, columns, z, line, column);
          }
        }
      }
    }
    UHAL_ADDRESS(uint32, winners)[i] = winner;
  }
}
#endif

/* The number of a window among those of pool_winners. */
#define WINDOW(at)                                                                                              \
  (problem.channels_last                                                                                        \
       ? ((((at)[0] * problem.output[0] + (at)[2]) * problem.output[1] + (at)[3]) * problem.output[2] + (at)[4]) * \
                 problem.channels +                                                                             \
             (at)[1]                                                                                            \
       : ((((at)[0] * problem.channels + (at)[1]) * problem.output[0] + (at)[2]) * problem.output[1] + (at)[3]) *  \
                 problem.output[2] +                                                                            \
             (at)[4])

UHAL_KERNEL void pool_backward(UHAL_POINTER(winners), UHAL_POINTER(gradient), UHAL_POINTER(result), Problem problem) {
  UHAL_GLOBAL const GRADIENT_STORAGE* const gradient_data = UHAL_ADDRESS(const GRADIENT_STORAGE, gradient);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
#if MAXIMUM
  UHAL_GLOBAL const uint32* const all_winners = UHAL_ADDRESS(const uint32, winners);
#endif
  UHAL_FOR_ITEMS(i, problem.count) {
    INDEX at[5];
    COORDINATES(i, problem.input, at);
    const Span places_z = SPAN(place_span, 0, at[2]);
    const Span places_y = SPAN(place_span, 1, at[3]);
    const Span places_x = SPAN(place_span, 2, at[4]);
    T sum = 0;
    INDEX place[5];
    place[0] = at[0];
    place[1] = at[1];
    for (place[2] = places_z.begin; place[2] < places_z.end; ++place[2]) {
      const Span planes = SPAN(window_span, 0, place[2]);
      for (place[3] = places_y.begin; place[3] < places_y.end; ++place[3]) {
        const Span lines = SPAN(window_span, 1, place[3]);
        for (place[4] = places_x.begin; place[4] < places_x.end; ++place[4]) {
          const Span columns = SPAN(window_span, 2, place[4]);
#if MAXIMUM
          if (all_winners[WINDOW(place)] == (uint32)TAP(planes, lines, columns, at[2], at[3], at[4])) {
            sum += GRADIENT_LOAD(gradient_data, OFFSET(2, place));
          }
#else
          sum += GRADIENT_LOAD(gradient_data, OFFSET(2, place)) / (T)DIVISOR(planes, lines, columns);
#endif
        }
      }
    }
    RESULT_STORE(result_data, OFFSET(3, at), sum);
  }
}

/* The pixels from a window's place to the next one's, the first and the last ones' to the edge. */
UHAL_INLINE Span cell_span(INDEX place, INDEX input, INDEX output, INDEX window, INDEX stride, INDEX pad,
                           INDEX adaptive) {
  Span span;
  span.begin = place == 0 ? 0 : min(place * stride - pad, input);
  span.end = place == output - 1 ? input : min((place + 1) * stride - pad, input);
  return span;
}

#define LIES_IN(span, pixel) ((pixel) >= (span).begin && (pixel) < (span).end)

UHAL_KERNEL void pool_backward_apart(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(gradient), UHAL_POINTER(result),
                                     Problem problem) {
  UHAL_GLOBAL const GRADIENT_STORAGE* const gradient_data = UHAL_ADDRESS(const GRADIENT_STORAGE, gradient);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
#if MAXIMUM
  UHAL_GLOBAL const X_STORAGE* const x_data = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const Y_STORAGE* const y_data = UHAL_ADDRESS(const Y_STORAGE, y);
#endif
  UHAL_FOR_ITEMS(i, problem.count) {
    INDEX at[5];
    COORDINATES(i, problem.output, at);
    T share = GRADIENT_LOAD(gradient_data, OFFSET(2, at));
#if MAXIMUM
    const T maximum = Y_LOAD(y_data, OFFSET(1, at));
    int32 is_found = 0;
#endif
#if CELL
    at[3] *= CELL;
    at[4] *= CELL;
    const INDEX to = OFFSET(3, at);
#if MAXIMUM
    const INDEX from = OFFSET(0, at);
    T values[CELL * CELL];
    UHAL_UNROLL for (int32 k = 0; k < CELL * CELL; ++k) {
      values[k] = X_LOAD(x_data, from + k / CELL * problem.strides[0][3] + k % CELL * problem.strides[0][4]);
    }
#else
    share /= (T)(CELL * CELL);
#endif
    UHAL_UNROLL for (int32 k = 0; k < CELL * CELL; ++k) {
      T value = share;
#if MAXIMUM
      const int32 is_first = !is_found && alike(values[k], maximum);
      is_found |= is_first;
      if (!is_first) value = 0;
#endif
      RESULT_STORE(result_data, to + k / CELL * problem.strides[3][3] + k % CELL * problem.strides[3][4], value);
    }
#else
    const Span planes = SPAN(window_span, 0, at[2]);
    const Span lines = SPAN(window_span, 1, at[3]);
    const Span columns = SPAN(window_span, 2, at[4]);
    const Span cell_z = SPAN(cell_span, 0, at[2]);
    const Span cell_y = SPAN(cell_span, 1, at[3]);
    const Span cell_x = SPAN(cell_span, 2, at[4]);
#if !MAXIMUM
    share /= (T)DIVISOR(planes, lines, columns);
#endif
    for (at[2] = cell_z.begin; at[2] < cell_z.end; ++at[2]) {
      for (at[3] = cell_y.begin; at[3] < cell_y.end; ++at[3]) {
        for (at[4] = cell_x.begin; at[4] < cell_x.end; ++at[4]) {
          int32 has_share = LIES_IN(planes, at[2]) && LIES_IN(lines, at[3]) && LIES_IN(columns, at[4]);
#if MAXIMUM
          has_share = has_share && !is_found && alike(X_LOAD(x_data, OFFSET(0, at)), maximum);
          is_found |= has_share;
#endif
          RESULT_STORE(result_data, OFFSET(3, at), has_share ? share : (T)0);
        }
      }
    }
#endif
  }
}

#endif
