// The loss of YOLOv3's heads (Redmon and Farhadi 2018), and its gradient.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

constexpr double kLeastSide = 1e-6;   // of a box that counts
constexpr double kLeastScore = 1e-5;  // of a cell whose object counts
// Beyond this softplus(x) is x.
constexpr double kLinear = 40;

// Numbers of the host in a dtype of the device.
class Numbers : public Scratch {
 public:
  Numbers(const Context& context, uhal_dtype dtype, const std::vector<double>& values)
      : Scratch(context, dtype, {static_cast<int64_t>(values.size())}) {
    const Scratch wide(context, UHAL_FLOAT64, *this);
    const char* bytes = reinterpret_cast<const char*>(values.data());
    upload(context, {bytes, bytes + values.size() * sizeof values[0]}, wide);
    copy_or_cast(context, wide, *this);
  }
};

// One of the last axis.
View last(const View& x, int64_t number) {
  View view = x.sliced(x.rank - 1, number, 1);
  --view.rank;
  return view;
}

struct Settings {
  std::vector<double> widths, heights;  // of all anchors, as parts of the image
  std::vector<double> places;           // of each anchor among those of this head; -1: it is none of it
  std::vector<int> mask;                // the anchors of this head
  int classes;
  double positive, negative;  // what classes are to be
};

// What a head says, (images, anchors, 5 + classes, cells), and the boxes that there are.
struct Head {
  Settings of;
  View x, boxes, labels, scores;  // (images, boxes, 4), (images, boxes) and the same
  int64_t images, anchors, height, width, cells, count, entries;
  std::optional<Scratch> ones;

