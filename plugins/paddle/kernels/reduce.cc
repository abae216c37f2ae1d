// Reductions and their gradients.
#include <cmath>
#include <utility>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/selected_rows.h"

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

// Complex numbers are true where they are not 0.
template <class Axes>
void test_to(const Context& context, uhal_reduction reduction, const View& x, const Axes& axes, bool all,
             const View& y) {
  if (!is_complex(x.dtype)) return reduce_to(context, reduction, x, axes, all, y);
  const Scratch test(context, UHAL_BOOL, x);
  as_test(context, x, test);
  reduce_to(context, reduction, test, axes, all, y);
}

template <int reduction>
void reduce_test(Context context, Input x, Span<int64_t> axes, bool, Output y) {
  test_to(context, reduction, x.view(), axes, false, context.allocate(y, UHAL_BOOL));
}

template <int reduction>
void reduce_test_or_all(Context context, Input x, Span<int64_t> axes, bool, bool all, Output y) {
  test_to(context, reduction, x.view(), axes, all, context.allocate(y, UHAL_BOOL));
}

template <int reduction>
void reduce_span(Context context, Input x, Span<int64_t> axes, bool, Output y) {
  const View in = x.view();
  reduce_to(context, reduction, in, axes, false, context.allocate(y, in.dtype));
}

template <int reduction>
void reduce_span_or_all(Context context, Input x, Span<int64_t> axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, reduction, in, axes, all, context.allocate(y, in.dtype));
}

