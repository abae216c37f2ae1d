// Boxes coded relative to others, and those that a YOLO head says.
#include <cmath>
#include <cstring>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// Columns of boxes whose last axis is two corners: their centre and size along both axes.
struct Centered {
  Scratch size[2], center[2];

  // `more` is what a box is larger than the distance of its corners.
  Centered(const Context& context, const View& boxes, double more, bool from_corner)
      : size{Scratch(context, boxes.dtype, column(boxes, 0)), Scratch(context, boxes.dtype, column(boxes, 1))},
        center{Scratch(context, boxes.dtype, column(boxes, 0)), Scratch(context, boxes.dtype, column(boxes, 1))} {
    for (int axis = 0; axis < 2; ++axis) {
      const View low = column(boxes, axis), high = column(boxes, axis + 2);
      context.map(uhal_map_subtract, {&high, &low}, {&size[axis]});
      if (more != 0) context.map(uhal_map_scale, {&size[axis]}, {&size[axis]}, {1, more});
      if (from_corner) {
        context.map(uhal_map_scale, {&size[axis]}, {&center[axis]}, {0.5, 0});
        context.map(uhal_map_add, {&center[axis], &low}, {&center[axis]});
      } else {
        context.map(uhal_map_add, {&high, &low}, {&center[axis]});
        context.map(uhal_map_scale, {&center[axis]}, {&center[axis]}, {0.5, 0});
      }
    }
  }

  static View column(const View& boxes, int number) { return boxes.sliced(boxes.rank - 1, number, 1); }
};

// Boxes (count, 4) as they broadcast along an axis of (rows, columns, 4).
View boxes_along(const View& boxes, int axis) {
  return axis == 0 ? boxes.reshaped({1, boxes.shape[0], 4}) : boxes.reshaped({boxes.shape[0], 1, 4});
}

void box_coder(Context context, Input prior, OptionalInput prior_variance, Input target, Text type, bool normalized,
               int axis, Span<float> variance, Output y) {
  const View priors = prior.view(), targets = target.view();
  const bool encodes = std::strcmp(type.value, "encode_center_size") == 0;
  if (!encodes && std::strcmp(type.value, "decode_center_size") != 0) {
    invalid(context,
            std::string("code_type is '") + type.value + "', expected 'encode_center_size' or 'decode_center_size'");
  }
  if (priors.rank != 2 || priors.shape[1] != 4 || targets.rank != (encodes ? 2 : 3) ||
      targets.shape[targets.rank - 1] != 4 || (axis != 0 && axis != 1) ||
      (!encodes && targets.shape[axis == 0 ? 1 : 0] != priors.shape[0])) {
    invalid(context, "the shapes of prior_box and target_box do not fit each other");
  }
  require_same_dtype(context, priors, targets);
  const int64_t dims[] = {targets.shape[0], encodes ? priors.shape[0] : targets.shape[1], 4};
  const View out = context.allocate(y, targets.dtype, dims, 3);
  if (out.elements() == 0) return;
  const uhal_dtype dtype = out.dtype;
  const int prior_axis = encodes ? 0 : axis;
  const double more = normalized ? 0 : 1;
  const Centered box(context, boxes_along(priors, prior_axis), more, true);

  // The variances of the four numbers: of each prior box, or the same ones.
  const int64_t four[] = {1, 1, 4};
  const Scratch same(context, dtype, four, 3);
  View variances = same;
  fill(context, same, 1, 1);
  if (prior_variance) {
    variances = boxes_along(prior_variance.view(), prior_axis);
  } else {
    for (int i = 0; i < variance.size() && i < 4; ++i) {
      fill(context, same.sliced(2, i, 1), static_cast<double>(variance[static_cast<size_t>(i)]), 0);
    }
  }
  if (encodes) {
    const Centered goal(context, boxes_along(targets, 1), more, false);
    for (int i = 0; i < 2; ++i) {
      const View place = Centered::column(out, i), size = Centered::column(out, 2 + i);
      context.map(uhal_map_subtract, {&goal.center[i], &box.center[i]}, {&place});
      context.map(uhal_map_divide, {&place, &box.size[i]}, {&place});
      context.map(uhal_map_divide, {&goal.size[i], &box.size[i]}, {&size});
      context.map(uhal_map_absolute, {&size}, {&size});
      context.map(uhal_map_log, {&size}, {&size});
    }
    return context.map(uhal_map_divide, {&out, &variances}, {&out});
  }
  const Scratch scaled(context, dtype, out);
  context.map(uhal_map_multiply, {&targets, &variances}, {&scaled});
  for (int i = 0; i < 2; ++i) {
    const View place = Centered::column(scaled, i), size = Centered::column(scaled, 2 + i);
    context.map(uhal_map_multiply_add, {&place, &box.size[i], &box.center[i]}, {&place});
    context.map(uhal_map_exp, {&size}, {&size});
    context.map(uhal_map_multiply, {&size, &box.size[i]}, {&size});
    context.map(uhal_map_scale, {&size}, {&size}, {0.5, 0});
    const View low = Centered::column(out, i), high = Centered::column(out, 2 + i);
    context.map(uhal_map_subtract, {&place, &size}, {&low});
    context.map(uhal_map_add, {&place, &size}, {&high});
    if (more != 0) context.map(uhal_map_scale, {&high}, {&high}, {1, -more});
  }
}

