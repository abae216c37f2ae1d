// Reductions and their gradients.
#include <cmath>
#include <utility>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// y, which Paddle may have without the reduced axes, seen with length 1 there. No axes: all.
template <class Axes>
View with_reduced_axes(const View& y, const View& x, const Axes& axes, bool all) {
  bool reduced[UHAL_MAX_RANK] = {};
  for (int64_t axis : axes) reduced[from_front(axis, x.rank)] = true;
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < x.rank; ++i) dims[i] = all || axes.size() == 0 || reduced[i] ? 1 : x.shape[i];
  return y.reshaped(dims, x.rank);
}

template <class Axes>
void reduce_to(const Context& context, uhal_reduction reduction, const View& x, const Axes& axes, bool all,
               const View& y) {
  const View out = with_reduced_axes(y, x, axes, all);
  const auto attributes = reduce_attributes(reduction);
  context.run(UHAL_OP_REDUCE, {&x}, {&out}, &attributes);
}

template <int reduction>
void reduce(Context context, Input x, Integers axes, bool, Output y) {
  const View in = x.view();
  reduce_to(context, reduction, in, axes, false, context.allocate(y, in.dtype));
}

template <int reduction>
void reduce_or_all(Context context, Input x, Integers axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, reduction, in, axes, all, context.allocate(y, in.dtype));
}

template <int reduction>
void reduce_test(Context context, Input x, Span<int64_t> axes, bool, Output y) {
  reduce_to(context, reduction, x.view(), axes, false, context.allocate(y, UHAL_BOOL));
}

template <int reduction>
void reduce_test_or_all(Context context, Input x, Span<int64_t> axes, bool, bool all, Output y) {
  reduce_to(context, reduction, x.view(), axes, all, context.allocate(y, UHAL_BOOL));
}

template <int reduction>
void reduce_span(Context context, Input x, Span<int64_t> axes, bool, Output y) {
  const View in = x.view();
  reduce_to(context, reduction, in, axes, false, context.allocate(y, in.dtype));
}

// The dtype of a sum: the one asked for, else int64 for int32 and bools and the operand's own for the rest.
uhal_dtype dtype_of_sum(uhal_dtype operand, Dtype asked) {
  if (asked != kUndefined) return to_uhal(asked);
  return operand == UHAL_INT32 || operand == UHAL_BOOL ? static_cast<uhal_dtype>(UHAL_INT64) : operand;
}

// Fractions are dropped from the operands, not from their sum.
void sum_or_all(Context context, Input x, Integers axes, bool, bool all, Dtype dtype, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, dtype_of_sum(in.dtype, dtype));
  if (!is_floating(in.dtype) || is_floating(out.dtype)) {
    return reduce_to(context, UHAL_REDUCE_SUM, in, axes, all, out);
  }
  const Scratch whole(context, out.dtype, in);
  copy_or_cast(context, in, whole);
  reduce_to(context, UHAL_REDUCE_SUM, whole, axes, all, out);
}
void sum(Context context, Input x, Integers axes, Dtype dtype, bool keep, Output y) {
  sum_or_all(context, x, std::move(axes), keep, false, dtype, y);
}

void mean_all(Context context, Input x, Output y) {
  const View in = flat(x.view());
  const View out = context.allocate(y, in.dtype).reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_MEAN);
  context.run(UHAL_OP_REDUCE, {&in}, {&out}, &attributes);
}

void squared_l2_norm(Context context, Input x, Output y) {
  const View in = flat(x.view());
  const View out = context.allocate(y, in.dtype).reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
  context.run(UHAL_OP_REDUCE, {&in}, {&out}, &attributes);
}

// dx = dy * factor, broadcast along the reduced axes
void spread(const Context& context, const View& dy, const View& dx, double factor) {
  context.map(uhal_map_scale, {&dy}, {&dx}, {factor, 0});
}

template <bool mean>
void sum_grad(Context context, Input x, Input dy, Integers axes, bool, bool all, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, x.uhal());
  if (out.elements() == 0) return;
  const double share = static_cast<double>(gradient.elements()) / static_cast<double>(out.elements());
  spread(context, with_reduced_axes(gradient, out, axes, all), out, mean ? share : 1);
}

void mean_all_grad(Context context, Input, Input dy, Output dx) {
  const View gradient = dy.view().reshaped(nullptr, 0);
  const View out = context.allocate(dx, gradient.dtype);
  spread(context, gradient, out, 1 / static_cast<double>(out.elements()));
}

// dx = dy / n where x is the extreme value, which n elements share
template <class Axes>
void extreme_grad(Context context, Input x, Input y, Input dy, Axes axes, bool, bool all, Output dx) {
  const View in = x.view();
  const View out = context.allocate(dx, in.dtype);
  if (out.elements() == 0) return;
  const View forward = with_reduced_axes(y.view(), in, axes, all);
  const View gradient = with_reduced_axes(dy.view(), in, axes, all);
  const Scratch is_extreme(context, UHAL_BOOL, in), count(context, accumulator(in.dtype), forward);
  context.map(uhal_map_equal, {&in, &forward}, {&is_extreme});
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&is_extreme}, {&count}, &sum);
  context.map(uhal_map_divide, {&gradient, &count}, {&count});
  context.map(uhal_map_multiply, {&count, &is_extreme}, {&out});
}

