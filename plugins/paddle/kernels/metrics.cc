// Metrics: the area under a curve of classification, and distances of texts.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

// -- the area under the curve

View elements_from(const View& x, int64_t first, int64_t count) { return flat(x).sliced(0, first, count); }

// How often positive and negative examples were given a probability in each bucket, summed up to each bucket: the area
// is what the trapezoids between two buckets have, which is that of everything less what lies below the curve's mirror.
void write_area(const Context& context, const View& positive, const View& negative, const View& area) {
  const int64_t buckets = positive.elements();
  const Scratch up_to(context, UHAL_INT64, positive), parts(context, UHAL_FLOAT64, {2, buckets}),
      sums(context, UHAL_FLOAT64, {2, 1});
  sum_up(context, positive, up_to);
  // Times the mean of the sums up to this bucket and up to the one before it.
  Chain trapezoid(3);
  const int half = trapezoid.step(uhal_map_scale, {1}, {0.5, 0});
  const int part = trapezoid.step(uhal_map_multiply, {trapezoid.step(uhal_map_subtract, {0, half}), 2});
  const View of_buckets = parts.reshaped({2 * buckets}).sliced(0, 0, buckets),
             others = parts.reshaped({2 * buckets}).sliced(0, buckets, buckets);
  context.run(UHAL_OP_MAP_CHAIN, {&up_to, &positive, &negative}, {&of_buckets, &others}, trapezoid.program({part, 2}));
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&parts}, {&sums}, &sum);
  Chain share(3);  // 0 without examples of both kinds
  const int everything = share.step(uhal_map_multiply, {1, 2});
  share.step(uhal_map_divide_no_nan, {share.step(uhal_map_subtract, {everything, 0}), everything});
  const View below = sums.reshaped({2}).sliced(0, 0, 1), all_others = sums.reshaped({2}).sliced(0, 1, 1);
  const View total = up_to.sliced(0, buckets - 1, 1), result = area.reshaped({1});
  context.run(UHAL_OP_MAP_CHAIN, {&below, &total, &all_others}, {&result}, share.program());
}

// How many positive examples there are in each bucket, behind them how many of the others, and last how many have a
// number that is no probability; labels below 0 count as neither.
void count_examples(const Context& context, const View& probabilities, const View& labels, int64_t buckets,
                    const View& counts) {
  // The cells' numbers are exact in float32 unless there are very many.
  constexpr int64_t kExact = int64_t{1} << 23;
  std::optional<Scratch> widened;
  if (buckets >= kExact) copy_or_cast(context, labels, widened.emplace(context, UHAL_FLOAT64, labels));
  const View& kinds = widened ? *widened : labels;
  const Scratch cell(context, UHAL_INT32, labels);
  const double count = static_cast<double>(buckets);
  Chain program(2);
  const int is_probability = program.step(uhal_map_equal, {program.step(uhal_map_clip, {0}, {0, 1}), 0});
  const auto constant = [&](double value) { return program.step(uhal_map_scale, {is_probability}, {0, value}); };
  const int bucket = program.step(uhal_map_truncate, {program.step(uhal_map_scale, {0}, {count - 1, 0})});
  const int behind = program.step(uhal_map_scale, {bucket}, {1, count});
  const int is_negative = program.step(uhal_map_clip, {1}, {-1, 0});
  const int of_kind = program.step(uhal_map_select, {1, bucket, behind});
  const int of_label = program.step(uhal_map_select, {is_negative, constant(-1), of_kind});
  program.step(uhal_map_select, {is_probability, of_label, constant(2 * count)});
  context.run(UHAL_OP_MAP_CHAIN, {&probabilities, &kinds}, {&cell}, program.program());
  const Repeated ones(context, UHAL_INT64, 1, labels.elements());
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  sum.ignore_negative = 1;
  context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &cell}, {&counts}, &sum);
  const double strangers = read_number(context, counts.sliced(0, 2 * buckets, 1));
  if (strangers != 0) {
    invalid(context, std::to_string(static_cast<int64_t>(strangers)) + " probabilities are outside of 0 to 1");
  }
}

