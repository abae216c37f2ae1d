#include <algorithm>
#include <cmath>

#include "stub/ops/channel_sums.h"
#include "stub/ops/norm.h"

namespace unihal::stub {
namespace {

// A packed x as blocks. Statistics run over images and pixels alike, so images whose channels are innermost are one.
ChannelBlocks blocks_of(const uhal_tensor& x, const AxisOrder& order) {
  const int64_t channels = x.shape[1];
  const int64_t points = channels > 0 ? element_count(x) / channels : 0;
  if (channels_last(order) || x.rank == 2) return {1, channels, points, true};
  return {x.shape[0], channels, x.shape[0] > 0 ? points / x.shape[0] : 0, false};
}

// The arrays of a channel_map with one number per image and channel.
template <typename T>
bool take_map(Staging& staging, const ChannelBlocks& blocks, ChannelMap<T>* map) {
  const size_t count = static_cast<size_t>(blocks.count());
  *map = {staging.take<T>(count), staging.take<T>(count), staging.take<T>(count), staging.take<T>(count)};
  return staging.status() == UHAL_OK;
}

// Repeats the numbers of the first image for the others.
template <typename T>
void repeat_for_images(const ChannelBlocks& blocks, const ChannelMap<T>& map) {
  for (int64_t image = 1; image < blocks.images; ++image) {
    for (T* numbers : {map.u_factor, map.x_factor, map.x_shift, map.offset}) {
      std::copy_n(numbers, blocks.channels, numbers + image * blocks.channels);
    }
  }
}

// The sums of a channel over all images.
ChannelSums over_images(const ChannelBlocks& blocks, const ChannelSums* sums, int64_t channel) {
  ChannelSums total = {0, 0};
  for (int64_t image = 0; image < blocks.images; ++image) {
    total.first += sums[image * blocks.channels + channel].first;
    total.second += sums[image * blocks.channels + channel].second;
  }
  return total;
}

struct Moments {
  double mean, variance;
};

// Mean and biased variance of each channel.
template <typename T>
uhal_status moments(Staging& staging, const ChannelBlocks& blocks, const T* x, Moments* result) {
  ChannelSums* sums = staging.take<ChannelSums>(static_cast<size_t>(blocks.count()));
  T* shift = staging.take<T>(static_cast<size_t>(blocks.count()));
  if (staging.status() != UHAL_OK) return staging.status();
  const int64_t points = blocks.images * blocks.pixels;
  // Sums of differences from one of the values lose no digits where the mean is large.
  for (int64_t i = 0; i < blocks.count(); ++i) {
    const int64_t channel = i % blocks.channels;
    shift[i] = points > 0 ? x[blocks.channels_last ? channel : channel * blocks.pixels] : T(0);
  }
  if (!channel_sums(staging, blocks, x, static_cast<const T*>(shift), x, static_cast<const T*>(shift), sums)) {
    return staging.status();
  }
  for (int64_t c = 0; c < blocks.channels; ++c) {
    const ChannelSums total = over_images(blocks, sums, c);
    const double mean = points > 0 ? total.first / points : 0;
    const double variance = points > 0 ? total.second / points - mean * mean : 0;
    result[c] = {mean + static_cast<double>(shift[c]), variance > 0 || variance != variance ? variance : 0};
  }
  return UHAL_OK;
}

}  // namespace

template <typename T>
uhal_status batch_norm(const Launch& launch, uhal_dtype dtype) {
  const uhal_norm_attributes attributes = norm_attributes(launch.op);
  const bool training = attributes.inference == 0;
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  const AxisOrder vector = row_major(1);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const T* scale = data_of<const T>(staging.input(1, dtype, &vector));
  const T* bias = data_of<const T>(staging.input(2, dtype, &vector));
  const T* old_mean = data_of<const T>(staging.input(3, dtype, &vector));
  const T* old_variance = data_of<const T>(staging.input(4, dtype, &vector));
  const uhal_tensor* y = staging.output(0, dtype, &order);
  T* mean = training ? data_of<T>(staging.output(1, dtype, &vector)) : nullptr;
  T* variance = training ? data_of<T>(staging.output(2, dtype, &vector)) : nullptr;
  T* new_mean = training ? data_of<T>(staging.output(3, dtype, &vector)) : nullptr;
  T* new_variance = training ? data_of<T>(staging.output(4, dtype, &vector)) : nullptr;
  if (staging.status() != UHAL_OK) return staging.status();

  const ChannelBlocks blocks = blocks_of(*launch.op.inputs[0], order);
  const int64_t points = blocks.images * blocks.pixels;
  Moments* statistics = staging.take<Moments>(static_cast<size_t>(blocks.channels));
  ChannelMap<T> map;
  if (!take_map(staging, blocks, &map)) return staging.status();
  if (training) {
    const uhal_status status = moments(staging, blocks, data_of<const T>(x), statistics);
    if (status != UHAL_OK) return status;
  } else {
    for (int64_t c = 0; c < blocks.channels; ++c) {
      statistics[c] = {static_cast<double>(old_mean[c]), static_cast<double>(old_variance[c])};
    }
  }

  const double unbiased = attributes.unbiased_running != 0 && points > 1 ? points / (points - 1.0) : 1.0;
  const double kept = points > 0 ? attributes.momentum : 1.0;
  for (int64_t c = 0; c < blocks.channels; ++c) {
    const Moments& own = statistics[c];
    if (mean != nullptr) mean[c] = static_cast<T>(own.mean);
    if (variance != nullptr) variance[c] = static_cast<T>(own.variance);
    if (new_mean != nullptr && old_mean != nullptr) {
      new_mean[c] = static_cast<T>(kept * static_cast<double>(old_mean[c]) + (1 - kept) * own.mean);
    }
    if (new_variance != nullptr && old_variance != nullptr) {
      new_variance[c] =
          static_cast<T>(kept * static_cast<double>(old_variance[c]) + (1 - kept) * own.variance * unbiased);
    }
    if (blocks.images == 0) continue;
    const double factor = scale != nullptr ? static_cast<double>(scale[c]) : 1.0;
    map.x_factor[c] = static_cast<T>(factor / std::sqrt(own.variance + attributes.epsilon));
    map.x_shift[c] = static_cast<T>(own.mean);
    map.offset[c] = bias != nullptr ? bias[c] : T(0);
  }
  map.u_factor = map.offset;  // unused without u
  repeat_for_images(blocks, map);
  channel_map<T>(blocks, map, nullptr, data_of<const T>(x), attributes.activation, data_of<T>(y));
  return staging.finish();
}

template <typename T>
uhal_status batch_norm_backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_norm_attributes attributes = norm_attributes(launch.op);
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  const AxisOrder vector = row_major(1);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const uhal_tensor* dy = staging.input(1, dtype, &order);
  const T* scale = data_of<const T>(staging.input(2, dtype, &vector));
  const T* mean = data_of<const T>(staging.input(3, dtype, &vector));
  const T* variance = data_of<const T>(staging.input(4, dtype, &vector));
  const uhal_tensor* dx = staging.output(0, dtype, &order);
  T* dscale = data_of<T>(staging.output(1, dtype, &vector));
  T* dbias = data_of<T>(staging.output(2, dtype, &vector));
  if (staging.status() != UHAL_OK) return staging.status();

