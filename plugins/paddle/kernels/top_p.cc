// Sampling of words: of the likeliest ones, as many as have a given probability together.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// y (rows) = numbers from 0 to 1: from each row's own seed, from one seed for all, or from the device's generator.
void draw_rows(const Context& context, const OptionalInput& seeds, int64_t seed, const View& y) {
  const auto draw = [&context](const Context::RandomSequence& sequence, const View& into) {
    const auto attributes = random_attributes(UHAL_RANDOM_UNIFORM, 0, 1, sequence.key, 0);
    context.run(UHAL_OP_RANDOM, {sequence.turn}, {&into}, &attributes);
  };
  if (!seeds)
    return draw(seed >= 0 ? Context::RandomSequence{static_cast<uint64_t>(seed), nullptr} : context.random_sequence(),
                y);
  const std::vector<int64_t> each = read_integers(context, flat(seeds.view()));
  for (int64_t row = 0; row < y.shape[0]; ++row) {
    draw({static_cast<uint64_t>(each[static_cast<size_t>(row)]), nullptr}, y.sliced(0, row, 1));
  }
}

// Of each row of probabilities x one: the first, from the likeliest on, with which the sum reaches a random part of
// the row's p; not truncated, of 1. None that is less likely than the row's threshold is taken. The seed's type
// depends on the version.
template <class Seed>
void top_p_sampling(Context context, Input x, Input p, OptionalInput threshold, OptionalInput seeds, Seed seed,
                    int most, Text mode, Output value, Output index, Output top_values, Output top_indices) {
  const View in = x.view(), shares = flat(p.view());
  if (in.rank != 2 || in.shape[1] < 1) invalid(context, "x has not two axes, or nothing to choose from");
  const int64_t rows = in.shape[0], words = in.shape[1];
  if (shares.elements() != rows || (threshold && threshold.elements() != rows) || (seeds && seeds.elements() != rows)) {
    invalid(context, "ps, threshold and topp_seed have not a number for each row of x");
  }
  if (most < 0 || most > words) invalid(context, "k is " + std::to_string(most) + ", of " + std::to_string(words));
  const bool truncates = std::strcmp(mode.value, "truncated") == 0 || std::strcmp(mode.value, "truncate") == 0;
  if (!truncates && std::strcmp(mode.value, "non-truncated") != 0) {
    invalid(context, std::string("the mode \"") + mode.value + "\" is not truncated or non-truncated");
  }
  const int64_t column[] = {rows, 1}, of_top[] = {rows, most};
  const View out = context.allocate(value, in.dtype, column, 2),
             chosen = context.allocate(index, UHAL_INT64, column, 2);
  const View best = top_values ? context.allocate(top_values, in.dtype, of_top, 2) : View();
  const View best_words = top_indices ? context.allocate(top_indices, UHAL_INT64, of_top, 2) : View();
  if (rows == 0) return;
  const uhal_dtype dtype = accumulator(in.dtype);
  const Scratch sorted(context, in.dtype, in), order(context, UHAL_INT64, in), sums(context, dtype, in),
      goal(context, dtype, {rows}), place(context, UHAL_INT64, {rows, 1});
  const auto descending = axis_attributes(1, true);
  context.run(UHAL_OP_SORT, {&in}, {&sorted, &order}, &descending);
  copy_or_cast(context, sorted, sums);
  uhal_scan_attributes scan = {};
  scan.struct_size = sizeof scan;
  scan.axis = 1;
  scan.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCAN, {&sums}, {&sums}, &scan);
  draw_rows(context, seeds, seed, goal);
  if (truncates) context.map(uhal_map_multiply, {&goal, &shares}, {&goal});
  uhal_search_attributes search = {};
  search.struct_size = sizeof search;
  const View goals = goal.reshaped({rows, 1});
  context.run(UHAL_OP_SEARCH_SORTED, {&sums, &goals}, {&place}, &search);
  const Scratch last(context, UHAL_INT64, {rows, 1});
  fill(context, last, 0, words - 1);
  if (threshold) {
    // How many are likely enough, less one.
    const Scratch enough(context, UHAL_BOOL, in), counts(context, UHAL_INT64, in);
    const View least = threshold.view().reshaped({rows, 1});
    context.map(uhal_map_greater_equal, {&sorted, &least}, {&enough});
    copy_or_cast(context, enough, counts);
    const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&counts}, {&last}, &sum);
    context.map(uhal_map_scale, {&last}, {&last}, {1, -1});
  }
  const Constant zero(context, UHAL_INT64, 0);
  context.map(uhal_map_minimum, {&place, &last}, {&place});
  context.map(uhal_map_maximum, {&place, &zero}, {&place});
  const auto along = index_attributes(1);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&sorted, &place}, {&out}, &along);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&order, &place}, {&chosen}, &along);
  if (most == 0) return;
  if (top_values) copy_or_cast(context, sorted.sliced(1, 0, most), best);
  if (top_indices) copy_or_cast(context, order.sliced(1, 0, most), best_words);
}

}  // namespace

KernelTable top_p_kernels() {
  return {
      UNIHAL_KERNEL("top_p_sampling", kFloats, top_p_sampling<int64_t>),
      UNIHAL_KERNEL("top_p_sampling", kFloats, top_p_sampling<int>),
  };
}

}  // namespace unihal::paddle
