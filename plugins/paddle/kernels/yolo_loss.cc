// The loss of YOLOv3's heads (Redmon and Farhadi 2018), and its gradient.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

constexpr double kLeastSide = 1e-6;   // of a box that counts
constexpr double kLeastScore = 1e-5;  // of a cell whose object counts
// Beyond this softplus(x) is x.
constexpr double kLinear = 40;

// y = numbers of the host.
void upload_numbers(const Context& context, const std::vector<double>& values, const View& y) {
  const Scratch wide(context, UHAL_FLOAT64, y);
  const char* bytes = reinterpret_cast<const char*>(values.data());
  upload(context, {bytes, bytes + values.size() * sizeof values[0]}, wide);
  copy_or_cast(context, wide, y);
}

// The same in memory of their own.
class Numbers : public Scratch {
 public:
  Numbers(const Context& context, uhal_dtype dtype, const std::vector<double>& values)
      : Scratch(context, dtype, {static_cast<int64_t>(values.size())}) {
    upload_numbers(context, values, *this);
  }
};

// One of the last axis.
View last(const View& x, int64_t number) {
  View view = x.sliced(x.rank - 1, number, 1);
  --view.rank;
  return view;
}

struct YoloSettings {
  std::vector<double> widths, heights;  // of all anchors, as parts of the image
  std::vector<double> places;           // of each anchor among those of this head; -1: it is none of it
  std::vector<int> mask;                // the anchors of this head
  int classes;
  double positive, negative;  // what classes are to be
};

