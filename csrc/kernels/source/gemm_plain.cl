/* A product, element by element: for small ones, where a tile would be mostly padding. */
#include "csrc/kernels/source/gemm_operands.h"

/* `count` elements of d, over the whole batch. */
UHAL_KERNEL void gemm_plain(GEMM_OPERANDS, INDEX count) {
  const INDEX elements = shape.m * shape.n;
  UHAL_FOR_ITEMS(position, count) {
    const INDEX product = position / elements;
    const INDEX element = position - product * elements;
    const INDEX row = element / shape.n;
    const INDEX column = element - row * shape.n;
    GEMM_MATRICES(product);
    T sum = 0;
    for (INDEX i = 0; i < shape.k; ++i) {
      sum += A_LOAD(a, row * shape.a_row + i * shape.a_column) * B_LOAD(b, i * shape.b_row + column * shape.b_column);
    }
    GEMM_STORE(row, column, sum);
  }
}
