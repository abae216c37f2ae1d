// Gather, scatter, embeddings and selection. Paddle lets negative indices count from the end.
#include <algorithm>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// Indices (n, 1) are as good as (n).
View flat_indices(const View& indices) { return indices.rank == 2 && indices.shape[1] == 1 ? flat(indices) : indices; }

// In graphs the axis is known at run time only, so the output has no shape yet. A scalar index drops the axis.
void gather_along(const Context& context, const View& x, const View& indices, int axis, Output y) {
  int64_t dims[2 * UHAL_MAX_RANK];
  int64_t* end = std::copy_n(x.shape, axis, dims);
  end = std::copy_n(indices.shape, indices.rank, end);
  end = std::copy(x.shape + axis + 1, x.shape + x.rank, end);
  const View out = context.allocate(y, x.dtype, dims, static_cast<int>(end - dims));
  const auto attributes = wrapping(axis);
  context.run(UHAL_OP_GATHER, {&x, &indices}, {&out}, &attributes);
}

// The gradient of gather_along: rows that were taken several times add up.
void scatter_sum_along(const Context& context, const View& indices, const View& dy, int axis, Output dx) {
  const View out = context.allocate(dx, dy.dtype);
  fill_zero(context, out);
  const auto attributes = wrapping(axis, UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER, {&indices, &dy}, {&out}, &attributes);
}

void gather(Context context, Input x, Input indices, Scalar axis, Output y) {
  const View in = x.view();
  gather_along(context, in, flat_indices(indices.view()), from_front(axis.integer(), in.rank), y);
}
void gather_grad(Context context, Input x, Input indices, Input dy, Scalar axis, Output dx) {
  scatter_sum_along(context, flat_indices(indices.view()), dy.view(), from_front(axis.integer(), x.rank()), dx);
}
void index_select(Context context, Input x, Input indices, int axis, Output y) {
  const View in = x.view();
  gather_along(context, in, indices.view(), from_front(axis, in.rank), y);
}
void index_select_grad(Context context, Input x, Input indices, Input dy, int axis, Output dx) {
  scatter_sum_along(context, indices.view(), dy.view(), from_front(axis, x.rank()), dx);
}

// The row `padding` of a table reads as zero.
void clear_padding_rows(const Context& context, const View& ids, int64_t padding, const View& rows) {
  const Scratch padding_id(context, UHAL_INT64, nullptr, 0);
  fill(context, padding_id, 0, padding);
  const Scratch keep(context, UHAL_BOOL, ids);
  context.map(uhal_map_not_equal, {&ids, &padding_id}, {&keep});
  const View column = keep.unsqueezed(ids.rank);
  context.map(uhal_map_multiply, {&rows, &column}, {&rows});
}

void embedding(Context context, Input ids, Input table, int64_t padding, Output y) {
  const View weights = table.view(), indices = ids.view();
  const View out = context.allocate(y, weights.dtype);
  const auto attributes = index_attributes(0);
  context.run(UHAL_OP_GATHER, {&weights, &indices}, {&out}, &attributes);
  if (padding >= 0) clear_padding_rows(context, indices, padding, out);
}

void embedding_grad(Context context, Input ids, Input table, Input dy, int64_t padding, Output dtable) {
  const View gradient = dy.view(), indices = ids.view();
  const View out = context.allocate(dtable, table.uhal());
  fill_zero(context, out);
  auto attributes = index_attributes(0);
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER, {&indices, &gradient}, {&out}, &attributes);
  if (padding >= 0) fill_zero(context, out.sliced(0, padding, 1));
}

// A row's gradient is divided by how often the row was taken.
void embedding_with_scaled_gradient_grad(Context context, Input ids, Input table, Input dy, int64_t padding,
                                         Output dtable) {
  embedding_grad(context, ids, table, dy, padding, dtable);
  const View indices = ids.view(), out = dtable.view();
  if (out.elements() == 0) return;
  const Scratch counts(context, UHAL_INT64, {out.shape[0]});
  const Constant one(context, UHAL_INT64, 1);
  fill_zero(context, counts);
  View ones = one;
  ones.rank = indices.rank;
  for (int i = 0; i < indices.rank; ++i) {
    ones.shape[i] = indices.shape[i];
    ones.strides[i] = 0;
  }
  auto attributes = index_attributes(0);
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER, {&indices, &ones}, {&counts}, &attributes);
  const View column = counts.unsqueezed(1);
  context.map(uhal_map_divide_no_nan, {&out, &column}, {&out});
}