// What a head says, (images, anchors, 5 + classes, cells), and the boxes that there are.
struct Head {
  YoloSettings of;
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

// The corners of boxes, low and high ones: four planes, which are seen as a last axis of length 4.
class Corners : public Scratch {
 public:
  Corners(const Context& context, uhal_dtype dtype, int64_t images, int64_t rows)
      : Scratch(context, dtype, {4, images, rows}) {}
  View plane(int64_t number) const { return sliced(0, number, 1).reshaped({shape[1], shape[2]}); }
};

// y = how much boxes (images, rows) overlap others.
void overlaps_of(const Context& context, const Corners& boxes, int axis, const Corners& others, const View& y) {
  View own[4], other[4];
  for (int i = 0; i < 4; ++i) {
    own[i] = boxes.plane(i).unsqueezed(axis);
    other[i] = others.plane(i).unsqueezed(3 - axis);
  }
  context.map(uhal_map_box_overlap, {&own[0], &own[1], &own[2], &own[3], &other[0], &other[1], &other[2], &other[3]},
              {&y}, {0});
}

// Whether boxes have an area.
void find_boxes(const Context& context, const View& boxes, const View& y) {
  const View wide = last(boxes, 2), tall = last(boxes, 3);
  Chain program(2);
  const auto is_long = [&](int side) {
    return program.step(uhal_map_equal, {program.step(uhal_map_clip, {side}, {kLeastSide, HUGE_VAL}), side});
  };
  const int first = is_long(0), second = is_long(1);
  program.step(uhal_map_logical_and, {first, second});
  context.run(UHAL_OP_MAP_CHAIN, {&wide, &tall}, {&y}, program.program());
}

// What the cells say of boxes, by one of the head's anchors: where its corners are.
void place_boxes(const Context& context, const Head& head, int64_t anchor, const View& columns, const View& rows,
                 double scale, const Corners& corners) {
  const auto number = static_cast<size_t>(head.of.mask[static_cast<size_t>(anchor)]);
  const double grid = static_cast<double>(head.height);  // in both directions, as in Paddle
  const auto of_cells = [&](const View& view) {          // (images, rows, columns)
    View cells = view.sliced(1, anchor, 1);
    cells.shape[1] = head.height;
    cells.strides[1] = head.width;
    cells.shape[2] = head.width;
    return cells;
  };
  const View x = of_cells(head.entry(0)), y = of_cells(head.entry(1)), width = of_cells(head.entry(2)),
             height = of_cells(head.entry(3));
  Chain program(6);
  const auto along = [&](int place, int at, int length, double side) {
    int center = program.step(uhal_map_sigmoid, {place});
    if (scale != 1) center = program.step(uhal_map_scale, {center}, {scale, 0});
    center = program.step(uhal_map_scale, {program.step(uhal_map_add, {center, at})}, {1 / grid, 0});
    const int half = program.step(uhal_map_scale, {program.step(uhal_map_exp, {length})}, {0.5 * side, 0});
    const int low = program.step(uhal_map_subtract, {center, half}), high = program.step(uhal_map_add, {center, half});
    return std::pair<int, int>(low, high);
  };
  const auto across = along(0, 4, 2, head.of.widths[number]), down = along(1, 5, 3, head.of.heights[number]);
  View to[4];
  for (int i = 0; i < 4; ++i) {
    to[i] = of_cells(corners.plane(i).reshaped({head.images, head.anchors, head.cells}));
  }
  context.run(UHAL_OP_MAP_CHAIN, {&x, &y, &width, &height, &columns, &rows}, {&to[0], &to[1], &to[2], &to[3]},
              program.program({across.first, down.first, across.second, down.second}));
}

// y (images, anchors, cells) = -1 where what a cell says overlaps a box by more than the threshold, else 0: that is no
// object, but not to be told so.
void find_ignored(const Context& context, const Head& head, const View& is_box, double threshold, double scale,
                  const View& y) {
  if (head.count == 0 || y.elements() == 0) return fill_zero(context, y);
  const uhal_dtype dtype = head.x.dtype;
  const int64_t all = head.anchors * head.cells;
  const Corners said(context, dtype, head.images, all), given(context, dtype, head.images, head.count);
  {
    const Scratch columns(context, dtype, {1, 1, head.width}), rows(context, dtype, {1, head.height, 1});
    count_up(context, flat(columns), -0.5 * (scale - 1));
    count_up(context, flat(rows), -0.5 * (scale - 1));
    for (int64_t anchor = 0; anchor < head.anchors; ++anchor) {
      place_boxes(context, head, anchor, columns, rows, scale, said);
    }
  }
  Chain program(4);
  const auto along = [&](int center, int size) {
    const int half = program.step(uhal_map_scale, {size}, {0.5, 0});
    const int low = program.step(uhal_map_subtract, {center, half}), high = program.step(uhal_map_add, {center, half});
    return std::pair<int, int>(low, high);
  };
  const auto across = along(0, 2), down = along(1, 3);
  const View box[] = {last(head.boxes, 0), last(head.boxes, 1), last(head.boxes, 2), last(head.boxes, 3)};
  const View to[] = {given.plane(0), given.plane(1), given.plane(2), given.plane(3)};
  context.run(UHAL_OP_MAP_CHAIN, {&box[0], &box[1], &box[2], &box[3]}, {&to[0], &to[1], &to[2], &to[3]},
              program.program({across.first, down.first, across.second, down.second}));
  const Scratch overlaps(context, dtype, {head.images, head.count, all}), best(context, dtype, {head.images, 1, all});
  overlaps_of(context, said, 1, given, overlaps);
  const View counts = is_box.unsqueezed(2);
  const Constant zero(context, dtype, 0);
  context.map(uhal_map_select, {&counts, &overlaps, &zero}, {&overlaps});
  const auto most = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  context.run(UHAL_OP_REDUCE, {&overlaps}, {&best}, &most);
  const View largest = best.reshaped(y.shape, y.rank);
  Chain beyond(1);
  const int is_beyond = beyond.step(uhal_map_greater, {0, beyond.step(uhal_map_clip, {0}, {-HUGE_VAL, threshold})});
  beyond.step(uhal_map_scale, {is_beyond}, {-1, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&largest}, {&y}, beyond.program());
}

// best and place (images, boxes; int64) = the anchor that is most like a box, and where that is among those of this
// head; -1 for none.
void find_anchors(const Context& context, const Head& head, const View& is_box, const View& best, const View& place) {
  const uhal_dtype dtype = head.x.dtype;
  const auto all = static_cast<int64_t>(head.of.widths.size());
  // Around one center.
  const Corners of_anchors(context, dtype, 1, all), of_boxes(context, dtype, head.images, head.count);
  std::vector<double> ends;
  for (const auto& [sides, factor] : {std::pair(&head.of.widths, -0.5), std::pair(&head.of.heights, -0.5),
                                      std::pair(&head.of.widths, 0.5), std::pair(&head.of.heights, 0.5)}) {
    for (const double side : *sides) ends.push_back(factor * side);
  }
  upload_numbers(context, ends, flat(of_anchors));
  const View wide = last(head.boxes, 2), tall = last(head.boxes, 3);
  const View to[] = {of_boxes.plane(0), of_boxes.plane(1), of_boxes.plane(2), of_boxes.plane(3)};
  Chain halves(2);
  const int left = halves.step(uhal_map_scale, {0}, {-0.5, 0}), top = halves.step(uhal_map_scale, {1}, {-0.5, 0}),
            right = halves.step(uhal_map_scale, {0}, {0.5, 0}), bottom = halves.step(uhal_map_scale, {1}, {0.5, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&wide, &tall}, {&to[0], &to[1], &to[2], &to[3]},
              halves.program({left, top, right, bottom}));
  const Scratch overlaps(context, dtype, {head.images, head.count, all});
  overlaps_of(context, of_anchors, 1, of_boxes, overlaps);
  const auto largest = axis_attributes(2, true);
  const View of_best = best.unsqueezed(2);
  context.run(UHAL_OP_ARG_REDUCE, {&overlaps}, {&of_best}, &largest);
  const Numbers places(context, UHAL_INT64, head.of.places);
  const auto along = index_attributes(0);
  context.run(UHAL_OP_GATHER, {&places, &best}, {&place}, &along);
  Chain chosen(2);
  chosen.step(uhal_map_select, {1, 0, chosen.step(uhal_map_scale, {1}, {0, -1})});
  context.run(UHAL_OP_MAP_CHAIN, {&place, &is_box}, {&place}, chosen.program());
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
    // Where: the image, the anchor and the cell.
    const View image = last(at, 0), anchor = last(at, 1), cell = last(at, 2);
    const Scratch numbers(context, UHAL_INT64, {head.images, 1});
    count_up(context, numbers.reshaped({head.images}));
    Chain which(2);
    const int matches = which.step(uhal_map_greater_equal, {0, which.step(uhal_map_scale, {0}, {0, 0})});
    const int of_match = which.step(uhal_map_multiply, {0, matches});
    context.run(UHAL_OP_MAP_CHAIN, {&places, &numbers}, {&is_match, &anchor, &image},
                which.program({matches, of_match, 1}));
    find_cells(context, cell);
    const View rows = by_cell(head.x);
    const auto along = index_attributes(0);
    context.run(UHAL_OP_GATHER_ND, {&rows, &at}, {&said}, &along);
    set_sizes(context);
    // Larger boxes have less weight.
    const View wide = last(head.boxes, 2), tall = last(head.boxes, 3);
    Chain smaller(3);
    const int rest = smaller.step(uhal_map_scale, {smaller.step(uhal_map_multiply, {0, 1})}, {-1, 2});
    smaller.step(uhal_map_multiply, {rest, 2});
    context.run(UHAL_OP_MAP_CHAIN, {&wide, &tall, &head.scores}, {&weight}, smaller.program());
    const Scratch classes(context, UHAL_INT64, {head.of.classes});
    count_up(context, classes);
    const View label = head.labels.unsqueezed(2);
    Chain answer(2);
    const int is_class = answer.step(uhal_map_equal, {0, 1});
    const int yes = answer.step(uhal_map_scale, {is_class}, {0, head.of.positive}),
              no = answer.step(uhal_map_scale, {is_class}, {0, head.of.negative});
    answer.step(uhal_map_select, {is_class, yes, no});
    context.run(UHAL_OP_MAP_CHAIN, {&label, &classes}, {&wanted}, answer.program());
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
  void write(const Context& context, const View& values, const View& y) {
    // An image that is not there drops what does not match.
    if (!places_) {
      places_.emplace(context, UHAL_INT64, at);
      copy_or_cast(context, at, *places_);
      const View image = last(*places_, 0);
      Chain program(2);
      const int nowhere = program.step(uhal_map_scale, {1}, {0, static_cast<double>(head_.images)});
      program.step(uhal_map_select, {1, 0, nowhere});
      context.run(UHAL_OP_MAP_CHAIN, {&image, &is_match}, {&image}, program.program());
    }
    auto attributes = index_attributes(0);
    attributes.ignore_out_of_range = 1;
    context.run(UHAL_OP_SCATTER_ND, {&*places_, &values}, {&y}, &attributes);
  }

 private:
  // The cells that boxes' centers lie in, 0 of what does not match; and what a center is to be: its place within the
  // cell, of a grid that is as high as wide.
  void find_cells(const Context& context, const View& cell) const {
    const double height = static_cast<double>(head_.height), width = static_cast<double>(head_.width);
    const View x = last(head_.boxes, 0), y = last(head_.boxes, 1), across = last(goal, 0), down = last(goal, 1);
    Chain program(3);
    const int in_grid = program.step(uhal_map_scale, {1}, {height, 0});
    const int row = program.step(uhal_map_truncate, {in_grid});
    const int column = program.step(uhal_map_truncate, {program.step(uhal_map_scale, {0}, {width, 0})});
    const int of_row = program.step(uhal_map_subtract, {in_grid, row});
    const int of_column = program.step(uhal_map_subtract, {program.step(uhal_map_scale, {0}, {height, 0}), column});
    const int number = program.step(uhal_map_add, {program.step(uhal_map_scale, {row}, {width, 0}), column});
    const int none = program.step(uhal_map_scale, {2}, {0, 0});
    const int chosen = program.step(uhal_map_select, {2, number, none});
    context.run(UHAL_OP_MAP_CHAIN, {&x, &y, &is_match}, {&across, &down, &cell},
                program.program({of_column, of_row, chosen}));
  }

  // The logarithm of a box's size over its anchor's.
  void set_sizes(const Context& context) const {
    std::vector<double> sides;
    for (const int anchor : head_.of.mask) {
      sides.push_back(head_.of.widths[static_cast<size_t>(anchor)]);
      sides.push_back(head_.of.heights[static_cast<size_t>(anchor)]);
    }
    const Numbers of_anchors(context, head_.x.dtype, sides);
    const View table = of_anchors.reshaped({head_.anchors, 2}), anchor = last(at, 1);
    const Scratch side(context, head_.x.dtype, {head_.images, head_.count, 2});
    const auto along = index_attributes(0);
    context.run(UHAL_OP_GATHER, {&table, &anchor}, {&side}, &along);
    const View size = head_.boxes.sliced(2, 2, 2), target = goal.sliced(2, 2, 2);
    Chain program(2);
    program.step(uhal_map_log, {program.step(uhal_map_divide, {0, 1})});
    context.run(UHAL_OP_MAP_CHAIN, {&size, &side}, {&target}, program.program());
  }

  const Head& head_;
  std::optional<Scratch> places_;  // as `at`, but of an image that is not there where nothing matches
};

// softplus(x) - x z: the cross entropy of sigmoid(x) with z
int add_cross_entropy(Chain& program, int x, int z) {
  const int product = program.step(uhal_map_multiply, {x, z});
  return program.step(uhal_map_subtract, {program.step(uhal_map_softplus, {x}, {1, kLinear}), product});
}

// value * weight, and 0 where `counts` is
int weighted(Chain& program, int value, int weight, int counts) {
  const int zero = program.step(uhal_map_scale, {counts}, {0, 0});
  return program.step(uhal_map_select, {counts, program.step(uhal_map_multiply, {value, weight}), zero});
}

// Adds, for each image, the values (images, ...) to its loss.
void add_to_loss(const Context& context, const View& values, const View& loss) {
  const Scratch sum(context, loss.dtype, {loss.shape[0], 1});
  const View rows = values.reshaped({loss.shape[0], values.elements() / loss.shape[0]});
  const auto add = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&rows}, {&sum}, &add);
  const View part = sum.reshaped({loss.shape[0]});
  context.map(uhal_map_add, {&loss, &part}, {&loss});
}

