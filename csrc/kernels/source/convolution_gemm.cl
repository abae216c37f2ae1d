/* Convolutions as matrix products that gather one operand while they load it, so that no column matrix is written:
 *
 *   product[row, column] = sum over terms of a[row, term] * source[place of column + place of term]
 *
 * Forward, rows are filters, columns the pixels of the result and terms the taps (of all channels) of a window; for
 * the gradient of the filter, columns are taps and terms are pixels. A pixel and a tap each have a place: an offset into
 * the source and coordinates there. Their sums are the element that meets them, outside the image where a coordinate is.
 *
 * A work-group of 256 makes a tile of ROWS x COLUMNS (64 or 128 each), DEPTH terms at a time, through two buffers in
 * local memory: while one is multiplied, the next tile's elements are on their way. A work-item has ROWS / 16 x
 * COLUMNS / 16 sums. Macros:
 *   A_ALONG_TERMS, SOURCE_ALONG_TERMS   neighbouring work-items load neighbouring terms, else rows (columns)
 *   RESULT_ALONG_ROWS                   they store neighbouring rows, else columns
 *   CHECKED_AXES                        the last so many spatial axes (2 or 3) along which taps may lie outside the
 *                                       image; 0: they never do
 *   SPLIT                               sums over a slice of the terms go to the workspace, for convolution_join
 *   COMPACT                             within 64 registers, of tiles of 128 x 64: operands are read in fours, and what can
 *                                       be looked up in local memory is not kept
 *   HAS_BIAS; UHAL_ACTIVATION; the dtypes A, SOURCE, BIAS, RESULT */
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/convolution_walk.h"
#include "csrc/kernels/prelude/convolution_product.h"

#define GROUP 256
#define SIDE 16
#define ROW_SUMS (ROWS / SIDE)
#define COLUMN_SUMS (COLUMNS / SIDE)
#define A_SHARE (ROWS * DEPTH / GROUP)
#define SOURCE_SHARE (COLUMNS * DEPTH / GROUP)
#define A_PITCH (ROWS + 4) /* keeps rows apart in the banks of local memory, and aligned for T4 */
#define SOURCE_PITCH (COLUMNS + 4)

/* Where the i-th element that a work-item loads of a tile lies in it. */
#if A_ALONG_TERMS
#define A_TERM(i) (id % DEPTH)
#define A_ROW(i) (id / DEPTH + (i) * (GROUP / DEPTH))
#else
#define A_TERM(i) (id / ROWS + (i) * (GROUP / ROWS))
#define A_ROW(i) (id % ROWS)
#endif
#if SOURCE_ALONG_TERMS
#define SOURCE_TERM(i) (id % DEPTH)
#define SOURCE_COLUMN(i) (id / DEPTH + (i) * (GROUP / DEPTH))
#else
#define SOURCE_TERM(i) (id / COLUMNS + (i) * (GROUP / COLUMNS))
#define SOURCE_COLUMN(i) (id % COLUMNS)
#endif

/* The sums of a work-item: neighbours are 1 apart along the fast axis, where a work-item's own lie 16 apart; along the
 * slow one its own lie side by side. COMPACT: along the fast axis, too, in fours. */
#if COMPACT
#define FAST_PLACE(fast) (4 * LANE + (fast) / 4 * 4 * SIDE + (fast) % 4)
#else
#define FAST_PLACE(fast) (LANE + SIDE * (fast))
#endif
#if RESULT_ALONG_ROWS
#define FAST_SUMS ROW_SUMS
#define SLOW_SUMS COLUMN_SUMS
#define SUM_ROW(fast, slow) FAST_PLACE(fast)
#define SUM_COLUMN(fast, slow) (LINE * SLOW_SUMS + (slow))
#else
#define FAST_SUMS COLUMN_SUMS
#define SLOW_SUMS ROW_SUMS
#define SUM_ROW(fast, slow) (LINE * SLOW_SUMS + (slow))
#define SUM_COLUMN(fast, slow) FAST_PLACE(fast)
#endif

