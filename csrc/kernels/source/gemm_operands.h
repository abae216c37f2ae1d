/* What the gemm_*.cl kernels share: their operands (append_operands of gemm.cc passes them) and what becomes of a sum.
 *
 * Macros: dtypes A, B, C, D; UHAL_ACTIVATION. */
#include "csrc/kernels/prelude/map_functions.h"

typedef struct {
  INDEX m, n, k;
  INDEX a_row, a_column, b_row, b_column, c_row, c_column, d_row, d_column; /* strides */
} GEMM_SHAPE;

UHAL_LAYOUT(GEMM_BATCH, 4)

#define GEMM_OPERANDS                                                                                              \
  UHAL_POINTER(a), UHAL_POINTER(b), UHAL_POINTER(c), UHAL_POINTER(d), GEMM_SHAPE shape, GEMM_BATCH batch, T alpha, \
      T beta

/* Declares a, b, c, d: where the matrices of one product of the batch begin. */
#define GEMM_MATRICES(position)                                                        \
  INDEX gemm_offsets[4] = {0, 0, 0, 0};                                                \
  UHAL_ADD_OFFSETS(batch, 4, position, gemm_offsets);                                  \
  UHAL_GLOBAL const A_STORAGE* a = UHAL_ADDRESS(const A_STORAGE, a) + gemm_offsets[0]; \
  UHAL_GLOBAL const B_STORAGE* b = UHAL_ADDRESS(const B_STORAGE, b) + gemm_offsets[1]; \
  UHAL_GLOBAL const C_STORAGE* c = UHAL_ADDRESS(const C_STORAGE, c) + gemm_offsets[2]; \
  UHAL_GLOBAL D_STORAGE* d = UHAL_ADDRESS(D_STORAGE, d) + gemm_offsets[3]

/* d's element from the sum of its products. beta is 0 where there is no c. */
#define GEMM_RESULT(sum, row, column)                                                                         \
  uhal_activate(beta != 0 ? alpha * (sum) + beta * C_LOAD(c, (row) * shape.c_row + (column) * shape.c_column) \
                          : alpha * (sum))
#define GEMM_STORE(row, column, sum) \
  D_STORE(d, (row) * shape.d_row + (column) * shape.d_column, GEMM_RESULT(sum, row, column))
