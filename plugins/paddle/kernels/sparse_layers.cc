// What layers do to sparse tensors: sums of compressed rows, slices, a bias, batch normalization.
#include <algorithm>

#include "plugins/paddle/kernels/batch_norm.h"
#include "plugins/paddle/kernels/sparse_places.h"

namespace unihal::paddle {
namespace {

// -- sums of compressed rows: of all elements, or of each row, which has an element if it has one in x

bool sums_rows(const Context& context, const Integers& axes) {
  if (axes.size() == 0) return false;
  if (axes.size() != 1 || axes[0] != -1) unsupported(context, "a sum of compressed rows along another axis than -1");
  return true;
}

void sum_csr(Context context, CsrInput x, Integers axes, Dtype asked, bool, CsrOutput y) {
  const bool by_row = sums_rows(context, axes);
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View in = x.values().view(), begins = x.crows().view();
  // As on the CPU a sum of all int32 is int64, those of rows are not.
  const uhal_dtype own = !by_row && in.dtype == UHAL_INT32 ? static_cast<uhal_dtype>(UHAL_INT64) : in.dtype;
  const uhal_dtype dtype = asked > kUndefined ? to_uhal(asked) : own;
  const Scratch wide(context, dtype, in);
  copy(context, in, wide);
  if (!by_row) {
    const View total = allocate(context, y.values(), dtype, {1});
    const View crows = allocate(context, y.crows(), begins.dtype, {2});
    count_up(context, crows);
    fill_zero(context, allocate(context, y.cols(), begins.dtype, {1}));
    const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&wide}, {&total}, &sum);
    return y.set(y.crows(), y.cols(), y.values(), {1, 1});
  }
  // Rows without an element have none in the result: crows counts the others.
  const int64_t rows = dims[0];
  const Scratch sizes(context, begins.dtype, &rows, 1), filled(context, UHAL_BOOL, &rows, 1),
      sums(context, dtype, &rows, 1);
  const View crows = allocate(context, y.crows(), begins.dtype, {rows + 1});
  fill_zero(context, crows);
  if (rows > 0) {
    const View after = begins.sliced(0, 1, rows), before = begins.sliced(0, 0, rows), counts = crows.sliced(0, 1, rows);
    context.map(uhal_map_subtract, {&after, &before}, {&sizes});
    as_test(context, sizes, filled);
    copy_or_cast(context, filled, counts);
    uhal_scan_attributes running = {};
    running.struct_size = sizeof running;
    running.reduction = UHAL_REDUCE_SUM;
    context.run(UHAL_OP_SCAN, {&counts}, {&counts}, &running);
  }
  TruePlaces places(context, filled);
  const int64_t count = places.count();
  const View out = allocate(context, y.values(), dtype, {count});
  const View cols = allocate(context, y.cols(), begins.dtype, {count});
  if (count > 0) {
    auto attributes = summed();
    attributes.form = UHAL_SEGMENT_OFFSETS;
    const View column = wide.unsqueezed(1), each = sums.unsqueezed(1);
    context.run(UHAL_OP_SEGMENT_REDUCE, {&column, &begins}, {&each}, &attributes);
    take_at(context, sums, places.view(context), out);
    fill_zero(context, cols);
  }
  y.set(y.crows(), y.cols(), y.values(), {rows, 1});
}

// Each element has the gradient of the sum that it is in.
void sum_csr_grad(Context context, CsrInput x, CsrInput dy, Integers axes, bool, CsrOutput dx) {
  const bool by_row = sums_rows(context, axes);
  const View gradient = dy.values().view(), out = values_like(context, x, dx, x.values().uhal());
  share_places(x, dx);
  if (out.elements() == 0) return;
  if (!by_row) {
    View everywhere = gradient;
    everywhere.shape[0] = out.shape[0];
    everywhere.strides[0] = 0;
    return copy_or_cast(context, everywhere, out);
  }
  const Dense sums(context, dy, gradient);
  const View cols = x.cols().view(), column = sums.reshaped({x.dims()[0]});
  const Scratch rows(context, cols.dtype, cols), taken(context, gradient.dtype, out);
  rows_from_crows(context, x.crows().view(), rows);
  take(context, column, rows, taken);
  copy_or_cast(context, taken, out);
}

// -- slices

// From where on and how far each axis is kept.
struct Ranges {
  Dims starts, lengths;

