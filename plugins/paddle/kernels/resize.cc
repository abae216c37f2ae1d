// Resampling of images: interpolate and its kin.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/host_tensor.h"
#include "plugins/paddle/kernels/spatial.h"

namespace unihal::paddle {
namespace {

// All elements of a tensor of a few numbers.
std::vector<double> read_few_numbers(const Context& context, const Tensor& x) {
  std::vector<double> numbers;
  if (is_on_host(x)) {
    if (x.elements() != 1) unsupported(context, "a list of numbers in host memory");
    return {host_number(x)};
  }
  const View all = flat(x.view());
  for (int64_t i = 0; i < all.elements(); ++i) numbers.push_back(read_number(context, all.sliced(0, i, 1)));
  return numbers;
}

// What the operands and attributes of the forward and of the gradient say.
struct Request {
  const OptionalInput& out_size;
  const OptionalInputList& sizes;
  const OptionalInput& scale_tensor;
  bool last;          // channels
  int attributes[3];  // out_d, out_h, out_w
  std::vector<double> scale;
  bool align_corners;
  int align_mode;
};

// The sizes of the result and the steps in x, by Paddle's order of precedence. Steps are 0 where sizes give them.
struct Geometry {
  int axes;
  int64_t size[3], out[3];
  double scale[3] = {};  // of the result; 0: not given

  Geometry(const Context& context, const View& x, int fewest, int most, const Request& request) : axes(x.rank - 2) {
    if (axes < fewest || axes > most) {
      invalid(context, "x has rank " + std::to_string(x.rank) + ", expected " + std::to_string(fewest + 2) +
                           (fewest == most ? "" : " or " + std::to_string(most + 2)));
    }
    for (int i = 0; i < axes; ++i) {
      size[i] = x.shape[i + 2];
      out[i] = request.attributes[3 - axes + i];
    }
    if (request.sizes.is_present()) {
      require_count(context, request.sizes.size(), "sizes");
      for (int i = 0; i < axes; ++i) out[i] = static_cast<int64_t>(read_number(context, request.sizes[i]));
    } else {
      take_scale(context, request);
      if (request.out_size) {
        const std::vector<double> given = read_few_numbers(context, request.out_size);
        require_count(context, given.size(), "sizes");
        for (int i = 0; i < axes; ++i) out[i] = static_cast<int64_t>(given[i]);
      }
    }
    for (int i = 0; i < axes; ++i) {
      if (out[i] <= 0)
        invalid(context, "a size of the result is " + std::to_string(out[i]) + ", expected a positive one");
    }
  }

  bool is_copy() const { return std::equal(size, size + axes, out); }

  // As Paddle computes it, in float32.
  float step(int axis, bool align_corners) const {
    if (align_corners) {
      return out[axis] > 1 ? static_cast<float>(size[axis] - 1) / static_cast<float>(out[axis] - 1) : 0;
    }
    if (scale[axis] > 0) return static_cast<float>(1.0 / scale[axis]);
    return static_cast<float>(size[axis]) / static_cast<float>(out[axis]);
  }

 private:
  void require_count(const Context& context, size_t count, const char* what) const {
    if (count < static_cast<size_t>(axes)) {
      invalid(context, std::to_string(count) + " " + what + " for " + std::to_string(axes) + " axes");
    }
  }
  void take_scale(const Context& context, const Request& request) {
    std::vector<double> given;
    if (request.scale_tensor) {
      given = read_few_numbers(context, request.scale_tensor);
      for (double& number : given) number = static_cast<double>(static_cast<float>(number));
      if (given.size() < static_cast<size_t>(axes) && !given.empty()) given.assign(axes, given[0]);
    } else {
      given.assign(request.scale.begin(), request.scale.end());
    }
    if (given.size() < static_cast<size_t>(axes)) return;
    for (int i = 0; i < axes; ++i) {
      if (!(given[i] > 0)) invalid(context, "a scale is " + std::to_string(given[i]) + ", expected a positive one");
    }
    for (int i = 0; i < axes; ++i) {
      scale[i] = given[i];
      out[i] = static_cast<int64_t>(static_cast<double>(size[i]) * scale[i]);
    }
  }
};

// Which pixels of x a nearest neighbour is: Paddle's, in float32.
std::vector<int32_t> nearest_pixels(const Geometry& geometry, int axis, bool align_corners) {
  const float step = geometry.step(axis, align_corners);
  std::vector<int32_t> pixels(static_cast<size_t>(geometry.out[axis]));
  for (size_t k = 0; k < pixels.size(); ++k) {
    const float position = step * static_cast<float>(k);
    const auto pixel =
        align_corners ? static_cast<int64_t>(static_cast<double>(position) + 0.5) : static_cast<int64_t>(position);
    pixels[k] = static_cast<int32_t>(std::min(pixel, geometry.size[axis] - 1));
  }
  return pixels;
}

// Rows of indices on the device.
class Pixels : public Scratch {
 public:
  Pixels(const Context& context, const std::vector<int32_t>& pixels)
      : Pixels(context, pixels, static_cast<int64_t>(pixels.size())) {}

