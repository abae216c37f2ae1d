// Resampling along each axis by a table of taps: the input coordinates that an output coordinate reads, and their
// weights. Images are computed on with their channels innermost.
#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kMaxTaps = 4;
// Channels that one thread adds gradients to.
constexpr int64_t kLanes = 32;

template <typename T>
struct Tap {
  int64_t index;
  T weight;
};

// Always three spatial axes (leading ones of length 1).
template <typename T>
struct Geometry {
  int64_t images, channels;
  int64_t input[3], output[3];
  int taps[3];  // per output coordinate
  const Tap<T>* table[3];

  int64_t pixels() const { return input[0] * input[1] * input[2]; }
  int64_t places() const { return output[0] * output[1] * output[2]; }
};

// Position on the input axis that an output coordinate stands for.
double source_of(const uhal_resize_attributes& attributes, int64_t input, int64_t output, double step, int64_t i) {
  if (attributes.align_corners != 0) {
    return output > 1 ? i * (static_cast<double>(input - 1) / static_cast<double>(output - 1)) : 0;
  }
  return attributes.half_pixel_centers != 0 ? (i + 0.5) * step - 0.5 : i * step;
}

// Cubic convolution (Keys) with the coefficient of OpenCV, PyTorch and Paddle.
double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double x = std::fabs(distance);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return 0;
}

// The nearest pixel, without a rounding that could take the one beside it; with a scale the frameworks' own rounding.
double nearest_of(const uhal_resize_attributes& attributes, int64_t input, int64_t output, double scale, int64_t i) {
  if (attributes.align_corners != 0) {
    return output > 1 ? static_cast<double>((2 * i * (input - 1) + output - 1) / (2 * (output - 1))) : 0;
  }
  const int half = attributes.half_pixel_centers != 0 ? 1 : 0;
  if (!(scale > 0)) return static_cast<double>((2 * i + half) * input / (2 * output));
  const float position = (static_cast<float>(i) + 0.5f * static_cast<float>(half)) * static_cast<float>(scale);
  return std::floor(position);
}

// Fills the taps of output coordinate i; coordinates beyond the image repeat its edge.
template <typename T>
void fill_taps(const uhal_resize_attributes& attributes, int64_t input, int64_t output, double wanted_scale, int64_t i,
               Tap<T>* taps) {
  // Steps of which every position but the first lies outside x are all the same; of one that float32 does not hold, the
  // first would be a NaN.
  const double scale = std::min(wanted_scale, 2.0 * static_cast<double>(input + 4));
  const auto inside = [&](double index) {
    return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(input - 1)));
  };
  const double step = scale > 0 ? scale : static_cast<double>(input) / static_cast<double>(output);
  const double source = source_of(attributes, input, output, step, i);
  if (attributes.mode == UHAL_RESIZE_NEAREST) {
    taps[0] = {inside(nearest_of(attributes, input, output, scale, i)), T(1)};
  } else if (attributes.mode == UHAL_RESIZE_LINEAR) {
    const double first = std::floor(std::max(source, 0.0));
    const double fraction = std::max(source, 0.0) - first;
    taps[0] = {inside(first), static_cast<T>(1 - fraction)};
    taps[1] = {inside(first + 1), static_cast<T>(fraction)};
  } else {
    const double first = std::floor(source);
    for (int tap = 0; tap < kMaxTaps; ++tap) {
      const double index = first - 1 + tap;
      taps[tap] = {inside(index), static_cast<T>(cubic_weight(source - index))};
    }
  }
}

template <typename T>
Geometry<T> geometry_of(Staging& staging, const uhal_resize_attributes& attributes, const uhal_tensor& x,
                        const uhal_tensor& y) {
  Geometry<T> g;
  g.images = x.shape[0];
  g.channels = x.shape[1];
  const int missing = 3 - (x.rank - 2);
  for (int i = 0; i < 3; ++i) {
    const int axis = i - missing;
    g.input[i] = axis < 0 ? 1 : x.shape[2 + axis];
    g.output[i] = axis < 0 ? 1 : y.shape[2 + axis];
    g.taps[i] = axis < 0 || attributes.mode == UHAL_RESIZE_NEAREST ? 1
                : attributes.mode == UHAL_RESIZE_LINEAR            ? 2
                                                                   : kMaxTaps;
    Tap<T>* table = staging.take<Tap<T>>(static_cast<size_t>(g.output[i] * g.taps[i]));
    g.table[i] = table;
    if (table == nullptr) return g;
    for (int64_t k = 0; k < g.output[i]; ++k) {
      if (axis < 0) {
        table[k] = {0, T(1)};
      } else {
        fill_taps(attributes, g.input[i], g.output[i], attributes.scale[axis], k, table + k * g.taps[i]);
      }
    }
  }
  return g;
}

