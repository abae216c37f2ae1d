#include <algorithm>
#include <limits>
#include <type_traits>

#include "csrc/backends/common/convolution_problem.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/common/staging.h"
#include "stub/ops/pool_rows.h"

namespace unihal::stub {
namespace {

// Channels that are taken at a time, in registers: 32 bytes, which all instruction sets but the oldest have. Written as
// loops of its own in each function below, since GCC splits a vector that passes through a function compiled for less.
constexpr int64_t kChunkBytes = 32;
template <typename T>
struct Chunk {
  static constexpr int64_t kLanes = kChunkBytes / sizeof(T);
  typedef T Values __attribute__((vector_size(kChunkBytes), aligned(sizeof(T)), may_alias));
  typedef PoolPosition<T> Positions __attribute__((vector_size(kChunkBytes)));
};

// Windows of more pixels than this scatter a gradient lane by lane; smaller ones visit each pixel with all lanes.
constexpr int64_t kSmallWindow = 16;

using Geometry = PoolGeometry;

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
  const int last = x.rank - 3;
  g.row_window = attributes.adaptive == 0 ? attributes.window[last] : 0;
  g.row_stride = attributes.stride[last];
  g.row_pad_before = attributes.pad_before[last];
  for (int i = 0; i < 3; ++i) {
    const int axis = i - missing;
    g.input[i] = axis < 0 ? 1 : x.shape[2 + axis];
    g.output[i] = axis < 0 ? 1 : y.shape[2 + axis];
    g.spans[i] = spans_of(staging, attributes, axis, g.input[i], g.output[i]);
    if (axis >= 0) g.padded_window *= attributes.window[axis];
  }
  return g;
}

// Walks over the windows of a plane, in the row-major order of their places.
class Windows {
 public:
  explicit Windows(const Geometry& g) : Windows(g, 0, g.output[0] * g.output[1]) {}

  // Those of some rows of places.
  Windows(const Geometry& g, int64_t row, int64_t rows)
      : g_(g), place_(row * g.output[2]), end_((row + rows) * g.output[2]) {
    z_ = g.output[1] > 0 ? row / g.output[1] : 0;
    y_ = g.output[1] > 0 ? row % g.output[1] : 0;
  }

  bool more() const { return place_ < end_; }
  void next() {
    ++place_;
    if (++x_ < g_.output[2]) return;
    x_ = 0;
    if (++y_ < g_.output[1]) return;
    y_ = 0;
    ++z_;
  }

  int64_t place() const { return place_; }
  Span depth() const { return g_.spans[0][z_]; }
  Span height() const { return g_.spans[1][y_]; }
  Span width() const { return g_.spans[2][x_]; }

  // The number of its pixels, and the first of them.
  int64_t count() const {
    return (depth().end - depth().begin) * (height().end - height().begin) * (width().end - width().begin);
  }
  int64_t first() const { return (depth().begin * g_.input[1] + height().begin) * g_.input[2] + width().begin; }

 private:
  const Geometry& g_;
  int64_t place_, end_, z_, y_, x_ = 0;
};

// Walks over the pixels of a window, in row-major order.
class Pixels {
 public:
  Pixels(const Geometry& g, const Windows& window)
      : row_(g.input[2]), plane_(g.input[1] * g.input[2]), left_(window.count()) {
    width_ = window.width().end - window.width().begin;
    height_ = window.height().end - window.height().begin;
  }

  bool more() const { return left_ > 0; }
  void next() {
    --left_;
    if (++x_ < width_) return;
    x_ = 0;
    if (++y_ < height_) return;
    y_ = 0;
    ++z_;
  }

  // From the window's first pixel.
  int64_t distance() const { return z_ * plane_ + y_ * row_ + x_; }

 private:
  int64_t row_, plane_, left_, width_, height_;
  int64_t z_ = 0, y_ = 0, x_ = 0;
};

// The largest value of one lane under a window (a NaN wins), and its distance from the window's first pixel, where x
// points.
template <typename T>
UNIHAL_INLINE T find_maximum(const Geometry& g, const Windows& window, const T* x, int64_t stride, int64_t* where) {
  T best = kLowest<T>;
  *where = 0;
  for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
    const T value = x[pixel.distance() * stride];
    if (!is_larger(value, best)) continue;
    best = value;
    *where = pixel.distance();
  }
  return best;
}

