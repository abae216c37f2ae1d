// Detectors of two stages: boxes that a head proposes around anchors, and to which level of a pyramid of features each
// belongs. The host waits for how many there are.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/host_tensor.h"
#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

// Column `i` of boxes (rows, 4): (rows).
View column_of(const View& boxes, int64_t i) {
  View result = boxes.sliced(1, i, 1);
  result.rank = 1;
  return result;
}

// One number of a list.
View element(const View& list, int64_t i) { return list.sliced(0, i, 1).reshaped(nullptr, 0); }

// y = high - low + offset, of views of one shape
void length_of(const Context& context, const View& low, const View& high, double offset, const View& y) {
  context.map(uhal_map_subtract, {&high, &low}, {&y});
  if (offset != 0) context.map(uhal_map_scale, {&y}, {&y}, {1, offset});
}

// -- proposals

// How far a box may grow at most: the logarithm of 1000 / 16.
const double kMostGrowth = std::log(1000.0 / 16.0);

struct ProposalSettings {
  int before, after;  // how many boxes are kept before and after the suppression; below 1 before: all
  double overlap, decay, smallest;
  double offset;  // 1: corners are pixels
};

// An image's inputs as lists of anchors: scores (anchors), moves, anchors and variances (anchors, 4).
struct Listed {
  View scores, moves, anchors, variances;
};

// boxes (rows, 4) = the anchors, moved and scaled, within the image.
void decode(const Context& context, const Listed& of, const View& size, double offset, const View& boxes) {
  const int64_t rows = boxes.shape[0];
  const uhal_dtype dtype = boxes.dtype;
  const Scratch length(context, dtype, &rows, 1), center(context, dtype, &rows, 1), moved(context, dtype, &rows, 1);
  const Scratch zero(context, dtype, nullptr, 0), limit(context, dtype, nullptr, 0), most(context, dtype, nullptr, 0);
  fill_zero(context, zero);
  fill(context, most, kMostGrowth, 0);
  for (int axis = 0; axis < 2; ++axis) {
    const View low = column_of(of.anchors, axis), high = column_of(of.anchors, axis + 2);
    const View shift = column_of(of.moves, axis), growth = column_of(of.moves, axis + 2);
    const View by_shift = column_of(of.variances, axis), by_growth = column_of(of.variances, axis + 2);
    length_of(context, low, high, offset, length);
    context.map(uhal_map_scale, {&length}, {&center}, {0.5, 0});
    context.map(uhal_map_add, {&center, &low}, {&center});
    context.map(uhal_map_multiply, {&shift, &by_shift}, {&moved});
    context.map(uhal_map_multiply, {&moved, &length}, {&moved});
    context.map(uhal_map_add, {&center, &moved}, {&center});
    context.map(uhal_map_multiply, {&growth, &by_growth}, {&moved});
    context.map(uhal_map_minimum, {&moved, &most}, {&moved});
    context.map(uhal_map_exp, {&moved}, {&moved});
    context.map(uhal_map_multiply, {&length, &moved}, {&length});
    context.map(uhal_map_scale, {&length}, {&length}, {0.5, 0});
    // The size is (height, width).
    const View last = element(size, 1 - axis);
    context.map(uhal_map_scale, {&last}, {&limit}, {1, -offset});
    for (const int side : {0, 2}) {
      context.map(side == 0 ? uhal_map_subtract : uhal_map_add, {&center, &length}, {&moved});
      if (side != 0 && offset != 0) context.map(uhal_map_scale, {&moved}, {&moved}, {1, -offset});
      context.map(uhal_map_minimum, {&moved, &limit}, {&moved});
      const View to = column_of(boxes, axis + side);
      context.map(uhal_map_maximum, {&moved, &zero}, {&to});
    }
  }
}

