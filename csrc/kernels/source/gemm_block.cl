/* A product on a CPU: a group is one work-item, which computes BLOCK_M x BLOCK_N of d in steps of BLOCK_K. A panel of b
 * is copied together so that it is read in vectors from the cache, for four rows of a at a time. Without barriers, which
 * a CPU would pay for with all its registers.
 *
 * Macros: BLOCK_M (a multiple of 4), BLOCK_K. */
#include "csrc/kernels/source/gemm_operands.h"

#define BLOCK_N 32

UHAL_KERNEL UHAL_GROUP_SIZE(1, 1, 1) void gemm_block(GEMM_OPERANDS, INDEX blocks_m, INDEX blocks_n) {
  UHAL_LOCAL T panel[BLOCK_K * BLOCK_N];
  UHAL_LOCAL T sums[BLOCK_M * BLOCK_N];
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
      T16 s00 = uhal_load16(sum, 0), s01 = uhal_load16(sum, 1), s10 = uhal_load16(sum, 2), s11 = uhal_load16(sum, 3);
      T16 s20 = uhal_load16(sum, 4), s21 = uhal_load16(sum, 5), s30 = uhal_load16(sum, 6), s31 = uhal_load16(sum, 7);
      for (INDEX depth = 0; depth < length; ++depth) {
        const T16 b0 = uhal_load16(panel, 2 * depth);
        const T16 b1 = uhal_load16(panel, 2 * depth + 1);
        const INDEX offset = depth * shape.a_column;
        const T x0 = A_LOAD(a0, offset), x1 = A_LOAD(a1, offset), x2 = A_LOAD(a2, offset), x3 = A_LOAD(a3, offset);
        s00 += x0 * b0;
        s01 += x0 * b1;
        s10 += x1 * b0;
        s11 += x1 * b1;
        s20 += x2 * b0;
        s21 += x2 * b1;
        s30 += x3 * b0;
        s31 += x3 * b1;
      }
      uhal_store16(sum, 0, s00);
      uhal_store16(sum, 1, s01);
      uhal_store16(sum, 2, s10);
      uhal_store16(sum, 3, s11);
      uhal_store16(sum, 4, s20);
      uhal_store16(sum, 5, s21);
      uhal_store16(sum, 6, s30);
      uhal_store16(sum, 7, s31);
    }
  }
  for (INDEX i = 0; i < rows; ++i) {
    for (INDEX j = 0; j < columns; ++j) GEMM_STORE(first_row + i, first_column + j, sums[i * BLOCK_N + j]);
  }
}
