// Medians along axes, of all numbers and of those that are not NaN, with gradients.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// The axes that a median goes along, as the last one of a matrix.
struct MedianRows {
  View along;  // x with these axes last
  int64_t rows = 1, length = 1;
  bool all;  // axes

  MedianRows(const View& x, const Integers& axes) {
    std::vector<int> order, last;
    for (int i = 0; i < x.rank; ++i) {
      bool taken = axes.size() == 0;
      for (int k = 0; k < axes.size(); ++k) taken |= from_front(axes[static_cast<size_t>(k)], x.rank) == i;
      (taken ? last : order).push_back(i);
      (taken ? length : rows) *= x.shape[i];
    }
    all = order.empty();
    order.insert(order.end(), last.begin(), last.end());
    along = x.permuted(order.data(), x.rank);
  }

  // A dense matrix seen as the permuted x.
  View seen(const View& matrix) const { return matrix.reshaped(along.shape, along.rank); }
};

void reduce_rows(const Context& context, uhal_reduction reduction, const View& x, const View& y) {
  const auto attributes = reduce_attributes(reduction);
  context.run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
}

// The last place of a value in each row, or of NaN the first one; -1 if it is not there.
void find_place(const Context& context, const View& x, const View& value, const View& place) {
  const Scratch equal(context, UHAL_BOOL, x), places(context, UHAL_INT64, x);
  const Scratch numbers(context, UHAL_INT64, x.shape + 1, 1);
  count_up(context, numbers);
  const View positions = numbers.reshaped({1, x.shape[1]});
  const Constant none(context, -1);
  context.map(uhal_map_equal, {&x, &value}, {&equal});
  context.map(uhal_map_select, {&equal, &positions, &none}, {&places});
  reduce_rows(context, UHAL_REDUCE_MAXIMUM, places, place);
}
void find_first_nan(const Context& context, const View& x, const View& place) {
  const Scratch is_nan(context, UHAL_BOOL, x);
  context.map(uhal_map_is_nan, {&x}, {&is_nan});
  const auto attributes = axis_attributes(1, true);
  context.run(UHAL_OP_ARG_REDUCE, {&is_nan}, {&place}, &attributes);
}

// The mean of two; of integers rounded towards 0, as the CPU does, and without an overflow of the sum.
void find_mean(const Context& context, const View& low, const View& high, const View& mean) {
  if (is_floating(mean.dtype)) {
    context.map(uhal_map_add, {&low, &high}, {&mean});
    return context.map(uhal_map_scale, {&mean}, {&mean}, {0.5, 0});
  }
  const Scratch sum(context, UHAL_INT64, mean), wide(context, UHAL_INT64, mean);
  const Constant two(context, 2);
  copy_or_cast(context, low, sum);
  copy_or_cast(context, high, wide);
  context.map(uhal_map_add, {&sum, &wide}, {&sum});
  context.map(uhal_map_truncate_divide, {&sum, &two}, {&sum});
  copy_or_cast(context, sum, mean);
}

// mode "avg": of an even number the mean of the two in the middle, and the places of both; "min": the lower one. NaN is
// a row's median if there is one in it, or with `ignores_nan` if there is nothing else. Of equal elements the last
// place is given, of NaN the first, and -1 of a row that has nothing else.
void find_median(const Context& context, bool ignores_nan, Input x, const Integers& axes, Text mode, Output y,
                 Output indices) {
  const View in = x.view();
  const bool both = std::strcmp(mode.value, "avg") == 0;
  const MedianRows rows(in, axes);
  const View out = context.allocate(y, in.dtype), where = context.allocate(indices, UHAL_INT64);
  if (out.elements() == 0) return;
  if (rows.length == 0) {  // of nothing
    fill(context, out, std::nan(""), 0);
    return fill(context, where, 0, 0);
  }
  const int64_t matrix[] = {rows.rows, rows.length}, column[] = {rows.rows, 1};
  const Scratch values(context, in.dtype, matrix, 2), sorted(context, in.dtype, matrix, 2);
  copy_or_cast(context, rows.along, rows.seen(values));
  const auto ascending = axis_attributes(1, false);
  context.run(UHAL_OP_SORT, {&values}, {&sorted}, &ascending);
  const View result = out.reshaped(column, 2);
  const View places = where.reshaped({rows.rows, both ? 2 : 1});
  const bool has_nan = is_floating(in.dtype);

  // The places of the middle in the sorted rows.
  const Scratch lower(context, UHAL_INT64, column, 2), upper(context, UHAL_INT64, column, 2);
  const Scratch low(context, in.dtype, column, 2), high(context, in.dtype, column, 2);
  fill(context, lower, 0, (rows.length - 1) / 2);
  fill(context, upper, 0, both ? rows.length / 2 : (rows.length - 1) / 2);
  if (ignores_nan && has_nan) {
    const Scratch is_number(context, UHAL_BOOL, values), counts(context, UHAL_INT64, column, 2);
    const Scratch ones(context, UHAL_INT64, values);
    context.map(uhal_map_equal, {&values, &values}, {&is_number});
    copy_or_cast(context, is_number, ones);
    reduce_rows(context, UHAL_REDUCE_SUM, ones, counts);
    const Constant two(context, 2), zero(context, 0);
    context.map(uhal_map_scale, {&counts}, {&lower}, {1, -1});
    context.map(uhal_map_maximum, {&lower, &zero}, {&lower});
    context.map(uhal_map_truncate_divide, {both ? &counts : &lower, &two}, {&upper});
    context.map(uhal_map_truncate_divide, {&lower, &two}, {&lower});
  }
  const auto picked = index_attributes(1);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&sorted, &lower}, {&low}, &picked);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&sorted, &upper}, {&high}, &picked);
  if (both) {
    find_mean(context, low, high, result);
    find_place(context, values, low, places.sliced(1, 0, 1));
    find_place(context, values, high, places.sliced(1, 1, 1));
  } else {
    copy_or_cast(context, low, result);
    find_place(context, values, low, places);
  }
  if (ignores_nan || !has_nan) return;
  // A row with a NaN has it at its end.
  const View last = sorted.sliced(1, rows.length - 1, 1);
  const Scratch is_nan(context, UHAL_BOOL, column, 2), first(context, UHAL_INT64, column, 2);
  context.map(uhal_map_is_nan, {&last}, {&is_nan});
  context.map(uhal_map_select, {&is_nan, &last, &result}, {&result});
  find_first_nan(context, values, first);
  context.map(uhal_map_select, {&is_nan, &first, &places}, {&places});
}

