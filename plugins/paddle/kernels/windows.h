// Windows that slide along an axis, as views and as sums.
#pragma once

#include <algorithm>
#include <optional>

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

// Adds windows, which have the axes (length, count) at `axis`, to the signal that they are of. Of every so many windows
// one, so that those do not overlap, at a time.
inline void add_windows(const Context& context, const View& x, int axis, int64_t step, const View& signal) {
  const int64_t length = x.shape[axis], count = x.shape[axis + 1], apart = (length + step - 1) / step;
  for (int64_t first = 0; first < std::min(apart, count) && x.elements() > 0; ++first) {
    const int64_t some = (count - first + apart - 1) / apart;
    const View rest = signal.sliced(axis, first * step, signal.shape[axis] - first * step);
    const View to = windows(rest, axis, length, some, apart * step), from = x.sliced(axis + 1, first, some, apart);
    context.map(uhal_map_add, {&to, &from}, {&to});
  }
}

// y = updates at the pixels, numbered within each channel, of which they are the gradient.
inline void add_at_pixels(const Context& context, const View& pixels, const View& updates, const View& y) {
  const uhal_dtype dtype = accumulator(y.dtype);
  std::optional<Scratch> wide_sum, wide_updates;
  View sum = y, added = updates;
  if (dtype != y.dtype) {
    sum = wide_sum.emplace(context, dtype, y);
    added = wide_updates.emplace(context, dtype, updates);
    copy_or_cast(context, updates, added);
  }
  fill_zero(context, sum);
  if (updates.elements() > 0) {
    const auto channels = [](const View& view) {
      int64_t length = 1;
      for (int i = 2; i < view.rank; ++i) length *= view.shape[i];
      return view.reshaped({view.shape[0], view.shape[1], length});
    };
    const View at = channels(pixels), from = channels(added), to = channels(sum);
    auto attributes = index_attributes(2);
    attributes.reduction = UHAL_REDUCE_SUM;
    attributes.ignore_out_of_range = 1;  // of a window that has no pixel
    context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &from}, {&to}, &attributes);
  }
  if (wide_sum) copy_or_cast(context, sum, y);
}

}  // namespace unihal::paddle
