// Sums without NaN, counts, norms of whole tensors, and factors per channel.
#include <cmath>
#include <cstring>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void sum_all(const Context& context, const View& x, const View& y) {
  const View in = flat(x), out = y.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&in}, {&out}, &attributes);
}

double extreme(const Context& context, const View& x, uhal_reduction which) {
  const int64_t one[] = {1};
  const Scratch found(context, x.dtype, one, 1);
  const View in = flat(x);
  const auto attributes = reduce_attributes(which);
  context.run(UHAL_OP_REDUCE, {&in}, {&found}, &attributes);
  return read_number(context, found);
}

void l1_norm(Context context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const Scratch absolute(context, in.dtype, in);
  context.map(uhal_map_absolute, {&in}, {&absolute});
  sum_all(context, absolute, out);
}
void l1_norm_grad(Context context, Input x, Input dy, Output dx) {
  const View in = x.view(), gradient = dy.view().reshaped(nullptr, 0), out = context.allocate(dx, in.dtype);
  const Scratch sign(context, in.dtype, in);
  context.map(uhal_map_sign, {&in}, {&sign});
  context.map(uhal_map_multiply, {&sign, &gradient}, {&out});
}

// How often each number occurs, or the sum of its weights; the host waits for the largest.
void bincount(Context context, Input x, OptionalInput weights, Scalar least, Output y) {
  const View in = x.view();
  if (least.integer() < 0) invalid(context, "minlength is " + std::to_string(least.integer()) + ", expected 0 or more");
  int64_t dims[] = {least.integer()};
  if (in.elements() > 0) {
    if (extreme(context, in, UHAL_REDUCE_MINIMUM) < 0) invalid(context, "there is a negative number to be counted");
    dims[0] = std::max(dims[0], static_cast<int64_t>(extreme(context, in, UHAL_REDUCE_MAXIMUM)) + 1);
  }
  const uhal_dtype dtype = !weights ? UHAL_INT64 : weights.uhal() == UHAL_FLOAT32 ? UHAL_FLOAT32 : UHAL_FLOAT64;
  const View out = context.allocate(y, in.elements() == 0 && !weights ? in.dtype : dtype, dims, 1);
  if (in.elements() == 0) return fill_zero(context, out);
  View ids = flat(in);
  const bool whole = in.dtype == UHAL_INT32 || in.dtype == UHAL_INT64;
  const Scratch places(context, UHAL_INT64, whole ? in.sliced(0, 0, 0) : in);
  if (!whole) {
    copy_or_cast(context, in, places);
    ids = flat(places);
  }
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  if (weights) {
    const Scratch updates(context, out.dtype, in);
    copy_or_cast(context, weights.view(), updates);
    const View values = flat(updates);
    context.run(UHAL_OP_SEGMENT_REDUCE, {&values, &ids}, {&out}, &sum);
    return;
  }
  const Repeated ones(context, UHAL_INT64, 1, ids.shape[0]);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &ids}, {&out}, &sum);
}

// counts = how many numbers, or how much weight, each of the equal intervals between `first` and `last` has. Of a number
// outside, or that is none, there is no interval: its place is -1.
void count_in_bins(const Context& context, const View& x, const OptionalInput& weight, double first, double last,
                   const View& counts) {
  const double bins = static_cast<double>(counts.elements());
  const Scratch places(context, counts.elements() <= INT32_MAX ? UHAL_INT32 : UHAL_INT64, x);
  const Constant none(context, UHAL_FLOAT64, -1);  // also what makes the steps those of float64
  Chain program(2);
  const int inside = program.step(uhal_map_equal, {program.step(uhal_map_clip, {0}, {first, last}), 0});
  const int scaled = program.step(uhal_map_add_then_scale, {0}, {bins / (last - first), -first});
  program.step(uhal_map_select, {inside, program.step(uhal_map_clip, {scaled}, {0, bins - 1}), 1});
  context.run(UHAL_OP_MAP_CHAIN, {&x, &none}, {&places}, program.program());
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  sum.ignore_negative = 1;
  if (weight) {
    const View weights = flat(weight.view());
    const Scratch updates(context, counts.dtype, weights);
    copy_or_cast(context, weights, updates);
    return context.run(UHAL_OP_SEGMENT_REDUCE, {&updates, &places}, {&counts}, &sum);
  }
  const Repeated ones(context, UHAL_INT64, 1, x.elements());
  if (counts.dtype == UHAL_INT64) return context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &places}, {&counts}, &sum);
  const Scratch found(context, UHAL_INT64, counts);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &places}, {&found}, &sum);
  copy_or_cast(context, found, counts);
}

