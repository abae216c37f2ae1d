// Detections of several classes: of the boxes of a class those that are kept, or scores that overlaps lower. The output
// has a row for each, and the host waits for their number; where boxes come image after image, for how many an image
// has.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// Elements of the matrices of overlaps that are worked on at once.
constexpr int64_t kMatrixElements = int64_t{1} << 24;

// The boxes and scores of a call, or of one image of it.
struct Scored {
  View scores;  // (images, classes, boxes), any strides
  View boxes;   // (rows, 4)
  // In which row the box of an image, a class and a number is: each times its factor, and the first.
  int64_t first, of_image, of_class, of_box;

  int64_t images() const { return scores.shape[0]; }
  int64_t classes() const { return scores.shape[1]; }
  int64_t count() const { return scores.shape[2]; }
};

// y (images, classes, k) = the rows of boxes with these numbers (of y's shape, or broadcast to it).
void find_rows(const Context& context, const Scored& of, const View& numbers, const View& y) {
  const Scratch images(context, UHAL_INT64, {of.images(), 1, 1}), classes(context, UHAL_INT64, {1, of.classes(), 1});
  count_up(context, flat(images), 0, static_cast<double>(of.of_image));
  count_up(context, flat(classes), 0, static_cast<double>(of.of_class));
  context.map(uhal_map_add, {&images, &classes}, {&y});
  const Scratch scaled(context, UHAL_INT64, numbers);
  context.map(uhal_map_scale, {&numbers}, {&scaled}, {static_cast<double>(of.of_box), static_cast<double>(of.first)});
  context.map(uhal_map_add, {&y, &scaled}, {&y});
}

// Of each class the boxes with the best scores, in their order: (images, classes, kept).
struct Candidates {
  int64_t images, classes, kept;
  Scratch order;  // their numbers
  Scratch rows;   // and rows
  Scratch scores;
  Scratch counts;  // whether the score is above the threshold, and the class is not the background

  // `keys` is the dtype that scores are compared in.
  Candidates(const Context& context, const Scored& of, double threshold, int most, int background, uhal_dtype keys)
      : images(of.images()),
        classes(of.classes()),
        kept(most < 0 ? of.count() : std::min<int64_t>(most, of.count())),
        order(context, UHAL_INT64, {images, classes, kept}),
        rows(context, UHAL_INT64, {images, classes, kept}),
        scores(context, of.scores.dtype, {images, classes, kept}),
        counts(context, UHAL_BOOL, {images, classes, kept}) {
    if (order.elements() == 0) return;
    // Scores that are too low, or none at all (NaN), come last: they suppress none before them.
    const uhal_dtype dtype = of.scores.dtype;
    const Constant least(context, dtype, threshold), lowest(context, dtype, -HUGE_VAL);
    const Scratch enough(context, UHAL_BOOL, of.scores), usable(context, keys, of.scores), best(context, keys, order);
    context.map(uhal_map_greater, {&of.scores, &least}, {&enough});
    if (background >= 0 && background < classes) fill_zero(context, enough.sliced(1, background, 1));
    context.map(uhal_map_select, {&enough, &of.scores, &lowest}, {&usable});
    const auto descending = axis_attributes(2, true);
    context.run(UHAL_OP_TOP_K, {&usable}, {&best, &order}, &descending);
    const auto elements = index_attributes(2);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&of.scores, &order}, {&scores}, &elements);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&enough, &order}, {&counts}, &elements);
    find_rows(context, of, order, rows);
  }

  // y (images * classes, kept, 4)
  void take_boxes(const Context& context, const View& boxes, const View& y) const {
    gather_rows(context, boxes.sliced(1, 0, 4), rows.reshaped({images * classes, kept}), y);
  }
};

// best, at (lists, most): the largest of `scores` (lists, length) that are chosen, ties by the lower place; the rest is
// of those that are not.
void find_best_scores(const Context& context, const View& scores, const View& chosen, const View& best,
                      const View& at) {
  const Constant lowest(context, best.dtype, -HUGE_VAL);
  const Scratch left(context, best.dtype, chosen);
  context.map(uhal_map_select, {&chosen, &scores, &lowest}, {&left});
  const auto descending = axis_attributes(1, true);
  context.run(UHAL_OP_TOP_K, {&left}, {&best, &at}, &descending);
}

