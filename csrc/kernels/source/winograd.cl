/* Winograd's convolution F(4x4, 3x3): a tile of 4 x 4 pixels of the result is made of 6 x 6 pixels of the source with 36
 * products per channel instead of 144 (Winograd 1980; Lavin and Gray 2016, whose points 0, 1, -1, 2, -2 these are):
 *
 *   tile = A^T [sum over channels of (G filter G^T) * (B^T source B)] A, * by elements
 *
 * The 36 sums are matrix products, filters x tiles, between these transforms (convolution_gemm.cl).
 *
 * The gradient of the filter is F(3x3, 4x4): the tile's gradient goes over the source as a filter of 4 x 4 would. By the
 * same points, so with the transposes of the same matrices, since it is the derivative of the above:
 *
 *   filter's = G^T [sum over tiles of (A tile's A^T) * (B^T source B)] G
 *
 * whose sums are products filters x channels (gemm.h). A work-item transforms one channel of one tile, or one filter.
 * Macros: STEP, one of those below; HAS_BIAS, UHAL_ACTIVATION; the dtypes FILTER, IMAGE (the source, or the gradient of
 * the result), BIAS and RESULT. T is float. */
#include "csrc/kernels/prelude/map_functions.h"

#define STEP_FILTER 0
#define STEP_SOURCE 1
#define STEP_RESULT 2
#define STEP_RESULT_GRADIENT 3
#define STEP_FILTER_GRADIENT 4

#define POINTS 6 /* along an axis */
#define PIXELS 4
#define TAPS 3

typedef struct {
  INDEX channels;        /* of the image that the step reads or writes; of the steps of filters: filters */
  INDEX tiles[2], all_tiles; /* in a plane along both axes, in all images; of the steps of filters, all_tiles: channels */
  INDEX length[2];       /* of a plane of the image */
  INDEX first[2];        /* the coordinates of the first tile's first pixel there */
  INDEX image_stride[4]; /* images or filters, channels, and both axes */
  INDEX bias_stride;
  INDEX channel_stride, tile_stride, matrix_stride; /* of the transformed numbers */
  INDEX channels_last;   /* neighbours are channels, else tiles */
} Problem;

/* Declares the channel and the tile of a work-item's i-th element. */
#define CHANNEL_AND_TILE(i)                                                          \
  const INDEX length = problem.channels_last ? problem.channels : problem.all_tiles; \
  const INDEX slow = (i) / length;                                                   \
  const INDEX fast = (i) - slow * length;                                            \
  const INDEX channel = problem.channels_last ? fast : slow;                         \
  const INDEX tile = problem.channels_last ? slow : fast;                            \
  const INDEX numbers = channel * problem.channel_stride + tile * problem.tile_stride

/* Also the tile's place: its image, and the coordinates of its first pixel. */
#define TILE_PLACE()                                                              \
  const INDEX row = tile / problem.tiles[1];                                      \
  const INDEX image = row / problem.tiles[0];                                     \
  const INDEX top = problem.first[0] + (row - image * problem.tiles[0]) * PIXELS; \
  const INDEX left = problem.first[1] + (tile - row * problem.tiles[1]) * PIXELS; \
  const INDEX plane = image * problem.image_stride[0] + channel * problem.image_stride[1]

/* TRANSFORM(to, from) of each step is one of the matrices: it reads from(k) and writes to(k, value) along an axis. A tile
 * is transformed along its columns first, into half_way, and then along the rows of that. */
#define HALF_WAY_IN_ROW(k) half_way[y][k]
#define SET_HALF_WAY(k, value) half_way[k][x] = (value)
#define TRANSFORMED(y, x) transformed_data[((y) * POINTS + (x)) * problem.matrix_stride + numbers]

/* Writes the transformed numbers of tile_values[side][side]. */
#define IN_COLUMN_OF_TILE(k) tile_values[k][x]
#define SET_TRANSFORMED(k, value) TRANSFORMED(y, k) = (value)
#define TRANSFORM_TILE(side)                                                               \
  T half_way[POINTS][side];                                                                \
  UHAL_UNROLL for (int32 x = 0; x < side; ++x) TRANSFORM(SET_HALF_WAY, IN_COLUMN_OF_TILE); \
  UHAL_UNROLL for (int32 y = 0; y < POINTS; ++y) TRANSFORM(SET_TRANSFORMED, HALF_WAY_IN_ROW)

