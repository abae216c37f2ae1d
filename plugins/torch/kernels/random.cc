// Random numbers: parts of a generator's Philox sequence.
#include <cmath>

#include "plugins/torch/generator.h"
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

void launch_random(Call& call, const View& y, uhal_distribution distribution, double a, double b,
                   const std::optional<at::Generator>& generator) {
  if (y.elements() == 0) return;
  const RandomPart part = take_random(generator, call.device(), y.elements(), uhal_dtype_size(y.dtype));
  const uhal_random_attributes attributes = random_attributes(distribution, a, b, part.key, part.counter);
  call.launch(UHAL_OP_RANDOM, {}, {&y}, &attributes);
}

// (self, from, to, *, generator)
void uniform(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const double low = call.real(1), high = call.real(2);
  TORCH_CHECK(low <= high, "uniform_ expects to return a [from, to) range, but found from=", low, " > to=", high);
  if (self.is_complex()) {
    at::view_as_real(self).uniform_(low, high, call.generator(3));
    return;
  }
  launch_random(call, view_of(self), UHAL_RANDOM_UNIFORM, low, high, call.generator(3));
}

// (self, mean, std, *, generator)
void normal(Call& call) {
  const double deviation = call.real(2);
  TORCH_CHECK(deviation >= 0, "normal expects std >= 0.0, but found std ", deviation);
  if (call.tensor(0).is_complex()) {
    // Both parts have half of the variance.
    at::view_as_real(call.tensor(0))
        .normal_(0, deviation * M_SQRT1_2, call.generator(3))
        .select(-1, 0)
        .add_(call.real(1));
    return;
  }
  launch_random(call, view_of(call.tensor(0)), UHAL_RANDOM_NORMAL, call.real(1), deviation, call.generator(3));
}

// (self, p, *, generator)
void bernoulli_by_number(Call& call) {
  const double p = call.real(1);
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  launch_random(call, view_of(call.tensor(0)), UHAL_RANDOM_BERNOULLI, p, 1, call.generator(2));
}

void bernoulli_by_tensor(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  refuse_unless(call.tensor(1).eq(call.tensor(1).clamp(0, 1)),
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  const at::Tensor p = call.keep(call.tensor(1).expand(self.sizes()));
  const at::Tensor numbers = call.scratch(self.sizes(), at::kFloat);
  const View u = view_of(numbers), limit = view_of(p), y = view_of(self);
  launch_random(call, u, UHAL_RANDOM_UNIFORM, 0, 1, call.generator(2));
  call.map(uhal_map_less, {&u, &limit}, {&y});
}

// (self, lambd, *, generator)
void exponential(Call& call) {
  const double rate = call.real(1);
  TORCH_CHECK(rate > 0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const View y = view_of(self);
  const at::Tensor numbers = call.scratch(self.sizes(), self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const View u = view_of(numbers);
  launch_random(call, u, UHAL_RANDOM_UNIFORM, 0, 1, call.generator(2));
  Chain chain(1);  // -log(1 - u) / rate
  const int logarithm = chain.step(uhal_map_log1p, {chain.step(uhal_map_negative, {0})});
  chain.step(uhal_map_scale, {logarithm}, {-1 / rate, 0});
  call.launch(UHAL_OP_MAP_CHAIN, {&u}, {&y}, chain.program());
}

// Whole numbers of [low, high), in any dtype.
void whole_numbers(Call& call, int64_t low, int64_t high, int generator) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(low < high, "random_ expects 'from' to be less than 'to', but got from=", low, " >= to=", high);
  if (self.numel() == 0) return;
  const View y = view_of(self);
  const at::Tensor numbers = self.scalar_type() == at::kLong ? self : call.scratch(self.sizes(), at::kLong);
  const View n = view_of(numbers);
  launch_random(call, n, UHAL_RANDOM_UNIFORM, static_cast<double>(low), static_cast<double>(high),
                call.generator(generator));
  if (!numbers.is_same(self)) call.cast(n, y);
}

// The largest number that random_() gives in a dtype.
int64_t largest_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return 1;
    case at::kByte:
      return 255;
    case at::kChar:
      return 127;
    case at::kShort:
      return 32767;
    case at::kInt:
      return 2147483647;
    case at::kHalf:
      return 1 << 11;
    case at::kBFloat16:
      return 1 << 8;
    case at::kFloat:
      return 1 << 24;
    default:
      return int64_t{1} << 53;  // what a double counts exactly
  }
}