  Head(const Context& context, const View& input, const View& gt_box, const View& gt_label,
       const OptionalInput& gt_score, const Span<int>& sides, const Span<int>& mask, int classes, int ratio,
       bool smooth) {
    if (sides.size() < 2 || sides.size() % 2 != 0 || mask.size() < 1 || classes < 1 || ratio < 1) {
      invalid(context, "expected pairs of anchors' sides, an anchor_mask, classes and a downsample_ratio");
    }
    if (input.rank != 4 || input.shape[1] != mask.size() * (5 + static_cast<int64_t>(classes))) {
      invalid(context, "x has not 5 + class_num numbers for each of anchor_mask");
    }
    if (gt_box.rank != 3 || gt_box.shape[0] != input.shape[0] || gt_box.shape[2] != 4 || gt_label.rank != 2 ||
        gt_label.shape[0] != gt_box.shape[0] || gt_label.shape[1] != gt_box.shape[1]) {
      invalid(context, "gt_box and gt_label have not four numbers and one for each box of x's images");
    }
    require_same_dtype(context, input, gt_box);
    images = input.shape[0];
    anchors = mask.size();
    height = input.shape[2];
    width = input.shape[3];
    cells = height * width;
    count = gt_box.shape[1];
    entries = 5 + classes;
    x = input.reshaped({images, anchors, entries, cells});
    boxes = gt_box;
    labels = gt_label;
    const double side = static_cast<double>(ratio) * static_cast<double>(height);
    of.classes = classes;
    of.mask.assign(mask.begin(), mask.end());
    for (int i = 0; i < sides.size() / 2; ++i) {
      of.widths.push_back(sides[static_cast<size_t>(2 * i)] / side);
      of.heights.push_back(sides[static_cast<size_t>(2 * i + 1)] / side);
      const auto at = std::find(of.mask.begin(), of.mask.end(), i);
      of.places.push_back(at == of.mask.end() ? -1 : static_cast<double>(at - of.mask.begin()));
    }
    for (const int anchor : of.mask) {
      if (anchor >= 0 && anchor < sides.size() / 2) continue;
      invalid(context,
              "anchor_mask has " + std::to_string(anchor) + ", of " + std::to_string(sides.size() / 2) + " anchors");
    }
    const double smoothed = smooth ? std::min(1.0 / classes, 1.0 / 40) : 0;
    of.positive = 1 - smoothed;
    of.negative = smoothed;
    if (gt_score) {
      scores = gt_score.view();
      if (scores.elements() != images * count) invalid(context, "gt_score has not a number for each box");
      require_same_dtype(context, input, scores);
      scores = scores.reshaped({images, count});
    } else {
      ones.emplace(context, x.dtype, labels);
      fill(context, *ones, 1, 0);
      scores = *ones;
    }
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  // What an entry is at each cell: (images, anchors, cells).
  View entry(int64_t number) const {
    View view = x.sliced(2, number, 1);
    view.rank = 3;
    view.shape[2] = cells;
    view.strides[2] = 1;
    return view;
  }
};

// y = the low and the high corners of boxes (..., 4) of centers and sizes, along the last axis.
void corners_of(const Context& context, const View& boxes, const View& y) {
  for (int axis = 0; axis < 2; ++axis) {
    const View center = last(boxes, axis), size = last(boxes, 2 + axis), low = last(y, axis), high = last(y, 2 + axis);
    context.map(uhal_map_scale, {&size}, {&high}, {0.5, 0});
    context.map(uhal_map_subtract, {&center, &high}, {&low});
    context.map(uhal_map_add, {&center, &high}, {&high});
  }
}

void overlaps_of(const Context& context, const View& a, const View& b, const View& y) {
  View own[4], other[4];
  for (int i = 0; i < 4; ++i) {
    own[i] = last(a, i);
    other[i] = last(b, i);
  }
  context.map(uhal_map_box_overlap, {&own[0], &own[1], &own[2], &own[3], &other[0], &other[1], &other[2], &other[3]},
              {&y}, {0});
}

// Whether boxes have an area.
void find_boxes(const Context& context, const View& boxes, const View& y) {
  const Constant least(context, boxes.dtype, kLeastSide);
  const Scratch other(context, UHAL_BOOL, y);
  const View wide = last(boxes, 2), tall = last(boxes, 3);
  context.map(uhal_map_greater_equal, {&wide, &least}, {&y});
  context.map(uhal_map_greater_equal, {&tall, &least}, {&other});
  context.map(uhal_map_logical_and, {&y, &other}, {&y});
}

// y (images, anchors, cells) = -1 where what a cell says overlaps a box by more than the threshold, else 0: that is no
// object, but not to be told so.
void find_ignored(const Context& context, const Head& head, const View& is_box, double threshold, double scale,
                  const View& y) {
  fill_zero(context, y);
  if (head.count == 0 || y.elements() == 0) return;
  const uhal_dtype dtype = head.x.dtype;
  const Scratch said(context, dtype, {head.images, head.anchors, head.cells, 4}), corners(context, dtype, said);
  const double grid = static_cast<double>(head.height);  // in both directions, as in Paddle
  for (int axis = 0; axis < 2; ++axis) {
    const Scratch numbers(context, dtype, {axis == 0 ? head.width : head.height});
    count_up(context, numbers, -0.5 * (scale - 1));
    const View cell = said.reshaped({head.images, head.anchors, head.height, head.width, 4});
    const View at = axis == 0 ? numbers.reshaped({1, 1, 1, head.width}) : numbers.reshaped({1, 1, head.height, 1});
    const View place = head.entry(axis), center = last(said, axis), in_grid = last(cell, axis);
    context.map(uhal_map_sigmoid, {&place}, {&center});
    if (scale != 1) context.map(uhal_map_scale, {&center}, {&center}, {scale, 0});
    context.map(uhal_map_add, {&in_grid, &at}, {&in_grid});
    context.map(uhal_map_scale, {&center}, {&center}, {1 / grid, 0});
    const View length = head.entry(2 + axis), size = last(said, 2 + axis);
    context.map(uhal_map_exp, {&length}, {&size});
    const auto& sides = axis == 0 ? head.of.widths : head.of.heights;
    for (int64_t a = 0; a < head.anchors; ++a) {
      const View of_anchor = size.sliced(1, a, 1);
      const auto anchor = static_cast<size_t>(head.of.mask[static_cast<size_t>(a)]);
      context.map(uhal_map_scale, {&of_anchor}, {&of_anchor}, {sides[anchor], 0});
    }
  }
  corners_of(context, said, corners);
  const Scratch of_boxes(context, dtype, {head.images, head.count, 4});
  corners_of(context, head.boxes, of_boxes);
  const int64_t all = head.anchors * head.cells;
  const Scratch overlaps(context, dtype, {head.images, all, head.count}), best(context, dtype, {head.images, all, 1});
  const View a = corners.reshaped({head.images, all, 1, 4}), b = of_boxes.reshaped({head.images, 1, head.count, 4});
  overlaps_of(context, a, b, overlaps);
  const View counts = is_box.reshaped({head.images, 1, head.count});
  const Constant zero(context, dtype, 0), limit(context, dtype, threshold), ignored(context, dtype, -1);
  context.map(uhal_map_select, {&counts, &overlaps, &zero}, {&overlaps});
  const auto most = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  context.run(UHAL_OP_REDUCE, {&overlaps}, {&best}, &most);
  const Scratch test(context, UHAL_BOOL, y);
  const View largest = best.reshaped(y.shape, y.rank);
  context.map(uhal_map_greater, {&largest, &limit}, {&test});
  context.map(uhal_map_select, {&test, &ignored, &y}, {&y});
}

// best and place (images, boxes; int64) = the anchor that is most like a box, and where that is among those of this
// head; -1 for none.
void find_anchors(const Context& context, const Head& head, const View& is_box, const View& best, const View& place) {
  const uhal_dtype dtype = head.x.dtype;
  const auto all = static_cast<int64_t>(head.of.widths.size());
  const Numbers widths(context, dtype, head.of.widths), heights(context, dtype, head.of.heights);
  // Around one center.
  const Scratch of_anchors(context, dtype, {1, 1, all, 4}), of_boxes(context, dtype, {head.images, head.count, 1, 4}),
      corners(context, dtype, of_anchors), other_corners(context, dtype, of_boxes);
  fill_zero(context, of_anchors);
  copy_or_cast(context, widths, last(of_anchors, 2));
  copy_or_cast(context, heights, last(of_anchors, 3));
  fill_zero(context, of_boxes);
  copy_or_cast(context, head.boxes.sliced(2, 2, 2), of_boxes.reshaped({head.images, head.count, 4}).sliced(2, 2, 2));
  corners_of(context, of_anchors, corners);
  corners_of(context, of_boxes, other_corners);
  const Scratch overlaps(context, dtype, {head.images, head.count, all});
  overlaps_of(context, corners, other_corners, overlaps);
  const auto largest = axis_attributes(2, true);
  const View of_best = best.unsqueezed(2);
  context.run(UHAL_OP_ARG_REDUCE, {&overlaps}, {&of_best}, &largest);
  const Numbers places(context, UHAL_INT64, head.of.places);
  const auto along = index_attributes(0);
  const Constant none(context, UHAL_INT64, -1);
  context.run(UHAL_OP_GATHER, {&places, &best}, {&place}, &along);
  context.map(uhal_map_select, {&is_box, &place, &none}, {&place});
}

// The boxes that belong to a cell of this head, and what is to be said there.
class Matches {
 public:
  // places (images, boxes): as find_anchors finds them.
  Matches(const Context& context, const Head& head, const View& places)
      : is_match(context, UHAL_BOOL, places),
        at(context, UHAL_INT64, {head.images, head.count, 3}),
        said(context, head.x.dtype, {head.images, head.count, head.entries}),
        goal(context, head.x.dtype, {head.images, head.count, 4}),
        weight(context, head.x.dtype, places),
        wanted(context, head.x.dtype, {head.images, head.count, head.of.classes}),
        head_(head) {
    const Constant zero(context, UHAL_INT64, 0);
    context.map(uhal_map_greater_equal, {&places, &zero}, {&is_match});
    // Where: the image, the anchor and the cell.
    const View image = last(at, 0), anchor = last(at, 1), cell = last(at, 2);
    const Scratch numbers(context, UHAL_INT64, {head.images, 1});
    count_up(context, numbers.reshaped({head.images}));
    copy_or_cast(context, numbers, image);
    context.map(uhal_map_multiply, {&places, &is_match}, {&anchor});
    const Scratch scaled(context, head.x.dtype, places), part(context, head.x.dtype, places),
        column(context, UHAL_INT64, places);
    for (int axis = 1; axis >= 0; --axis) {
      const View center = last(head.boxes, axis);
      context.map(uhal_map_scale, {&center}, {&scaled}, {static_cast<double>(axis == 0 ? head.width : head.height), 0});
      copy_or_cast(context, scaled, axis == 0 ? static_cast<const View&>(column) : cell);
      // What the box is to be: its place within the cell, of a grid that is as high as wide.
      context.map(uhal_map_scale, {&center}, {&scaled}, {static_cast<double>(head.height), 0});
      copy_or_cast(context, axis == 0 ? static_cast<const View&>(column) : cell, part);
      const View target = last(goal, axis);
      context.map(uhal_map_subtract, {&scaled, &part}, {&target});
      if (axis == 1) context.map(uhal_map_scale, {&cell}, {&cell}, {static_cast<double>(head.width), 0});
    }
    context.map(uhal_map_add, {&cell, &column}, {&cell});
    context.map(uhal_map_multiply, {&cell, &is_match}, {&cell});
    const View rows = by_cell(head.x);
    const auto along = index_attributes(0);
    context.run(UHAL_OP_GATHER_ND, {&rows, &at}, {&said}, &along);
    // The logarithm of its size over its anchor's. Larger boxes have less weight.
    set_sizes(context, places);
    const View wide = last(head.boxes, 2), tall = last(head.boxes, 3);
    context.map(uhal_map_multiply, {&wide, &tall}, {&weight});
    context.map(uhal_map_scale, {&weight}, {&weight}, {-1, 2});
    context.map(uhal_map_multiply, {&weight, &head.scores}, {&weight});
    const Scratch classes(context, UHAL_INT64, {head.of.classes}), is_class(context, UHAL_BOOL, wanted);
    count_up(context, classes);
    const View label = head.labels.unsqueezed(2);
    const Constant positive(context, head.x.dtype, head.of.positive), negative(context, head.x.dtype, head.of.negative);
    context.map(uhal_map_equal, {&label, &classes}, {&is_class});
    context.map(uhal_map_select, {&is_class, &positive, &negative}, {&wanted});
  }

