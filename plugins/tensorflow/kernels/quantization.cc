// Fake quantization by a range, with gradients.
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

}  // namespace

void register_quantization(Registrar& registrar) {
  registrar.add<FakeQuantArgs<false>>("FakeQuantWithMinMaxArgs", {});
  registrar.add<FakeQuantArgs<true>>("FakeQuantWithMinMaxArgsGradient", {});
  registrar.add<FakeQuantVars<false>>("FakeQuantWithMinMaxVars", {});
  registrar.add<FakeQuantVarsGradient<false>>("FakeQuantWithMinMaxVarsGradient", {});
  registrar.add<FakeQuantVars<true>>("FakeQuantWithMinMaxVarsPerChannel", {});
  registrar.add<FakeQuantVarsGradient<true>>("FakeQuantWithMinMaxVarsPerChannelGradient", {});
}

}  // namespace unihal::tensorflow