// With slide_steps the counts of so many batches are kept, behind them their sum, and last which batch comes next.
void auc(Context context, Input prediction, Input label, Input positive, Input negative, OptionalInput weight, Text,
         int thresholds, int slide_steps, Output area, Output positive_out, Output negative_out) {
  const View predictions = prediction.view(), labels = flat(label.view());
  if (predictions.rank != 2 || predictions.shape[1] < 1 || labels.elements() != predictions.shape[0]) {
    invalid(context, "expected probabilities (examples, classes) and a label for each example");
  }
  if (thresholds < 1 || slide_steps < 0) invalid(context, "num_thresholds or slide_steps is too small");
  const int64_t buckets = static_cast<int64_t>(thresholds) + 1, steps = slide_steps, examples = predictions.shape[0];
  const int64_t kept = (steps + 1) * buckets + (steps > 0 ? 1 : 0);
  if (positive.elements() < kept || negative.elements() < kept) {
    invalid(context, "stat_pos and stat_neg have fewer than the " + std::to_string(kept) + " counts of all buckets");
  }
  const View result = context.allocate(area, UHAL_FLOAT64);
  if (result.elements() != 1) invalid(context, "the area is one number");
  const View counts[] = {flat(context.allocate(positive_out, UHAL_INT64)),
                         flat(context.allocate(negative_out, UHAL_INT64))};
  const View before[] = {flat(positive.view()), flat(negative.view())};
  for (int kind = 0; kind < 2; ++kind) {
    if (counts[kind].elements() != before[kind].elements()) invalid(context, "the counts' shapes differ");
  }
  // Examples of weight 0 are none. (Of slides Paddle's CPU takes them away from the sum, to which it has not added
  // them.)
  const bool is_real = !weight || weight.elements() == 0 || read_number(context, weight.view()) != 0;
  const bool slides = steps > 0, adds = is_real && examples > 0;
  if (slides || !adds || counts[0].elements() > buckets) {
    for (int kind = 0; kind < 2; ++kind) copy_or_cast(context, before[kind], counts[kind]);
  }
  if (!is_real && !slides) return fill_zero(context, result);
  const Scratch found(context, UHAL_INT64, {2 * buckets + 1});
  if (examples > 0) {
    View last_class = predictions.sliced(1, predictions.shape[1] - 1, 1);
    last_class.rank = 1;
    count_examples(context, last_class, labels, buckets, found);
  }
  if (!adds) fill_zero(context, found);
  int64_t now = 0;
  if (slides) {
    now = static_cast<int64_t>(read_number(context, elements_from(counts[0], kept - 1, 1))) % steps;
    if (now < 0) invalid(context, "stat_pos has a negative number of batches");
  }
  if (adds && !slides) {
    const View fresh[] = {found.sliced(0, 0, buckets), found.sliced(0, buckets, buckets)};
    const View earlier[] = {elements_from(before[0], 0, buckets), elements_from(before[1], 0, buckets)};
    const View sums[] = {elements_from(counts[0], 0, buckets), elements_from(counts[1], 0, buckets)};
    Chain both(4);
    const int first = both.step(uhal_map_add, {0, 1}), second = both.step(uhal_map_add, {2, 3});
    context.run(UHAL_OP_MAP_CHAIN, {&earlier[0], &fresh[0], &earlier[1], &fresh[1]}, {&sums[0], &sums[1]},
                both.program({first, second}));
  }
  for (int kind = 0; kind < 2 && slides; ++kind) {
    const View fresh = found.sliced(0, kind * buckets, buckets);
    const View sum = elements_from(counts[kind], steps * buckets, buckets);
    const View current = elements_from(counts[kind], now * buckets, buckets);
    context.map(uhal_map_subtract, {&sum, &current}, {&sum});
    copy_or_cast(context, fresh, current);
    context.map(uhal_map_add, {&sum, &current}, {&sum});
    const View batches = elements_from(counts[kind], kept - 1, 1);
    context.map(uhal_map_scale, {&batches}, {&batches}, {1, 1});
  }
  write_area(context, elements_from(counts[0], steps * buckets, buckets),
             elements_from(counts[1], steps * buckets, buckets), result);
}

// -- distances of texts

std::vector<int64_t> text_lengths_of(const Context& context, const OptionalInput& lengths, int64_t texts, int64_t most,
                                     const char* name) {
  if (lengths.elements() != texts) invalid(context, std::string(name) + " has not a number for each text");
  std::vector<int64_t> result = read_integers(context, flat(lengths.view()));
  for (const int64_t length : result) {
    if (length >= 0 && length <= most) continue;
    invalid(context, std::string(name) + " has " + std::to_string(length) + ", expected 0 to " + std::to_string(most));
  }
  return result;
}