template <typename T>
UNIHAL_VECTORIZED void maximum_strip(const Geometry& g, int64_t row, int64_t rows, int64_t lanes, const T* x, T* y,
                                     int64_t* indices) {
  using Values = typename Chunk<T>::Values;
  using Positions = typename Chunk<T>::Positions;
  const int64_t stride = g.pixel_stride();
  for (Windows window(g, row, rows); window.more(); window.next()) {
    const T* first = x + window.first() * stride;
    const int64_t at = window.place() * stride;
    int64_t lane = 0;
    for (; lane + Chunk<T>::kLanes <= lanes; lane += Chunk<T>::kLanes) {
      Values best = Values{} + kLowest<T>;
      Positions where = {};
      for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
        const Values values = *reinterpret_cast<const Values*>(first + pixel.distance() * stride + lane);
        const Positions larger = (values > best) | ((values != values) & (best == best));  // is_larger()
        best = larger ? values : best;
        where = larger ? Positions{} + static_cast<PoolPosition<T>>(pixel.distance()) : where;
      }
      *reinterpret_cast<Values*>(y + at + lane) = best;
      if (indices == nullptr) continue;
      for (int64_t i = 0; i < Chunk<T>::kLanes; ++i) indices[at + lane + i] = window.first() + where[i];
    }
    for (; lane < lanes; ++lane) {
      int64_t where = 0;
      y[at + lane] = find_maximum(g, window, first + lane, stride, &where);
      if (indices != nullptr) indices[at + lane] = window.first() + where;
    }
  }
}

