// Rules of convolution, pooling and resampling.
#include <cmath>

#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

constexpr int kMinImageRank = 3;
constexpr int kMaxImageRank = 2 + UHAL_MAX_SPATIAL;
constexpr int64_t kLargestAttribute = int64_t{1} << 40;  // keeps sums and products of attributes within 64 bits

uhal_status expect_spatial_attributes(const OpView& op, int spatial, const int64_t* stride, const int64_t* pad_before,
                                      const int64_t* pad_after) {
  for (int i = 0; i < spatial; ++i) {
    UHAL_EXPECT(expect_attribute(op, "stride", stride[i], 1, kLargestAttribute));
    UHAL_EXPECT(expect_attribute(op, "pad_before", pad_before[i], 0, kLargestAttribute));
    UHAL_EXPECT(expect_attribute(op, "pad_after", pad_after[i], 0, kLargestAttribute));
  }
  return UHAL_OK;
}

// y = convolution(x, w), whichever of them is given or wanted.
uhal_status check_convolution_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& w,
                                       const uhal_tensor& y, const uhal_tensor* bias) {
  const auto& attributes = op.attributes_as<uhal_convolution_attributes>();
  UHAL_EXPECT(expect_rank(op, &x, kMinImageRank, kMaxImageRank, "(N, C, 1 to 3 spatial axes)"));
  UHAL_EXPECT(expect_rank(op, &w, x.rank, x.rank, "(O, C/groups, spatial...)"));
  int spatial = x.rank - 2;
  UHAL_EXPECT(expect_spatial_attributes(op, spatial, attributes.stride, attributes.pad_before, attributes.pad_after));
  UHAL_EXPECT(expect_attribute(op, "groups", attributes.groups, 1, INT64_MAX));
  UHAL_EXPECT(expect_attribute(op, "activation", attributes.activation, UHAL_ACTIVATION_NONE, UHAL_ACTIVATION_RELU6));
  UHAL_EXPECT(expect_math_mode(op, attributes.math_mode));
  int64_t channels = x.shape[1];
  int64_t filters = w.shape[0];
  if (channels % attributes.groups != 0 || filters % attributes.groups != 0) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: %lld groups do not divide %lld input and %lld output channels.",
                     op.row->name, static_cast<long long>(attributes.groups), static_cast<long long>(channels),
                     static_cast<long long>(filters));
  }
  Shape filter(w);
  filter.dims[1] = channels / attributes.groups;
  UHAL_EXPECT(expect_shape(op, &w, filter, "(O, C/groups, spatial...)"));
  Shape expected = {x.shape[0], filters};
  for (int i = 0; i < spatial; ++i) {
    UHAL_EXPECT(expect_attribute(op, "dilation", attributes.dilation[i], 1, kLargestAttribute));
    int64_t window = 0;
    bool fits = !__builtin_mul_overflow(attributes.dilation[i], w.shape[2 + i] - 1, &window);
    int64_t room = x.shape[2 + i] + attributes.pad_before[i] + attributes.pad_after[i] - window - 1;
    expected.push(fits && room >= 0 ? room / attributes.stride[i] + 1 : 0);
  }
  UHAL_EXPECT(expect_shape(op, &y, expected, "(N, O, spatial...) as x, w, stride, dilation and padding give it"));
  return expect_shape(op, bias, {filters}, "one number per output channel");
}

// y = pool(x). `x` and `y` are operands that have those shapes.
uhal_status check_pool_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& y) {
  const auto& attributes = op.attributes_as<uhal_pool_attributes>();
  UHAL_EXPECT(expect_attribute(op, "mode", attributes.mode, UHAL_POOL_MAXIMUM, UHAL_POOL_AVERAGE_EXCLUDE_PADDING));
  UHAL_EXPECT(expect_attribute(op, "adaptive", attributes.adaptive, 0, 1));
  UHAL_EXPECT(expect_rank(op, &x, kMinImageRank, kMaxImageRank, "(N, C, 1 to 3 spatial axes)"));
  int spatial = x.rank - 2;
  Shape expected = {x.shape[0], x.shape[1]};
  if (attributes.adaptive != 0) {
    UHAL_EXPECT(expect_rank(op, &y, x.rank, x.rank, "the rank of the pooled operand"));
    for (int i = 0; i < spatial; ++i) expected.push(y.shape[2 + i]);
    return expect_shape(op, &y, expected, "N and C of the pooled operand");
  }
  UHAL_EXPECT(expect_spatial_attributes(op, spatial, attributes.stride, attributes.pad_before, attributes.pad_after));
  for (int i = 0; i < spatial; ++i) {
    UHAL_EXPECT(expect_attribute(op, "window", attributes.window[i], 1, kLargestAttribute));
    int64_t room = x.shape[2 + i] + attributes.pad_before[i] + attributes.pad_after[i] - attributes.window[i];
    int64_t whole = room >= 0 ? room / attributes.stride[i] + 1 : 0;
    // One window more may begin inside and reach beyond (ceil mode).
    bool reaches_beyond = room < 0 || room % attributes.stride[i] != 0;
    bool one_more = y.rank == x.rank && reaches_beyond && y.shape[2 + i] == whole + 1;
    expected.push(one_more ? whole + 1 : whole);
  }
  return expect_shape(op, &y, expected, "(N, C, spatial...) as window, stride and padding give it");
}

