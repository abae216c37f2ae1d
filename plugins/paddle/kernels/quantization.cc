// Fake quantization, as quantization-aware training uses it: Paddle's kernels by a scale that is the largest magnitude.
#include <cmath>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// The largest quantized number.
double bins(int bit_length) { return std::pow(2, bit_length - 1) - 1; }

// The largest magnitudes of x for each element of `scale`, whose rank is x's and whose other axes have length 1.
void largest_magnitudes(const Context& context, const View& x, const View& scale) {
  const Scratch magnitudes(context, x.dtype, x);
  context.map(uhal_map_absolute, {&x}, {&magnitudes});
  const auto attributes = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  context.run(UHAL_OP_REDUCE, {&magnitudes}, {&scale}, &attributes);
}

// A view of channels seen as an axis of an image of `rank` axes.
View along(const View& channels, int axis, int rank) {
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < rank; ++i) dims[i] = i == axis ? channels.elements() : 1;
  return channels.reshaped(dims, rank);
}

// y = x / scale * bins, rounded and clipped. Paddle rounds half to even (type 0) and then clips, or clips to the scale
// and rounds half away from zero. The inverse of a scale of almost 0 is that of a scale of 1e-6 more.
void quantize(const Context& context, const View& x, const View& scale, int bit_length, int round_type, const View& y) {
  const Scratch factor(context, scale.dtype, scale), limit(context, scale.dtype, scale);
  fill(context, limit, 1e-30, 0);
  context.map(uhal_map_less_equal, {&scale, &limit}, {&factor});
  context.map(uhal_map_scale, {&factor}, {&factor}, {1e-6, 0});
  context.map(uhal_map_add, {&factor, &scale}, {&factor});
  context.map(uhal_map_reciprocal, {&factor}, {&factor});
  context.map(uhal_map_scale, {&factor}, {&factor}, {bins(bit_length), 0});
  if (round_type == 0) {
    context.map(uhal_map_multiply, {&x, &factor}, {&y});
    context.map(uhal_map_round_half_to_even, {&y}, {&y});
    context.map(uhal_map_clip, {&y}, {&y}, {-bins(bit_length) - 1, bins(bit_length)});
    return;
  }
  context.map(uhal_map_minimum, {&x, &scale}, {&y});
  context.map(uhal_map_negative, {&scale}, {&limit});
  context.map(uhal_map_maximum, {&y, &limit}, {&y});
  context.map(uhal_map_multiply, {&y, &factor}, {&y});
  context.map(uhal_map_round_half_away, {&y}, {&y});
}

void dequantize(const Context& context, const View& scale, int bit_length, const View& y) {
  context.map(uhal_map_multiply, {&y, &scale}, {&y});
  context.map(uhal_map_scale, {&y}, {&y}, {1 / bins(bit_length), 0});
}

void check_arguments(const Context& context, int bit_length, int round_type) {
  if (bit_length < 1 || bit_length > 16)
    invalid(context, "'bit_length' should be between 1 and 16, but the received is " + std::to_string(bit_length));
  if (round_type != 0 && round_type != 1)
    invalid(context,
            "'round_type' should be 0 or 1, 0 rounding to nearest ties to even and 1 rounding to nearest ties away "
            "from zero, but the received is " +
                std::to_string(round_type));
}

template <bool kDequantize>
void by_largest(Context context, Input x, int bit_length, int round_type, Output y, Output scale) {
  const View in = x.view();
  check_arguments(context, bit_length, round_type);
  const int64_t one[] = {1};
  const View found = context.allocate(scale, in.dtype, one, 1);
  const View out = context.allocate(y, in.dtype);
  largest_magnitudes(context, in, along(found, -1, in.rank));
  quantize(context, in, along(found, -1, in.rank), bit_length, round_type, out);
  if (kDequantize) dequantize(context, along(found, -1, in.rank), bit_length, out);
}

template <bool kDequantize>
void by_channel(const Context& context, Input x, int bit_length, int round_type, int axis, Output y, Output scale) {
  const View in = x.view();
  check_arguments(context, bit_length, round_type);
  if ((axis != 0 && axis != 1) || in.rank <= axis)
    invalid(context, "'quant_axis' should be 0 or 1, but the received is " + std::to_string(axis));
  const int64_t channels[] = {in.shape[axis]};
  const View found = context.allocate(scale, in.dtype, channels, 1);
  const View out = context.allocate(y, in.dtype);
  const View aligned = along(found, axis, in.rank);
  largest_magnitudes(context, in, aligned);
  quantize(context, in, aligned, bit_length, round_type, out);
  if (kDequantize) dequantize(context, aligned, bit_length, out);
}

void channel_wise_quantize(Context context, Input x, int bit_length, int round_type, int axis, bool is_test, Output y,
                           Output scale) {
  if (is_test) unsupported(context, "fake_channel_wise_quantize_abs_max in inference, which reads an output");
  by_channel<false>(context, x, bit_length, round_type, axis, y, scale);
}

void channel_wise_quantize_dequantize(Context context, Input x, int bit_length, int round_type, int axis, Output y,
                                      Output scale) {
  by_channel<true>(context, x, bit_length, round_type, axis, y, scale);
}

