// Regions of images, boxes, and convolutions at offsets.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

void matrix_product(const Context& context, const View& a, const View& b, const View& out) {
  if (out.elements() == 0) return;
  if (a.elements() == 0) return fill_zero(context, out);
  const auto attributes = matmul_attributes(product_math_mode());
  context.run(UHAL_OP_MATMUL, {&a, &b}, {&out}, &attributes);
}

// -- regions

// The image of each box, from the number of boxes that each image has. Boxes beyond these have none.
class ImagesOfBoxes : public Scratch {
 public:
  ImagesOfBoxes(const Context& context, const OptionalInput& counts, int64_t images, int64_t boxes)
      : Scratch(context, UHAL_INT32, &boxes, 1) {
    if (!counts) unsupported(context, "boxes without boxes_num");
    const View given = flat(counts.view());
    if (given.elements() != images) {
      invalid(context, "boxes_num has " + std::to_string(given.elements()) + " numbers for " + std::to_string(images) +
                           " images");
    }
    if (boxes == 0) return;
    if (images == 0) {
      fill(context, *this, 0, -1);
      return;
    }
    const Scratch running(context, UHAL_INT32, &images, 1), numbers(context, UHAL_INT32, &boxes, 1);
    if (given.dtype != UHAL_INT32) copy_or_cast(context, given, running);
    uhal_scan_attributes sums = {};
    sums.struct_size = sizeof sums;
    sums.reduction = UHAL_REDUCE_SUM;
    context.run(UHAL_OP_SCAN, {given.dtype == UHAL_INT32 ? &given : &running}, {&running}, &sums);
    if (context.has_computed()) {
      const int32_t total = static_cast<const int32_t*>(running.data)[images - 1];
      if (total != boxes) {
        invalid(context, "boxes_num adds up to " + std::to_string(total) + ", but there are " + std::to_string(boxes) +
                             " boxes");
      }
    }
    count_up(context, numbers, 0, 1);
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    search.right = 1;
    context.run(UHAL_OP_SEARCH_SORTED, {&running, &numbers}, {this}, &search);
  }
};

uhal_roi_align_attributes region_attributes(const Context& context, float scale, int samples, bool aligned) {
  uhal_roi_align_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = static_cast<double>(scale);
  attributes.samples = std::max(samples, 0);
  attributes.aligned = aligned;
  if (!(scale > 0)) invalid(context, "spatial_scale is " + std::to_string(scale) + ", expected a positive number");
  return attributes;
}

void require_boxes(const Context& context, const View& boxes) {
  if (boxes.rank != 2 || boxes.shape[1] != 4) invalid(context, "expected boxes of shape (count, 4)");
}

void roi_align(Context context, Input x, Input boxes, OptionalInput boxes_num, int, int, float scale, int samples,
               bool aligned, Output y) {
  const View in = x.view(), regions = boxes.view(), out = context.allocate(y, in.dtype);
  require_boxes(context, regions);
  require_same_dtype(context, in, regions);
  if (out.elements() == 0) return;
  const ImagesOfBoxes images(context, boxes_num, in.shape[0], regions.shape[0]);
  const auto attributes = region_attributes(context, scale, samples, aligned);
  context.run(UHAL_OP_ROI_ALIGN, {&in, &regions, &images}, {&out}, &attributes);
}

void roi_align_grad(Context context, Input, Input boxes, OptionalInput boxes_num, Input dy, int, int, float scale,
                    int samples, bool aligned, Output dx) {
  if (!dx) return;
  const View gradient = dy.view(), regions = boxes.view(), out = context.allocate(dx, gradient.dtype);
  require_boxes(context, regions);
  if (out.elements() == 0) return;
  if (gradient.elements() == 0) return fill_zero(context, out);
  const ImagesOfBoxes images(context, boxes_num, out.shape[0], regions.shape[0]);
  const auto attributes = region_attributes(context, scale, samples, aligned);
  context.run(UHAL_OP_ROI_ALIGN_BACKWARD, {&gradient, &regions, &images}, {&out}, &attributes);
}

