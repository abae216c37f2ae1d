/* The gradient of a depthwise convolution's filter: for each channel and tap the sum over all images' pixels of the
 * source's times the result's gradient. A work-item adds up the products of tiles in registers; a work-group, or a part of
 * one, joins what its work-items have, and leaves a part of the sum where there are several, which depthwise_join.cl
 * adds up: always in the same order.
 *
 * Macros: those of prelude/depthwise_tile.h (TRANSPOSED is 0), the dtypes GRADIENT, SOURCE, RESULT, UHAL_GROUP;
 *   CHANNELS_LAST    neighbours in memory are channels, of which UNIT (1, 4 or 8, aligned) are read at once;
 *   GRADIENT_UNIT    else: pixels of the gradient that are read at once: 1, or 4 or 8 where lines are of whole, aligned
 *                    units, of which COLUMNS is a multiple */
#include "csrc/kernels/prelude/group.h"
#include "csrc/kernels/prelude/depthwise_tile.h"

typedef struct {
  INDEX count; /* of one channel: tiles, or CHANNELS_LAST: strips of lines */
  INDEX channels;
  INDEX input[2], output[2]; /* of the source; of the gradient */
  INDEX first[2];            /* the first pixel of the source that the first tile meets */
  INDEX tiles[2];            /* CHANNELS_LAST: lines, and strips of a line */
  INDEX source_image, source_channel, source_stride[2];
  INDEX gradient_image, gradient_channel, gradient_stride[2];
  INDEX result_part, result_channel, result_stride[2];
  INDEX parts;                          /* of each sum */
  INDEX window_y, stride_y;             /* CHANNELS_LAST, like all that follows */
  INDEX lanes, slots;                   /* units of channels of a work-group; strips that it has at a time */
  INDEX strip;                          /* the gradient's pixels of a strip: a multiple of COLUMNS */
} Problem;

#if CHANNELS_LAST

/* A work-item has a line of taps, so that its sums are few. */
UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void depthwise_filter_of_channels(UHAL_POINTER(gradient),
                                                                                UHAL_POINTER(source),
                                                                                UHAL_POINTER(result),
                                                                                Problem problem) {
  UHAL_LOCAL_MEMORY T scratch[UNIT * UHAL_GROUP];
  UHAL_GLOBAL const GRADIENT_STORAGE* const gradient_data = UHAL_ADDRESS(const GRADIENT_STORAGE, gradient);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  const INDEX id = UHAL_LOCAL_ID(0);
  const INDEX pair = id / problem.lanes;
  const INDEX slot = pair / problem.window_y;
  const INDEX tap_y = pair - slot * problem.window_y;
  const INDEX channel = (UHAL_GROUP_ID(1) * problem.lanes + id - pair * problem.lanes) * UNIT;
  const int32 is_there = slot < problem.slots && channel < problem.channels;
  T sums[WINDOW_X * UNIT];
  UHAL_UNROLL for (int32 k = 0; k < WINDOW_X * UNIT; ++k) sums[k] = 0;
  /* Strips follow each other down the images, so that their source's lines are met again soon. */
  const INDEX length = (problem.count + problem.parts - 1) / problem.parts;
  for (INDEX i = slot; i < length; i += problem.slots) {
    const INDEX piece = UHAL_GROUP_ID(0) * length + i;
    if (!is_there || piece >= problem.count) break;
    const INDEX column = piece / problem.output[0];
    const INDEX y = piece - column * problem.output[0];
    const INDEX image = column / problem.tiles[1];
    const INDEX begin = (column - image * problem.tiles[1]) * problem.strip;
    const INDEX end = begin + problem.strip < problem.output[1] ? begin + problem.strip : problem.output[1];
    const INDEX source_y = problem.first[0] + y * problem.stride_y + tap_y;
    if (!IS_BELOW(source_y, problem.input[0])) continue;
    const INDEX source_line = image * problem.source_image + channel * problem.source_channel +
                              source_y * problem.source_stride[0];
    const INDEX gradient_line = image * problem.gradient_image + channel * problem.gradient_channel +
                                y * problem.gradient_stride[0];
    for (INDEX x = begin; x < end; x += COLUMNS) {
      const INDEX first_x = problem.first[1] + x * STRIDE_X;
      T gradients[COLUMNS * UNIT], values[SOURCE_COLUMNS * UNIT];
      UHAL_UNROLL for (int32 column = 0; column < SOURCE_COLUMNS; ++column) {
        READ_UNIT(source_data, source_line + (first_x + column) * problem.source_stride[1],
                  IS_BELOW(first_x + column, problem.input[1]), values + column * UNIT);
      }
      UHAL_UNROLL for (int32 k = 0; k < COLUMNS; ++k) {
        const INDEX at = x + k < end ? gradient_line + (x + k) * problem.gradient_stride[1] : 0;
#if UNIT > 1
        UHAL_WIDE(GRADIENT_LOAD, UNIT)(gradient_data, at, gradients + k * UNIT);
#else
        gradients[k] = GRADIENT_LOAD(gradient_data, at);
#endif
      }
      UHAL_UNROLL for (int32 k = 0; k < COLUMNS; ++k) {
        if (x + k < end) { /* not 0 times a NaN that no tap of a pixel sees */
          UHAL_UNROLL for (int32 tap_x = 0; tap_x < WINDOW_X; ++tap_x) {
            UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
              sums[tap_x * UNIT + u] += gradients[k * UNIT + u] * values[AT_X(k, tap_x) * UNIT + u];
            }
          }
        }
      }
    }
  }
  UHAL_UNROLL for (int32 tap_x = 0; tap_x < WINDOW_X; ++tap_x) {
    UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) scratch[u * UHAL_GROUP + id] = sums[tap_x * UNIT + u];
    UHAL_BARRIER();
    if (is_there && slot == 0) {
      UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
        T sum = 0;
        for (INDEX other = 0; other < problem.slots; ++other) {
          sum += scratch[u * UHAL_GROUP + id + other * problem.lanes * problem.window_y];
        }
        RESULT_STORE(result_data,
                     UHAL_GROUP_ID(0) * problem.result_part + (channel + u) * problem.result_channel +
                         tap_y * problem.result_stride[0] + tap_x * problem.result_stride[1],
                     sum);
      }
    }
    UHAL_BARRIER();
  }
}