// kept = whether boxes are long enough, and where corners are pixels have their centers within the image.
void find_large(const Context& context, const View& boxes, const View& size, const ProposalSettings& settings,
                const View& kept) {
  const int64_t rows = boxes.shape[0];
  const uhal_dtype dtype = boxes.dtype;
  const Scratch length(context, dtype, &rows, 1), least(context, dtype, nullptr, 0), test(context, UHAL_BOOL, &rows, 1);
  fill(context, kept, 1, 1);
  fill(context, least, std::max(settings.smallest, 1.0), 0);
  for (int axis = 0; axis < 2; ++axis) {
    const View low = column_of(boxes, axis);
    length_of(context, low, column_of(boxes, axis + 2), settings.offset, length);
    context.map(uhal_map_greater_equal, {&length, &least}, {&test});
    context.map(uhal_map_logical_and, {&kept, &test}, {&kept});
    if (settings.offset == 0) continue;
    const View last = element(size, 1 - axis);
    context.map(uhal_map_scale, {&length}, {&length}, {0.5, 0});
    context.map(uhal_map_add, {&length, &low}, {&length});
    context.map(uhal_map_less_equal, {&length, &last}, {&test});
    context.map(uhal_map_logical_and, {&kept, &test}, {&kept});
  }
}

// The rows of boxes and scores where a mask is true, `most` at most.
class ChosenBoxes {
 public:
  ChosenBoxes(const Context& context, const View& boxes, const View& scores, const View& mask, int64_t most) {
    TruePlaces places(context, mask);
    const int64_t count = most < 0 ? places.count() : std::min(places.count(), most), shape[] = {count, 4};
    boxes_.emplace(context, boxes.dtype, shape, 2);
    scores_.emplace(context, scores.dtype, &count, 1);
    if (count == 0) return;
    const Scratch at(context, UHAL_INT64, &count, 1);
    copy_or_cast(context, places.view(context).sliced(0, 0, count).reshaped({count}), at);
    take(context, boxes, at, *boxes_);
    take(context, scores, at, *scores_);
  }
  int64_t count() const { return scores_->shape[0]; }
  const View& boxes() const { return *boxes_; }
  const View& scores() const { return *scores_; }

 private:
  std::optional<Scratch> boxes_, scores_;
};

// An image's proposals, best first; a box of nothing where there is none.
std::unique_ptr<ChosenBoxes> propose(const Context& context, const Listed& of, const View& size,
                                     const ProposalSettings& settings) {
  const int64_t all = of.scores.shape[0];
  const int64_t count = settings.before > 0 ? std::min<int64_t>(settings.before, all) : all, shape[] = {count, 4};
  const uhal_dtype dtype = of.scores.dtype;
  const Scratch scores(context, dtype, &count, 1), order(context, UHAL_INT64, &count, 1);
  const auto descending = axis_attributes(0, true);
  context.run(UHAL_OP_TOP_K, {&of.scores}, {&scores, &order}, &descending);
  const Scratch moves(context, dtype, shape, 2), anchors(context, dtype, shape, 2), variances(context, dtype, shape, 2);
  const Scratch boxes(context, dtype, shape, 2), kept(context, UHAL_BOOL, &count, 1);
  take(context, of.moves, order, moves);
  take(context, of.anchors, order, anchors);
  take(context, of.variances, order, variances);
  decode(context, {scores, moves, anchors, variances}, size, settings.offset, boxes);
  find_large(context, boxes, size, settings, kept);
  auto large = std::make_unique<ChosenBoxes>(context, boxes, scores, kept, -1);
  if (large->count() == 0) {
    const Scratch one(context, UHAL_BOOL, &count, 1);
    fill_zero(context, boxes);
    fill_zero(context, scores);
    fill(context, one, 1, 1);
    return std::make_unique<ChosenBoxes>(context, boxes, scores, one, 1);
  }
  if (settings.overlap <= 0) return large;
  const int64_t rows = large->count();
  const Scratch stays(context, UHAL_BOOL, &rows, 1);
  uhal_non_max_suppression_attributes attributes = {
      sizeof attributes, settings.overlap, settings.decay, settings.offset, 1, 0};
  const View candidates = large->boxes();
  context.run(UHAL_OP_NON_MAX_SUPPRESSION, {&candidates}, {&stays}, &attributes);
  return std::make_unique<ChosenBoxes>(context, candidates, large->scores(), stays,
                                       settings.after > 0 ? settings.after : -1);
}

