// Images at other sizes and places.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// How an axis is resampled: of each output the first pixel and the weights of it and those that follow.
struct Taps {
  int64_t width = 1;
  std::vector<int32_t> first;
  std::vector<double> weights;
};

// How an axis is scaled, and the part of it that is, from 0 to 1 (of tf_crop_and_resize).
struct Scaling {
  double scale = 1, begin = 0, end = 1;

  bool changes(int64_t from, int64_t to) const { return from != to || scale != 1 || begin != 0 || end != 1; }
};

// ONNX's Resize, and its forerunner Upsample. Every way of it is a weighted sum of neighbours along one axis after the
// other, whose weights the host computes; of the nearest pixel it is a selection, which keeps bits and any dtype.
class Resize final : public Kernel {
 public:
  explicit Resize(const Description& node)
      : mode_(node.text("mode", "nearest")),
        places_(node.version() < 11 ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel")),
        rounding_(node.version() < 11 ? "floor" : node.text("nearest_mode", "round_prefer_floor")),
        policy_(node.text("keep_aspect_ratio_policy", "stretch")),
        cubic_(node.real("cubic_coeff_a", -0.75)),
        outside_(node.real("extrapolation_value", 0)),
        excludes_(node.integer("exclude_outside", 0) != 0),
        antialiases_(node.integer("antialias", 0) != 0),
        scales_input_(node.version() < 11 ? 1 : 2),
        attribute_(node.reals("scales")),
        axes_(node.integers("axes")) {
    node.require(mode_ == "nearest" || contains(kFloats, node.input_dtype(0)), "interpolation of this dtype");
    node.require(policy_ == "stretch" || policy_ == "not_larger" || policy_ == "not_smaller", "an unknown policy");
    node.require(mode_ == "nearest" || mode_ == "linear" || mode_ == "bilinear" || mode_ == "cubic", "an unknown mode");
  }

  void run(Call& call) const override {
    const View x = call.input(0);
    Shape shape = shape_of(x);
    std::vector<Scaling> scales(shape.size());
    plan(call, &shape, &scales);
    if (crops()) take_region(call, &scales);
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    int last = -1;
    for (int i = 0; i < x.rank; ++i) {
      if (scales[static_cast<size_t>(i)].changes(x.shape[i], shape[static_cast<size_t>(i)])) last = i;
    }
    if (last < 0) return call.copy(x, y);
    View from = x;
    for (int i = 0; i <= last; ++i) {
      const size_t axis = static_cast<size_t>(i);
      if (!scales[axis].changes(x.shape[i], shape[axis])) continue;
      Shape next = shape_of(from);
      next[axis] = shape[axis];
      const View to = i == last ? y : call.scratch(next, x.dtype);
      along(call, from, to, i, scales[axis]);
      from = to;
    }
  }

 private:
  bool crops() const { return places_ == "tf_crop_and_resize"; }

  // The axes that scales, sizes and the region speak of.
  Shape named_axes(const Call& call, size_t rank) const {
    Shape axes;
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    if (axes_) {
      axes = *axes_;
      for (int64_t& axis : axes) axis = axis_of(call, axis, static_cast<int>(rank));
    }
    return axes;
  }

  // The region's beginnings, and then its ends.
  void take_region(const Call& call, std::vector<Scaling>* scales) const {
    const Shape axes = named_axes(call, scales->size());
    const View region = call.input(1);
    call.require(region.elements() == 2 * static_cast<int64_t>(axes.size()),
                 "the region has not two numbers for each axis");
    call.require(region.dtype == UHAL_FLOAT32 || region.dtype == UHAL_FLOAT64, "the region is not float32 or float64");
    const auto number = [&](size_t i) {
      return region.dtype == UHAL_FLOAT32 ? static_cast<const float*>(region.data)[i]
                                          : static_cast<const double*>(region.data)[i];
    };
    for (size_t i = 0; i < axes.size(); ++i) {
      Scaling& scaling = (*scales)[static_cast<size_t>(axes[i])];
      scaling.begin = number(i);
      scaling.end = number(axes.size() + i);
    }
  }

  void plan(const Call& call, Shape* shape, std::vector<Scaling>* scales) const {
    const Shape from = *shape;
    const Shape axes = named_axes(call, from.size());
    if (scales_input_ == 2 && call.has(3) && call.input(3).elements() != 0) {
      Shape sizes = call.integers(3);
      call.require(sizes.size() == axes.size(), "sizes has not an entry for each axis");
      double ratio = policy_ == "not_larger" ? INFINITY : 0;
      for (size_t i = 0; i < axes.size() && policy_ != "stretch"; ++i) {
        const double own = static_cast<double>(sizes[i]) / static_cast<double>(from[static_cast<size_t>(axes[i])]);
        ratio = policy_ == "not_larger" ? std::min(ratio, own) : std::max(ratio, own);
      }
      for (size_t i = 0; i < axes.size(); ++i) {
        const size_t axis = static_cast<size_t>(axes[i]);
        const double length = static_cast<double>(from[axis]);
        if (policy_ != "stretch") {
          sizes[i] = static_cast<int64_t>(std::floor(ratio * length + 0.5));
          (*scales)[axis].scale = ratio;
        } else {
          (*scales)[axis].scale = static_cast<double>(sizes[i]) / length;
        }
        (*shape)[axis] = sizes[i];
      }
      return;
    }
    std::vector<float> given;
    if (attribute_) {
      given = *attribute_;
    } else {
      const View view = call.input(scales_input_);
      call.require(view.dtype == UHAL_FLOAT32, "scales are not float32");
      given.assign(static_cast<const float*>(view.data), static_cast<const float*>(view.data) + view.elements());
    }
    call.require(given.size() == axes.size(), "scales has not an entry for each axis");
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = static_cast<size_t>(axes[i]);
      call.require(given[i] > 0, "a scale is not positive");
      (*scales)[axis].scale = given[i];
      (*shape)[axis] = static_cast<int64_t>(std::floor(static_cast<float>(from[axis]) * given[i]));
    }
  }

