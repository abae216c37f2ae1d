// Arg-reductions, sorting and scans.
#include <algorithm>
#include <cmath>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

template <bool maximum>
void arg_extreme(Context context, Input x, Scalar axis, bool, bool flatten, Dtype dtype, Output y) {
  const View in = flatten ? flat(x.view()) : with_rank(x.view(), 1);
  const int along = flatten ? 0 : from_front(axis.integer(), in.rank);
  const View out = context.allocate(y, dtype == kInt32 ? UHAL_INT32 : UHAL_INT64);
  const View target = out.reshaped(in.with_axis_one(along).shape, in.rank);
  const auto attributes = axis_attributes(along, maximum);
  context.run(UHAL_OP_ARG_REDUCE, {&in}, {&target}, &attributes);
}

void argsort(Context context, Input x, int axis, bool descending, bool, Output values, Output indices) {
  const View in = with_rank(x.view(), 1);
  const View sorted = with_rank(context.allocate(values, in.dtype), 1);
  const View order = with_rank(context.allocate(indices, UHAL_INT64), 1);
  const auto attributes = axis_attributes(from_front(axis, in.rank), descending);
  context.run(UHAL_OP_SORT, {&in}, {&sorted, &order}, &attributes);
}

void topk(Context context, Input x, Scalar k, int axis, bool largest, bool, Output values, Output indices) {
  const View in = with_rank(x.view(), 1);
  const int along = from_front(axis, in.rank);
  if (in.elements() != 0 && (k.integer() < 0 || k.integer() > in.shape[along])) {
    invalid(context, "k is " + std::to_string(k.integer()) + ", expected 0 to " + std::to_string(in.shape[along]) +
                         ", the length of axis " + std::to_string(along));
  }
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) dims[i] = i == along ? k.integer() : in.shape[i];
  const int rank = x.rank();
  const View top = with_rank(context.allocate(values, in.dtype, dims, rank), 1);
  const View where = with_rank(context.allocate(indices, UHAL_INT64, dims, rank), 1);
  if (in.elements() == 0) {  // nothing to choose from
    fill(context, top, std::nan(""), 0);
    return fill_zero(context, where);
  }
  const auto attributes = axis_attributes(along, largest);
  context.run(UHAL_OP_TOP_K, {&in}, {&top, &where}, &attributes);
}

// The gradient of values picked by index along an axis: zero elsewhere.
void scatter_along(const Context& context, Input indices, Input dvalues, int axis, Output dx) {
  const View at = with_rank(indices.view(), 1), gradient = with_rank(dvalues.view(), 1);
  const View out = with_rank(context.allocate(dx, gradient.dtype), 1);
  fill_zero(context, out);
  auto attributes = index_attributes(from_front(axis, out.rank));
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &gradient}, {&out}, &attributes);
}
void topk_grad(Context context, Input, Input indices, Input dvalues, Scalar, int axis, bool, bool, Output dx) {
  scatter_along(context, indices, dvalues, axis, dx);
}
void argsort_grad(Context context, Input indices, Input, Input dvalues, int axis, bool, bool, Output dx) {
  scatter_along(context, indices, dvalues, axis, dx);
}