uhal_roi_pool_attributes roi_pool_attributes(const Context& context, uhal_roi_pool_mode mode, float scale) {
  uhal_roi_pool_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = static_cast<double>(scale);
  attributes.mode = mode;
  if (!(scale > 0)) invalid(context, "spatial_scale is " + std::to_string(scale) + ", expected a positive number");
  return attributes;
}

void roi_pool(Context context, Input x, Input boxes, OptionalInput boxes_num, int, int, float scale, Output y,
              Output places) {
  const View in = x.view(), regions = boxes.view(), out = context.allocate(y, in.dtype);
  const View where = context.allocate(places, UHAL_INT64);
  require_boxes(context, regions);
  require_same_dtype(context, in, regions);
  if (out.elements() == 0) return;
  const ImagesOfBoxes images(context, boxes_num, in.shape[0], regions.shape[0]);
  const auto attributes = roi_pool_attributes(context, UHAL_ROI_POOL_MAX, scale);
  context.run(UHAL_OP_ROI_POOL, {&in, &regions, &images}, {&out, &where}, &attributes);
}

void roi_pool_grad(Context context, Input, Input boxes, OptionalInput boxes_num, Input places, Input dy, int, int,
                   float scale, Output dx) {
  if (!dx) return;
  const View gradient = dy.view(), regions = boxes.view(), out = context.allocate(dx, gradient.dtype);
  const View where = places.view();
  require_boxes(context, regions);
  if (out.elements() == 0) return;
  if (gradient.elements() == 0) return fill_zero(context, out);
  const ImagesOfBoxes images(context, boxes_num, out.shape[0], regions.shape[0]);
  const auto attributes = roi_pool_attributes(context, UHAL_ROI_POOL_MAX, scale);
  context.run(UHAL_OP_ROI_POOL_BACKWARD, {&gradient, &regions, &images, &where}, {&out}, &attributes);
}

// The regions' channels of x by position: those of the result times its bins.
void require_positions(const Context& context, const View& x, const View& y, int channels) {
  if (y.shape[1] != channels || x.shape[1] != channels * y.shape[2] * y.shape[3]) {
    invalid(context, "x has " + std::to_string(x.shape[1]) + " channels, expected output_channels * pooled_height * " +
                         "pooled_width");
  }
}

void psroi_pool(Context context, Input x, Input boxes, OptionalInput boxes_num, int, int, int channels, float scale,
                Output y) {
  const View in = x.view(), regions = boxes.view(), out = context.allocate(y, in.dtype);
  require_boxes(context, regions);
  require_same_dtype(context, in, regions);
  require_positions(context, in, out, channels);
  if (out.elements() == 0) return;
  const ImagesOfBoxes images(context, boxes_num, in.shape[0], regions.shape[0]);
  const auto attributes = roi_pool_attributes(context, UHAL_ROI_POOL_AVERAGE_BY_POSITION, scale);
  context.run(UHAL_OP_ROI_POOL, {&in, &regions, &images}, {&out}, &attributes);
}

void psroi_pool_grad(Context context, Input, Input boxes, OptionalInput boxes_num, Input dy, int, int, int channels,
                     float scale, Output dx) {
  if (!dx) return;
  const View gradient = dy.view(), regions = boxes.view(), out = context.allocate(dx, gradient.dtype);
  require_boxes(context, regions);
  if (out.elements() == 0) return;
  if (gradient.elements() == 0) return fill_zero(context, out);
  require_positions(context, out, gradient, channels);
  const ImagesOfBoxes images(context, boxes_num, out.shape[0], regions.shape[0]);
  const auto attributes = roi_pool_attributes(context, UHAL_ROI_POOL_AVERAGE_BY_POSITION, scale);
  context.run(UHAL_OP_ROI_POOL_BACKWARD, {&gradient, &regions, &images}, {&out}, &attributes);
}

// -- grids of affine maps

// The places of an image before the map, (pixels, axes + 1): the coordinates, the last axis' first, and 1.
class PixelPlaces : public Scratch {
 public:
  PixelPlaces(const Context& context, uhal_dtype dtype, const int64_t* lengths, int axes, bool align_corners)
      : PixelPlaces(context, dtype, lengths, axes, align_corners, Dims(lengths, axes)) {}

