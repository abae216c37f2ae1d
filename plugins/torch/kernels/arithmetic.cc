// add, sub, mul with their alpha, powers, fills, where, clamp: what is elementwise but more than a row.
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/sub_meta.h>
#include <torch/csrc/api/include/torch/version.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {

void refuse_unless(const at::Tensor& holds, const char* message) {
  if (holds.numel() != 0) TORCH_CHECK(at::all(holds).item().toBool(), message);
}

void set_cast_result(Call& call, const at::Tensor& tensor) {
  if (call.result().defined()) {
    TORCH_CHECK(at::canCast(tensor.scalar_type(), call.result().scalar_type()), "result type ", tensor.scalar_type(),
                " can't be cast to the desired output type ", call.result().scalar_type());
  }
  call.set_result(0, tensor);
}

at::Scalar number_of(at::ScalarType dtype, const at::Scalar& number) {
  return AT_DISPATCH_V2(dtype, "number_of", AT_WRAP([&] { return at::Scalar(number.to<scalar_t>()); }),
                        AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kBool, at::kHalf, at::kBFloat16,
                        AT_EXPAND(AT_FLOAT8_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
}

namespace {

// self + alpha * other, or self - alpha * other.
template <class Meta, bool kSubtract>
void add(Call& call) {
  const at::Scalar alpha = call.scalar(2);
  Structured<Meta> iterator(call);
  iterator.meta(call.tensor(0), call.tensor(1), alpha);
  if (iterator.numel() == 0) return;
  const at::ScalarType common = iterator.common_dtype();
  const uhal_map_function function = kSubtract ? uhal_map_subtract : uhal_map_add;
  const bool is_one = alpha.isComplex() ? alpha.toComplexDouble() == c10::complex<double>(1, 0) : alpha.toDouble() == 1;
  if (!is_one) static_cast<void>(number_of(common, kSubtract ? -alpha : alpha));  // which the CPU adds
  const double factor = common == at::kBool ? 1 : rounded(common, alpha.toComplexDouble().real());
  const bool is_real = !c10::isComplexType(common);
  // Numbers that PyTorch keeps on the host are a parameter: (x + p1) * p0.
  if (is_real && iterator.is_cpu_scalar(2) && !iterator.is_cpu_scalar(1)) {
    const double other = rounded(common, iterator.tensor(2).item().toDouble()) * factor;
    const View x = view_of(iterator, 1);
    const View y = view_of(iterator, 0);
    if (c10::isFloatingType(common) || std::abs(other) < 9e15) {
      return call.map(uhal_map_add_then_scale, {&x}, {&y}, {1, kSubtract ? -other : other});
    }
  }
  if (is_one) return launch_map(call, iterator, function);
  if (!is_real) {
    const at::Tensor scaled = at::mul(call.tensor(1), alpha);
    return call.set_result(0, kSubtract ? at::sub(call.tensor(0), scaled) : at::add(call.tensor(0), scaled));
  }
  Chain chain(2);
  chain.step(function, {0, chain.step(uhal_map_scale, {1}, {factor, 0})});
  launch_chain(call, iterator, chain);
}

void multiply(Call& call) {
  Structured<at::meta::structured_mul_Tensor> iterator(call);
  iterator.meta(call.tensor(0), call.tensor(1));
  if (iterator.numel() == 0) return;
  if (iterator.is_cpu_scalar(2) && !iterator.is_cpu_scalar(1) && c10::isFloatingType(iterator.common_dtype())) {
    const View x = view_of(iterator, 1);
    const View y = view_of(iterator, 0);
    return call.map(uhal_map_add_then_scale, {&x}, {&y}, {iterator.tensor(2).item().toDouble(), -0.0});
  }
  launch_map(call, iterator, uhal_map_multiply);
}

void fill_with_number(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const auto iterator = at::TensorIterator::borrowing_nullary_op(self);
  call.fill(view_of(iterator, 0), number_of(self.scalar_type(), call.scalar(1)));
}

void fill_with_tensor(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.tensor(1).dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              call.tensor(1).dim(), " dimensions.");
  self.copy_(call.tensor(1));
}

// (s, *, dtype, ...): PyTorch puts numbers that are assigned to elements into such a tensor, and its CPU then refuses
// none for the floats of two bytes.
void scalar_tensor(Call& call) {
  const at::ScalarType dtype = call.dtype(1).value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
  const bool is_taken = c10::isReducedFloatingType(dtype) && !call.scalar(0).isComplex();
  const at::Scalar number = is_taken ? call.scalar(0) : number_of(dtype, call.scalar(0));
  call.fill(view_of(call.make_result(0, {}, dtype)), number);
}

void zero(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const auto iterator = at::TensorIterator::borrowing_nullary_op(self);
  call.fill(view_of(iterator, 0), 0);
}

// -- quotients and remainders --------------------------------------------------------------------------------

// Whole numbers are not divided by 0.
void refuse_zero(const at::TensorIteratorBase& iterator) {
  if (!c10::isIntegralType(iterator.common_dtype(), true) || iterator.numel() == 0) return;
  const at::Tensor& divisor = iterator.tensor(2);
  // One number is a divisor in the dtype that is computed in, where it may be 0.
  refuse_unless(divisor.dim() == 0 ? divisor.to(iterator.common_dtype()) : divisor, "ZeroDivisionError");
}

// (self, other)
template <class Meta, uhal_map_function kFunction>
void remainder(Call& call) {
  Structured<Meta> iterator(call);
  iterator.infer();
  const at::ScalarType common = iterator.common_dtype();
  call.require(common != at::kBool && !c10::isComplexType(common), "no kernel for this dtype");
  refuse_zero(iterator);
  launch_map(call, iterator, kFunction);
}

void remainder_of_number(Call& call) {
  call.set_result(0, at::remainder(at::native::wrapped_scalar_tensor(call.scalar(0)), call.tensor(1)));
}

void divide_rounded(Call& call) {
  if (call.is_none(2)) return call.set_result(0, at::div(call.tensor(0), call.tensor(1)));
  const c10::string_view mode = call.argument(2).toStringView();
  Structured<at::meta::structured_div_Tensor_mode> iterator(call);
  iterator.meta(call.tensor(0), call.tensor(1), mode);
  const bool is_whole = c10::isIntegralType(iterator.common_dtype(), true);
  call.require(!c10::isComplexType(iterator.common_dtype()), "complex numbers");
  refuse_zero(iterator);
  if (mode == "floor") {
    return launch_map(call, iterator, is_whole ? uhal_map_floor_divide : uhal_map_floor_divide_exact);
  }
  if (is_whole) return launch_map(call, iterator, uhal_map_truncate_divide);
  Chain chain(2);
  chain.step(uhal_map_truncate, {chain.step(uhal_map_divide, {0, 1})});
  launch_chain(call, iterator, chain, /*takes_wide=*/true);
}

void floor_divide(Call& call) {
  const at::Tensor out = call.result();
  at::TensorIteratorConfig config;
  configure(config);
  config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
  config.add_owned_output(out).add_const_input(call.tensor(0)).add_const_input(call.tensor(1));
  at::TensorIterator iterator = config.build();
  if (!out.defined()) call.set_result(0, iterator.output());
  const bool is_whole = c10::isIntegralType(iterator.common_dtype(), true);
  call.require(!c10::isComplexType(iterator.common_dtype()), "complex numbers");
  refuse_zero(iterator);
  launch_map(call, iterator, is_whole ? uhal_map_floor_divide : uhal_map_floor_divide_exact);
}

// Powers of floating and complex numbers that have a way of their own on the CPU, too. False for all others.
bool power_without_logarithm(Call& call, const View& x, const View& y, double exponent) {
  if (exponent == -1) return call.map(uhal_map_reciprocal, {&x}, {&y}), true;
  if (exponent == 0.5) return call.map(uhal_map_sqrt, {&x}, {&y}), true;
  if (exponent == -0.5) return call.map(uhal_map_rsqrt, {&x}, {&y}), true;
  if (exponent == 2) return call.map(uhal_map_multiply, {&x, &x}, {&y}), true;
  if (exponent != 3 && exponent != -2) return false;
  Chain chain(1);
  const int square = chain.step(uhal_map_multiply, {0, 0});
  exponent == 3 ? chain.step(uhal_map_multiply, {square, 0}) : chain.step(uhal_map_reciprocal, {square});
  call.launch(UHAL_OP_MAP_CHAIN, {&x}, {&y}, chain.program());
  return true;
}

void power_by_number(Call& call) {
  const at::Scalar exponent = call.scalar(1);
  Structured<at::meta::structured_pow_Tensor_Scalar> iterator(call);
  iterator.infer();
  const at::Tensor& result = call.result();
  if (result.numel() == 0) return;
  const bool is_complex = exponent.isComplex() && exponent.toComplexDouble().imag() != 0;
  if (result.is_complex() && (is_complex || !call.tensor(0).is_complex())) {
    const at::Tensor self = call.tensor(0).to(result.scalar_type());
    at::Tensor target = result;
    target.copy_(is_complex ? at::pow(self, at::native::wrapped_scalar_tensor(exponent)) : at::pow(self, exponent));
    return;
  }
  const View x = view_of(call.tensor(0));
  const View y = view_of(result);
  double number = exponent.toComplexDouble().real();
  if (number == 0) return call.fill(y, 1);
  if (number == 1) return call.cast(x, y);
  if (!c10::isIntegralType(result.scalar_type(), true) && power_without_logarithm(call, x, y, number)) return;
  if (number == 2) return call.map(uhal_map_square, {&x}, {&y});
  // In the wide floating dtypes the CPU takes the exponent as it is.
  const bool is_wide = result.is_complex() || result.scalar_type() == at::kFloat || result.scalar_type() == at::kDouble;
  if (!is_wide) number = number_of(result.scalar_type(), exponent).toDouble();
  call.map(uhal_map_power_scalar, {&x}, {&y}, {number});
}

void power_of_number(Call& call) {
  const at::Scalar base = call.scalar(0);
  const at::Tensor wrapped = at::native::wrapped_scalar_tensor(base);
  set_cast_result(call, at::pow(wrapped, call.tensor(1)));
}

// -- limits -----------------------------------------------------------------------------------------------------

template <class Meta, int kLow, int kHigh>
void clamp(Call& call) {
  Structured<Meta> iterator(call);
  iterator.infer();
  const at::Tensor& result = call.result();
  if (result.numel() == 0) return;
  const double infinity = std::numeric_limits<double>::infinity();
  const at::ScalarType common = iterator.common_dtype();
  const bool has_low = kLow > 0 && !call.is_none(kLow), has_high = kHigh > 0 && !call.is_none(kHigh);
  const at::Scalar lower = has_low ? number_of(common, call.scalar(kLow)) : at::Scalar(-infinity);
  const at::Scalar upper = has_high ? number_of(common, call.scalar(kHigh)) : at::Scalar(infinity);
  double low = lower.toDouble();
  const double high = upper.toDouble();
  const View x = view_of(iterator, 1);
  const View y = view_of(iterator, 0);
  if (std::isnan(low) || std::isnan(high)) return call.fill(y, std::numeric_limits<double>::quiet_NaN());
  low = std::min(low, high);
  if (!c10::isIntegralType(common, true)) return call.map(uhal_map_clip, {&x}, {&y}, {low, high});
  // Whole numbers: bounds that every number keeps to stay representable.
  const double largest = 9007199254740992;
  call.require((std::isinf(low) || std::abs(low) <= largest) && (std::isinf(high) || std::abs(high) <= largest),
               "bounds beyond 2^53");
  if (!std::isinf(low)) {
    const View bound = call.constant(lower.toDouble() > high ? upper : lower, common);
    call.map(uhal_map_maximum, {&x, &bound}, {&y});
    if (std::isinf(high)) return;
    const View top = call.constant(upper, common);
    return call.map(uhal_map_minimum, {&y, &top}, {&y});
  }
  const View top = call.constant(upper, common);
  call.map(uhal_map_minimum, {&x, &top}, {&y});
}

void clamp_by_tensors(Call& call) {
  at::Tensor result = call.tensor(0);
  if (!call.is_none(1)) result = at::maximum(result, call.tensor(1));
  if (!call.is_none(2)) result = at::minimum(result, call.tensor(2));
  set_cast_result(call, result);
}

// -- sums of products -------------------------------------------------------------------------------------------

template <class Meta, bool kDivide>
void add_with_factor(Call& call) {
  Structured<Meta> iterator(call);
  iterator.infer();
  const at::Scalar value = number_of(at::toOpMathType(iterator.common_dtype()), call.scalar(3));
  if (value.isComplex()) {
    const at::Tensor scaled = at::mul(call.tensor(1), value);
    const at::Tensor product = kDivide ? at::div(scaled, call.tensor(2)) : at::mul(scaled, call.tensor(2));
    return call.set_result(0, at::add(call.tensor(0), product));
  }
  Chain chain(3);
  const int scaled = chain.step(uhal_map_scale, {1}, {value.toDouble(), 0});
  const int product = chain.step(kDivide ? uhal_map_divide : uhal_map_multiply, {scaled, 2});
  chain.step(uhal_map_add, {0, product});
  launch_chain(call, iterator, chain);
}

// As the CPU: from the nearer end. (self, end, weight)
void interpolate_by_number(Call& call) {
  Structured<at::meta::structured_lerp_Scalar> iterator(call);
  iterator.infer();
  const at::Scalar weight = number_of(at::toOpMathType(iterator.common_dtype()), call.scalar(2));
  if (weight.isComplex()) {
    // Near is by the modulus.
    const bool near = std::abs(weight.toComplexDouble()) < 0.5;
    const at::Tensor difference = at::sub(call.tensor(1), call.tensor(0));
    const at::Scalar part = near ? weight : at::Scalar(weight.toComplexDouble() - c10::complex<double>(1, 0));
    return call.set_result(0, at::add(call.tensor(near ? 0 : 1), at::mul(difference, part)));
  }
  const double w = weight.toDouble();
  Chain chain(2);
  const int difference = chain.step(uhal_map_subtract, {1, 0});
  const bool near_start = std::abs(w) < 0.5;
  const int part = chain.step(uhal_map_scale, {difference}, {near_start ? w : w - 1, 0});
  chain.step(uhal_map_add, {near_start ? 0 : 1, part});
  launch_chain(call, iterator, chain);
}

// (self, end, weight)
void interpolate(Call& call) {
  Structured<at::meta::structured_lerp_Tensor> iterator(call);
  iterator.infer();
  if (call.tensor(0).is_complex()) {
    const at::Tensor& weight = call.tensor(2);
    const at::Tensor difference = at::sub(call.tensor(1), call.tensor(0));
    return call.set_result(0, at::where(weight.abs().lt(0.5), call.tensor(0) + weight * difference,
                                        call.tensor(1) - difference * (1 - weight)));
  }
  Chain chain(3);
  const int zero = chain.step(uhal_map_less, {0, 0}), half = chain.step(uhal_map_scale, {zero}, {1, 0.5});
  const int is_near = chain.step(uhal_map_less, {chain.step(uhal_map_absolute, {2}), half});
  const int difference = chain.step(uhal_map_subtract, {1, 0});
  const int from_start = chain.step(uhal_map_add, {0, chain.step(uhal_map_multiply, {2, difference})});
  const int back = chain.step(uhal_map_add_then_scale, {2}, {-1, -1});  // 1 - weight
  const int from_end = chain.step(uhal_map_subtract, {1, chain.step(uhal_map_multiply, {difference, back})});
  chain.step(uhal_map_select, {is_near, from_start, from_end});
  launch_chain(call, iterator, chain);
}

// -- choices ----------------------------------------------------------------------------------------------------

// A tensor of one number may lie on the host.
at::Tensor on_device(Call& call, const at::Tensor& tensor) {
  if (tensor.dim() != 0 || !tensor.device().is_cpu()) return tensor;
  return call.keep(tensor.to(c10::Device(kDevice, call.device())));
}

void where(Call& call) {
  const at::ScalarType dtype = at::result_type(call.tensor(1), call.tensor(2));
  const at::Tensor out = call.result();
  TORCH_CHECK(call.tensor(0).scalar_type() == at::kBool || call.tensor(0).scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              call.tensor(0).scalar_type());
  TORCH_CHECK(!out.defined() || out.scalar_type() == dtype, "Expected out type to be ", dtype, " but got ",
              out.defined() ? out.scalar_type() : dtype);
  const at::Tensor condition = on_device(call, call.tensor(0));
  const at::Tensor chosen = on_device(call, call.tensor(1));
  const at::Tensor other = on_device(call, call.tensor(2));
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).set_check_mem_overlap(true);
  if (!out.defined()) config.declare_static_dtype(dtype);
  config.add_owned_output(out).add_const_input(condition).add_const_input(chosen).add_const_input(other);
  at::TensorIterator iterator = config.build();
  if (!out.defined()) call.set_result(0, iterator.output());
  launch_map(call, iterator, uhal_map_select);
}

void masked_fill(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(call.tensor(1).scalar_type() == at::kBool,
              "masked_fill_ only supports boolean masks, but got mask with dtype ", call.tensor(1).scalar_type());
  at::Tensor number;
  if (call.argument(2).isTensor()) {
    number = call.tensor(2);
    TORCH_CHECK(number.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                number.dim(), " dimension(s).");
  }
  if (number.defined() && !number.device().is_cpu()) {
    number = call.keep(number.to(self.options()));
  } else {  // what is on the host is known without waiting
    const at::Scalar value = number.defined() ? number.item() : call.scalar(2);
    number = call.scratch({}, self.scalar_type());
    call.fill(view_of(number), number_of(self.scalar_type(), value));
  }
  const at::Tensor mask = on_device(call, call.tensor(1));
  TORCH_CHECK(at::is_expandable_to(mask.sizes(), self.sizes()), "The size of the mask ", mask.sizes(),
              " must broadcast to the tensor's ", self.sizes());
  const at::Tensor spread = mask.expand(self.sizes());
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).set_check_mem_overlap(true).resize_outputs(false);
  config.add_output(self).add_const_input(spread).add_const_input(number).add_const_input(self);
  at::TensorIterator iterator = config.build();
  launch_map(call, iterator, uhal_map_select);
}