void scan(const Context& context, const View& in, int64_t axis, uhal_reduction reduction, const View& out,
          bool exclusive = false, bool reverse = false) {
  uhal_scan_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = from_front(axis, in.rank);
  attributes.reduction = reduction;
  attributes.exclusive = exclusive;
  attributes.reverse = reverse;
  context.run(UHAL_OP_SCAN, {&in}, {&out}, &attributes);
}
void scan(const Context& context, const View& in, int64_t axis, uhal_reduction reduction, bool exclusive, bool reverse,
          Output y) {
  scan(context, in, axis, reduction, context.allocate(y, in.dtype).reshaped(in.shape, in.rank), exclusive, reverse);
}
void cumsum(Context context, Input x, Scalar axis, bool flatten, bool exclusive, bool reverse, Output y) {
  const View in = flatten ? flat(x.view()) : with_rank(x.view(), 1);
  scan(context, in, flatten ? 0 : axis.integer(), UHAL_REDUCE_SUM, exclusive, reverse, y);
}
void cumprod(Context context, Input x, int axis, bool exclusive, bool reverse, Output y) {
  scan(context, with_rank(x.view(), 1), axis, UHAL_REDUCE_PRODUCT, exclusive, reverse, y);
}
// The gradient of an element is the sum, over the products that it is in, of gradient times product, divided by the
// element. The first zero has the products without it instead, and what comes behind a zero has no gradient.
void cumprod_grad(Context context, Input x, Input y, Input dy, int axis, bool exclusive, bool reverse, Output dx) {
  const View in = with_rank(x.view(), 1), forward = with_rank(y.view(), 1), gradient = with_rank(dy.view(), 1);
  const View out = with_rank(context.allocate(dx, in.dtype), 1);
  if (out.elements() == 0) return;
  uhal_scan_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = from_front(axis, in.rank);
  auto scan_by = [&](uhal_reduction reduction, bool without_itself, bool backward, const View& from, const View& to) {
    attributes.reduction = reduction;
    attributes.exclusive = without_itself;
    attributes.reverse = backward;
    context.run(UHAL_OP_SCAN, {&from}, {&to}, &attributes);
  };
  const uhal_dtype dtype = working(in.dtype);
  const int times = times_conjugate(dtype);
  const Scratch number(context, dtype, nullptr, 0), none(context, UHAL_INT64, nullptr, 0),
      is_zero(context, UHAL_BOOL, in), zeros(context, UHAL_INT64, in);
  const Scratch before(context, UHAL_INT64, in), first(context, UHAL_BOOL, in), none_before(context, UHAL_BOOL, in);
  const Scratch others(context, dtype, in), part(context, dtype, in), sums(context, dtype, in),
      rest(context, dtype, in);
  fill_zero(context, number);
  fill_zero(context, none);
  context.map(uhal_map_equal, {&in, &number}, {&is_zero});
  copy_or_cast(context, is_zero, zeros);
  scan_by(UHAL_REDUCE_SUM, true, reverse, zeros, before);
  context.map(uhal_map_equal, {&before, &none}, {&none_before});
  context.map(uhal_map_logical_and, {&is_zero, &none_before}, {&first});
  fill(context, number, 1, 1);
  context.map(uhal_map_select, {&first, &number, &in}, {&others});
  // sums: with the zero; rest: without it
  context.map(times, {&gradient, &forward}, {&part});
  scan_by(UHAL_REDUCE_SUM, exclusive, !reverse, part, sums);
  context.map(by_conjugate(dtype), {&sums, &others}, {&sums});
  scan_by(UHAL_REDUCE_PRODUCT, exclusive, reverse, others, part);
  context.map(times, {&gradient, &part}, {&part});
  scan_by(UHAL_REDUCE_SUM, exclusive, !reverse, part, rest);
  context.map(uhal_map_select, {&first, &rest, &sums}, {&sums});
  fill_zero(context, number);
  context.map(uhal_map_select, {&none_before, &sums, &number}, {&out});
}
void cumsum_grad(Context context, Input, Input dy, Scalar axis, bool flatten, bool exclusive, bool reverse, Output dx) {
  cumsum(context, dy, axis, flatten, exclusive, !reverse, dx);
}

// The running extreme, and where it was last.
template <uhal_reduction reduction>
void running_extreme(Context context, Input x, int axis, Dtype dtype, Output y, Output indices) {
  const View in = with_rank(x.view(), 1);
  const View out = with_rank(context.allocate(y, in.dtype), 1);
  const View where = with_rank(context.allocate(indices, dtype == kInt32 ? UHAL_INT32 : UHAL_INT64), 1);
  if (in.elements() == 0) return;
  uhal_scan_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = from_front(axis, in.rank);
  attributes.reduction = reduction;
  context.run(UHAL_OP_SCAN, {&in}, {&out, &where}, &attributes);
}
void running_extreme_grad(Context context, Input, Input indices, Input dy, int axis, Dtype, Output dx) {
  scatter_along(context, indices, dy, axis, dx);
}

