/* Which pixels of the source a tile of a depthwise convolution's result meets, for kernels that keep windows in
 * registers (csrc/kernels/ops/convolution_depthwise.cc). Everything is known to the compiler, so that no array is
 * indexed by a variable.
 *
 * Macros: WINDOW_X, STRIDE_X: of the convolution; COLUMNS: neighbouring pixels of the result that a work-item has;
 *   TRANSPOSED   as in convolution_direct.cl: the result is the gradient of the input. COLUMNS is a multiple of
 * STRIDE_X then, and REST_X       the padding's remainder by the stride, less than the window
 *
 * SOURCE_COLUMNS pixels from the first one on are met: pixel x of the tile by tap t, if MEETS_X(x, t), at AT_X(x, t).
 */
#if UHAL_WIDE_INDEX
typedef uint64 UNSIGNED_INDEX;
#else
typedef uint32 UNSIGNED_INDEX;
#endif

#define IS_BELOW(at, length) ((UNSIGNED_INDEX)(at) < (UNSIGNED_INDEX)(length))

#if TRANSPOSED
/* Before the pixel of the tile's first one: a window reaches back. */
#define BACK(window, stride, rest) (((window) - 1 - (rest)) / (stride))
#define EXTENT(count, window, stride, rest) (((count) - 1 + (rest)) / (stride) + BACK(window, stride, rest) + 1)
#define MEETS(at, tap, window, stride, rest) (((at) + (rest) + (stride) * (window) - (tap)) % (stride) == 0)
#define PLACE(at, tap, window, stride, rest) \
  (((at) + (rest) + (stride) * (window) - (tap)) / (stride) - (window) + BACK(window, stride, rest))
#define STEP(count, stride) ((count) / (stride))
#else
#define EXTENT(count, window, stride, rest) (((count) - 1) * (stride) + (window))
#define MEETS(at, tap, window, stride, rest) 1
#define PLACE(at, tap, window, stride, rest) ((at) * (stride) + (tap))
#define STEP(count, stride) ((count) * (stride))
#endif
#define SOURCE_COLUMNS EXTENT(COLUMNS, WINDOW_X, STRIDE_X, REST_X)
#define MEETS_X(x, tap) MEETS(x, tap, WINDOW_X, STRIDE_X, REST_X)
#define AT_X(x, tap) PLACE(x, tap, WINDOW_X, STRIDE_X, REST_X)
/* From one tile's first pixel of the source to the next tile's. */
#define STEP_X STEP(COLUMNS, STRIDE_X)

/* values: the source's at an offset, or 0. Channels of 16 bits that are not there are read from where there is
 * something, and forgotten: under a condition NVRTC has each load's numbers made float before the next one. */
#if CHANNELS_LAST && (SOURCE_DTYPE == 10 || SOURCE_DTYPE == 11)
#define UNDER_CONDITION 0
#else
#define UNDER_CONDITION 1
#endif
#define READ_ONE(source, at, is_there, values) (values)[0] = (is_there) ? SOURCE_LOAD(source, at) : 0
#if UNIT > 1
#if UNDER_CONDITION
#define READ_UNIT(source, at, is_there, values)                                        \
  do {                                                                                 \
    if (is_there) {                                                                    \
      UHAL_WIDE(SOURCE_LOAD, UNIT)(source, at, values);                                \
    } else {                                                                           \
      UHAL_UNROLL for (int32 uhal_u = 0; uhal_u < UNIT; ++uhal_u)(values)[uhal_u] = 0; \
    }                                                                                  \
  } while (0)
#else
#define READ_UNIT(source, at, is_there, values)                          \
  do {                                                                   \
    UHAL_WIDE(SOURCE_LOAD, UNIT)(source, (is_there) ? (at) : 0, values); \
    UHAL_UNROLL for (int32 uhal_u = 0; uhal_u < UNIT; ++uhal_u) {        \
      (values)[uhal_u] = (is_there) ? (values)[uhal_u] : 0;              \
    }                                                                    \
  } while (0)
#endif
#else
#define READ_UNIT READ_ONE
#endif

/* -- of planes, in which neighbours along x are neighbours in memory: also WINDOW_Y, STRIDE_Y, REST_Y and ROWS,
 * likewise; UNIT   pixels of the source that are read at once: 1, or 4 or 8 where lines are of whole, aligned units, of
 * which a tile begins LEAD pixels before one */
#define TAPS (WINDOW_Y * WINDOW_X)
#ifdef ROWS
#define SOURCE_ROWS EXTENT(ROWS, WINDOW_Y, STRIDE_Y, REST_Y)
#define MEETS_Y(y, tap) MEETS(y, tap, WINDOW_Y, STRIDE_Y, REST_Y)
#define AT_Y(y, tap) PLACE(y, tap, WINDOW_Y, STRIDE_Y, REST_Y)
#define STEP_Y STEP(ROWS, STRIDE_Y)

#define IN_UNIT(column) (((column) + UNIT - LEAD) % UNIT)
#define BEGINS_UNIT(column) (IN_UNIT(column) == 0 && (column) + UNIT <= SOURCE_COLUMNS)
#define IS_IN_UNIT(column) ((column) >= IN_UNIT(column) && (column) - IN_UNIT(column) + UNIT <= SOURCE_COLUMNS)

#define READ_SOURCE(source, at, is_there, tile, column) \
  do {                                                  \
    if (BEGINS_UNIT(column)) {                          \
      READ_UNIT(source, at, is_there, tile);            \
    } else if (!IS_IN_UNIT(column)) {                   \
      READ_ONE(source, at, is_there, tile);             \
    }                                                   \
  } while (0)

/* tile[SOURCE_ROWS * SOURCE_COLUMNS]: the source from (first_y, first_x) on, 0 beyond its edges. `plane`: the offset of
 * its pixel (0, 0); `input`: its lengths. */
#define READ_SOURCE_TILE(tile, source, plane, line_stride, first_y, first_x, input)           \
  UHAL_UNROLL for (int32 row = 0; row < SOURCE_ROWS; ++row) {                                 \
    const int32 is_line = IS_BELOW((first_y) + row, (input)[0]);                              \
    const INDEX line = (plane) + ((first_y) + row) * (line_stride) + (first_x);               \
    UHAL_UNROLL for (int32 column = 0; column < SOURCE_COLUMNS; ++column) {                   \
      READ_SOURCE(source, line + column, is_line && IS_BELOW((first_x) + column, (input)[1]), \
                  tile + row * SOURCE_COLUMNS + column, column);                              \
    }                                                                                         \
  }
#endif