// How many numbers, or how much weight, each of `bins` equal intervals has. Equal ends stand for the data's own.
void histogram(Context context, Input x, OptionalInput weight, int64_t bins, float low, float high, bool density,
               Output y) {
  const View in = flat(x.view());
  if (bins < 1) invalid(context, "bins is " + std::to_string(bins) + ", expected 1 or more");
  double first = static_cast<double>(low), last = static_cast<double>(high);
  if (first == last && in.elements() > 0) {
    first = extreme(context, in, UHAL_REDUCE_MINIMUM);
    last = extreme(context, in, UHAL_REDUCE_MAXIMUM);
  }
  if (first == last) {
    first -= 1;
    last += 1;
  }
  if (!std::isfinite(first) || !std::isfinite(last)) invalid(context, "the range of the bins is not finite");
  if (last < first) invalid(context, "max is less than min");
  const bool fractions = density || weight;
  const View out = context.allocate(y, fractions ? UHAL_FLOAT32 : UHAL_INT64, &bins, 1);
  if (in.elements() == 0) {
    fill_zero(context, out);
  } else {
    count_in_bins(context, in, weight, first, last, out);
  }
  if (!density) return;
  const Scratch total(context, out.dtype, nullptr, 0);
  sum_all(context, out, total);
  context.map(uhal_map_scale, {&total}, {&total}, {(last - first) / static_cast<double>(bins), 0});
  context.map(uhal_map_divide, {&out, &total}, {&out});
}

// A factor of each channel, seen beside x.
View per_channel(const View& factor, const View& x, Text layout) {
  View result = factor;
  if (std::strcmp(layout.value, "NHWC") == 0) return result;
  while (result.rank < x.rank - 1) result = result.unsqueezed(result.rank);
  return result;
}

void affine_channel(Context context, Input x, Input scale, Input bias, Text layout, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const View a = per_channel(scale.view(), in, layout), b = per_channel(bias.view(), in, layout);
  context.map(uhal_map_multiply_add, {&in, &a, &b}, {&out});
}
void affine_channel_grad(Context context, Input x, Input scale, Input, Input dy, Text layout, Output dx, Output dscale,
                         Output dbias) {
  const View in = x.view(), gradient = dy.view(), factor = per_channel(scale.view(), in, layout);
  if (dbias) sum_to_shape(context, gradient, per_channel(context.allocate(dbias, in.dtype), in, layout));
  if (dscale) {
    const Scratch product(context, in.dtype, in);
    context.map(uhal_map_multiply, {&in, &gradient}, {&product});
    sum_to_shape(context, product, per_channel(context.allocate(dscale, in.dtype), in, layout));
  }
  if (!dx) return;
  const View out = context.allocate(dx, in.dtype);
  context.map(uhal_map_multiply, {&gradient, &factor}, {&out});
}

// Beams followed from the last step back to the first: ids and parents (steps, batch, beams).
void gather_tree(Context context, Input ids, Input parents, Output y) {
  const View in = ids.view(), from = parents.view(), out = context.allocate(y, in.dtype);
  if (out.elements() == 0) return;
  const int64_t steps = in.shape[0];
  const auto step = [](const View& view, int64_t i) {
    const View one = view.sliced(0, i, 1);
    return one.reshaped({view.shape[1], view.shape[2]});
  };
  copy_or_cast(context, step(in, steps - 1), step(out, steps - 1));
  if (steps == 1) return;
  // Which beam of each step but the last is followed: what the parents of the step behind it say of the beam there.
  const View rest = from.sliced(0, 1, steps - 1);
  const Scratch beams(context, from.dtype, rest);
  copy_or_cast(context, step(from, steps - 1), step(beams, steps - 2));
  const auto along = index_attributes(1);
  for (int64_t i = steps - 3; i >= 0; --i) {
    const View parents_behind = step(from, i + 1), beam_behind = step(beams, i + 1), beam = step(beams, i);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&parents_behind, &beam_behind}, {&beam}, &along);
  }
  const View before = in.sliced(0, 0, steps - 1), target = out.sliced(0, 0, steps - 1);
  const auto of_steps = index_attributes(2);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&before, &beams}, {&target}, &of_steps);
}

}  // namespace

KernelTable statistics_kernels() {
  constexpr DtypeSet kCounted = kWideFloats | kInt32And64;
  return {
      UNIHAL_KERNEL("l1_norm", kFloats, l1_norm),
      UNIHAL_KERNEL("l1_norm_grad", kFloats, l1_norm_grad),
      UNIHAL_KERNEL("bincount", kCounted, bincount),
      UNIHAL_KERNEL("histogram", kCounted, histogram),
      UNIHAL_KERNEL("affine_channel", kWideFloats, affine_channel),
      UNIHAL_KERNEL("affine_channel_grad", kWideFloats, affine_channel_grad),
      UNIHAL_KERNEL("gather_tree", kInt32And64, gather_tree),
  };
}

}  // namespace unihal::paddle