uhal_status check_resize_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& y) {
  const auto& attributes = op.attributes_as<uhal_resize_attributes>();
  UHAL_EXPECT(expect_attribute(op, "mode", attributes.mode, UHAL_RESIZE_NEAREST, UHAL_RESIZE_CUBIC));
  UHAL_EXPECT(expect_attribute(op, "align_corners", attributes.align_corners, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "half_pixel_centers", attributes.half_pixel_centers, 0, 1));
  UHAL_EXPECT(expect_rank(op, &x, kMinImageRank, kMaxImageRank, "(N, C, 1 to 3 spatial axes)"));
  Shape expected(y);
  expected.dims[0] = x.shape[0];
  expected.dims[1] = x.shape[1];
  UHAL_EXPECT(expect_rank(op, &y, x.rank, x.rank, "the rank of the other image"));
  UHAL_EXPECT(expect_shape(op, &y, expected, "N and C of the other image"));
  for (int i = 0; i < x.rank - 2; ++i) {
    if (!(attributes.scale[i] >= 0) || std::isinf(attributes.scale[i])) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "%s: the attribute scale is %g, expected 0 (from the sizes) or a positive finite number.",
                       op.row->name, attributes.scale[i]);
    }
    if (x.shape[2 + i] == 0 && element_count(y) > 0) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: an image of shape %s has nothing to sample from.", op.row->name,
                       shape_text(x.rank, x.shape).c_str());
    }
  }
  return UHAL_OK;
}

// The numbers of images that `count` grids or boxes belong to.
uhal_status expect_images(const OpView& op, const uhal_tensor* images, int64_t count) {
  if (images == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_dtype(op, images, images->dtype == UHAL_INT32, "int32"));
  return expect_shape(op, images, {count}, "the number of an image for each grid or box");
}

// y = roi_align(x, boxes, images). `x` and `y` are operands that have those shapes.
uhal_status check_roi_align_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& y) {
  const auto& attributes = op.attributes_as<uhal_roi_align_attributes>();
  const uhal_tensor& boxes = *op.input(1);
  if (!(attributes.scale > 0) || std::isinf(attributes.scale)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute scale is %g, expected a positive finite number.",
                     op.row->name, attributes.scale);
  }
  UHAL_EXPECT(expect_attribute(op, "samples", attributes.samples, 0, 4096));
  UHAL_EXPECT(expect_attribute(op, "aligned", attributes.aligned, 0, 1));
  UHAL_EXPECT(expect_rank(op, &x, 4, 4, "(N, C, height, width)"));
  UHAL_EXPECT(expect_rank(op, &y, 4, 4, "(boxes, C, rows, columns)"));
  UHAL_EXPECT(expect_rank(op, &boxes, 2, 2, "(boxes, 4)"));
  UHAL_EXPECT(expect_shape(op, &boxes, {boxes.shape[0], 4}, "four coordinates a box"));
  UHAL_EXPECT(expect_images(op, op.input(2), boxes.shape[0]));
  return expect_shape(op, &y, {boxes.shape[0], x.shape[1], y.shape[2], y.shape[3]}, "the boxes, and C of x");
}

