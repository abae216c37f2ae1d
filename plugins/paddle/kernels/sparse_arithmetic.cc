// Arithmetic of sparse tensors: of two of them, along axes, and in other shapes; products are in sparse_products.cc.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "plugins/paddle/kernels/sparse_places.h"

namespace unihal::paddle {
namespace {

// -- of two sparse tensors

void require_alike(const Context& context, const SparseTensor& x, const SparseTensor& y) {
  if (x.dims() != y.dims()) invalid(context, "x and y have different shapes");
}

// The places of either operand, in their order, and what each operand has there: 0 where it has nothing.
template <class X>
class Union {
 public:
  Union(const Context& context, const X& x, const X& y) {
    const View a = x.values().view(), b = y.values().view();
    require_alike(context, x, y);
    require_same_dtype(context, a, b);
    const int64_t m = count_of(x), n = count_of(y), count = m + n, shape[] = {count, axes_of(x)};
    const Coordinates first(context, x), second(context, y);
    const Scratch all(context, UHAL_INT64, shape, 2), sorted(context, UHAL_INT64, shape, 2);
    copy(context, first, all.sliced(0, 0, m));
    copy(context, second, all.sliced(0, m, n));
    const Scratch order(context, UHAL_INT64, &count, 1), group(context, UHAL_INT64, &count, 1);
    if (count > 0) sort_rows(context, all, order);
    take(context, all, order, sorted);
    Groups groups(context, sorted);
    const View starts = groups.starts(context);
    groups.number(context, group);
    const int64_t kept[] = {starts.shape[0], shape[1]};
    rows_.emplace(context, UHAL_INT64, kept, 2);
    take(context, sorted, starts, *rows_);
    sum_each(context, a, 0, count, order, group, &a_);
    sum_each(context, b, m, count, order, group, &b_);
  }
  const View& rows() const { return *rows_; }
  const View& first() const { return *a_; }
  const View& second() const { return *b_; }

