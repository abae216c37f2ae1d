// Choosing among boxes.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// boxes (B, n, 4), scores (B, C, n), max_output_boxes_per_class, iou_threshold, score_threshold -> (m, 3): batch, class
// and number of each box that is kept, the best of a class first.
class NonMaxSuppression final : public Kernel {
 public:
  explicit NonMaxSuppression(const Description& node) : centred_(node.integer("center_point_box", 0) != 0) {}
  void run(Call& call) const override {
    const View boxes = call.input(0), scores = call.input(1);
    call.require(boxes.rank == 3 && scores.rank == 3 && boxes.shape[2] == 4 && boxes.shape[0] == scores.shape[0] &&
                     boxes.shape[1] == scores.shape[2],
                 "boxes and scores are not (batch, n, 4) and (batch, classes, n)");
    const int64_t batches = boxes.shape[0], classes = scores.shape[1], count = boxes.shape[1],
                  lists = batches * classes;
    const int64_t most = call.has(2) ? static_cast<int64_t>(call.scalar(2)) : 0;
    if (scores.elements() == 0 || most <= 0) {
      call.output(0, {0, 3});
      return;
    }
    // Each class's boxes from the best on.
    const View rows = scores.reshaped({lists, count});
    const View sorted = call.scratch(Shape{lists, count}, scores.dtype), order = call.scratch_like(sorted, UHAL_INT64);
    uhal_axis_attributes by_score = axis_attributes(1, true);
    call.launch(UHAL_OP_SORT, {&rows}, {&sorted, &order}, &by_score);
    View corners = centred_ ? corners_of(call, boxes) : boxes;
    corners = spread(call, corners, classes);
    const View places = order.unsqueezed(2);
    const View four = call.scratch(Shape{lists, count, 4}, UHAL_INT64);
    call.launch(UHAL_OP_COPY, {&places}, {&four});
    const View ordered = call.scratch(Shape{lists, count, 4}, boxes.dtype);
    const uhal_index_attributes along = index_attributes(1);
    call.launch(UHAL_OP_GATHER_ELEMENTS, {&corners, &four}, {&ordered}, &along);
    const View keep = call.scratch(Shape{lists, count}, UHAL_BOOL);
    uhal_non_max_suppression_attributes suppression = {};
    suppression.struct_size = sizeof suppression;
    suppression.threshold = call.has(3) ? call.scalar(3) : 0;
    suppression.decay = 1;
    call.launch(UHAL_OP_NON_MAX_SUPPRESSION, {&ordered}, {&keep}, &suppression);
    if (call.has(4)) {
      const View threshold = call.constant(call.scalar(4), scores.dtype), above = call.scratch_like(keep, UHAL_BOOL);
      call.map(uhal_map_greater, {&sorted, &threshold}, {&above});
      call.map(uhal_map_logical_and, {&keep, &above}, {&keep});
    }
    if (most < count) limit(call, keep, most);
    const int64_t kept = count_nonzero(call, keep);
    const View y = call.output(0, {kept, 3});
    if (kept == 0) return;
    const View number = call.scratch(Shape(), UHAL_INT64), found = call.scratch(Shape{kept, 2}, UHAL_INT64);
    call.launch(UHAL_OP_NONZERO, {&keep}, {&number, &found});
    const View list = found.sliced(1, 0, 1), flat_order = order.reshaped({lists * count});
    // The lists' numbers become batches and classes, places in a list the boxes' numbers.
    const View divisor = call.scratch(Shape(), UHAL_INT64), length = call.scratch(Shape(), UHAL_INT64);
    call.fill_integer(divisor, classes);
    call.fill_integer(length, count);
    const View batch = y.sliced(1, 0, 1), type = y.sliced(1, 1, 1), box = y.sliced(1, 2, 1);
    call.map(uhal_map_floor_divide, {&list, &divisor}, {&batch});
    call.map(uhal_map_floor_mod, {&list, &divisor}, {&type});
    const View at = call.scratch(Shape{kept, 1}, UHAL_INT64), place = found.sliced(1, 1, 1);
    call.map(uhal_map_multiply_add, {&list, &length, &place}, {&at});
    const uhal_index_attributes first = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&flat_order, &at}, {&box}, &first);
  }

 private:
  // (x, y, width, height) as two corners.
  static View corners_of(Call& call, const View& boxes) {
    const View corners = call.scratch_like(boxes, boxes.dtype);
    const View centre = boxes.sliced(2, 0, 2), size = boxes.sliced(2, 2, 2);
    const View low = corners.sliced(2, 0, 2), high = corners.sliced(2, 2, 2);
    const View half = call.scratch(shape_of(size), boxes.dtype);
    call.map(uhal_map_scale, {&size}, {&half}, {0.5, 0});
    call.map(uhal_map_subtract, {&centre, &half}, {&low});
    call.map(uhal_map_add, {&centre, &half}, {&high});
    return corners;
  }

  // The boxes of a batch once for each class: (B C, n, 4).
  static View spread(Call& call, const View& boxes, int64_t classes) {
    if (classes == 1) return boxes;
    const Shape shape = {boxes.shape[0], classes, boxes.shape[1], 4};
    const View whole = call.scratch(shape, boxes.dtype), from = boxes.unsqueezed(1);
    call.launch(UHAL_OP_COPY, {&from}, {&whole});
    return whole.reshaped({shape[0] * classes, shape[2], 4});
  }

  // Leaves the first `most` of each row.
  static void limit(Call& call, const View& keep, int64_t most) {
    const View numbers = call.scratch_like(keep, UHAL_INT64), ranks = call.scratch_like(keep, UHAL_INT64);
    call.cast(keep, numbers);
    uhal_scan_attributes scan = {};
    scan.struct_size = sizeof scan;
    scan.reduction = UHAL_REDUCE_SUM;
    scan.axis = 1;
    call.launch(UHAL_OP_SCAN, {&numbers}, {&ranks}, &scan);
    const View last = call.scratch(Shape(), UHAL_INT64), within = call.scratch_like(keep, UHAL_BOOL);
    call.fill_integer(last, most);
    call.map(uhal_map_less_equal, {&ranks, &last}, {&within});
    call.map(uhal_map_logical_and, {&keep, &within}, {&keep});
  }

  const bool centred_;
};

