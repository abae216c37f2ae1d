/* A product in tiles: a group computes TILE_M x TILE_N of d and walks along k in steps of TILE_K, with the tiles of a and
 * b in local memory, and each work-item keeps MICRO_M x MICRO_N sums in registers. The next step's elements are loaded
 * while this one's are multiplied.
 *
 * Macros: TILE_M, TILE_N, TILE_K, MICRO_M, MICRO_N (multiples of 4), LANES_N (work-items along n that lie side by side
 * in a wavefront's 32), BUFFERS (2: one barrier a step, twice the local memory), COMPACT (1: within 64 registers). */
#include "csrc/kernels/source/gemm_operands.h"

#define THREADS_M (TILE_M / MICRO_M)
#define THREADS_N (TILE_N / MICRO_N)
#define THREADS (THREADS_M * THREADS_N)
#define LANES_M (32 / LANES_N)
/* Rows of the tiles in local memory run along m and n. Four elements of padding keep the columns, which are written
 * where an operand is contiguous along k, out of one bank. */
#define A_PITCH (TILE_M + 4)
#define B_PITCH (TILE_N + 4)
#define A_ELEMENTS (TILE_K * A_PITCH)
#define B_ELEMENTS (TILE_K * B_PITCH)
/* Fours of elements that a work-item loads per step. */
#define A_FOURS (TILE_M * TILE_K / 4 / THREADS)
#define B_FOURS (TILE_N * TILE_K / 4 / THREADS)

/* How an operand is read. */
#define GEMM_ALONG_K 1 /* in fours along k, else along its rows (m of a, n of b) */
#define GEMM_WIDE 2    /* the elements of a four lie one after the other, aligned to their size */

#define GEMM_UNPACK(wide, four) \
  (four)[0] = (wide).x;         \
  (four)[1] = (wide).y;         \
  (four)[2] = (wide).z;         \
  (four)[3] = (wide).w

/* Where four number `index` of a tile of `rows` x TILE_K begins. */
#define GEMM_PLACE(index, rows)                              \
  const int32 along_k = mode & GEMM_ALONG_K;                 \
  const int32 major = (index) / (along_k ? TILE_K / 4 : (rows) / 4); \
  const int32 minor = ((index) % (along_k ? TILE_K / 4 : (rows) / 4)) * 4; \
  const int32 row = along_k ? major : minor;                 \
  const int32 depth = along_k ? minor : major

/* load: `p` is the tile's first element in the operand, of which `rows_left` rows and `depth_left` of k are left; what lies
 * beyond is 0. store: puts them into local memory, tile[k][row]. */