 private:
  // The values of one operand, which stand from `at` on in the list of both.
  void sum_each(const Context& context, const View& values, int64_t at, int64_t count, const View& order,
                const View& group, std::optional<Scratch>* result) const {
    Dims dims = dims_of(values);
    dims[0] = count;
    const int rank = static_cast<int>(dims.size());
    const Scratch listed(context, values.dtype, dims.data(), rank), moved(context, values.dtype, dims.data(), rank);
    fill_zero(context, listed);
    copy(context, values, listed.sliced(0, at, values.shape[0]));
    take(context, listed, order, moved);
    dims[0] = rows_->shape[0];
    result->emplace(context, values.dtype, dims.data(), rank);
    if ((*result)->elements() == 0) return;
    uhal_segment_attributes sum = {};
    sum.struct_size = sizeof sum;
    sum.reduction = UHAL_REDUCE_SUM;
    const View& out = **result;
    context.run(UHAL_OP_SEGMENT_REDUCE, {&moved, &group}, {&out}, &sum);
  }
  std::optional<Scratch> rows_, a_, b_;
};

// z = function(x, y) at the places of either
template <int function, class X, class Z>
void elementwise(Context context, X x, X y, Z z) {
  const Union<X> both(context, x, y);
  const View out = allocate(context, z.values(), both.first().dtype, dims_of(both.first()));
  if (out.elements() > 0) context.map(function, {&both.first(), &both.second()}, {&out});
  set_places(context, both.rows(), dtype_of_places(x), x.dims(), z);
}

// The gradient, which is dense, at x's places.
template <class X, class Y>
void take_places(const Context& context, const X& x, const View& dense, const Y& dx) {
  const Coordinates rows(context, x);
  take_at(context, dense, rows, values_like(context, x, dx, dense.dtype));
  share_places(x, dx);
}

template <int sign, class X, class Y>
void sparse_sum_grad(Context context, X x, X y, X dz, Y dx, Y dy) {
  const Dense gradient(context, dz, dz.values().view());
  if (dx) take_places(context, x, gradient, dx);
  if (!dy) return;
  if (sign < 0) context.map(uhal_map_negative, {&gradient}, {&gradient});
  take_places(context, y, gradient, dy);
}

template <class X, class Y>
void product_grad(Context context, X x, X y, X dz, Y dx, Y dy) {
  const Dense gradient(context, dz, dz.values().view()), a(context, x, x.values().view()),
      b(context, y, y.values().view());
  const int times = times_conjugate(gradient.dtype);
  context.map(times, {&gradient, &b}, {&b});
  context.map(times, {&gradient, &a}, {&a});
  if (dx) take_places(context, x, b, dx);
  if (dy) take_places(context, y, a, dy);
}

// A quotient has an element at each place: where neither has one, 0 / 0.
template <class X, class Z>
void quotient(Context context, X x, X y, Z z) {
  require_alike(context, x, y);
  require_same_dtype(context, x.values().view(), y.values().view());
  const Dense a(context, x, x.values().view()), b(context, y, y.values().view());
  context.map(uhal_map_divide, {&a, &b}, {&a});
  const Scratch everywhere(context, UHAL_BOOL, a.shape, static_cast<int>(axes_of(x)));
  fill(context, everywhere, 1, 1);
  TruePlaces places(context, everywhere);
  Dims dims = dims_of(x.values().shape_only());
  dims[0] = places.count();
  take_at(context, a, places.view(context), allocate(context, z.values(), a.dtype, dims));
  set_places(context, places.view(context), dtype_of_places(x), x.dims(), z);
}

// dx = dz / y; dy = -dz * z / y
template <class X, class Y>
void quotient_grad(Context context, X x, X y, X z, X dz, Y dx, Y dy) {
  const Dense gradient(context, dz, dz.values().view()), result(context, z, z.values().view()),
      divisor(context, y, y.values().view());
  context.map(by_conjugate(gradient.dtype), {&gradient, &divisor}, {&gradient});
  if (dx) take_places(context, x, gradient, dx);
  if (!dy) return;
  context.map(times_conjugate(gradient.dtype), {&gradient, &result}, {&result});
  context.map(uhal_map_negative, {&result}, {&result});
  take_places(context, y, result, dy);
}

// -- the values of a dense tensor at a sparse one's places

template <class X, class Y>
void mask_as(Context context, Input x, X mask, Y y) {
  const View in = x.view();
  if (dims_of(in) != mask.dims()) invalid(context, "x and mask have different shapes");
  Dims dims = dims_of(mask.values().shape_only());
  const Coordinates rows(context, mask);
  take_at(context, in, rows, allocate(context, y.values(), in.dtype, dims));
  share_places(mask, y);
}
template <class X>
void mask_as_grad(Context context, Input x, X, X dy, Output dx) {
  const View gradient = dy.values().view();
  const Coordinates rows(context, dy);
  scatter_elements(context, rows, gradient, context.allocate(dx, x.uhal()));
}

template <class X, class Y>
void is_nan(Context context, X x, Y y) {
  const View in = x.values().view(), out = values_like(context, x, y, UHAL_BOOL);
  if (out.elements() > 0) context.map(uhal_map_is_nan, {&in}, {&out});
  share_places(x, y);
}
template <class X, class Y>
void sparse_full_like(Context context, X x, Scalar value, Dtype dtype, Y y) {
  const uhal_dtype own = x.values().uhal();
  const View out = values_like(context, x, y, dtype > kUndefined ? to_uhal(dtype) : own);
  if (out.elements() > 0) fill(context, out, value);
  share_places(x, y);
}

// -- along rows

// Which row of the last axis each element is in: elements whose other coordinates are equal are of one.
class RowNumbers : public Scratch {
 public:
  template <class X>
  RowNumbers(const Context& context, const X& x) : Scratch(context, UHAL_INT64, dims_for(x).data(), 1) {
    const Coordinates places(context, x);
    const int64_t count = shape[0];
    if (count == 0) return;
    View others = places.sliced(1, 0, places.shape[1] - 1);
    const Scratch order(context, UHAL_INT64, &count, 1), sorted(context, UHAL_INT64, others);
    const Scratch number(context, UHAL_INT64, &count, 1), dense(context, UHAL_INT64, others);
    copy(context, others, dense);
    sort_rows(context, dense, order);
    take(context, dense, order, sorted);
    Groups groups(context, sorted);
    groups.number(context, number);
    groups_ = groups.starts(context).shape[0];
    const auto attributes = index_attributes(0);
    context.run(UHAL_OP_SCATTER, {&order, &number}, {this}, &attributes);
  }
  int64_t groups() const { return groups_; }

