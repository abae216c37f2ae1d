// Fake quantization by a range, with gradients.
#include <cmath>

#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

struct Numbers {
  double least = 0;
  double largest = 255;
};

// The attributes num_bits and narrow_range.
Numbers numbers_of(Construction& construction) {
  const int64_t bits = construction.integer("num_bits");
  if (bits < 2 || bits > 16) {
    construction.fail(TF_INVALID_ARGUMENT,
                      "num_bits must be between 2 and 16, inclusive, got: " + std::to_string(bits));
    return {};
  }
  return {construction.boolean("narrow_range") ? 1.0 : 0.0, static_cast<double>((int64_t{1} << bits) - 1)};
}

bool launch_map(Context& context, uhal_map_function function, Operands inputs, Operands outputs,
                const Numbers& numbers) {
  const uhal_map_attributes attributes = map_attributes(function, {numbers.least, numbers.largest});
  return context.launch(UHAL_OP_MAP, inputs, outputs, &attributes);
}

// (inputs) -> outputs, or (gradients, inputs) -> gradients; the range is two attributes.
template <bool kGradient>
class FakeQuantArgs : public Kernel {
 public:
  explicit FakeQuantArgs(Construction& construction)
      : Kernel(construction),
        numbers_(numbers_of(construction)),
        low_(construction.real("min")),
        high_(construction.real("max")) {
    if (low_ >= high_) {
      construction.fail(TF_INVALID_ARGUMENT, "min has to be smaller than max, was: " + std::to_string(low_) +
                                                 " >= " + std::to_string(high_));
    }
  }

  void compute(Context& context) const override {
    const View gradients = kGradient ? context.input(0) : View();
    const View x = context.input(kGradient ? 1 : 0);
    if (!context.ok()) return;
    if (kGradient && shape_of(gradients) != shape_of(x)) {
      return context.fail_invalid("gradient and input must be the same size");
    }
    const View output = context.output_like(0, x);
    const View low = context.temporary(UHAL_FLOAT32, nullptr, 0), high = context.temporary(UHAL_FLOAT32, nullptr, 0);
    if (!context.ok() || x.elements() == 0) return;
    if (!context.fill(low, low_, 0) || !context.fill(high, high_, 0)) return;
    if (!kGradient) {
      launch_map(context, uhal_map_fake_quantize_range, {&x, &low, &high}, {&output}, numbers_);
      return;
    }
    const View below = context.temporary_like(x), above = context.temporary_like(x);
    if (!context.ok()) return;
    launch_map(context, uhal_map_fake_quantize_range_backward, {&x, &low, &high, &gradients}, {&output, &below, &above},
               numbers_);
  }

 private:
  Numbers numbers_;
  double low_;
  double high_;
};

// Checks min and max: scalars, or a number for each channel of the last axis.
bool check_range(Context& context, bool per_channel, const View& x, const View& low, const View& high) {
  const int rank = per_channel ? 1 : 0;
  if (per_channel && x.rank < 1) {
    context.fail_invalid("`inputs` must be at least of rank 1, got " + to_text(x));
    return false;
  }
  for (const View* limit : {&low, &high}) {
    if (limit->rank != rank) {
      context.fail_invalid(std::string(limit == &low ? "`min`" : "`max`") + " must be rank " + std::to_string(rank) +
                           " but is rank " + std::to_string(limit->rank));
      return false;
    }
    if (per_channel && limit->shape[0] != x.shape[x.rank - 1]) {
      context.fail_invalid(std::string(limit == &low ? "min" : "max") + " has incorrect size, expected " +
                           std::to_string(x.shape[x.rank - 1]) + " was " + std::to_string(limit->shape[0]));
      return false;
    }
  }
  return true;
}

// (inputs, min, max) -> outputs
template <bool kPerChannel>
class FakeQuantVars : public Kernel {
 public:
  explicit FakeQuantVars(Construction& construction) : Kernel(construction), numbers_(numbers_of(construction)) {}