// x (N, C, height, width), regions (R, 5: image and two corners) -> (R, C, pooled_shape): the largest pixel of each
// bin.
class MaxRoiPool final : public Kernel {
 public:
  explicit MaxRoiPool(const Description& node)
      : shape_(node.integers("pooled_shape").value_or(Shape())), scale_(node.real("spatial_scale", 1)) {
    node.require(shape_.size() == 2 && shape_[0] > 0 && shape_[1] > 0, "pooled_shape is not two positive lengths");
    node.require(scale_ > 0, "a scale that is not positive");
  }
  void run(Call& call) const override {
    const View x = call.input(0), regions = call.input(1);
    call.require(x.rank == 4 && regions.rank == 2 && regions.shape[1] == 5,
                 "x and the regions are not (N, C, height, width) and (R, 5)");
    const View y = call.output(0, {regions.shape[0], x.shape[1], shape_[0], shape_[1]});
    if (y.elements() == 0) return;
    const View numbers = regions.sliced(1, 0, 1), images = call.scratch(Shape{regions.shape[0]}, UHAL_INT32);
    call.cast(numbers, images.unsqueezed(1));
    const View boxes = regions.sliced(1, 1, 4);
    uhal_roi_pool_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.scale = scale_;
    attributes.mode = UHAL_ROI_POOL_MAX;
    call.launch(UHAL_OP_ROI_POOL, {&x, &boxes, &images}, {&y}, &attributes);
  }

 private:
  const Shape shape_;
  const double scale_;
};

const Op kDetectionOps[] = {
    {.name = "MaxRoiPool", .first = 1, .last = kNewestOpset, .dtypes = kWideFloats, .make = make<MaxRoiPool>},
    {.name = "NonMaxSuppression",
     .first = 10,
     .last = kNewestOpset,
     .dtypes = only(UHAL_FLOAT32),
     .make = make<NonMaxSuppression>,
     .host_inputs = host({2, 3, 4})},
};

}  // namespace

Table detection_ops() { return table(kDetectionOps); }

}  // namespace unihal::onnxruntime
