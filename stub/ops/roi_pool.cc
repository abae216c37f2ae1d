// Pools of whole pixels over bins of regions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"

namespace unihal::stub {
namespace {

struct Range {
  int64_t begin, end;
  int64_t length() const { return std::max<int64_t>(end - begin, 0); }
  bool has(int64_t i) const { return i >= begin && i < end; }
};

// Rounded half away from 0, within what integers hold; 0 of NaN.
template <typename T>
T rounded(T v) {
  return std::isnan(v) ? T(0) : std::round(std::clamp(v, T(-1e9), T(1e9)));
}

// A box along an axis.
template <typename T>
struct Axis {
  T start, size;
  bool whole;  // of the mode that begins and ends at pixels

  Axis(const uhal_roi_pool_attributes& attributes, T low, T high) : whole(attributes.mode == UHAL_ROI_POOL_MAX) {
    const auto scale = static_cast<T>(attributes.scale);
    if (whole) {
      start = rounded(low * scale);
      size = std::max(rounded(high * scale) - start + 1, T(1));
    } else {
      start = rounded(low) * scale;
      size = std::max((rounded(high) + 1) * scale - start, T(0.1));
    }
  }

  // The pixels of a bin.
  Range pixels(int64_t bins, int64_t length, int64_t b) const {
    if (whole) {
      const auto from = static_cast<int64_t>(start), pixels = static_cast<int64_t>(size);
      return {std::clamp<int64_t>(from + b * pixels / bins, 0, length),
              std::clamp<int64_t>(from + ((b + 1) * pixels + bins - 1) / bins, 0, length)};
    }
    const T bin = size / static_cast<T>(bins), last = static_cast<T>(length);
    const T from = std::floor(static_cast<T>(b) * bin + start), to = std::ceil(static_cast<T>(b + 1) * bin + start);
    return {static_cast<int64_t>(std::clamp(from, T(0), last)), static_cast<int64_t>(std::clamp(to, T(0), last))};
  }
};

// All operands dense and row-major.
template <typename T>
struct Problem {
  uhal_roi_pool_attributes attributes;
  int64_t images, planes, height, width;   // of x
  int64_t boxes, channels, rows, columns;  // of y
  const T* corners;
  const int32_t* image_of;
  const Range* bins;  // of each box: those of the rows, then those of the columns, which all channels share

  Range of_row(int64_t box, int64_t row) const { return bins[box * (rows + columns) + row]; }
  Range of_column(int64_t box, int64_t column) const { return bins[box * (rows + columns) + rows + column]; }
  Axis<T> across(int64_t box) const { return {attributes, corners[4 * box], corners[4 * box + 2]}; }
  Axis<T> down(int64_t box) const { return {attributes, corners[4 * box + 1], corners[4 * box + 3]}; }
  bool is_max() const { return attributes.mode == UHAL_ROI_POOL_MAX; }
};

template <typename T>
void find_bins(const Problem<T>& p, Range* bins) {
  for (int64_t box = 0; box < p.boxes; ++box) {
    const Axis<T> across = p.across(box), down = p.down(box);
    for (int64_t row = 0; row < p.rows; ++row) *bins++ = down.pixels(p.rows, p.height, row);
    for (int64_t column = 0; column < p.columns; ++column) *bins++ = across.pixels(p.columns, p.width, column);
  }
}

// The largest of a bin's pixels, and where it is; of a bin without pixels 0 and -1.
template <typename T>
T largest(const T* from, int64_t width, Range vertical, Range horizontal, int64_t* found) {
  *found = -1;
  if (vertical.length() * horizontal.length() == 0) return 0;
  T result = -std::numeric_limits<T>::infinity();
  for (int64_t h = vertical.begin; h < vertical.end; ++h) {
    for (int64_t w = horizontal.begin; w < horizontal.end; ++w) {
      const T value = from[h * width + w];
      if (!(value > result)) continue;
      result = value;
      *found = h * width + w;
    }
  }
  return result;
}

// The mean of a bin's pixels, added up in their order; of a bin without pixels 0.
template <typename T>
T mean(const T* from, int64_t width, Range vertical, Range horizontal) {
  const int64_t length = horizontal.length(), area = vertical.length() * length;
  if (area == 0) return 0;
  T result = 0;
  const T* row = from + vertical.begin * width + horizontal.begin;
  for (int64_t h = vertical.begin; h < vertical.end; ++h, row += width) {
    for (int64_t w = 0; w < length; ++w) result += row[w];
  }
  return result / static_cast<T>(area);
}

template <typename T>
void pool(const Problem<T>& p, const T* x, T* y, int64_t* indices) {
  parallel_for(p.boxes * p.channels, 16 * p.rows * p.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t box = i / p.channels, channel = i % p.channels, image = p.image_of[box], bins = p.rows * p.columns;
      const bool exists = image >= 0 && image < p.images;
      const int64_t pixels = p.height * p.width, plane = channel * (p.is_max() ? 1 : bins);
      const T* from = exists ? x + (image * p.planes + plane) * pixels : nullptr;
      int64_t to = i * bins;
      for (int64_t row = 0; row < p.rows; ++row) {
        for (int64_t column = 0; column < p.columns; ++column, ++to) {
          const Range vertical = p.of_row(box, row), horizontal = p.of_column(box, column);
          int64_t found = -1;
          if (!exists) {
            y[to] = 0;
          } else if (p.is_max()) {
            y[to] = largest(from, p.width, vertical, horizontal, &found);
          } else {
            y[to] = mean(from, p.width, vertical, horizontal);
            from += pixels;  // each bin has a plane
          }
          if (indices != nullptr) indices[to] = found;
        }
      }
    }
  });
}