// The values alone of a row of windows. `poison` becomes NaN where a value is one, which comparisons pass over, or
// infinite; whole numbers have neither.
template <int64_t kChunks, typename T>
UNIHAL_INLINE void maximum_lanes(const Geometry& g, Span depth, Span height, Span width, const T* plane, T* to,
                                 typename Chunk<T>::Values* poison) {
  using Values = typename Chunk<T>::Values;
  const int64_t stride = g.pixel_stride();
  Values best[kChunks];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kChunks; ++i) best[i] = Values{} + kLowest<T>;
  for (int64_t z = depth.begin; z < depth.end; ++z) {
    for (int64_t y = height.begin; y < height.end; ++y) {
      const T* from = plane + ((z * g.input[1] + y) * g.input[2] + width.begin) * stride;
      for (int64_t x = width.begin; x < width.end; ++x, from += stride) {
#pragma GCC unroll 8
        for (int64_t i = 0; i < kChunks; ++i) {
          const Values values = *reinterpret_cast<const Values*>(from + i * Chunk<T>::kLanes);
          best[i] = values > best[i] ? values : best[i];
          if constexpr (std::is_floating_point_v<T>) poison[i] += values * T(0);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kChunks; ++i) *reinterpret_cast<Values*>(to + i * Chunk<T>::kLanes) = best[i];
}

// False where a value is no number or infinite: the row is then to be done again, by comparisons that see it.
template <typename T>
UNIHAL_VECTORIZED bool maximum_row(const Geometry& g, Span depth, Span height, int64_t lanes, const T* x, T* y) {
  using Values = typename Chunk<T>::Values;
  constexpr int64_t kTogether = 4, kLanes = Chunk<T>::kLanes;
  Values poison[kTogether] = {};
  T rest = 0;
  for (int64_t place = 0; place < g.output[2]; ++place) {
    const Span width = g.spans[2][place];
    T* const to = y + place * g.pixel_stride();
    int64_t lane = 0;
    for (; lane + kTogether * kLanes <= lanes; lane += kTogether * kLanes) {
      maximum_lanes<kTogether>(g, depth, height, width, x + lane, to + lane, poison);
    }
    for (; lane + kLanes <= lanes; lane += kLanes) {
      maximum_lanes<1>(g, depth, height, width, x + lane, to + lane, poison);
    }
    for (; lane < lanes; ++lane) {
      T best = kLowest<T>;
      for (int64_t z = depth.begin; z < depth.end; ++z) {
        for (int64_t row = height.begin; row < height.end; ++row) {
          for (int64_t column = width.begin; column < width.end; ++column) {
            const T value = x[((z * g.input[1] + row) * g.input[2] + column) * g.pixel_stride() + lane];
            best = value > best ? value : best;
            if constexpr (std::is_floating_point_v<T>) rest += value * T(0);
          }
        }
      }
      to[lane] = best;
    }
  }
  for (int64_t i = 1; i < kTogether; ++i) poison[0] += poison[i];
  for (int64_t i = 0; i < kLanes; ++i) rest += poison[0][i];
  return rest == 0;
}

template <typename T>
UNIHAL_VECTORIZED void maximum_backward_strip(const Geometry& g, int64_t lanes, const T* x, const T* dy, T* dx) {
  using Values = typename Chunk<T>::Values;
  using Positions = typename Chunk<T>::Positions;
  const int64_t stride = g.pixel_stride();
  for (Windows window(g); window.more(); window.next()) {
    if (window.count() == 0) continue;
    const T* first = x + window.first() * stride;
    const T* gradient = dy + window.place() * stride;
    T* to = dx + window.first() * stride;
    int64_t lane = 0;
    for (; lane + Chunk<T>::kLanes <= lanes; lane += Chunk<T>::kLanes) {
      Values best = Values{} + kLowest<T>;
      Positions where = {};
      for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
        const Values values = *reinterpret_cast<const Values*>(first + pixel.distance() * stride + lane);
        const Positions larger = (values > best) | ((values != values) & (best == best));  // is_larger()
        best = larger ? values : best;
        where = larger ? Positions{} + static_cast<PoolPosition<T>>(pixel.distance()) : where;
      }
      if (window.count() > kSmallWindow) {
        for (int64_t i = 0; i < Chunk<T>::kLanes; ++i) to[where[i] * stride + lane + i] += gradient[lane + i];
        continue;
      }
      const Values values = *reinterpret_cast<const Values*>(gradient + lane);
      for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
        Values& sum = *reinterpret_cast<Values*>(to + pixel.distance() * stride + lane);
        sum = where == static_cast<PoolPosition<T>>(pixel.distance()) ? sum + values : sum;
      }
    }
    for (; lane < lanes; ++lane) {
      int64_t where = 0;
      find_maximum(g, window, first + lane, stride, &where);
      to[where * stride + lane] += gradient[lane];
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void average_strip(const Geometry& g, int64_t lanes, const T* x, T* y) {
  using Values = typename Chunk<T>::Values;
  const int64_t stride = g.pixel_stride();
  for (Windows window(g); window.more(); window.next()) {
    const T divisor = static_cast<T>(g.divisor(window.count()));
    const T* first = x + window.first() * stride;
    T* to = y + window.place() * stride;
    int64_t lane = 0;
    for (; lane + Chunk<T>::kLanes <= lanes; lane += Chunk<T>::kLanes) {
      Values sum = {};
      for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
        sum += *reinterpret_cast<const Values*>(first + pixel.distance() * stride + lane);
      }
      *reinterpret_cast<Values*>(to + lane) = sum / divisor;
    }
    for (; lane < lanes; ++lane) {
      T sum = 0;
      for (Pixels pixel(g, window); pixel.more(); pixel.next()) sum += first[pixel.distance() * stride + lane];
      to[lane] = sum / divisor;
    }
  }
}

// Of few lanes, which are all that lie at a pixel: the columns under a row of windows are summed first, and then those
// of each window. `sums` has room for a row of the input.
template <int64_t kLanes, typename T>
UNIHAL_INLINE void average_columns(const Geometry& g, int64_t rows, const T* sums, T* y) {
  for (int64_t place = 0; place < g.output[2]; ++place, y += kLanes) {
    const Span span = g.spans[2][place];
    T sum[kLanes] = {};
    for (int64_t column = span.begin; column < span.end; ++column) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += sums[column * kLanes + lane];
    }
    const T divisor = static_cast<T>(g.divisor(rows * (span.end - span.begin)));
    for (int64_t lane = 0; lane < kLanes; ++lane) y[lane] = sum[lane] / divisor;
  }
}

template <int64_t kLanes, typename T>
UNIHAL_INLINE void average_rows_of(const Geometry& g, const T* x, T* __restrict sums, T* y) {
  const int64_t width = g.input[2] * kLanes;
  for (int64_t row = 0; row < g.output[0] * g.output[1]; ++row, y += g.output[2] * kLanes) {
    const Span depth = g.spans[0][row / g.output[1]], height = g.spans[1][row % g.output[1]];
    for (int64_t i = 0; i < width; ++i) sums[i] = 0;
    for (int64_t plane = depth.begin; plane < depth.end; ++plane) {
      for (int64_t line = height.begin; line < height.end; ++line) {
        const T* const from = x + (plane * g.input[1] + line) * width;
        for (int64_t i = 0; i < width; ++i) sums[i] += from[i];
      }
    }
    average_columns<kLanes>(g, (depth.end - depth.begin) * (height.end - height.begin), sums, y);
  }
}

template <typename T>
UNIHAL_VECTORIZED void average_rows(const Geometry& g, int64_t lanes, const T* x, T* sums, T* y) {
  switch (lanes) {
    case 1:
      return average_rows_of<1>(g, x, sums, y);
    case 2:
      return average_rows_of<2>(g, x, sums, y);
    case 3:
      return average_rows_of<3>(g, x, sums, y);
    default:
      return average_rows_of<4>(g, x, sums, y);
  }
}

// Whether that reads little more than what lies under windows.
bool takes_columns(const Geometry& g, int64_t lanes) {
  return lanes <= 4 && lanes == g.pixel_stride() && (g.row_window == 0 || g.row_stride <= 2 * g.row_window);
}

// Whether no sum of some of these numbers overflows, in whatever order. NaN does so in none.
template <typename T>
UNIHAL_VECTORIZED bool any_order_serves(int64_t count, const T* x) {
  T largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T size = x[i] < 0 ? -x[i] : x[i];
    largest = size > largest ? size : largest;
  }
  return largest * static_cast<T>(count) <= std::numeric_limits<T>::max();
}