void generate_proposals(Context context, Input scores, Input moves, Input sizes, Input anchors, Input variances,
                        int before, int after, float overlap, float smallest, float eta, bool pixels, Output boxes_out,
                        Output scores_out, Output counts_out) {
  const View s = scores.view(), d = moves.view(), size = sizes.view();
  if (s.rank != 4 || d.rank != 4 || d.shape[1] != 4 * s.shape[1]) {
    invalid(context, "bbox_deltas has not four numbers for each of the scores");
  }
  const int64_t images = s.shape[0], a = s.shape[1], h = s.shape[2], w = s.shape[3], all = a * h * w;
  const View of_anchors = anchors.view(), of_variances = variances.view();
  if (of_anchors.elements() != 4 * all || of_variances.elements() != 4 * all) {
    invalid(context, "anchors and variances have not four numbers for each of an image's scores");
  }
  const ProposalSettings settings = {before,
                                     after,
                                     static_cast<double>(overlap),
                                     static_cast<double>(eta),
                                     static_cast<double>(smallest),
                                     pixels ? 1.0 : 0.0};
  std::vector<std::unique_ptr<ChosenBoxes>> found;
  int64_t total = 0;
  for (int64_t i = 0; i < images && all > 0; ++i) {
    // From (anchors, rows, columns) to rows, columns and anchors.
    const int64_t shape[] = {all, 4};
    const Scratch listed(context, s.dtype, &all, 1), moves_of(context, d.dtype, shape, 2);
    copy_or_cast(context, s.sliced(0, i, 1).reshaped({a, h, w}).transposed(0, 1).transposed(1, 2),
                 listed.reshaped({h, w, a}));
    // Before: anchor, number of four, row, column. After: row, column, anchor, number.
    const View four = d.sliced(0, i, 1).reshaped({a, 4, h, w});
    copy_or_cast(context, four.transposed(0, 2).transposed(1, 3), moves_of.reshaped({h, w, a, 4}));
    View image = size.sliced(0, i, 1);
    image = image.reshaped({size.shape[1]});
    auto chosen = propose(context, {listed, moves_of, of_anchors.reshaped({all, 4}), of_variances.reshaped({all, 4})},
                          image, settings);
    total += chosen->count();
    found.push_back(std::move(chosen));
  }
  const int64_t of_boxes[] = {total, 4}, of_scores[] = {total, 1};
  const View all_boxes = context.allocate(boxes_out, s.dtype, of_boxes, 2);
  const View all_scores = context.allocate(scores_out, s.dtype, of_scores, 2).reshaped({total});
  std::vector<int32_t> counts;
  int64_t at = 0;
  for (const auto& part : found) {
    const int64_t count = part->count();
    counts.push_back(static_cast<int32_t>(count));
    if (count > 0) {
      copy_or_cast(context, part->boxes(), all_boxes.sliced(0, at, count));
      copy_or_cast(context, part->scores(), all_scores.sliced(0, at, count));
    }
    at += count;
  }
  if (!counts_out) return;
  const View numbers = context.allocate(counts_out, UHAL_INT32, &images, 1);
  if (counts.empty()) return fill_zero(context, numbers);
  const char* bytes = reinterpret_cast<const char*>(counts.data());
  upload(context, {bytes, bytes + counts.size() * sizeof(int32_t)}, numbers);
}

// -- levels of a pyramid

// Boxes go to the level floor(log2(sqrt(area) / scale) + level of that scale), within the levels that there are.
struct Levels {
  int lowest, highest, level, scale;
  int count() const { return highest - lowest + 1; }
};

// The length of a box along an axis from where it begins and ends; a turned box has none.
int length_step(Chain& program, int low, int high, double offset) {
  const int difference = program.step(uhal_map_subtract, {high, low});
  const int whole = program.step(uhal_map_relu, {difference});
  if (offset == 0) return whole;
  const int not_turned = program.step(uhal_map_equal, {whole, difference});
  const int wider = program.step(uhal_map_scale, {difference}, {1, offset});
  return program.step(uhal_map_select, {not_turned, wider, whole});
}