// (sum |x|^p)^(1/p) along one axis, or over all elements; p may be 0 or infinite.
void p_norm(Context context, Input x, float order, int axis, float, bool, bool all, Output y) {
  const double p = static_cast<double>(order);
  const View in = all ? flat(x.view()) : x.view();
  const View out = context.allocate(y, in.dtype);
  const View target = out.reshaped(in.with_axis_one(all ? 0 : from_front(axis, in.rank)).shape, in.rank);
  auto reduce_by = [&](uhal_reduction reduction, const View& from) {
    const auto attributes = reduce_attributes(reduction);
    context.run(UHAL_OP_REDUCE, {&from}, {&target}, &attributes);
  };
  if (p == 1) return reduce_by(UHAL_REDUCE_L1_NORM, in);
  if (p == 2) return reduce_by(UHAL_REDUCE_L2_NORM, in);
  const Scratch powers(context, in.dtype, in);
  context.map(uhal_map_absolute, {&in}, {&powers});
  if (std::isinf(p)) return reduce_by(p > 0 ? UHAL_REDUCE_MAXIMUM : UHAL_REDUCE_MINIMUM, powers);
  if (p == 0) {
    context.map(uhal_map_sign, {&powers}, {&powers});
    return reduce_by(UHAL_REDUCE_SUM, powers);
  }
  context.map(uhal_map_power_scalar, {&powers}, {&powers}, {p});
  reduce_by(UHAL_REDUCE_SUM, powers);
  context.map(uhal_map_power_scalar, {&out}, {&out}, {1 / p});
}

void logsumexp(Context context, Input x, Span<int> axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, UHAL_REDUCE_LOG_SUM_EXP, in, axes, all, context.allocate(y, in.dtype));
}

void frobenius_norm(Context context, Input x, Integers axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, UHAL_REDUCE_L2_NORM, in, axes, all, context.allocate(y, in.dtype));
}

void add_n(Context context, MixedInputList list, Output y) {
  if (!list.all_dense()) unsupported(context, "a sparse gradient (SelectedRows)");
  const View out = context.allocate(y, list[0].uhal());
  bool first = true;
  for (size_t i = 0; i < list.size(); ++i) {
    const View next = list[i].view();
    require_same_dtype(context, out, next);
    if (next.elements() == 0) continue;  // an empty tensor of any shape adds nothing
    first ? copy_or_cast(context, next, out) : context.map(uhal_map_add, {&out, &next}, {&out});
    first = false;
  }
  if (first) fill_zero(context, out);
}

}  // namespace

KernelTable reduce_kernels() {
  return {
      UNIHAL_KERNEL("sum", kReal, sum),
      UNIHAL_KERNEL("mean", kFloats, reduce<UHAL_REDUCE_MEAN>),
      UNIHAL_KERNEL("max", kNumbers, reduce<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("min", kNumbers, reduce<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("prod", kNumbers, reduce_or_all<UHAL_REDUCE_PRODUCT>),
      UNIHAL_KERNEL("amax", kNumbers, reduce_span<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("amin", kNumbers, reduce_span<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("all", kReal, reduce_test<UHAL_REDUCE_ALL>),
      UNIHAL_KERNEL("any", kReal, reduce_test<UHAL_REDUCE_ANY>),
      // What programs of the old intermediate representation call.
      UNIHAL_KERNEL("sum_raw", kReal, sum_or_all),
      UNIHAL_KERNEL("mean_raw", kFloats, reduce_or_all<UHAL_REDUCE_MEAN>),
      UNIHAL_KERNEL("max_raw", kNumbers, reduce_or_all<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("min_raw", kNumbers, reduce_or_all<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("all_raw", kReal, reduce_test_or_all<UHAL_REDUCE_ALL>),
      UNIHAL_KERNEL("any_raw", kReal, reduce_test_or_all<UHAL_REDUCE_ANY>),
      UNIHAL_KERNEL("mean_all", kFloats, mean_all),
      UNIHAL_KERNEL("squared_l2_norm", kFloats, squared_l2_norm),
      UNIHAL_KERNEL("p_norm", kFloats, p_norm),
      UNIHAL_KERNEL("logsumexp", kFloats, logsumexp),
      UNIHAL_KERNEL("frobenius_norm", kFloats, frobenius_norm),
      UNIHAL_KERNEL("add_n", kNumbers, add_n),

      UNIHAL_KERNEL("sum_grad", kNumbers, sum_grad<false>),
      UNIHAL_KERNEL("mean_grad", kFloats, sum_grad<true>),
      UNIHAL_KERNEL("mean_all_grad", kFloats, mean_all_grad),
      UNIHAL_KERNEL("max_grad", kFloats, extreme_grad<Integers>),
      UNIHAL_KERNEL("min_grad", kFloats, extreme_grad<Integers>),
      UNIHAL_KERNEL("amax_grad", kFloats, extreme_grad<Span<int64_t>>),
      UNIHAL_KERNEL("amin_grad", kFloats, extreme_grad<Span<int64_t>>),
  };
}

}  // namespace unihal::paddle