 private:
  struct Dims {
    int64_t dims[5];
    Dims(const int64_t* lengths, int axes) {
      std::copy_n(lengths, axes, dims);
      dims[axes] = axes + 1;
    }
  };
  PixelPlaces(const Context& context, uhal_dtype dtype, const int64_t* lengths, int axes, bool align_corners,
              const Dims& whole)
      : Scratch(context, dtype, whole.dims, axes + 1) {
    fill(context, *this, 1, 1);
    for (int axis = 0; axis < axes; ++axis) {
      const int64_t length = lengths[axis];
      const auto n = static_cast<double>(length);
      const double step = align_corners ? (length > 1 ? 2 / (n - 1) : 0) : 2 / n;
      const Scratch line(context, dtype, &length, 1);
      count_up(context, line, align_corners ? -1 : (1 - n) / n, step);
      View along = line;
      along.rank = axes + 1;
      for (int i = 0; i <= axes; ++i) {
        along.shape[i] = i == axis ? length : 1;
        along.strides[i] = i == axis ? 1 : 0;
      }
      copy_or_cast(context, along, sliced(axes, axes - 1 - axis, 1));
    }
  }
};

// What theta, (N, axes, axes + 1), says of the grid: its spatial lengths.
struct Affine {
  int axes;
  int64_t lengths[3];
  int64_t pixels = 1;

  Affine(const Context& context, const View& theta, const Integers& shape)
      : axes(theta.rank == 3 ? static_cast<int>(theta.shape[1]) : 0) {
    if ((axes != 2 && axes != 3) || theta.shape[2] != axes + 1 || shape.size() != axes + 2) {
      invalid(context, "expected theta of shape (N, 2, 3) and four sizes, or of (N, 3, 4) and five");
    }
    for (int i = 0; i < axes; ++i) {
      lengths[i] = shape[static_cast<size_t>(i) + 2];
      if (lengths[i] < 0) invalid(context, "a size of the result is negative");
      pixels *= lengths[i];
    }
  }
};

void affine_grid(Context context, Input theta, Integers shape, bool align_corners, Output grid) {
  const View maps = theta.view();
  const Affine affine(context, maps, shape);
  int64_t dims[5] = {maps.shape[0]};
  std::copy_n(affine.lengths, affine.axes, dims + 1);
  dims[affine.axes + 1] = affine.axes;
  const View out = context.allocate(grid, maps.dtype, dims, affine.axes + 2);
  if (out.elements() == 0) return;
  const PixelPlaces places(context, maps.dtype, affine.lengths, affine.axes, align_corners);
  matrix_product(context, places.reshaped({1, affine.pixels, affine.axes + 1}), maps.transposed(),
                 out.reshaped({maps.shape[0], affine.pixels, affine.axes}));
}

void affine_grid_grad(Context context, Input dgrid, Integers shape, bool align_corners, Output dtheta) {
  const View gradient = dgrid.view();
  const int axes = gradient.rank - 2;
  if (axes != 2 && axes != 3) invalid(context, "expected a gradient of rank 4 or 5");
  const int64_t dims[] = {gradient.shape[0], axes, axes + 1};
  const View out = context.allocate(dtheta, gradient.dtype, dims, 3);
  const Affine affine(context, out, shape);
  if (gradient.elements() != out.shape[0] * affine.pixels * axes) {
    invalid(context, "the gradient does not have the shape of the result");
  }
  if (out.elements() == 0) return;
  if (affine.pixels == 0) return fill_zero(context, out);
  const PixelPlaces places(context, gradient.dtype, affine.lengths, axes, align_corners);
  matrix_product(context, gradient.reshaped({out.shape[0], affine.pixels, axes}).transposed(),
                 places.reshaped({1, affine.pixels, axes + 1}), out);
}

// -- convolutions at offsets

// Columns are (N, C, elements of the filter, pixels of the result): what each filter element reads for each pixel.
// `parts` are the deformable groups; channels of one share their offsets.
struct Deformable {
  int64_t images, channels, filters, groups, parts, elements, height, width, pixels;
  int64_t kernel[2], out[2];
  uhal_dtype dtype;
  View x;  // (N * parts, channels of a part, height, width)