  const ChannelBlocks blocks = blocks_of(*launch.op.inputs[0], order);
  const bool constant = attributes.inference != 0;
  const double points = static_cast<double>(std::max<int64_t>(1, blocks.images * blocks.pixels));
  ChannelSums* sums = staging.take<ChannelSums>(static_cast<size_t>(blocks.count()));
  ChannelMap<T> map;
  if (!take_map(staging, blocks, &map)) return staging.status();
  for (int64_t image = 0; image < blocks.images; ++image) {
    std::copy_n(mean, blocks.channels, map.x_shift + image * blocks.channels);
  }
  if (!channel_sums<T>(staging, blocks, data_of<const T>(dy), nullptr, data_of<const T>(x), map.x_shift, sums)) {
    return staging.status();
  }

  for (int64_t c = 0; c < blocks.channels; ++c) {
    const ChannelSums total = over_images(blocks, sums, c);
    const double inverse = 1 / std::sqrt(static_cast<double>(variance[c]) + attributes.epsilon);
    if (dscale != nullptr) dscale[c] = static_cast<T>(total.second * inverse);
    if (dbias != nullptr) dbias[c] = static_cast<T>(total.first);
    if (blocks.images == 0) continue;
    const double factor = inverse * (scale != nullptr ? static_cast<double>(scale[c]) : 1.0);
    map.u_factor[c] = static_cast<T>(factor);
    map.x_factor[c] = static_cast<T>(-factor * inverse * inverse * total.second / points);
    map.offset[c] = static_cast<T>(-factor * total.first / points);
    if (!constant) continue;
    // dx = factor * dy: x has no part in it, not even a NaN times zero.
    map.x_factor[c] = static_cast<T>(factor);
    map.x_shift[c] = map.offset[c] = T(0);
  }
  repeat_for_images(blocks, map);
  const T* u = constant ? nullptr : data_of<const T>(dy);
  channel_map<T>(blocks, map, u, data_of<const T>(constant ? dy : x), UHAL_ACTIVATION_NONE, data_of<T>(dx));
  return staging.finish();
}

template uhal_status batch_norm<float>(const Launch&, uhal_dtype);
template uhal_status batch_norm<double>(const Launch&, uhal_dtype);
template uhal_status batch_norm_backward<float>(const Launch&, uhal_dtype);
template uhal_status batch_norm_backward<double>(const Launch&, uhal_dtype);

}  // namespace unihal::stub