  void compute(Context& context) const override {
    const View x = context.input(0), low = context.input(1), high = context.input(2);
    if (!context.ok() || !check_range(context, kPerChannel, x, low, high)) return;
    const View output = context.output_like(0, x);
    if (!context.ok() || x.elements() == 0) return;
    launch_map(context, uhal_map_fake_quantize_range, {&x, &low, &high}, {&output}, numbers_);
  }

 private:
  Numbers numbers_;
};

// (gradients, inputs, min, max) -> (of inputs, of min, of max)
template <bool kPerChannel>
class FakeQuantVarsGradient : public Kernel {
 public:
  explicit FakeQuantVarsGradient(Construction& construction)
      : Kernel(construction), numbers_(numbers_of(construction)) {}

  void compute(Context& context) const override {
    const View gradients = context.input(0), x = context.input(1), low = context.input(2), high = context.input(3);
    if (!context.ok()) return;
    if (shape_of(gradients) != shape_of(x)) return context.fail_invalid("gradient and input must be the same size");
    if (!check_range(context, kPerChannel, x, low, high)) return;
    const View output = context.output_like(0, x);
    const View of_low = context.output_like(1, low), of_high = context.output_like(2, high);
    const View below = context.temporary_like(x), above = context.temporary_like(x);
    if (!context.ok()) return;
    if (!launch_map(context, uhal_map_fake_quantize_range_backward, {&x, &low, &high, &gradients},
                    {&output, &below, &above}, numbers_)) {
      return;
    }
    sum(context, below, of_low);
    sum(context, above, of_high);
  }

 private:
  static void sum(Context& context, const View& x, const View& y) {
    int64_t dims[UHAL_MAX_RANK];
    for (int i = 0; i < x.rank; ++i) dims[i] = kPerChannel && i == x.rank - 1 ? x.shape[i] : 1;
    const View aligned = y.reshaped(dims, x.rank);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_REDUCE, {&x}, {&aligned}, &attributes);
  }

  Numbers numbers_;
};

// -- QuantizeAndDequantize: a range of which one side is moved so that 0 is a quantized number, given or the values'
// own

// x (..., channels, ...) as (before, channels, behind), so that a range (channels) is a column; (1, 1, n) without an
// axis.
View by_channel(const View& x, int64_t axis) {
  int64_t before = 1, behind = 1;
  for (int i = 0; i < x.rank; ++i) (i < axis ? before : behind) *= i == axis ? 1 : x.shape[i];
  return axis < 0 ? x.reshaped({1, 1, x.elements()}) : x.reshaped({before, x.shape[axis], behind});
}

// Fails the context for an axis that x has not.
bool check_axis(Context& context, int64_t axis, const View& x) {
  if (axis >= -1 && axis < x.rank) return true;
  context.fail_invalid(axis < -1 ? "Axis must be at least -1. Found " + std::to_string(axis)
                                 : "Shape must be at least rank " + std::to_string(axis + 1) + " but is rank " +
                                       std::to_string(x.rank));
  return false;
}

// Fails the context for ranges that are not one number, or with an axis one for each channel.
bool check_range(Context& context, int64_t axis, const View& x, const View& low, const View& high, int most_axes) {
  for (const View* limit : {&low, &high}) {
    const bool fits = axis < 0 ? limit->rank <= most_axes && limit->elements() == 1
                               : limit->rank == 1 && limit->shape[0] == x.shape[axis];
    if (fits) continue;
    context.fail_invalid(std::string(limit == &low ? "input_min" : "input_max") + " must be a scalar" +
                         (axis < 0 ? ""
                                   : " without an axis, and with one have " + std::to_string(x.shape[axis]) +
                                         " numbers, one for each channel") +
                         ", got shape " + to_text(*limit));
    return false;
  }
  return true;
}

// How a version says what it does: the range is two attributes (V1) or two inputs, the bits an attribute or an input
// (V3).
enum Version { kFirst, kSecond, kThird };

