// Sums and affine maps per channel: what batch and group normalization consist of. T is float or double.
#pragma once

#include <cstdint>

#include "stub/common/staging.h"

namespace unihal::stub {

// Packed images as blocks of `pixels` x `channels` (channels_last) or `channels` x `pixels`.
struct ChannelBlocks {
  int64_t images, channels, pixels;
  bool channels_last;

  int64_t count() const { return images * channels; }
};

// Two sums for each channel of each image.
struct ChannelSums {
  double first, second;
};

// sums[image][channel] = {sum of u', sum of u' * v'} over pixels, with u' = u - u_shift, v' = v - v_shift; shifts are
// per image and channel, nullptr for 0. Deterministic: independent of the number of threads. False when there is no
// memory.
template <typename T>
bool channel_sums(Staging& staging, const ChannelBlocks& blocks, const T* u, const T* u_shift, const T* v,
                  const T* v_shift, ChannelSums* sums);

// Per image and channel: result = u_factor * u + x_factor * (x - x_shift) + offset.
template <typename T>
struct ChannelMap {
  T* u_factor;  // nullptr: no u
  T* x_factor;
  T* x_shift;
  T* offset;
};

// u may be nullptr. `result` may be x or u.
template <typename T>
void channel_map(const ChannelBlocks& blocks, const ChannelMap<T>& map, const T* u, const T* x,
                 uhal_activation activation, T* result);

}  // namespace unihal::stub
