// Arg-reductions, sorting and scans.
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
  const uhal_dtype dtype = accumulator(in.dtype);
  const Scratch number(context, dtype, nullptr, 0), is_zero(context, UHAL_BOOL, in), zeros(context, UHAL_INT64, in);
  const Scratch before(context, UHAL_INT64, in), first(context, UHAL_BOOL, in), none_before(context, UHAL_BOOL, in);
  const Scratch others(context, dtype, in), part(context, dtype, in), sums(context, dtype, in),
      rest(context, dtype, in);
  fill_zero(context, number);
  context.map(uhal_map_equal, {&in, &number}, {&is_zero});
  copy_or_cast(context, is_zero, zeros);
  scan_by(UHAL_REDUCE_SUM, true, reverse, zeros, before);
  context.map(uhal_map_equal, {&before, &number}, {&none_before});
  context.map(uhal_map_logical_and, {&is_zero, &none_before}, {&first});
  fill(context, number, 1, 1);
  context.map(uhal_map_select, {&first, &number, &in}, {&others});
  // sums: with the zero; rest: without it
  context.map(uhal_map_multiply, {&gradient, &forward}, {&part});
  scan_by(UHAL_REDUCE_SUM, exclusive, !reverse, part, sums);
  context.map(uhal_map_divide, {&sums, &others}, {&sums});
  scan_by(UHAL_REDUCE_PRODUCT, exclusive, reverse, others, part);
  context.map(uhal_map_multiply, {&gradient, &part}, {&part});
  scan_by(UHAL_REDUCE_SUM, exclusive, !reverse, part, rest);
  context.map(uhal_map_select, {&first, &rest, &sums}, {&sums});
  fill_zero(context, number);
  context.map(uhal_map_select, {&none_before, &sums, &number}, {&out});
}
void cumsum_grad(Context context, Input, Input dy, Scalar axis, bool flatten, bool exclusive, bool reverse, Output dx) {
  cumsum(context, dy, axis, flatten, exclusive, !reverse, dx);
}

// The running extreme, and where it was last: the largest position so far of an element that is the extreme up to
// itself.
template <uhal_reduction reduction>
void running_extreme(Context context, Input x, int axis, Dtype dtype, Output y, Output indices) {
  const View in = with_rank(x.view(), 1);
  const int along = from_front(axis, in.rank);
  const View out = with_rank(context.allocate(y, in.dtype), 1);
  scan(context, in, along, reduction, out);
  const View where = with_rank(context.allocate(indices, dtype == kInt32 ? UHAL_INT32 : UHAL_INT64), 1);
  if (in.elements() == 0) return;
  const Scratch found(context, UHAL_BOOL, in), numbers(context, where.dtype, &in.shape[along], 1);
  context.map(uhal_map_equal, {&in, &out}, {&found});
  if (is_floating(in.dtype)) {  // a NaN is not equal to itself, and stays the extreme
    const Scratch is_nan(context, UHAL_BOOL, in);
    context.map(uhal_map_is_nan, {&in}, {&is_nan});
    context.map(uhal_map_logical_or, {&found, &is_nan}, {&found});
  }
  uhal_iota_attributes count = {};
  count.struct_size = sizeof count;
  count.integer_step = 1;
  count.step = 1;
  context.run(UHAL_OP_IOTA, {}, {&numbers}, &count);
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) dims[i] = i == along ? in.shape[i] : 1;
  const View positions = numbers.reshaped(dims, in.rank);
  const Scratch own(context, where.dtype, in);
  context.map(uhal_map_multiply, {&found, &positions}, {&own});
  scan(context, own, along, UHAL_REDUCE_MAXIMUM, where);
}
void running_extreme_grad(Context context, Input, Input indices, Input dy, int axis, Dtype, Output dx) {
  scatter_along(context, indices, dy, axis, dx);
}

}  // namespace

KernelTable sort_kernels() {
  return {
      UNIHAL_KERNEL("argmax", kNumbers, arg_extreme<true>),
      UNIHAL_KERNEL("argmin", kNumbers, arg_extreme<false>),
      UNIHAL_KERNEL("argsort", kNumbers, argsort),
      UNIHAL_KERNEL("argsort_grad", kFloats, argsort_grad),
      UNIHAL_KERNEL("cumprod", kNumbers, cumprod),
      UNIHAL_KERNEL("cumprod_grad", kFloats, cumprod_grad),
      UNIHAL_KERNEL("cumsum", kNumbers, cumsum),
      UNIHAL_KERNEL("cumsum_grad", kNumbers, cumsum_grad),
      UNIHAL_KERNEL("topk", kNumbers, topk),
      UNIHAL_KERNEL("topk_grad", kFloats, topk_grad),
      UNIHAL_KERNEL("cummax", kNumbers, running_extreme<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("cummin", kNumbers, running_extreme<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("cummax_grad", kFloats, running_extreme_grad),
      UNIHAL_KERNEL("cummin_grad", kFloats, running_extreme_grad),
  };
}

}  // namespace unihal::paddle
