// Means of bins of regions. Images are computed on with their channels innermost, as in grid_sample.cc.
#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Channels that one thread adds gradients to.
constexpr int64_t kLanes = 32;
constexpr int64_t kMostSamples = int64_t{1} << 20;

// A box along an axis: bin b's sample s lies at start + b * bin + (s + 1/2) * bin / samples.
template <typename T>
struct Axis {
  int64_t bins, length;
  T start, bin;
  int64_t samples;  // of a bin
};

template <typename T>
Axis<T> axis_of(const uhal_roi_align_attributes& attributes, T low, T high, int64_t bins, int64_t length) {
  const auto scale = static_cast<T>(attributes.scale);
  const T offset = attributes.aligned != 0 ? T(0.5) : T(0);
  Axis<T> axis = {bins, length, low * scale - offset, 0, attributes.samples};
  T size = high * scale - offset - axis.start;
  if (attributes.aligned == 0 && size < 1) size = 1;
  axis.bin = size / static_cast<T>(bins);
  if (attributes.samples > 0) return axis;
  // ceil(size / bins), whatever the quotient's rounding; none of what is no number.
  T most = std::ceil(axis.bin);
  if ((most - 1) * static_cast<T>(bins) >= size) most -= 1;
  if (most * static_cast<T>(bins) < size) most += 1;
  axis.samples = most > 0 ? static_cast<int64_t>(std::min(most, static_cast<T>(kMostSamples))) : 0;
  return axis;
}

// The samples of a bin that may lie from `low` to `high`: numbers `begin` to `end` - 1.
struct Range {
  int64_t begin, end;
};

template <typename T>
Range samples_within(const Axis<T>& axis, int64_t bin, T low, T high) {
  const T step = axis.bin / static_cast<T>(axis.samples), most = static_cast<T>(axis.samples);
  if (!(step > 0)) return {0, step <= 0 ? axis.samples : 0};
  const T origin = axis.start + static_cast<T>(bin) * axis.bin + step / 2;
  const T begin = std::floor((low - origin) / step) - 1, end = std::ceil((high - origin) / step) + 2;
  if (!(begin <= end)) return {0, 0};
  return {static_cast<int64_t>(std::clamp(begin, T(0), most)), static_cast<int64_t>(std::clamp(end, T(0), most))};
}

// What a sample reads along an axis: the pixel `first` and, unless `fraction` is 0, the next one.
template <typename T>
struct Sample {
  bool inside;
  int64_t first;
  T fraction;
};

template <typename T>
UNIHAL_INLINE Sample<T> sample_of(const Axis<T>& axis, int64_t bin, int64_t number) {
  T at = axis.start + static_cast<T>(bin) * axis.bin +
         (static_cast<T>(number) + T(0.5)) * axis.bin / static_cast<T>(axis.samples);
  if (!(at >= -1 && at <= static_cast<T>(axis.length)) || axis.length == 0) return {false, 0, 0};
  at = std::max(at, T(0));
  const auto first = static_cast<int64_t>(at);
  if (first >= axis.length - 1) return {true, axis.length - 1, 0};
  return {true, first, at - static_cast<T>(first)};
}

template <typename T>
struct Problem {
  uhal_roi_align_attributes attributes;
  int64_t images, channels, height, width;  // of x
  int64_t boxes, rows, columns;             // of y
  const T* corners;
  const int32_t* image_of;

  int64_t pixels() const { return height * width; }
  int64_t bins() const { return rows * columns; }
  bool has_image(int64_t box) const { return image_of[box] >= 0 && image_of[box] < images; }
};

template <typename T>
struct Region {
  Axis<T> down, across;
  T share;  // of a sample in the mean

  Region(const Problem<T>& p, int64_t box)
      : down(axis_of(p.attributes, p.corners[4 * box + 1], p.corners[4 * box + 3], p.rows, p.height)),
        across(axis_of(p.attributes, p.corners[4 * box], p.corners[4 * box + 2], p.columns, p.width)),
        share(1 / std::max(static_cast<T>(down.samples) * static_cast<T>(across.samples), T(1))) {}
};