template <typename T>
void average_values(const Geometry& g, int64_t lanes, const T* x, T* y) {
  ScratchFrame frame;
  const bool by_columns = takes_columns(g, lanes) && any_order_serves(g.input[0] * g.input[1] * g.input[2] * lanes, x);
  T* const sums = by_columns ? frame.take<T>(static_cast<size_t>(g.input[2] * lanes + 1)) : nullptr;
  sums != nullptr ? average_rows(g, lanes, x, sums, y) : average_strip(g, lanes, x, y);
}

template <typename T>
UNIHAL_VECTORIZED void average_backward_strip(const Geometry& g, int64_t lanes, const T* dy, T* dx) {
  const int64_t stride = g.pixel_stride();
  for (Windows window(g); window.more(); window.next()) {
    const T divisor = static_cast<T>(g.divisor(window.count()));
    const T* gradient = dy + window.place() * stride;
    T* first = dx + window.first() * stride;
    T shares[kPoolLanes];
    for (int64_t lane = 0; lane < lanes; ++lane) shares[lane] = gradient[lane] / divisor;
    for (Pixels pixel(g, window); pixel.more(); pixel.next()) {
      T* to = first + pixel.distance() * stride;
      for (int64_t lane = 0; lane < lanes; ++lane) to[lane] += shares[lane];
    }
  }
}

// Whether the windows of a plane can be taken by rows (pool_rows.h), whose positions have the width of T.
template <typename T>
bool takes_rows(const Geometry& g) {
  return !g.channels_last && g.row_window > 0 && g.pixels() <= std::numeric_limits<PoolPosition<T>>::max();
}

template <typename T>
void maximum_values(const Geometry& g, int64_t lanes, const T* x, T* y) {
  for (int64_t row = 0; row < g.output[0] * g.output[1]; ++row) {
    T* const to = y + row * g.output[2] * g.pixel_stride();
    const Span depth = g.spans[0][row / g.output[1]], height = g.spans[1][row % g.output[1]];
    if (!maximum_row(g, depth, height, lanes, x, to)) maximum_strip<T>(g, row, 1, lanes, x, y, nullptr);
  }
}