// The element that would be at place k - 1 (from 1) of the sorted row, NaN last, and where it is.
template <class Number>
void kthvalue(Context context, Input x, Number k, int axis, bool, Output values, Output indices) {
  const View in = with_rank(x.view(), 1);
  const int along = from_front(axis, in.rank);
  const View out = context.allocate(values, in.dtype), where = context.allocate(indices, UHAL_INT64);
  if (out.elements() == 0) return;
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(in.shape, in.rank, dims);
  dims[along] = k;
  const Scratch smallest(context, in.dtype, dims, in.rank), places(context, UHAL_INT64, dims, in.rank);
  const auto attributes = axis_attributes(along, false);
  context.run(UHAL_OP_TOP_K, {&in}, {&smallest, &places}, &attributes);
  dims[along] = 1;
  copy_or_cast(context, smallest.sliced(along, k - 1, 1), out.reshaped(dims, in.rank));
  copy_or_cast(context, places.sliced(along, k - 1, 1), where.reshaped(dims, in.rank));
}
// Of one element picked from each row.
void scatter_one_along(const Context& context, const View& in, Input indices, Input dvalues, int axis, Output dx) {
  const View out = with_rank(context.allocate(dx, in.dtype), 1);
  const int along = from_front(axis, out.rank);
  fill_zero(context, out);
  if (out.elements() == 0) return;
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < out.rank; ++i) dims[i] = i == along ? 1 : out.shape[i];
  const View at = indices.view().reshaped(dims, out.rank), gradient = dvalues.view().reshaped(dims, out.rank);
  const auto attributes = index_attributes(along);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &gradient}, {&out}, &attributes);
}
template <class Number>
void kthvalue_grad(Context context, Input x, Input indices, Input dvalues, Number, int axis, bool, Output dx) {
  scatter_one_along(context, x.shape_only(), indices, dvalues, axis, dx);
}

// The smallest of the most frequent elements of each row and the last place where it is: the end of the first longest
// run of equals in the sorted row.
void mode(Context context, Input x, int axis, bool, Output values, Output indices) {
  const View in = with_rank(x.view(), 1);
  const int along = from_front(axis, in.rank);
  const View out = context.allocate(values, in.dtype), where = context.allocate(indices, UHAL_INT64);
  if (out.elements() == 0) return;
  const int64_t length = in.shape[along];
  const Scratch sorted(context, in.dtype, in), order(context, UHAL_INT64, in);
  const auto ascending = axis_attributes(along, false);
  context.run(UHAL_OP_SORT, {&in}, {&sorted, &order}, &ascending);
  // Where the last run before each element begins, and how far the element is from there.
  const uhal_dtype place_dtype = length <= INT32_MAX ? UHAL_INT32 : UHAL_INT64;
  const Scratch starts(context, UHAL_BOOL, in), reached(context, UHAL_BOOL, in), first(context, place_dtype, in);
  const Scratch runs(context, place_dtype, in), numbers(context, place_dtype, &length, 1);
  fill(context, starts.sliced(along, 0, 1), 1, 1);
  const View later = sorted.sliced(along, 1, length - 1), before = sorted.sliced(along, 0, length - 1);
  const View begins = starts.sliced(along, 1, length - 1);
  if (length > 1) context.map(uhal_map_not_equal, {&later, &before}, {&begins});
  uhal_scan_attributes last = {};
  last.struct_size = sizeof last;
  last.axis = along;
  last.reduction = UHAL_REDUCE_MAXIMUM;
  context.run(UHAL_OP_SCAN, {&starts}, {&reached, &first}, &last);
  count_up(context, numbers);
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) dims[i] = i == along ? length : 1;
  const View positions = numbers.reshaped(dims, in.rank);
  context.map(uhal_map_subtract, {&positions, &first}, {&runs});
  for (int i = 0; i < in.rank; ++i) dims[i] = i == along ? 1 : in.shape[i];
  const Scratch end(context, UHAL_INT64, dims, in.rank);
  const auto largest = axis_attributes(along, true);
  context.run(UHAL_OP_ARG_REDUCE, {&runs}, {&end}, &largest);
  const auto picked = index_attributes(along);
  const View value = out.reshaped(dims, in.rank), place = where.reshaped(dims, in.rank);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&sorted, &end}, {&value}, &picked);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&order, &end}, {&place}, &picked);
}
void mode_grad(Context context, Input x, Input indices, Input dvalues, int axis, bool, Output dx) {
  scatter_one_along(context, x.shape_only(), indices, dvalues, axis, dx);
}