 private:
  template <class X>
  static Dims dims_for(const X& x) {
    return {count_of(x)};
  }
  int64_t groups_ = 0;
};

// y = values combined by row, one for each element.
void combine_rows(const Context& context, const RowNumbers& rows, uhal_reduction reduction, const View& values,
                  const View& y) {
  const int64_t shape[] = {rows.groups(), 1};
  const Scratch each(context, values.dtype, shape, 2);
  const View column = values.unsqueezed(1), to = y.unsqueezed(1);
  auto attributes = summed();
  attributes.reduction = reduction;
  context.run(UHAL_OP_SEGMENT_REDUCE, {&column, &rows}, {&each}, &attributes);
  take(context, each, rows, to);
}

void require_last_axis(const Context& context, int axis, const Dims& dims, const View& values) {
  if ((axis != -1 && axis != static_cast<int>(dims.size()) - 1) || values.rank != 1) {
    unsupported(context, "a softmax along another axis than the last, which must be one of coordinates,");
  }
}

template <class X, class Y>
void sparse_softmax(Context context, X x, int axis, Y y) {
  const View in = x.values().view(), out = values_like(context, x, y, in.dtype);
  require_last_axis(context, axis, x.dims(), in);
  share_places(x, y);
  if (out.elements() == 0) return;
  const RowNumbers rows(context, x);
  const Scratch part(context, in.dtype, in);
  combine_rows(context, rows, UHAL_REDUCE_MAXIMUM, in, part);
  context.map(uhal_map_subtract, {&in, &part}, {&out});
  context.map(uhal_map_exp, {&out}, {&out});
  combine_rows(context, rows, UHAL_REDUCE_SUM, out, part);
  context.map(uhal_map_divide, {&out, &part}, {&out});
}

// dx = y * (dy - the row's sum of y * dy)
template <class X, class Y>
void sparse_softmax_grad(Context context, X y, X dy, int axis, Y dx) {
  const View forward = y.values().view(), gradient = dy.values().view();
  const View out = values_like(context, y, dx, forward.dtype);
  require_last_axis(context, axis, y.dims(), forward);
  share_places(y, dx);
  if (out.elements() == 0) return;
  const RowNumbers rows(context, y);
  const Scratch product(context, forward.dtype, forward), part(context, forward.dtype, forward);
  context.map(uhal_map_multiply, {&forward, &gradient}, {&product});
  combine_rows(context, rows, UHAL_REDUCE_SUM, product, part);
  context.map(uhal_map_subtract, {&gradient, &part}, {&part});
  context.map(uhal_map_multiply, {&forward, &part}, {&out});
}

// -- sums along axes

// Which of x's axes are summed over: none named, all.
std::vector<bool> summed_axes(const Context& context, const Integers& axes, int rank) {
  std::vector<bool> result(static_cast<size_t>(rank), axes.size() == 0);
  for (int64_t axis : axes) {
    if (axis < -rank || axis >= rank) invalid(context, "axis " + std::to_string(axis) + " is none of x's");
    result[static_cast<size_t>(from_front(axis, rank))] = true;
  }
  return result;
}

// x's coordinates where a summed axis has one element.
void without_axes(const Context& context, const std::vector<bool>& summed, const View& rows) {
  for (int64_t i = 0; i < rows.shape[1]; ++i) {
    if (summed[static_cast<size_t>(i)] && rows.shape[0] > 0) fill_zero(context, rows.sliced(1, i, 1));
  }
}

void sum_coo(Context context, CooInput x, Integers axes, Dtype asked, bool keep, CooOutput y) {
  const View in = x.values().view();
  const Dims dims = x.dims();
  const std::vector<bool> summed = summed_axes(context, axes, static_cast<int>(dims.size()));
  if (in.rank != 1) unsupported(context, "a sum of values that are dense along some axes");
  const Coordinates rows(context, x);
  without_axes(context, summed, rows);
  const Scratch values(context, asked > kUndefined ? to_uhal(asked) : in.dtype, in);
  copy(context, in, values);
  // As on the CPU a sum of everything is a tensor of one axis.
  Dims left, kept;
  std::vector<int64_t> columns;
  for (size_t i = 0; i < dims.size(); ++i) {
    kept.push_back(summed[i] ? 1 : dims[i]);
    if (summed[i]) continue;
    left.push_back(dims[i]);
    columns.push_back(static_cast<int64_t>(i));
  }
  if (left.empty()) {
    left.push_back(1);
    columns.push_back(0);
  }
  if (keep) return coalesce_into(context, rows, values, kept, y);
  const int64_t shape[] = {rows.shape[0], static_cast<int64_t>(columns.size())};
  const Scratch chosen(context, UHAL_INT64, shape, 2);
  for (size_t i = 0; i < columns.size(); ++i) {
    copy(context, rows.sliced(1, columns[i], 1), chosen.sliced(1, static_cast<int64_t>(i), 1));
  }
  coalesce_into(context, chosen, values, left, y);
}

// Each element has the gradient of the sum that it is in.
void sum_coo_grad(Context context, CooInput x, CooInput dy, Integers axes, bool, CooOutput dx) {
  const Dims dims = x.dims();
  const std::vector<bool> summed = summed_axes(context, axes, static_cast<int>(dims.size()));
  const View gradient = dy.values().view();
  const Dense sums(context, dy, gradient);
  Dims kept = dims;
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = summed[i] ? 1 : kept[i];
  const Coordinates rows(context, x);
  without_axes(context, summed, rows);
  const View values = values_like(context, x, dx, x.values().uhal());
  const Scratch taken(context, gradient.dtype, values);
  take_at(context, sums.reshaped(kept.data(), static_cast<int>(kept.size())), rows, taken);
  copy(context, taken, values);
  share_places(x, dx);
}

// -- other shapes

// Axes of coordinates change places with one another.
void transpose_coo(Context context, CooInput x, Span<int> order, CooOutput y) {
  const View in = x.indices().view(), values = x.values().view();
  const Dims dims = x.dims();
  const int axes = static_cast<int>(in.shape[0]), rank = static_cast<int>(dims.size());
  Dims turned;
  if (order.size() != rank) invalid(context, "perm has not one number for each axis");
  for (int axis : order) turned.push_back(dims[from_front(axis, rank)]);
  const View out = allocate(context, y.indices(), in.dtype, {axes, in.shape[1]});
  for (int i = 0; i < rank; ++i) {
    const int from = from_front(order[i], rank);
    if (i >= axes ? from != i : from >= axes) unsupported(context, "a transposition of axes that are dense");
    if (i < axes) copy(context, in.sliced(0, from, 1), out.sliced(0, i, 1));
  }
  copy(context, values, values_like(context, x, y, values.dtype));
  y.set(y.indices(), y.values(), turned, false);
}
void transpose_coo_grad(Context context, CooInput dy, Span<int> order, CooOutput dx) {
  std::vector<int> inverse(order.begin(), order.end());
  const int rank = order.size();
  for (int i = 0; i < rank; ++i) inverse[from_front(order[i], rank)] = i;
  transpose_coo(context, dy, Span<int>(List{inverse.size(), inverse.data()}), dx);
}

// Rows become columns, in their order.
void transpose_csr(Context context, CsrInput x, Span<int> order, CsrOutput y) {
  const View values = x.values().view();
  const Dims dims = x.dims();
  require_matrix(context, dims);
  if (order.size() != 2) invalid(context, "perm has not two numbers");
  if (from_front(order[0], 2) == 0) {
    copy(context, values, values_like(context, x, y, values.dtype));
    return share_places(x, y);
  }
  const Coordinates places(context, x);
  const int64_t count = places.shape[0];
  const Scratch turned(context, UHAL_INT64, places), sorted(context, UHAL_INT64, places);
  const Scratch moves(context, UHAL_INT64, &count, 1);
  copy(context, places.sliced(1, 0, 1), turned.sliced(1, 1, 1));
  copy(context, places.sliced(1, 1, 1), turned.sliced(1, 0, 1));
  if (count > 0) sort_rows(context, turned, moves);
  take(context, turned, moves, sorted);
  take(context, values, moves, values_like(context, x, y, values.dtype));
  set_places(context, sorted, x.cols().uhal(), {dims[1], dims[0]}, y);
}
// The gradient has one element at each of x's places, as dy has of y's.
void transpose_csr_grad(Context context, CsrInput dy, Span<int> order, CsrOutput dx) {
  transpose_csr(context, dy, order, dx);
}

Dims with_inferred(const Context& context, const Integers& shape, const Dims& dims) {
  const int64_t all = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  Dims result(shape.begin(), shape.end());
  int64_t known = 1;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == 0 && i < dims.size()) result[i] = dims[i];
    if (result[i] > 0) known *= result[i];
  }
  for (int64_t& length : result) {
    if (length == -1) length = known > 0 ? all / known : 0;
  }
  const int64_t made = std::accumulate(result.begin(), result.end(), int64_t{1}, std::multiplies<>());
  if (made != all) {
    invalid(context, "the shape has " + std::to_string(made) + " elements, the tensor " + std::to_string(all));
  }
  return result;
}