template <class Meta>
void is_infinity(Call& call) {
  Structured<Meta> iterator(call);
  iterator.infer();
  if (iterator.numel() == 0) return;
  const View x = view_of(iterator, 1);
  const View y = view_of(iterator, 0);
  if (!call.tensor(0).is_floating_point()) return call.fill(y, false);
  const double infinity = std::numeric_limits<double>::infinity();
  constexpr bool kNegative = std::is_same_v<Meta, at::meta::structured_isneginf>;
  const View value = call.constant(kNegative ? -infinity : infinity, call.tensor(0).scalar_type());
  call.map(uhal_map_equal, {&x, &value}, {&y});
}

// -- sequences ----------------------------------------------------------------------------------------------------

void launch_iota(Call& call, const at::Tensor& result, double start, double step, int64_t integer_start,
                 int64_t integer_step) {
  if (result.numel() == 0) return;
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.start = start;
  attributes.step = step;
  attributes.integer_start = integer_start;
  attributes.integer_step = integer_step;
  const View y = view_of(result);
  call.launch(UHAL_OP_IOTA, {}, {&y}, &attributes);
}

// (start, end, step, *, out)
void arange(Call& call) {
  const at::Scalar start = call.scalar(0), end = call.scalar(1), step = call.scalar(2);
  at::Tensor result = call.tensor(3);
  // As the CPU: of int64 the numbers are cut to whole ones before they are counted, of shorter whole dtypes after; from
  // PyTorch 2.14 on of int64, too.
  constexpr bool kCutsFirst = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14;
  const bool is_whole = c10::isIntegralType(result.scalar_type(), false);
  const bool all_whole = start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false);
  const bool is_cut = result.scalar_type() == at::kLong && (kCutsFirst || all_whole);
  const double from = is_cut ? static_cast<double>(start.toLong()) : start.toDouble();
  const double to = is_cut ? static_cast<double>(end.toLong()) : end.toDouble();
  const double by = is_cut ? static_cast<double>(step.toLong()) : step.toDouble();
  TORCH_CHECK(by != 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(from) && std::isfinite(to), "unsupported range: ", from, " -> ", to);
  TORCH_CHECK((by > 0) == (to >= from) || from == to, "upper bound and lower bound inconsistent with step sign");
  const double exact = std::ceil((to - from) / by);
  int64_t count = static_cast<int64_t>(exact);
  if (is_cut) {
    const int64_t sign = step.toLong() > 0 ? 1 : -1;
    count = (end.toLong() - start.toLong() + step.toLong() - sign) / step.toLong();
  }
  TORCH_CHECK(exact >= 0 && exact <= 9e15, "invalid size, possible overflow?");
  if (result.numel() != count) result.resize_({count});
  launch_iota(call, result, from, by, is_whole ? start.toLong() : 0, is_whole ? step.toLong() : 0);
  call.set_result(0, result);
}

