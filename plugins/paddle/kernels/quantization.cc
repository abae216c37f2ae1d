// Fake quantization, as quantization-aware training uses it: Paddle's kernels by a scale that is the largest magnitude.
#include <cmath>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// The largest quantized number.
double bins(int bit_length) { return std::pow(2, bit_length - 1) - 1; }

// The largest magnitudes of x for each element of `scale`, whose rank is x's and whose other axes have length 1.
void largest_magnitudes(const Context& context, const View& x, const View& scale) {
  const Scratch least(context, scale.dtype, scale);
  const auto largest = reduce_attributes(UHAL_REDUCE_MAXIMUM), smallest = reduce_attributes(UHAL_REDUCE_MINIMUM);
  context.run(UHAL_OP_REDUCE, {&x}, {&least}, &smallest);
  context.run(UHAL_OP_REDUCE, {&x}, {&scale}, &largest);
  Chain program(2);
  program.step(uhal_map_absolute, {program.step(uhal_map_maximum, {0, program.step(uhal_map_negative, {1})})});
  context.run(UHAL_OP_MAP_CHAIN, {&scale, &least}, {&scale}, program.program());
}

// A view of channels seen as an axis of an image of `rank` axes.
View channels_along(const View& channels, int axis, int rank) {
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < rank; ++i) dims[i] = i == axis ? channels.elements() : 1;
  return channels.reshaped(dims, rank);
}

// y = x * scale / most
void dequantize(const Context& context, const View& x, const View& scale, double most, const View& y) {
  Chain program(2);
  program.step(uhal_map_scale, {program.step(uhal_map_multiply, {0, 1})}, {1 / most, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&x, &scale}, {&y}, program.program());
}

// y = x / scale * `most`, the largest quantized number, rounded and clipped. Paddle rounds half to even (type 0) and
// then clips, or clips to the scale and rounds half away from zero. The inverse of a scale of almost 0 is that of a
// scale of 1e-6 more. `dequantizes`: y = what the quantized number stands for.
void quantize_to(const Context& context, const View& x, const View& scale, double most, int round_type, const View& y,
                 bool dequantizes = false) {
  const Scratch factor(context, scale.dtype, scale);
  Chain inverse(1);
  const int limit = inverse.step(uhal_map_scale, {0}, {0, 1e-30});
  const int added = inverse.step(uhal_map_scale, {inverse.step(uhal_map_less_equal, {0, limit})}, {1e-6, 0});
  const int divisor = inverse.step(uhal_map_add, {added, 0});
  inverse.step(uhal_map_scale, {inverse.step(uhal_map_reciprocal, {divisor})}, {most, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&scale}, {&factor}, inverse.program());
  Chain program(3);
  int quantized;
  if (round_type == 0) {
    const int exact = program.step(uhal_map_multiply, {0, 1});
    quantized = program.step(uhal_map_clip, {program.step(uhal_map_round_half_to_even, {exact})}, {-most - 1, most});
  } else {
    const int below = program.step(uhal_map_minimum, {0, 2});
    const int within = program.step(uhal_map_maximum, {below, program.step(uhal_map_negative, {2})});
    quantized = program.step(uhal_map_round_half_away, {program.step(uhal_map_multiply, {within, 1})});
  }
  if (dequantizes) program.step(uhal_map_scale, {program.step(uhal_map_multiply, {quantized, 2})}, {1 / most, 0});
  context.run(UHAL_OP_MAP_CHAIN, {&x, &factor, &scale}, {&y}, program.program());
}

void quantize(const Context& context, const View& x, const View& scale, int bit_length, int round_type, const View& y,
              bool dequantizes = false) {
  quantize_to(context, x, scale, bins(bit_length), round_type, y, dequantizes);
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
  largest_magnitudes(context, in, channels_along(found, -1, in.rank));
  quantize(context, in, channels_along(found, -1, in.rank), bit_length, round_type, out, kDequantize);
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
  const View aligned = channels_along(found, axis, in.rank);
  largest_magnitudes(context, in, aligned);
  quantize(context, in, aligned, bit_length, round_type, out, kDequantize);
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
  largest_magnitudes(context, x, channels_along(largest, -1, x.rank));
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
  const View used = channels_along(is_test ? scale.view() : Tensor{scale_out.handle}.view(), -1, in.rank);
  quantize(context, in, used, bit_length, round_type, out, kDequantize);
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
  dequantize(context, in, channels_along(factor, -1, in.rank), static_cast<double>(max_range), out);
}

