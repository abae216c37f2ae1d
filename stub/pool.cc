#include <algorithm>
#include <limits>
#include <type_traits>

#include "stub/attributes.h"
#include "stub/dtype.h"
#include "stub/parallel.h"
#include "stub/staging.h"
#include "stub/vectorize.h"

namespace unihal::stub {
namespace {

// Channels that are pooled together where they lie side by side, and how many of them at a time: a number that the
// compiler knows, so that they stay in registers.
constexpr int64_t kLanes = 64;
constexpr int64_t kChunk = 16;

// Windows of more pixels than this scatter a gradient lane by lane; smaller ones visit each pixel with all lanes.
constexpr int64_t kSmallWindow = 16;

struct Span {
  int64_t begin, end;  // pixels under a window along one axis, cut to the image
};

// Always three spatial axes (leading ones of length 1). A strip is a plane of pixels with `lanes` channels side by
// side: one channel for NCHW, up to kLanes for NHWC.
struct Geometry {
  int64_t images, channels;
  int64_t input[3], output[3];
  const Span* spans[3];   // by output coordinate
  int64_t padded_window;  // the divisor where padding counts; 0: the pixels under the window
  bool channels_last;

  int64_t pixels() const { return input[0] * input[1] * input[2]; }
  int64_t places() const { return output[0] * output[1] * output[2]; }
  int64_t pixel_stride() const { return channels_last ? channels : 1; }
  int64_t strips_per_image() const { return channels_last ? (channels + kLanes - 1) / kLanes : channels; }
  int64_t lanes(int64_t strip) const {
    return channels_last ? std::min(kLanes, channels - strip % strips_per_image() * kLanes) : 1;
  }
  // Where a strip begins in a tensor with `points` pixels or places per channel.
  int64_t offset(int64_t strip, int64_t points) const {
    const int64_t image = strip / strips_per_image();
    const int64_t inside = strip % strips_per_image();
    return image * channels * points + inside * (channels_last ? kLanes : points);
  }
};

uhal_pool_attributes attributes_of(const uhal_op& op) {
  uhal_pool_attributes defaults = {};
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) defaults.window[i] = defaults.stride[i] = 1;
  return attributes_or(op, defaults);
}

// The windows of one axis.
const Span* spans_of(Staging& staging, const uhal_pool_attributes& attributes, int axis, int64_t input,
                     int64_t output) {
  Span* spans = staging.take<Span>(static_cast<size_t>(output));
  for (int64_t i = 0; i < output && spans != nullptr; ++i) {
    if (axis < 0) {
      spans[i] = {0, 1};
    } else if (attributes.adaptive != 0) {
      spans[i] = {i * input / output, ((i + 1) * input + output - 1) / output};
    } else {
      const int64_t begin = i * attributes.stride[axis] - attributes.pad_before[axis];
      spans[i].begin = std::clamp(begin, int64_t{0}, input);
      spans[i].end = std::clamp(begin + attributes.window[axis], spans[i].begin, input);
    }
  }
  return spans;
}

Geometry geometry_of(Staging& staging, const uhal_pool_attributes& attributes, const uhal_tensor& x,
                     const uhal_tensor& y, const AxisOrder& order) {
  Geometry g;
  g.images = x.shape[0];
  g.channels = x.shape[1];
  g.channels_last = channels_last(order);
  g.padded_window = attributes.mode == UHAL_POOL_AVERAGE_INCLUDE_PADDING && attributes.adaptive == 0 ? 1 : 0;
  const int missing = 3 - (x.rank - 2);
  for (int i = 0; i < 3; ++i) {
    const int axis = i - missing;
    g.input[i] = axis < 0 ? 1 : x.shape[2 + axis];
    g.output[i] = axis < 0 ? 1 : y.shape[2 + axis];
    g.spans[i] = spans_of(staging, attributes, axis, g.input[i], g.output[i]);
    if (axis >= 0) g.padded_window *= attributes.window[axis];
  }
  return g;
}

// The pixels under one window: `rows` of them in depth and height, each `width` pixels.
struct Window {
  Span z, y, x;

