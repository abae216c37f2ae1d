/* Batch norm and its gradient with respect to x, by channels. A team of work-items takes a piece of a channel's points;
 * channels whose elements lie side by side in memory go to adjacent teams. In training there are three launches:
 * batch_moments of each piece, finish_batch_moments of all, batch_normalize; in inference the last one alone. The sums
 * of the gradient are those of norm_sums.cl.
 *
 * Macros: UHAL_GROUP; X, the dtype of x, y, dy and dx, or MIXED if theirs differ; UNIT: a point stands for so many
 * elements of a channel, which lie side by side, aligned (4 or 8), or for one. */
#include "csrc/kernels/prelude/floating.h"
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/map_functions.h"

UHAL_LAYOUT(forward_points, 2)  /* x, y */
UHAL_LAYOUT(backward_points, 3) /* x, dy, dx */

#if MIXED
#define LOAD(name, place) uhal_load_floating(dtypes.name, name, place)
#define STORE(name, place, value) uhal_store_floating(dtypes.name, name, place, value)
#else
#define LOAD(name, place) X_LOAD((UHAL_GLOBAL const X_STORAGE*)(name), place)
#define STORE(name, place, value)                                  \
  do {                                                             \
    UHAL_GLOBAL X_STORAGE* to = (UHAL_GLOBAL X_STORAGE*)(name);    \
    X_STORE(to, place, value);                                     \
  } while (0)
#endif

/* The elements of a point. */
#if UNIT > 1
#define LOAD_POINT(name, place, values) UHAL_WIDE(X_LOAD, UNIT)((UHAL_GLOBAL const X_STORAGE*)(name), place, values)
#define STORE_POINT(name, place, values) UHAL_WIDE(X_STORE, UNIT)((UHAL_GLOBAL X_STORAGE*)(name), place, values)
#else
#define LOAD_POINT(name, place, values) ((values)[0] = LOAD(name, place))
#define STORE_POINT(name, place, values) STORE(name, place, (values)[0])
#endif
#define FOR_UNIT(u) UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u)

#define UNROLL (UNIT == 1 ? 8 : 16 / UNIT) /* points whose moments are formed together */
#define IN_FLIGHT (UNIT == 8 ? 2 : 4) /* loads before the stores that follow from them, which compilers do not reorder */

/* Vectors over the channels: dtypes, strides, and the number of channels. */
typedef struct {
  INDEX channels, points, pieces, x, y, scale, bias, mean, variance;
} Forward;

typedef struct {
  int32 x, y, scale, bias, mean, variance;
} ForwardDtypes;

typedef struct {
  INDEX channels, points, pieces, x, dy, dx, scale, mean, variance;
} Backward;

typedef struct {
  int32 x, dy, dx, scale, mean, variance;
} BackwardDtypes;

/* What a team does: points [begin, end) of a channel; none of a channel that does not exist. */
#define TAKE_TASK(p)                                                        \
  const INDEX blocks = ((p).channels + team.teams - 1) / team.teams;        \
  const INDEX share = ((p).points + (p).pieces - 1) / (p).pieces;           \
  const INDEX piece = UHAL_GROUP_ID(0) / blocks;                            \
  const INDEX channel = UHAL_GROUP_ID(0) % blocks * team.teams + team.index; \
  const INDEX begin = piece * share;                                        \
  const INDEX end = channel >= (p).channels ? begin : begin + share < (p).points ? begin + share : (p).points

typedef struct {
  T count, mean, squares; /* squares: the sum of squared differences from the mean */
} Moments;

/* The moments of both (Chan, Golub and LeVeque, 1979): no digits are lost where the mean is large. */
UHAL_INLINE Moments join_moments(Moments a, Moments b) {
  Moments result;
  result.count = a.count + b.count;
  const T share = result.count > 0 ? b.count / result.count : 0;
  const T difference = b.mean - a.mean;
  result.mean = a.mean + difference * share;
  result.squares = a.squares + b.squares + difference * difference * a.count * share;
  return result;
}

UHAL_TEAM_REDUCTION(team_moments, Moments, join_moments)

