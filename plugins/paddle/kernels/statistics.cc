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
  const View out = context.allocate(y, in.elements() == 0 ? UHAL_INT64 : dtype, dims, 1);
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

// counts = how many numbers, or how much weight, each of the equal intervals between `first` and `last` has. Of a
// number outside, or that is none, there is no interval: its place is -1. The end has a place of its own behind the
// intervals, and is then counted to the last one.
void count_in_bins(const Context& context, const View& x, const OptionalInput& weight, double first, double last,
                   const View& counts) {
  const int64_t bins = counts.elements();
  const Scratch places(context, bins < INT32_MAX ? UHAL_INT32 : UHAL_INT64, x);
  const Constant none(context, UHAL_FLOAT64, -1);  // also what makes the steps those of float64
  Chain program(2);
  const int within = program.step(uhal_map_clip, {0}, {first, last});
  const int place =
      program.step(uhal_map_add_then_scale, {within}, {static_cast<double>(bins) / (last - first), -first});
  program.step(uhal_map_select, {program.step(uhal_map_equal, {within, 0}), place, 1});
  context.run(UHAL_OP_MAP_CHAIN, {&x, &none}, {&places}, program.program());
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  sum.ignore_negative = 1;
  const Scratch found(context, weight ? counts.dtype : UHAL_INT64, {bins + 1});
  if (weight) {
    const View weights = flat(weight.view());
    const Scratch updates(context, counts.dtype, weights);
    copy_or_cast(context, weights, updates);
    context.run(UHAL_OP_SEGMENT_REDUCE, {&updates, &places}, {&found}, &sum);
  } else {
    const Repeated ones(context, UHAL_INT64, 1, x.elements());
    context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &places}, {&found}, &sum);
  }
  const View last_bin = counts.sliced(0, bins - 1, 1), end = found.sliced(0, bins, 1);
  copy_or_cast(context, found.sliced(0, 0, bins), counts);
  context.map(uhal_map_add, {&last_bin, &end}, {&last_bin});
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

// Beams followed from the last step back to the first: ids and parents (steps, batch, beams). A step says of each beam
// where it comes from in the step before, and what counts is what all steps from one to the last say, one after the
// other. Steps are taken in groups of about as many as there are groups: within all of them at once, then from group to
// group, and then each step's with what the groups behind it say.
class Beams {
 public:
  Beams(const Context& context, const View& parents)
      : steps_(parents.shape[0]),
        batch_(parents.shape[1]),
        beams_(parents.shape[2]),
        length_(static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(steps_))))),
        groups_((steps_ + length_ - 1) / length_),
        missing_(groups_ * length_ - steps_),
        within_(context, parents.dtype, parents),
        behind_(context, parents.dtype, {groups_, batch_, beams_}),
        followed_(context, parents.dtype, parents) {
    const auto along = index_attributes(2);
    copy_or_cast(context, of_groups(parents, length_ - 1), of_groups(within_, length_ - 1));
    for (int64_t i = length_ - 2; i >= 0; --i) {
      const View own = of_groups(parents, i), to = of_groups(within_, i);
      if (own.shape[0] == 0) continue;
      const View behind = of_groups(within_, i + 1);
      const View next = behind.sliced(0, behind.shape[0] - own.shape[0], own.shape[0]);
      context.run(UHAL_OP_GATHER_ELEMENTS, {&own, &next}, {&to}, &along);
    }
    // What all groups from one on say.
    const int64_t last = groups_ - 1;
    copy_or_cast(context, within_.sliced(0, first_of(last), 1), behind_.sliced(0, last, 1));
    for (int64_t group = last - 1; group > 0; --group) {
      const View own = within_.sliced(0, first_of(group), 1), next = behind_.sliced(0, group + 1, 1),
                 to = behind_.sliced(0, group, 1);
      context.run(UHAL_OP_GATHER_ELEMENTS, {&own, &next}, {&to}, &along);
    }
    copy_or_cast(context, within_.sliced(0, first_of(last), length_of(last)),
                 followed_.sliced(0, first_of(last), length_of(last)));
    if (missing_ > 0 && groups_ > 1) follow(context, 0, 1);
    const int64_t whole = missing_ > 0 ? 1 : 0;
    if (last > whole) follow(context, whole, last - whole);
  }

  // Which beam of each step's parents is followed.
  const View& followed() const { return followed_; }

 private:
  // The first group has the steps that are missing less.
  int64_t first_of(int64_t group) const { return std::max<int64_t>(group * length_ - missing_, 0); }
  int64_t length_of(int64_t group) const { return group == 0 ? length_ - missing_ : length_; }

  // Step i of each group that has one.
  View of_groups(const View& x, int64_t i) const {
    const int64_t without = i < missing_ ? 1 : 0;
    return x.sliced(0, without * length_ + i - missing_, groups_ - without, length_);
  }

  // Some groups of one length, with what the group behind each says.
  void follow(const Context& context, int64_t first, int64_t count) const {
    const int64_t dims[] = {count, length_of(first), batch_, beams_}, begin = first_of(first);
    const View own = within_.sliced(0, begin, dims[0] * dims[1]).reshaped(dims, 4),
               to = followed_.sliced(0, begin, dims[0] * dims[1]).reshaped(dims, 4);
    View next = behind_.sliced(0, first + 1, count).unsqueezed(1);
    next.shape[1] = dims[1];
    next.strides[1] = 0;
    const auto along = index_attributes(3);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&own, &next}, {&to}, &along);
  }

  int64_t steps_, batch_, beams_, length_, groups_, missing_;
  const Scratch within_;    // of each step: what it and those behind it in its group say
  const Scratch behind_;    // of each group but the first: what it and those behind it say
  const Scratch followed_;  // of each step
};

void gather_tree(Context context, Input ids, Input parents, Output y) {
  const View in = ids.view(), from = parents.view(), out = context.allocate(y, in.dtype);
  if (out.elements() == 0) return;
  const int64_t steps = in.shape[0];
  copy_or_cast(context, in.sliced(0, steps - 1, 1), out.sliced(0, steps - 1, 1));
  if (steps == 1) return;
  // Of a step but the last that beam, which the parents of the step behind it say.
  const Beams beams(context, from.sliced(0, 1, steps - 1));
  const View before = in.sliced(0, 0, steps - 1), target = out.sliced(0, 0, steps - 1);
  const auto along = index_attributes(2);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&before, &beams.followed()}, {&target}, &along);
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
