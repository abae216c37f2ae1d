#include <algorithm>
#include <cmath>

#include "stub/ops/channel_sums.h"
#include "stub/ops/norm.h"

namespace unihal::stub {
namespace {

// A packed x as blocks, and its groups of channels.
struct Groups {
  Groups(const uhal_tensor& x, const AxisOrder& order, const uhal_norm_attributes& attributes) {
    blocks = {x.shape[0], x.shape[1], 1, channels_last(order)};
    for (int i = 2; i < x.rank; ++i) blocks.pixels *= x.shape[i];
    groups = attributes.groups;
    channels = blocks.channels / groups;
    points = static_cast<double>(std::max<int64_t>(1, channels * blocks.pixels));
  }

  int64_t count() const { return blocks.images * groups; }
  // Number of a group's first channel among those of all images.
  int64_t first_channel(int64_t group) const { return group * channels; }

  ChannelBlocks blocks;
  int64_t groups, channels;  // channels of one group
  double points;             // elements of one group
};

template <typename T>
bool take_map(Staging& staging, const Groups& g, ChannelMap<T>* map) {
  const size_t count = static_cast<size_t>(g.blocks.count());
  *map = {staging.take<T>(count), staging.take<T>(count), staging.take<T>(count), staging.take<T>(count)};
  return staging.status() == UHAL_OK;
}

}  // namespace

template <typename T>
uhal_status group_norm(const Launch& launch, uhal_dtype dtype) {
  const uhal_norm_attributes attributes = norm_attributes(launch.op);
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  const AxisOrder vector = row_major(1);
  const AxisOrder matrix = row_major(2);
  Staging staging(launch);
  const T* x = data_of<const T>(staging.input(0, dtype, &order));
  const T* scale = data_of<const T>(staging.input(1, dtype, &vector));
  const T* bias = data_of<const T>(staging.input(2, dtype, &vector));
  T* y = data_of<T>(staging.output(0, dtype, &order));
  T* mean = data_of<T>(staging.output(1, dtype, &matrix));
  T* variance = data_of<T>(staging.output(2, dtype, &matrix));
  if (staging.status() != UHAL_OK) return staging.status();

  const Groups g(*launch.op.inputs[0], order, attributes);
  ChannelSums* sums = staging.take<ChannelSums>(static_cast<size_t>(g.blocks.count()));
  ChannelMap<T> map;
  if (!take_map(staging, g, &map)) return staging.status();
  // Sums of differences from one of the group's values lose no digits where the mean is large.
  const bool empty = g.blocks.pixels == 0;
  for (int64_t i = 0; i < g.blocks.count() && !empty; ++i) {
    const int64_t first = i / g.channels * g.channels;
    const int64_t image = first / g.blocks.channels;
    map.x_shift[i] = g.blocks.channels_last ? x[image * g.blocks.pixels * g.blocks.channels + first % g.blocks.channels]
                                            : x[first * g.blocks.pixels];
  }
  if (!channel_sums<T>(staging, g.blocks, x, map.x_shift, x, map.x_shift, sums)) return staging.status();

  for (int64_t group = 0; group < g.count(); ++group) {
    const int64_t first = g.first_channel(group);
    ChannelSums total = {0, 0};
    for (int64_t i = first; i < first + g.channels; ++i) {
      total.first += sums[i].first;
      total.second += sums[i].second;
    }
    const double offset = total.first / g.points;
    const double spread = total.second / g.points - offset * offset;
    const double own_variance = spread > 0 || spread != spread ? spread : 0;
    const double own_mean = empty ? 0 : offset + static_cast<double>(map.x_shift[first]);
    if (mean != nullptr) mean[group] = static_cast<T>(own_mean);
    if (variance != nullptr) variance[group] = static_cast<T>(own_variance);
    const double inverse = 1 / std::sqrt(own_variance + attributes.epsilon);
    for (int64_t i = first; i < first + g.channels; ++i) {
      const int64_t channel = i % g.blocks.channels;
      map.x_factor[i] = static_cast<T>(inverse * (scale != nullptr ? static_cast<double>(scale[channel]) : 1.0));
      map.x_shift[i] = static_cast<T>(own_mean);
      map.offset[i] = bias != nullptr ? bias[channel] : T(0);
    }
  }
  channel_map<T>(g.blocks, map, nullptr, x, attributes.activation, y);
  return staging.finish();
}

template <typename T>
uhal_status group_norm_backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_norm_attributes attributes = norm_attributes(launch.op);
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  const AxisOrder vector = row_major(1);
  const AxisOrder matrix = row_major(2);
  Staging staging(launch);
  const T* x = data_of<const T>(staging.input(0, dtype, &order));
  const T* dy = data_of<const T>(staging.input(1, dtype, &order));
  const T* scale = data_of<const T>(staging.input(2, dtype, &vector));
  const T* mean = data_of<const T>(staging.input(3, dtype, &matrix));
  const T* variance = data_of<const T>(staging.input(4, dtype, &matrix));
  T* dx = data_of<T>(staging.output(0, dtype, &order));
  T* dscale = data_of<T>(staging.output(1, dtype, &vector));
  T* dbias = data_of<T>(staging.output(2, dtype, &vector));
  if (staging.status() != UHAL_OK) return staging.status();