// y, indices = roi_pool(x, boxes, images). `x` and `y` are operands that have those shapes.
uhal_status check_roi_pool_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& y,
                                    const uhal_tensor* indices) {
  const auto& attributes = op.attributes_as<uhal_roi_pool_attributes>();
  const uhal_tensor& boxes = *op.input(1);
  if (!(attributes.scale > 0) || std::isinf(attributes.scale)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute scale is %g, expected a positive finite number.",
                     op.row->name, attributes.scale);
  }
  UHAL_EXPECT(expect_attribute(op, "mode", attributes.mode, UHAL_ROI_POOL_MAX, UHAL_ROI_POOL_AVERAGE_BY_POSITION));
  UHAL_EXPECT(expect_rank(op, &x, 4, 4, "(N, C, height, width)"));
  UHAL_EXPECT(expect_rank(op, &y, 4, 4, "(boxes, D, rows, columns)"));
  UHAL_EXPECT(expect_rank(op, &boxes, 2, 2, "(boxes, 4)"));
  UHAL_EXPECT(expect_shape(op, &boxes, {boxes.shape[0], 4}, "four coordinates a box"));
  UHAL_EXPECT(expect_images(op, op.input(2), boxes.shape[0]));
  const bool is_max = attributes.mode == UHAL_ROI_POOL_MAX;
  UHAL_EXPECT(expect_shape(op, &y, {boxes.shape[0], is_max ? x.shape[1] : y.shape[1], y.shape[2], y.shape[3]},
                           is_max ? "the boxes, and C of x" : "the boxes"));
  if (!is_max) {
    UHAL_EXPECT(expect_shape(op, &x, {x.shape[0], y.shape[1] * y.shape[2] * y.shape[3], x.shape[2], x.shape[3]},
                             "a channel for each channel and bin of y"));
  }
  if (indices == nullptr) return UHAL_OK;
  if (!is_max) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: only the mode max (0) has indices; leave them out.", op.row->name);
  }
  UHAL_EXPECT(
      expect_dtype(op, indices, indices->dtype == UHAL_INT32 || indices->dtype == UHAL_INT64, "int32 or int64"));
  return expect_same_shape(op, indices, &y);
}

// y = grid_sample(x, grid). `y` is an operand that has its shape.
uhal_status check_grid_sample_operands(const OpView& op, const uhal_tensor& x, const uhal_tensor& grid,
                                       const uhal_tensor* images, const uhal_tensor& y) {
  const auto& attributes = op.attributes_as<uhal_grid_sample_attributes>();
  UHAL_EXPECT(expect_attribute(op, "mode", attributes.mode, UHAL_GRID_SAMPLE_NEAREST, UHAL_GRID_SAMPLE_CUBIC));
  UHAL_EXPECT(expect_attribute(op, "padding", attributes.padding, UHAL_GRID_SAMPLE_ZEROS, UHAL_GRID_SAMPLE_REFLECTION));
  UHAL_EXPECT(expect_attribute(op, "align_corners", attributes.align_corners, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "edge_gradient", attributes.edge_gradient, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "in_pixels", attributes.in_pixels, 0, 1));
  if (attributes.mode == UHAL_GRID_SAMPLE_CUBIC) {
    UHAL_EXPECT(expect_rank(op, &x, 4, 4, "(N, C, 2 spatial axes), which mode cubic (2) samples"));
  }
  UHAL_EXPECT(expect_rank(op, &x, 4, 5, "(N, C, 2 or 3 spatial axes)"));
  UHAL_EXPECT(expect_rank(op, &y, x.rank, x.rank, "the rank of x"));
  UHAL_EXPECT(expect_rank(op, &grid, x.rank, x.rank, "(N, y's spatial axes, coordinates)"));
  const int64_t grids = images != nullptr ? grid.shape[0] : x.shape[0];
  UHAL_EXPECT(expect_images(op, images, grids));
  Shape sampled = {grids, x.shape[1]}, coordinates = {grids};
  for (int i = 2; i < x.rank; ++i) {
    sampled.push(grid.shape[i - 1]);
    coordinates.push(grid.shape[i - 1]);
  }
  coordinates.push(x.rank - 2);
  UHAL_EXPECT(expect_shape(op, &grid, coordinates, "N of x, y's spatial axes, and a coordinate for each axis of x"));
  UHAL_EXPECT(expect_shape(op, &y, sampled, "N and C of x, spatial axes of grid"));
  for (int i = 2; i < x.rank; ++i) {
    if (x.shape[i] == 0 && element_count(y) > 0) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: an image of shape %s has nothing to sample from.", op.row->name,
                       shape_text(x.rank, x.shape).c_str());
    }
  }
  return UHAL_OK;
}

}  // namespace

uhal_status check_convolution(const OpView& op) {
  return check_convolution_operands(op, *op.input(0), *op.input(1), *op.output(0), op.input(2));
}

uhal_status check_convolution_backward_data(const OpView& op) {
  return check_convolution_operands(op, *op.output(0), *op.input(1), *op.input(0), nullptr);
}

uhal_status check_convolution_backward_filter(const OpView& op) {
  return check_convolution_operands(op, *op.input(0), *op.output(0), *op.input(1), op.output(1));
}

uhal_status check_pool(const OpView& op) {
  const uhal_tensor* indices = op.output(1);
  if (indices != nullptr) {
    const char* when = "int32 or int64, and only for maximum pooling";
    bool maximum = op.attributes_as<uhal_pool_attributes>().mode == UHAL_POOL_MAXIMUM;
    UHAL_EXPECT(expect_dtype(op, indices, is_index(indices->dtype) && maximum, when));
  }
  UHAL_EXPECT(check_pool_operands(op, *op.input(0), *op.output(0)));
  return expect_same_shape(op, indices, op.output(0));
}