// y = the number of each box's cell: cells are of a level and an image, and those of a level lie side by side. A box
// that is no number has none: NaN. Of several images `image` says of which one a box is.
void cells_of(const Context& context, const View& boxes, const Levels& levels, double offset, int64_t images,
              const View& image, const View& y) {
  const View left = column_of(boxes, 0), top = column_of(boxes, 1), right = column_of(boxes, 2),
             bottom = column_of(boxes, 3);
  const Scratch lengths(context, boxes.dtype, {2, boxes.shape[0]});
  const View width = lengths.reshaped({2 * y.elements()}).sliced(0, 0, y.elements()),
             height = lengths.reshaped({2 * y.elements()}).sliced(0, y.elements(), y.elements());
  Chain program(5);
  int across = 0, down = 1;
  if (offset == 0) {
    across = length_step(program, 0, 2, 0);
    down = length_step(program, 1, 3, 0);
  } else {  // a program of its own, since one has not room for all steps
    Chain of_lengths(4);
    const int first = length_step(of_lengths, 0, 2, offset), second = length_step(of_lengths, 1, 3, offset);
    context.run(UHAL_OP_MAP_CHAIN, {&left, &top, &right, &bottom}, {&width, &height},
                of_lengths.program({first, second}));
  }
  const int side = program.step(uhal_map_sqrt, {program.step(uhal_map_multiply, {across, down})});
  const int scale = program.step(uhal_map_scale, {program.step(uhal_map_equal, {side, side})},
                                 {0, static_cast<double>(levels.scale)});
  const int relative = program.step(uhal_map_scale, {program.step(uhal_map_divide, {side, scale})}, {1, 1e-8});
  const int exact =
      program.step(uhal_map_scale, {program.step(uhal_map_log2, {relative})}, {1, static_cast<double>(levels.level)});
  const int level = program.step(uhal_map_clip, {program.step(uhal_map_floor, {exact})},
                                 {static_cast<double>(levels.lowest), static_cast<double>(levels.highest)});
  const auto step = static_cast<double>(images);
  const int cell = program.step(uhal_map_scale, {level}, {step, -step * levels.lowest});
  if (images > 1) program.step(uhal_map_add, {cell, 4});
  const View* ends[] = {&left, &top, &right, &bottom};
  if (offset != 0) {
    ends[0] = ends[2] = &width;
    ends[1] = ends[3] = &height;
  }
  context.run(UHAL_OP_MAP_CHAIN, {ends[0], ends[1], ends[2], ends[3], images > 1 ? &image : ends[0]}, {&y},
              program.program());
}

// The image that each box is of.
void images_of(const Context& context, const View& counts, const View& y) {
  const Scratch ends(context, UHAL_INT64, counts), number(context, UHAL_INT64, y);
  if (counts.dtype != UHAL_INT64) copy_or_cast(context, counts, ends);
  sum_up(context, counts.dtype == UHAL_INT64 ? counts : ends, ends);
  count_up(context, number);
  uhal_search_attributes search = {};
  search.struct_size = sizeof search;
  search.right = 1;
  context.run(UHAL_OP_SEARCH_SORTED, {&ends, &number}, {&y}, &search);
}

// ends - begins for several lists, all of one length.
void write_counts(const Context& context, const std::vector<View>& begins, const std::vector<View>& ends,
                  const std::vector<View>& counts) {
  constexpr size_t kTogether = UHAL_MAP_MAX_OUTPUTS;
  static_assert(kTogether == 4 && 2 * kTogether <= UHAL_MAP_MAX_INPUTS, "that many in one program");
  size_t i = 0;
  for (; i + kTogether <= counts.size(); i += kTogether) {
    Chain program(2 * kTogether);
    const int first = program.step(uhal_map_subtract, {4, 0}), second = program.step(uhal_map_subtract, {5, 1}),
              third = program.step(uhal_map_subtract, {6, 2}), last = program.step(uhal_map_subtract, {7, 3});
    context.run(UHAL_OP_MAP_CHAIN,
                {&begins[i], &begins[i + 1], &begins[i + 2], &begins[i + 3], &ends[i], &ends[i + 1], &ends[i + 2],
                 &ends[i + 3]},
                {&counts[i], &counts[i + 1], &counts[i + 2], &counts[i + 3]},
                program.program({first, second, third, last}));
  }
  for (; i < counts.size(); ++i) context.map(uhal_map_subtract, {&ends[i], &begins[i]}, {&counts[i]});
}