void gather_nd(Context context, Input x, Input indices, Output y) {
  const View in = x.view(), at = indices.view();
  const View out = context.allocate(y, in.dtype);
  const auto attributes = wrapping(0);
  context.run(UHAL_OP_GATHER_ND, {&in, &at}, {&out}, &attributes);
}

void gather_nd_grad(Context context, Input, Input indices, Input dy, Output dx) {
  const View at = indices.view(), gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  const auto attributes = wrapping(0, UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER_ND, {&at, &gradient}, {&out}, &attributes);
}

// y = x with x[indices] added to
void scatter_nd_add(Context context, Input x, Input indices, Input updates, Output y) {
  const View in = x.view(), at = indices.view(), values = updates.view();
  const View out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
  const auto attributes = wrapping(0, UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER_ND, {&at, &values}, {&out}, &attributes);
}

// Without `overwrite` the rows named are cleared first, then all updates add up.
void scatter(Context context, Input x, Input indices, Input updates, bool overwrite, Output y) {
  const View in = x.view(), at = flat_indices(indices.view()), values = updates.view();
  const View out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
  if (at.elements() == 0) return;
  if (!overwrite) {
    const Scratch zeros(context, values.dtype, values);
    fill_zero(context, zeros);
    const auto clear = wrapping(0);
    context.run(UHAL_OP_SCATTER, {&at, &zeros}, {&out}, &clear);
  }
  const auto attributes = wrapping(0, overwrite ? UHAL_REDUCE_NONE : UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER, {&at, &values}, {&out}, &attributes);
}

// What was overwritten has no gradient; the updates have that of their rows.
void scatter_grad(Context context, Input indices, Input updates, Input dy, bool, Output dx, Output dupdates) {
  const View at = flat_indices(indices.view()), gradient = dy.view();
  const auto attributes = wrapping(0);
  if (dupdates) {
    const View out = context.allocate(dupdates, gradient.dtype);
    if (out.elements() > 0) context.run(UHAL_OP_GATHER, {&gradient, &at}, {&out}, &attributes);
  }
  if (!dx) return;
  const View out = context.allocate(dx, gradient.dtype);
  copy_or_cast(context, gradient, out);
  if (at.elements() == 0) return;
  const Scratch zeros(context, gradient.dtype, updates.shape_only());
  fill_zero(context, zeros);
  context.run(UHAL_OP_SCATTER, {&at, &zeros}, {&out}, &attributes);
}

void scatter_nd_add_grad(Context context, Input indices, Input, Input dy, Output dx, Output dupdates) {
  const View at = indices.view(), gradient = dy.view();
  if (dupdates) {
    const View out = context.allocate(dupdates, gradient.dtype);
    const auto attributes = wrapping(0);
    if (out.elements() > 0) context.run(UHAL_OP_GATHER_ND, {&gradient, &at}, {&out}, &attributes);
  }
  if (dx) copy_or_cast(context, gradient, context.allocate(dx, gradient.dtype));
}

void take_along_axis(Context context, Input x, Input indices, int axis, Output y) {
  const View in = x.view();
  const WideIntegers at(context, indices.view());
  const View out = context.allocate(y, in.dtype);
  const auto attributes = wrapping(from_front(axis, in.rank));
  context.run(UHAL_OP_GATHER_ELEMENTS, {&in, &at}, {&out}, &attributes);
}

void take_along_axis_grad(Context context, Input, Input indices, Input dy, int axis, Output dx) {
  const WideIntegers at(context, indices.view());
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  const auto attributes = wrapping(from_front(axis, out.rank), UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &gradient}, {&out}, &attributes);
}