  Ranges(const Context& context, const Dims& dims, const Integers& axes, const Integers& from, const Integers& to)
      : starts(dims.size(), 0), lengths(dims) {
    if (axes.size() != from.size() || axes.size() != to.size()) {
      invalid(context, "axes, starts and ends have different lengths");
    }
    const auto rank = static_cast<int64_t>(dims.size());
    for (int i = 0; i < axes.size(); ++i) {
      if (axes[i] < -rank || axes[i] >= rank) invalid(context, "axis " + std::to_string(axes[i]) + " is none of x's");
      const auto axis = static_cast<size_t>(from_front(axes[i], static_cast<int>(rank)));
      const int64_t length = dims[axis];
      const auto within = [length](int64_t place) {
        return std::clamp<int64_t>(place < 0 ? place + length : place, 0, length);
      };
      starts[axis] = within(from[i]);
      lengths[axis] = std::max<int64_t>(within(to[i]) - starts[axis], 0);
    }
  }
};

// rows += factor * starts
void move_rows(const Context& context, const View& rows, const Dims& starts, int factor) {
  for (int64_t i = 0; i < rows.shape[1] && rows.shape[0] > 0; ++i) {
    const int64_t start = starts[static_cast<size_t>(i)];
    if (start == 0) continue;
    const View column = rows.sliced(1, i, 1);
    const Scratch number(context, rows.dtype, nullptr, 0);
    fill(context, number, 0, factor * start);
    context.map(uhal_map_add, {&column, &number}, {&column});
  }
}

template <class X, class Y>
void sparse_slice(Context context, X x, Integers axes, Integers from, Integers to, Y y) {
  const View in = x.values().view();
  const Dims dims = x.dims();
  const Ranges ranges(context, dims, axes, from, to);
  const int64_t count = count_of(x), coordinates = axes_of(x);
  if (static_cast<int64_t>(dims.size()) != coordinates) unsupported(context, "a slice of values that have axes");
  const Coordinates rows(context, x);
  const Scratch inside(context, UHAL_BOOL, &count, 1), part(context, UHAL_BOOL, &count, 1);
  fill(context, inside, 1, 1);
  for (int64_t i = 0; i < coordinates && count > 0; ++i) {
    const auto axis = static_cast<size_t>(i);
    if (ranges.lengths[axis] == dims[axis]) continue;
    const Scratch first(context, UHAL_INT64, nullptr, 0), end(context, UHAL_INT64, nullptr, 0);
    fill(context, first, 0, ranges.starts[axis]);
    fill(context, end, 0, ranges.starts[axis] + ranges.lengths[axis]);
    const View column = rows.column(i);
    context.map(uhal_map_greater_equal, {&column, &first}, {&part});
    context.map(uhal_map_logical_and, {&inside, &part}, {&inside});
    context.map(uhal_map_less, {&column, &end}, {&part});
    context.map(uhal_map_logical_and, {&inside, &part}, {&inside});
  }
  TruePlaces places(context, inside);
  const int64_t kept[] = {places.count(), coordinates};
  const Scratch chosen(context, UHAL_INT64, kept, 2);
  const View at = places.view(context).reshaped(kept, 1);
  take(context, rows, at, chosen);
  move_rows(context, chosen, ranges.starts, -1);
  take(context, in, at, allocate(context, y.values(), in.dtype, {kept[0]}));
  set_places(context, chosen, dtype_of_places(x), ranges.lengths, y);
}

// As on the CPU the gradient has elements where the slice has some.
template <class X, class Y>
void sparse_slice_grad(Context context, X x, X dy, Integers axes, Integers from, Integers to, Y dx) {
  const Dims dims = x.dims();
  const Ranges ranges(context, dims, axes, from, to);
  const View gradient = dy.values().view();
  const Coordinates rows(context, dy);
  move_rows(context, rows, ranges.starts, 1);
  copy(context, gradient, values_like(context, dy, dx, gradient.dtype));
  set_places(context, rows, dtype_of_places(x), dims, dx);
}

// -- a dense vector for each element's channels

void add_coo_dense(Context context, CooInput x, Input y, CooOutput z) {
  const View in = x.values().view(), bias = y.view();
  if (bias.rank != 1 || bias.shape[0] != x.dims().back()) {
    unsupported(context, "a sum with a dense tensor that is not a vector of x's last length");
  }
  require_same_dtype(context, in, bias);
  const View out = values_like(context, x, z, in.dtype);
  if (out.elements() > 0) context.map(uhal_map_add, {&in, &bias}, {&out});
  share_places(x, z);
}