// Boxes in the order of their levels, and in that of their images, as they come; a box that is no number has no level,
// and comes last.
struct Distribution {
  View in;
  const Levels levels;
  double offset;
  int64_t images;
  const View counts;

  int64_t rows() const { return in.shape[0]; }
  int64_t cells() const { return levels.count() * images; }
};

// Where each of so many boxes goes.
View places_of(const Context& context, Output restore, int64_t rows) {
  const int64_t column[] = {rows, 1};
  return context.allocate(restore, UHAL_INT32, column, 2).reshaped({rows});
}

// Of so many boxes those that are some image's.
int64_t boxes_of_images(int64_t boxes, const std::vector<int64_t>& counts) {
  return std::clamp<int64_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 0, boxes);
}

// By the device, for any number of boxes. `places` gets which box comes at each place, and `ends` where the boxes
// before each cell, and of it, end: the host's copy of these is returned.
std::vector<int64_t> distribute_by_sorting(const Context& context, const Distribution& of, const View& places,
                                           const View& ends, const View& back) {
  const int64_t rows = of.rows();
  const Scratch cell(context, of.in.dtype, &rows, 1), image(context, UHAL_INT32, &rows, 1),
      sorted(context, of.in.dtype, &rows, 1), order(context, UHAL_INT64, &rows, 1),
      number(context, UHAL_INT32, &rows, 1), names(context, of.in.dtype, {of.cells() + 1});
  if (of.images > 1) images_of(context, of.counts, image);
  cells_of(context, of.in, of.levels, of.offset, of.images, image, cell);
  const auto ascending = axis_attributes(0, false);
  context.run(UHAL_OP_SORT, {&cell}, {&sorted, &order}, &ascending);
  copy_or_cast(context, order, places);
  count_up(context, names, -1);
  uhal_search_attributes search = {};
  search.struct_size = sizeof search;
  search.right = 1;
  context.run(UHAL_OP_SEARCH_SORTED, {&sorted, &names}, {&ends}, &search);
  count_up(context, number);
  const auto along = index_attributes(0);
  context.run(UHAL_OP_SCATTER, {&order, &number}, {&back}, &along);
  return read_integers(context, ends);
}

template <class T>
void upload_vector(const Context& context, const std::vector<T>& numbers, const View& y) {
  const char* bytes = reinterpret_cast<const char*>(numbers.data());
  upload(context, {bytes, bytes + numbers.size() * sizeof(T)}, y);
}

// How many levels a box lies above the lowest one, as Paddle's CPU counts; none for a box that is no number.
template <class T>
std::optional<size_t> level_of(const T* box, const Levels& levels, bool pixels) {
  const auto length = [&](int axis) {  // as length_step()
    const T difference = box[axis + 2] - box[axis];
    return difference < 0 ? T(0) : difference + (pixels ? 1 : 0);
  };
  const T side = std::sqrt(length(0) * length(1));
  const T exact = std::log2(side / static_cast<T>(levels.scale) + static_cast<T>(1e-8)) + static_cast<T>(levels.level);
  if (!(side == side)) return std::nullopt;
  const T level = std::min(std::max(std::floor(exact), static_cast<T>(levels.lowest)), static_cast<T>(levels.highest));
  return static_cast<size_t>(static_cast<int>(level) - levels.lowest);
}