void logcumsumexp(Context context, Input x, int axis, bool flatten, bool exclusive, bool reverse, Output y) {
  const View in = flatten ? flat(x.view()) : with_rank(x.view(), 1);
  scan(context, in, flatten ? 0 : axis, UHAL_REDUCE_LOG_SUM_EXP, exclusive, reverse, y);
}
// exp(x) times the sum, over the results that an element is in, of gradient times exp(-result); positive and negative
// gradients apart, in logarithms, so that nothing leaves the range.
void logcumsumexp_grad(Context context, Input x, Input y, Input dy, int axis, bool flatten, bool exclusive,
                       bool reverse, Output dx) {
  const View in = flatten ? flat(x.view()) : with_rank(x.view(), 1);
  const View forward = y.view().reshaped(in.shape, in.rank), gradient = dy.view().reshaped(in.shape, in.rank);
  const View out = context.allocate(dx, in.dtype).reshaped(in.shape, in.rank);
  if (out.elements() == 0) return;
  const uhal_dtype dtype = accumulator(in.dtype);
  const Scratch part(context, dtype, in), sums(context, dtype, in), zero(context, dtype, nullptr, 0);
  const Scratch positive(context, dtype, in), negative(context, dtype, in);
  fill_zero(context, zero);
  const int along = flatten ? 0 : from_front(axis, in.rank);
  for (const bool is_positive : {true, false}) {
    const Scratch& result = is_positive ? positive : negative;
    if (is_positive) {
      context.map(uhal_map_maximum, {&gradient, &zero}, {&part});
    } else {
      context.map(uhal_map_negative, {&gradient}, {&part});
      context.map(uhal_map_maximum, {&part, &zero}, {&part});
    }
    context.map(uhal_map_log, {&part}, {&part});
    context.map(uhal_map_subtract, {&part, &forward}, {&part});
    scan(context, part, along, UHAL_REDUCE_LOG_SUM_EXP, sums, exclusive, !reverse);
    context.map(uhal_map_add, {&sums, &in}, {&sums});
    context.map(uhal_map_exp, {&sums}, {&result});
  }
  context.map(uhal_map_subtract, {&positive, &negative}, {&out});
}

}  // namespace

KernelTable sort_kernels() {
  return {
      UNIHAL_KERNEL("argmax", kNumbers, arg_extreme<true>),
      UNIHAL_KERNEL("argmin", kNumbers, arg_extreme<false>),
      UNIHAL_KERNEL("argsort", kNumbers, argsort),
      UNIHAL_KERNEL("argsort_grad", kFloats, argsort_grad),
      UNIHAL_KERNEL("cumprod", kNumbers | kComplex, cumprod),
      UNIHAL_KERNEL("cumprod_grad", kFloats | kComplex, cumprod_grad),
      UNIHAL_KERNEL("cumsum", kNumbers | kComplex, cumsum),
      UNIHAL_KERNEL("cumsum_grad", kNumbers | kComplex, cumsum_grad),
      UNIHAL_KERNEL("topk", kNumbers, topk),
      UNIHAL_KERNEL("topk_grad", kFloats, topk_grad),
      UNIHAL_KERNEL("cummax", kNumbers, running_extreme<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("cummin", kNumbers, running_extreme<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("cummax_grad", kFloats, running_extreme_grad),
      UNIHAL_KERNEL("cummin_grad", kFloats, running_extreme_grad),
      UNIHAL_KERNEL("kthvalue", kNumbers, kthvalue<int64_t>),
      UNIHAL_KERNEL("kthvalue", kNumbers, kthvalue<int>),
      UNIHAL_KERNEL("kthvalue_grad", kFloats, kthvalue_grad<int64_t>),
      UNIHAL_KERNEL("kthvalue_grad", kFloats, kthvalue_grad<int>),
      UNIHAL_KERNEL("mode", kNumbers, mode),
      UNIHAL_KERNEL("mode_grad", kFloats, mode_grad),
      UNIHAL_KERNEL("logcumsumexp", kFloats, logcumsumexp),
      UNIHAL_KERNEL("logcumsumexp_grad", kFloats, logcumsumexp_grad),
  };
}

}  // namespace unihal::paddle
