/* Weighted sums of neighbours along an axis (csrc/kernels/ops/resample.cc). A work-item has an element of y.
 *
 * Macros: UHAL_WIDE_INDEX, UHAL_RANK; dtypes X, W (of the weights) and Y. */
#include "csrc/kernels/prelude/rows.h"

UHAL_ROWS(two_rows, 2) /* y, x */

typedef struct {
  INDEX count;    /* work-items */
  INDEX inner;    /* rows that lie side by side closer than elements of a row */
  INDEX x_length; /* along the axis */
  INDEX taps;
  INDEX first_stride;
  INDEX weight_strides[2];
} Plan;

UHAL_KERNEL void resample(UHAL_POINTER(x), UHAL_POINTER(first), UHAL_POINTER(weights), UHAL_POINTER(y), two_rows rows,
                          Plan plan) {
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const W_STORAGE* weights = UHAL_ADDRESS(const W_STORAGE, weights);
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, plan.count) {
    const INDEX block = i / plan.inner;
    const INDEX outer = block / rows.length;
    const INDEX at = block - outer * rows.length;
    INDEX offsets[2] = {0, 0};
    UHAL_ADD_OFFSETS(rows, 2, outer * plan.inner + (i - block * plan.inner), offsets);
    /* An int32 may lie where no element of x does, with sums that do not fit. */
    const int64 first = UHAL_ADDRESS(const int32, first)[at * plan.first_stride];
    const INDEX begin = first < 0 ? (INDEX)(-first < plan.taps ? -first : plan.taps) : 0;
    const int64 room = (int64)plan.x_length - first;
    const INDEX end = room < plan.taps ? (INDEX)(room > begin ? room : begin) : plan.taps;
    const INDEX weight_row = at * plan.weight_strides[0];
    T sum = 0;
    for (INDEX t = begin; t < end; ++t) {
      const T weight = W_LOAD(weights, weight_row + t * plan.weight_strides[1]);
      if (weight != 0) sum += weight * X_LOAD(x, offsets[1] + (INDEX)(first + t) * rows.along[1]);
    }
    Y_STORE(y, offsets[0] + at * rows.along[0], sum);
  }
}
