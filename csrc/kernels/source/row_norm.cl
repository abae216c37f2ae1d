/* Layer, group and RMS norm and their gradients: rows of elements, each normalized by its own statistics. A team of
 * work-items takes a row and holds its first elements in registers; what does not fit there is read again, from caches.
 *
 * Macros: UHAL_GROUP; CENTRED: not RMS norm; UNIT, the elements that a work-item reads at once: if more than 1, 4 or 8,
 * each row lies dense in x, y, dy and dx, of dtype X, in aligned units, and scale and bias, of dtype P, T's, are dense, one for
 * each `repeat` elements (1 for layer norm, a channel's pixels for group norm). With UNIT 1 strides and dtypes are what
 * the arguments say. FUSED: row_norm_gradients.
 *
 * The grid has a team for each row, here and in the other sources of norms: no barrier stands in a loop or under a
 * condition, which compilers for CPUs take long over. */
#include "csrc/kernels/prelude/floating.h"
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/map_functions.h"

UHAL_LAYOUT(forward_rows, 6)      /* x, y, scale, bias, mean, spread */
UHAL_LAYOUT(forward_elements, 4)  /* x, y, scale, bias */
UHAL_LAYOUT(backward_rows, 7)     /* x, dy, scale, dx, mean, spread, inverse */
UHAL_LAYOUT(backward_elements, 4) /* x, dy, scale, dx */

typedef struct {
  int32 x, y, scale, bias, mean, spread;
} ForwardDtypes;

typedef struct {
  int32 x, dy, scale, dx, mean, spread;
} BackwardDtypes;

/* A unit is what a work-item reads at once; CACHED units of a row stay in its registers.
 *   FIND: where a unit lies in the first few operands of a layout
 *   LOAD, STORE: a unit at its place; LOAD_PARAMETER: that of scale or bias, the operand with number k */
#if UNIT > 1
/* row_norm.cc; of two operands, eight neighbours are held twice. */
#if UNIT == 8 && GRADIENT
#define CACHED 2
#else
#define CACHED 4
#endif
#define FIND(elements, operands, unit, offsets, at) \
  for (int32 find = 0; find < operands; ++find) at[find] = offsets[find] + (unit)*UNIT
#define LOAD(name, place, values)                                              \
  do {                                                                         \
    UHAL_GLOBAL const X_STORAGE* from = (UHAL_GLOBAL const X_STORAGE*)(name);  \
    UHAL_WIDE(X_LOAD, UNIT)(from, place, values);                              \
  } while (0)
#define STORE(name, place, values)                                 \
  do {                                                             \
    UHAL_GLOBAL X_STORAGE* to = (UHAL_GLOBAL X_STORAGE*)(name);    \
    UHAL_WIDE(X_STORE, UNIT)(to, place, values);                   \
  } while (0)
#define LOAD_PARAMETER(name, k, unit, values) \
  load_parameter((UHAL_GLOBAL const P_STORAGE*)(name) + offsets[k], (unit)*UNIT, repeat, values)

UHAL_INLINE void load_parameter(UHAL_GLOBAL const P_STORAGE* parameter, INDEX element, INDEX repeat, T* values) {
  if (repeat == 1) {
    UHAL_WIDE(P_LOAD, UNIT)(parameter, element, values);
  } else { /* a multiple of UNIT */
    const T value = P_LOAD(parameter, element / repeat);
    UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) values[u] = value;
  }
}
#else
#define CACHED (UHAL_COSTLY_UNROLLING ? 1 : 8)
#define FIND(elements, operands, unit, offsets, at)                                \
  for (int32 find = 0; find < operands; ++find) at[find] = offsets[find];          \
  UHAL_ADD_OFFSETS(elements, operands, unit, at)
#define LOAD(name, place, values) ((values)[0] = uhal_load_floating(dtypes.name, name, place))
#define STORE(name, place, values) uhal_store_floating(dtypes.name, name, place, (values)[0])
#define LOAD_PARAMETER(name, k, unit, values) LOAD(name, at[k], values)
#endif