 private:
  Pixels(const Context& context, const std::vector<int32_t>& pixels, int64_t count)
      : Scratch(context, UHAL_INT32, &count, 1) {
    const auto* bytes = reinterpret_cast<const char*>(pixels.data());
    upload(context, std::vector<char>(bytes, bytes + pixels.size() * sizeof(int32_t)), *this);
  }
};

// Integers, and corners that are aligned: an axis at a time.
void gather_nearest(const Context& context, const View& x, const Geometry& geometry, bool align_corners,
                    const View& y) {
  std::optional<Scratch> parts[2];
  View from = x, shape = x;
  for (int i = 0; i < geometry.axes; ++i) {
    shape.shape[i + 2] = geometry.out[i];
    const View to = i == geometry.axes - 1 ? y : static_cast<const View&>(parts[i].emplace(context, x.dtype, shape));
    const Pixels pixels(context, nearest_pixels(geometry, i, align_corners));
    const auto attributes = index_attributes(i + 2);
    context.run(UHAL_OP_GATHER, {&from, &pixels}, {&to}, &attributes);
    from = to;
  }
}
void scatter_nearest(const Context& context, const View& dy, const Geometry& geometry, bool align_corners,
                     const View& dx) {
  std::optional<Scratch> parts[3];
  View from = dy, shape = dy;
  for (int i = geometry.axes - 1; i >= 0; --i) {
    shape.shape[i + 2] = geometry.size[i];
    const Scratch& to = parts[i].emplace(context, accumulator(dx.dtype), shape);
    fill_zero(context, to);
    const Pixels pixels(context, nearest_pixels(geometry, i, align_corners));
    auto attributes = index_attributes(i + 2);
    attributes.reduction = UHAL_REDUCE_SUM;
    // Updates have the dtype of what they are added to.
    const Scratch wide(context, to.dtype, from);
    copy_or_cast(context, from, wide);
    context.run(UHAL_OP_SCATTER, {&pixels, &wide}, {&to}, &attributes);
    from = to;
  }
  copy_or_cast(context, from, dx);
}

// Of images Paddle takes no step to a single row or column, which then lies at the border, not in the middle. 0 says
// that the sizes give the step; this is lost beside half a pixel.
constexpr double kAlmostNoStep = 1e-30;

uhal_resize_attributes resize_attributes_of(uhal_resize_mode mode, const Geometry& geometry, const Request& request) {
  uhal_resize_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = mode;
  attributes.align_corners = request.align_corners;
  // Nearest neighbours are at whole steps; an align_mode of 1 says that the pixels of linear ones are, too.
  attributes.half_pixel_centers =
      !request.align_corners && mode != UHAL_RESIZE_NEAREST && (mode == UHAL_RESIZE_CUBIC || request.align_mode == 0);
  // The nearest pixel turns on the rounding of the step, so that it is Paddle's.
  for (int i = 0; i < geometry.axes && !request.align_corners; ++i) {
    if (mode == UHAL_RESIZE_NEAREST) {
      attributes.scale[i] = static_cast<double>(geometry.step(i, false));
    } else if (geometry.axes == 2 && geometry.out[i] == 1) {
      attributes.scale[i] = kAlmostNoStep;
    } else if (geometry.scale[i] > 0) {
      attributes.scale[i] = 1 / geometry.scale[i];
    }
  }
  return attributes;
}

// Until Paddle 3.2 scales are float32.
template <class Number>
std::vector<double> numbers_of(const Span<Number>& scale) {
  std::vector<double> numbers;
  for (const Number number : scale) numbers.push_back(static_cast<double>(number));
  return numbers;
}

template <int mode, int fewest, int most = fewest, class Number = double>
void interpolate(Context context, Input x, OptionalInput out_size, OptionalInputList sizes, OptionalInput scale_tensor,
                 Text data_format, int depth, int height, int width, Span<Number> scale, Text, bool align_corners,
                 int align_mode, Output y) {
  const bool last = channels_last(data_format);
  const Request request{out_size,          sizes,         scale_tensor, last, {depth, height, width},
                        numbers_of(scale), align_corners, align_mode};
  const View in = image(x.view(), last);
  const Geometry geometry(context, in, fewest, most, request);
  const int axes = geometry.axes;
  int64_t dims[UHAL_MAX_RANK] = {in.shape[0], in.shape[1]};
  std::copy_n(geometry.out, axes, dims + 2);
  if (last) std::rotate(dims + 1, dims + 2, dims + axes + 2);
  const View out = image(context.allocate(y, in.dtype, dims, axes + 2), last);
  if (out.elements() == 0) return;
  if (in.elements() == 0) invalid(context, "x has no pixels");
  if (geometry.is_copy()) return copy_or_cast(context, in, out);
  if (mode == UHAL_RESIZE_NEAREST && (align_corners || !is_floating(in.dtype))) {
    return gather_nearest(context, in, geometry, align_corners, out);
  }
  const auto attributes = resize_attributes_of(mode, geometry, request);
  context.run(UHAL_OP_RESIZE, {&in}, {&out}, &attributes);
}

template <int mode, int fewest, int most = fewest, class Number = double>
void interpolate_grad(Context context, Input x, OptionalInput out_size, OptionalInputList sizes,
                      OptionalInput scale_tensor, Input dy, Text data_format, int depth, int height, int width,
                      Span<Number> scale, Text, bool align_corners, int align_mode, Output dx) {
  const bool last = channels_last(data_format);
  const Request request{out_size,          sizes,         scale_tensor, last, {depth, height, width},
                        numbers_of(scale), align_corners, align_mode};
  const View shape = image(x.shape_only(), last), gradient = image(dy.view(), last);
  const View out = image(context.allocate(dx, gradient.dtype), last);
  if (out.elements() == 0) return;
  const Geometry geometry(context, shape, fewest, most, request);
  if (!std::equal(geometry.out, geometry.out + geometry.axes, gradient.shape + 2)) {
    invalid(context, "the gradient does not have the shape of the result");
  }
  if (geometry.is_copy()) return copy_or_cast(context, gradient, out);
  if (mode == UHAL_RESIZE_NEAREST && align_corners) {
    return scatter_nearest(context, gradient, geometry, align_corners, out);
  }
  const auto attributes = resize_attributes_of(mode, geometry, request);
  context.run(UHAL_OP_RESIZE_BACKWARD, {&gradient}, {&out}, &attributes);
}

// -- with antialiasing: a kernel as wide as the step, along one axis after the other

// Which pixels of x make each of the result's, and how much of each: Paddle's, in float32 unless numbers are float64.
struct Weights {
  std::vector<int32_t> first;
  std::vector<double> values;  // (pixels, taps)
  int64_t taps = 1;