template <typename T>
void spread(const Problem<T>& p, const T* dy, const int64_t* indices, T* dx) {
  parallel_for(p.images * p.planes, 16 * p.boxes * p.rows * p.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / p.planes, plane = i % p.planes, bins = p.rows * p.columns;
      T* const to = dx + i * p.height * p.width;
      std::fill_n(to, p.height * p.width, T(0));
      const int64_t channel = p.is_max() ? plane : plane / bins;
      for (int64_t box = 0; box < p.boxes; ++box) {
        if (p.image_of[box] != image) continue;
        for (int64_t bin = p.is_max() ? 0 : plane % bins; bin < (p.is_max() ? bins : plane % bins + 1); ++bin) {
          const Range vertical = p.of_row(box, bin / p.columns), horizontal = p.of_column(box, bin % p.columns);
          const int64_t at = (box * p.channels + channel) * bins + bin, area = vertical.length() * horizontal.length();
          if (p.is_max()) {
            const int64_t pixel = indices[at];
            if (pixel >= 0 && vertical.has(pixel / p.width) && horizontal.has(pixel % p.width)) to[pixel] += dy[at];
            continue;
          }
          const T part = dy[at] / static_cast<T>(area);
          for (int64_t h = vertical.begin; h < vertical.end; ++h) {
            for (int64_t w = horizontal.begin; w < horizontal.end; ++w) to[h * p.width + w] += part;
          }
        }
      }
    }
  });
}

template <typename T>
uhal_status roi_pool(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const bool forward = op.kind == UHAL_OP_ROI_POOL;
  const AxisOrder four = row_major(4), table = row_major(2), list = row_major(1);
  Staging staging(launch);
  const uhal_tensor* input = staging.input(0, dtype, &four);
  const uhal_tensor* boxes = staging.input(1, dtype, &table);
  const uhal_tensor* numbers = staging.input(2, UHAL_INT32, &list);
  const uhal_tensor* output = staging.output(0, dtype, &four);
  const uhal_tensor* indices = forward ? staging.output(1, UHAL_INT64, &four) : staging.input(3, UHAL_INT64, &four);
  if (staging.status() != UHAL_OK) return staging.status();
  const uhal_tensor &x = forward ? *input : *output, &y = forward ? *output : *input;
  auto* const bins = staging.take<Range>(static_cast<size_t>(y.shape[0] * (y.shape[2] + y.shape[3])));
  if (bins == nullptr) return staging.status();
  const Problem<T> p = {
      attributes_or(op, uhal_roi_pool_attributes{sizeof(uhal_roi_pool_attributes), 1, UHAL_ROI_POOL_MAX, 0}),
      x.shape[0],
      x.shape[1],
      x.shape[2],
      x.shape[3],
      y.shape[0],
      y.shape[1],
      y.shape[2],
      y.shape[3],
      data_of<const T>(boxes),
      data_of<const int32_t>(numbers),
      bins};
  find_bins(p, bins);
  if (forward) {
    pool(p, data_of<const T>(&x), data_of<T>(&y), data_of<int64_t>(indices));
  } else {
    spread(p, data_of<const T>(&y), data_of<const int64_t>(indices), data_of<T>(&x));
  }
  return staging.finish();
}

}  // namespace

const char* refuse_roi_pool(const uhal_op& op) {
  for (const uhal_tensor* view : {op.inputs[0], op.inputs[1], op.outputs[0]}) {
    if (!is_floating(view->dtype)) return "regions take floating point only: cast the operands first";
  }
  return nullptr;
}

uhal_status run_roi_pool(const Launch& launch) {
  if (element_count(*launch.op.outputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = launch.op.inputs[0]->dtype == UHAL_FLOAT64 || launch.op.inputs[1]->dtype == UHAL_FLOAT64 ||
                                   launch.op.outputs[0]->dtype == UHAL_FLOAT64
                               ? UHAL_FLOAT64
                               : UHAL_FLOAT32;
  return dtype == UHAL_FLOAT64 ? roi_pool<double>(launch, dtype) : roi_pool<float>(launch, dtype);
}

}  // namespace unihal::stub
