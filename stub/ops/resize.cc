// Resampling along each axis by a table of taps: the input coordinates that an output coordinate reads, and their
// weights. Where few elements lie side by side at a pixel, lines are combined first, and then the elements of the
// combined line; else images are computed on with their channels innermost, a pixel's channels at a time.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/common/staging.h"
#include "stub/ops/weighted_rows.h"
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
    // Where every pixel keeps its place, those beside it have no part in it, though they be no numbers.
    const bool is_kept = input == output && (step == 1 || attributes.align_corners != 0);
    taps[0] = {inside(first), static_cast<T>(1 - fraction)};
    taps[1] = {inside(is_kept ? first : first + 1), static_cast<T>(fraction)};
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

// -- by lines

// At a pixel of more elements a loop over them is as good.
constexpr int64_t kMostTogether = 7;
constexpr int kMostRows = kMaxTaps * kMaxTaps;

// The taps of each element of an output line, tap by tap: which element of an input line, and its weight.
template <typename T>
struct LineTaps {
  const int32_t* places;
  const T* weights;
};

// Lines have `g.channels` elements at each pixel. A line that is much longer than what is read of it is not worth it.
template <typename T>
bool fits_lines(const Geometry<T>& g) {
  return g.channels <= kMostTogether && g.input[2] <= 4 * g.taps[2] * g.output[2] &&
         std::max(g.input[2], g.output[2]) * g.channels <= INT32_MAX;
}

template <typename T>
LineTaps<T> line_taps(Staging& staging, const Geometry<T>& g) {
  const int64_t count = g.output[2] * g.channels;
  auto* places = staging.take<int32_t>(static_cast<size_t>(count * g.taps[2]));
  T* weights = staging.take<T>(static_cast<size_t>(count * g.taps[2]));
  if (staging.status() != UHAL_OK) return {};
  for (int k = 0; k < g.taps[2]; ++k) {
    for (int64_t i = 0; i < count; ++i) {
      const Tap<T>& tap = g.table[2][i / g.channels * g.taps[2] + k];
      places[k * count + i] = static_cast<int32_t>(tap.index * g.channels + i % g.channels);
      weights[k * count + i] = tap.weight;
    }
  }
  return {places, weights};
}

// The lines of an image that output line `at` (in depth and height) reads, and their weights; how many.
template <typename T>
int lines_of(const Geometry<T>& g, int64_t at, int64_t* lines, T* weights) {
  int count = 0;
  for (int i = 0; i < g.taps[0]; ++i) {
    const Tap<T>& z = g.table[0][at / g.output[1] * g.taps[0] + i];
    for (int j = 0; j < g.taps[1]; ++j, ++count) {
      const Tap<T>& y = g.table[1][at % g.output[1] * g.taps[1] + j];
      lines[count] = z.index * g.input[1] + y.index;
      weights[count] = z.weight * y.weight;
    }
  }
  return count;
}

template <typename T, int kTaps>
UNIHAL_INLINE void combine_taps(int64_t count, const LineTaps<T>& taps, const T* line, T* __restrict y) {
  for (int64_t i = 0; i < count; ++i) {
    T sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += taps.weights[k * count + i] * line[taps.places[k * count + i]];
    y[i] = sum;
  }
}

// One output line. `sum` has room for an input line.
template <typename T>
UNIHAL_VECTORIZED void forward_line(const Geometry<T>& g, const LineTaps<T>& taps, int64_t at, const T* image, T* sum,
                                    T* y) {
  int64_t lines[kMostRows];
  T weights[kMostRows];
  const T* rows[kMostRows];
  const int64_t length = g.input[2] * g.channels, count = g.output[2] * g.channels;
  const int together = lines_of(g, at, lines, weights);
  for (int i = 0; i < together; ++i) rows[i] = image + lines[i] * length;
  if (together > 1) sum_rows(length, together, rows, weights, sum);
  const T* const line = together > 1 ? sum : rows[0];
  switch (g.taps[2]) {
    case 1:
      return combine_taps<T, 1>(count, taps, line, y);
    case 2:
      return combine_taps<T, 2>(count, taps, line, y);
    default:
      return combine_taps<T, kMaxTaps>(count, taps, line, y);
  }
}