  template <class Number>
  static Weights of(const Geometry& geometry, int axis, bool align_corners, bool cubic) {
    const auto step = static_cast<Number>(geometry.step(axis, align_corners));
    const Number reach = static_cast<Number>(cubic ? 2 : 1) * std::max<Number>(step, 1);
    const Number narrowing = step >= 1 ? 1 / step : 1;
    Weights table;
    std::vector<std::vector<double>> rows;
    for (int64_t i = 0; i < geometry.out[axis]; ++i) {
      const Number center = step * (static_cast<Number>(i) + Number(0.5));
      const int64_t from = std::max<int64_t>(static_cast<int64_t>(center - reach + Number(0.5)), 0);
      const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + reach + Number(0.5)), geometry.size[axis]);
      std::vector<double> row;
      Number sum = 0;
      for (int64_t k = from; k < end; ++k) {
        const Number distance = std::abs((static_cast<Number>(k) - center + Number(0.5)) * narrowing);
        const Number weight = cubic ? cubic_weight(distance) : std::max<Number>(1 - distance, 0);
        row.push_back(static_cast<double>(weight));
        sum += weight;
      }
      for (double& weight : row) weight = sum != 0 ? weight / static_cast<double>(sum) : weight;
      table.first.push_back(static_cast<int32_t>(from));
      table.taps = std::max<int64_t>(table.taps, static_cast<int64_t>(row.size()));
      rows.push_back(std::move(row));
    }
    table.take(rows);
    return table;
  }

