/* Depthwise convolutions and their gradients of the input: each channel by a small window of its own. They are bound by
 * memory; so that each pixel is read about once, a work-item has a tile of the result and what of the source that meets
 * in registers (csrc/kernels/ops/convolution_depthwise.cc).
 *
 * Macros: those of prelude/depthwise_tile.h, HAS_BIAS, UHAL_ACTIVATION, the dtypes FILTER, SOURCE, BIAS, RESULT;
 *   CHANNELS_LAST   neighbours in memory are channels. Then
 *     UNIT          neighbouring channels that a work-item has, in aligned units: 1, 4 or 8
 *     WINDOW_Y, STRIDE_Y   of the convolution; a tile is one line high
 *     WEIGHTS       the filter's numbers that fit into local memory: a multiple of 4
 *   RESULT_UNIT     else: pixels of the result that are written at once: 1, 4 or 8, of which COLUMNS is a multiple */
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/depthwise_tile.h"

typedef struct {
  INDEX count; /* tiles of all channels */
  INDEX channels;
  INDEX input[2], output[2]; /* of the source; of the result */
  INDEX first[2];            /* the first pixel of the source that the first tile meets */
  INDEX tiles[2];            /* CHANNELS_LAST: work-groups' blocks of tiles */
  INDEX source_image, source_channel, source_stride[2];
  INDEX result_image, result_channel, result_stride[2];
  INDEX filter_channel, filter_stride[2];
  INDEX bias_stride;
  INDEX pad_y;    /* CHANNELS_LAST, like all that follows: of the convolution */
  INDEX lanes;    /* units of channels of a work-group */
  INDEX slots[2]; /* its tiles */
  INDEX filter_channels_last; /* the filter's neighbours in memory are channels */
} Problem;

#if CHANNELS_LAST

/* weights[tap][channel / 4 % (UNIT / 4)][channel / UNIT][channel % 4]: neighbours read neighbours. */
#define PART (UNIT < 4 ? UNIT : 4)
#define WEIGHT_AT(tap, lane, u) (((tap) * width + (u) / PART * problem.lanes * PART) + (lane)*PART + (u) % PART)

/* values: the pixels that a tile meets of the line with a number, 0 beyond the edges. */
#define READ_LINE(number)                                                                                     \
  do {                                                                                                        \
    const int32 is_line = IS_LINE(number);                                                                    \
    const INDEX at = from + LINE_OF(number) * problem.source_stride[0];                                       \
    UHAL_UNROLL for (int32 column = 0; column < SOURCE_COLUMNS; ++column) {                                   \
      READ_UNIT(source_data, at + column * problem.source_stride[1],                                          \
                is_line && IS_BELOW(first_x + column, problem.input[1]), values + column * UNIT);             \
    }                                                                                                         \
  } while (0)