// Adds the gradient of one output line to that of an image. `sum` has room for an input line.
template <typename T>
UNIHAL_VECTORIZED void backward_line(const Geometry<T>& g, const LineTaps<T>& taps, int64_t at, const T* dy, T* sum,
                                     T* image) {
  int64_t lines[kMostRows];
  T weights[kMostRows];
  const int64_t length = g.input[2] * g.channels, count = g.output[2] * g.channels;
  const int together = lines_of(g, at, lines, weights);
  for (int64_t i = 0; i < length; ++i) sum[i] = 0;
  for (int k = 0; k < g.taps[2]; ++k) {
    for (int64_t i = 0; i < count; ++i) sum[taps.places[k * count + i]] += taps.weights[k * count + i] * dy[i];
  }
  for (int i = 0; i < together; ++i) {
    T* __restrict const to = image + lines[i] * length;
    const T weight = weights[i];
    for (int64_t k = 0; k < length; ++k) to[k] += weight * sum[k];
  }
}

// `x` and `y`: packed images of g.channels elements at each pixel. Gradients of an image are added on one thread.
template <typename T>
uhal_status by_lines(Staging& staging, const Geometry<T>& g, bool forward, T* x, T* y) {
  const LineTaps<T> taps = line_taps(staging, g);
  if (staging.status() != UHAL_OK) return staging.status();
  const int64_t lines = g.output[0] * g.output[1], line = g.output[2] * g.channels;
  const int64_t length = g.input[2] * g.channels, image = g.pixels() * g.channels;
  const int64_t work = g.taps[0] * g.taps[1] * length + g.taps[2] * line;
  std::atomic<bool> exhausted{false};
  const auto with_room = [&](const auto& body) {
    ScratchFrame frame;
    T* const sum = frame.take<T>(static_cast<size_t>(length));
    if (sum != nullptr) body(sum);
    if (sum == nullptr) exhausted.store(true, std::memory_order_relaxed);
  };
  if (forward) {
    parallel_for(g.images * lines, work, [&](int64_t begin, int64_t end) {
      with_room([&](T* sum) {
        for (int64_t i = begin; i < end; ++i) {
          forward_line(g, taps, i % lines, static_cast<const T*>(x + i / lines * image), sum, y + i * line);
        }
      });
    });
  } else {
    std::fill_n(x, g.images * image, T(0));
    parallel_for(g.images, lines * work, [&](int64_t begin, int64_t end) {
      with_room([&](T* sum) {
        for (int64_t i = begin * lines; i < end * lines; ++i) {
          backward_line(g, taps, i % lines, static_cast<const T*>(y + i * line), sum, x + i / lines * image);
        }
      });
    });
  }
  if (exhausted.load()) return fail(UHAL_RESOURCE_EXHAUSTED, "resize: the host has no memory left for a line");
  return staging.finish();
}

uhal_resize_attributes attributes_of(const uhal_op& op) { return attributes_or(op, uhal_resize_attributes{}); }

// Channels that do not lie side by side are images of their own: by lines, these need not be moved together.
template <typename T>
bool fits_channels_apart(const uhal_op& op, Geometry<T> g) {
  g.channels = 1;
  return op.inputs[0]->strides[1] != 1 && op.outputs[0]->strides[1] != 1 && fits_lines(g);
}

template <typename T>
uhal_status resize(const Launch& launch, uhal_dtype dtype) {
  const uhal_resize_attributes attributes = attributes_of(launch.op);
  const bool forward = launch.op.kind == UHAL_OP_RESIZE;
  Staging staging(launch);
  Geometry<T> g = geometry_of<T>(staging, attributes, forward ? *launch.op.inputs[0] : *launch.op.outputs[0],
                                 forward ? *launch.op.outputs[0] : *launch.op.inputs[0]);
  if (staging.status() != UHAL_OK) return staging.status();
  const bool apart = fits_channels_apart(launch.op, g);
  const int rank = launch.op.inputs[0]->rank;
  const AxisOrder order = apart ? row_major(rank) : channels_innermost(rank);
  const uhal_tensor* input = staging.input(0, dtype, &order);
  const uhal_tensor* output = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  const uhal_tensor& x = forward ? *input : *output;
  const uhal_tensor& y = forward ? *output : *input;
  T* x_data = data_of<T>(&x);
  T* y_data = data_of<T>(&y);
  if (apart) {
    g.images *= g.channels;
    g.channels = 1;
  }
  if (fits_lines(g)) return by_lines(staging, g, forward, x_data, y_data);
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