  // The gradient's: which pixels of the result each of x is part of.
  Weights transposed(int64_t pixels) const {
    Weights table;
    std::vector<std::vector<double>> rows(static_cast<size_t>(pixels));
    table.first.assign(static_cast<size_t>(pixels), 0);
    for (size_t i = 0; i < first.size(); ++i) {
      for (int64_t t = 0; t < taps; ++t) {
        const double weight = values[i * static_cast<size_t>(taps) + static_cast<size_t>(t)];
        const auto pixel = static_cast<size_t>(first[i] + t);
        if (weight == 0 || pixel >= rows.size()) continue;
        if (rows[pixel].empty()) table.first[pixel] = static_cast<int32_t>(i);
        rows[pixel].resize(i - static_cast<size_t>(table.first[pixel]), 0);
        rows[pixel].push_back(weight);
        table.taps = std::max<int64_t>(table.taps, static_cast<int64_t>(rows[pixel].size()));
      }
    }
    table.take(rows);
    return table;
  }

 private:
  template <class Number>
  static Number cubic_weight(Number x) {
    constexpr Number a = Number(-0.5);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
  }
  void take(const std::vector<std::vector<double>>& rows) {
    for (const std::vector<double>& row : rows) {
      values.insert(values.end(), row.begin(), row.end());
      values.resize(values.size() + static_cast<size_t>(taps) - row.size(), 0);
    }
  }
};

void resample(const Context& context, const View& x, const Weights& table, int axis, const View& y) {
  const Pixels first(context, table.first);
  const int64_t dims[] = {static_cast<int64_t>(table.first.size()), table.taps};
  const Scratch weights(context, y.dtype, dims, 2);
  std::vector<char> bytes;
  const auto append = [&](auto number) {
    const auto* from = reinterpret_cast<const char*>(&number);
    bytes.insert(bytes.end(), from, from + sizeof number);
  };
  for (const double value : table.values) {
    if (y.dtype == UHAL_FLOAT64)
      append(value);
    else
      append(static_cast<float>(value));
  }
  upload(context, std::move(bytes), weights);
  const auto attributes = axis_attributes(axis, false);
  context.run(UHAL_OP_RESAMPLE, {&x, &first, &weights}, {&y}, &attributes);
}

Weights weights_of(const Geometry& geometry, int axis, bool align_corners, Text method, bool wide) {
  const bool cubic = std::strcmp(method.value, "bicubic") == 0;
  return wide ? Weights::of<double>(geometry, axis, align_corners, cubic)
              : Weights::of<float>(geometry, axis, align_corners, cubic);
}

void interp_antialias(Context context, Input x, OptionalInput out_size, OptionalInputList sizes,
                      OptionalInput scale_tensor, Text data_format, int depth, int height, int width,
                      Span<double> scale, Text method, bool align_corners, int align_mode, Output y) {
  const bool last = channels_last(data_format);
  const Request request{out_size,          sizes,         scale_tensor, last, {depth, height, width},
                        numbers_of(scale), align_corners, align_mode};
  const View in = image(x.view(), last);
  const Geometry geometry(context, in, 2, 2, request);
  int64_t dims[UHAL_MAX_RANK] = {in.shape[0], in.shape[1], geometry.out[0], geometry.out[1]};
  if (last) std::rotate(dims + 1, dims + 2, dims + 4);
  const View out = image(context.allocate(y, in.dtype, dims, 4), last);
  if (out.elements() == 0) return;
  if (in.elements() == 0) invalid(context, "x has no pixels");
  if (geometry.is_copy()) return copy_or_cast(context, in, out);
  const uhal_dtype dtype = accumulator(in.dtype);
  const bool wide = dtype == UHAL_FLOAT64;
  View shape = in;
  shape.shape[3] = geometry.out[1];
  const Scratch given(context, dtype, in), columns(context, dtype, shape), rows(context, dtype, out);
  copy_or_cast(context, in, given);
  resample(context, given, weights_of(geometry, 1, align_corners, method, wide), 3, columns);
  resample(context, columns, weights_of(geometry, 0, align_corners, method, wide), 2, rows);
  copy_or_cast(context, rows, out);
}