/* Few lines are unrolled, so that the next one can be under way. */
#if WINDOW_Y <= 3
#define FOR_LINES(number) UHAL_UNROLL for (int32 number = 0; number < MOST_LINES; ++number)
#else
#define FOR_LINES(number) for (int32 number = 0; number < MOST_LINES; ++number)
#endif

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void depthwise_channels(UHAL_POINTER(filter), UHAL_POINTER(source),
                                                                      UHAL_POINTER(bias), UHAL_POINTER(result),
                                                                      Problem problem) {
  UHAL_LOCAL_MEMORY T4 weights[WEIGHTS / 4]; /* [tap][channel] */
  UHAL_GLOBAL const FILTER_STORAGE* const filter_data = UHAL_ADDRESS(const FILTER_STORAGE, filter);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  const INDEX id = UHAL_LOCAL_ID(0);
  const INDEX width = problem.lanes * UNIT;
  const INDEX first_channel = UHAL_GROUP_ID(1) * width;
  const INDEX slot = id / problem.lanes;
  const INDEX lane = id - slot * problem.lanes;
  const INDEX slot_y = slot / problem.slots[1];
  const INDEX channel = first_channel + lane * UNIT;
  const INDEX line = UHAL_GROUP_ID(0) / problem.tiles[1];
  const INDEX image = line / problem.tiles[0];
  const INDEX tile = (UHAL_GROUP_ID(0) - line * problem.tiles[1]) * problem.slots[1] + slot - slot_y * problem.slots[1];
  const INDEX x = tile * COLUMNS;
  const INDEX y = (line - image * problem.tiles[0]) * problem.slots[0] + slot_y;
  const int32 is_there =
      slot_y < problem.slots[0] && channel < problem.channels && x < problem.output[1] && y < problem.output[0];
  const INDEX first_x = problem.first[1] + tile * STEP_X;
  const INDEX from = image * problem.source_image + channel * problem.source_channel + first_x * problem.source_stride[1];
#if TRANSPOSED
  /* The taps that meet line y are a stride apart, and their lines back to front. */
  const INDEX first_tap = (y + problem.pad_y) % STRIDE_Y;
  const INDEX first_y = (y + problem.pad_y) / STRIDE_Y;
#define TAP_OF(number) (first_tap + (number)*STRIDE_Y)
#define LINE_OF(number) (first_y - (number))
#define MOST_LINES ((WINDOW_Y + STRIDE_Y - 1) / STRIDE_Y)
#else
  const INDEX first_y = y * STRIDE_Y - problem.pad_y;
#define TAP_OF(number) (number)
#define LINE_OF(number) (first_y + (number))
#define MOST_LINES WINDOW_Y
#endif
#define IS_LINE(number) (is_there && TAP_OF(number) < WINDOW_Y && IS_BELOW(LINE_OF(number), problem.input[0]))

  /* The first line is under way while the filter is. */
  T values[SOURCE_COLUMNS * UNIT];
  READ_LINE(0);
  for (INDEX i = id; i < TAPS * width; i += UHAL_GROUP) {
    const INDEX tap = problem.filter_channels_last ? i / width : i % TAPS;
    const INDEX of_block = problem.filter_channels_last ? i % width : i / TAPS;
    const INDEX at = (first_channel + of_block) * problem.filter_channel + tap / WINDOW_X * problem.filter_stride[0] +
                     tap % WINDOW_X * problem.filter_stride[1];
    ((UHAL_LOCAL T*)weights)[WEIGHT_AT(tap, of_block / UNIT, of_block % UNIT)] =
        first_channel + of_block < problem.channels ? FILTER_LOAD(filter_data, at) : 0;
  }
  UHAL_BARRIER();
  if (!is_there) return;

  T sums[COLUMNS * UNIT];
  UHAL_UNROLL for (int32 k = 0; k < COLUMNS * UNIT; ++k) sums[k] = 0;
  FOR_LINES(number) {
    if (number > 0) READ_LINE(number);
    if (IS_LINE(number)) {
      UHAL_UNROLL for (int32 tap_x = 0; tap_x < WINDOW_X; ++tap_x) {
        T weight[UNIT];
#if UNIT > 1
        UHAL_UNROLL for (int32 u = 0; u < UNIT; u += 4) {
          const T4 four = weights[WEIGHT_AT(TAP_OF(number) * WINDOW_X + tap_x, lane, u) / 4];
          weight[u] = four.x, weight[u + 1] = four.y, weight[u + 2] = four.z, weight[u + 3] = four.w;
        }
#else
        weight[0] = ((UHAL_LOCAL const T*)weights)[WEIGHT_AT(TAP_OF(number) * WINDOW_X + tap_x, lane, 0)];
#endif
        UHAL_UNROLL for (int32 k = 0; k < COLUMNS; ++k) {
          if (MEETS_X(k, tap_x)) {
            UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
              sums[k * UNIT + u] += values[AT_X(k, tap_x) * UNIT + u] * weight[u];
            }
          }
        }
      }
    }
  }
#if HAS_BIAS
  T biases[UNIT];
  UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
    biases[u] = BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), (channel + u) * problem.bias_stride);
  }
