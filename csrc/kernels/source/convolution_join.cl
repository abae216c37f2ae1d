/* Sums the slices that convolution_gemm left in the workspace, in their order, and finishes the result: bias,
 * activation, dtype, strides. Macros: HAS_BIAS, UHAL_ACTIVATION, the dtypes BIAS and RESULT. */
#include "csrc/kernels/prelude/map_functions.h"
#include "csrc/kernels/prelude/convolution_walk.h"

typedef struct {
  Walk columns;
  INDEX rows;
  INDEX result_row_stride, result_group_stride, bias_stride;
  INDEX sum_row_stride, sum_column_stride, sums; /* of a row, of a column, of a slice */
  INDEX slices;
} Joint;

UHAL_KERNEL void convolution_join(UHAL_POINTER(partial), UHAL_POINTER(bias), UHAL_POINTER(result), Joint joint) {
  UHAL_GLOBAL const T* const sums = UHAL_ADDRESS(const T, partial);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  const INDEX product = joint.rows * joint.columns.count;
  UHAL_FOR_ITEMS(i, joint.sums) {
    T value = 0;
    for (INDEX slice = 0; slice < joint.slices; ++slice) value += sums[slice * joint.sums + i];
    const INDEX group = i / product;
    const INDEX inside = i - group * product;
    const INDEX slow_stride = max(joint.sum_row_stride, joint.sum_column_stride);
    const INDEX slow = inside / slow_stride;
    const INDEX fast = inside - slow * slow_stride;
    const int32 along_rows = joint.sum_column_stride > joint.sum_row_stride;
    const INDEX row = along_rows ? fast : slow;
    const INDEX column = along_rows ? slow : fast;
#if HAS_BIAS
    value += BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), (group * joint.rows + row) * joint.bias_stride);
#endif
    const INDEX to = place_at(joint.columns, digits_of(joint.columns, column)).other;
    RESULT_STORE(result_data, group * joint.result_group_stride + row * joint.result_row_stride + to,
                 uhal_activate(value));
  }
}