  Deformable(const Context& context, const View& in, const View& offset, const View& filter, const Span<int>& strides,
             const Span<int>& dilations, const Span<int>& paddings, int deformable_groups, int groups_)
      : groups(groups_), parts(deformable_groups), dtype(in.dtype) {
    if (in.rank != 4 || offset.rank != 4 || filter.rank != 4 || strides.size() != 2 || paddings.size() != 2 ||
        dilations.size() != 2) {
      invalid(context, "expected x, offset and filter of rank 4, two strides, paddings and dilations");
    }
    images = in.shape[0];
    channels = in.shape[1];
    filters = filter.shape[0];
    for (int i = 0; i < 2; ++i) {
      kernel[i] = filter.shape[2 + i];
      out[i] = offset.shape[2 + i];
    }
    elements = kernel[0] * kernel[1];
    pixels = out[0] * out[1];
    height = in.shape[2];
    width = in.shape[3];
    const bool divides = groups > 0 && parts > 0 && channels % groups == 0 && channels % parts == 0 &&
                         filters % groups == 0 && filter.shape[1] * groups == channels;
    if (!divides || offset.shape[0] != images || offset.shape[1] != 2 * parts * elements) {
      invalid(context, "groups, deformable groups and the shapes of x, offset and filter do not fit each other");
    }
    x = in.reshaped({images * parts, channels / parts, height, width});
  }

  // Columns as grid_sample gives them, and as the filters of groups multiply them.
  View sampled(const View& columns) const {
    return columns.reshaped({images * parts, channels / parts, elements, pixels});
  }
  View grouped(const View& columns) const {
    return columns.reshaped({images, groups, channels / groups * elements, pixels});
  }
  View results(const View& y) const { return y.reshaped({images, groups, filters / groups, pixels}); }
  View weights(const View& filter) const {
    return filter.reshaped({1, groups, filters / groups, channels / groups * elements});
  }
  View masks(const View& mask) const { return mask.reshaped({images * parts, 1, elements, pixels}); }
  // Offsets (N, parts, elements, 2: down and across, pixels) with the coordinates last, that of the last axis first.
  View coordinates(const View& offsets) const {
    View all = offsets.reshaped({images * parts, elements, 2, pixels}).permuted({0, 1, 3, 2});
    return all.elements() == 0 ? all : all.sliced(3, 1, 2, -1);
  }

  // The places that are read, in pixels, laid out as offsets are.
  void find_places(const Context& context, const View& offset, const Span<int>& strides, const Span<int>& paddings,
                   const Span<int>& dilations, const View& places) const {
    const int64_t whole[] = {kernel[0], kernel[1], 2, out[0], out[1]};
    const Scratch base(context, dtype, whole, 5);
    for (int axis = 0; axis < 2; ++axis) {
      const Scratch elements_along(context, dtype, &kernel[axis], 1), pixels_along(context, dtype, &out[axis], 1);
      count_up(context, elements_along, -paddings[static_cast<size_t>(axis)], dilations[static_cast<size_t>(axis)]);
      count_up(context, pixels_along, 0, strides[static_cast<size_t>(axis)]);
      const View first = along(elements_along, axis), second = along(pixels_along, 3 + axis);
      const View to = base.sliced(2, axis, 1);
      context.map(uhal_map_add, {&first, &second}, {&to});
    }
    const View shape = places.reshaped({images * parts, elements * 2 * pixels});
    const View given = offset.reshaped({images * parts, elements * 2 * pixels});
    const View added = base.reshaped({1, elements * 2 * pixels});
    context.map(uhal_map_add, {&given, &added}, {&shape});
  }

 private:
  static View along(const View& line, int axis) {
    View view = line;
    view.rank = 5;
    for (int i = 0; i < 5; ++i) {
      view.shape[i] = i == axis ? line.shape[0] : 1;
      view.strides[i] = i == axis ? 1 : 0;
    }
    return view;
  }
};

uhal_grid_sample_attributes in_pixels() {
  uhal_grid_sample_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = UHAL_GRID_SAMPLE_LINEAR;
  attributes.padding = UHAL_GRID_SAMPLE_ZEROS;
  attributes.in_pixels = 1;
  return attributes;
}