#endif
  UHAL_UNROLL for (int32 k = 0; k < COLUMNS; ++k) {
    if (x + k < problem.output[1]) {
      UHAL_UNROLL for (int32 u = 0; u < UNIT; ++u) {
#if HAS_BIAS
        sums[k * UNIT + u] += biases[u];
#endif
        sums[k * UNIT + u] = uhal_activate(sums[k * UNIT + u]);
      }
      const INDEX to = image * problem.result_image + channel * problem.result_channel +
                       y * problem.result_stride[0] + (x + k) * problem.result_stride[1];
#if UNIT > 1
      UHAL_WIDE(RESULT_STORE, UNIT)(result_data, to, sums + k * UNIT);
#else
      RESULT_STORE(result_data, to, sums[k]);
#endif
    }
  }
}

#else

UHAL_KERNEL void depthwise_planes(UHAL_POINTER(filter), UHAL_POINTER(source), UHAL_POINTER(bias), UHAL_POINTER(result),
                                  Problem problem) {
  UHAL_GLOBAL const FILTER_STORAGE* const filter_data = UHAL_ADDRESS(const FILTER_STORAGE, filter);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  UHAL_FOR_ITEMS(i, problem.count) {
    const INDEX line = i / problem.tiles[1];
    const INDEX tile_x = i - line * problem.tiles[1];
    const INDEX plane = line / problem.tiles[0];
    const INDEX tile_y = line - plane * problem.tiles[0];
    const INDEX image = plane / problem.channels;
    const INDEX channel = plane - image * problem.channels;

    T weights[TAPS];
    UHAL_UNROLL for (int32 tap = 0; tap < TAPS; ++tap) {
      weights[tap] = FILTER_LOAD(filter_data, channel * problem.filter_channel +
                                                  tap / WINDOW_X * problem.filter_stride[0] +
                                                  tap % WINDOW_X * problem.filter_stride[1]);
    }
    T tile[SOURCE_ROWS * SOURCE_COLUMNS];
    const INDEX from = image * problem.source_image + channel * problem.source_channel;
    const INDEX first_y = problem.first[0] + tile_y * STEP_Y;
    const INDEX first_x = problem.first[1] + tile_x * STEP_X;
    READ_SOURCE_TILE(tile, source_data, from, problem.source_stride[0], first_y, first_x, problem.input);
#if HAS_BIAS
    const T added = BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), channel * problem.bias_stride);
#endif
    const INDEX to = image * problem.result_image + channel * problem.result_channel +
                     tile_y * ROWS * problem.result_stride[0] + tile_x * COLUMNS;
    UHAL_UNROLL for (int32 y = 0; y < ROWS; ++y) {
      T sums[COLUMNS];
      UHAL_UNROLL for (int32 x = 0; x < COLUMNS; ++x) {
        T sum = 0;
        UHAL_UNROLL for (int32 tap_y = 0; tap_y < WINDOW_Y; ++tap_y) {
          UHAL_UNROLL for (int32 tap_x = 0; tap_x < WINDOW_X; ++tap_x) {
            if (MEETS_Y(y, tap_y) && MEETS_X(x, tap_x)) {
              sum += tile[AT_Y(y, tap_y) * SOURCE_COLUMNS + AT_X(x, tap_x)] * weights[tap_y * WINDOW_X + tap_x];
            }
          }
        }
#if HAS_BIAS
        sum += added;
#endif
        sums[x] = uhal_activate(sum);
      }
      if (tile_y * ROWS + y < problem.output[0]) {
        UHAL_UNROLL for (int32 x = 0; x < COLUMNS; x += RESULT_UNIT) {
          if (tile_x * COLUMNS + x < problem.output[1]) {
#if RESULT_UNIT > 1
            UHAL_WIDE(RESULT_STORE, RESULT_UNIT)(result_data, to + y * problem.result_stride[0] + x, sums + x);
#else
            RESULT_STORE(result_data, to + y * problem.result_stride[0] + x, sums[x]);
#endif
          }
        }
      }
    }
  }
}

#endif