// (start, end, steps, *, out)
void linspace(Call& call) {
  at::Tensor result = call.tensor(3);
  const int64_t steps = call.integer(2);
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (result.numel() != steps) result.resize_({steps});
  if (result.is_complex()) {
    const c10::complex<double> first = call.scalar(0).toComplexDouble(), last = call.scalar(1).toComplexDouble();
    const at::TensorOptions parts = result.options().dtype(c10::toRealValueType(result.scalar_type()));
    at::real(result).copy_(at::linspace(first.real(), last.real(), steps, parts));
    at::imag(result).copy_(at::linspace(first.imag(), last.imag(), steps, parts));
    return call.set_result(0, result);
  }
  if (!result.is_floating_point()) {
    // As the CPU: a step of whole numbers' difference in float32, cut towards zero.
    const int64_t first = number_of(result.scalar_type(), call.scalar(0)).toLong();
    const int64_t last = number_of(result.scalar_type(), call.scalar(1)).toLong();
    const float by = steps > 1 ? static_cast<float>(last - first) / static_cast<float>(steps - 1) : 0;
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < steps; ++i) {
      numbers.push_back(i < steps / 2 || steps == 1
                            ? static_cast<int64_t>(static_cast<float>(first) + by * static_cast<float>(i))
                            : static_cast<int64_t>(static_cast<float>(last) - by * static_cast<float>(steps - i - 1)));
    }
    if (steps > 0) result.copy_(at::tensor(numbers, at::TensorOptions(at::kLong)));
    return call.set_result(0, result);
  }
  const double start = number_of(result.scalar_type(), call.scalar(0)).toDouble();
  const double end = number_of(result.scalar_type(), call.scalar(1)).toDouble();
  // Both halves from their own ends, so that the last number is `end` exactly.
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  const int64_t half = steps / 2;
  if (steps == 1) {
    call.fill(view_of(result), start);
  } else if (steps > 1) {
    launch_iota(call, result.narrow(0, 0, half), start, step, 0, 0);
    launch_iota(call, result.narrow(0, half, steps - half), end - step * static_cast<double>(steps - half - 1), step, 0,
                0);
    call.fill(view_of(result).sliced(0, steps - 1, 1), end);
  }
  call.set_result(0, result);
}