template <typename T>
void pool_strip(const Geometry& g, bool maximum, int64_t strip, const T* x, T* y, int64_t* indices) {
  x += g.offset(strip, g.pixels());
  y += g.offset(strip, g.places());
  if (indices != nullptr) indices += g.offset(strip, g.places());
  if (maximum) {
    if (takes_rows<T>(g)) {
      pool_rows_maximum(g, x, y, indices);
    } else if (indices != nullptr) {
      maximum_strip(g, 0, g.output[0] * g.output[1], g.lanes(strip), x, y, indices);
    } else {
      maximum_values(g, g.lanes(strip), x, y);
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    takes_rows<T>(g) ? pool_rows_average(g, x, y) : average_values(g, g.lanes(strip), x, y);
  }
}

template <typename T>
void pool_backward_strip(const Geometry& g, int64_t strip, const T* x, const T* dy, T* dx) {
  const int64_t lanes = g.lanes(strip);
  dx += g.offset(strip, g.pixels());
  dy += g.offset(strip, g.places());
  for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) std::fill_n(dx + pixel * g.pixel_stride(), lanes, T(0));
  if (x != nullptr) {
    x += g.offset(strip, g.pixels());
    takes_rows<T>(g) ? pool_rows_maximum_backward(g, x, dy, dx) : maximum_backward_strip(g, lanes, x, dy, dx);
  } else {
    takes_rows<T>(g) ? pool_rows_average_backward(g, dy, dx) : average_backward_strip(g, lanes, dy, dx);
  }
}

// Calls body(strip) for all strips.
template <typename Body>
void for_each_strip(const Geometry& g, const Body& body) {
  const int64_t strips = g.images * g.strips_per_image();
  const int64_t work = (g.pixels() + g.places()) * (g.channels_last ? std::min(kPoolLanes, g.channels) : 1);
  parallel_for(strips, work, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) body(strip);
  });
}

template <typename T>
uhal_status pool(const Launch& launch, uhal_dtype dtype) {
  const uhal_pool_attributes attributes = pool_attributes(launch.op);
  const AxisOrder order = image_order(*launch.op.inputs[0]);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const uhal_tensor* y = staging.output(0, dtype, &order);
  const uhal_tensor* indices = staging.output(1, UHAL_INT64, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const Geometry g = geometry_of(staging, attributes, *x, *y, order);
  if (staging.status() != UHAL_OK) return staging.status();
  for_each_strip(g, [&](int64_t i) {
    pool_strip(g, attributes.mode == UHAL_POOL_MAXIMUM, i, static_cast<const T*>(x->data), static_cast<T*>(y->data),
               indices != nullptr ? static_cast<int64_t*>(indices->data) : nullptr);
  });
  return staging.finish();
}

template <typename T>
uhal_status pool_backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_pool_attributes attributes = pool_attributes(launch.op);
  const AxisOrder order = image_order(*launch.op.outputs[0]);
  Staging staging(launch);
  const uhal_tensor* dy = staging.input(0, dtype, &order);
  const bool maximum = attributes.mode == UHAL_POOL_MAXIMUM;
  const uhal_tensor* x = maximum ? staging.input(1, dtype, &order) : nullptr;
  const uhal_tensor* dx = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const Geometry g = geometry_of(staging, attributes, *dx, *dy, order);
  if (staging.status() != UHAL_OK) return staging.status();
  for_each_strip(g, [&](int64_t i) {
    pool_backward_strip(g, i, x != nullptr ? static_cast<const T*>(x->data) : nullptr, static_cast<const T*>(dy->data),
                        static_cast<T*>(dx->data));
  });
  return staging.finish();
}

}  // namespace

const char* refuse_pool(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  const bool maximum = pool_attributes(op).mode == UHAL_POOL_MAXIMUM;
  if (is_floating(dtype)) return nullptr;
  if (op.kind == UHAL_OP_POOL && maximum && is_integer(dtype) && dtype != UHAL_UINT64) return nullptr;
  return "pooling takes floating point, and for a maximum without gradient integers up to int64: cast the operand "
         "first";
}

uhal_status run_pool(const Launch& launch) {
  const uhal_op& op = launch.op;
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(op);
  if (op.kind == UHAL_OP_POOL) {
    if (dtype == UHAL_INT64) return pool<int64_t>(launch, dtype);
    return dtype == UHAL_FLOAT64 ? pool<double>(launch, dtype) : pool<float>(launch, dtype);
  }
  return dtype == UHAL_FLOAT64 ? pool_backward<double>(launch, dtype) : pool_backward<float>(launch, dtype);
}

}  // namespace unihal::stub