#define GEMM_OPERAND_TILE(load, store, STORAGE, LOAD, LOAD4, ROWS, PITCH, FOURS)                                    \
  UHAL_INLINE void load(T* kept, UHAL_GLOBAL const STORAGE* p, INDEX row_stride, INDEX depth_stride, INDEX rows_left, \
                        INDEX depth_left, int32 mode, int32 id) {                                                     \
    const int32 wide_tile = (mode & GEMM_WIDE) && rows_left >= ROWS && depth_left >= TILE_K;                          \
    UHAL_UNROLL                                                                                                       \
    for (int32 i = 0; i < FOURS; ++i) {                                                                               \
      GEMM_PLACE(id + i * THREADS, ROWS);                                                                             \
      UHAL_GLOBAL const STORAGE* first = p + (row * row_stride + depth * depth_stride);                               \
      if (wide_tile) {                                                                                                \
        LOAD4(first, 0, kept + 4 * i);                                                                                        \
      } else {                                                                                                        \
        const INDEX step = along_k ? depth_stride : row_stride;                                                       \
        INDEX inside = along_k ? depth_left - depth : rows_left - row;                                                \
        if ((along_k ? rows_left - row : depth_left - depth) <= 0) inside = 0;                                        \
        UHAL_UNROLL                                                                                                   \
        for (int32 e = 0; e < 4; ++e) kept[4 * i + e] = e < inside ? LOAD(first, e * step) : (T)0;                    \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  UHAL_INLINE void store(const T* kept, UHAL_LOCAL T* tile, int32 mode, int32 id) {                                   \
    UHAL_UNROLL                                                                                                       \
    for (int32 i = 0; i < FOURS; ++i) {                                                                               \
      GEMM_PLACE(id + i * THREADS, ROWS);                                                                             \
      UHAL_LOCAL T* first = tile + depth * PITCH + row;                                                               \
      if (along_k) {                                                                                                  \
        UHAL_UNROLL                                                                                                   \
        for (int32 e = 0; e < 4; ++e) first[e * PITCH] = kept[4 * i + e];                                             \
      } else {                                                                                                        \
        T4 wide;                                                                                                      \
        wide.x = kept[4 * i];                                                                                         \
        wide.y = kept[4 * i + 1];                                                                                     \
        wide.z = kept[4 * i + 2];                                                                                     \
        wide.w = kept[4 * i + 3];                                                                                     \
        *(UHAL_LOCAL T4*)first = wide;                                                                                \
      }                                                                                                               \
    }                                                                                                                 \
  }

GEMM_OPERAND_TILE(gemm_load_a, gemm_store_a, A_STORAGE, A_LOAD, A_LOAD4, TILE_M, A_PITCH, A_FOURS)
GEMM_OPERAND_TILE(gemm_load_b, gemm_store_b, B_STORAGE, B_LOAD, B_LOAD4, TILE_N, B_PITCH, B_FOURS)

/* Fours of a work-item's rows (columns) lie apart by those of its neighbours, so that neighbours read neighbouring fours
 * of local memory. */
UHAL_INLINE void gemm_multiply(T sums[MICRO_M][MICRO_N], UHAL_LOCAL const T* a_tile, UHAL_LOCAL const T* b_tile) {
  UHAL_UNROLL
  for (int32 depth = 0; depth < TILE_K; ++depth) {
    T a[MICRO_M];
    T b[MICRO_N];
    UHAL_UNROLL
    for (int32 i = 0; i < MICRO_M; i += 4) {
      const T4 wide = *(UHAL_LOCAL const T4*)(a_tile + depth * A_PITCH + i * THREADS_M);
      GEMM_UNPACK(wide, a + i);
    }
    UHAL_UNROLL
    for (int32 j = 0; j < MICRO_N; j += 4) {
      const T4 wide = *(UHAL_LOCAL const T4*)(b_tile + depth * B_PITCH + j * THREADS_N);
      GEMM_UNPACK(wide, b + j);
    }
    UHAL_UNROLL
    for (int32 i = 0; i < MICRO_M; ++i) {
      UHAL_UNROLL
      for (int32 j = 0; j < MICRO_N; ++j) sums[i][j] += a[i] * b[j];
    }
  }
}

/* The place of a work-item in its group. */
#define THREAD_N(id) ((id) / 32 % (THREADS_N / LANES_N) * LANES_N + (id) % 32 % LANES_N)
#define THREAD_M(id) ((id) / 32 / (THREADS_N / LANES_N) * LANES_M + (id) % 32 / LANES_N)

/* Groups are numbered so that those that run at a time share operands: down strips of this many tiles along m. */
#define GEMM_STRIP 8

/* Part `p` of `splits` takes k from p * split_length (a multiple of TILE_K) on; with more than one the sums go to
 * partial[p][product of the batch][row][column]. */
UHAL_KERNEL UHAL_GROUP_SIZE(THREADS, 1, 1) UHAL_COMPACT
void gemm_tile(GEMM_OPERANDS, UHAL_POINTER(partial), INDEX tiles_m, INDEX tiles_n, INDEX batch_count, INDEX splits,
               INDEX split_length, int32 a_mode, int32 b_mode) {
  UHAL_LOCAL_MEMORY T4 a_memory[BUFFERS * A_ELEMENTS / 4];
  UHAL_LOCAL_MEMORY T4 b_memory[BUFFERS * B_ELEMENTS / 4];
  UHAL_LOCAL T* a_tile = (UHAL_LOCAL T*)a_memory;
  UHAL_LOCAL T* b_tile = (UHAL_LOCAL T*)b_memory;

  const INDEX group = UHAL_GROUP_ID(0);
  const INDEX tiles = tiles_m * tiles_n;
  const INDEX rest = group / tiles;
  const INDEX tile = group - rest * tiles;
  const INDEX product = rest / splits;
  const INDEX split = rest - product * splits;
  const INDEX strip = tile / (GEMM_STRIP * tiles_n);
  const INDEX in_strip = tile - strip * (GEMM_STRIP * tiles_n);
  const INDEX strip_left = tiles_m - strip * GEMM_STRIP;
  const INDEX strip_height = strip_left < GEMM_STRIP ? strip_left : GEMM_STRIP;
  const INDEX tile_n = in_strip / strip_height;
  const INDEX first_row = (strip * GEMM_STRIP + (in_strip - tile_n * strip_height)) * TILE_M;
  const INDEX first_column = tile_n * TILE_N;
  GEMM_MATRICES(product);

  int32 id = (int32)UHAL_LOCAL_ID(0);

  const INDEX begin = split * split_length;
  const INDEX length = shape.k - begin < split_length ? shape.k - begin : split_length;
  const INDEX rows_left = shape.m - first_row;
  const INDEX columns_left = shape.n - first_column;
  a += first_row * shape.a_row + begin * shape.a_column;
  b += first_column * shape.b_column + begin * shape.b_row;

  T sums[MICRO_M][MICRO_N];
  UHAL_UNROLL
  for (int32 i = 0; i < MICRO_M; ++i) {
    UHAL_UNROLL
    for (int32 j = 0; j < MICRO_N; ++j) sums[i][j] = 0;
  }

  T a_kept[4 * A_FOURS];
  T b_kept[4 * B_FOURS];
  gemm_load_a(a_kept, a, shape.a_row, shape.a_column, rows_left, length, a_mode, id);
  gemm_load_b(b_kept, b, shape.b_column, shape.b_row, columns_left, length, b_mode, id);
#if BUFFERS == 2
  gemm_store_a(a_kept, a_tile, a_mode, id);
  gemm_store_b(b_kept, b_tile, b_mode, id);
  int32 buffer = 0;
#endif
  for (INDEX at = 0; at < length; at += TILE_K) {
#if COMPACT && MICRO_M * MICRO_N > 16
    UHAL_FORGET(id); /* places in memory are no more than arithmetic, and the sums need their registers */
#endif
#if BUFFERS == 1
    gemm_store_a(a_kept, a_tile, a_mode, id);
    gemm_store_b(b_kept, b_tile, b_mode, id);
#endif
    UHAL_BARRIER();
    const INDEX next = at + TILE_K;
    if (next < length) {
      gemm_load_a(a_kept, a + next * shape.a_column, shape.a_row, shape.a_column, rows_left, length - next, a_mode, id);
      gemm_load_b(b_kept, b + next * shape.b_row, shape.b_column, shape.b_row, columns_left, length - next, b_mode, id);
    }
#if BUFFERS == 1
    gemm_multiply(sums, a_tile + 4 * THREAD_M(id), b_tile + 4 * THREAD_N(id));
    UHAL_BARRIER();
#else
    gemm_multiply(sums, a_tile + buffer * A_ELEMENTS + 4 * THREAD_M(id), b_tile + buffer * B_ELEMENTS + 4 * THREAD_N(id));
    buffer ^= 1;
    if (next < length) {
      gemm_store_a(a_kept, a_tile + buffer * A_ELEMENTS, a_mode, id);
      gemm_store_b(b_kept, b_tile + buffer * B_ELEMENTS, b_mode, id);
    }
#endif
  }

  UHAL_FORGET(id);
  UHAL_GLOBAL T* sums_out = UHAL_ADDRESS(T, partial) + (split * batch_count + product) * shape.m * shape.n;
  UHAL_UNROLL
  for (int32 i = 0; i < MICRO_M; ++i) {
    const INDEX row = first_row + (i / 4) * 4 * THREADS_M + 4 * THREAD_M(id) + i % 4;
    UHAL_UNROLL
    for (int32 j = 0; j < MICRO_N; ++j) {
      const INDEX column = first_column + (j / 4) * 4 * THREADS_N + 4 * THREAD_N(id) + j % 4;
      if (row < shape.m && column < shape.n) {
        if (splits > 1) {
          sums_out[row * shape.n + column] = sums[i][j];
        } else {
          GEMM_STORE(row, column, sums[i][j]);
        }
      }
    }
  }
}