void add_coo_dense_grad(Context context, CooInput x, Input y, CooInput dz, CooOutput dx, Output dy) {
  const View gradient = dz.values().view();
  if (dx) {
    copy(context, gradient, values_like(context, x, dx, gradient.dtype));
    share_places(x, dx);
  }
  if (!dy) return;
  const View out = allocate(context, dy, y.uhal(), dims_of(y.shape_only()));
  if (gradient.elements() == 0) return fill_zero(context, out);
  sum_to_shape(context, gradient, out);
}

// -- batch normalization of the values, whose last axis are the channels

void batch_norm_coo(Context context, CooInput x, Input mean, Input variance, Input scale, Input bias, bool is_test,
                    float momentum, float epsilon, Text, bool use_global_stats, bool trainable_statistics, CooOutput y,
                    Output mean_out, Output variance_out, Output saved_mean, Output saved_variance,
                    Output reserve_space) {
  values_like(context, x, y, x.values().uhal());
  batch_norm(context, Input{x.values()}, mean, variance, OptionalInput{scale}, OptionalInput{bias}, is_test, momentum,
             epsilon, Text{"NCHW"}, use_global_stats, trainable_statistics, Output{y.values()}, mean_out, variance_out,
             saved_mean, saved_variance, reserve_space);
  share_places(x, y);
}

void batch_norm_coo_grad(Context context, CooInput x, Input scale, Input bias, OptionalInput mean,
                         OptionalInput variance, Input saved_mean, Input saved_variance, OptionalInput reserve_space,
                         CooInput dy, float momentum, float epsilon, Text, bool is_test, bool use_global_stats,
                         bool trainable_statistics, CooOutput dx, Output dscale, Output dbias) {
  values_like(context, x, dx, x.values().uhal());
  batch_norm_grad(context, Input{x.values()}, OptionalInput{scale}, OptionalInput{bias}, mean, variance, saved_mean,
                  saved_variance, reserve_space, Input{dy.values()}, momentum, epsilon, Text{"NCHW"}, is_test,
                  use_global_stats, trainable_statistics, Output{dx.values()}, dscale, dbias);
  share_places(x, dx);
}

void sync_batch_norm_coo(Context context, CooInput x, Input mean, Input variance, Input scale, Input bias, bool is_test,
                         float momentum, float epsilon, Text, bool use_global_stats, bool trainable_statistics,
                         CooOutput y, Output mean_out, Output variance_out, Output saved_mean, Output saved_variance,
                         Output reserve_space) {
  values_like(context, x, y, x.values().uhal());
  sync_batch_norm(context, Input{x.values()}, mean, variance, scale, bias, is_test, momentum, epsilon, Text{"NCHW"},
                  use_global_stats, trainable_statistics, Output{y.values()}, mean_out, variance_out, saved_mean,
                  saved_variance, reserve_space);
  share_places(x, y);
}

void sync_batch_norm_coo_grad(Context context, CooInput x, Input scale, Input bias, Input saved_mean,
                              Input saved_variance, OptionalInput reserve_space, CooInput dy, float momentum,
                              float epsilon, Text, bool is_test, bool use_global_stats, bool trainable_statistics,
                              CooOutput dx, Output dscale, Output dbias) {
  values_like(context, x, dx, x.values().uhal());
  sync_batch_norm_grad(context, Input{x.values()}, scale, bias, saved_mean, saved_variance, reserve_space,
                       Input{dy.values()}, momentum, epsilon, Text{"NCHW"}, is_test, use_global_stats,
                       trainable_statistics, Output{dx.values()}, dscale, dbias);
  share_places(x, dx);
}

}  // namespace

KernelTable sparse_layer_kernels() {
  return {
      UNIHAL_KERNEL("sum_csr", kNumbers, sum_csr),
      UNIHAL_KERNEL("sum_csr_grad", kNumbers, sum_csr_grad),
      UNIHAL_KERNEL("slice_coo", kReal, sparse_slice<CooInput, CooOutput>),
      UNIHAL_KERNEL("slice_csr", kReal, sparse_slice<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("slice_coo_grad", kReal, sparse_slice_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("slice_csr_grad", kReal, sparse_slice_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("add_coo_dense", kNumbers, add_coo_dense),
      UNIHAL_KERNEL("add_coo_dense_grad", kNumbers, add_coo_dense_grad),
      UNIHAL_KERNEL("batch_norm_coo", kWideFloats, batch_norm_coo),
      UNIHAL_KERNEL("batch_norm_coo_grad", kWideFloats, batch_norm_coo_grad),
      UNIHAL_KERNEL("sync_batch_norm_coo", kFloats, sync_batch_norm_coo),
      UNIHAL_KERNEL("sync_batch_norm_coo_grad", kFloats, sync_batch_norm_coo_grad),
  };
}

}  // namespace unihal::paddle
