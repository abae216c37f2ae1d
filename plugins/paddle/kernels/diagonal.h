// Diagonals as views.
#pragma once

#include <algorithm>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// The diagonal of two axes, last; the others in front.
inline View diagonal_of(const View& x, int64_t offset, int first, int second) {
  const int row = from_front(first, x.rank), column = from_front(second, x.rank);
  View result = x;
  const int64_t down = std::max<int64_t>(0, -offset), right = std::max<int64_t>(0, offset);
  const int64_t length = std::max<int64_t>(0, std::min(x.shape[row] - down, x.shape[column] - right));
  const View corner = x.sliced(row, length > 0 ? down : 0, 1).sliced(column, length > 0 ? right : 0, 1);
  result.data = corner.data;
  result.rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (i == row || i == column) continue;
    result.shape[result.rank] = x.shape[i];
    result.strides[result.rank++] = x.strides[i];
  }
  result.shape[result.rank] = length;
  result.strides[result.rank++] = x.strides[row] + x.strides[column];
  return result;
}

}  // namespace unihal::paddle
