// Paddle's ways to say layout and padding of convolutions and pools.
#pragma once

#include <cstring>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

inline bool channels_last(Text data_format) {
  return std::strcmp(data_format.value, "NHWC") == 0 || std::strcmp(data_format.value, "NDHWC") == 0 ||
         std::strcmp(data_format.value, "NLC") == 0;
}

// An image in the ABI's axis order.
inline View image(const View& view, bool last) { return last ? view.channels_first() : view; }

// Padding of one spatial axis. `paddings` holds one number per axis or two; `algorithm` is EXPLICIT, SAME or VALID.
template <class Numbers>
void set_padding(const Numbers& paddings, Text algorithm, int axis, int axes, int64_t size, int64_t window,
                 int64_t dilation, int64_t stride, int64_t* before, int64_t* after) {
  if (std::strcmp(algorithm.value, "VALID") == 0) {
    *before = *after = 0;
  } else if (std::strcmp(algorithm.value, "SAME") == 0) {
    const int64_t reach = (window - 1) * dilation + 1;
    const int64_t out = (size + stride - 1) / stride;
    const int64_t total = (out - 1) * stride + reach - size;
    *before = total > 0 ? total / 2 : 0;
    *after = total > 0 ? total - *before : 0;
  } else if (paddings.size() == 2 * axes) {
    *before = paddings[2 * axis];
    *after = paddings[2 * axis + 1];
  } else {
    *before = *after = paddings[axis];
  }
}

}  // namespace unihal::paddle