// Of a few boxes the host counts levels itself, and copies the boxes of each level to where they are wanted: it has to
// wait in any case, and saves all launches.
template <class T>
void distribute_by_counting(const Context& context, const Distribution& of, const OutputList& by_level,
                            const OutputList& counts_by_level, Output restore) {
  const auto images = static_cast<size_t>(of.images), nowhere = static_cast<size_t>(of.cells());
  // How many boxes each image has: int32 as they are, without a cast's launch.
  const size_t count_size = uhal_dtype_size(of.counts.dtype);
  std::vector<char> count_bytes(images * count_size);
  std::vector<T> boxes(4 * static_cast<size_t>(of.rows()));
  uhal_stream* stream = context.stream()->handle;
  context.check(uhal_copy(stream, count_bytes.data(), of.counts.data, count_bytes.size(), UHAL_COPY_DEVICE_TO_HOST));
  context.check(uhal_copy(stream, boxes.data(), of.in.data, boxes.size() * sizeof(T), UHAL_COPY_DEVICE_TO_HOST));
  context.check(uhal_stream_synchronize(stream));
  std::vector<int64_t> counts(images);
  for (size_t image = 0; image < images; ++image) {
    counts[image] = static_cast<int64_t>(plain_number(count_bytes.data() + image * count_size, of.counts.dtype));
  }
  const auto rows = static_cast<size_t>(boxes_of_images(of.rows(), counts));
  boxes.resize(4 * rows);

  // Where the boxes of each cell begin, and of those that have none; first how many the one before has.
  std::vector<int32_t> cell_of(rows), begin(nowhere + 2);
  size_t image = 0;
  int64_t last = counts[0];  // where the boxes of this image end
  for (size_t i = 0; i < rows; ++i) {
    while (image < images && static_cast<int64_t>(i) >= last) {
      if (++image < images) last += counts[image];
    }
    const std::optional<size_t> level = level_of(&boxes[4 * i], of.levels, of.offset != 0);
    const size_t cell = level ? std::min(*level * images + image, nowhere) : nowhere;
    cell_of[i] = static_cast<int32_t>(cell);
    ++begin[cell + 1];
  }

  // Behind the boxes in their order where each has gone, and how many of each image a level has.
  const size_t of_boxes = boxes.size() * sizeof(T), of_back = rows * sizeof(int32_t);
  const Uploads uploads(context, std::vector<char>(of_boxes + of_back + nowhere * sizeof(int32_t)));
  T* const ordered = uploads.at<T>(0);
  int32_t* const back = uploads.at<int32_t>(of_boxes);
  int32_t* const numbers = uploads.at<int32_t>(of_boxes + of_back);
  std::copy_n(begin.data() + 1, nowhere, numbers);
  for (size_t cell = 0; cell <= nowhere; ++cell) begin[cell + 1] += begin[cell];
  for (size_t i = 0; i < rows; ++i) {
    back[i] = begin[static_cast<size_t>(cell_of[i])]++;  // at last where those of the next cell begin
    std::copy_n(&boxes[4 * i], 4, ordered + 4 * static_cast<size_t>(back[i]));
  }
  uploads.copy(back, places_of(context, restore, static_cast<int64_t>(rows)));
  for (size_t level = 0; level < static_cast<size_t>(of.levels.count()); ++level) {
    const size_t first = level * images;
    const int32_t at = first == 0 ? 0 : begin[first - 1];
    const int64_t shape[] = {begin[first + images - 1] - at, 4};
    uploads.copy(ordered + 4 * at, context.allocate(by_level[level], of.in.dtype, shape, 2));
    if (level >= counts_by_level.size()) continue;
    uploads.copy(numbers + first, context.allocate(counts_by_level[level], UHAL_INT32, &of.images, 1));
  }
}