// Of `chosen` (lists, length) those with the best scores stay, `most` a list.
void keep_best(const Context& context, const View& scores, uhal_dtype keys, int most, const View& chosen) {
  const int64_t lists = chosen.shape[0], length = chosen.shape[1];
  if (most < 0 || most >= length) return;
  if (most == 0) return fill_zero(context, chosen);
  const Scratch best(context, keys, {lists, most}), at(context, UHAL_INT64, {lists, most});
  find_best_scores(context, scores, chosen, best, at);
  const Scratch first(context, UHAL_BOOL, chosen), yes(context, UHAL_BOOL, at);
  fill_zero(context, first);
  fill(context, yes, 1, 1);
  const auto elements = index_attributes(1);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &yes}, {&first}, &elements);
  context.map(uhal_map_logical_and, {&chosen, &first}, {&chosen});
}

// y (images) int32 = how many of each image are chosen (images, length).
void count_chosen(const Context& context, const View& chosen, const View& y) {
  const Scratch ones(context, UHAL_INT32, chosen);
  copy_or_cast(context, chosen, ones);
  const View sums = y.reshaped({y.elements(), 1});
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&ones}, {&sums}, &sum);
}

// Rows of the output: (class, score, box), and in which row the box was.
struct Detections {
  int64_t count = 0;
  std::optional<Scratch> values, boxes;

  // Those at `places` (count) of lists for each class, `length` long; scores and rows are all lists in a row.
  Detections(const Context& context, const Scored& of, const View& places, int64_t length, const View& scores,
             const View& rows)
      : count(places.shape[0]) {
    const int64_t width = of.boxes.shape[1];
    values.emplace(context, of.boxes.dtype, std::initializer_list<int64_t>{count, 2 + width});
    boxes.emplace(context, UHAL_INT64, std::initializer_list<int64_t>{count});
    const Constant whole(context, UHAL_INT64, static_cast<double>(length)),
        classes(context, UHAL_INT64, static_cast<double>(of.classes()));
    const Scratch labels(context, UHAL_INT64, places), chosen(context, of.boxes.dtype, {count, width}),
        marks(context, scores.dtype, places);
    context.map(uhal_map_floor_divide, {&places, &whole}, {&labels});
    context.map(uhal_map_floor_mod, {&labels, &classes}, {&labels});
    gather_rows(context, scores, places, marks);
    gather_rows(context, rows, places, *boxes);
    gather_rows(context, of.boxes, *boxes, chosen);
    copy_or_cast(context, labels.unsqueezed(1), values->sliced(1, 0, 1));
    copy_or_cast(context, marks.unsqueezed(1), values->sliced(1, 1, 1));
    copy_or_cast(context, chosen, values->sliced(1, 2, width));
  }
};

// The positions at which a mask is not 0, in one row. The host waits for their number.
class MaskPositions {
 public:
  MaskPositions(const Context& context, const View& mask) : all_(context, UHAL_INT64, {mask.elements()}) {
    const Scratch number(context, UHAL_INT64, {1});
    context.run(UHAL_OP_NONZERO, {&mask}, {&number, &all_});
    count_ = static_cast<int64_t>(read_number(context, number));
  }
  int64_t count() const { return count_; }
  View view() const { return all_.reshaped({count_}); }

 private:
  const Scratch all_;
  int64_t count_ = 0;
};

void require_layout(const Context& context, const View& boxes, const View& scores) {
  require_same_dtype(context, boxes, scores);
  const bool by_class = scores.rank == 2;
  const bool fits =
      boxes.rank == 3 &&
      (by_class ? boxes.shape[0] == scores.shape[0] && boxes.shape[1] == scores.shape[1]
                : scores.rank == 3 && boxes.shape[0] == scores.shape[0] && boxes.shape[1] == scores.shape[2]);
  if (!fits) {
    invalid(context,
            "expected bboxes (images, boxes, 4) with scores (images, classes, boxes), or bboxes (boxes, classes, 4) "
            "with scores (boxes, classes)");
  }
  if (boxes.shape[2] != 4) unsupported(context, "a box of " + std::to_string(boxes.shape[2]) + " numbers");
}

// Boxes that all classes share, image after image.
Scored of_images(const View& boxes, const View& scores) {
  return {scores, boxes.reshaped({boxes.shape[0] * boxes.shape[1], boxes.shape[2]}), 0, boxes.shape[1], 0, 1};
}