  const Scratch is_match;  // (images, boxes)
  const Scratch at;        // (images, boxes, 3): image, anchor and cell; the first of what does not match
  const Scratch said;      // (images, boxes, entries)
  const Scratch goal;      // (images, boxes, 4)
  const Scratch weight;    // (images, boxes)
  const Scratch wanted;    // (images, boxes, classes)

  // (images, anchors, cells, entries) of (images, anchors, entries, cells)
  static View by_cell(const View& x) { return x.transposed(2, 3); }

  // y (images, anchors, cells, ...), at the boxes' cells, = values; of several boxes those of the last one.
  void write(const Context& context, const View& values, const View& y) const {
    // An image that is not there drops what does not match.
    const Scratch places(context, UHAL_INT64, at);
    const Constant nowhere(context, UHAL_INT64, static_cast<double>(head_.images));
    copy_or_cast(context, at, places);
    const View image = last(places, 0);
    context.map(uhal_map_select, {&is_match, &image, &nowhere}, {&image});
    auto attributes = index_attributes(0);
    attributes.ignore_out_of_range = 1;
    context.run(UHAL_OP_SCATTER_ND, {&places, &values}, {&y}, &attributes);
  }

 private:
  void set_sizes(const Context& context, const View& places) const {
    for (int axis = 0; axis < 2; ++axis) {
      std::vector<double> sides;
      for (const int anchor : head_.of.mask) {
        sides.push_back((axis == 0 ? head_.of.widths : head_.of.heights)[static_cast<size_t>(anchor)]);
      }
      const Numbers of_anchors(context, head_.x.dtype, sides);
      const Scratch side(context, head_.x.dtype, places), anchor(context, UHAL_INT64, places);
      copy_or_cast(context, last(at, 1), anchor);
      const auto along = index_attributes(0);
      context.run(UHAL_OP_GATHER, {&of_anchors, &anchor}, {&side}, &along);
      const View size = last(head_.boxes, 2 + axis), target = last(goal, 2 + axis);
      context.map(uhal_map_divide, {&size, &side}, {&target});
      context.map(uhal_map_log, {&target}, {&target});
    }
  }