void distribute_proposals(Context context, Input boxes, OptionalInput counts, int lowest, int highest, int level,
                          int scale, bool pixels, OutputList by_level, OutputList counts_by_level, Output restore) {
  constexpr int64_t kFew = 4096;
  const View in = boxes.view();
  if (in.rank != 2 || in.shape[1] != 4) invalid(context, "fpn_rois has not four numbers a row");
  if (!counts) unsupported(context, "boxes without rois_num");
  const int64_t images = counts.elements();
  const Levels levels = {lowest, highest, level, scale};
  if (levels.count() < 1 || by_level.size() < static_cast<size_t>(levels.count()))
    invalid(context, "there are no levels");
  const int64_t cells = levels.count() * images;
  Distribution of = {in, levels, pixels ? 1.0 : 0.0, images, flat(counts.view())};
  if (of.rows() > 0 && of.rows() <= kFew && images > 0) {
    const auto distribute = in.dtype == UHAL_FLOAT64 ? distribute_by_counting<double> : distribute_by_counting<float>;
    return distribute(context, of, by_level, counts_by_level, restore);
  }
  if (of.rows() > 0 && images > 0) {
    of.in = in.sliced(0, 0, boxes_of_images(of.rows(), read_integers(context, of.counts)));
  }
  const int64_t rows = of.rows();
  const View back = places_of(context, restore, rows);
  const Scratch order(context, UHAL_INT32, {rows}), ends(context, UHAL_INT32, {cells + 1});
  std::vector<int64_t> end(static_cast<size_t>(cells + 1));
  if (rows > 0 && images > 0) {
    end = distribute_by_sorting(context, of, order, ends, back);
  } else {
    fill_zero(context, ends);
  }
  std::vector<View> before, after, of_images;
  for (auto* views : {&before, &after, &of_images}) views->reserve(counts_by_level.size());
  for (int i = 0; i < levels.count(); ++i) {
    const auto level_number = static_cast<size_t>(i);
    const int64_t first = i * images, at = end[static_cast<size_t>(first)];
    const int64_t shape[] = {end[static_cast<size_t>(first + images)] - at, 4};
    const View out = context.allocate(by_level[level_number], in.dtype, shape, 2);
    take(context, in, order.sliced(0, at, shape[0]), out);
    if (level_number < counts_by_level.size()) {
      before.push_back(ends.sliced(0, first, images));
      after.push_back(ends.sliced(0, first + 1, images));
      of_images.push_back(context.allocate(counts_by_level[level_number], UHAL_INT32, &images, 1));
    }
  }
  if (images > 0) write_counts(context, before, after, of_images);
}

// The boxes of all levels that have the best scores, those of one image behind those of another, best first.
void collect_proposals(Context context, InputList boxes, InputList scores, OptionalInputList counts, int most, Output y,
                       Output counts_out) {
  if (!counts.is_present()) unsupported(context, "boxes without rois_num");
  if (boxes.size() == 0 || scores.size() != boxes.size() || counts.size() != boxes.size()) {
    invalid(context, "expected as many lists of scores and of rois_num as of boxes");
  }
  if (most < 0) invalid(context, "post_nms_topN is " + std::to_string(most));
  const int64_t images = counts[0].elements();
  int64_t all = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const View level = boxes[i].view();
    if (level.rank != 2 || level.shape[1] != 4 || scores[i].elements() != level.shape[0] ||
        counts[i].elements() != images) {
      invalid(context, "a level's boxes, scores and rois_num do not fit each other");
    }
    int64_t sum = 0;
    for (const int64_t count : read_integers(context, flat(counts[i].view())))
      sum += count < 0 ? level.shape[0] + 1 : count;
    if (sum != level.shape[0]) invalid(context, "a level's rois_num are not together its boxes");
    require_same_dtype(context, boxes[0].shape_only(), level);
    all += level.shape[0];
  }
  const uhal_dtype dtype = boxes[0].uhal();
  const Scratch joined(context, dtype, {all, 4}), score(context, dtype, {all}), image(context, UHAL_INT64, {all});
  int64_t at = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const View level = boxes[i].view(), of_level = flat(scores[i].view());
    const int64_t count = level.shape[0];
    if (count == 0) continue;
    copy_or_cast(context, level, joined.sliced(0, at, count));
    copy_or_cast(context, of_level, score.sliced(0, at, count));
    images_of(context, flat(counts[i].view()), image.sliced(0, at, count));
    at += count;
  }
  const int64_t kept = std::min<int64_t>(most, all), shape[] = {kept, 4};
  const View out = context.allocate(y, dtype, shape, 2);
  const View numbers = counts_out ? context.allocate(counts_out, UHAL_INT32, &images, 1) : View();
  if (counts_out) fill_zero(context, numbers);
  if (kept == 0) return;
  const Scratch best(context, dtype, {kept}), order(context, UHAL_INT64, {kept}), of_best(context, UHAL_INT64, {kept}),
      by_image(context, UHAL_INT64, {kept}), moves(context, UHAL_INT64, {kept}), chosen(context, UHAL_INT64, {kept});
  const auto descending = axis_attributes(0, true), ascending = axis_attributes(0, false);
  context.run(UHAL_OP_TOP_K, {&score}, {&best, &order}, &descending);
  take(context, image, order, of_best);
  context.run(UHAL_OP_SORT, {&of_best}, {&by_image, &moves}, &ascending);
  take(context, order, moves, chosen);
  take(context, joined, chosen, out);
  if (!counts_out) return;
  const Constant one(context, UHAL_INT32, 1);
  View ones = one.reshaped({1});
  ones.shape[0] = kept;
  ones.strides[0] = 0;
  auto sum = index_attributes(0);
  sum.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER, {&by_image, &ones}, {&numbers}, &sum);
}