  // Where output `i` lies among the pixels of an axis.
  double place(int64_t i, int64_t length, int64_t outputs, const Scaling& scaling) const {
    const double at = static_cast<double>(i), scale = scaling.scale;
    if (crops()) {
      // In float32, as ONNX Runtime has it: which pixel is the nearest of two hangs on the rounding.
      const float last = static_cast<float>(length - 1);
      const float begin = static_cast<float>(scaling.begin), end = static_cast<float>(scaling.end);
      if (outputs == 1) return (begin + end) * last / 2;
      return begin * last + static_cast<float>(at) * (end - begin) * last / static_cast<float>(outputs - 1);
    }
    if (places_ == "align_corners") {
      return outputs == 1 ? 0 : at * static_cast<double>(length - 1) / static_cast<double>(outputs - 1);
    }
    if (places_ == "asymmetric") return at / scale;
    if (places_ == "pytorch_half_pixel") return outputs > 1 ? (at + 0.5) / scale - 0.5 : -0.5;
    if (places_ == "half_pixel_symmetric") {
      const double adjustment = static_cast<double>(outputs) / (scale * static_cast<double>(length));
      const double centre = static_cast<double>(length) / 2;
      return centre * (1 - adjustment) + (at + 0.5) / scale - 0.5;
    }
    return (at + 0.5) / scale - 0.5;
  }

  int64_t nearest(double at, int64_t length) const {
    double whole = 0;
    if (rounding_ == "floor") {
      whole = std::floor(at);
    } else if (rounding_ == "ceil") {
      whole = std::ceil(at);
    } else if (rounding_ == "round_prefer_ceil") {
      whole = std::floor(at + 0.5);
    } else {
      whole = std::ceil(at - 0.5);
    }
    return std::min(std::max<int64_t>(static_cast<int64_t>(whole), 0), length - 1);
  }

  double weight(double distance) const {
    const double d = std::fabs(distance);
    if (mode_ != "cubic") return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((cubic_ + 2) * d - (cubic_ + 3)) * d * d + 1;
    return d < 2 ? ((cubic_ * d - 5 * cubic_) * d + 8 * cubic_) * d - 4 * cubic_ : 0;
  }

  Taps taps(int64_t length, int64_t outputs, const Scaling& scaling) const {
    const double scale = scaling.scale;
    const double reach = (mode_ == "cubic" ? 2 : 1) * (antialiases_ && scale < 1 ? 1 / scale : 1);
    const double narrow = antialiases_ && scale < 1 ? scale : 1;
    Taps result;
    result.width = std::min<int64_t>(static_cast<int64_t>(std::ceil(2 * reach)) + 1, length);
    result.first.resize(static_cast<size_t>(outputs));
    result.weights.resize(static_cast<size_t>(outputs * result.width));
    for (int64_t i = 0; i < outputs; ++i) {
      const double at = place(i, length, outputs, scaling);
      const int64_t low = static_cast<int64_t>(std::floor(at - reach)) + 1;
      const int64_t high = static_cast<int64_t>(std::ceil(at + reach)) - 1;
      const int64_t begin = std::min(std::max<int64_t>(low, 0), length - result.width);
      result.first[static_cast<size_t>(i)] = static_cast<int32_t>(begin);
      double* const row = &result.weights[static_cast<size_t>(i * result.width)];
      double sum = 0;
      for (int64_t pixel = low; pixel <= high; ++pixel) {
        const bool is_inside = pixel >= 0 && pixel < length;
        if (!is_inside && excludes_) continue;
        const double w = weight((static_cast<double>(pixel) - at) * narrow);
        row[std::min(std::max<int64_t>(pixel, 0), length - 1) - begin] += w;
        sum += w;
      }
      for (int64_t t = 0; t < result.width && sum != 0; ++t) row[t] /= sum;
    }
    return result;
  }