void give(const Context& context, const std::deque<Detections>& parts, const View& boxes, Output y, Output index) {
  int64_t count = 0, done = 0;
  for (const Detections& part : parts) count += part.count;
  const bool marked = count == 0 && !index;  // an old program's way to say that there is nothing
  const int64_t dims[] = {marked ? 1 : count, marked ? 1 : 2 + boxes.shape[2]}, column[] = {count, 1};
  const View out = context.allocate(y, boxes.dtype, dims, 2);
  if (marked) fill(context, out, -1, -1);
  View rows;
  if (index) rows = context.allocate(index, UHAL_INT32, column, 2);
  for (const Detections& part : parts) {
    copy_or_cast(context, *part.values, out.sliced(0, done, part.count));
    if (index) copy_or_cast(context, part.boxes->unsqueezed(1), rows.sliced(0, done, part.count));
    done += part.count;
  }
}

// -- hard suppression

struct Suppression {
  float score_threshold;
  int nms_top_k, keep_top_k;
  uhal_non_max_suppression_attributes attributes;
  int background;
  // Scores are put in order as float32, whatever they are: so ties are, too.
  static constexpr uhal_dtype kKeys = UHAL_FLOAT32;
};

// Adds the detections of some images, and writes how many each has to y (images) int32. Where each class has boxes of
// its own, they come in the order of their numbers, else in that of their scores.
void suppress(const Context& context, const Suppression& how, const Scored& of, bool by_number, const View& y,
              std::deque<Detections>& parts) {
  const Candidates best(context, of, static_cast<double>(how.score_threshold), how.nms_top_k, how.background,
                        Suppression::kKeys);
  if (best.order.elements() == 0) return fill_zero(context, y);
  const int64_t lists = best.images * best.classes;
  const Scratch boxes(context, of.boxes.dtype, {lists, best.kept, 4}), keep(context, UHAL_BOOL, best.order);
  best.take_boxes(context, of.boxes, boxes);
  const View answers = keep.reshaped({lists, best.kept});
  context.run(UHAL_OP_NON_MAX_SUPPRESSION, {&boxes}, {&answers}, &how.attributes);
  context.map(uhal_map_logical_and, {&keep, &best.counts}, {&keep});
  const View chosen = keep.reshaped({best.images, best.classes * best.kept});
  keep_best(context, best.scores.reshaped({best.images, best.classes * best.kept}), Suppression::kKeys, how.keep_top_k,
            chosen);
  count_chosen(context, chosen, y);
  if (!by_number) {
    const MaskPositions places(context, chosen);
    if (places.count() == 0) return;
    parts.emplace_back(context, of, places.view(), best.kept, flat(best.scores), flat(best.rows));
    return;
  }
  const Scratch in_order(context, UHAL_BOOL, of.scores), scores(context, of.scores.dtype, of.scores),
      rows(context, UHAL_INT64, of.scores), numbers(context, UHAL_INT64, {of.count()});
  fill_zero(context, in_order);
  const auto elements = index_attributes(2);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&best.order, &keep}, {&in_order}, &elements);
  const MaskPositions places(context, in_order);
  if (places.count() == 0) return;
  copy_or_cast(context, of.scores, scores);
  count_up(context, numbers);
  find_rows(context, of, numbers.reshaped({1, 1, of.count()}), rows);
  parts.emplace_back(context, of, places.view(), of.count(), flat(scores), flat(rows));
}

// How many boxes each image has; the host waits for the numbers.
std::vector<int64_t> numbers_of_boxes(const Context& context, const OptionalInput& given, int64_t boxes) {
  if (!given) unsupported(context, "a box for each class without rois_num");
  const View numbers = flat(given.view());
  std::vector<int64_t> result(static_cast<size_t>(numbers.elements()));
  if (result.empty()) return result;
  const Scratch wide(context, UHAL_INT64, numbers);
  copy_or_cast(context, numbers, wide);
  uhal_stream* stream = context.stream()->handle;
  context.check(uhal_copy(stream, result.data(), wide.data, result.size() * sizeof(int64_t), UHAL_COPY_DEVICE_TO_HOST));
  context.check(uhal_stream_synchronize(stream));
  int64_t sum = 0;
  for (const int64_t number : result) {
    if (number < 0 || number > boxes - sum) {
      invalid(context, "rois_num has more than the " + std::to_string(boxes) + " boxes, or less than none");
    }
    sum += number;
  }
  return result;
}

