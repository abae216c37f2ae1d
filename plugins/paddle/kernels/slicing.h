// Slices as Python means them.
#pragma once

#include <string>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// One bound of a slice.
inline int64_t slice_bound(int64_t index, int64_t size, int64_t lowest, int64_t highest) {
  index = index < 0 ? index + size : index;
  return index < lowest ? lowest : index > highest ? highest : index;
}

// The part of x that a slice names; Axes: vector<int> or vector<int64_t>.
template <class Axes>
View sliced(const Context& context, View x, const Axes& axes, const Integers& starts, const Integers& ends,
            const Integers* steps) {
  for (int i = 0; i < axes.size(); ++i) {
    const int axis = from_front(axes[i], x.rank);
    const int64_t size = x.shape[axis], step = steps ? (*steps)[i] : 1;
    if (step == 0) raise(UHAL_INVALID_ARGUMENT, std::string("(unihal) ") + context.kernel() + ": a step is 0");
    const bool forward = step > 0;
    const int64_t start = slice_bound(starts[i], size, forward ? 0 : -1, forward ? size : size - 1);
    // Going backward, an end of -1 - size or less means "through the first element".
    const int64_t end = !forward && ends[i] < -size ? -1 : slice_bound(ends[i], size, forward ? 0 : -1, size);
    const int64_t span = forward ? end - start : start - end;
    const int64_t stride = forward ? step : -step;
    x = x.sliced(axis, start, span > 0 ? (span + stride - 1) / stride : 0, step);
  }
  return x;
}

}  // namespace unihal::paddle