template <bool ignores_nan>
void median(Context context, Input x, Integers axes, bool, Text mode, Output y, Output indices) {
  find_median(context, ignores_nan, x, axes, mode, y, indices);
}

// Of a mean of two different elements each has half of the gradient; else the elements that equal the median share it,
// but with mode "min" along some of the axes the one that was found has all. Without a median the elements that were
// found have it.
void find_gradient(const Context& context, Input x, const Input* median, Input indices, Input dy, const Integers& axes,
                   Text mode, Output dx) {
  const View in = x.view();
  const bool both = std::strcmp(mode.value, "avg") == 0;
  const View out = context.allocate(dx, in.dtype);
  const MedianRows rows(in, axes);
  if (out.elements() == 0) return;
  const int64_t matrix[] = {rows.rows, rows.length}, column[] = {rows.rows, 1};
  const uhal_dtype dtype = accumulator(in.dtype);
  const View given = indices.view().reshaped({rows.rows, both ? 2 : 1});
  const View gradient = dy.view().reshaped(column, 2);
  const Scratch values(context, in.dtype, matrix, 2), spread(context, dtype, matrix, 2);
  const Scratch places(context, UHAL_INT64, given), updates(context, dtype, given), found(context, UHAL_BOOL, given);
  const Constant none(context, 0), zero(context, dtype, 0);
  copy_or_cast(context, rows.along, rows.seen(values));
  context.map(uhal_map_maximum, {&given, &none}, {&places});
  context.map(uhal_map_greater_equal, {&given, &none}, {&found});
  if (!median || (!both && !rows.all)) {
    const Scratch shares(context, dtype, column, 2);
    fill_zero(context, spread);
    if (both) context.map(uhal_map_scale, {&gradient}, {&shares}, {0.5, 0});
    context.map(uhal_map_select, {&found, both ? static_cast<const View*>(&shares) : &gradient, &zero}, {&updates});
  } else {
    const View middle = median->view().reshaped(column, 2);
    const Scratch equal(context, UHAL_BOOL, values), is_nan(context, UHAL_BOOL, values);
    const Scratch none_is(context, UHAL_BOOL, column, 2), counts(context, dtype, column, 2);
    const Scratch shares(context, dtype, column, 2), marks(context, dtype, values);
    context.map(uhal_map_equal, {&values, &middle}, {&equal});
    if (is_floating(in.dtype)) {
      const Scratch row_is_nan(context, UHAL_BOOL, column, 2);
      context.map(uhal_map_is_nan, {&values}, {&is_nan});
      context.map(uhal_map_is_nan, {&middle}, {&row_is_nan});
      context.map(uhal_map_logical_and, {&is_nan, &row_is_nan}, {&is_nan});
      context.map(uhal_map_logical_or, {&equal, &is_nan}, {&equal});
    }
    copy_or_cast(context, equal, marks);
    reduce_rows(context, UHAL_REDUCE_SUM, marks, counts);
    context.map(uhal_map_divide_no_nan, {&gradient, &counts}, {&shares});
    context.map(uhal_map_select, {&equal, &shares, &zero}, {&spread});
    context.map(uhal_map_equal, {&counts, &zero}, {&none_is});
    context.map(uhal_map_logical_and, {&found, &none_is}, {&found});
    context.map(uhal_map_scale, {&gradient}, {&shares}, {0.5, 0});
    context.map(uhal_map_select, {&found, &shares, &zero}, {&updates});
  }  // with mode "min" an element equals the median, and no half is added
  auto attributes = index_attributes(1);
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&places, &updates}, {&spread}, &attributes);
  MedianRows back(out, axes);
  copy_or_cast(context, rows.seen(spread), back.along);
}

void median_grad(Context context, Input x, Input median, Input indices, Input dy, Integers axes, bool, Text mode,
                 Output dx) {
  find_gradient(context, x, &median, indices, dy, axes, mode, dx);
}

// Paddle 3.0 and 3.1
void nanmedian_grad_without_median(Context context, Input x, Input indices, Input dy, Integers axes, bool, Text mode,
                                   Output dx) {
  find_gradient(context, x, nullptr, indices, dy, axes, mode, dx);
}

}  // namespace

KernelTable median_kernels() {
  constexpr DtypeSet kSortable = kWideFloats | 1u << kFloat16 | kInt32And64;
  return {
      UNIHAL_KERNEL("median", kSortable, median<false>),
      UNIHAL_KERNEL("nanmedian", kSortable, median<true>),
      UNIHAL_KERNEL("median_grad", kFloats, median_grad),
      UNIHAL_KERNEL("nanmedian_grad", kFloats, median_grad),
      UNIHAL_KERNEL("nanmedian_grad", kFloats, nanmedian_grad_without_median),
  };
}

}  // namespace unihal::paddle