/* Declares half_way[side][POINTS] of the transformed numbers; what is left is to transform its rows. */
#define IN_COLUMN(k) column[k]
#define HALF_WAY_BACK(side)                                                       \
  T half_way[side][POINTS];                                                       \
  UHAL_UNROLL for (int32 x = 0; x < POINTS; ++x) {                                \
    T column[POINTS];                                                             \
    UHAL_UNROLL for (int32 y = 0; y < POINTS; ++y) column[y] = TRANSFORMED(y, x); \
    TRANSFORM(SET_HALF_WAY, IN_COLUMN);                                           \
  }

#if STEP == STEP_FILTER

/* G: three numbers to six. */
#define TRANSFORM(to, from)                                     \
  do {                                                          \
    const T outer = C(1.0 / 6) * (from(0) + from(2));           \
    const T inner = C(1.0 / 6) * from(1);                       \
    const T far = C(1.0 / 24) * from(0) + C(1.0 / 6) * from(2); \
    const T near = C(1.0 / 12) * from(1);                       \
    to(0, C(0.25) * from(0));                                   \
    to(1, -outer - inner);                                      \
    to(2, inner - outer);                                       \
    to(3, far + near);                                          \
    to(4, far - near);                                          \
    to(5, from(2));                                             \
  } while (0)

UHAL_KERNEL void winograd(UHAL_POINTER(filter), UHAL_POINTER(transformed), UHAL_POINTER(bias), Problem problem) {
  UHAL_GLOBAL const FILTER_STORAGE* const filter_data = UHAL_ADDRESS(const FILTER_STORAGE, filter);
  UHAL_GLOBAL T* const transformed_data = UHAL_ADDRESS(T, transformed);
  const INDEX count = problem.channels * problem.all_tiles;
  UHAL_FOR_ITEMS(i, count) {
    CHANNEL_AND_TILE(i);
    const INDEX from = channel * problem.image_stride[0] + tile * problem.image_stride[1];
    T tile_values[TAPS][TAPS];
    UHAL_UNROLL for (int32 y = 0; y < TAPS; ++y) {
      UHAL_UNROLL for (int32 x = 0; x < TAPS; ++x) {
        tile_values[y][x] = FILTER_LOAD(filter_data, from + y * problem.image_stride[2] + x * problem.image_stride[3]);
      }
    }
    TRANSFORM_TILE(TAPS);
  }
}

#elif STEP == STEP_SOURCE || STEP == STEP_RESULT_GRADIENT

#if STEP == STEP_SOURCE
#define SIDE POINTS /* of what a tile reads */

/* B^T: six numbers to six. */
#define TRANSFORM(to, from)                              \
  do {                                                   \
    const T even = from(4) - 4 * from(2);                \
    const T odd = from(3) - 4 * from(1);                 \
    const T even_far = from(4) - from(2);                \
    const T odd_far = 2 * (from(3) - from(1));           \
    const T first = 4 * from(0) - 5 * from(2) + from(4); \
    const T last = 4 * from(1) - 5 * from(3) + from(5);  \
    to(0, first);                                        \
    to(1, even + odd);                                   \
    to(2, even - odd);                                   \
    to(3, even_far + odd_far);                           \
    to(4, even_far - odd_far);                           \
    to(5, last);                                         \
  } while (0)

#else
#define SIDE PIXELS

/* A: four numbers to six. */
#define TRANSFORM(to, from)                      \
  do {                                           \
    const T even = from(0) + from(2);            \
    const T odd = from(1) + from(3);             \
    const T even_far = from(0) + 4 * from(2);    \
    const T odd_far = 2 * from(1) + 8 * from(3); \
    to(0, from(0));                              \
    to(1, even + odd);                           \
    to(2, even - odd);                           \
    to(3, even_far + odd_far);                   \
    to(4, even_far - odd_far);                   \
    to(5, from(3));                              \
  } while (0)

#endif