// Levenshtein's: how many marks are put in, left out or exchanged. A row of the table of all beginnings follows from
// the one before: what an element is without insertions is min(above + 1, above left + (marks differ)), and with them
// the minimum of those to its left, each with its distance.
void edit_distance(Context context, Input hypotheses, Input references, OptionalInput hypothesis_lengths,
                   OptionalInput reference_lengths, bool normalized, Output count, Output distance) {
  if (!hypothesis_lengths || !reference_lengths) unsupported(context, "texts in level-of-detail tensors");
  const View h = hypotheses.view(), r = references.view();
  if (h.rank < 2 || r.rank < 2 || h.shape[0] != r.shape[0])
    invalid(context, "expected as many hypotheses as references");
  require_same_dtype(context, h, r);
  const int64_t texts = h.shape[0], height = texts == 0 ? 0 : h.elements() / texts,
                width = texts == 0 ? 0 : r.elements() / texts;
  const auto tall = text_lengths_of(context, hypothesis_lengths, texts, height, "hypslength"),
             wide = text_lengths_of(context, reference_lengths, texts, width, "refslength");
  const auto empty = std::find(wide.begin(), wide.end(), 0);
  if (normalized && empty != wide.end()) {
    invalid(context, "reference " + std::to_string(empty - wide.begin()) + " is empty, which is no norm");
  }
  const int64_t column[] = {texts, 1}, one[] = {1};
  const View out = context.allocate(distance, UHAL_FLOAT32, column, 2);
  const View number = context.allocate(count, UHAL_INT64, one, 1);
  fill(context, number, 0, texts);
  if (texts == 0) return;
  // The element before the table's first one stands for what lies to the left of it, as a row's last one does for the
  // next row: what comes of that is overwritten. So nothing but the marks of the hypotheses has gaps.
  const int64_t all = texts * (width + 1);
  const Scratch memory(context, UHAL_INT64, {all + 1}), now(context, UHAL_INT64, {texts, width + 1}),
      places(context, UHAL_INT64, now), chosen(context, UHAL_INT64, now), marks(context, r.dtype, now),
      ends(context, UHAL_INT64, {texts, 1});
  const View before = memory.sliced(0, 1, all).reshaped({texts, width + 1}),
             diagonal = memory.sliced(0, 0, all).reshaped({texts, width + 1});
  fill_zero(context, memory.sliced(0, 0, 1));
  count_up(context, places);
  copy_or_cast(context, places, before);
  copy_or_cast(context, places, chosen);
  fill_zero(context, marks.sliced(1, 0, 1));
  if (width > 0) copy_or_cast(context, r.reshaped({texts, width}), marks.sliced(1, 1, width));
  copy_or_cast(context, reference_lengths.view().reshaped({texts, 1}), ends);
  const View rows = h.reshaped({texts, height}), lengths = hypothesis_lengths.view().reshaped({texts, 1});
  uhal_scan_attributes least = {};
  least.struct_size = sizeof least;
  least.reduction = UHAL_REDUCE_MINIMUM;
  least.axis = 1;
  // Without insertions, less the distance that is added again behind the scan.
  Chain without(5);
  const int kept = without.step(uhal_map_add, {0, without.step(uhal_map_not_equal, {1, 2})});
  const int left_out = without.step(uhal_map_scale, {3}, {1, 1});
  without.step(uhal_map_subtract, {without.step(uhal_map_minimum, {kept, left_out}), 4});
  const int64_t longest = *std::max_element(tall.begin(), tall.end());
  for (int64_t i = 1; i <= longest; ++i) {
    const View mark = rows.sliced(1, i - 1, 1);
    context.run(UHAL_OP_MAP_CHAIN, {&diagonal, &mark, &marks, &before, &places}, {&now}, without.program());
    fill(context, now.sliced(1, 0, 1), static_cast<double>(i), i);  // all marks are left out
    context.run(UHAL_OP_SCAN, {&now}, {&before}, &least);
    context.map(uhal_map_add, {&before, &places}, {&before});
    if (std::find(tall.begin(), tall.end(), i) == tall.end()) continue;
    Chain last(3);
    const int length = last.step(uhal_map_scale, {1}, {0, static_cast<double>(i)});
    last.step(uhal_map_select, {last.step(uhal_map_equal, {1, length}), 0, 2});
    context.run(UHAL_OP_MAP_CHAIN, {&before, &lengths, &chosen}, {&chosen}, last.program());
  }
  const auto along = index_attributes(1);
  const Scratch found(context, UHAL_INT64, {texts, 1});
  context.run(UHAL_OP_GATHER_ELEMENTS, {&chosen, &ends}, {&found}, &along);
  copy_or_cast(context, found, out);
  if (normalized) context.map(uhal_map_divide, {&out, &ends}, {&out});
}

}  // namespace

KernelTable metric_kernels() {
  return {
      UNIHAL_KERNEL("auc", 1u << kFloat32, auc),
      UNIHAL_KERNEL("edit_distance", 1u << kFloat32, edit_distance),
  };
}

}  // namespace unihal::paddle