// x (N, [anchors of overlaps,] anchors * (5 + classes), height, width): of each anchor the box's place and size, how
// sure it is, and the classes. Boxes that are less sure than a threshold are zeros.
void yolo_box(Context context, Input x, Input image_sizes, Span<int> anchors, int classes, float threshold, int ratio,
              bool clips, float scale, bool with_overlaps, float overlap_factor, Output boxes, Output scores) {
  const View in = x.view(), sizes = image_sizes.view();
  const int64_t count = anchors.size() / 2, entries = 5 + classes;
  if (in.rank != 4 || in.shape[1] != count * (entries + (with_overlaps ? 1 : 0)) || sizes.rank != 2 ||
      sizes.shape[0] != in.shape[0] || sizes.shape[1] != 2) {
    invalid(context, "x, img_size, anchors and class_num do not fit each other");
  }
  const int64_t images = in.shape[0], height = in.shape[2], width = in.shape[3];
  const int64_t of_boxes[] = {images, count * height * width, 4},
                of_scores[] = {images, count * height * width, classes};
  const View out = context.allocate(boxes, in.dtype, of_boxes, 3);
  const View out_scores = context.allocate(scores, in.dtype, of_scores, 3);
  if (out.elements() == 0) return;
  const View all = out.reshaped({images, count, height, width, 4});
  const View all_scores = out_scores.reshaped({images, count, height, width, classes});
  const uhal_dtype dtype = in.dtype;
  // (N, anchors, entries, height, width)
  View head = in;
  if (with_overlaps) head = in.sliced(1, count, count * entries);
  head.rank = 5;
  const int64_t plane = height * width;
  const int64_t shape[] = {images, count, entries, height, width};
  const int64_t strides[] = {in.strides[0], entries * plane, plane, width, 1};
  for (int i = 0; i < 5; ++i) {
    head.shape[i] = shape[i];
    head.strides[i] = strides[i];
  }
  const auto entry = [&](int64_t number) {
    View view = head.sliced(2, number, 1);
    view.rank = 4;
    for (int i = 2; i < 4; ++i) {
      view.shape[i] = shape[i + 1];
      view.strides[i] = strides[i + 1];
    }
    return view;
  };
  const int64_t cells[] = {images, count, height, width};
  const Scratch sure(context, dtype, cells, 4), is_sure(context, UHAL_BOOL, cells, 4);
  const View of_sure = entry(4);
  context.map(uhal_map_sigmoid, {&of_sure}, {&sure});
  if (with_overlaps) {
    const Scratch overlap(context, dtype, cells, 4);
    View given = in.sliced(1, 0, count);
    context.map(uhal_map_sigmoid, {&given}, {&overlap});
    context.map(uhal_map_power_scalar, {&overlap}, {&overlap}, {static_cast<double>(overlap_factor)});
    context.map(uhal_map_power_scalar, {&sure}, {&sure}, {1 - static_cast<double>(overlap_factor)});
    context.map(uhal_map_multiply, {&sure, &overlap}, {&sure});
  }
  const Constant least(context, dtype, static_cast<double>(threshold)), zero(context, dtype, 0);
  context.map(uhal_map_greater_equal, {&sure, &least}, {&is_sure});

  // Heights and widths of the images, as they broadcast.
  const Scratch lengths(context, dtype, sizes);
  copy_or_cast(context, sizes, lengths);
  const double bias = -0.5 * (static_cast<double>(scale) - 1);
  for (int axis = 0; axis < 2; ++axis) {  // across, down
    const int64_t cells_along = axis == 0 ? width : height;
    const View image = lengths.sliced(1, 1 - axis, 1).reshaped({images, 1, 1, 1});
    View length = image;
    length.strides[0] = 2;
    const Scratch numbers(context, dtype, &cells_along, 1), middle(context, dtype, cells, 4),
        half(context, dtype, cells, 4);
    count_up(context, numbers, bias);
    const View at = axis == 0 ? numbers.reshaped({1, 1, 1, width}) : numbers.reshaped({1, 1, height, 1});
    const View place = entry(axis), size = entry(2 + axis);
    context.map(uhal_map_sigmoid, {&place}, {&middle});
    if (scale != 1) context.map(uhal_map_scale, {&middle}, {&middle}, {static_cast<double>(scale), 0});
    context.map(uhal_map_add, {&middle, &at}, {&middle});
    context.map(uhal_map_multiply, {&middle, &length}, {&middle});
    context.map(uhal_map_scale, {&middle}, {&middle}, {1 / static_cast<double>(cells_along), 0});
    context.map(uhal_map_exp, {&size}, {&half});
    for (int64_t a = 0; a < count; ++a) {
      const double side = anchors[static_cast<size_t>(2 * a + axis)];
      const View of_anchor = half.sliced(1, a, 1);
      context.map(uhal_map_scale, {&of_anchor}, {&of_anchor},
                  {0.5 * side / (static_cast<double>(ratio) * static_cast<double>(cells_along)), 0});
    }
    context.map(uhal_map_multiply, {&half, &length}, {&half});
    View low = all.sliced(4, axis, 1), high = all.sliced(4, 2 + axis, 1);
    low.rank = high.rank = 4;
    context.map(uhal_map_subtract, {&middle, &half}, {&low});
    context.map(uhal_map_add, {&middle, &half}, {&high});
    if (clips) {
      const Scratch last(context, dtype, length);
      context.map(uhal_map_scale, {&length}, {&last}, {1, -1});
      context.map(uhal_map_maximum, {&low, &zero}, {&low});
      context.map(uhal_map_minimum, {&high, &last}, {&high});
    }
    context.map(uhal_map_select, {&is_sure, &low, &zero}, {&low});
    context.map(uhal_map_select, {&is_sure, &high, &zero}, {&high});
  }
  context.map(uhal_map_select, {&is_sure, &sure, &zero}, {&sure});
  for (int64_t c = 0; c < classes; ++c) {
    View score = all_scores.sliced(4, c, 1);
    score.rank = 4;
    const View given = entry(5 + c);
    context.map(uhal_map_sigmoid, {&given}, {&score});
    context.map(uhal_map_multiply, {&score, &sure}, {&score});
  }
}

}  // namespace

KernelTable box_kernels() {
  return {
      UNIHAL_KERNEL("box_coder", kWideFloats, box_coder),
      UNIHAL_KERNEL("yolo_box", kWideFloats, yolo_box),
  };
}

}  // namespace unihal::paddle