  const Head& head_;
};

// y = softplus(x) - x z: the cross entropy of sigmoid(x) with z
void cross_entropy(const Context& context, const View& x, const View& z, const View& y) {
  const Scratch product(context, y.dtype, y);
  context.map(uhal_map_multiply, {&x, &z}, {&product});
  context.map(uhal_map_softplus, {&x}, {&y}, {1, kLinear});
  context.map(uhal_map_subtract, {&y, &product}, {&y});
}

// Adds, for each image, the values (images, ...) to its loss. What is not to count is 0 in `counts`, which broadcasts.
void add_to_loss(const Context& context, const View& values, const View& counts, const View& loss) {
  if (values.elements() == 0) return;
  const Constant zero(context, values.dtype, 0);
  const Scratch sum(context, loss.dtype, {loss.shape[0], 1});
  context.map(uhal_map_select, {&counts, &values, &zero}, {&values});
  const View rows = values.reshaped({loss.shape[0], values.elements() / loss.shape[0]});
  const auto add = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&rows}, {&sum}, &add);
  const View part = sum.reshaped({loss.shape[0]});
  context.map(uhal_map_add, {&loss, &part}, {&loss});
}

// Whether there is an object at a cell, and how much that counts: its score; 1 where there is none and 0 where that is
// not to be told.
void set_objects(const Context& context, const View& objects, const View& is_object, const View& weights) {
  const Constant least(context, objects.dtype, kLeastScore), none(context, objects.dtype, -0.5);
  context.map(uhal_map_greater, {&objects, &none}, {&weights});
  context.map(uhal_map_greater, {&objects, &least}, {&is_object});
  context.map(uhal_map_select, {&is_object, &objects, &weights}, {&weights});
}