// By a range that grows with the largest magnitude of a step, and shrinks to that of the last `window` ones when the
// one that made it leaves them. They are kept, in turn, in an output that Paddle keeps.
void by_range(Context context, Input x, Input scale, OptionalInput steps, int window, int bit_length, bool is_test,
              int round_type, Output y, Output scale_out, Output kept_out) {
  const View in = x.view(), before = flat(scale.view());
  check_arguments(context, bit_length, round_type);
  const View out = context.allocate(y, in.dtype);
  if (is_test) return quantize(context, in, channels_along(before, -1, in.rank), bit_length, round_type, out);
  if (!steps || window < 1) invalid(context, "in training the number of the step and a window are needed");
  const auto step = static_cast<int64_t>(read_number(context, steps));
  if (step < 0) invalid(context, "the number of the step is " + std::to_string(step) + ", expected 0 or more");
  const bool is_new = !kept_out.is_allocated() || kept_out.elements() != window;
  const int64_t one[] = {1}, all[] = {window}, place = step % window, filled = step > window ? window : step;
  const Scratch current(context, in.dtype, one, 1), removed(context, in.dtype, one, 1),
      largest(context, in.dtype, one, 1), limit(context, in.dtype, one, 1);
  const Scratch left(context, UHAL_BOOL, one, 1), grows(context, UHAL_BOOL, one, 1);
  const View kept = context.allocate(kept_out, in.dtype, all, 1);
  if (is_new) fill_zero(context, kept);
  const View slot = kept.sliced(0, place, 1);
  largest_magnitudes(context, in, channels_along(current, -1, in.rank));
  copy_or_cast(context, slot, removed);
  copy_or_cast(context, current, slot);
  fill_zero(context, largest);
  if (filled > 0) largest_magnitudes(context, kept.sliced(0, 0, filled), largest);
  context.map(uhal_map_less, {&before, &current}, {&grows});
  context.map(uhal_map_subtract, {&removed, &before}, {&removed});
  context.map(uhal_map_absolute, {&removed}, {&removed});
  fill(context, limit, 1e-6, 0);
  context.map(uhal_map_less, {&removed, &limit}, {&left});
  context.map(uhal_map_select, {&left, &largest, &before}, {&largest});
  const View used = context.allocate(scale_out, in.dtype, one, 1);
  context.map(uhal_map_select, {&grows, &current, &largest}, {&used});
  quantize(context, in, channels_along(used, -1, in.rank), bit_length, round_type, out);
}

// x * scale / (2^(bits - 1) - 1) by channel; a second scale is one number.
void dequantize_channels(Context context, Input x, InputList scales, Span<int> bits, int axis, int column_axes,
                         Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  if (scales.size() < 1 || scales.size() > 2 || static_cast<size_t>(bits.size()) < scales.size()) {
    invalid(context, "one scale or two are needed, and as many bit lengths");
  }
  const int channels = scales.size() == 1 ? axis : column_axes > 1 ? column_axes : 1;
  const View factors = scales[0].view();
  if (channels < 0 || channels >= in.rank || factors.elements() != in.shape[channels]) {
    invalid(context, "there are " + std::to_string(factors.elements()) + " scales, not one for each channel");
  }
  if (out.elements() == 0) return;
  const View aligned = channels_along(factors, channels, in.rank);
  if (scales.size() == 1) return dequantize(context, in, aligned, bins(bits[0]), out);
  const View second = channels_along(scales[1].view(), -1, in.rank);
  Chain program(3);
  const int product = program.step(uhal_map_multiply, {program.step(uhal_map_multiply, {0, 1}), 2});
  program.step(uhal_map_scale, {product}, {1 / (bins(bits[0]) * bins(bits[1])), 0});
  context.run(UHAL_OP_MAP_CHAIN, {&in, &aligned, &second}, {&out}, program.program());
}

// -- quantized models; zero points are not looked at, as on Paddle's CPU

// The scale of each channel, or of all, seen as an axis of x.
View scale_along(const Context& context, const View& scale, int axis, const View& x) {
  if (axis >= x.rank || scale.elements() != (axis < 0 ? 1 : x.shape[axis])) {
    invalid(context, "scale has " + std::to_string(scale.elements()) + " elements, not one for each channel");
  }
  return channels_along(scale, axis < 0 ? -1 : axis, x.rank);
}

void quantize_by(const Context& context, const View& x, const View& scale, int axis, int most, int round_type,
                 bool only_observer, const View& y) {
  if (y.elements() == 0) return;
  if (only_observer) return copy_or_cast(context, x, y);
  quantize_to(context, x, scale_along(context, scale, axis, x), most, round_type, y);
}

// In training the scale is a moving average, or each channel's largest magnitude.
void quantize_training(const Context& context, Input x, OptionalInput sum, OptionalInput weight, int axis, int most,
                       int round_type, bool only_observer, Output y, Output weight_out, Output sum_out,
                       Output scale_out) {
  constexpr float kRate = 0.9F;
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  if (axis < 0) {
    update_average(context, in, sum, weight, kRate, scale_out, weight_out, sum_out);
  } else {
    if (axis >= in.rank) invalid(context, "quant_axis is " + std::to_string(axis) + ", not an axis of x");
    const int64_t channels[] = {in.shape[axis]};
    largest_magnitudes(context, in, channels_along(context.allocate(scale_out, in.dtype, channels, 1), axis, in.rank));
  }
  quantize_by(context, in, Tensor{scale_out.handle}.view(), axis, most, round_type, only_observer, out);
}