// The gradient passes straight through.
void straight_through(Context context, Input dy, int, int, Output dx) {
  const View in = dy.view();
  copy_or_cast(context, in, context.allocate(dx, in.dtype));
}

void straight_through_channels(Context context, Input dy, int, int, int, Output dx) {
  const View in = dy.view();
  copy_or_cast(context, in, context.allocate(dx, in.dtype));
}

// -- by a moving average of the largest magnitudes

// The average's sum and weight after one more number, and their quotient; all are read before any is written, since
// Paddle gives the outputs the inputs' memory.
void update_average(const Context& context, const View& x, OptionalInput sum, OptionalInput weight, float rate,
                    Output scale, Output weight_out, Output sum_out) {
  if (!sum || !weight) invalid(context, "in training in_accum and in_state are needed");
  const View old_sum = flat(sum.view()), old_weight = flat(weight.view());
  const int64_t one[] = {1};
  const Scratch largest(context, x.dtype, one, 1), new_sum(context, x.dtype, one, 1), total(context, x.dtype, one, 1);
  largest_magnitudes(context, x, along(largest, -1, x.rank));
  context.map(uhal_map_scale, {&old_sum}, {&new_sum}, {static_cast<double>(rate), 0});
  context.map(uhal_map_add, {&new_sum, &largest}, {&new_sum});
  context.map(uhal_map_scale, {&old_weight}, {&total}, {static_cast<double>(rate), 1});
  const View quotient = context.allocate(scale, x.dtype, one, 1);
  context.map(uhal_map_divide, {&new_sum, &total}, {&quotient});
  if (weight_out) copy_or_cast(context, total, context.allocate(weight_out, x.dtype, one, 1));
  if (sum_out) copy_or_cast(context, new_sum, context.allocate(sum_out, x.dtype, one, 1));
}

template <bool kDequantize>
void by_average(Context context, Input x, Input scale, OptionalInput sum, OptionalInput weight, float rate,
                int bit_length, bool is_test, int round_type, Output y, Output scale_out, Output weight_out,
                Output sum_out) {
  const View in = x.view();
  check_arguments(context, bit_length, round_type);
  const View out = context.allocate(y, in.dtype);
  if (!is_test) update_average(context, in, sum, weight, rate, scale_out, weight_out, sum_out);
  const View used = along(is_test ? scale.view() : Tensor{scale_out.handle}.view(), -1, in.rank);
  quantize(context, in, used, bit_length, round_type, out);
  if (kDequantize) dequantize(context, used, bit_length, out);
}

void straight_through_average(Context context, Input dy, float, int, bool, int, Output dx) {
  const View in = dy.view();
  copy_or_cast(context, in, context.allocate(dx, in.dtype));
}

void average_scale(Context context, Input x, OptionalInput sum, OptionalInput weight, float rate, bool is_test,
                   Output y, Output scale, Output weight_out, Output sum_out) {
  const View in = x.view();
  if (y) copy_or_cast(context, in, context.allocate(y, in.dtype));
  if (!is_test) update_average(context, in, sum, weight, rate, scale, weight_out, sum_out);
}

void straight_through_alone(Context context, Input dy, Output dx) {
  const View in = dy.view();
  copy_or_cast(context, in, context.allocate(dx, in.dtype));
}

// x * scale / max_range
void dequantize_by_largest(Context context, Input x, Input scale, float max_range, Output y) {
  const View in = x.view(), factor = scale.view();
  const View out = context.allocate(y, in.dtype);
  const View one = along(factor, -1, in.rank);
  context.map(uhal_map_multiply, {&in, &one}, {&out});
  context.map(uhal_map_scale, {&out}, {&out}, {1 / static_cast<double>(max_range), 0});
}

}  // namespace

KernelTable quantization_kernels() {
  constexpr uint64_t kFloat32Only = 1u << kFloat32;
  return {
      UNIHAL_KERNEL("fake_quantize_abs_max", kFloat32Only, by_largest<false>),
      UNIHAL_KERNEL("fake_quantize_dequantize_abs_max", kFloat32Only, by_largest<true>),
      UNIHAL_KERNEL("fake_quantize_dequantize_abs_max_grad", kFloat32Only, straight_through),
      UNIHAL_KERNEL("fake_channel_wise_quantize_abs_max", kFloat32Only, channel_wise_quantize),
      UNIHAL_KERNEL("fake_channel_wise_quantize_dequantize_abs_max", kFloat32Only, channel_wise_quantize_dequantize),
      UNIHAL_KERNEL("fake_channel_wise_quantize_dequantize_abs_max_grad", kFloat32Only, straight_through_channels),
      UNIHAL_KERNEL("fake_quantize_moving_average_abs_max", kFloat32Only, by_average<false>),
      UNIHAL_KERNEL("fake_quantize_dequantize_moving_average_abs_max", kFloat32Only, by_average<true>),
      UNIHAL_KERNEL("fake_quantize_dequantize_moving_average_abs_max_grad", kFloat32Only, straight_through_average),
      UNIHAL_KERNEL("moving_average_abs_max_scale", kFloat32Only, average_scale),
      UNIHAL_KERNEL("straight_through_estimator_grad", kFloat32Only, straight_through_alone),
      UNIHAL_KERNEL("fake_dequantize_max_abs", kFloat32Only, dequantize_by_largest),
  };
}

}  // namespace unihal::paddle