UHAL_KERNEL void winograd(UHAL_POINTER(image), UHAL_POINTER(transformed), UHAL_POINTER(bias), Problem problem) {
  UHAL_GLOBAL const IMAGE_STORAGE* const image_data = UHAL_ADDRESS(const IMAGE_STORAGE, image);
  UHAL_GLOBAL T* const transformed_data = UHAL_ADDRESS(T, transformed);
  const INDEX count = problem.channels * problem.all_tiles;
  UHAL_FOR_ITEMS(i, count) {
    CHANNEL_AND_TILE(i);
    TILE_PLACE();
    T tile_values[SIDE][SIDE];
    UHAL_UNROLL for (int32 y = 0; y < SIDE; ++y) {
      const INDEX line = top + y;
      const int32 inside = line >= 0 && line < problem.length[0];
      const INDEX from = plane + line * problem.image_stride[2];
      UHAL_UNROLL for (int32 x = 0; x < SIDE; ++x) {
        const INDEX column = left + x;
        tile_values[y][x] = 0;
        if (inside && column >= 0 && column < problem.length[1]) {
          tile_values[y][x] = IMAGE_LOAD(image_data, from + column * problem.image_stride[3]);
        }
      }
    }
    TRANSFORM_TILE(SIDE);
  }
}

#elif STEP == STEP_FILTER_GRADIENT

/* G^T: six numbers to three. */
#define TRANSFORM(to, from)                              \
  do {                                                   \
    const T near = C(1.0 / 6) * (from(1) + from(2));     \
    const T near_odd = C(1.0 / 6) * (from(2) - from(1)); \
    const T far = from(3) + from(4);                     \
    const T far_odd = C(1.0 / 12) * (from(3) - from(4)); \
    to(0, C(0.25) * from(0) - near + C(1.0 / 24) * far); \
    to(1, near_odd + far_odd);                           \
    to(2, C(1.0 / 6) * far - near + from(5));            \
  } while (0)

UHAL_KERNEL void winograd(UHAL_POINTER(filter), UHAL_POINTER(transformed), UHAL_POINTER(bias), Problem problem) {
  UHAL_GLOBAL FILTER_STORAGE* const filter_data = UHAL_ADDRESS(FILTER_STORAGE, filter);
  UHAL_GLOBAL const T* const transformed_data = UHAL_ADDRESS(const T, transformed);
  const INDEX count = problem.channels * problem.all_tiles;
  UHAL_FOR_ITEMS(i, count) {
    CHANNEL_AND_TILE(i);
    HALF_WAY_BACK(TAPS);
    UHAL_UNROLL for (int32 y = 0; y < TAPS; ++y) {
      const INDEX to = channel * problem.image_stride[0] + tile * problem.image_stride[1] + y * problem.image_stride[2];
#define STORE(k, value) FILTER_STORE(filter_data, to + (k) * problem.image_stride[3], value)
      TRANSFORM(STORE, HALF_WAY_IN_ROW);
    }
  }
}

#else /* STEP_RESULT */

/* A^T: six numbers to four. */
#define TRANSFORM(to, from)                  \
  do {                                       \
    const T near = from(1) + from(2);        \
    const T near_odd = from(1) - from(2);    \
    const T far = from(3) + from(4);         \
    const T far_odd = from(3) - from(4);     \
    to(0, from(0) + near + far);             \
    to(1, near_odd + 2 * far_odd);           \
    to(2, near + 4 * far);                   \
    to(3, near_odd + 8 * far_odd + from(5)); \
  } while (0)

UHAL_KERNEL void winograd(UHAL_POINTER(result), UHAL_POINTER(transformed), UHAL_POINTER(bias), Problem problem) {
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  UHAL_GLOBAL const T* const transformed_data = UHAL_ADDRESS(const T, transformed);
  const INDEX count = problem.channels * problem.all_tiles;
  UHAL_FOR_ITEMS(i, count) {
    CHANNEL_AND_TILE(i);
    TILE_PLACE();
    HALF_WAY_BACK(PIXELS);
#if HAS_BIAS
    const T bias_value = BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), channel * problem.bias_stride);
#else
    const T bias_value = 0;
#endif
    UHAL_UNROLL for (int32 y = 0; y < PIXELS; ++y) {
      if (top + y >= problem.length[0]) continue;
      const INDEX to = plane + (top + y) * problem.image_stride[2];
#define STORE(k, value)                                                                                        \
  if (left + k < problem.length[1]) {                                                                          \
    RESULT_STORE(result_data, to + (left + k) * problem.image_stride[3], uhal_activate((value) + bias_value)); \
  }
      TRANSFORM(STORE, HALF_WAY_IN_ROW);
    }
  }
}

#endif
