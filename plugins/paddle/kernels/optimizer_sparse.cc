// Gradients that have rows of an embedding's table only: how they come about, what is done to them, and the steps that
// change just those rows.
#include <algorithm>

#include "plugins/paddle/kernels/adam.h"

namespace unihal::paddle {
namespace {

// The values of a SelectedRows output, for rows that the output already names.
View allocate_values(const Context& context, SparseOutput y, const View& like) {
  int64_t dims[UHAL_MAX_RANK];
  std::copy(like.shape, like.shape + like.rank, dims);
  dims[0] = static_cast<int64_t>(y.rows().size());
  return context.allocate(Output{{y.value().handle}}, like.dtype, dims, like.rank);
}

// The same rows, with values of their own.
View allocate_like(const Context& context, SparseInput x, SparseOutput y) {
  if (y.handle != x.handle) {
    y.rows() = x.rows();
    y.height() = x.height();
  }
  return allocate_values(context, y, x.value().view());
}

// Each looked-up row's gradient stands for itself; the padding row's too, as on Paddle's own devices.
void embedding_sparse_grad(Context context, Input ids, Input table, Input dy, int64_t /*padding*/,
                           SparseOutput dtable) {
  const View weights = table.layout(), indices = flat(ids.view());
  const int64_t count = indices.shape[0];
  dtable.rows() = read_integers(context, indices);
  dtable.height() = weights.shape[0];
  const View out = allocate_values(context, dtable, weights);
  copy_or_cast(context, dy.view().reshaped({count, weights.shape[1]}), out);
}

void sgd_dense_param_sparse_grad(Context context, Input parameter, Input rate, SparseInput gradient,
                                 OptionalInput master, bool multi_precision, Output parameter_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  copy_or_cast(context, step.before(), step.after());
  if (!gradient.rows().empty()) {
    const View values = gradient.value().view(), lr = number(rate);
    const Scratch downhill(context, accumulator(lr.dtype), nullptr, 0), change(context, step.after().dtype, values);
    context.map(uhal_map_negative, {&lr}, {&downhill});
    context.map(uhal_map_multiply, {&values, &downhill}, {&change});
    add_rows(context, DeviceIntegers(context, gradient.rows()), change, step.after());
  }
  step.finish();
}

void adam_sparse(Context context, Input parameter, SparseInput gradient, Input rate, Input first, Input second,
                 OptionalInput largest, Input power1, Input power2, OptionalInput master, OptionalInput skip_update,
                 Scalar beta1, Scalar beta2, Scalar epsilon, bool lazy, int64_t, bool multi_precision,
                 bool use_global_powers, bool amsgrad, Output parameter_out, Output first_out, Output second_out,
                 Output largest_out, Output power1_out, Output power2_out, Output master_out) {
  adam_any_sparse(
      context, parameter, gradient,
      {rate, first, second, largest, power1, power2, first_out, second_out, largest_out, power1_out, power2_out},
      master, skip_update,
      {beta1.number(), beta2.number(), epsilon.number(), 0, 1, multi_precision, use_global_powers, amsgrad}, lazy,
      parameter_out, master_out);
}

void adamw_sparse(Context context, Input parameter, SparseInput gradient, Input rate, Input first, Input second,
                  OptionalInput largest, Input power1, Input power2, OptionalInput master, OptionalInput skip_update,
                  Scalar beta1, Scalar beta2, Scalar epsilon, float rate_ratio, float decay, bool with_decay, bool lazy,
                  int64_t, bool multi_precision, bool use_global_powers, bool amsgrad, Output parameter_out,
                  Output first_out, Output second_out, Output largest_out, Output power1_out, Output power2_out,
                  Output master_out) {
  adam_any_sparse(
      context, parameter, gradient,
      {rate, first, second, largest, power1, power2, first_out, second_out, largest_out, power1_out, power2_out},
      master, skip_update,
      {beta1.number(), beta2.number(), epsilon.number(), with_decay ? static_cast<double>(decay) : 0,
       static_cast<double>(rate_ratio), multi_precision, use_global_powers, amsgrad},
      lazy, parameter_out, master_out);
}

void merge_selected_rows(Context context, SparseInput x, SparseOutput y) {
  const MergedRows merged(context, x);
  const int64_t height = x.height();
  y.rows() = merged.rows();
  y.height() = height;
  const View out = allocate_values(context, y, merged.values());
  copy_or_cast(context, merged.values(), out);
}

// The stored values, without their places.
void get_tensor_from_selected_rows(Context context, SparseInput x, Output y) {
  const View values = x.value().view();
  copy_or_cast(context, values, context.allocate(y, values.dtype, values.shape, values.rank));
}

void assign_sr(Context context, SparseInput x, SparseOutput y) {
  const View in = x.value().view();
  copy_or_cast(context, in, allocate_like(context, x, y));
}

void scale_sr(Context context, SparseInput x, Scalar factor, Scalar bias, bool bias_last, SparseOutput y) {
  const View in = x.value().view(), out = allocate_like(context, x, y);
  context.map(bias_last ? uhal_map_scale : uhal_map_add_then_scale, {&in}, {&out}, {factor.number(), bias.number()});
}

void clip_sr(Context context, SparseInput x, Scalar low, Scalar high, SparseOutput y) {
  const View in = x.value().view(), out = allocate_like(context, x, y);
  context.map(uhal_map_clip, {&in}, {&out}, {low.number(), high.number()});
}

// By a number, or element by element
void multiply_sr(Context context, SparseInput x, Input factor, SparseOutput y) {
  const View in = x.value().view(), f = factor.elements() == 1 ? number(factor) : factor.view();
  const View out = allocate_like(context, x, y);
  context.map(uhal_map_multiply, {&in, &f}, {&out});
}

template <int function>
void unary_sr(Context context, SparseInput x, SparseOutput y) {
  const View in = x.value().view(), out = allocate_like(context, x, y);
  context.map(function, {&in}, {&out});
}

// Tests of the values, as bools at the same rows.
template <int function>
void test_sr(Context context, SparseInput x, SparseOutput y) {
  const View in = x.value().view();
  if (y.handle != x.handle) {
    y.rows() = x.rows();
    y.height() = x.height();
  }
  const View out = context.allocate(Output{y.value()}, UHAL_BOOL, in.shape, in.rank);
  context.map(function, {&in}, {&out});
}

// What programs of Paddle 2 call with an axis, which of one number says nothing.
void multiply_raw_sr(Context context, SparseInput x, Input factor, int, SparseOutput y) {
  if (factor.elements() != 1) unsupported(context, "a factor of several numbers");
  multiply_sr(context, x, factor, y);
}

// All rows are made, as a dense tensor's.
void full_sr(Context context, Integers shape, Scalar value, Dtype dtype, SparseOutput y) {
  fill(context, context.allocate(Output{y.value()}, to_uhal(dtype), shape.data(), shape.size()), value);
}
// Values of one row are added up before the norm is taken.
void clip_by_norm_sr(Context context, SparseInput x, float limit, SparseOutput y) {
  const MergedRows merged(context, x);
  const int64_t height = x.height();
  y.rows() = merged.rows();
  y.height() = height;
  const View in = merged.values(), out = allocate_values(context, y, in);
  if (in.elements() == 0) return;
  const Scratch norm(context, accumulator(in.dtype), nullptr, 0), most(context, norm.dtype, nullptr, 0);
  const View all = flat(in), sum = norm.reshaped({1});
  const auto squares = reduce_attributes(UHAL_REDUCE_L2_NORM);
  context.run(UHAL_OP_REDUCE, {&all}, {&sum}, &squares);
  fill(context, most, static_cast<double>(limit), 0);
  context.map(uhal_map_maximum, {&norm, &most}, {&norm});
  context.map(uhal_map_divide, {&most, &norm}, {&norm});
  context.map(uhal_map_multiply, {&in, &norm}, {&out});
}

// Sums of gradients keep all rows, one behind the other.
void add_n_sr(Context context, SparseInputList x, SparseOutput y) {
  std::vector<int64_t> rows;
  View like;
  int64_t height = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    rows.insert(rows.end(), x[i].rows().begin(), x[i].rows().end());
    if (!x[i].rows().empty()) like = x[i].value().view();
    height = x[i].height();
  }
  if (rows.empty()) {
    y.rows().clear();
    y.height() = height;
    return;
  }
  // An output that is one of the inputs gets its rows last.
  like.shape[0] = static_cast<int64_t>(rows.size());
  const Scratch all(context, like.dtype, like);
  int64_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto count = static_cast<int64_t>(x[i].rows().size());
    if (count > 0) copy_or_cast(context, x[i].value().view(), all.sliced(0, at, count));
    at += count;
  }
  y.rows() = std::move(rows);
  y.height() = height;
  copy_or_cast(context, all, allocate_values(context, y, all));
}

}  // namespace