/* y = activation((x - mean) * inverse * scale + bias) of one unit. */
#define NORMALIZE(unit, values)                                                                     \
  do {                                                                                              \
    T factor[UNIT], shift[UNIT], result[UNIT];                                                      \
    FIND(of_elements, 4, unit, offsets, at);                                                        \
    for (int32 u = 0; u < UNIT; ++u) factor[u] = 1, shift[u] = 0;                                   \
    if (has_scale) LOAD_PARAMETER(scale, 2, unit, factor);                                          \
    if (has_bias) LOAD_PARAMETER(bias, 3, unit, shift);                                             \
    for (int32 u = 0; u < UNIT; ++u) {                                                              \
      result[u] = uhal_activate(((values)[u] - center) * inverse * factor[u] + shift[u]);           \
    }                                                                                               \
    STORE(y, at[1], result);                                                                        \
  } while (0)

/* RMS norm is not centred: its mean is 0, and spread is the inverse root of the mean square instead of the variance.
 * Absent operands are told by has_*. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void row_norm(
    UHAL_POINTER(of_x), UHAL_POINTER(of_y), UHAL_POINTER(of_scale), UHAL_POINTER(of_bias), UHAL_POINTER(of_mean),
    UHAL_POINTER(of_spread), forward_rows of_rows, forward_elements of_elements, INDEX rows, INDEX length, INDEX repeat,
    ForwardDtypes dtypes, T epsilon, int32 has_scale, int32 has_bias, int32 has_mean, int32 has_spread,
    int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL const char* scale = UHAL_ADDRESS(const char, of_scale);
  UHAL_GLOBAL const char* bias = UHAL_ADDRESS(const char, of_bias);
  UHAL_GLOBAL char* y = UHAL_ADDRESS(char, of_y);
  const T divisor = length > 0 ? (T)length : 1;

  const INDEX row = UHAL_GROUP_ID(0) * team.teams + team.index;
  const INDEX units = row < rows ? length / UNIT : 0;
  const INDEX uncached = team.lane + CACHED * lanes;
  INDEX offsets[6] = {0, 0, 0, 0, 0, 0}, at[4];
  if (row < rows) UHAL_ADD_OFFSETS(of_rows, 6, row, offsets);

  T cached[CACHED][UNIT], rest[UNIT];
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) {
      FIND(of_elements, 1, unit, offsets, at);
      LOAD(x, at[0], cached[k]);
    }
  }
#if CENTRED
  T sum = 0;
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    if (team.lane + k * lanes < units) {
      for (int32 u = 0; u < UNIT; ++u) sum += cached[k][u];
    }
  }
  for (INDEX unit = uncached; unit < units; unit += lanes) {
    FIND(of_elements, 1, unit, offsets, at);
    LOAD(x, at[0], rest);
    for (int32 u = 0; u < UNIT; ++u) sum += rest[u];
  }
  const T center = uhal_team_sum(sum, scratch, team) / divisor;
#else
  const T center = 0;
#endif

  /* In a second pass: the mean of squares less the squared mean would lose its digits where the mean is large. */
  T squares = 0;
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    if (team.lane + k * lanes < units) {
      for (int32 u = 0; u < UNIT; ++u) squares += (cached[k][u] - center) * (cached[k][u] - center);
    }
  }
  for (INDEX unit = uncached; unit < units; unit += lanes) {
    FIND(of_elements, 1, unit, offsets, at);
    LOAD(x, at[0], rest);
    for (int32 u = 0; u < UNIT; ++u) squares += (rest[u] - center) * (rest[u] - center);
  }
  const T variance = uhal_team_sum(squares, scratch, team) / divisor;
  const T inverse = 1 / sqrt(variance + epsilon);

  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) NORMALIZE(unit, cached[k]);
  }
  for (INDEX unit = uncached; unit < units; unit += lanes) {
    FIND(of_elements, 1, unit, offsets, at);
    LOAD(x, at[0], rest);
    NORMALIZE(unit, rest);
  }
  if (team.lane == 0 && row < rows) {
    if (has_mean) uhal_store_floating(dtypes.mean, UHAL_ADDRESS(char, of_mean), offsets[4], center);
    if (has_spread) {
      const T spread = CENTRED ? variance : inverse;
      uhal_store_floating(dtypes.spread, UHAL_ADDRESS(char, of_spread), offsets[5], spread);
    }
  }
}

typedef struct {
  T gradient; /* sum of g = dy * scale */
  T product;  /* sum of g * normalized x */
} RowSums;

UHAL_INLINE RowSums add_row_sums(RowSums a, RowSums b) {
  a.gradient += b.gradient;
  a.product += b.product;
  return a;
}

UHAL_TEAM_REDUCTION(team_row_sums, RowSums, add_row_sums)