void interp_antialias_grad(Context context, Input x, OptionalInput out_size, OptionalInputList sizes,
                           OptionalInput scale_tensor, Input dy, Text data_format, int depth, int height, int width,
                           Span<double> scale, Text method, bool align_corners, int align_mode, Output dx) {
  const bool last = channels_last(data_format);
  const Request request{out_size,          sizes,         scale_tensor, last, {depth, height, width},
                        numbers_of(scale), align_corners, align_mode};
  const View shape = image(x.shape_only(), last), gradient = image(dy.view(), last);
  const View out = image(context.allocate(dx, gradient.dtype), last);
  if (out.elements() == 0) return;
  const Geometry geometry(context, shape, 2, 2, request);
  if (geometry.is_copy()) return copy_or_cast(context, gradient, out);
  const uhal_dtype dtype = accumulator(gradient.dtype);
  const bool wide = dtype == UHAL_FLOAT64;
  View between = shape;
  between.shape[3] = geometry.out[1];
  const Scratch given(context, dtype, gradient), rows(context, dtype, between), columns(context, dtype, out);
  copy_or_cast(context, gradient, given);
  const Weights of_rows = weights_of(geometry, 0, align_corners, method, wide);
  const Weights of_columns = weights_of(geometry, 1, align_corners, method, wide);
  resample(context, given, of_rows.transposed(geometry.size[0]), 2, rows);
  resample(context, rows, of_columns.transposed(geometry.size[1]), 3, columns);
  copy_or_cast(context, columns, out);
}

}  // namespace

KernelTable resize_kernels() {
  return {
      UNIHAL_KERNEL("nearest_interp", kNumbers, interpolate<UHAL_RESIZE_NEAREST, 2, 3>),
      UNIHAL_KERNEL("nearest_interp", kNumbers, interpolate<UHAL_RESIZE_NEAREST, 2, 3, float>),
      UNIHAL_KERNEL("nearest_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_NEAREST, 2, 3>),
      UNIHAL_KERNEL("nearest_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_NEAREST, 2, 3, float>),
      UNIHAL_KERNEL("linear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 1>),
      UNIHAL_KERNEL("linear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 1, 1, float>),
      UNIHAL_KERNEL("linear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 1>),
      UNIHAL_KERNEL("linear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 1, 1, float>),
      UNIHAL_KERNEL("bilinear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 2>),
      UNIHAL_KERNEL("bilinear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 2, 2, float>),
      UNIHAL_KERNEL("bilinear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 2>),
      UNIHAL_KERNEL("bilinear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 2, 2, float>),
      UNIHAL_KERNEL("trilinear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 3>),
      UNIHAL_KERNEL("trilinear_interp", kFloats, interpolate<UHAL_RESIZE_LINEAR, 3, 3, float>),
      UNIHAL_KERNEL("trilinear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 3>),
      UNIHAL_KERNEL("trilinear_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_LINEAR, 3, 3, float>),
      UNIHAL_KERNEL("bicubic_interp", kFloats, interpolate<UHAL_RESIZE_CUBIC, 2>),
      UNIHAL_KERNEL("bicubic_interp", kFloats, interpolate<UHAL_RESIZE_CUBIC, 2, 2, float>),
      UNIHAL_KERNEL("bicubic_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_CUBIC, 2>),
      UNIHAL_KERNEL("bicubic_interp_grad", kFloats, interpolate_grad<UHAL_RESIZE_CUBIC, 2, 2, float>),
      UNIHAL_KERNEL("interp_antialias", kFloats, interp_antialias),
      UNIHAL_KERNEL("interp_antialias_grad", kFloats, interp_antialias_grad),
  };
}

}  // namespace unihal::paddle