void multiclass_nms3(Context context, Input bboxes, Input scores, OptionalInput rois_num, float score_threshold,
                     int nms_top_k, int keep_top_k, float nms_threshold, bool normalized, float nms_eta,
                     int background_label, Output y, Output index, Output numbers) {
  const View boxes = bboxes.view(), all = scores.view();
  require_layout(context, boxes, all);
  Suppression how = {score_threshold, nms_top_k, keep_top_k, {}, background_label};
  how.attributes.struct_size = sizeof how.attributes;
  how.attributes.threshold = static_cast<double>(nms_threshold);
  how.attributes.decay = nms_eta < 1 ? static_cast<double>(nms_eta) : 1;
  how.attributes.extent = normalized ? 0 : 1;
  how.attributes.ordered = 1;
  std::deque<Detections> parts;
  if (all.rank == 3) {
    const Scratch counts(context, UHAL_INT32, {all.shape[0]});
    suppress(context, how, of_images(boxes, all), false, counts, parts);
    give(context, parts, boxes, y, index);
    if (numbers) copy_or_cast(context, counts, context.allocate(numbers, UHAL_INT32, all.shape, 1));
    return;
  }
  const std::vector<int64_t> images = numbers_of_boxes(context, rois_num, all.shape[0]);
  const auto count = static_cast<int64_t>(images.size());
  const int64_t classes = all.shape[1];
  const Scratch counts(context, UHAL_INT32, {count});
  int64_t first = 0;
  for (int64_t i = 0; i < count; first += images[static_cast<size_t>(i++)]) {
    const View own = all.sliced(0, first, images[static_cast<size_t>(i)]).transposed().unsqueezed(0);
    const Scored of = {own, boxes.reshaped({boxes.shape[0] * classes, 4}), first * classes, 0, 1, classes};
    suppress(context, how, of, true, counts.sliced(0, i, 1), parts);
  }
  give(context, parts, boxes, y, index);
  if (numbers) copy_or_cast(context, counts, context.allocate(numbers, UHAL_INT32, &count, 1));
}

// -- scores that overlaps lower

struct Decay {
  bool gaussian;
  double sigma;
  double extent;
};

// factors (lists, n, 1) = how much the boxes before each lower its score: the least decay by one of them, whose own
// overlap with better ones weakens it. What is no number counts for nothing.
void find_factors(const Context& context, const Decay& decay, const View& boxes, const View& factors) {
  const int64_t lists = boxes.shape[0], n = boxes.shape[1];
  const Scratch planes(context, boxes.dtype, {4, lists, n}), overlaps(context, boxes.dtype, {lists, n, n}),
      largest(context, boxes.dtype, {lists, n, 1}), before(context, UHAL_BOOL, {1, n, n});
  const Constant zero(context, boxes.dtype, 0), one(context, boxes.dtype, 1);
  View own[4], other[4];
  for (int i = 0; i < 4; ++i) {  // the numbers of a row of overlaps lie side by side
    const View plane = planes.sliced(0, i, 1).reshaped({lists, n, 1});
    copy_or_cast(context, boxes.sliced(2, i, 1), plane);
    own[i] = plane;
    other[i] = plane.transposed();
  }
  context.map(uhal_map_box_overlap, {&own[0], &own[1], &own[2], &own[3], &other[0], &other[1], &other[2], &other[3]},
              {&overlaps}, {decay.extent});
  uhal_triangular_attributes below = {};
  below.struct_size = sizeof below;
  below.diagonal = -1;
  fill(context, before, 1, 1);
  context.run(UHAL_OP_TRIANGULAR, {&before}, {&before}, &below);
  Chain counted(3);
  counted.step(uhal_map_select, {1, counted.step(uhal_map_fmax, {0, 2}), 2});
  context.run(UHAL_OP_MAP_CHAIN, {&overlaps, &before, &zero}, {&overlaps}, counted.program());
  const auto maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM), minimum = reduce_attributes(UHAL_REDUCE_MINIMUM);
  context.run(UHAL_OP_REDUCE, {&overlaps}, {&largest}, &maximum);
  Chain decays(4);
  int value;
  if (decay.gaussian) {
    const int weakened = decays.step(uhal_map_square, {1}), overlap = decays.step(uhal_map_square, {0});
    const int difference = decays.step(uhal_map_subtract, {weakened, overlap});
    value = decays.step(uhal_map_exp, {decays.step(uhal_map_scale, {difference}, {decay.sigma, 0})});
  } else {
    const int rest = decays.step(uhal_map_scale, {0}, {-1, 1}), weakened = decays.step(uhal_map_scale, {1}, {-1, 1});
    value = decays.step(uhal_map_divide, {rest, weakened});
  }
  decays.step(uhal_map_select, {2, decays.step(uhal_map_fmin, {value, 3}), 3});
  const View of_others = largest.reshaped({lists, 1, n});
  context.run(UHAL_OP_MAP_CHAIN, {&overlaps, &of_others, &before, &one}, {&overlaps}, decays.program());
  context.run(UHAL_OP_REDUCE, {&overlaps}, {&factors}, &minimum);
}