#else

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void depthwise_filter_of_planes(UHAL_POINTER(gradient),
                                                                              UHAL_POINTER(source),
                                                                              UHAL_POINTER(result), Problem problem,
                                                                              int32 lanes, int32 adjacent) {
  UHAL_LOCAL_MEMORY T scratch[UHAL_GROUP];
  UHAL_GLOBAL const GRADIENT_STORAGE* const gradient_data = UHAL_ADDRESS(const GRADIENT_STORAGE, gradient);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  const uhal_team team = uhal_make_team(lanes, adjacent);
  const INDEX piece = UHAL_GROUP_ID(0) * team.teams + team.index;
  const INDEX part = piece / problem.channels;
  const INDEX channel = piece - part * problem.channels;
  const int32 is_there = part < problem.parts;
  T sums[TAPS];
  UHAL_UNROLL for (int32 tap = 0; tap < TAPS; ++tap) sums[tap] = 0;
  for (INDEX i = part * lanes + team.lane; is_there && i < problem.count; i += problem.parts * lanes) {
    const INDEX line = i / problem.tiles[1];
    const INDEX tile_x = i - line * problem.tiles[1];
    const INDEX image = line / problem.tiles[0];
    const INDEX tile_y = line - image * problem.tiles[0];
    T tile[SOURCE_ROWS * SOURCE_COLUMNS];
    const INDEX from = image * problem.source_image + channel * problem.source_channel;
    const INDEX first_y = problem.first[0] + tile_y * STEP_Y;
    const INDEX first_x = problem.first[1] + tile_x * STEP_X;
    READ_SOURCE_TILE(tile, source_data, from, problem.source_stride[0], first_y, first_x, problem.input);
    const INDEX gradient_from = image * problem.gradient_image + channel * problem.gradient_channel +
                                tile_y * ROWS * problem.gradient_stride[0] + tile_x * COLUMNS;
    T gradients[ROWS * COLUMNS];
    UHAL_UNROLL for (int32 y = 0; y < ROWS; ++y) {
      UHAL_UNROLL for (int32 x = 0; x < COLUMNS; x += GRADIENT_UNIT) {
        const int32 is_pixel = tile_y * ROWS + y < problem.output[0] && tile_x * COLUMNS + x < problem.output[1];
        const INDEX at = is_pixel ? gradient_from + y * problem.gradient_stride[0] + x : 0;
#if GRADIENT_UNIT > 1
        UHAL_WIDE(GRADIENT_LOAD, GRADIENT_UNIT)(gradient_data, at, gradients + y * COLUMNS + x);
#else
        gradients[y * COLUMNS + x] = GRADIENT_LOAD(gradient_data, at);
#endif
      }
    }
    UHAL_UNROLL for (int32 y = 0; y < ROWS; ++y) {
      UHAL_UNROLL for (int32 x = 0; x < COLUMNS; ++x) {
        /* Not 0 times a NaN that no tap of a pixel sees. */
        if (tile_y * ROWS + y < problem.output[0] && tile_x * COLUMNS + x / GRADIENT_UNIT * GRADIENT_UNIT < problem.output[1]) {
          UHAL_UNROLL for (int32 tap_y = 0; tap_y < WINDOW_Y; ++tap_y) {
            UHAL_UNROLL for (int32 tap_x = 0; tap_x < WINDOW_X; ++tap_x) {
              sums[tap_y * WINDOW_X + tap_x] +=
                  gradients[y * COLUMNS + x] * tile[AT_Y(y, tap_y) * SOURCE_COLUMNS + AT_X(x, tap_x)];
            }
          }
        }
      }
    }
  }
  UHAL_UNROLL for (int32 tap = 0; tap < TAPS; ++tap) {
    const T sum = uhal_team_sum(sums[tap], scratch, team);
    if (is_there && team.lane == 0) {
      RESULT_STORE(result_data,
                   part * problem.result_part + channel * problem.result_channel +
                       tap / WINDOW_X * problem.result_stride[0] + tap % WINDOW_X * problem.result_stride[1],
                   sum);
    }
  }
}

#endif
