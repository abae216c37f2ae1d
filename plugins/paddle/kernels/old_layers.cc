// Layers that programs of Paddle 1 and 2 have, and Paddle 3 still runs where they were saved.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugins/paddle/kernels/spatial.h"

namespace unihal::paddle {
namespace {

// -- normalization across neighbouring channels

// y = the sum of x over `size` channels, those before a channel and itself first; mirrored for the gradient.
void sum_neighbours(const Context& context, const View& x, int size, bool mirrored, const View& y) {
  copy_or_cast(context, x, y);
  const int64_t before = (size - 1) / 2, channels = x.shape[1];
  for (int64_t i = std::max(-before, -channels); i < std::min(size - before, channels); ++i) {
    const int64_t step = mirrored ? -i : i, length = channels - std::abs(step);
    if (step == 0 || length <= 0) continue;
    const View target = y.sliced(1, step < 0 ? -step : 0, length), other = x.sliced(1, step < 0 ? 0 : step, length);
    context.map(uhal_map_add, {&target, &other}, {&target});
  }
}

// y = x mid^-beta, with mid = k + alpha * the sum of its neighbours' squares
void lrn(Context context, Input x, int size, float k, float alpha, float beta, Text data_format, Output y, Output mid) {
  const bool last = std::strcmp(data_format.value, "NHWC") == 0;
  if (!last && std::strcmp(data_format.value, "NCHW") != 0) {
    invalid(context, std::string("data_format is \"") + data_format.value + "\", expected NCHW or NHWC");
  }
  const int rank = x.layout().rank;
  if (rank != 4) invalid(context, "x has rank " + std::to_string(rank) + ", expected 4");
  const View in = image(x.view(), last), out = image(context.allocate(y, in.dtype), last),
             sums = image(context.allocate(mid, in.dtype), last);
  if (size < 1) invalid(context, "n is " + std::to_string(size) + ", expected 1 or more");
  if (!(k >= 0 && alpha >= 0 && beta >= 0)) invalid(context, "k, alpha or beta is below 0");
  if (out.elements() == 0) return;
  const Scratch squares(context, in.dtype, in), power(context, in.dtype, in);
  context.map(uhal_map_square, {&in}, {&squares});
  sum_neighbours(context, squares, size, false, sums);
  context.map(uhal_map_scale, {&sums}, {&sums}, {static_cast<double>(alpha), static_cast<double>(k)});
  context.map(uhal_map_power_scalar, {&sums}, {&power}, {-static_cast<double>(beta)});
  context.map(uhal_map_multiply, {&in, &power}, {&out});
}

// dx = dy mid^-beta - 2 alpha beta x * the sum of dy y / mid over those whose neighbour it is
void lrn_grad(Context context, Input x, Input y, Input mid, Input dy, int size, float, float alpha, float beta,
              Text data_format, Output dx) {
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), forward = image(y.view(), last), sums = image(mid.view(), last),
             gradient = image(dy.view(), last), out = image(context.allocate(dx, in.dtype), last);
  if (out.elements() == 0) return;
  const Scratch shares(context, in.dtype, in), total(context, in.dtype, in), power(context, in.dtype, in);
  context.map(uhal_map_multiply, {&gradient, &forward}, {&shares});
  context.map(uhal_map_divide, {&shares, &sums}, {&shares});
  sum_neighbours(context, shares, size, true, total);
  context.map(uhal_map_multiply, {&total, &in}, {&total});
  context.map(uhal_map_scale, {&total}, {&total}, {-2 * static_cast<double>(alpha) * static_cast<double>(beta), 0});
  context.map(uhal_map_power_scalar, {&sums}, {&power}, {-static_cast<double>(beta)});
  context.map(uhal_map_multiply_add, {&gradient, &power, &total}, {&out});
}

// -- channels in another order

void interleave(const Context& context, const View& x, int64_t groups, const View& y) {
  if (y.elements() == 0) return;
  const int64_t members = x.shape[1] / groups, pixels = x.elements() / (x.shape[0] * x.shape[1]);
  const View from = x.reshaped({x.shape[0], groups, members, pixels});
  copy_or_cast(context, from.transposed(1, 2), y.reshaped({x.shape[0], members, groups, pixels}));
}

void require_groups(const Context& context, const View& x, int groups) {
  if (groups < 1) invalid(context, "group is " + std::to_string(groups) + ", expected 1 or more");
  if (x.rank != 4) invalid(context, "x has rank " + std::to_string(x.rank) + ", expected 4");
  if (x.shape[1] % groups != 0) {
    invalid(context, std::to_string(x.shape[1]) + " channels are not whole groups of " + std::to_string(groups));
  }
}

void shuffle_channel(Context context, Input x, int groups, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  require_groups(context, in, groups);
  interleave(context, in, groups, out);
}
void shuffle_channel_grad(Context context, Input dy, int groups, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  require_groups(context, gradient, groups);
  interleave(context, gradient, gradient.shape[1] / groups, out);
}

// -- the sum of some columns of several matrices

// The columns of a matrix from `start` on, which may count from the end, `length` or all of them.
View columns(const Context& context, const View& x, int start, int length) {
  if (x.rank != 2) invalid(context, "an operand has rank " + std::to_string(x.rank) + ", expected 2");
  const int64_t first = start < 0 ? start + x.shape[1] : start, count = length < 0 ? x.shape[1] - first : length;
  if (first < 0 || count < 0 || first + count > x.shape[1]) {
    invalid(context, "columns " + std::to_string(start) + " to " + std::to_string(start + length) + " are not in " +
                         std::to_string(x.shape[1]));
  }
  return x.sliced(1, first, count);
}

void partial_sum(Context context, InputList x, int start, int length, Output y) {
  if (x.size() == 0) invalid(context, "there is no operand");
  const View first = columns(context, x[0].view(), start, length);
  const View out = context.allocate(y, first.dtype, first.shape, 2);
  if (out.elements() == 0) return;
  copy_or_cast(context, first, out);
  for (size_t i = 1; i < x.size(); ++i) {
    const View other = columns(context, x[i].view(), start, length);
    context.map(uhal_map_add, {&out, &other}, {&out});
  }
}
void partial_sum_grad(Context context, InputList x, Input dy, int start, int length, OutputList dx) {
  const View gradient = dy.view();
  for (size_t i = 0; i < dx.size(); ++i) {
    if (!dx[i]) continue;
    const View shape = x[i].layout(), out = context.allocate(dx[i], gradient.dtype, shape.shape, shape.rank);
    fill_zero(context, out);
    if (gradient.elements() > 0) copy_or_cast(context, gradient, columns(context, out, start, length));
  }
}

// -- shapes

void flatten2(Context context, Input x, int, Output y, Output) {
  const View in = x.view();
  copy_or_cast(context, flat(in), flat(context.allocate(y, in.dtype)));
}
void flatten2_grad(Context context, Input, Input, Input dy, int, Output dx) {
  const View gradient = dy.view();
  copy_or_cast(context, flat(gradient), flat(context.allocate(dx, gradient.dtype)));
}

// -- cross entropy of probabilities

// What is looked at as rows of the last axis.
View class_rows_of(const Context& context, const View& x) {
  if (x.rank < 1) invalid(context, "an operand has no axis of classes");
  const int64_t last = x.shape[x.rank - 1];
  return x.reshaped({last == 0 ? 0 : x.elements() / last, last});
}

// Shares of the classes, of x's shape and dtype.
View shares_of(const Context& context, const View& x, const View& labels) {
  require_same_dtype(context, x, labels);
  const View weights = class_rows_of(context, labels);
  if (!same_shape(x, weights)) invalid(context, "there is not a share for each of x's probabilities");
  return weights;
}

// Labels that may be counted, and where they are in force; those to be ignored are 0 there.
struct CountedLabels {
  Scratch places, counts;