  void along(Call& call, const View& from, const View& to, int axis, const Scaling& scaling) const {
    const int64_t length = from.shape[axis], outputs = to.shape[axis];
    call.require(length > 0, "an axis without elements cannot be resized");
    resample(call, from, to, axis, scaling);
    if (!crops()) return;
    for (int64_t i = 0, begin = 0; i <= outputs; ++i) {  // [begin, i) lies outside of the image
      const double at = i < outputs ? place(i, length, outputs, scaling) : 0;
      if (at < 0 || at > static_cast<double>(length - 1)) continue;
      if (begin < i) call.fill(to.sliced(axis, begin, i - begin), outside_);
      begin = i + 1;
    }
  }

  void resample(Call& call, const View& from, const View& to, int axis, const Scaling& scaling) const {
    const int64_t length = from.shape[axis], outputs = to.shape[axis];
    if (mode_ == "nearest") {
      Shape indices(static_cast<size_t>(outputs));
      for (int64_t i = 0; i < outputs; ++i)
        indices[static_cast<size_t>(i)] = nearest(place(i, length, outputs, scaling), length);
      const View on_device = call.upload(indices.data(), {outputs}, UHAL_INT64);
      const uhal_index_attributes attributes = index_attributes(axis);
      return call.launch(UHAL_OP_GATHER, {&from, &on_device}, {&to}, &attributes);
    }
    const Taps taps_ = taps(length, outputs, scaling);
    const View first = call.upload(taps_.first.data(), {outputs}, UHAL_INT32);
    View weights;
    if (from.dtype == UHAL_FLOAT64) {
      weights = call.upload(taps_.weights.data(), {outputs, taps_.width}, UHAL_FLOAT64);
    } else {
      const std::vector<float> narrow(taps_.weights.begin(), taps_.weights.end());
      weights = call.upload(narrow.data(), {outputs, taps_.width}, UHAL_FLOAT32);
    }
    const uhal_axis_attributes attributes = axis_attributes(axis, false);
    call.launch(UHAL_OP_RESAMPLE, {&from, &first, &weights}, {&to}, &attributes);
  }

  const std::string mode_, places_, rounding_, policy_;
  const double cubic_, outside_;
  const bool excludes_, antialiases_;
  const int scales_input_;
  const std::optional<std::vector<float>> attribute_;
  const std::optional<Shape> axes_;
};

// theta (N, axes, axes + 1), size (N, C, spatial...; on the host) -> (N, spatial..., axes): the places in x, from -1 to
// 1 and those of the last axis first, that theta makes of the pixels' places.
class AffineGrid final : public Kernel {
 public:
  explicit AffineGrid(const Description& node) : by_centres_(node.integer("align_corners", 0) != 0) {}
  void run(Call& call) const override {
    const View theta = call.input(0);
    const Shape size = call.integers(1);
    const int64_t axes = static_cast<int64_t>(size.size()) - 2;
    call.require((axes == 2 || axes == 3) && shape_of(theta) == Shape{size[0], axes, axes + 1},
                 "theta and size are not those of 2 or 3 spatial axes");
    Shape shape = {size[0]};
    shape.insert(shape.end(), size.begin() + 2, size.end());
    const int64_t pixels = elements_of(shape) / std::max<int64_t>(1, size[0]);
    shape.push_back(axes);
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    // Each pixel's place and 1, times theta's rows.
    std::vector<float> places(static_cast<size_t>(pixels * (axes + 1)), 1);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      int64_t rest = pixel;
      for (int64_t axis = 0; axis < axes; ++axis) {
        const int64_t length = size[size.size() - 1 - static_cast<size_t>(axis)], at = rest % length;
        rest /= length;
        places[static_cast<size_t>(pixel * (axes + 1) + axis)] =
            by_centres_ ? (length == 1 ? -1 : static_cast<float>(2 * at) / static_cast<float>(length - 1) - 1)
                        : static_cast<float>(2 * at + 1) / static_cast<float>(length) - 1;
      }
    }
    const View known = call.as(call.upload(places.data(), {pixels, axes + 1}, UHAL_FLOAT32), theta.dtype);
    const View turned = theta.transposed(), to = y.reshaped({size[0], pixels, axes});
    const uhal_matmul_attributes attributes = matmul_attributes(UHAL_MATH_STRICT);
    call.launch(UHAL_OP_MATMUL, {&known, &turned}, {&to}, &attributes);
  }

 private:
  const bool by_centres_;  // whether -1 and 1 are the centres of the outermost pixels, not their edges
};