// Shapes of memory that a kernel takes for itself.
struct ColumnShape : View {
  explicit ColumnShape(const Deformable& d) : View(nullptr, d.dtype, {d.images, d.channels, d.elements, d.pixels}) {}
};

void deformable_conv(Context context, Input x, Input offset, Input filter, OptionalInput mask, Span<int> strides,
                     Span<int> paddings, Span<int> dilations, int deformable_groups, int groups, int, Output y) {
  const View in = x.view(), offsets = offset.view(), weights = filter.view(), out = context.allocate(y, in.dtype);
  const Deformable d(context, in, offsets, weights, strides, dilations, paddings, deformable_groups, groups);
  if (out.elements() == 0) return;
  const Scratch places(context, in.dtype, offsets), columns(context, in.dtype, ColumnShape(d));
  d.find_places(context, offsets, strides, paddings, dilations, places);
  const View at = d.coordinates(places), sampled = d.sampled(columns);
  const auto attributes = in_pixels();
  context.run(UHAL_OP_GRID_SAMPLE, {&d.x, &at}, {&sampled}, &attributes);
  if (mask) {
    const View factors = d.masks(mask.view());
    context.map(uhal_map_multiply, {&sampled, &factors}, {&sampled});
  }
  matrix_product(context, d.weights(weights), d.grouped(columns), d.results(out));
}

void deformable_conv_grad(Context context, Input x, Input offset, Input filter, OptionalInput mask, Input dy,
                          Span<int> strides, Span<int> paddings, Span<int> dilations, int deformable_groups, int groups,
                          int, Output dx, Output doffset, Output dfilter, Output dmask) {
  const View in = x.view(), offsets = offset.view(), weights = filter.view(), gradient = dy.view();
  const Deformable d(context, in, offsets, weights, strides, dilations, paddings, deformable_groups, groups);
  const auto attributes = in_pixels();
  const Scratch places(context, in.dtype, offsets), columns(context, in.dtype, ColumnShape(d));
  const View at = d.coordinates(places), sampled = d.sampled(columns);
  std::optional<View> factors;
  if (mask) factors = d.masks(mask.view());
  const bool empty = gradient.elements() == 0 || in.elements() == 0;
  if (!empty) d.find_places(context, offsets, strides, paddings, dilations, places);
  if (!empty && (dfilter || dmask)) {
    context.run(UHAL_OP_GRID_SAMPLE, {&d.x, &at}, {&sampled}, &attributes);
  }
  // Of the columns, masks included.
  const Scratch dcolumns(context, in.dtype, ColumnShape(d));
  const View dsampled = d.sampled(dcolumns);
  if (!empty && (dx || doffset || dmask)) {
    matrix_product(context, d.weights(weights).transposed(), d.results(gradient), d.grouped(dcolumns));
  }
  if (dmask) {
    const View out = context.allocate(dmask, in.dtype);
    if (empty) {
      fill_zero(context, out);
    } else {
      const Scratch products(context, in.dtype, ColumnShape(d));
      const View each = d.sampled(products), sums = d.masks(out);
      context.map(uhal_map_multiply, {&dsampled, &sampled}, {&each});
      const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
      context.run(UHAL_OP_REDUCE, {&each}, {&sums}, &sum);
    }
  }
  if (dfilter) {
    const View out = context.allocate(dfilter, in.dtype);
    if (empty) {
      fill_zero(context, out);
    } else {
      if (factors) context.map(uhal_map_multiply, {&sampled, &*factors}, {&sampled});
      const int64_t dims[] = {d.images, d.groups, d.filters / d.groups, d.channels / d.groups * d.elements};
      const Scratch of_images(context, in.dtype, dims, 4);
      matrix_product(context, d.results(gradient), d.grouped(columns).transposed(), of_images);
      const View sums = d.weights(out);
      const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
      context.run(UHAL_OP_REDUCE, {&of_images}, {&sums}, &sum);
    }
  }
  if (!empty && factors) context.map(uhal_map_multiply, {&dsampled, &*factors}, {&dsampled});
  if (dx) {
    const View out = context.allocate(dx, in.dtype);
    const View images = out.reshaped({d.x.shape[0], d.x.shape[1], d.height, d.width});
    if (empty) {
      fill_zero(context, out);
    } else {
      context.run(UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, {&dsampled, &at}, {&images}, &attributes);
    }
  }
  if (doffset) {
    const View out = context.allocate(doffset, in.dtype);
    if (empty) {
      fill_zero(context, out);
    } else {
      const View coordinates = d.coordinates(out);
      context.run(UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, {&dsampled, &d.x, &at}, {&coordinates}, &attributes);
    }
  }
}