// The op leaves out what is not a class; taking an element of a row per index reports it.
void check_classes(const Context& context, const View& indices, int64_t classes) {
  if (classes == 0 && indices.elements() != 0) invalid(context, "there are no classes for the indices");
  const Scratch row(context, UHAL_UINT8, &classes, 1), taken(context, UHAL_UINT8, indices);
  fill_zero(context, row);
  const auto attributes = index_attributes(0);
  context.run(UHAL_OP_GATHER, {&row, &indices}, {&taken}, &attributes);
}

// What programs of the old representation call, where a number that is no class may be allowed: a row of zeros.
void one_hot_raw(Context context, Input x, Scalar, Dtype dtype, bool allow_others, Output y) {
  const View indices = x.view();
  const View out = context.allocate(y, dtype == kUndefined ? UHAL_FLOAT32 : to_uhal(dtype));
  if (!allow_others) check_classes(context, indices, out.shape[out.rank - 1]);
  const auto attributes = index_attributes(out.rank - 1);
  context.run(UHAL_OP_ONE_HOT, {&indices}, {&out}, &attributes);
}

void one_hot(Context context, Input x, Scalar classes, Output y) {
  one_hot_raw(context, x, classes, kFloat32, false, y);
}

void where(Context context, Input condition, Input x, Input y, Output z) {
  const View c = condition.view(), a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View out = context.allocate(z, a.dtype);
  context.map(uhal_map_select, {&c, &a, &b}, {&out});
}

// dx = dz where the condition holds, dy elsewhere; the other gets zero.
void where_grad(Context context, Input condition, Input, Input, Input dz, Output dx, Output dy) {
  const View c = condition.view(), gradient = dz.view();
  const Scratch zero(context, gradient.dtype, nullptr, 0);
  fill_zero(context, zero);
  const Scratch part(context, gradient.dtype, gradient);
  if (dx) {
    context.map(uhal_map_select, {&c, &gradient, &zero}, {&part});
    sum_to_shape(context, part, context.allocate(dx, gradient.dtype));
  }
  if (dy) {
    context.map(uhal_map_select, {&c, &zero, &gradient}, {&part});
    sum_to_shape(context, part, context.allocate(dy, gradient.dtype));
  }
}

}  // namespace

KernelTable index_kernels() {
  return {
      UNIHAL_KERNEL("embedding", kFloats | kComplex | 1u << kInt8, embedding),
      UNIHAL_KERNEL("embedding_grad", kFloats | kComplex, embedding_grad),
      UNIHAL_KERNEL("embedding_with_scaled_gradient_grad", kFloats | kComplex, embedding_with_scaled_gradient_grad),
      UNIHAL_KERNEL("gather", kEvery, gather),
      UNIHAL_KERNEL("gather_grad", kFloats | kComplex, gather_grad),
      UNIHAL_KERNEL("gather_nd", kEvery, gather_nd),
      UNIHAL_KERNEL("gather_nd_grad", kFloats | kComplex, gather_nd_grad),
      UNIHAL_KERNEL("index_select", kEvery, index_select),
      UNIHAL_KERNEL("index_select_grad", kFloats | kComplex, index_select_grad),
      UNIHAL_KERNEL("one_hot", kInt32And64, one_hot),
      UNIHAL_KERNEL("one_hot_raw", kInt32And64, one_hot_raw),
      UNIHAL_KERNEL("scatter", kReal, scatter),
      UNIHAL_KERNEL("scatter_grad", kFloats, scatter_grad),
      UNIHAL_KERNEL("scatter_nd_add", kNumbers, scatter_nd_add),
      UNIHAL_KERNEL("scatter_nd_add_grad", kFloats, scatter_nd_add_grad),
      UNIHAL_KERNEL("take_along_axis", kReal, take_along_axis),
      UNIHAL_KERNEL("take_along_axis_grad", kFloats, take_along_axis_grad),
      UNIHAL_KERNEL("where", kEvery, where),
      UNIHAL_KERNEL("where_grad", kNumbers | kComplex, where_grad),
  };
}

}  // namespace unihal::paddle