// Calls visit(pixel, weight) for all that a bin reads.
template <typename T, typename Visit>
UNIHAL_INLINE void for_each_tap(const Problem<T>& p, const Region<T>& region, int64_t row, int64_t column,
                                const Visit& visit) {
  const Range down = samples_within(region.down, row, T(-1), static_cast<T>(p.height));
  const Range across = samples_within(region.across, column, T(-1), static_cast<T>(p.width));
  for (int64_t i = down.begin; i < down.end; ++i) {
    const Sample<T> y = sample_of(region.down, row, i);
    if (!y.inside) continue;
    for (int64_t j = across.begin; j < across.end; ++j) {
      const Sample<T> x = sample_of(region.across, column, j);
      if (!x.inside) continue;
      const int64_t pixel = y.first * p.width + x.first;
      visit(pixel, (1 - y.fraction) * (1 - x.fraction));
      if (x.fraction != 0) visit(pixel + 1, (1 - y.fraction) * x.fraction);
      if (y.fraction != 0) visit(pixel + p.width, y.fraction * (1 - x.fraction));
      if (x.fraction != 0 && y.fraction != 0) visit(pixel + p.width + 1, y.fraction * x.fraction);
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void mean_of_bin(const Problem<T>& p, const Region<T>& region, int64_t bin, const T* image, T* y) {
  for (int64_t c = 0; c < p.channels; ++c) y[c] = 0;
  for_each_tap(p, region, bin / p.columns, bin % p.columns, [&](int64_t pixel, T weight) {
    const T* from = image + pixel * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) y[c] += weight * from[c];
  });
  for (int64_t c = 0; c < p.channels; ++c) y[c] *= region.share;
}

template <typename T>
UNIHAL_VECTORIZED void spread_bins(const Problem<T>& p, const Region<T>& region, int64_t lanes, const T* dy, T* image) {
  for (int64_t bin = 0; bin < p.bins(); ++bin) {
    const T* from = dy + bin * p.channels;
    for_each_tap(p, region, bin / p.columns, bin % p.columns, [&](int64_t pixel, T weight) {
      T* to = image + pixel * p.channels;
      for (int64_t c = 0; c < lanes; ++c) to[c] += weight * region.share * from[c];
    });
  }
}

template <typename T>
uhal_status roi_align(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const bool forward = op.kind == UHAL_OP_ROI_ALIGN;
  const AxisOrder images = channels_innermost(4), table = row_major(2), list = row_major(1);
  Staging staging(launch);
  const uhal_tensor* input = staging.input(0, dtype, &images);
  const uhal_tensor* boxes = staging.input(1, dtype, &table);
  const uhal_tensor* numbers = staging.input(2, UHAL_INT32, &list);
  const uhal_tensor* output = staging.output(0, dtype, &images);
  if (staging.status() != UHAL_OK) return staging.status();
  const uhal_tensor &x = forward ? *input : *output, &y = forward ? *output : *input;
  const Problem<T> p = {attributes_or(op, uhal_roi_align_attributes{sizeof(uhal_roi_align_attributes), 1, 0, 0}),
                        x.shape[0],
                        x.shape[1],
                        x.shape[2],
                        x.shape[3],
                        y.shape[0],
                        y.shape[2],
                        y.shape[3],
                        data_of<const T>(boxes),
                        data_of<const int32_t>(numbers)};
  if (forward) {
    const T* const from = data_of<const T>(&x);
    T* const to = data_of<T>(&y);
    parallel_for(p.boxes * p.bins(), 16 * p.channels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t box = i / p.bins();
        T* const result = to + i * p.channels;
        if (p.has_image(box)) {
          mean_of_bin(p, Region<T>(p, box), i % p.bins(), from + p.image_of[box] * p.pixels() * p.channels, result);
        } else {
          std::fill_n(result, p.channels, T(0));
        }
      }
    });
    return staging.finish();
  }
  // A thread has some channels of an image, whose boxes it goes through in order.
  const T* const from = data_of<const T>(&y);
  T* const to = data_of<T>(&x);
  std::fill_n(to, element_count(x), T(0));
  const int64_t strips = (p.channels + kLanes - 1) / kLanes;
  const int64_t work = 16 * std::min(kLanes, p.channels) * p.bins() * p.boxes / std::max<int64_t>(p.images, 1);
  parallel_for(p.images * strips, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / strips, first = i % strips * kLanes;
      for (int64_t box = 0; box < p.boxes; ++box) {
        if (p.image_of[box] != image) continue;
        spread_bins(p, Region<T>(p, box), std::min(kLanes, p.channels - first),
                    from + box * p.bins() * p.channels + first, to + image * p.pixels() * p.channels + first);
      }
    }
  });
  return staging.finish();
}

}  // namespace

const char* refuse_roi_align(const uhal_op& op) {
  for (const uhal_tensor* view : {op.inputs[0], op.inputs[1], op.outputs[0]}) {
    if (!is_floating(view->dtype)) return "regions take floating point only: cast the operands first";
  }
  return nullptr;
}

uhal_status run_roi_align(const Launch& launch) {
  if (element_count(*launch.op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  return dtype == UHAL_FLOAT64 ? roi_align<double>(launch, dtype) : roi_align<float>(launch, dtype);
}

}  // namespace unihal::stub
