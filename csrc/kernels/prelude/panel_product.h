/* The inner loop of the kernels for CPUs (gemm_block.cl, convolution_block.cl): a panel of b, `length` x 32 numbers in
 * the cache, is read in vectors of 16 for four rows of a at a time. `offset_of(depth)` is where a row of a has its
 * factor; the four rows of sums lie one after the other. */
#define UHAL_ADD_PANEL_PRODUCT(sum, panel, length, a0, a1, a2, a3, offset_of)                                       \
  do {                                                                                                              \
    T16 s00 = uhal_load16(sum, 0), s01 = uhal_load16(sum, 1), s10 = uhal_load16(sum, 2), s11 = uhal_load16(sum, 3); \
    T16 s20 = uhal_load16(sum, 4), s21 = uhal_load16(sum, 5), s30 = uhal_load16(sum, 6), s31 = uhal_load16(sum, 7); \
    for (INDEX depth = 0; depth < (length); ++depth) {                                                              \
      const T16 b0 = uhal_load16(panel, 2 * depth);                                                                 \
      const T16 b1 = uhal_load16(panel, 2 * depth + 1);                                                             \
      const INDEX offset = offset_of(depth);                                                                        \
      const T x0 = A_LOAD(a0, offset), x1 = A_LOAD(a1, offset), x2 = A_LOAD(a2, offset), x3 = A_LOAD(a3, offset);   \
      s00 += x0 * b0;                                                                                               \
      s01 += x0 * b1;                                                                                               \
      s10 += x1 * b0;                                                                                               \
      s11 += x1 * b1;                                                                                               \
      s20 += x2 * b0;                                                                                               \
      s21 += x2 * b1;                                                                                               \
      s30 += x3 * b0;                                                                                               \
      s31 += x3 * b1;                                                                                               \
    }                                                                                                               \
    uhal_store16(sum, 0, s00);                                                                                      \
    uhal_store16(sum, 1, s01);                                                                                      \
    uhal_store16(sum, 2, s10);                                                                                      \
    uhal_store16(sum, 3, s11);                                                                                      \
    uhal_store16(sum, 4, s20);                                                                                      \
    uhal_store16(sum, 5, s21);                                                                                      \
    uhal_store16(sum, 6, s30);                                                                                      \
    uhal_store16(sum, 7, s31);                                                                                      \
  } while (0)