// Calls visit(pixel, weight) for each pixel that a place reads.
template <typename T, typename Visit>
UNIHAL_INLINE void for_each_tap(const Geometry<T>& g, int64_t place, const Visit& visit) {
  const int64_t at[3] = {place / (g.output[1] * g.output[2]), place / g.output[2] % g.output[1], place % g.output[2]};
  for (int i = 0; i < g.taps[0]; ++i) {
    const Tap<T>& z = g.table[0][at[0] * g.taps[0] + i];
    for (int j = 0; j < g.taps[1]; ++j) {
      const Tap<T>& y = g.table[1][at[1] * g.taps[1] + j];
      for (int k = 0; k < g.taps[2]; ++k) {
        const Tap<T>& x = g.table[2][at[2] * g.taps[2] + k];
        visit((z.index * g.input[1] + y.index) * g.input[2] + x.index, z.weight * y.weight * x.weight);
      }
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void forward_place(const Geometry<T>& g, int64_t place, const T* image, T* result) {
  for (int64_t c = 0; c < g.channels; ++c) result[c] = 0;
  for_each_tap(g, place, [&](int64_t pixel, T weight) {
    const T* from = image + pixel * g.channels;
    for (int64_t c = 0; c < g.channels; ++c) result[c] += weight * from[c];
  });
}

template <typename T>
UNIHAL_VECTORIZED void backward_lanes(const Geometry<T>& g, int64_t lanes, const T* dy, T* dx) {
  for (int64_t place = 0; place < g.places(); ++place) {
    const T* from = dy + place * g.channels;
    for_each_tap(g, place, [&](int64_t pixel, T weight) {
      T* to = dx + pixel * g.channels;
      for (int64_t c = 0; c < lanes; ++c) to[c] += weight * from[c];
    });
  }
}

uhal_resize_attributes attributes_of(const uhal_op& op) { return attributes_or(op, uhal_resize_attributes{}); }

template <typename T>
uhal_status resize(const Launch& launch, uhal_dtype dtype) {
  const uhal_resize_attributes attributes = attributes_of(launch.op);
  const bool forward = launch.op.kind == UHAL_OP_RESIZE;
  const AxisOrder order = channels_innermost(launch.op.inputs[0]->rank);
  Staging staging(launch);
  const uhal_tensor* input = staging.input(0, dtype, &order);
  const uhal_tensor* output = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const uhal_tensor& x = forward ? *input : *output;
  const uhal_tensor& y = forward ? *output : *input;
  const Geometry<T> g = geometry_of<T>(staging, attributes, x, y);
  if (staging.status() != UHAL_OK) return staging.status();

  T* x_data = data_of<T>(&x);
  T* y_data = data_of<T>(&y);
  const int64_t taps = g.taps[0] * g.taps[1] * g.taps[2];
  if (forward) {
    parallel_for(g.images * g.places(), g.channels * taps, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        forward_place(g, i % g.places(), static_cast<const T*>(x_data + i / g.places() * g.pixels() * g.channels),
                      y_data + i * g.channels);
      }
    });
    return staging.finish();
  }
  std::fill_n(x_data, element_count(x), T(0));
  const int64_t strips = (g.channels + kLanes - 1) / kLanes;
  parallel_for(g.images * strips, g.places() * taps * std::min(kLanes, g.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / strips;
      const int64_t first = i % strips * kLanes;
      backward_lanes(g, std::min(kLanes, g.channels - first),
                     static_cast<const T*>(y_data + image * g.places() * g.channels + first),
                     x_data + image * g.pixels() * g.channels + first);
    }
  });
  return staging.finish();
}

}  // namespace

const char* refuse_resize(const uhal_op& op) {
  if (is_floating(op.inputs[0]->dtype) && is_floating(op.outputs[0]->dtype)) return nullptr;
  return "resizing takes floating point only: cast the operand first";
}

uhal_status run_resize(const Launch& launch) {
  if (element_count(*launch.op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? resize<double>(launch, dtype) : resize<float>(launch, dtype);
}

}  // namespace unihal::stub