void matrix_nms(Context context, Input bboxes, Input scores, float score_threshold, int nms_top_k, int keep_top_k,
                float post_threshold, bool use_gaussian, float gaussian_sigma, int background_label, bool normalized,
                Output y, Output index, Output numbers) {
  const View boxes = bboxes.view(), all = scores.view();
  require_layout(context, boxes, all);
  if (all.rank != 3) invalid(context, "expected scores of shape (images, classes, boxes)");
  const Scored of = of_images(boxes, all);
  const Candidates best(context, of, static_cast<double>(score_threshold), nms_top_k, background_label, all.dtype);
  std::deque<Detections> parts;
  const Scratch counts(context, UHAL_INT32, {best.images});
  const int64_t length = best.classes * best.kept,
                most = keep_top_k < 0 ? length : std::min<int64_t>(keep_top_k, length);
  if (best.images * most == 0) {
    fill_zero(context, counts);
  } else {
    const int64_t lists = best.images * best.classes;
    const Scratch chosen_boxes(context, boxes.dtype, {lists, best.kept, 4}),
        factors(context, boxes.dtype, {lists, best.kept, 1});
    best.take_boxes(context, of.boxes, chosen_boxes);
    const Decay decay = {use_gaussian, static_cast<double>(gaussian_sigma), normalized ? 0.0 : 1.0};
    const int64_t step = std::max<int64_t>(1, kMatrixElements / (best.kept * best.kept));
    for (int64_t first = 0; first < lists; first += step) {
      const int64_t now = std::min(step, lists - first);
      find_factors(context, decay, chosen_boxes.sliced(0, first, now), factors.sliced(0, first, now));
    }
    const View lowered = factors.reshaped({best.images, best.classes, best.kept});
    context.map(uhal_map_multiply, {&lowered, &best.scores}, {&lowered});
    const Constant least(context, boxes.dtype, static_cast<double>(post_threshold));
    const Scratch enough(context, UHAL_BOOL, best.order);
    context.map(uhal_map_greater, {&lowered, &least}, {&enough});
    context.map(uhal_map_logical_and, {&enough, &best.counts}, {&enough});
    const Scratch values(context, boxes.dtype, {best.images, most}), at(context, UHAL_INT64, {best.images, most}),
        images(context, UHAL_INT64, {best.images, 1}), chosen(context, UHAL_BOOL, {best.images, most});
    const View candidates = enough.reshaped({best.images, length});
    find_best_scores(context, lowered.reshaped({best.images, length}), candidates, values, at);
    const auto elements = index_attributes(1);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&candidates, &at}, {&chosen}, &elements);
    count_chosen(context, chosen, counts);
    count_up(context, flat(images), 0, static_cast<double>(length));
    context.map(uhal_map_add, {&at, &images}, {&at});
    const MaskPositions places(context, chosen);
    if (places.count() > 0) {
      const Scratch sources(context, UHAL_INT64, {places.count()});
      gather_rows(context, flat(at), places.view(), sources);
      parts.emplace_back(context, of, sources, best.kept, flat(lowered), flat(best.rows));
    }
  }
  give(context, parts, boxes, y, index);
  if (numbers) copy_or_cast(context, counts, context.allocate(numbers, UHAL_INT32, all.shape, 1));
}

}  // namespace

KernelTable suppression_kernels() {
  return {
      UNIHAL_KERNEL("multiclass_nms3", kWideFloats, multiclass_nms3),
      UNIHAL_KERNEL("matrix_nms", kWideFloats, matrix_nms),
  };
}

}  // namespace unihal::paddle