KernelTable sparse_optimizer_kernels() {
  return {
      UNIHAL_KERNEL("embedding_sparse_grad", kFloats, embedding_sparse_grad),
      UNIHAL_KERNEL("sgd_dense_param_sparse_grad", kFloats, sgd_dense_param_sparse_grad),
      UNIHAL_KERNEL_ANYWHERE("adam_dense_param_sparse_grad", kFloats, kAdamPowersIn, kAdamPowersOut, adam_sparse),
      UNIHAL_KERNEL_ANYWHERE("adamw_dense_param_sparse_grad", kFloats, kAdamPowersIn, kAdamPowersOut, adamw_sparse),
      UNIHAL_KERNEL("merge_selected_rows", kFloats, merge_selected_rows),
      UNIHAL_KERNEL("get_tensor_from_selected_rows", kFloats, get_tensor_from_selected_rows),
      UNIHAL_KERNEL("assign_sr", kFloats, assign_sr),
      UNIHAL_KERNEL("share_data_sr", kFloats, assign_sr),
      UNIHAL_KERNEL("scale_sr", kFloats, scale_sr),
      UNIHAL_KERNEL("clip_sr", kFloats, clip_sr),
      UNIHAL_KERNEL("multiply_sr", kFloats, multiply_sr),
      UNIHAL_KERNEL("square_sr", kFloats, unary_sr<uhal_map_square>),
      UNIHAL_KERNEL("sqrt_sr", kFloats, unary_sr<uhal_map_sqrt>),
      UNIHAL_KERNEL("add_n_sr", kFloats, add_n_sr),
      UNIHAL_KERNEL("isnan_sr", kFloats, test_sr<uhal_map_is_nan>),
      UNIHAL_KERNEL("isinf_sr", kFloats, test_sr<uhal_map_is_infinite>),
      UNIHAL_KERNEL("isfinite_sr", kFloats, test_sr<uhal_map_is_finite>),
      UNIHAL_KERNEL("multiply_raw_sr", kFloats, multiply_raw_sr),
      UNIHAL_KERNEL("full_sr", kEvery, full_sr),
      UNIHAL_KERNEL("clip_by_norm_sr", kFloats, clip_by_norm_sr),
  };
}

}  // namespace unihal::paddle