// -- boxes

// The numbers of the boxes that no better one overlaps: boxes come in their order.
void nms(Context context, Input boxes, float threshold, Output y) {
  const View all = boxes.view();
  require_boxes(context, all);
  const int64_t count = all.shape[0], one = 1;
  const Scratch keep(context, UHAL_BOOL, &count, 1), found(context, UHAL_INT64, &one, 1);
  const int64_t dims[] = {count, 1};
  const Scratch numbers(context, UHAL_INT64, dims, 2);
  int64_t kept = 0;
  if (count > 0) {
    uhal_non_max_suppression_attributes attributes = {sizeof attributes, static_cast<double>(threshold), 1, 0, 0, 0};
    context.run(UHAL_OP_NON_MAX_SUPPRESSION, {&all}, {&keep}, &attributes);
    context.run(UHAL_OP_NONZERO, {&keep}, {&found, &numbers});
    kept = static_cast<int64_t>(read_number(context, found));
  }
  const View out = context.allocate(y, UHAL_INT64, &kept, 1);
  if (kept > 0) copy_or_cast(context, numbers.sliced(0, 0, kept).reshaped({kept}), out);
}

// Boxes of given sizes and shapes around each pixel, from numbers alone.
struct PriorSizes {
  std::vector<float> widths, heights;

  PriorSizes(const Span<float>& minima, const Span<float>& maxima, const std::vector<float>& ratios,
             bool maximum_second) {
    for (int i = 0; i < minima.size(); ++i) {
      const float least = minima[static_cast<size_t>(i)];
      const auto add_shapes = [&](bool with_square) {
        for (const float ratio : ratios) {
          if (!with_square && std::fabs(ratio - 1) < 1e-6f) continue;
          add(least * std::sqrt(ratio), least / std::sqrt(ratio));
        }
      };
      const auto add_maximum = [&] {
        if (maxima.size() == 0) return;
        const float side = std::sqrt(least * maxima[static_cast<size_t>(i)]);
        add(side, side);
      };
      if (maximum_second) {
        add(least, least);
        add_maximum();
        add_shapes(false);
      } else {
        add_shapes(true);
        add_maximum();
      }
    }
  }

 private:
  void add(float width, float height) {
    widths.push_back(width / 2);
    heights.push_back(height / 2);
  }
};

std::vector<float> all_ratios(const Span<float>& given, bool flip) {
  std::vector<float> ratios = {1};
  for (const float ratio : given) {
    const auto same = [&](float known) { return std::fabs(ratio - known) < 1e-6f; };
    if (std::any_of(ratios.begin(), ratios.end(), same)) continue;
    ratios.push_back(ratio);
    if (flip) ratios.push_back(1 / ratio);
  }
  return ratios;
}

// Numbers of the host's in the dtype that y has. `bytes` are those of float32.
void upload_floats(const Context& context, std::vector<char> bytes, const View& y) {
  if (y.dtype == UHAL_FLOAT32) return upload(context, std::move(bytes), y);
  const Scratch narrow(context, UHAL_FLOAT32, y);
  upload(context, std::move(bytes), narrow);
  copy_or_cast(context, narrow, y);
}

// Where the boxes around each pixel of an axis begin and end, as parts of its length: (pixels, boxes, 2).
std::vector<float> prior_ends(int64_t pixels, float step, float offset, const std::vector<float>& halves, float length,
                              bool clip) {
  std::vector<float> ends(static_cast<size_t>(pixels) * halves.size() * 2);
  float* to = ends.data();
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const float center = (static_cast<float>(pixel) + offset) * step;
    for (const float half : halves) {
      *to++ = (center - half) / length;
      *to++ = (center + half) / length;
    }
  }
  if (clip) {
    for (float& end : ends) end = std::min(std::max(end, 0.0f), 1.0f);
  }
  return ends;
}