void quantize_linear(Context context, Input x, OptionalInput scale, Input, OptionalInput sum, OptionalInput weight,
                     int axis, int, int, int most, int round_type, bool is_test, bool only_observer, Output y,
                     Output weight_out, Output sum_out, Output scale_out) {
  if (!is_test) {
    return quantize_training(context, x, sum, weight, axis, most, round_type, only_observer, y, weight_out, sum_out,
                             scale_out);
  }
  if (!scale) invalid(context, "scale is needed");
  const View in = x.view();
  quantize_by(context, in, scale.view(), axis, most, round_type, only_observer, context.allocate(y, in.dtype));
}
void quantize_linear_train(Context context, Input x, Input, Input, OptionalInput sum, OptionalInput weight, int axis,
                           int, int, int most, int round_type, bool only_observer, Output y, Output weight_out,
                           Output sum_out, Output scale_out) {
  quantize_training(context, x, sum, weight, axis, most, round_type, only_observer, y, weight_out, sum_out, scale_out);
}
void quantize_linear_infer(Context context, Input x, Input scale, Input, int axis, int, int, int most, int round_type,
                           bool only_observer, Output y) {
  const View in = x.view();
  quantize_by(context, in, scale.view(), axis, most, round_type, only_observer, context.allocate(y, in.dtype));
}

// x scale / most, in the scale's dtype
void dequantize_linear(Context context, Input x, Input scale, Input, int axis, int, int, int most, int,
                       bool only_observer, Output y) {
  const View in = x.view(), factors = scale.view(), out = context.allocate(y, factors.dtype);
  if (out.elements() == 0) return;
  if (only_observer) return copy_or_cast(context, in, out);
  const View aligned = scale_along(context, factors, axis, in);
  dequantize(context, in, aligned, static_cast<double>(most), out);
}
void dequantize_linear_any(Context context, Input x, OptionalInput scale, Input zero, OptionalInput, OptionalInput,
                           int axis, int bit_length, int least, int most, int round_type, bool, bool only_observer,
                           Output y, Output, Output, Output) {
  if (!scale) invalid(context, "scale is needed");
  dequantize_linear(context, x, {{scale.handle}}, zero, axis, bit_length, least, most, round_type, only_observer, y);
}

// -- embeddings that are kept as integers

void dequantize_abs_max(Context context, Input x, Input scale, float range, Output y) {
  const View in = x.view(), factor = flat(scale.view()), out = context.allocate(y, UHAL_FLOAT32);
  if (factor.elements() != 1) invalid(context, "scale is not one number");
  if (out.elements() == 0) return;
  dequantize(context, in, factor.reshaped(nullptr, 0), static_cast<double>(range), out);
}

// A place in a dictionary; below 0 minus what is 128 places further.
void dequantize_log(Context context, Input x, Input dictionary, Output y) {
  constexpr double kPlaces = 128;
  const View in = x.view(), values = flat(dictionary.view()), out = context.allocate(y, UHAL_FLOAT32);
  if (out.elements() == 0) return;
  const Scratch places(context, UHAL_INT32, in), moved(context, UHAL_INT32, in), zero(context, UHAL_INT32, nullptr, 0),
      negated(context, UHAL_FLOAT32, in);
  const Scratch is_negative(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  copy_or_cast(context, in, places);
  context.map(uhal_map_less, {&places, &zero}, {&is_negative});
  context.map(uhal_map_scale, {&places}, {&moved}, {1, kPlaces});
  context.map(uhal_map_select, {&is_negative, &moved, &places}, {&places});
  const auto attributes = index_attributes(0);
  context.run(UHAL_OP_GATHER, {&values, &places}, {&out}, &attributes);
  context.map(uhal_map_negative, {&out}, {&negated});
  context.map(uhal_map_select, {&is_negative, &negated, &out}, {&out});
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
      UNIHAL_KERNEL("fake_quantize_range_abs_max", kFloat32Only, by_range),
      UNIHAL_KERNEL("fake_channel_wise_dequantize_max_abs", kWideFloats, dequantize_channels),
      UNIHAL_KERNEL("quantize_linear", kFloat32Only, quantize_linear),
      UNIHAL_KERNEL("quantize_linear_deprecated_train", kFloat32Only, quantize_linear_train),
      UNIHAL_KERNEL("quantize_linear_deprecated_infer", kFloat32Only, quantize_linear_infer),
      UNIHAL_KERNEL("dequantize_linear", kWideFloats | 1u << kInt8, dequantize_linear_any),
      UNIHAL_KERNEL("dequantize_linear_deprecated", kWideFloats | 1u << kInt8, dequantize_linear),
      UNIHAL_KERNEL("dequantize_abs_max", 1u << kInt8 | 1u << kInt16, dequantize_abs_max),
      UNIHAL_KERNEL("dequantize_log", 1u << kInt8, dequantize_log),
  };
}

}  // namespace unihal::paddle