// -- anchors

// Corners of anchors around (0, 0), rounded as Paddle's kernel does: of each ratio, in it of each size.
template <class T>
std::vector<T> corners_of_anchors(const Span<float>& sizes, const Span<float>& ratios, const Span<float>& stride) {
  std::vector<T> corners;
  const T area = static_cast<T>(stride[0]) * static_cast<T>(stride[1]);
  for (const float ratio : ratios) {
    const T width = std::round(std::sqrt(area / static_cast<T>(ratio))),
            height = std::round(width * static_cast<T>(ratio));
    for (const float size : sizes) {
      const T half[] = {(static_cast<T>(size) / static_cast<T>(stride[0]) * width - 1) / 2,
                        (static_cast<T>(size) / static_cast<T>(stride[1]) * height - 1) / 2};
      corners.insert(corners.end(), {-half[0], -half[1], half[0], half[1]});
    }
  }
  return corners;
}

void anchor_generator(Context context, Input x, Span<float> sizes, Span<float> ratios, Span<float> variances,
                      Span<float> stride, float offset, Output anchors, Output variances_out) {
  const View in = x.shape_only();
  if (in.rank != 4 || sizes.size() < 1 || ratios.size() < 1 || variances.size() != 4 || stride.size() != 2) {
    invalid(context, "expected an image, anchor_sizes, aspect_ratios, four variances and two strides");
  }
  const int64_t height = in.shape[2], width = in.shape[3], count = static_cast<int64_t>(sizes.size()) * ratios.size();
  const int64_t shape[] = {height, width, count, 4};
  const View out = context.allocate(anchors, in.dtype, shape, 4),
             out_variances = context.allocate(variances_out, in.dtype, shape, 4);
  if (out.elements() == 0) return;
  const Scratch corners(context, in.dtype, {1, 1, count, 4}), four(context, in.dtype, {4});
  if (in.dtype == UHAL_FLOAT64) {
    upload_vector(context, corners_of_anchors<double>(sizes, ratios, stride), flat(corners));
  } else {
    upload_vector(context, corners_of_anchors<float>(sizes, ratios, stride), flat(corners));
  }
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t cells = axis == 0 ? width : height;
    const auto step = static_cast<double>(stride[static_cast<size_t>(axis)]);
    const Scratch centers(context, in.dtype, {axis == 0 ? 1 : height, axis == 0 ? width : 1, 1});
    count_up(context, centers.reshaped({cells}), static_cast<double>(offset) * (step - 1), step);
    for (const int side : {0, 2}) {
      View corner = corners.sliced(3, axis + side, 1), target = out.sliced(3, axis + side, 1);
      corner.rank = target.rank = 3;
      context.map(uhal_map_add, {&centers, &corner}, {&target});
    }
  }
  for (int i = 0; i < 4; ++i) {
    fill(context, four.sliced(0, i, 1), static_cast<double>(variances[static_cast<size_t>(i)]), 0);
  }
  copy_or_cast(context, four, out_variances);
}

}  // namespace

KernelTable proposal_kernels() {
  return {
      UNIHAL_KERNEL("generate_proposals", kWideFloats, generate_proposals),
      UNIHAL_KERNEL("distribute_fpn_proposals", kWideFloats, distribute_proposals),
      UNIHAL_KERNEL("collect_fpn_proposals", kWideFloats, collect_proposals),
      UNIHAL_KERNEL("anchor_generator", kWideFloats, anchor_generator),
  };
}

}  // namespace unihal::paddle
