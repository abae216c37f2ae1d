// Batch normalization by the batches of all processes.
//
// Forward, a rank gives the others the mean, the variance and the number of its elements of a channel. Those of all
// are put together by deviations of means, since sums of squares would lose what lies far from 0. Backward, with
// h = (x - mean) r, r = 1 / sqrt(variance + epsilon), and n elements of all ranks in a channel,
//   dx = scale r (dy - sum(dy) / n - h sum(dy h) / n)
// needs the sums of all; dscale and dbias are the sums of this rank, which DataParallel averages like any gradient.
#include <algorithm>
#include <optional>

#include "plugins/common/chain.h"
#include "plugins/paddle/collectives.h"
#include "plugins/paddle/kernels/batch_norm.h"
#include "plugins/paddle/kernels/spatial.h"

namespace unihal::paddle {
namespace {

OptionalInput optional(Input input) { return {{input.handle}}; }

// Elements of a channel.
double elements_of_channel(const View& image) {
  return image.shape[1] == 0 ? 0 : static_cast<double>(image.elements() / image.shape[1]);
}

void sum_to(const Context& context, const View& x, const View& y) {
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
}

// Writes the mean and the variance of all ranks' elements.
void share_statistics(const Context& context, const Communicator& all, const BatchNorm& of) {
  const int64_t channels = of.in.shape[1], dims[] = {all.size, 2 * channels + 1};
  const Scratch ranks(context, of.statistic, dims, 2);
  const View own = flat(ranks.sliced(0, all.rank, 1));
  fill_zero(context, own);
  if (of.in.elements() > 0) {  // else a batch of nothing, which counts as such
    const View mean = own.sliced(0, 0, channels), variance = own.sliced(0, channels, channels);
    const auto attributes = batch_norm_attributes(0, 0, false);
    context.run(UHAL_OP_BATCH_NORM, {&of.in, nullptr, nullptr, nullptr, nullptr},
                {&of.out, &mean, &variance, nullptr, nullptr}, &attributes);
    fill(context, own.sliced(0, 2 * channels, 1), elements_of_channel(of.in), 0);
  }
  submit(all, context.stream(), UHAL_ALL_GATHER, own.data, ranks.data, own.elements(), of.statistic);

  const View means = ranks.sliced(1, 0, channels), variances = ranks.sliced(1, channels, channels),
             counts = ranks.sliced(1, 2 * channels, 1), mean = of.batch_mean.unsqueezed(0),
             variance = of.batch_variance.unsqueezed(0);
  const int64_t one[] = {1, 1};
  const Scratch total(context, of.statistic, one, 2), parts(context, of.statistic, means);
  sum_to(context, counts, total);
  Chain share(3);
  share.step(uhal_map_multiply, {share.step(uhal_map_divide, {1, 2}), 0});
  context.run(UHAL_OP_MAP_CHAIN, {&means, &counts, &total}, {&parts}, share.program());
  sum_to(context, parts, mean);
  Chain spread(5);
  const int squares = spread.step(uhal_map_add, {spread.step(uhal_map_squared_difference, {3, 4}), 0});
  spread.step(uhal_map_multiply, {spread.step(uhal_map_divide, {1, 2}), squares});
  context.run(UHAL_OP_MAP_CHAIN, {&variances, &counts, &total, &means, &mean}, {&parts}, spread.program());
  sum_to(context, parts, variance);
}

}  // namespace

void sync_batch_norm(Context context, Input x, Input mean, Input variance, Input scale, Input bias, bool is_test,
                     float momentum, float epsilon, Text data_format, bool use_global_stats, bool trainable_statistics,
                     Output y, Output mean_out, Output variance_out, Output saved_mean, Output saved_variance,
                     Output reserve_space) {
  std::optional<Communicator> all;
  if (!takes_running_statistics(is_test, use_global_stats, trainable_statistics)) {
    all = communicator_of_all(context.stream()->device, context.kernel());
  }
  if (!all) {
    return batch_norm(context, x, mean, variance, optional(scale), optional(bias), is_test, momentum, epsilon,
                      data_format, use_global_stats, trainable_statistics, y, mean_out, variance_out, saved_mean,
                      saved_variance, reserve_space);
  }
  const BatchNorm of(context, x, mean, variance, optional(scale), optional(bias), data_format, y, mean_out,
                     variance_out, saved_mean, saved_variance, reserve_space);
  if (of.in.shape[1] == 0) return;
  share_statistics(context, *all, of);
  const auto kept = static_cast<double>(momentum);
  Chain running(4);
  const auto next = [&](int old, int batch) {
    return running.step(uhal_map_add, {running.step(uhal_map_scale, {old}, {kept, 0}),
                                       running.step(uhal_map_scale, {batch}, {1 - kept, 0})});
  };
  const int next_mean = next(0, 2), next_variance = next(1, 3);
  context.run(UHAL_OP_MAP_CHAIN, {&of.running_mean, &of.running_variance, &of.batch_mean, &of.batch_variance},
              {&of.new_mean, &of.new_variance}, running.program({next_mean, next_variance}));
  const auto attributes = batch_norm_attributes(momentum, epsilon, true);
  context.run(UHAL_OP_BATCH_NORM, {&of.in, of.gamma.tensor(), of.beta.tensor(), &of.batch_mean, &of.batch_variance},
              {&of.out}, &attributes);
}

namespace {

void store(const Context& context, const View& sums, Output gradient, Input parameter) {
  if (gradient) copy_or_cast(context, sums, context.allocate(gradient, parameter.uhal()));
}

}  // namespace

void sync_batch_norm_grad(Context context, Input x, Input scale, Input bias, Input saved_mean, Input saved_variance,
                          OptionalInput reserve_space, Input dy, float momentum, float epsilon, Text data_format,
                          bool is_test, bool use_global_stats, bool trainable_statistics, Output dx, Output dscale,
                          Output dbias) {
  std::optional<Communicator> all;
  if (!is_test && !use_global_stats) all = communicator_of_all(context.stream()->device, context.kernel());
  if (!all) {
    const OptionalInput none{{nullptr}};
    return batch_norm_grad(context, x, optional(scale), optional(bias), none, none, saved_mean, saved_variance,
                           reserve_space, dy, momentum, epsilon, data_format, is_test, use_global_stats,
                           trainable_statistics, dx, dscale, dbias);
  }
  const bool last = channels_last(data_format);
  const View in = image(x.view(), last), gradient = image(dy.view(), last), mean = saved_mean.view(),
             variance = saved_variance.view();
  const uhal_dtype statistic = accumulator(in.dtype);
  const int64_t channels = in.shape[1], sums[] = {2 * channels + 1};
  const Scratch own(context, statistic, sums, 1), total(context, statistic, sums, 1);
  const View own_dbias = own.sliced(0, 0, channels), own_dscale = own.sliced(0, channels, channels);
  fill_zero(context, own);
  if (in.elements() > 0) {
    // The sums are those of constant statistics, whose dx is of no use: dx may be dy's memory, which is read again.
    const Scratch unused(context, in.dtype, x.view());
    const View unused_image = image(unused, last);
    const auto attributes = batch_norm_attributes(momentum, epsilon, true);
    context.run(UHAL_OP_BATCH_NORM_BACKWARD, {&in, &gradient, nullptr, &mean, &variance},
                {&unused_image, &own_dscale, &own_dbias}, &attributes);
    fill(context, own.sliced(0, 2 * channels, 1), elements_of_channel(in), 0);
  }
  store(context, own_dscale, dscale, scale);
  store(context, own_dbias, dbias, bias);
  // The other ranks wait for this one, also where dx is not asked for or has no elements.
  submit(*all, context.stream(), UHAL_ALL_REDUCE, own.data, total.data, own.elements(), statistic);
  if (!dx) return;
  const View out = image(context.allocate(dx, in.dtype), last);
  if (out.elements() == 0) return;

  // dx = dy factor + (x - mean) slope + shift
  const Parameter32 gamma(context, optional(scale), statistic, &channels, 1);
  const Scratch factor(context, statistic, mean), slope(context, statistic, mean), shift(context, statistic, mean);
  const View sum_dy = total.sliced(0, 0, channels), sum_dy_h = total.sliced(0, channels, channels),
             count = total.sliced(0, 2 * channels, 1);
  Chain of_channel(5);
  const int root = of_channel.step(uhal_map_rsqrt, {of_channel.step(uhal_map_scale, {4}, {1, epsilon})});
  const int to_factor = of_channel.step(uhal_map_multiply, {3, root});
  const int minus = of_channel.step(uhal_map_negative, {to_factor});
  const int to_shift = of_channel.step(uhal_map_multiply, {minus, of_channel.step(uhal_map_divide, {0, 2})});
  const int mean_dy_h = of_channel.step(uhal_map_multiply, {root, of_channel.step(uhal_map_divide, {1, 2})});
  const int to_slope = of_channel.step(uhal_map_multiply, {minus, mean_dy_h});
  context.run(UHAL_OP_MAP_CHAIN, {&sum_dy, &sum_dy_h, &count, gamma.tensor(), &variance}, {&factor, &slope, &shift},
              of_channel.program({to_factor, to_slope, to_shift}));

  int64_t across[UHAL_MAX_RANK];
  std::fill(across, across + in.rank, 1);
  across[1] = channels;
  const View means = mean.reshaped(across, in.rank), factors = factor.reshaped(across, in.rank),
             slopes = slope.reshaped(across, in.rank), shifts = shift.reshaped(across, in.rank);
  Chain of_element(6);
  const int rest = of_element.step(uhal_map_multiply_add, {of_element.step(uhal_map_subtract, {1, 2}), 4, 5});
  of_element.step(uhal_map_multiply_add, {0, 3, rest});
  context.run(UHAL_OP_MAP_CHAIN, {&gradient, &in, &means, &factors, &slopes, &shifts}, {&out}, of_element.program());
}

KernelTable sync_batch_norm_kernels() {
  return {
      UNIHAL_KERNEL("sync_batch_norm", kFloats, sync_batch_norm),
      UNIHAL_KERNEL("sync_batch_norm_grad", kFloats, sync_batch_norm_grad),
  };
}

}  // namespace unihal::paddle