  const Groups g(*launch.op.inputs[0], order, attributes);
  ChannelSums* sums = staging.take<ChannelSums>(static_cast<size_t>(g.blocks.count()));
  double* parameter_sums = staging.take<double>(static_cast<size_t>(2 * g.blocks.channels));
  ChannelMap<T> map;
  if (!take_map(staging, g, &map)) return staging.status();
  for (int64_t i = 0; i < g.blocks.count(); ++i) map.x_shift[i] = mean[i / g.channels];
  if (!channel_sums<T>(staging, g.blocks, dy, nullptr, x, map.x_shift, sums)) return staging.status();

  std::fill_n(parameter_sums, 2 * g.blocks.channels, 0.0);
  for (int64_t group = 0; group < g.count(); ++group) {
    const int64_t first = g.first_channel(group);
    const double inverse = 1 / std::sqrt(static_cast<double>(variance[group]) + attributes.epsilon);
    ChannelSums total = {0, 0};
    for (int64_t i = first; i < first + g.channels; ++i) {
      const int64_t channel = i % g.blocks.channels;
      const double factor = scale != nullptr ? static_cast<double>(scale[channel]) : 1.0;
      total.first += factor * sums[i].first;
      total.second += factor * sums[i].second;
      parameter_sums[channel] += sums[i].second * inverse;
      parameter_sums[g.blocks.channels + channel] += sums[i].first;
      map.u_factor[i] = static_cast<T>(inverse * factor);
    }
    for (int64_t i = first; i < first + g.channels; ++i) {
      map.x_factor[i] = static_cast<T>(-inverse * inverse * inverse * total.second / g.points);
      map.offset[i] = static_cast<T>(-inverse * total.first / g.points);
    }
  }
  for (int64_t c = 0; c < g.blocks.channels; ++c) {
    if (dscale != nullptr) dscale[c] = static_cast<T>(parameter_sums[c]);
    if (dbias != nullptr) dbias[c] = static_cast<T>(parameter_sums[g.blocks.channels + c]);
  }
  channel_map<T>(g.blocks, map, dy, x, UHAL_ACTIVATION_NONE, dx);
  return staging.finish();
}

template uhal_status group_norm<float>(const Launch&, uhal_dtype);
template uhal_status group_norm<double>(const Launch&, uhal_dtype);
template uhal_status group_norm_backward<float>(const Launch&, uhal_dtype);
template uhal_status group_norm_backward<double>(const Launch&, uhal_dtype);

}  // namespace unihal::stub