/* Reads a unit as normalized x and g. */
#define LOAD_GRADIENT(unit, normalized, g)                                              \
  do {                                                                                  \
    T factor[UNIT];                                                                     \
    FIND(of_elements, 3, unit, offsets, at);                                            \
    for (int32 u = 0; u < UNIT; ++u) factor[u] = 1;                                     \
    if (has_scale) LOAD_PARAMETER(scale, 2, unit, factor);                              \
    LOAD(x, at[0], normalized);                                                         \
    LOAD(dy, at[1], g);                                                                 \
    for (int32 u = 0; u < UNIT; ++u) {                                                  \
      (normalized)[u] = ((normalized)[u] - center) * inverse;                           \
      (g)[u] *= factor[u];                                                              \
    }                                                                                   \
  } while (0)

#define ADD_UNIT(normalized, g)             \
  for (int32 u = 0; u < UNIT; ++u) {        \
    sums.gradient += (g)[u];                \
    sums.product += (g)[u] * (normalized)[u]; \
  }

#define STORE_GRADIENT(unit, normalized, g)                                                           \
  do {                                                                                                \
    T result[UNIT];                                                                                   \
    FIND(of_elements, 4, unit, offsets, at);                                                          \
    for (int32 u = 0; u < UNIT; ++u) result[u] = inverse * ((g)[u] - shift - (normalized)[u] * slope); \
    STORE(dx, at[3], result);                                                                         \
  } while (0)

#if FUSED