// Whether there is an object at a cell, and how much that counts: its score; 1 where there is none and 0 where that is
// not to be told.
struct ObjectSteps {
  int is_object, weight;

  ObjectSteps(Chain& program, int objects) {
    const auto is_above = [&](double limit) {
      return program.step(uhal_map_greater, {objects, program.step(uhal_map_clip, {objects}, {-HUGE_VAL, limit})});
    };
    is_object = is_above(kLeastScore);
    const int is_told = is_above(-0.5);
    weight = program.step(uhal_map_select, {is_object, objects, is_told});
  }
};

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
    Matches matches(context, head, places);
    matches.write(context, head.scores, objects);
    const Scratch part(context, dtype, {head.images, head.count, 2}), of_classes(context, dtype, matches.wanted);
    const View counts = matches.is_match.unsqueezed(2), weight = matches.weight.unsqueezed(2),
               score = head.scores.unsqueezed(2);
    const View center = matches.said.sliced(2, 0, 2), place = matches.goal.sliced(2, 0, 2);
    Chain entropy(4);
    weighted(entropy, add_cross_entropy(entropy, 0, 1), 2, 3);
    context.run(UHAL_OP_MAP_CHAIN, {&center, &place, &weight, &counts}, {&part}, entropy.program());
    add_to_loss(context, part, losses);
    const View size = matches.said.sliced(2, 2, 2), goal = matches.goal.sliced(2, 2, 2);
    Chain apart(4);
    weighted(apart, apart.step(uhal_map_absolute, {apart.step(uhal_map_subtract, {0, 1})}), 2, 3);
    context.run(UHAL_OP_MAP_CHAIN, {&size, &goal, &weight, &counts}, {&part}, apart.program());
    add_to_loss(context, part, losses);
    const View said = matches.said.sliced(2, 5, classes);
    context.run(UHAL_OP_MAP_CHAIN, {&said, &matches.wanted, &score, &counts}, {&of_classes}, entropy.program());
    add_to_loss(context, of_classes, losses);
  } else if (head.count > 0) {
    fill(context, matched, -1, -1);
  }
  if (objects.elements() == 0) return;
  const Scratch part(context, dtype, objects);
  const View sure = head.entry(4);
  Chain program(2);
  const ObjectSteps of(program, 1);
  weighted(program, add_cross_entropy(program, 0, of.is_object), of.weight, of.weight);
  context.run(UHAL_OP_MAP_CHAIN, {&sure, &objects}, {&part}, program.program());
  add_to_loss(context, part, losses);
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
    View target = out.sliced(2, 4, 1);
    target.rank = 3;
    target.shape[2] = head.cells;
    target.strides[2] = 1;
    const View sure = head.entry(4);
    Chain program(3);
    const ObjectSteps of(program, 1);
    const int apart = program.step(uhal_map_subtract, {program.step(uhal_map_sigmoid, {0}), of.is_object});
    program.step(uhal_map_multiply, {program.step(uhal_map_multiply, {apart, of.weight}), 2});
    context.run(UHAL_OP_MAP_CHAIN, {&sure, &cells, &factors}, {&target}, program.program());
  }
  if (head.count == 0) return;
  const Scratch places(context, UHAL_INT64, {head.images, head.count});
  copy_or_cast(context, given.reshaped({head.images, head.count}), places);
  Matches matches(context, head, places);
  const Scratch of_box(context, dtype, matches.goal), of_classes(context, dtype, matches.wanted);
  const View weight = matches.weight.unsqueezed(2), score = head.scores.unsqueezed(2);
  const View center = matches.said.sliced(2, 0, 2), goal = matches.goal.sliced(2, 0, 2),
             of_center = of_box.sliced(2, 0, 2);
  const auto scaled = [](Chain& program, int value) {
    program.step(uhal_map_multiply, {program.step(uhal_map_multiply, {value, 2}), 3});
    return program.program();
  };
  Chain apart(4), sign(4);
  const int difference = apart.step(uhal_map_subtract, {apart.step(uhal_map_sigmoid, {0}), 1});
  const auto* by_difference = scaled(apart, difference);
  context.run(UHAL_OP_MAP_CHAIN, {&center, &goal, &weight, &factors}, {&of_center}, by_difference);
  const View size = matches.said.sliced(2, 2, 2), wanted_size = matches.goal.sliced(2, 2, 2),
             of_size = of_box.sliced(2, 2, 2);
  const int direction = sign.step(uhal_map_scale, {sign.step(uhal_map_greater, {0, 1})}, {2, -1});
  context.run(UHAL_OP_MAP_CHAIN, {&size, &wanted_size, &weight, &factors}, {&of_size}, scaled(sign, direction));
  const View said = matches.said.sliced(2, 5, classes);
  context.run(UHAL_OP_MAP_CHAIN, {&said, &matches.wanted, &score, &factors}, {&of_classes}, by_difference);
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