// Of integers the quotient without its fraction.
void mean_of(const Context& context, const View& x, const Integers& axes, bool all, const View& y) {
  if (!is_integer(x.dtype)) return reduce_to(context, UHAL_REDUCE_MEAN, x, axes, all, y);
  const Scratch sum(context, UHAL_INT64, y), count(context, UHAL_INT64, nullptr, 0);
  reduce_to(context, UHAL_REDUCE_SUM, x, axes, all, sum);
  fill(context, count, 0, y.elements() == 0 ? 1 : x.elements() / y.elements());
  context.map(uhal_map_truncate_divide, {&sum, &count}, {&y});
}
void mean(Context context, Input x, Integers axes, bool, Output y) {
  const View in = x.view();
  mean_of(context, in, axes, false, context.allocate(y, in.dtype));
}
void mean_or_all(Context context, Input x, Integers axes, bool, bool all, Output y) {
  const View in = x.view();
  mean_of(context, in, axes, all, context.allocate(y, in.dtype));
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

// NaN counts as 0, and has no gradient.
void nansum(Context context, Input x, Integers axes, Dtype dtype, bool, Output y) {
  const View in = x.view(), out = context.allocate(y, dtype_of_sum(in.dtype, dtype));
  const Scratch is_nan(context, UHAL_BOOL, in), clean(context, out.dtype, in), zero(context, in.dtype, nullptr, 0);
  const Scratch kept(context, in.dtype, in);
  fill_zero(context, zero);
  context.map(uhal_map_is_nan, {&in}, {&is_nan});
  context.map(uhal_map_select, {&is_nan, &zero, &in}, {&kept});
  copy_or_cast(context, kept, clean);
  reduce_to(context, UHAL_REDUCE_SUM, clean, axes, false, out);
}
void nansum_grad(Context context, Input x, Input dy, Integers axes, bool, bool all, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, in.dtype);
  if (out.elements() == 0) return;
  const Scratch is_nan(context, UHAL_BOOL, in), zero(context, gradient.dtype, nullptr, 0);
  fill_zero(context, zero);
  context.map(uhal_map_is_nan, {&in}, {&is_nan});
  const View spread_out = with_reduced_axes(gradient, in, axes, all);
  context.map(uhal_map_select, {&is_nan, &zero, &spread_out}, {&out});
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

// (sum |x|^p)^(1/p) along the axes where y has length 1; p may be 0 or infinite. Of no elements it is 0.
void p_norm_of(const Context& context, const View& x, double p, const View& y) {
  if (x.elements() == 0) return fill_zero(context, y);
  auto reduce_by = [&](uhal_reduction reduction, const View& from) {
    const auto attributes = reduce_attributes(reduction);
    context.run(UHAL_OP_REDUCE, {&from}, {&y}, &attributes);
  };
  if (p == 1) return reduce_by(UHAL_REDUCE_L1_NORM, x);
  if (p == 2) return reduce_by(UHAL_REDUCE_L2_NORM, x);
  if (p == 0) {  // the number of those that are not 0, as NaN is not
    const Scratch zero(context, x.dtype, nullptr, 0), counted(context, UHAL_BOOL, x);
    fill_zero(context, zero);
    context.map(uhal_map_not_equal, {&x, &zero}, {&counted});
    return reduce_by(UHAL_REDUCE_SUM, counted);
  }
  const Scratch powers(context, x.dtype, x);
  context.map(uhal_map_absolute, {&x}, {&powers});
  if (std::isinf(p)) return reduce_by(p > 0 ? UHAL_REDUCE_MAXIMUM : UHAL_REDUCE_MINIMUM, powers);
  context.map(uhal_map_power_scalar, {&powers}, {&powers}, {p});
  reduce_by(UHAL_REDUCE_SUM, powers);
  context.map(uhal_map_power_scalar, {&y}, {&y}, {1 / p});
}

// Along one axis, or over all elements
void p_norm(Context context, Input x, float order, int axis, float, bool, bool all, Output y) {
  const View in = all ? flat(x.view()) : x.view();
  const View out = context.allocate(y, in.dtype);
  p_norm_of(context, in, static_cast<double>(order),
            out.reshaped(in.with_axis_one(all ? 0 : from_front(axis, in.rank)).shape, in.rank));
}

// dx = |x|^(p - 1) / (y^(p - 1) + epsilon) * sign(x) * dy, of views of one rank; where p is infinite, where |x| is y
void p_norm_gradient(const Context& context, const View& x, const View& y, const View& dy, double p, double epsilon,
                     const View& dx) {
  if (dx.elements() == 0) return;
  if (p == 0) return fill_zero(context, dx);
  const uhal_dtype dtype = accumulator(x.dtype);
  const Scratch size(context, dtype, x), sign(context, dtype, x), divisor(context, dtype, y);
  context.map(uhal_map_absolute, {&x}, {&size});
  context.map(uhal_map_sign, {&x}, {&sign});
  if (std::isinf(p)) {
    const Scratch is_extreme(context, UHAL_BOOL, x);
    context.map(uhal_map_equal, {&size, &y}, {&is_extreme});
    context.map(uhal_map_multiply, {&sign, &is_extreme}, {&size});
    return context.map(uhal_map_multiply, {&size, &dy}, {&dx});
  }
  context.map(uhal_map_power_scalar, {&size}, {&size}, {p - 1});
  context.map(uhal_map_power_scalar, {&y}, {&divisor}, {p - 1});
  context.map(uhal_map_scale, {&divisor}, {&divisor}, {1, epsilon});
  context.map(uhal_map_divide, {&size, &divisor}, {&size});
  context.map(uhal_map_multiply, {&size, &sign}, {&size});
  context.map(uhal_map_multiply, {&size, &dy}, {&dx});
}

void p_norm_grad(Context context, Input x, Input y, Input dy, float order, int axis, float epsilon, bool, bool all,
                 Output dx) {
  const View in = all ? flat(x.view()) : x.view();
  const View shape = in.rank == 0 ? in : in.with_axis_one(all ? 0 : from_front(axis, in.rank));
  const View out = context.allocate(dx, in.dtype);
  p_norm_gradient(context, in, y.view().reshaped(shape.shape, in.rank), dy.view().reshaped(shape.shape, in.rank),
                  static_cast<double>(order), static_cast<double>(epsilon), all ? flat(out) : out);
}

// The p-norm of all of x - y, which broadcast
View broadcast_shape(const View& x, const View& y) {
  View shape = x.rank < y.rank ? y : x;
  const View& other = x.rank < y.rank ? x : y;
  for (int i = 0; i < other.rank; ++i) {
    int64_t& length = shape.shape[shape.rank - 1 - i];
    if (length == 1) length = other.shape[other.rank - 1 - i];
  }
  return View(nullptr, x.dtype, shape.shape, shape.rank);
}
void dist(Context context, Input x, Input y, float order, Output z) {
  const View a = x.view(), b = y.view(), out = context.allocate(z, a.dtype);
  require_same_dtype(context, a, b);
  if (a.elements() == 0 || b.elements() == 0) return fill_zero(context, out);
  const Scratch difference(context, a.dtype, broadcast_shape(a, b));
  context.map(uhal_map_subtract, {&a, &b}, {&difference});
  p_norm_of(context, flat(difference), static_cast<double>(order), out.reshaped({1}));
}
void dist_grad(Context context, Input x, Input y, Input z, Input dz, float order, Output dx, Output dy) {
  const View a = x.view(), b = y.view();
  const View first = dx ? context.allocate(dx, a.dtype) : View(), second = dy ? context.allocate(dy, a.dtype) : View();
  if (a.elements() == 0 || b.elements() == 0) {
    if (dx) fill_zero(context, first);
    if (dy) fill_zero(context, second);
    return;
  }
  const Scratch difference(context, a.dtype, broadcast_shape(a, b)), gradient(context, a.dtype, difference);
  context.map(uhal_map_subtract, {&a, &b}, {&difference});
  p_norm_gradient(context, flat(difference), flat(z.view()), flat(dz.view()), static_cast<double>(order), 1e-12,
                  flat(gradient));
  if (dx) sum_to_shape(context, gradient, first);
  if (dy) {
    context.map(uhal_map_negative, {&gradient}, {&gradient});
    sum_to_shape(context, gradient, second);
  }
}

// dx = x / (y + 1e-12) * dy
void frobenius_norm_grad(Context context, Input x, Input y, Input dy, Integers axes, bool, bool all, Output dx) {
  const View in = x.view(), out = context.allocate(dx, in.dtype);
  if (out.elements() == 0) return;
  const View norm = with_reduced_axes(y.view(), in, axes, all), gradient = with_reduced_axes(dy.view(), in, axes, all);
  const Scratch divisor(context, accumulator(in.dtype), norm), part(context, divisor.dtype, in);
  context.map(uhal_map_scale, {&norm}, {&divisor}, {1, 1e-12});
  context.map(uhal_map_divide, {&in, &divisor}, {&part});
  context.map(uhal_map_multiply, {&part, &gradient}, {&out});
}

// dx = exp(x - y) * dy
void logsumexp_grad(Context context, Input x, Input y, Input dy, Span<int> axes, bool, bool all, Output dx) {
  const View in = x.view(), out = context.allocate(dx, in.dtype);
  if (out.elements() == 0) return;
  const View forward = with_reduced_axes(y.view(), in, axes, all);
  const View gradient = with_reduced_axes(dy.view(), in, axes, all);
  const Scratch part(context, accumulator(in.dtype), in);
  context.map(uhal_map_subtract, {&in, &forward}, {&part});
  context.map(uhal_map_exp, {&part}, {&part});
  context.map(uhal_map_multiply, {&part, &gradient}, {&out});
}

// dx = dy * y / x, of a zero, too: so has Paddle's.
void prod_grad(Context context, Input x, Input y, Input dy, Integers axes, bool, bool all, Output dx) {
  const View in = x.view(), out = context.allocate(dx, in.dtype);
  if (out.elements() == 0) return;
  const View forward = with_reduced_axes(y.view(), in, axes, all);
  const View gradient = with_reduced_axes(dy.view(), in, axes, all);
  const Scratch part(context, working(in.dtype), forward), inverse(context, part.dtype, in);
  const int times = times_conjugate(in.dtype);
  context.map(times, {&gradient, &forward}, {&part});
  context.map(uhal_map_reciprocal, {&in}, {&inverse});
  context.map(times, {&part, &inverse}, {&out});
}

// dx = 2 * x * dy
void squared_l2_norm_grad(Context context, Input x, Input dy, Output dx) {
  const View in = flat(x.view()), gradient = flat(dy.view()), out = flat(context.allocate(dx, in.dtype));
  if (out.elements() > 0) context.map(uhal_map_square_backward, {&in, &gradient}, {&out});
}

void logsumexp(Context context, Input x, Span<int> axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, UHAL_REDUCE_LOG_SUM_EXP, in, axes, all, context.allocate(y, in.dtype));
}