// V4 is V2 with another gradient.
template <Version kVersion>
class QuantizeAndDequantize : public Kernel {
 public:
  explicit QuantizeAndDequantize(Construction& construction)
      : Kernel(construction),
        is_signed_(construction.boolean("signed_input")),
        range_given_(construction.boolean("range_given")) {
    if (kVersion != kThird) bits_ = construction.integer("num_bits");
    if (kVersion != kThird && !bits_fit(bits_)) {
      construction.fail(TF_INVALID_ARGUMENT, "num_bits is out of range: " + std::to_string(bits_) +
                                                 " with signed_input_ " + std::to_string(is_signed_));
    }
    if (kVersion == kFirst) {
      low_ = construction.real("input_min");
      high_ = construction.real("input_max");
      if (range_given_ && low_ > high_) {
        construction.fail(TF_INVALID_ARGUMENT, invalid_range(low_, high_));
      }
      return;
    }
    narrow_ = construction.boolean("narrow_range");
    axis_ = construction.integer("axis");
    if (kVersion == kThird) return;
    const std::string mode = construction.text("round_mode");
    halves_up_ = mode == "HALF_UP";
    if (!halves_up_ && mode != "HALF_TO_EVEN") {
      construction.fail(TF_INVALID_ARGUMENT,
                        "Round mode string must be 'HALF_UP' or 'HALF_TO_EVEN', is '" + mode + "'");
    }
  }

  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!context.ok()) return;
    View low, high;
    int64_t bits = bits_;
    if (kVersion != kFirst) {
      low = context.input(1);
      high = context.input(2);
      if (kVersion == kThird) bits = context.host_scalar(3);
      if (!context.ok()) return;
      if (!bits_fit(bits)) return context.fail_invalid("num_bits is out of range: " + std::to_string(bits));
      if (kVersion == kThird && x.rank == 0) {
        return context.fail_invalid("Axis requested is larger than input dimensions, of which a scalar has none");
      }
      if (!check_axis(context, axis_, x)) return;
      // V2 wants a scalar whatever the axis, and with an axis none.
      if (range_given_ && kVersion == kSecond && (axis_ >= 0 || low.rank != 0 || high.rank != 0)) {
        return context.fail_invalid(std::string(op()) + ": input_min and input_max must be scalars, without an axis");
      }
      if (range_given_ && !check_range(context, axis_, x, low, high, 1)) return;
      const std::vector<double> ends = range_given_ ? read_reals(context, {low, high}) : std::vector<double>();
      if (!context.ok()) return;
      for (size_t i = 0, channels = ends.size() / 2; i < channels; ++i) {
        if (ends[i] > ends[channels + i]) return context.fail_invalid(invalid_range(ends[i], ends[channels + i]));
      }
    }
    const View output = context.output_like(0, x);
    if (!context.ok() || x.elements() == 0) return;
    const View values = by_channel(x, axis_), result = by_channel(output, axis_);
    View least, most;
    if (range_given_ && kVersion != kFirst) {
      least = low.reshaped({1, values.shape[1], 1});
      most = high.reshaped({1, values.shape[1], 1});
    } else {
      least = context.temporary(x.dtype, {1, values.shape[1], 1});
      most = context.temporary_like(least);
    }
    if (!context.ok()) return;
    if (!range_given_) {
      const auto minimum = reduce_attributes(UHAL_REDUCE_MINIMUM), maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM);
      context.launch(UHAL_OP_REDUCE, {&values}, {&least}, &minimum);
      context.launch(UHAL_OP_REDUCE, {&values}, {&most}, &maximum);
    } else if (kVersion == kFirst) {
      context.fill(least, low_, 0);
      context.fill(most, high_, 0);
    }
    const double half = std::ldexp(1.0, static_cast<int>(bits) - 1);
    const double from = !is_signed_ ? 0 : narrow_ ? 1 - half : -half, to = is_signed_ ? half - 1 : 2 * half - 1;
    context.map(uhal_map_quantize_dequantize_range, {&values, &least, &most}, {&result},
                {from, to, range_given_ ? 1.0 : 0.0, halves_up_ ? 1.0 : 0.0});
  }

 private:
  bool bits_fit(int64_t bits) const { return bits > 0 && bits < (is_signed_ ? 62 : 63); }
  static std::string invalid_range(double low, double high) {
    return "Invalid range: input_min " + std::to_string(low) + " > input_max " + std::to_string(high);
  }

  bool is_signed_;
  bool range_given_;
  bool narrow_ = false;
  bool halves_up_ = false;
  int64_t bits_ = 0;
  int64_t axis_ = -1;
  double low_ = 0;
  double high_ = 0;
};