void yolo_loss(Context context, Input x, Input gt_box, Input gt_label, OptionalInput gt_score, Span<int> anchors,
               Span<int> mask, int classes, float threshold, int ratio, bool smooth, float scale, Output loss,
               Output objectness, Output match) {
  const Head head(context, x.view(), gt_box.view(), gt_label.view(), gt_score, anchors, mask, classes, ratio, smooth);
  const uhal_dtype dtype = head.x.dtype;
  const int64_t of_objects[] = {head.images, head.anchors, head.height, head.width},
                of_matches[] = {head.images, head.count};
  const View losses = context.allocate(loss, dtype, &head.images, 1);
  const View objects =
      context.allocate(objectness, dtype, of_objects, 4).reshaped({head.images, head.anchors, head.cells});
  const View matched = context.allocate(match, UHAL_INT32, of_matches, 2);
  fill_zero(context, losses);
  if (head.images == 0) return;
  const Scratch is_box(context, UHAL_BOOL, matched);
  if (head.count > 0) find_boxes(context, head.boxes, is_box);
  find_ignored(context, head, is_box, static_cast<double>(threshold), static_cast<double>(scale), objects);
  if (head.count > 0 && head.cells > 0) {
    const Scratch best(context, UHAL_INT64, matched), places(context, UHAL_INT64, matched);
    find_anchors(context, head, is_box, best, places);
    copy_or_cast(context, places, matched);
    const Matches matches(context, head, places);
    matches.write(context, head.scores, objects);
    const Scratch part(context, dtype, {head.images, head.count, 2}), of_classes(context, dtype, matches.wanted);
    const View counts = matches.is_match.unsqueezed(2), weight = matches.weight.unsqueezed(2),
               score = head.scores.unsqueezed(2);
    cross_entropy(context, matches.said.sliced(2, 0, 2), matches.goal.sliced(2, 0, 2), part);
    context.map(uhal_map_multiply, {&part, &weight}, {&part});
    add_to_loss(context, part, counts, losses);
    const View size = matches.said.sliced(2, 2, 2), goal = matches.goal.sliced(2, 2, 2);
    context.map(uhal_map_subtract, {&size, &goal}, {&part});
    context.map(uhal_map_absolute, {&part}, {&part});
    context.map(uhal_map_multiply, {&part, &weight}, {&part});
    add_to_loss(context, part, counts, losses);
    cross_entropy(context, matches.said.sliced(2, 5, classes), matches.wanted, of_classes);
    context.map(uhal_map_multiply, {&of_classes, &score}, {&of_classes});
    add_to_loss(context, of_classes, counts, losses);
  } else if (head.count > 0) {
    fill(context, matched, -1, -1);
  }
  if (objects.elements() == 0) return;
  const Scratch is_object(context, UHAL_BOOL, objects), weights(context, dtype, objects), part(context, dtype, objects);
  set_objects(context, objects, is_object, weights);
  cross_entropy(context, head.entry(4), is_object, part);
  context.map(uhal_map_multiply, {&part, &weights}, {&part});
  add_to_loss(context, part, weights, losses);
}