void random_any(Call& call) { whole_numbers(call, 0, largest_of(call.tensor(0).scalar_type()) + 1, 1); }
void random_below(Call& call) { whole_numbers(call, 0, call.integer(1), 2); }
void random_between(Call& call) {
  const int64_t low = call.integer(1);
  whole_numbers(call, low, call.integer_or(2, largest_of(call.tensor(0).scalar_type())), 3);
}

// (n, *, generator, out): the order of random numbers
void permutation(Call& call) {
  const int64_t n = call.integer(0);
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::Tensor result = call.tensor(2);
  result.resize_({n});
  if (n > 0) {
    const at::Tensor keys = call.scratch({n}, at::kLong), sorted = call.scratch({n}, at::kLong);
    const at::Tensor order = result.scalar_type() == at::kLong ? result : call.scratch({n}, at::kLong);
    const View k = view_of(keys), s = view_of(sorted), o = view_of(order);
    launch_random(call, k, UHAL_RANDOM_BITS, 0, 1, call.generator(1));
    const uhal_axis_attributes attributes = axis_attributes(0, false);
    call.launch(UHAL_OP_SORT, {&k}, {&s, &o}, &attributes);
    if (!order.is_same(result)) call.cast(o, view_of(result));
  }
  call.set_result(0, result);
}

// (input, p, train)
void dropout(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const double rate = call.real(1);
  const bool training = call.is_none(2) || call.boolean(2);
  const at::Tensor& result = call.make_result_like(input);
  const at::Tensor& mask = call.make_result(1, input.sizes(), at::kBool);
  if (input.numel() == 0) return;
  const View x = view_of(input), y = view_of(result), m = view_of(mask);
  if (!training || rate == 0) {
    call.copy(x, y);
    return call.fill(m, true);
  }
  if (rate == 1) {
    call.fill(y, 0);
    return call.fill(m, false);
  }
  const RandomPart part = take_random(std::nullopt, call.device(), input.numel(), input.itemsize());
  const uhal_random_attributes attributes = random_attributes(UHAL_RANDOM_UNIFORM, rate, 1, part.key, part.counter);
  call.launch(UHAL_OP_DROPOUT, {&x}, {&y, &m}, &attributes);
}

// (grad_output, mask, scale)
void dropout_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& result = call.make_result_like(gradient);
  if (gradient.numel() == 0) return;
  const View dy = view_of(gradient), mask = view_of(call.tensor(1)), dx = view_of(result);
  Chain chain(2);
  chain.step(uhal_map_multiply, {chain.step(uhal_map_scale, {0}, {call.real(2), 0}), 1});
  call.launch(UHAL_OP_MAP_CHAIN, {&dy, &mask}, {&dx}, chain.program());
}

constexpr Kernel kRandomKernels[] = {
    {"uniform_", kFloats | kComplex, uniform},
    {"normal_", kFloats | kComplex, normal},
    {"bernoulli_.float", kReal, bernoulli_by_number},
    {"bernoulli_.Tensor", kReal, bernoulli_by_tensor},
    {"exponential_", kFloats, exponential},
    {"random_", kReal, random_any},
    {"random_.to", kReal, random_below},
    {"random_.from", kReal, random_between},
    {"randperm.generator_out", kNumbers, permutation},
    {"native_dropout", kFloats, dropout},
    {"native_dropout_backward", kFloats, dropout_backward},
};

// torch.dropout in one launch, with a gradient, where PyTorch would compose it of three ops.
at::Tensor fused_dropout(const at::Tensor& input, double rate, bool training) {
  TORCH_CHECK(rate >= 0 && rate <= 1, "dropout probability has to be between 0 and 1, but got ", rate);
  if (!training || rate == 0 || input.sym_numel() == 0) return input;  // sizes may be symbols of a graph
  if (!input.is_floating_point()) return input.mul(at::bernoulli(at::ones_like(input), 1 - rate)).div(1 - rate);
  return std::get<0>(at::native_dropout(input, rate, true));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("dropout", fused_dropout); }

}  // namespace

void register_random() { register_kernels(kRandomKernels); }

}  // namespace unihal::pytorch