// (gradients, input, input_min, input_max) -> (of input, of the range): what lies in the range lets gradients through.
class QuantizeAndDequantizeGrad : public Kernel {
 public:
  explicit QuantizeAndDequantizeGrad(Construction& construction)
      : Kernel(construction), axis_(construction.integer("axis")) {}
  void compute(Context& context) const override {
    const View gradients = context.input(0), x = context.input(1), low = context.input(2), high = context.input(3);
    if (!context.ok()) return;
    if (shape_of(gradients) != shape_of(x)) return context.fail_invalid("gradient and input must be the same size");
    if (!check_axis(context, axis_, x) || !check_range(context, axis_, x, low, high, 0)) return;
    const View output = context.output_like(0, x);
    const View of_low = context.output_like(1, low), of_high = context.output_like(2, high);
    const View above = context.temporary(UHAL_BOOL, x.shape, x.rank), below = context.temporary_like(above);
    if (!context.ok()) return;
    context.zero(of_low);
    context.zero(of_high);
    if (x.elements() == 0) return;
    const View values = by_channel(x, axis_), result = by_channel(output, axis_), dy = by_channel(gradients, axis_);
    const View from = low.reshaped({1, values.shape[1], 1}), to = high.reshaped({1, values.shape[1], 1});
    const View inside = by_channel(above, axis_), inside_too = by_channel(below, axis_);
    context.map(uhal_map_greater_equal, {&values, &from}, {&inside});
    context.map(uhal_map_less_equal, {&values, &to}, {&inside_too});
    context.map(uhal_map_logical_and, {&inside, &inside_too}, {&inside});
    context.map(uhal_map_multiply, {&inside, &dy}, {&result});
  }

 private:
  int64_t axis_;
};

}  // namespace

void register_quantization(Registrar& registrar) {
  registrar.add<FakeQuantArgs<false>>("FakeQuantWithMinMaxArgs", {});
  registrar.add<FakeQuantArgs<true>>("FakeQuantWithMinMaxArgsGradient", {});
  registrar.add<FakeQuantVars<false>>("FakeQuantWithMinMaxVars", {});
  registrar.add<FakeQuantVarsGradient<false>>("FakeQuantWithMinMaxVarsGradient", {});
  registrar.add<FakeQuantVars<true>>("FakeQuantWithMinMaxVarsPerChannel", {});
  registrar.add<FakeQuantVarsGradient<true>>("FakeQuantWithMinMaxVarsPerChannelGradient", {});
  const std::initializer_list<TypeConstraint> wide = {{"T", only(UHAL_FLOAT32) | only(UHAL_FLOAT64)}};
  registrar.add<QuantizeAndDequantize<kFirst>>("QuantizeAndDequantize", wide);
  registrar.add<QuantizeAndDequantize<kSecond>>("QuantizeAndDequantizeV2", wide);
  registrar.add<QuantizeAndDequantize<kThird>>("QuantizeAndDequantizeV3", wide, {"num_bits"});
  registrar.add<QuantizeAndDequantize<kSecond>>("QuantizeAndDequantizeV4", wide);
  registrar.add<QuantizeAndDequantizeGrad>("QuantizeAndDequantizeV4Grad", wide);
}

}  // namespace unihal::tensorflow
