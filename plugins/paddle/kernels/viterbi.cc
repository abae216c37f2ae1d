// The best sequence of tags by Viterbi's algorithm: a step of the sequences at a time.
#include <algorithm>
#include <deque>
#include <string>

#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

// Whether the sequences' lengths are greater than a number, or equal to it.
void compare(const Context& context, int function, const View& lengths, int64_t number, const View& y) {
  const Scratch value(context, UHAL_INT64, nullptr, 0);
  fill(context, value, 0, number);
  context.map(function, {&lengths, &value}, {&y});
}

// Tags with this score, and their number, along the last axis.
void find_best_tags(const Context& context, const View& scores, const View& best, const View& tags) {
  const auto largest = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  const auto descending = axis_attributes(scores.rank - 1, true);
  context.run(UHAL_OP_ARG_REDUCE, {&scores}, {&tags}, &descending);
  context.run(UHAL_OP_REDUCE, {&scores}, {&best}, &largest);
}

int64_t longest(const Context& context, const View& lengths, int64_t steps) {
  const Scratch most(context, UHAL_INT64, {1, 1});
  const auto largest = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  context.run(UHAL_OP_REDUCE, {&lengths}, {&most}, &largest);
  const auto length = static_cast<int64_t>(read_number(context, most));
  if (length > steps) {
    invalid(context, "a length is " + std::to_string(length) + ", the sequences have " + std::to_string(steps));
  }
  return std::max<int64_t>(length, 0);
}

// Rows of the transitions are the tags before. With tags for begin and end those are the last two.
void viterbi_decode(Context context, Input potentials, Input transitions, Input lengths, bool with_borders,
                    Output scores, Output path) {
  const View emissions = potentials.view(), rules = transitions.view();
  if (emissions.rank != 3 || rules.rank != 2 || rules.shape[0] != emissions.shape[2] ||
      rules.shape[1] != emissions.shape[2]) {
    invalid(context, "expected potentials (sequences, steps, tags) and transitions (tags, tags)");
  }
  require_same_dtype(context, emissions, rules);
  const int64_t batch = emissions.shape[0], steps = emissions.shape[1], tags = emissions.shape[2];
  if (lengths.elements() != batch) invalid(context, "there is not a length for each sequence");
  if (with_borders && tags < 2) invalid(context, "there are no tags for begin and end");
  const uhal_dtype dtype = emissions.dtype;
  const View best = context.allocate(scores, dtype, &batch, 1);
  const Scratch ends(context, UHAL_INT64, {batch, 1});
  copy_or_cast(context, lengths.view().reshaped({batch, 1}), ends);
  const int64_t width = batch == 0 ? 0 : longest(context, ends, steps), dims[] = {batch, width};
  const View result = context.allocate(path, UHAL_INT64, dims, 2);
  if (batch == 0 || steps == 0 || tags == 0) return fill_zero(context, best);

  const Scratch alpha(context, dtype, {batch, tags}), next(context, dtype, {batch, tags}),
      sums(context, dtype, {batch, tags, tags}), goes_on(context, UHAL_BOOL, {batch, 1});
  const auto emission = [&](int64_t t) {
    View view = emissions.sliced(1, t, 1).permuted({0, 2, 1});  // (sequences, tags, 1)
    view.rank = 2;
    return view;
  };
  // What ends with step t pays for the end.
  const auto end_at = [&](int64_t t) {
    const View stop = rules.sliced(0, tags - 2, 1);
    compare(context, uhal_map_equal, ends, t + 1, goes_on);
    context.map(uhal_map_add, {&alpha, &stop}, {&next});
    context.map(uhal_map_select, {&goes_on, &next, &alpha}, {&alpha});
  };
  copy_or_cast(context, emission(0), alpha);
  if (with_borders) {
    const View begin = rules.sliced(0, tags - 1, 1);
    context.map(uhal_map_add, {&alpha, &begin}, {&alpha});
    end_at(0);
  }
  std::deque<Scratch> before;  // of each step from the second on: the best tag before each
  const View by_tag = rules.transposed(0, 1).unsqueezed(0);  // (1, tag, the one before)
  for (int64_t t = 1; t < width; ++t) {
    const View from = alpha.reshaped({batch, 1, tags}), potential = emission(t);
    context.map(uhal_map_add, {&from, &by_tag}, {&sums});
    const Scratch& origin = before.emplace_back(context, UHAL_INT64, std::initializer_list<int64_t>{batch, tags});
    find_best_tags(context, sums, next.reshaped({batch, tags, 1}), origin.reshaped({batch, tags, 1}));
    context.map(uhal_map_add, {&next, &potential}, {&next});
    compare(context, uhal_map_greater, ends, t, goes_on);
    context.map(uhal_map_select, {&goes_on, &next, &alpha}, {&alpha});
    if (with_borders) end_at(t);
  }
  const Scratch tag(context, UHAL_INT64, {batch, 1}), earlier(context, UHAL_INT64, {batch, 1}),
      none(context, UHAL_INT64, {batch, 1});
  find_best_tags(context, alpha, best.reshaped({batch, 1}), tag);
  fill_zero(context, none);
  const auto along_tags = index_attributes(1);
  for (int64_t t = width; t-- > 0;) {
    const View column = result.sliced(1, t, 1);
    compare(context, uhal_map_greater, ends, t, goes_on);
    context.map(uhal_map_select, {&goes_on, &tag, &none}, {&column});
    if (t == 0) break;
    const Scratch& origin = before[static_cast<size_t>(t) - 1];
    context.run(UHAL_OP_GATHER_ELEMENTS, {&origin, &tag}, {&earlier}, &along_tags);
    context.map(uhal_map_select, {&goes_on, &earlier, &tag}, {&tag});
  }
}

}  // namespace

KernelTable viterbi_kernels() { return {UNIHAL_KERNEL("viterbi_decode", kWideFloats, viterbi_decode)}; }

}  // namespace unihal::paddle