/* row_norm_gradient and the sums for scale and bias in one reading, for rows that CACHED units of a team hold, with one
 * scale for each element and statistics of dtype P. A team takes a row after the other, each the number of all teams
 * further on, and gathers its columns' sums in registers: sums[team][0 and 1][column], as norm_sums.cl has its pieces.
 * For GPUs: a barrier lies in a loop. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void row_norm_gradients(
    UHAL_POINTER(of_x), UHAL_POINTER(of_dy), UHAL_POINTER(of_scale), UHAL_POINTER(of_dx), UHAL_POINTER(of_mean),
    UHAL_POINTER(of_spread), UHAL_POINTER(of_sums), backward_rows of_rows, backward_elements of_elements, INDEX rows,
    INDEX length, INDEX repeat, BackwardDtypes dtypes, T epsilon, int32 has_scale, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY RowSums scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL const char* dy = UHAL_ADDRESS(const char, of_dy);
  UHAL_GLOBAL const char* scale = UHAL_ADDRESS(const char, of_scale);
  UHAL_GLOBAL char* dx = UHAL_ADDRESS(char, of_dx);
  const INDEX units = length / UNIT;
  const INDEX teams = UHAL_GROUP_COUNT(0) * team.teams;

  T factor[CACHED][UNIT], gradients[CACHED][UNIT], products[CACHED][UNIT];
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) factor[k][u] = 1, gradients[k][u] = 0, products[k][u] = 0;
    if (has_scale && unit < units) {
      const INDEX offsets[3] = {0, 0, 0};
      LOAD_PARAMETER(scale, 2, unit, factor[k]);
    }
  }
  for (INDEX first = UHAL_GROUP_ID(0) * team.teams; first < rows; first += teams) {
    const INDEX row = first + team.index;
    const INDEX own_units = row < rows ? units : 0;
    INDEX offsets[7] = {0, 0, 0, 0, 0, 0, 0};
    T center = 0, inverse = 0;
    if (row < rows) {
      UHAL_ADD_OFFSETS(of_rows, 7, row, offsets);
      const T spread = P_LOAD(UHAL_ADDRESS(const P_STORAGE, of_spread), offsets[5]);
      if (CENTRED) center = P_LOAD(UHAL_ADDRESS(const P_STORAGE, of_mean), offsets[4]);
      inverse = CENTRED ? 1 / sqrt(spread + epsilon) : spread;
    }
    T normalized[CACHED][UNIT], g[CACHED][UNIT];
    UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
      const INDEX unit = team.lane + k * lanes;
      if (unit < own_units) {
        LOAD(x, offsets[0] + unit * UNIT, normalized[k]);
        LOAD(dy, offsets[1] + unit * UNIT, g[k]);
      } else {
        UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) normalized[k][u] = 0, g[k][u] = 0;
      }
    }
    RowSums sums = {0, 0};
    UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
      UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
        normalized[k][u] = (normalized[k][u] - center) * inverse;
        gradients[k][u] += g[k][u];
        products[k][u] += g[k][u] * normalized[k][u];
        g[k][u] *= factor[k][u];
        sums.gradient += g[k][u];
        sums.product += g[k][u] * normalized[k][u];
      }
    }
    sums = team_row_sums(sums, scratch, team);
    const T shift = CENTRED ? sums.gradient / length : 0;
    const T slope = sums.product / length;
    UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
      const INDEX unit = team.lane + k * lanes;
      if (unit < own_units) {
        T result[UNIT];
        UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
          result[u] = inverse * (g[k][u] - shift - normalized[k][u] * slope);
        }
        STORE(dx, offsets[3] + unit * UNIT, result);
      }
    }
  }
  UHAL_GLOBAL T* to = UHAL_ADDRESS(T, of_sums) + (UHAL_GROUP_ID(0) * team.teams + team.index) * 2 * length;
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) {
      UHAL_UNROLL for (int32 u = 0; u < UNIT; u += 4) {
        T4 four;
        four.x = gradients[k][u], four.y = gradients[k][u + 1], four.z = gradients[k][u + 2];
        four.w = gradients[k][u + 3];
        *(UHAL_GLOBAL T4*)(to + unit * UNIT + u) = four;
        four.x = products[k][u], four.y = products[k][u + 1], four.z = products[k][u + 2];
        four.w = products[k][u + 3];
        *(UHAL_GLOBAL T4*)(to + length + unit * UNIT + u) = four;
      }
    }
  }
}

#else

/* dx = inverse * (g - mean of g - normalized x * mean of g * normalized x); without the first mean if not centred, when
 * spread is what row_norm gives out. The inverse of each row is kept for the gradients of scale and bias. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void row_norm_gradient(
    UHAL_POINTER(of_x), UHAL_POINTER(of_dy), UHAL_POINTER(of_scale), UHAL_POINTER(of_dx), UHAL_POINTER(of_mean),
    UHAL_POINTER(of_spread), UHAL_POINTER(of_inverse), backward_rows of_rows, backward_elements of_elements, INDEX rows,
    INDEX length, INDEX repeat, BackwardDtypes dtypes, T epsilon, int32 has_scale, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY RowSums scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL const char* dy = UHAL_ADDRESS(const char, of_dy);
  UHAL_GLOBAL const char* scale = UHAL_ADDRESS(const char, of_scale);
  UHAL_GLOBAL char* dx = UHAL_ADDRESS(char, of_dx);
  const T divisor = length > 0 ? (T)length : 1;

  const INDEX row = UHAL_GROUP_ID(0) * team.teams + team.index;
  const INDEX units = row < rows ? length / UNIT : 0;
  const INDEX uncached = team.lane + CACHED * lanes;
  INDEX offsets[7] = {0, 0, 0, 0, 0, 0, 0}, at[4];
  T center = 0, inverse = 0;
  if (row < rows) {
    UHAL_ADD_OFFSETS(of_rows, 7, row, offsets);
    const T spread = uhal_load_floating(dtypes.spread, UHAL_ADDRESS(const char, of_spread), offsets[5]);
    if (CENTRED) center = uhal_load_floating(dtypes.mean, UHAL_ADDRESS(const char, of_mean), offsets[4]);
    inverse = CENTRED ? 1 / sqrt(spread + epsilon) : spread;
    if (team.lane == 0) UHAL_ADDRESS(T, of_inverse)[offsets[6]] = inverse;
  }

  T normalized[CACHED][UNIT], g[CACHED][UNIT], rest[UNIT], rest_g[UNIT];
  RowSums sums = {0, 0};
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) {
      LOAD_GRADIENT(unit, normalized[k], g[k]);
      ADD_UNIT(normalized[k], g[k]);
    }
  }
  for (INDEX unit = uncached; unit < units; unit += lanes) {
    LOAD_GRADIENT(unit, rest, rest_g);
    ADD_UNIT(rest, rest_g);
  }
  sums = team_row_sums(sums, scratch, team);
  const T shift = CENTRED ? sums.gradient / divisor : 0;
  const T slope = sums.product / divisor;

  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) STORE_GRADIENT(unit, normalized[k], g[k]);
  }
  for (INDEX unit = uncached; unit < units; unit += lanes) {
    LOAD_GRADIENT(unit, rest, rest_g);
    STORE_GRADIENT(unit, rest, rest_g);
  }
}

#endif