UHAL_KERNEL UHAL_GROUP_SIZE(GROUP, 1, 1) UHAL_COMPACT
void convolution_gemm(UHAL_POINTER(a), UHAL_POINTER(source), UHAL_POINTER(bias), UHAL_POINTER(result), Product product) {
  UHAL_LOCAL_MEMORY T4 a_memory[2 * DEPTH * A_PITCH / 4];
  UHAL_LOCAL_MEMORY T4 source_memory[2 * DEPTH * SOURCE_PITCH / 4];
  UHAL_LOCAL_MEMORY Place column_places[COLUMNS];
  UHAL_LOCAL_MEMORY Place term_places[2][DEPTH];
  UHAL_LOCAL_MEMORY Digits walkers[DEPTH]; /* not in registers, which the sums need */
  UHAL_LOCAL_MEMORY Digits distance[1];
  UHAL_LOCAL T* const a_tiles = (UHAL_LOCAL T*)a_memory;
  UHAL_LOCAL T* const source_tiles = (UHAL_LOCAL T*)source_memory;

  int32 id = (int32)UHAL_LOCAL_ID(0);
#define LANE (id % SIDE)
#define LINE (id / SIDE)
  const Part part = part_of(product, UHAL_GROUP_ID(0));
  const INDEX begin = part.begin;
  const INDEX end = part.end;
  UHAL_GLOBAL const A_STORAGE* const a_data = UHAL_ADDRESS(const A_STORAGE, a) + part.group * product.a_group_stride;
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data =
      UHAL_ADDRESS(const SOURCE_STORAGE, source) + part.group * product.source_group_stride;

  for (int32 i = id; i < COLUMNS; i += GROUP) {
    const INDEX column = min(part.first_column + i, product.columns.count - 1);
    column_places[i] = place_at(product.columns, digits_of(product.columns, column));
  }
  /* The first work-items walk over the terms, DEPTH at a time, and write down the places for all. */
  if (id < DEPTH) {
    walkers[id] = digits_of(product.terms, begin + id);
    term_places[0][id] = place_at(product.terms, walkers[id]);
  }
  if (id == 0) distance[0] = digits_of(product.terms, DEPTH);
  UHAL_BARRIER();
#if !(SOURCE_ALONG_TERMS || COMPACT)
  const Place own_column = column_places[id % COLUMNS];
#endif

  T sums[SLOW_SUMS][FAST_SUMS];
  UHAL_UNROLL for (int32 slow = 0; slow < SLOW_SUMS; ++slow) {
    UHAL_UNROLL for (int32 fast = 0; fast < FAST_SUMS; ++fast) sums[slow][fast] = 0;
  }

  T a_next[A_SHARE], source_next[SOURCE_SHARE];
#if SOURCE_ALONG_TERMS || COMPACT
#define COLUMN_PLACE(i) column_places[SOURCE_COLUMN(i)]
#else
#define COLUMN_PLACE(i) own_column
#endif
#define FETCH(buffer, first)                                                                                    \
  do {                                                                                                          \
    const INDEX left = end - (first);                                                                           \
    UHAL_UNROLL for (int32 i = 0; i < A_SHARE; ++i) {                                                           \
      const INDEX row = part.first_row + A_ROW(i);                                                                   \
      a_next[i] = 0;                                                                                            \
      if (row < product.rows && A_TERM(i) < left) {                                                             \
        a_next[i] = A_LOAD(a_data, row * product.a_row_stride + term_places[buffer][A_TERM(i)].other);          \
      }                                                                                                         \
    }                                                                                                           \
    UHAL_UNROLL for (int32 i = 0; i < SOURCE_SHARE; ++i) {                                                      \
      const Place term = term_places[buffer][SOURCE_TERM(i)];                                                   \
      const Place column = COLUMN_PLACE(i);                                                                     \
      source_next[i] = 0;                                                                                       \
      if (SOURCE_TERM(i) < left && MEETS(term, column)) {                                                       \
        source_next[i] = SOURCE_LOAD(source_data, term.source + column.source);                                 \
      }                                                                                                         \
    }                                                                                                           \
  } while (0)
#define PUT(buffer)                                                                                             \
  do {                                                                                                          \
    UHAL_LOCAL T* const a_tile = a_tiles + (buffer) * DEPTH * A_PITCH;                                          \
    UHAL_LOCAL T* const source_tile = source_tiles + (buffer) * DEPTH * SOURCE_PITCH;                           \
    UHAL_UNROLL for (int32 i = 0; i < A_SHARE; ++i) a_tile[A_TERM(i) * A_PITCH + A_ROW(i)] = a_next[i];         \
    UHAL_UNROLL for (int32 i = 0; i < SOURCE_SHARE; ++i) {                                                      \
      source_tile[SOURCE_TERM(i) * SOURCE_PITCH + SOURCE_COLUMN(i)] = source_next[i];                           \
    }                                                                                                           \
  } while (0)
#define WALK_ON(buffer)                                                               \
  do {                                                                                \
    if (id < DEPTH) {                                                                 \
      walkers[id] = digits_after(product.terms, walkers[id], distance[0]);            \
      term_places[buffer][id] = place_at(product.terms, walkers[id]);                 \
    }                                                                                 \
  } while (0)

  FETCH(0, begin);
  PUT(0);
  WALK_ON(1);
  UHAL_BARRIER();
  int32 buffer = 0;
  for (INDEX first = begin; first < end; first += DEPTH) {
    const int32 more = first + DEPTH < end;
    if (more) FETCH(1 - buffer, first + DEPTH);
    WALK_ON(buffer);
#if RESULT_ALONG_ROWS
    UHAL_LOCAL const T* const fast_tile = a_tiles + buffer * DEPTH * A_PITCH + FAST_PLACE(0);
    UHAL_LOCAL const T* const slow_tile = source_tiles + buffer * DEPTH * SOURCE_PITCH + LINE * SLOW_SUMS;
#define FAST_PITCH A_PITCH
#define SLOW_PITCH SOURCE_PITCH
#else
    UHAL_LOCAL const T* const fast_tile = source_tiles + buffer * DEPTH * SOURCE_PITCH + FAST_PLACE(0);
    UHAL_LOCAL const T* const slow_tile = a_tiles + buffer * DEPTH * A_PITCH + LINE * SLOW_SUMS;
#define FAST_PITCH SOURCE_PITCH
#define SLOW_PITCH A_PITCH
#endif
    UHAL_UNROLL for (int32 term = 0; term < DEPTH; ++term) {
      T fast[FAST_SUMS];
#if COMPACT
      UHAL_UNROLL for (int32 i = 0; i < FAST_SUMS; i += 4) {
        const T4 wide = *(UHAL_LOCAL const T4*)(fast_tile + term * FAST_PITCH + SIDE * i);
        fast[i] = wide.x, fast[i + 1] = wide.y, fast[i + 2] = wide.z, fast[i + 3] = wide.w;
      }
#else
      UHAL_UNROLL for (int32 i = 0; i < FAST_SUMS; ++i) fast[i] = fast_tile[term * FAST_PITCH + SIDE * i];
#endif
      UHAL_UNROLL for (int32 quad = 0; quad < SLOW_SUMS / 4; ++quad) {
        const T4 slow = *(UHAL_LOCAL const T4*)(slow_tile + term * SLOW_PITCH + 4 * quad);
        UHAL_UNROLL for (int32 i = 0; i < FAST_SUMS; ++i) {
          sums[4 * quad][i] += slow.x * fast[i];
          sums[4 * quad + 1][i] += slow.y * fast[i];
          sums[4 * quad + 2][i] += slow.z * fast[i];
          sums[4 * quad + 3][i] += slow.w * fast[i];
        }
      }
    }
    /* Without a branch the compact one multiplies before, where it reads: what PUT writes last nobody reads. */
    if (COMPACT || more) PUT(1 - buffer);
    UHAL_BARRIER();
    buffer = 1 - buffer;
  }

  UHAL_FORGET(id);
  PRODUCT_RESULT(part);
  UHAL_UNROLL for (int32 slow = 0; slow < SLOW_SUMS; ++slow) {
    UHAL_UNROLL for (int32 fast = 0; fast < FAST_SUMS; ++fast) {
      const INDEX row = part.first_row + SUM_ROW(fast, slow);
      const INDEX column = part.first_column + SUM_COLUMN(fast, slow);
      if (row < product.rows && column < product.columns.count) {
        PRODUCT_STORE(part, row, column, column_places[SUM_COLUMN(fast, slow)].other, sums[slow][fast]);
      }
    }
  }
}
