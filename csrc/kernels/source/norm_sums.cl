/* The gradients of a normalization's scale and bias: sums over all points of each column, which is a channel, or an
 * element of layer norm's rows. A team of work-items takes a piece of a column's points (column_sums); then the pieces
 * are added up (finish_column_sums). Columns are counted in the order of their layout.
 *
 * Macros: UHAL_GROUP; X, the dtype of x and dy, or MIXED if theirs differ or are no usual ones; UNIT: a point stands for
 * so many elements of a column, which lie side by side, aligned (4 or 8) and share their statistics, or for one. */
#include "csrc/kernels/prelude/floating.h"
#include "csrc/kernels/prelude/group.h"

UHAL_LAYOUT(columns_layout, 6) /* x, dy, mean, spread, dscale, dbias */
UHAL_LAYOUT(points_layout, 4)  /* x, dy, mean, spread */

#if MIXED
#define LOAD(name, place) uhal_load_floating(dtypes.name, name, place)
#define UNROLL (UHAL_COSTLY_UNROLLING ? 1 : 4)
#else
#define LOAD(name, place) X_LOAD((UHAL_GLOBAL const X_STORAGE*)(name), place)
#define UNROLL (UNIT == 8 ? 2 : 4)
#endif
#if UNIT > 1
#define LOAD_POINT(name, place, values) UHAL_WIDE(X_LOAD, UNIT)((UHAL_GLOBAL const X_STORAGE*)(name), place, values)
#else
#define LOAD_POINT(name, place, values) ((values)[0] = LOAD(name, place))
#endif

typedef struct {
  int32 x, dy, mean, spread;
} Dtypes;

typedef struct {
  T gradient; /* sum of dy */
  T product;  /* sum of dy * normalized x */
} ColumnSums;

UHAL_INLINE ColumnSums add_column_sums(ColumnSums a, ColumnSums b) {
  a.gradient += b.gradient;
  a.product += b.product;
  return a;
}

UHAL_TEAM_REDUCTION(team_column_sums, ColumnSums, add_column_sums)

#define ADD_POINT(point)                                                                                      \
  do {                                                                                                        \
    INDEX at[4] = {offsets[0], offsets[1], offsets[2], offsets[3]};                                           \
    UHAL_ADD_OFFSETS(of_points, 4, point, at);                                                                \
    if (per_point) {                                                                                          \
      center = has_mean ? uhal_load_floating(dtypes.mean, mean, at[2]) : 0;                                            \
      inverse = uhal_load_floating(dtypes.spread, spread, at[3]);                                                      \
    }                                                                                                         \
    T gradients[UNIT], values[UNIT];                                                                          \
    LOAD_POINT(dy, at[1], gradients);                                                                         \
    LOAD_POINT(x, at[0], values);                                                                             \
    UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {                                                            \
      sums.gradient += gradients[u];                                                                          \
      sums.product += gradients[u] * ((values[u] - center) * inverse);                                        \
    }                                                                                                         \
  } while (0)

/* sums[piece][0 and 1][column] = the gradients of bias and scale. Statistics belong to columns, and spread is the
 * variance; or, per_point, to points as well, and spread is the inverse root. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void column_sums(
    UHAL_POINTER(of_x), UHAL_POINTER(of_dy), UHAL_POINTER(of_mean), UHAL_POINTER(of_spread), UHAL_POINTER(of_sums),
    columns_layout of_columns, points_layout of_points, INDEX columns, INDEX points, INDEX pieces, Dtypes dtypes,
    T epsilon, int32 per_point, int32 has_mean, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY ColumnSums scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL const char* dy = UHAL_ADDRESS(const char, of_dy);
  UHAL_GLOBAL const char* mean = UHAL_ADDRESS(const char, of_mean);
  UHAL_GLOBAL const char* spread = UHAL_ADDRESS(const char, of_spread);
  const INDEX blocks = (columns + team.teams - 1) / team.teams;
  const INDEX share = (points + pieces - 1) / pieces;

  const INDEX task = UHAL_GROUP_ID(0);
  const INDEX column = task % blocks * team.teams + team.index;
  const INDEX begin = task / blocks * share;
  const INDEX end = column >= columns ? begin : begin + share < points ? begin + share : points;
  INDEX offsets[6] = {0, 0, 0, 0, 0, 0};
  T center = 0, inverse = 0;
  if (column < columns) {
    UHAL_ADD_OFFSETS(of_columns, 6, column, offsets);
    if (!per_point) {
      center = uhal_load_floating(dtypes.mean, mean, offsets[2]);
      inverse = 1 / sqrt(uhal_load_floating(dtypes.spread, spread, offsets[3]) + epsilon);
    }
  }
  ColumnSums sums = {0, 0};
  INDEX point = begin + team.lane;
  for (; point + (UNROLL - 1) * lanes < end; point += UNROLL * lanes) {
    UHAL_UNROLL for (int32 k = 0; k < UNROLL; ++k) ADD_POINT(point + k * lanes);
  }
  for (; point < end; point += lanes) ADD_POINT(point);
  sums = team_column_sums(sums, scratch, team);
  if (team.lane == 0 && column < columns) {
    UHAL_GLOBAL T* to = UHAL_ADDRESS(T, of_sums) + task / blocks * 2 * columns + column;
    to[0] = sums.gradient;
    to[columns] = sums.product;
  }
}

/* Adds up the pieces, a team for each column: into the first piece, and into dscale and dbias where they are asked for. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void finish_column_sums(
    UHAL_POINTER(of_sums), UHAL_POINTER(dscale), UHAL_POINTER(dbias), columns_layout of_columns, INDEX columns,
    INDEX pieces, int32 dscale_dtype, int32 dbias_dtype, int32 has_dscale, int32 has_dbias, int32 lanes,
    int32 adjacent) {
  UHAL_LOCAL_MEMORY ColumnSums scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL T* sums = UHAL_ADDRESS(T, of_sums);
  const INDEX column = UHAL_GROUP_ID(0) * team.teams + team.index;
  ColumnSums total = {0, 0};
  for (INDEX piece = column < columns ? team.lane : pieces; piece < pieces; piece += lanes) {
    total.gradient += sums[piece * 2 * columns + column];
    total.product += sums[(piece * 2 + 1) * columns + column];
  }
  total = team_column_sums(total, scratch, team);
  if (team.lane == 0 && column < columns) {
    sums[column] = total.gradient;
    sums[columns + column] = total.product;
    INDEX offsets[6] = {0, 0, 0, 0, 0, 0};
    UHAL_ADD_OFFSETS(of_columns, 6, column, offsets);
    if (has_dscale) uhal_store_floating(dscale_dtype, UHAL_ADDRESS(char, dscale), offsets[4], total.product);
    if (has_dbias) uhal_store_floating(dbias_dtype, UHAL_ADDRESS(char, dbias), offsets[5], total.gradient);
  }
}
