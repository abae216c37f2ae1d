/* A product on a CPU: a group is one work-item, which computes BLOCK_M x BLOCK_N of d in steps of BLOCK_K. A panel of b
 * is copied together so that it is read in vectors from the cache, for four rows of a at a time. Without barriers, which
 * a CPU would pay for with all its registers.
 *
 * Macros: BLOCK_M (a multiple of 4), BLOCK_K. */
#include "csrc/kernels/source/gemm_operands.h"
#include "csrc/kernels/prelude/panel_product.h"

#define BLOCK_N 32
#define OFFSET_OF_COLUMN(depth) ((depth) * shape.a_column)

UHAL_KERNEL UHAL_GROUP_SIZE(1, 1, 1) void gemm_block(GEMM_OPERANDS, INDEX blocks_m, INDEX blocks_n) {
  UHAL_LOCAL_MEMORY T panel[BLOCK_K * BLOCK_N];
  UHAL_LOCAL_MEMORY T sums[BLOCK_M * BLOCK_N];
  const INDEX group = UHAL_GROUP_ID(0);
  const INDEX rest = group / blocks_n;
  const INDEX first_column = (group - rest * blocks_n) * BLOCK_N;
  const INDEX product = rest / blocks_m;
  const INDEX first_row = (rest - product * blocks_m) * BLOCK_M;
  const INDEX rows = shape.m - first_row < BLOCK_M ? shape.m - first_row : BLOCK_M;
  const INDEX columns = shape.n - first_column < BLOCK_N ? shape.n - first_column : BLOCK_N;
  GEMM_MATRICES(product);
  a += first_row * shape.a_row;
  b += first_column * shape.b_column;

  for (INDEX i = 0; i < BLOCK_M * BLOCK_N; ++i) sums[i] = 0;
  for (INDEX at = 0; at < shape.k; at += BLOCK_K) {
    const INDEX length = shape.k - at < BLOCK_K ? shape.k - at : BLOCK_K;
    UHAL_GLOBAL const B_STORAGE* part = b + at * shape.b_row;
    if (shape.b_column == 1 && columns == BLOCK_N) {
      for (INDEX depth = 0; depth < length; ++depth) {
        UHAL_GLOBAL const B_STORAGE* source = part + depth * shape.b_row;
        for (INDEX j = 0; j < BLOCK_N; ++j) panel[depth * BLOCK_N + j] = B_LOAD(source, j);
      }
    } else {
      for (INDEX j = 0; j < BLOCK_N; ++j) {
        UHAL_GLOBAL const B_STORAGE* source = part + j * shape.b_column;
        for (INDEX depth = 0; depth < length; ++depth) {
          panel[depth * BLOCK_N + j] = j < columns ? B_LOAD(source, depth * shape.b_row) : (T)0;
        }
      }
    }
    for (INDEX i = 0; i < rows; i += 4) {
      /* Rows beyond the last one are the last one again: their sums go nowhere. */
      const INDEX last = rows - 1 - i;
      UHAL_GLOBAL const A_STORAGE* a0 = a + i * shape.a_row + at * shape.a_column;
      UHAL_GLOBAL const A_STORAGE* a1 = a0 + (last < 1 ? last : 1) * shape.a_row;
      UHAL_GLOBAL const A_STORAGE* a2 = a0 + (last < 2 ? last : 2) * shape.a_row;
      UHAL_GLOBAL const A_STORAGE* a3 = a0 + (last < 3 ? last : 3) * shape.a_row;
      UHAL_LOCAL T* sum = sums + i * BLOCK_N;
      UHAL_ADD_PANEL_PRODUCT(sum, panel, length, a0, a1, a2, a3, OFFSET_OF_COLUMN);
    }
  }
  for (INDEX i = 0; i < rows; ++i) {
    for (INDEX j = 0; j < columns; ++j) GEMM_STORE(first_row + i, first_column + j, sums[i * BLOCK_N + j]);
  }
}
