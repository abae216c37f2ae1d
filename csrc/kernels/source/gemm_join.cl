/* The last step of a product whose k was split: adds the parts, and does with the sum what a whole product does. */
#include "csrc/kernels/source/gemm_operands.h"

/* partial[split][product of the batch][row][column]; `count` elements of d, over the whole batch. */
UHAL_KERNEL void gemm_join(GEMM_OPERANDS, UHAL_POINTER(partial), INDEX count, INDEX splits) {
  UHAL_GLOBAL const T* partial = UHAL_ADDRESS(const T, partial);
  const INDEX elements = shape.m * shape.n;
  UHAL_FOR_ITEMS(position, count) {
    const INDEX product = position / elements;
    const INDEX element = position - product * elements;
    const INDEX row = element / shape.n;
    const INDEX column = element - row * shape.n;
    GEMM_MATRICES(product);
    T sum = 0;
    for (INDEX split = 0; split < splits; ++split) sum += partial[split * count + position];
    GEMM_STORE(row, column, sum);
  }
}