/* moments[piece][0 and 1][channel] = mean and squares of each piece. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void batch_moments(UHAL_POINTER(of_x), UHAL_POINTER(of_moments),
                                                                 forward_points of_points, Forward p,
                                                                 ForwardDtypes dtypes, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY Moments scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  TAKE_TASK(p);
  Moments moments = {0, 0, 0};
  /* UNROLL points at a time by the two-pass method, in registers. */
  for (INDEX point = begin + team.lane; point < end; point += UNROLL * lanes) {
    T values[UNROLL][UNIT];
    Moments own = {0, 0, 0};
    UHAL_UNROLL for (int32 k = 0; k < UNROLL; ++k) {
      if (point + k * lanes < end) {
        INDEX at[1] = {channel * p.x};
        UHAL_ADD_OFFSETS(of_points, 1, point + k * lanes, at);
        LOAD_POINT(x, at[0], values[k]);
        own.count += UNIT;
      } else {
        FOR_UNIT(u) values[k][u] = 0;
      }
      FOR_UNIT(u) own.mean += values[k][u];
    }
    own.mean /= own.count;
    UHAL_UNROLL for (int32 k = 0; k < UNROLL; ++k) {
      FOR_UNIT(u) {
        const T difference = point + k * lanes < end ? values[k][u] - own.mean : 0;
        own.squares += difference * difference;
      }
    }
    moments = join_moments(moments, own);
  }
  moments = team_moments(moments, scratch, team);
  if (team.lane == 0 && channel < p.channels) {
    UHAL_GLOBAL T* to = UHAL_ADDRESS(T, of_moments) + piece * 2 * p.channels + channel;
    to[0] = moments.mean;
    to[p.channels] = moments.squares;
  }
}

/* Strides and dtypes of the vectors of statistics: the batch's, and the running ones before and after. */
typedef struct {
  INDEX channels, points, pieces, mean, variance, old_mean, old_variance, new_mean, new_variance;
} Statistics;

typedef struct {
  int32 mean, variance, old_mean, old_variance, new_mean, new_variance;
} StatisticsDtypes;

/* Joins the pieces, a team for each channel: its mean and variance, into `moments` in place of the first piece's and
 * into the outputs, and the running statistics. `kept` is the momentum, `unbiased` what the variance is multiplied by
 * for them. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void finish_batch_moments(
    UHAL_POINTER(of_moments), UHAL_POINTER(mean), UHAL_POINTER(variance), UHAL_POINTER(old_mean),
    UHAL_POINTER(old_variance), UHAL_POINTER(new_mean), UHAL_POINTER(new_variance), Statistics p,
    StatisticsDtypes dtypes, T kept, T unbiased, int32 has_mean, int32 has_variance, int32 has_running_mean,
    int32 has_running_variance, int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY Moments scratch[UHAL_GROUP];
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL T* moments = UHAL_ADDRESS(T, of_moments);
  const INDEX share = (p.points + p.pieces - 1) / p.pieces;
  const INDEX c = UHAL_GROUP_ID(0) * team.teams + team.index;
  Moments all = {0, 0, 0};
  for (INDEX piece = c < p.channels ? team.lane : p.pieces; piece < p.pieces; piece += lanes) {
    const INDEX left = p.points - piece * share;
    Moments own;
    own.count = (T)((left < 0 ? 0 : left < share ? left : share) * UNIT);
    own.mean = moments[piece * 2 * p.channels + c];
    own.squares = moments[(piece * 2 + 1) * p.channels + c];
    all = join_moments(all, own);
  }
  all = team_moments(all, scratch, team);
  if (team.lane == 0 && c < p.channels) {
    const T spread = all.count > 0 ? all.squares / all.count : 0;
    moments[c] = all.mean;
    moments[p.channels + c] = spread;
    if (has_mean) uhal_store_floating(dtypes.mean, UHAL_ADDRESS(char, mean), c * p.mean, all.mean);
    if (has_variance) uhal_store_floating(dtypes.variance, UHAL_ADDRESS(char, variance), c * p.variance, spread);
    if (has_running_mean) {
      const T old = uhal_load_floating(dtypes.old_mean, UHAL_ADDRESS(const char, old_mean), c * p.old_mean);
      uhal_store_floating(dtypes.new_mean, UHAL_ADDRESS(char, new_mean), c * p.new_mean,
                          kept * old + (1 - kept) * all.mean);
    }
    if (has_running_variance) {
      const T old = uhal_load_floating(dtypes.old_variance, UHAL_ADDRESS(const char, old_variance), c * p.old_variance);
      uhal_store_floating(dtypes.new_variance, UHAL_ADDRESS(char, new_variance), c * p.new_variance,
                          kept * old + (1 - kept) * (spread * unbiased));
    }
  }
}

/* y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias) */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void batch_normalize(
    UHAL_POINTER(of_x), UHAL_POINTER(of_y), UHAL_POINTER(scale), UHAL_POINTER(bias), UHAL_POINTER(mean),
    UHAL_POINTER(variance), forward_points of_points, Forward p, ForwardDtypes dtypes, T epsilon, int32 has_scale,
    int32 has_bias, int32 lanes, int32 adjacent) {
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL char* y = UHAL_ADDRESS(char, of_y);
  TAKE_TASK(p);
  if (channel >= p.channels) return;
  const T center = uhal_load_floating(dtypes.mean, UHAL_ADDRESS(const char, mean), channel * p.mean);
  const T spread = uhal_load_floating(dtypes.variance, UHAL_ADDRESS(const char, variance), channel * p.variance);
  T factor = 1 / sqrt(spread + epsilon);
  T shift = 0;
  if (has_scale) factor *= uhal_load_floating(dtypes.scale, UHAL_ADDRESS(const char, scale), channel * p.scale);
  if (has_bias) shift = uhal_load_floating(dtypes.bias, UHAL_ADDRESS(const char, bias), channel * p.bias);
  for (INDEX point = begin + team.lane; point < end; point += IN_FLIGHT * lanes) {
    T values[IN_FLIGHT][UNIT];
    INDEX places[IN_FLIGHT];
    UHAL_UNROLL for (int32 k = 0; k < IN_FLIGHT; ++k) {
      if (point + k * lanes < end) {
        INDEX at[2] = {channel * p.x, channel * p.y};
        UHAL_ADD_OFFSETS(of_points, 2, point + k * lanes, at);
        LOAD_POINT(x, at[0], values[k]);
        places[k] = at[1];
      }
    }
    UHAL_UNROLL for (int32 k = 0; k < IN_FLIGHT; ++k) {
      FOR_UNIT(u) values[k][u] = uhal_activate((values[k][u] - center) * factor + shift);
      if (point + k * lanes < end) STORE_POINT(y, places[k], values[k]);
    }
  }
}