// (n, m, *, out)
void eye(Call& call) {
  at::Tensor result = call.tensor(2);
  const int64_t rows = call.integer(0), columns = call.integer(1);
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  result.resize_({rows, columns});
  if (result.numel() != 0) {
    call.fill(view_of(result), 0);
    call.fill(view_of(result.diagonal()), 1);
  }
  call.set_result(0, result);
}

constexpr Kernel kArithmeticKernels[] = {
    {"add.Tensor", kAll, add<at::meta::structured_add_Tensor, false>},
    {"sub.Tensor", kAll, add<at::meta::structured_sub_Tensor, true>},
    {"mul.Tensor", kAll, multiply},
    {"div.Tensor_mode", kAll, divide_rounded},
    {"floor_divide", kNumbers, floor_divide},
    {"remainder.Tensor", kReal, remainder<at::meta::structured_remainder_Tensor, uhal_map_floor_mod>},
    {"remainder.Scalar_Tensor", kReal, remainder_of_number},
    {"fmod.Tensor", kReal, remainder<at::meta::structured_fmod_Tensor, uhal_map_truncate_mod>},
    {"pow.Tensor_Scalar", kAll, power_by_number},
    {"pow.Scalar", kAll, power_of_number},
    {"clamp", kNumbers, clamp<at::meta::structured_clamp, 1, 2>},
    {"clamp_min", kNumbers, clamp<at::meta::structured_clamp_min, 1, 0>},
    {"clamp_max", kNumbers, clamp<at::meta::structured_clamp_max, 0, 1>},
    {"clamp.Tensor", kNumbers, clamp_by_tensors},
    {"addcmul", kNumbers | kComplex, add_with_factor<at::meta::structured_addcmul, false>},
    {"addcdiv", kFloats | kComplex, add_with_factor<at::meta::structured_addcdiv, true>},
    {"lerp.Scalar", kFloats | kComplex, interpolate_by_number},
    {"lerp.Tensor", kFloats | kComplex, interpolate},
    {"where.self", kBool | only(UHAL_UINT8), where},
    {"masked_fill_.Scalar", kAll, masked_fill},
    {"masked_fill_.Tensor", kAll, masked_fill},
    {"isneginf", kReal, is_infinity<at::meta::structured_isneginf>},
    {"isposinf", kReal, is_infinity<at::meta::structured_isposinf>},
    {"fill_.Scalar", kStored, fill_with_number},
    {"fill_.Tensor", kStored, fill_with_tensor},
    {"zero_", kStored, zero},
    {"scalar_tensor", kStored, scalar_tensor},
    {"arange.start_out", kNumbers, arange},
    {"linspace.out", kNumbers | kComplex, linspace},
    {"eye.m_out", kStored, eye},
};

}  // namespace

void register_arithmetic() { register_kernels(kArithmeticKernels); }

}  // namespace unihal::pytorch