void yolo_loss_grad(Context context, Input x, Input gt_box, Input gt_label, OptionalInput gt_score, Input objectness,
                    Input match, Input dloss, Span<int> anchors, Span<int> mask, int classes, float, int ratio,
                    bool smooth, float, Output dx, Output dbox, Output dlabel, Output dscore) {
  const Head head(context, x.view(), gt_box.view(), gt_label.view(), gt_score, anchors, mask, classes, ratio, smooth);
  const uhal_dtype dtype = head.x.dtype;
  // Paddle's loss is not derived by these.
  const View &b = head.boxes, &l = head.labels;
  if (dbox) fill_zero(context, context.allocate(dbox, dtype, b.shape, b.rank));
  if (dlabel) fill_zero(context, context.allocate(dlabel, l.dtype, l.shape, l.rank));
  if (dscore) fill_zero(context, context.allocate(dscore, dtype, l.shape, l.rank));
  if (!dx) return;
  const View out = context.allocate(dx, dtype).reshaped(head.x.shape, 4);
  fill_zero(context, out);
  if (out.elements() == 0) return;
  const View objects = objectness.view(), given = match.view(), losses = dloss.view();
  if (objects.elements() != head.images * head.anchors * head.cells || losses.elements() != head.images ||
      given.elements() != head.images * head.count) {
    invalid(context, "objectness_mask, gt_match_mask and the loss's gradient have not the forward's shapes");
  }
  const View factors = losses.reshaped({head.images, 1, 1});
  {
    const View cells = objects.reshaped({head.images, head.anchors, head.cells});
    const Scratch is_object(context, UHAL_BOOL, cells), weights(context, dtype, cells), part(context, dtype, cells);
    set_objects(context, cells, is_object, weights);
    View target = out.sliced(2, 4, 1), sure = head.entry(4);
    target.rank = 3;
    target.shape[2] = head.cells;
    target.strides[2] = 1;
    context.map(uhal_map_sigmoid, {&sure}, {&part});
    context.map(uhal_map_subtract, {&part, &is_object}, {&part});
    context.map(uhal_map_multiply, {&part, &weights}, {&part});
    context.map(uhal_map_multiply, {&part, &factors}, {&target});
  }
  if (head.count == 0) return;
  const Scratch places(context, UHAL_INT64, {head.images, head.count});
  copy_or_cast(context, given.reshaped({head.images, head.count}), places);
  const Matches matches(context, head, places);
  const Scratch of_box(context, dtype, matches.goal), of_classes(context, dtype, matches.wanted);
  const View weight = matches.weight.unsqueezed(2), score = head.scores.unsqueezed(2);
  const View center = matches.said.sliced(2, 0, 2), goal = matches.goal.sliced(2, 0, 2),
             of_center = of_box.sliced(2, 0, 2);
  context.map(uhal_map_sigmoid, {&center}, {&of_center});
  context.map(uhal_map_subtract, {&of_center, &goal}, {&of_center});
  const View size = matches.said.sliced(2, 2, 2), wanted_size = matches.goal.sliced(2, 2, 2),
             of_size = of_box.sliced(2, 2, 2);
  context.map(uhal_map_greater, {&size, &wanted_size}, {&of_size});
  context.map(uhal_map_scale, {&of_size}, {&of_size}, {2, -1});
  context.map(uhal_map_multiply, {&of_box, &weight}, {&of_box});
  context.map(uhal_map_multiply, {&of_box, &factors}, {&of_box});
  const View said = matches.said.sliced(2, 5, classes);
  context.map(uhal_map_sigmoid, {&said}, {&of_classes});
  context.map(uhal_map_subtract, {&of_classes, &matches.wanted}, {&of_classes});
  context.map(uhal_map_multiply, {&of_classes, &score}, {&of_classes});
  context.map(uhal_map_multiply, {&of_classes, &factors}, {&of_classes});
  matches.write(context, of_box, Matches::by_cell(out.sliced(2, 0, 4)));
  matches.write(context, of_classes, Matches::by_cell(out.sliced(2, 5, classes)));
}

}  // namespace

KernelTable yolo_loss_kernels() {
  return {
      UNIHAL_KERNEL("yolo_loss", kWideFloats, yolo_loss),
      UNIHAL_KERNEL("yolo_loss_grad", kWideFloats, yolo_loss_grad),
  };
}

}  // namespace unihal::paddle