  int64_t count() const { return (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin); }
  int64_t first(const Geometry& g) const { return (z.begin * g.input[1] + y.begin) * g.input[2] + x.begin; }
};

// Calls visit(place, window) for each place of an output plane, in row-major order.
template <typename Visit>
UNIHAL_INLINE void for_each_window(const Geometry& g, const Visit& visit) {
  int64_t place = 0;
  for (int64_t z = 0; z < g.output[0]; ++z) {
    for (int64_t y = 0; y < g.output[1]; ++y) {
      for (int64_t x = 0; x < g.output[2]; ++x) visit(place++, Window{g.spans[0][z], g.spans[1][y], g.spans[2][x]});
    }
  }
}

// Calls visit(first lane, number of lanes) for chunks of lanes; the number is a constant for all but the last.
template <typename Visit>
UNIHAL_INLINE void for_each_chunk(int64_t lanes, const Visit& visit) {
  int64_t lane = 0;
  for (; lane + kChunk <= lanes; lane += kChunk) visit(lane, std::integral_constant<int64_t, kChunk>());
  if (lane < lanes) visit(lane, lanes - lane);
}

// Calls visit(distance of a pixel from the window's first) for each pixel under a window, in row-major order.
template <typename Visit>
UNIHAL_INLINE void for_each_pixel(const Geometry& g, const Window& window, const Visit& visit) {
  for (int64_t z = window.z.begin; z < window.z.end; ++z) {
    for (int64_t y = window.y.begin; y < window.y.end; ++y) {
      const int64_t row = ((z - window.z.begin) * g.input[1] + y - window.y.begin) * g.input[2];
      for (int64_t x = 0; x < window.x.end - window.x.begin; ++x) visit(row + x);
    }
  }
}

// As wide as T, so that values and positions are compared and selected in vectors of one length.
template <typename T>
using Distance = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// The largest value of each of `lanes` lanes under a window (a NaN wins), and its distance from the window's first
// pixel, where x points.
template <typename T, typename Lanes>
UNIHAL_INLINE void find_maximum(const Geometry& g, const Window& window, const T* x, int64_t stride, Lanes lanes,
                                T* best, Distance<T>* where) {
  const T lowest =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  for (int64_t lane = 0; lane < lanes; ++lane) {
    best[lane] = lowest;
    where[lane] = 0;
  }
  for_each_pixel(g, window, [&](int64_t pixel) UNIHAL_INLINE_LAMBDA {
    const T* values = x + pixel * stride;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const T value = values[lane];
      const bool better = value > best[lane] || (value != value && best[lane] == best[lane]);
      best[lane] = better ? value : best[lane];
      where[lane] = better ? static_cast<Distance<T>>(pixel) : where[lane];
    }
  });
}

template <typename T, bool kSingle>
UNIHAL_VECTORIZED void maximum_strip(const Geometry& g, int64_t all_lanes, const T* x, T* y, int64_t* indices) {
  const int64_t lanes = kSingle ? 1 : all_lanes;
  const int64_t stride = kSingle ? 1 : g.pixel_stride();
  for_each_window(g, [&](int64_t place, const Window& window) UNIHAL_INLINE_LAMBDA {
    for_each_chunk(lanes, [&](int64_t first_lane, auto count) UNIHAL_INLINE_LAMBDA {
      T best[kChunk];
      Distance<T> where[kChunk];
      find_maximum(g, window, x + window.first(g) * stride + first_lane, stride, count, best, where);
      const int64_t at = place * stride + first_lane;
      for (int64_t lane = 0; lane < count; ++lane) y[at + lane] = best[lane];
      if (indices == nullptr) return;
      for (int64_t lane = 0; lane < count; ++lane) indices[at + lane] = window.first(g) + where[lane];
    });
  });
}