void frobenius_norm(Context context, Input x, Integers axes, bool, bool all, Output y) {
  const View in = x.view();
  reduce_to(context, UHAL_REDUCE_L2_NORM, in, axes, all, context.allocate(y, in.dtype));
}

// Of dense tensors, the first of which has the sum's shape, and gradients that are rows of it.
void add_n(Context context, MixedInputList list, Output y) {
  const bool all_dense = list.all_dense();
  if (!all_dense && !selected_rows_known()) unsupported(context, "a sparse gradient (SelectedRows)");
  const auto is_dense = [&](size_t i) { return all_dense || is_dense_tensor(list[i].handle); };
  size_t leader = 0;
  while (leader < list.size() && !is_dense(leader)) ++leader;
  if (leader == list.size()) unsupported(context, "sparse gradients (SelectedRows) alone");
  const View out = context.allocate(y, list[leader].uhal());
  bool first = true;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!is_dense(i)) continue;
    const View next = list[i].view();
    require_same_dtype(context, out, next);
    if (next.elements() == 0) continue;  // an empty tensor of any shape adds nothing
    first ? copy_or_cast(context, next, out) : context.map(uhal_map_add, {&out, &next}, {&out});
    first = false;
  }
  if (first) fill_zero(context, out);
  for (size_t i = 0; i < list.size(); ++i) {
    const SelectedRows sparse{list[i].handle};
    if (is_dense(i) || sparse.rows().empty()) continue;
    const View values = sparse.value().view();
    require_same_dtype(context, out, values);
    add_rows(context, DeviceIntegers(context, sparse.rows()), values, out);
  }
}

}  // namespace