void prior_box(Context context, Input input, Input image, Span<float> minima, Span<float> maxima, Span<float> ratios,
               Span<float> variances, bool flip, bool clip, float step_w, float step_h, float offset,
               bool maximum_second, Output y, Output spread) {
  const View features = input.layout(), pixels = image.layout();
  if (features.rank != 4 || pixels.rank != 4) invalid(context, "expected images of rank 4");
  if (variances.size() != 4) invalid(context, "expected four variances");
  if (maxima.size() != 0 && maxima.size() != minima.size()) {
    invalid(context, "expected as many max_sizes as min_sizes, or none");
  }
  const auto width = static_cast<float>(pixels.shape[3]), height = static_cast<float>(pixels.shape[2]);
  const int64_t rows = features.shape[2], columns = features.shape[3];
  const bool by_sizes = step_w == 0 || step_h == 0;
  const float across = by_sizes ? width / static_cast<float>(columns) : step_w;
  const float down = by_sizes ? height / static_cast<float>(rows) : step_h;
  const PriorSizes sizes(minima, maxima, all_ratios(ratios, flip), maximum_second);
  const auto count = static_cast<int64_t>(sizes.widths.size());
  const int64_t dims[] = {rows, columns, count, 4};
  const View out = context.allocate(y, features.dtype, dims, 4),
             out_spread = context.allocate(spread, features.dtype, dims, 4);
  if (out.elements() == 0) return;
  const std::vector<float> x = prior_ends(columns, across, offset, sizes.widths, width, clip),
                           y_ends = prior_ends(rows, down, offset, sizes.heights, height, clip);
  const size_t bytes = static_cast<size_t>(out.elements()) * sizeof(float), of_a_row = x.size();
  std::vector<char> boxes(bytes), repeated(bytes);
  auto* corners = reinterpret_cast<float*>(boxes.data());
  for (const float* of_row = y_ends.data(); of_row != y_ends.data() + y_ends.size(); of_row += 2 * count) {
    for (size_t i = 0; i < of_a_row; i += 2) {
      const float* const vertical = of_row + i % static_cast<size_t>(2 * count);
      *corners++ = x[i];
      *corners++ = vertical[0];
      *corners++ = x[i + 1];
      *corners++ = vertical[1];
    }
  }
  const float of_each[] = {variances[0], variances[1], variances[2], variances[3]};
  for (size_t i = 0; i < bytes; i += sizeof of_each) std::memcpy(repeated.data() + i, of_each, sizeof of_each);
  upload_floats(context, std::move(boxes), out);
  upload_floats(context, std::move(repeated), out_spread);
}

}  // namespace

KernelTable detection_kernels() {
  return {
      UNIHAL_KERNEL("roi_align", kWideFloats, roi_align),
      UNIHAL_KERNEL("roi_align_grad", kWideFloats, roi_align_grad),
      UNIHAL_KERNEL("roi_pool", kWideFloats, roi_pool),
      UNIHAL_KERNEL("roi_pool_grad", kWideFloats, roi_pool_grad),
      UNIHAL_KERNEL("psroi_pool", kWideFloats, psroi_pool),
      UNIHAL_KERNEL("psroi_pool_grad", kWideFloats, psroi_pool_grad),
      UNIHAL_KERNEL("affine_grid", kWideFloats, affine_grid),
      UNIHAL_KERNEL("affine_grid_grad", kWideFloats, affine_grid_grad),
      UNIHAL_KERNEL("deformable_conv", kWideFloats, deformable_conv),
      UNIHAL_KERNEL("deformable_conv_grad", kWideFloats, deformable_conv_grad),
      UNIHAL_KERNEL("nms", kWideFloats, nms),
      UNIHAL_KERNEL("prior_box", kWideFloats, prior_box),
  };
}

}  // namespace unihal::paddle