// y's rows = x's places in a tensor of another shape
void place_again(const Context& context, const View& rows, const Dims& from, const Dims& to, const View& y) {
  const int64_t count = rows.shape[0];
  if (count == 0) return;
  const Scratch linear(context, UHAL_INT64, &count, 1), part(context, UHAL_INT64, &count, 1);
  const Scratch number(context, UHAL_INT64, nullptr, 0);
  fill_zero(context, linear);
  for (size_t i = 0; i < from.size(); ++i) {
    View column = rows.sliced(1, static_cast<int64_t>(i), 1);
    column.rank = 1;
    fill(context, number, 0, from[i]);
    context.map(uhal_map_multiply, {&linear, &number}, {&linear});
    context.map(uhal_map_add, {&linear, &column}, {&linear});
  }
  for (size_t i = to.size(); i-- > 0;) {
    View column = y.sliced(1, static_cast<int64_t>(i), 1);
    column.rank = 1;
    fill(context, number, 0, std::max<int64_t>(to[i], 1));
    context.map(uhal_map_floor_mod, {&linear, &number}, {&part});
    copy_or_cast(context, part, column);
    context.map(uhal_map_floor_divide, {&linear, &number}, {&linear});
  }
}

template <class X, class Y>
void reshape_to(const Context& context, const X& x, const Dims& dims, const Y& y) {
  const View values = x.values().view();
  if (values.rank != 1) unsupported(context, "a shape for axes that are dense");
  const Coordinates places(context, x);
  const int64_t shape[] = {places.shape[0], static_cast<int64_t>(dims.size())};
  const Scratch rows(context, UHAL_INT64, shape, 2);
  place_again(context, places, x.dims(), dims, rows);
  copy(context, values, values_like(context, x, y, values.dtype));
  set_places(context, rows, dtype_of_places(x), dims, y);
}
template <class X, class Y>
void sparse_reshape(Context context, X x, Integers shape, Y y) {
  reshape_to(context, x, with_inferred(context, shape, x.dims()), y);
}
template <class X, class Y>
void sparse_reshape_grad(Context context, X x, X dy, Y dx) {
  reshape_to(context, dy, x.dims(), dx);
}

}  // namespace