  CountedLabels(const Context& context, const View& labels, int64_t rows, int ignored)
      : places(context, UHAL_INT64, View(nullptr, UHAL_INT64, {rows, 1})), counts(context, UHAL_BOOL, places) {
    const Scratch none(context, UHAL_INT64, nullptr, 0), out(context, UHAL_INT64, nullptr, 0);
    if (!is_integer(labels.dtype)) {
      invalid(context, std::string("labels are ") + uhal_dtype_name(labels.dtype) + ", expected integers");
    }
    if (labels.elements() != rows) {
      invalid(context, std::to_string(labels.elements()) + " labels for " + std::to_string(rows) + " rows");
    }
    fill(context, none, ignored, ignored);
    fill_zero(context, out);
    copy_or_cast(context, labels.reshaped({rows, 1}), places);
    context.map(uhal_map_not_equal, {&places, &none}, {&counts});
    context.map(uhal_map_select, {&counts, &places, &out}, {&places});
  }
};

// -log(0) is 1e20.
void old_cross_entropy(Context context, Input x, Input label, bool soft, int ignored, Output y) {
  const View in = class_rows_of(context, x.view()), out = context.allocate(y, in.dtype).reshaped({in.shape[0], 1});
  if (out.elements() == 0) return;
  const Scratch logarithms(context, in.dtype, in), zero(context, in.dtype, nullptr, 0);
  fill_zero(context, zero);
  if (soft) {
    const View weights = shares_of(context, in, label.view());
    context.map(uhal_map_log, {&in}, {&logarithms});
    context.map(uhal_map_clip, {&logarithms}, {&logarithms}, {-1e20, 1e20});
    context.map(uhal_map_multiply, {&logarithms, &weights}, {&logarithms});
    const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&logarithms}, {&out}, &sum);
    return context.map(uhal_map_negative, {&out}, {&out});
  }
  const CountedLabels labels(context, label.view(), in.shape[0], ignored);
  const auto elements = index_attributes(1);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&in, &labels.places}, {&out}, &elements);
  context.map(uhal_map_log, {&out}, {&out});
  context.map(uhal_map_negative, {&out}, {&out});
  context.map(uhal_map_clip, {&out}, {&out}, {-1e20, 1e20});
  context.map(uhal_map_select, {&labels.counts, &out, &zero}, {&out});
}