/* dx = factor * (dy - mean of dy - normalized x * mean of dy * normalized x), factor = scale * inverse; `sums` has the
 * two sums of each channel (norm_sums.cl). With constant statistics dx = factor * dy. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void batch_gradient(
    UHAL_POINTER(of_x), UHAL_POINTER(of_dy), UHAL_POINTER(of_dx), UHAL_POINTER(scale), UHAL_POINTER(mean),
    UHAL_POINTER(variance), UHAL_POINTER(of_sums), backward_points of_points, Backward p, BackwardDtypes dtypes,
    T epsilon, int32 has_scale, int32 constant_statistics, int32 lanes, int32 adjacent) {
  const uhal_team team = uhal_make_team(lanes, adjacent);
  UHAL_GLOBAL const char* x = UHAL_ADDRESS(const char, of_x);
  UHAL_GLOBAL const char* dy = UHAL_ADDRESS(const char, of_dy);
  UHAL_GLOBAL char* dx = UHAL_ADDRESS(char, of_dx);
  UHAL_GLOBAL const T* sums = UHAL_ADDRESS(const T, of_sums);
  TAKE_TASK(p);
  if (channel >= p.channels) return;
  const T center = uhal_load_floating(dtypes.mean, UHAL_ADDRESS(const char, mean), channel * p.mean);
  const T spread = uhal_load_floating(dtypes.variance, UHAL_ADDRESS(const char, variance), channel * p.variance);
  const T inverse = 1 / sqrt(spread + epsilon);
  T factor = inverse;
  if (has_scale) factor *= uhal_load_floating(dtypes.scale, UHAL_ADDRESS(const char, scale), channel * p.scale);
  T shift = 0, slope = 0;
  if (!constant_statistics) {
    const T count = (T)(p.points * UNIT);
    shift = sums[channel] / count;
    slope = sums[p.channels + channel] / count * inverse;
  }
  for (INDEX point = begin + team.lane; point < end; point += IN_FLIGHT * lanes) {
    T results[IN_FLIGHT][UNIT];
    INDEX places[IN_FLIGHT];
    UHAL_UNROLL for (int32 k = 0; k < IN_FLIGHT; ++k) {
      if (point + k * lanes < end) {
        INDEX at[3] = {channel * p.x, channel * p.dy, channel * p.dx};
        UHAL_ADD_OFFSETS(of_points, 3, point + k * lanes, at);
        LOAD_POINT(dy, at[1], results[k]);
        if (!constant_statistics) {
          T values[UNIT];
          LOAD_POINT(x, at[0], values);
          FOR_UNIT(u) results[k][u] -= shift + (values[u] - center) * slope;
        }
        places[k] = at[2];
      }
    }
    UHAL_UNROLL for (int32 k = 0; k < IN_FLIGHT; ++k) {
      FOR_UNIT(u) results[k][u] *= factor;
      if (point + k * lanes < end) STORE_POINT(dx, places[k], results[k]);
    }
  }
}
