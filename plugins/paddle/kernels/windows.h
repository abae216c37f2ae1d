// Windows that slide along an axis, as views and as sums.
#pragma once

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// Window k covers the elements k * step + i * dilation. `axis` makes place for two: i, then k. Windows may overlap, so
// only what is read can be seen like this.
inline View windows(const View& x, int axis, int64_t length, int64_t count, int64_t step, int64_t dilation = 1) {
  View result = x.unsqueezed(axis);
  result.shape[axis] = length;
  result.strides[axis] = x.strides[axis] * dilation;
  result.shape[axis + 1] = count;
  result.strides[axis + 1] = x.strides[axis] * step;
  return result;
}

}  // namespace unihal::paddle