void old_cross_entropy_grad(Context context, Input x, Input label, Input dy, bool soft, int ignored, Output dx) {
  const View in = class_rows_of(context, x.view()), out = context.allocate(dx, in.dtype).reshaped(in.shape, 2);
  if (out.elements() == 0) return;
  const View gradient = dy.view().reshaped({in.shape[0], 1});
  if (soft) {
    const View weights = shares_of(context, in, label.view());
    const Scratch part(context, in.dtype, in);
    context.map(uhal_map_multiply, {&gradient, &weights}, {&part});
    context.map(uhal_map_divide, {&part, &in}, {&part});
    return context.map(uhal_map_negative, {&part}, {&out});
  }
  const CountedLabels labels(context, label.view(), in.shape[0], ignored);
  const Scratch slope(context, in.dtype, gradient), zero(context, in.dtype, nullptr, 0);
  fill_zero(context, zero);
  const auto elements = index_attributes(1);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&in, &labels.places}, {&slope}, &elements);
  context.map(uhal_map_divide, {&gradient, &slope}, {&slope});
  context.map(uhal_map_negative, {&slope}, {&slope});
  context.map(uhal_map_select, {&labels.counts, &slope, &zero}, {&slope});
  fill_zero(context, out);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&labels.places, &slope}, {&out}, &elements);
}

}  // namespace

KernelTable old_layer_kernels() {
  constexpr DtypeSet kFloat32Only = 1u << kFloat32;
  return {
      UNIHAL_KERNEL("lrn", kFloat32Only, lrn),
      UNIHAL_KERNEL("lrn_grad", kFloat32Only, lrn_grad),
      UNIHAL_KERNEL("shuffle_channel", kWideFloats, shuffle_channel),
      UNIHAL_KERNEL("shuffle_channel_grad", kWideFloats, shuffle_channel_grad),
      UNIHAL_KERNEL("partial_sum", kWideFloats | kInt32And64, partial_sum),
      UNIHAL_KERNEL("partial_sum_grad", kWideFloats | kInt32And64, partial_sum_grad),
      UNIHAL_KERNEL("flatten2", kReal, flatten2),
      UNIHAL_KERNEL("flatten2_grad", kReal, flatten2_grad),
      UNIHAL_KERNEL("cross_entropy", kWideFloats, old_cross_entropy),
      UNIHAL_KERNEL("cross_entropy_grad", kWideFloats, old_cross_entropy_grad),
  };
}

}  // namespace unihal::paddle
