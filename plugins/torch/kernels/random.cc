// Random numbers: parts of a generator's Philox sequence.
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TensorFactories.h>

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

// What PyTorch's templates check is checked, and nothing drawn.
template <class Generator>
struct Nothing {
  void operator()(const at::TensorIteratorBase&, double, double, const std::optional<at::Generator>&) const {}
};

// (self, from, to, *, generator)
void uniform(Call& call) {
  at::Tensor self = call.tensor(0);
  const double low = call.real(1), high = call.real(2);
  at::native::templates::uniform_impl_<Nothing, void>(self, low, high, std::nullopt);
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
  const at::Tensor numbers = call.scratch(self.sizes(), p.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
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
  // -log(1 - u) / rate; where u is 0 it is what PyTorch has there, since none of its numbers is 0.
  const double least = (u.dtype == UHAL_FLOAT64 ? std::numeric_limits<double>::epsilon()
                                                : double{std::numeric_limits<float>::epsilon()}) /
                       2;
  Chain chain(1);
  const int logarithm = chain.step(uhal_map_log1p, {chain.step(uhal_map_negative, {0})});
  const int time = chain.step(uhal_map_clip, {chain.step(uhal_map_negative, {logarithm})}, {least, kInfinity});
  chain.step(uhal_map_scale, {time}, {1 / rate, 0});
  call.launch(UHAL_OP_MAP_CHAIN, {&u}, {&y}, chain.program());
}

// 64-bit words as they come.
View words_of(View numbers) {
  numbers.dtype = UHAL_UINT64;
  return numbers;
}

// Whole numbers from `low` on, `count` many of them (0: 2^64), in any dtype. The op's limits are doubles: what they do
// not hold, a function takes of 64 bits.
void whole_numbers(Call& call, int64_t low, uint64_t count, int generator) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const View y = view_of(self);
  const at::Tensor numbers = self.scalar_type() == at::kLong ? self : call.scratch(self.sizes(), at::kLong);
  const View n = view_of(numbers);
  if (-kExact <= low && low <= kExact && count != 0 && count <= static_cast<uint64_t>(kExact - low)) {
    launch_random(call, n, UHAL_RANDOM_UNIFORM, static_cast<double>(low),
                  static_cast<double>(low + static_cast<int64_t>(count)), call.generator(generator));
  } else {
    const View words = words_of(n);
    launch_random(call, n, UHAL_RANDOM_BITS, 0, 1, call.generator(generator));
    if (count != 0) {
      const View limit = words_of(call.constant(static_cast<int64_t>(count), at::kLong));
      call.map(uhal_map_floor_mod, {&words, &limit}, {&words});
      const View first = words_of(call.constant(low, at::kLong));
      if (low != 0) call.map(uhal_map_add, {&words, &first}, {&words});
    }
  }
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
    case at::kDouble:
      return int64_t{1} << 53;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

// The bounds of [from, to) are moved to numbers of a floating dtype that a cast leaves in there, as PyTorch does it.
void move_into(at::ScalarType dtype, int64_t* from, int64_t* to) {
  if (!c10::isFloatingType(dtype)) return;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "random_update_from_to", [&] {
    *from = at::native::templates::update_from<scalar_t>(*from);
    if (to != nullptr) *to = at::native::templates::update_to<scalar_t>(*to);
  });
}

void numbers_between(Call& call, int64_t from, int64_t to, int generator) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  move_into(self.scalar_type(), &from, &to);
  TORCH_CHECK(from < to,
              "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=", from,
              " >= to=", to);
  at::native::templates::check_from_to_in_range(from, to - 1, self.dtype());
  whole_numbers(call, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), generator);
}

void random_any(Call& call) {
  whole_numbers(call, 0, static_cast<uint64_t>(largest_of(call.tensor(0).scalar_type())) + 1, 1);
}
void random_below(Call& call) { numbers_between(call, 0, call.integer(1), 2); }
void random_between(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::ScalarType dtype = self.scalar_type();
  int64_t from = call.integer(1);
  if (!call.is_none(2)) return numbers_between(call, from, call.integer(2), 3);
  if (from == std::numeric_limits<int64_t>::lowest()) {  // all 64 bits
    TORCH_CHECK(dtype == at::kLong || dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16,
                "random_ of the full 64 bits range handles only int64, double, float and bfloat16");
    return whole_numbers(call, from, 0, 3);
  }
  const int64_t last = largest_of(dtype);
  move_into(dtype, &from, nullptr);
  at::native::templates::check_from_to_in_range(from, last, self.dtype());
  TORCH_CHECK(from <= last, "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to ",
              "dtype, but got from=", from, " > to_inc=", last);
  whole_numbers(call, from, static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1, 3);
}

// (n, *, generator, out): the order of random numbers
void permutation(Call& call) {
  const int64_t n = call.integer(0);
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::Tensor result = call.tensor(2);
  at::native::check_supported_max_int_with_precision(n, result);
  if (n > 0 && result.itemsize() < 4 && !result.is_floating_point()) at::scalar_tensor(n - 1, result.scalar_type());
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
