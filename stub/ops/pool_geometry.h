// How windows lie on images. What the two ways of pooling share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "stub/vector/vectorize.h"

namespace unihal::stub {

// Channels that are pooled together where they lie side by side.
inline constexpr int64_t kPoolLanes = 64;

struct Span {
  int64_t begin, end;  // pixels under a window along one axis, cut to the image
};

// Always three spatial axes (leading ones of length 1). A strip is a plane of pixels with `lanes` channels side by
// side: one channel for NCHW, up to kPoolLanes for NHWC.
struct PoolGeometry {
  int64_t images, channels;
  int64_t input[3], output[3];
  const Span* spans[3];    // by output coordinate
  int64_t row_window;      // width of a window, 0 where windows are adaptive
  int64_t row_stride;      // along the last axis
  int64_t row_pad_before;  // along the last axis
  int64_t padded_window;   // the divisor where padding counts; 0: the pixels under the window
  bool channels_last;

  int64_t pixels() const { return input[0] * input[1] * input[2]; }
  int64_t places() const { return output[0] * output[1] * output[2]; }
  int64_t pixel_stride() const { return channels_last ? channels : 1; }
  int64_t strips_per_image() const { return channels_last ? (channels + kPoolLanes - 1) / kPoolLanes : channels; }
  int64_t lanes(int64_t strip) const {
    return channels_last ? std::min(kPoolLanes, channels - strip % strips_per_image() * kPoolLanes) : 1;
  }
  // Where a strip begins in a tensor with `points` pixels or places per channel.
  int64_t offset(int64_t strip, int64_t points) const {
    const int64_t image = strip / strips_per_image();
    const int64_t inside = strip % strips_per_image();
    return image * channels * points + inside * (channels_last ? kPoolLanes : points);
  }
  // What the sum of `count` pixels is divided by.
  int64_t divisor(int64_t count) const { return std::max<int64_t>(1, padded_window != 0 ? padded_window : count); }
};

// As wide as T, so that values and positions are compared and selected in vectors of one length.
template <typename T>
using PoolPosition = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// What a maximum starts from: no value is below it.
template <typename T>
inline constexpr T kLowest =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();

// Whether `value` takes the place of the largest value so far: the first of equals stays, a NaN wins.
template <typename T>
UNIHAL_INLINE bool is_larger(T value, T best) {
  return value > best || (value != value && best == best);
}

}  // namespace unihal::stub
