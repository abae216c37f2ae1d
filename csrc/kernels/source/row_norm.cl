/* Layer, group and RMS norm and their gradients: rows of elements, each normalized by its own statistics. A team of
 * work-items takes a row and holds its first elements in registers; what does not fit there is read again, from caches.
 *
 * Macros: UHAL_GROUP; DENSE with X, the dtype of x, y, dy and dx: each row lies dense in all of them, in aligned fours,
 * and scale and bias are dense T, one for each `repeat` elements (1 for layer norm, a channel's pixels for group norm).
 * Without DENSE strides and dtypes are what the arguments say.
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
#if DENSE
#define UNIT 4
#define CACHED 4
#define FIND(elements, operands, unit, offsets, at) \
  for (int32 find = 0; find < operands; ++find) at[find] = offsets[find] + (unit)*UNIT
#define LOAD(name, place, values)                                              \
  do {                                                                         \
    UHAL_GLOBAL const X_STORAGE* from = (UHAL_GLOBAL const X_STORAGE*)(name);  \
    X_LOAD4(from, place, values);                                              \
  } while (0)
#define STORE(name, place, values)                                 \
  do {                                                             \
    UHAL_GLOBAL X_STORAGE* to = (UHAL_GLOBAL X_STORAGE*)(name);    \
    X_STORE4(to, place, values);                                   \
  } while (0)
#define LOAD_PARAMETER(name, k, unit, values) \
  load_parameter((UHAL_GLOBAL const T*)(name) + offsets[k], (unit)*UNIT, repeat, values)

UHAL_INLINE void load_parameter(UHAL_GLOBAL const T* parameter, INDEX element, INDEX repeat, T* values) {
  if (repeat == 1) {
    const T4 four = *(UHAL_GLOBAL const T4*)(parameter + element);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
  } else { /* a multiple of 4 */
    values[0] = values[1] = values[2] = values[3] = parameter[element / repeat];
  }
}
#else
#define UNIT 1
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
    ForwardDtypes dtypes, T epsilon, int32 centred, int32 has_scale, int32 has_bias, int32 has_mean, int32 has_spread,
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
  T sum = 0;
  UHAL_UNROLL for (int32 k = 0; k < CACHED; ++k) {
    const INDEX unit = team.lane + k * lanes;
    if (unit < units) {
      FIND(of_elements, 1, unit, offsets, at);
      LOAD(x, at[0], cached[k]);
      for (int32 u = 0; u < UNIT; ++u) sum += cached[k][u];
    }
  }
  for (INDEX unit = centred ? uncached : units; unit < units; unit += lanes) {
    FIND(of_elements, 1, unit, offsets, at);
    LOAD(x, at[0], rest);
    for (int32 u = 0; u < UNIT; ++u) sum += rest[u];
  }
  sum = uhal_team_sum(sum, scratch, team);
  const T center = centred ? sum / divisor : 0;

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
      const T spread = centred ? variance : inverse;
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

/* dx = inverse * (g - mean of g - normalized x * mean of g * normalized x); without the first mean if not centred, when
 * spread is what row_norm gives out. The inverse of each row is kept for the gradients of scale and bias. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void row_norm_gradient(
    UHAL_POINTER(of_x), UHAL_POINTER(of_dy), UHAL_POINTER(of_scale), UHAL_POINTER(of_dx), UHAL_POINTER(of_mean),
    UHAL_POINTER(of_spread), UHAL_POINTER(of_inverse), backward_rows of_rows, backward_elements of_elements, INDEX rows,
    INDEX length, INDEX repeat, BackwardDtypes dtypes, T epsilon, int32 centred, int32 has_scale, int32 lanes,
    int32 adjacent) {
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
    if (centred) center = uhal_load_floating(dtypes.mean, UHAL_ADDRESS(const char, of_mean), offsets[4]);
    inverse = centred ? 1 / sqrt(spread + epsilon) : spread;
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
  const T shift = centred ? sums.gradient / divisor : 0;
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
