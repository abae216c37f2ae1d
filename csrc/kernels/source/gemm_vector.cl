/* A matrix times a vector (n = 1). A group takes LANES_M rows; LANES_K work-items share the sum of each.
 *
 * Macros: LANES_M, LANES_K (powers of two), ALONG_K (1: a's elements lie one after the other along k, so neighbours
 * in the group take neighbours there, else along m). */
#include "csrc/kernels/source/gemm_operands.h"

/* Part `p` of `splits` takes k from p * split_length on; with more than one the sums go to
 * partial[p][product of the batch][row]. */
UHAL_KERNEL UHAL_GROUP_SIZE(LANES_M* LANES_K, 1, 1) void gemm_vector(GEMM_OPERANDS, UHAL_POINTER(partial),
                                                                     INDEX groups_m, INDEX batch_count, INDEX splits,
                                                                     INDEX split_length) {
  UHAL_LOCAL_MEMORY T sums[LANES_M * LANES_K];
  const int32 id = (int32)UHAL_LOCAL_ID(0);
#if ALONG_K
  const int32 lane_k = id % LANES_K;
  const int32 lane_m = id / LANES_K;
#else
  const int32 lane_k = id / LANES_M;
  const int32 lane_m = id % LANES_M;
#endif
  const INDEX group = UHAL_GROUP_ID(0);
  const INDEX rest = group / groups_m;
  const INDEX row = (group - rest * groups_m) * LANES_M + lane_m;
  const INDEX product = rest / splits;
  const INDEX split = rest - product * splits;
  GEMM_MATRICES(product);

  const INDEX begin = split * split_length;
  const INDEX end = begin + split_length < shape.k ? begin + split_length : shape.k;
  T sum = 0;
  if (row < shape.m) {
    /* Four sums: loads that do not wait for each other. */
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    INDEX i = begin + lane_k;
    UHAL_GLOBAL const A_STORAGE* a_row = a + row * shape.a_row;
#define GEMM_TERM(i) A_LOAD(a_row, (i) * shape.a_column) * B_LOAD(b, (i) * shape.b_row)
    for (; i + 3 * LANES_K < end; i += 4 * LANES_K) {
      s0 += GEMM_TERM(i);
      s1 += GEMM_TERM(i + LANES_K);
      s2 += GEMM_TERM(i + 2 * LANES_K);
      s3 += GEMM_TERM(i + 3 * LANES_K);
    }
    for (; i < end; i += LANES_K) s0 += GEMM_TERM(i);
    sum = (s0 + s1) + (s2 + s3);
  }

  /* The row's sums in two steps: eighths, then these. */
  UHAL_LOCAL T* row_sums = sums + lane_m * LANES_K;
  row_sums[lane_k] = sum;
  UHAL_BARRIER();
#if LANES_K > 8
  sum = 0;
  if (lane_k < 8) {
    for (int32 i = lane_k; i < LANES_K; i += 8) sum += row_sums[i];
  }
  UHAL_BARRIER();
  if (lane_k < 8) row_sums[lane_k] = sum;
  UHAL_BARRIER();
#endif
  if (lane_k == 0 && row < shape.m) {
    sum = 0;
    for (int32 i = 0; i < (LANES_K < 8 ? LANES_K : 8); ++i) sum += row_sums[i];
    if (splits > 1) {
      UHAL_ADDRESS(T, partial)[(split * batch_count + product) * shape.m + row] = sum;
    } else {
      GEMM_STORE(row, 0, sum);
    }
  }
}