KernelTable reduce_kernels() {
  return {
      UNIHAL_KERNEL("sum", kEvery, sum),
      UNIHAL_KERNEL("mean", kFloats | kComplex | kInt32And64, mean),
      UNIHAL_KERNEL("max", kNumbers, reduce<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("min", kNumbers, reduce<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("prod", kNumbers | kComplex, reduce_or_all<UHAL_REDUCE_PRODUCT>),
      UNIHAL_KERNEL("amax", kNumbers, reduce_span<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("amin", kNumbers, reduce_span<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("all", kEvery, reduce_test<UHAL_REDUCE_ALL>),
      UNIHAL_KERNEL("any", kEvery, reduce_test<UHAL_REDUCE_ANY>),
      // What programs of the old intermediate representation call.
      UNIHAL_KERNEL("sum_raw", kEvery, sum_or_all),
      UNIHAL_KERNEL("mean_raw", kFloats | kComplex | kInt32And64, mean_or_all),
      UNIHAL_KERNEL("max_raw", kNumbers, reduce_or_all<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("min_raw", kNumbers, reduce_or_all<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("all_raw", kEvery, reduce_test_or_all<UHAL_REDUCE_ALL>),
      UNIHAL_KERNEL("amax_raw", kNumbers, reduce_span_or_all<UHAL_REDUCE_MAXIMUM>),
      UNIHAL_KERNEL("amin_raw", kNumbers, reduce_span_or_all<UHAL_REDUCE_MINIMUM>),
      UNIHAL_KERNEL("prod_infer", kNumbers, reduce<UHAL_REDUCE_PRODUCT>),
      UNIHAL_KERNEL("any_raw", kEvery, reduce_test_or_all<UHAL_REDUCE_ANY>),
      UNIHAL_KERNEL("nansum", kFloats | kComplex, nansum),
      UNIHAL_KERNEL("nansum_grad", kFloats | kComplex, nansum_grad),
      UNIHAL_KERNEL("mean_all", kFloats | kComplex, mean_all),
      UNIHAL_KERNEL("squared_l2_norm", kFloats, squared_l2_norm),
      UNIHAL_KERNEL("p_norm", kFloats, p_norm),
      UNIHAL_KERNEL("logsumexp", kFloats, logsumexp),
      UNIHAL_KERNEL("frobenius_norm", kFloats, frobenius_norm),
      UNIHAL_KERNEL("add_n", kNumbers | kComplex, add_n),

      UNIHAL_KERNEL("dist", kFloats, dist),

      UNIHAL_KERNEL("dist_grad", kFloats, dist_grad),
      UNIHAL_KERNEL("frobenius_norm_grad", kFloats, frobenius_norm_grad),
      UNIHAL_KERNEL("logsumexp_grad", kFloats, logsumexp_grad),
      UNIHAL_KERNEL("p_norm_grad", kFloats, p_norm_grad),
      UNIHAL_KERNEL("prod_grad", kFloats | kComplex, prod_grad),
      UNIHAL_KERNEL("squared_l2_norm_grad", kFloats, squared_l2_norm_grad),
      UNIHAL_KERNEL("sum_grad", kNumbers | kComplex, sum_grad<false>),
      UNIHAL_KERNEL("mean_grad", kFloats | kComplex, sum_grad<true>),
      UNIHAL_KERNEL("mean_all_grad", kFloats | kComplex, mean_all_grad),
      UNIHAL_KERNEL("max_grad", kFloats, extreme_grad<Integers>),
      UNIHAL_KERNEL("min_grad", kFloats, extreme_grad<Integers>),
      UNIHAL_KERNEL("amax_grad", kFloats, extreme_grad<Span<int64_t>>),
      UNIHAL_KERNEL("amin_grad", kFloats, extreme_grad<Span<int64_t>>),
  };
}

}  // namespace unihal::paddle