KernelTable sparse_arithmetic_kernels() {
  constexpr DtypeSet kGradients = kWideFloats | kComplex;
  return {
      UNIHAL_KERNEL("add_csr_csr", kNumbers | kComplex, elementwise<uhal_map_add, CsrInput, CsrOutput>),
      UNIHAL_KERNEL("add_csr_csr_grad", kGradients, sparse_sum_grad<1, CsrInput, CsrOutput>),
      UNIHAL_KERNEL("subtract_csr_csr", kNumbers | kComplex, elementwise<uhal_map_subtract, CsrInput, CsrOutput>),
      UNIHAL_KERNEL("subtract_csr_csr_grad", kGradients, sparse_sum_grad<-1, CsrInput, CsrOutput>),
      UNIHAL_KERNEL("multiply_coo_coo", kNumbers | kComplex, elementwise<uhal_map_multiply, CooInput, CooOutput>),
      UNIHAL_KERNEL("multiply_csr_csr", kNumbers | kComplex, elementwise<uhal_map_multiply, CsrInput, CsrOutput>),
      UNIHAL_KERNEL("multiply_coo_coo_grad", kGradients, product_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("multiply_csr_csr_grad", kGradients, product_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("divide_coo_coo", kGradients, quotient<CooInput, CooOutput>),
      UNIHAL_KERNEL("divide_csr_csr", kGradients, quotient<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("divide_coo_coo_grad", kGradients, quotient_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("divide_csr_csr_grad", kGradients, quotient_grad<CsrInput, CsrOutput>),

      UNIHAL_KERNEL("mask_as_coo", kEvery, mask_as<CooInput, CooOutput>),
      UNIHAL_KERNEL("mask_as_csr", kEvery, mask_as<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("mask_as_coo_grad", kFloats | kComplex, mask_as_grad<CooInput>),
      UNIHAL_KERNEL("mask_as_csr_grad", kFloats | kComplex, mask_as_grad<CsrInput>),
      UNIHAL_KERNEL("isnan_coo", kNumbers, is_nan<CooInput, CooOutput>),
      UNIHAL_KERNEL("isnan_csr", kNumbers, is_nan<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("full_like_coo", kEvery, sparse_full_like<CooInput, CooOutput>),
      UNIHAL_KERNEL("full_like_csr", kEvery, sparse_full_like<CsrInput, CsrOutput>),

      UNIHAL_KERNEL("softmax_coo", kWideFloats, sparse_softmax<CooInput, CooOutput>),
      UNIHAL_KERNEL("softmax_csr", kWideFloats, sparse_softmax<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("softmax_coo_grad", kWideFloats, sparse_softmax_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("softmax_csr_grad", kWideFloats, sparse_softmax_grad<CsrInput, CsrOutput>),

      UNIHAL_KERNEL("sum_coo", kNumbers, sum_coo),
      UNIHAL_KERNEL("sum_coo_grad", kNumbers, sum_coo_grad),
      UNIHAL_KERNEL("transpose_coo", kReal, transpose_coo),
      UNIHAL_KERNEL("transpose_csr", kReal, transpose_csr),
      UNIHAL_KERNEL("transpose_coo_grad", kReal, transpose_coo_grad),
      UNIHAL_KERNEL("transpose_csr_grad", kReal, transpose_csr_grad),
      UNIHAL_KERNEL("reshape_coo", kReal, sparse_reshape<CooInput, CooOutput>),
      UNIHAL_KERNEL("reshape_csr", kReal, sparse_reshape<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("reshape_coo_grad", kReal, sparse_reshape_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("reshape_csr_grad", kReal, sparse_reshape_grad<CsrInput, CsrOutput>),
  };
}

}  // namespace unihal::paddle