class GridSample final : public Kernel {
 public:
  explicit GridSample(const Description& node) {
    attributes_.struct_size = sizeof attributes_;
    const std::string mode = node.text("mode", "linear");
    attributes_.mode = mode == "nearest"                      ? UHAL_GRID_SAMPLE_NEAREST
                       : mode == "cubic" || mode == "bicubic" ? UHAL_GRID_SAMPLE_CUBIC
                                                              : UHAL_GRID_SAMPLE_LINEAR;
    const std::string padding = node.text("padding_mode", "zeros");
    attributes_.padding = padding == "border"       ? UHAL_GRID_SAMPLE_BORDER
                          : padding == "reflection" ? UHAL_GRID_SAMPLE_REFLECTION
                                                    : UHAL_GRID_SAMPLE_ZEROS;
    attributes_.align_corners = node.integer("align_corners", 0) != 0 ? 1 : 0;
    const auto& shape = node.input(0).shape;
    node.require(!shape || shape->size() == 4 || shape->size() == 5, "other than 2 or 3 spatial axes");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View grid = call.input(1);
    call.require(x.rank == grid.rank && x.rank >= 4, "x and the grid have not one number of axes");
    Shape shape = {x.shape[0], x.shape[1]};
    shape.insert(shape.end(), grid.shape + 1, grid.shape + grid.rank - 1);
    const View y = call.output(0, shape);
    if (y.elements() != 0) call.launch(UHAL_OP_GRID_SAMPLE, {&x, &grid}, {&y}, &attributes_);
  }

 private:
  uhal_grid_sample_attributes attributes_ = {};
};

class RoiAlign final : public Kernel {
 public:
  explicit RoiAlign(const Description& node)
      : rows_(node.integer("output_height", 1)), columns_(node.integer("output_width", 1)) {
    node.require(node.text("mode", "avg") == "avg", "the maximum of a bin");
    attributes_.struct_size = sizeof attributes_;
    attributes_.scale = node.real("spatial_scale", 1);
    attributes_.samples = static_cast<int32_t>(node.integer("sampling_ratio", 0));
    attributes_.aligned =
        node.version() >= 16 && node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? 1 : 0;
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View boxes = call.input(1);
    const View images = call.as(call.input(2), UHAL_INT32);
    call.require(x.rank == 4 && boxes.rank == 2 && images.rank == 1, "the operands have other axes");
    const View y = call.output(0, {boxes.shape[0], x.shape[1], rows_, columns_});
    if (y.elements() != 0) call.launch(UHAL_OP_ROI_ALIGN, {&x, &boxes, &images}, {&y}, &attributes_);
  }

 private:
  const int64_t rows_, columns_;
  uhal_roi_align_attributes attributes_ = {};
};

const Op kResizeOps[] = {
    {.name = "Resize",
     .first = 10,
     .last = kNewestOpset,
     .dtypes = kStored,
     .make = make<Resize>,
     .host_inputs = host({1, 2, 3})},
    {.name = "Upsample", .first = 7, .last = 9, .dtypes = kStored, .make = make<Resize>, .host_inputs = host({1})},
    {.name = "AffineGrid",
     .first = 20,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<AffineGrid>,
     .host_inputs = host({1})},
    {.name = "GridSample", .first = 16, .last = kNewestOpset, .dtypes = kFloats, .make = make<GridSample>},
    {.name = "GridSample", .first = 1, .last = 1, .dtypes = kFloats, .make = make<GridSample>, .domain = kMicrosoft},
    {.name = "RoiAlign", .first = 10, .last = kNewestOpset, .dtypes = kFloats, .make = make<RoiAlign>},
};

}  // namespace

Table resize_ops() { return table(kResizeOps); }

}  // namespace unihal::onnxruntime