template <typename T, bool kSingle>
UNIHAL_VECTORIZED void maximum_backward_strip(const Geometry& g, int64_t all_lanes, const T* x, const T* dy, T* dx) {
  const int64_t lanes = kSingle ? 1 : all_lanes;
  const int64_t stride = kSingle ? 1 : g.pixel_stride();
  for_each_window(g, [&](int64_t place, const Window& window) UNIHAL_INLINE_LAMBDA {
    if (window.count() == 0) return;
    for_each_chunk(lanes, [&](int64_t first_lane, auto count) UNIHAL_INLINE_LAMBDA {
      T best[kChunk];
      Distance<T> where[kChunk];
      const int64_t first = window.first(g) * stride + first_lane;
      find_maximum(g, window, x + first, stride, count, best, where);
      const T* gradient = dy + place * stride + first_lane;
      T* to = dx + first;
      if (window.count() > kSmallWindow) {
        for (int64_t lane = 0; lane < count; ++lane) to[where[lane] * stride + lane] += gradient[lane];
        return;
      }
      for_each_pixel(g, window, [&](int64_t pixel) UNIHAL_INLINE_LAMBDA {
        for (int64_t lane = 0; lane < count; ++lane) {
          to[pixel * stride + lane] += where[lane] == pixel ? gradient[lane] : T(0);
        }
      });
    });
  });
}

// What the sum under a window is divided by.
UNIHAL_INLINE int64_t divisor(const Geometry& g, const Window& window) {
  return std::max<int64_t>(1, g.padded_window != 0 ? g.padded_window : window.count());
}

template <typename T, bool kSingle>
UNIHAL_VECTORIZED void average_strip(const Geometry& g, int64_t all_lanes, const T* x, T* y) {
  const int64_t lanes = kSingle ? 1 : all_lanes;
  const int64_t stride = kSingle ? 1 : g.pixel_stride();
  for_each_window(g, [&](int64_t place, const Window& window) UNIHAL_INLINE_LAMBDA {
    const T divide_by = static_cast<T>(divisor(g, window));
    for_each_chunk(lanes, [&](int64_t first_lane, auto count) UNIHAL_INLINE_LAMBDA {
      T sums[kChunk];
      for (int64_t lane = 0; lane < count; ++lane) sums[lane] = 0;
      const T* first = x + window.first(g) * stride + first_lane;
      for_each_pixel(g, window, [&](int64_t pixel) UNIHAL_INLINE_LAMBDA {
        for (int64_t lane = 0; lane < count; ++lane) sums[lane] += first[pixel * stride + lane];
      });
      T* to = y + place * stride + first_lane;
      for (int64_t lane = 0; lane < count; ++lane) to[lane] = sums[lane] / divide_by;
    });
  });
}

template <typename T, bool kSingle>
UNIHAL_VECTORIZED void average_backward_strip(const Geometry& g, int64_t all_lanes, const T* dy, T* dx) {
  const int64_t lanes = kSingle ? 1 : all_lanes;
  const int64_t stride = kSingle ? 1 : g.pixel_stride();
  for_each_window(g, [&](int64_t place, const Window& window) UNIHAL_INLINE_LAMBDA {
    const T divide_by = static_cast<T>(divisor(g, window));
    for_each_chunk(lanes, [&](int64_t first_lane, auto count) UNIHAL_INLINE_LAMBDA {
      const T* gradient = dy + place * stride + first_lane;
      T shares[kChunk];
      for (int64_t lane = 0; lane < count; ++lane) shares[lane] = gradient[lane] / divide_by;
      T* first = dx + window.first(g) * stride + first_lane;
      for_each_pixel(g, window, [&](int64_t pixel) UNIHAL_INLINE_LAMBDA {
        for (int64_t lane = 0; lane < count; ++lane) first[pixel * stride + lane] += shares[lane];
      });
    });
  });
}

template <typename T, bool kSingle>
void pool_strip(const Geometry& g, bool maximum, int64_t strip, const T* x, T* y, int64_t* indices) {
  x += g.offset(strip, g.pixels());
  y += g.offset(strip, g.places());
  if (maximum) {
    if (indices != nullptr) indices += g.offset(strip, g.places());
    maximum_strip<T, kSingle>(g, g.lanes(strip), x, y, indices);
  } else if constexpr (std::is_floating_point_v<T>) {
    average_strip<T, kSingle>(g, g.lanes(strip), x, y);
  }
}