uhal_status check_pool_backward(const OpView& op) {
  UHAL_EXPECT(check_pool_operands(op, *op.output(0), *op.input(0)));
  if (op.attributes_as<uhal_pool_attributes>().mode != UHAL_POOL_MAXIMUM) return UHAL_OK;
  UHAL_EXPECT(expect_present(op, op.input(1), "x", "for maximum pooling"));
  UHAL_EXPECT(expect_present(op, op.input(2), "y", "for maximum pooling"));
  UHAL_EXPECT(expect_same_shape(op, op.input(1), op.output(0)));
  return expect_same_shape(op, op.input(2), op.input(0));
}

uhal_status check_resize(const OpView& op) { return check_resize_operands(op, *op.input(0), *op.output(0)); }

uhal_status check_resize_backward(const OpView& op) { return check_resize_operands(op, *op.output(0), *op.input(0)); }

uhal_status check_grid_sample(const OpView& op) {
  return check_grid_sample_operands(op, *op.input(0), *op.input(1), op.input(2), *op.output(0));
}

uhal_status check_grid_sample_backward_data(const OpView& op) {
  return check_grid_sample_operands(op, *op.output(0), *op.input(1), op.input(2), *op.input(0));
}

uhal_status check_grid_sample_backward_grid(const OpView& op) {
  UHAL_EXPECT(check_grid_sample_operands(op, *op.input(1), *op.input(2), op.input(3), *op.input(0)));
  return expect_same_shape(op, op.output(0), op.input(2));
}

uhal_status check_roi_align(const OpView& op) { return check_roi_align_operands(op, *op.input(0), *op.output(0)); }

uhal_status check_roi_align_backward(const OpView& op) {
  return check_roi_align_operands(op, *op.output(0), *op.input(0));
}

uhal_status check_roi_pool(const OpView& op) {
  return check_roi_pool_operands(op, *op.input(0), *op.output(0), op.output(1));
}

uhal_status check_roi_pool_backward(const OpView& op) {
  if (op.attributes_as<uhal_roi_pool_attributes>().mode == UHAL_ROI_POOL_MAX && op.input(3) == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the mode max (0) needs the forward's indices.", op.row->name);
  }
  return check_roi_pool_operands(op, *op.output(0), *op.input(0), op.input(3));
}

uhal_status check_non_max_suppression(const OpView& op) {
  const uhal_tensor &boxes = *op.input(0), &keep = *op.output(0);
  const auto& attributes = op.attributes_as<uhal_non_max_suppression_attributes>();
  if (!(attributes.decay > 0 && attributes.decay <= 1)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: decay is %g, expected more than 0 and at most 1.", op.row->name,
                     attributes.decay);
  }
  if (!(attributes.extent >= 0) || (attributes.extent != 0 && attributes.ordered == 0)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: extent is %g, expected 0, or a positive number with ordered boxes.",
                     op.row->name, attributes.extent);
  }
  UHAL_EXPECT(expect_rank(op, &boxes, 2, 3, "(boxes, 4) or (lists, boxes, 4)"));
  Shape expected(boxes);
  expected.dims[boxes.rank - 1] = 4;
  UHAL_EXPECT(expect_shape(op, &boxes, expected, "four coordinates a box"));
  UHAL_EXPECT(expect_dtype(op, &keep, keep.dtype == UHAL_BOOL || keep.dtype == UHAL_UINT8, "bool or uint8"));
  --expected.rank;
  return expect_shape(op, &keep, expected, "an answer for each box");
}

uhal_status check_resample(const OpView& op) {
  const uhal_tensor &x = *op.input(0), &first = *op.input(1), &weights = *op.input(2);
  int axis;
  UHAL_EXPECT(expect_rank(op, &x, 1, UHAL_MAX_RANK, "at least one axis"));
  UHAL_EXPECT(resolve_axis(op, op.attributes_as<uhal_axis_attributes>().axis, x.rank, false, &axis));
  UHAL_EXPECT(expect_dtype(op, &first, first.dtype == UHAL_INT32, "int32"));
  UHAL_EXPECT(expect_rank(op, &weights, 2, 2, "(elements of y along the axis, taps)"));
  UHAL_EXPECT(expect_shape(op, &first, {weights.shape[0]}, "one for each row of weights"));
  Shape expected(x);
  expected.dims[axis] = weights.shape[0];
  return expect_shape(op, op.output(0), expected, "x's shape, with a row of weights for each element along the axis");
}

}  // namespace unihal::core