template <typename T, bool kSingle>
void pool_backward_strip(const Geometry& g, int64_t strip, const T* x, const T* dy, T* dx) {
  dx += g.offset(strip, g.pixels());
  dy += g.offset(strip, g.places());
  for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
    std::fill_n(dx + pixel * (kSingle ? 1 : g.pixel_stride()), kSingle ? 1 : g.lanes(strip), T(0));
  }
  if (x != nullptr) {
    maximum_backward_strip<T, kSingle>(g, g.lanes(strip), x + g.offset(strip, g.pixels()), dy, dx);
  } else {
    average_backward_strip<T, kSingle>(g, g.lanes(strip), dy, dx);
  }
}

// Calls body(strip) for all strips.
template <typename Body>
void for_each_strip(const Geometry& g, const Body& body) {
  const int64_t strips = g.images * g.strips_per_image();
  const int64_t work = (g.pixels() + g.places()) * (g.channels_last ? std::min(kLanes, g.channels) : 1);
  parallel_for(strips, work, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) body(strip);
  });
}

template <typename T>
uhal_status pool(const Launch& launch, uhal_dtype dtype) {
  const uhal_pool_attributes attributes = attributes_of(launch.op);
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const uhal_tensor* y = staging.output(0, dtype, &order);
  const uhal_tensor* indices = staging.output(1, UHAL_INT64, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const Geometry g = geometry_of(staging, attributes, *x, *y, order);
  if (staging.status() != UHAL_OK) return staging.status();
  const auto strip = g.channels_last ? pool_strip<T, false> : pool_strip<T, true>;
  for_each_strip(g, [&](int64_t i) {
    strip(g, attributes.mode == UHAL_POOL_MAXIMUM, i, static_cast<const T*>(x->data), static_cast<T*>(y->data),
          indices != nullptr ? static_cast<int64_t*>(indices->data) : nullptr);
  });
  return staging.finish();
}

template <typename T>
uhal_status pool_backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_pool_attributes attributes = attributes_of(launch.op);
  const AxisOrder order = image_order(*launch.op.outputs[0]);
  Staging staging(launch);
  const uhal_tensor* dy = staging.input(0, dtype, &order);
  const bool maximum = attributes.mode == UHAL_POOL_MAXIMUM;
  const uhal_tensor* x = maximum ? staging.input(1, dtype, &order) : nullptr;
  const uhal_tensor* dx = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const Geometry g = geometry_of(staging, attributes, *dx, *dy, order);
  if (staging.status() != UHAL_OK) return staging.status();
  const auto strip = g.channels_last ? pool_backward_strip<T, false> : pool_backward_strip<T, true>;
  for_each_strip(g, [&](int64_t i) {
    strip(g, i, x != nullptr ? static_cast<const T*>(x->data) : nullptr, static_cast<const T*>(dy->data),
          static_cast<T*>(dx->data));
  });
  return staging.finish();
}

}  // namespace

const char* refuse_pool(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  const bool maximum = attributes_of(op).mode == UHAL_POOL_MAXIMUM;
  if (is_floating(dtype)) return nullptr;
  if (op.kind == UHAL_OP_POOL && maximum && is_integer(dtype) && dtype != UHAL_UINT64) return nullptr;
  return "pooling takes floating point, and for a maximum without gradient integers up to int64: cast the operand "
         "first";
}

uhal_status run_pool(const Launch& launch) {
  const uhal_op& op = launch.op;
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  const uhal_tensor* all[] = {op.inputs[0], op.outputs[0]};
  const uhal_dtype dtype = arithmetic_dtype(all, 2);
  if (op.kind == UHAL_OP_POOL) {
    if (dtype == UHAL_INT64) return pool<int64_t>(launch, dtype);
    return dtype == UHAL_FLOAT64 ? pool<double>(launch, dtype) : pool<float>(launch, dtype);
  }
  return dtype == UHAL_FLOAT64 ? pool_backward<double>(launch, dtype) : pool_backward<float>(launch, dtype);
}

}  // namespace unihal::stub
