// Functions of elements that are more than one of csrc/tables/elementwise.def: parts of numbers, rounding, polynomials.
#include <ATen/OpMathType.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>

#include <cmath>
#include <limits>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// -- complex numbers ----------------------------------------------------------------------------------------------

void angle(Call& call) {
  const at::Tensor from = call.tensor(0).is_complex() ? call.tensor(0) : floating(call.tensor(0));
  const at::Tensor result = empty(from.sizes(), c10::toRealValueType(from.scalar_type()));
  set_cast_result(call, result);
  if (result.numel() == 0) return;
  const View x = view_of(call.keep(from)), y = view_of(result);
  call.map(uhal_map_angle, {&x}, {&y});
}

// (self, *, out). Without out= PyTorch composes the op, so that it has a gradient.
void conjugate_to(Call& call) {
  const at::Tensor self = call.keep(call.tensor(0).resolve_conj().resolve_neg());
  at::Tensor out = call.tensor(1);
  TORCH_CHECK(at::canCast(self.scalar_type(), out.scalar_type()), "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  out.resize_(self.sizes());
  if (self.numel() != 0 && out.scalar_type() == self.scalar_type()) {
    const View x = view_of(self), y = view_of(out);
    call.map(uhal_map_conjugate, {&x}, {&y});
  } else if (self.numel() != 0) {
    const View x = view_of(self), y = view_of(call.scratch(self.sizes(), self.scalar_type()));
    call.map(uhal_map_conjugate, {&x}, {&y});
    call.cast(y, view_of(out));
  }
  call.set_result(0, out);
}

// (real, imag), (abs, angle)
template <uhal_map_function kFunction>
void complex_of(Call& call) {
  const at::Tensor& first = call.tensor(0);
  const at::Tensor& second = call.tensor(1);
  TORCH_CHECK(first.scalar_type() == second.scalar_type(), "Expected object of scalar type ", first.scalar_type(),
              " but got scalar type ", second.scalar_type(), " for second argument");
  const std::vector<at::Tensor> parts = at::broadcast_tensors({first, second});
  const at::Tensor& result = call.make_result(0, parts[0].sizes(), c10::toComplexType(first.scalar_type()));
  if (result.numel() == 0) return;
  const View x = view_of(parts[0]), y = view_of(parts[1]), z = view_of(result);
  call.map(kFunction, {&x, &y}, {&z});
}

// -- parts of numbers, and rounding -------------------------------------------------------------------------------

// (self) -> mantissa, exponent
at::Tensor power_of_two(const at::Tensor& exponent) { return at::pow(number_like(exponent, 2), exponent); }

// (self, other): self times 2 to the power of other, rounded once, also where that power is none of the dtype's.
void ldexp(Call& call) {
  const at::Tensor &self = call.tensor(0), &other = call.tensor(1);
  if (!self.is_floating_point() || !c10::isIntegralType(other.scalar_type(), /*includeBool=*/true)) {
    set_cast_result(call, self * at::pow(at::Scalar(2.0), other));
    return;
  }
  call.require(other.scalar_type() != at::kBool, "exponents that are true or false");
  if (call.variant() == Variant::kOut)
    return set_cast_result(call, at::ldexp(self, other));  // of another dtype, it may be
  const std::vector<at::Tensor> operands = at::broadcast_tensors({self, other});
  const at::Tensor& result = call.make_result(0, operands[0].sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  const View x = view_of(operands[0]), n = view_of(operands[1]), y = view_of(result);
  call.map(uhal_map_ldexp, {&x, &n}, {&y});
}

void mantissa_and_exponent(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor is_special = self.eq(0).logical_or(self.isfinite().logical_not());
  const at::Tensor safe = at::where(is_special, number_like(self, 1), self);
  at::Tensor exponent = safe.abs().log2().floor().to(at::kInt).add_(1);
  // 2^-e may overflow where e is the least one: by halves.
  const at::Tensor half = exponent.div(2, "floor");
  const auto power = [&safe](const at::Tensor& by) { return power_of_two(by.to(safe.scalar_type())); };
  at::Tensor mantissa = safe * power(half.neg()) * power(half - exponent);
  // Next to a power of 2 the logarithm may be one off.
  const at::Tensor is_large = mantissa.abs().ge(1), is_small = mantissa.abs().lt(0.5);
  mantissa = at::where(is_large, mantissa * 0.5, at::where(is_small, mantissa * 2, mantissa));
  exponent = exponent + is_large.to(at::kInt) - is_small.to(at::kInt);
  call.set_result(0, at::where(is_special, self, mantissa));
  call.set_result(1, exponent.masked_fill(is_special, 0));
}

void sign_bit(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(!call.result().defined() || call.result().scalar_type() == at::kBool,
              "signbit does not support non-boolean outputs.");
  call.set_result(0, self.is_floating_point()          ? number_like(self, 1).copysign(self).lt(0)
                     : self.scalar_type() == at::kBool ? at::zeros_like(self)
                                                       : self.lt(0));
}

// (self, *, decimals)
void round_to_decimals(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t decimals = call.integer(1);
  if (decimals == 0) return call.set_result(0, self.round());
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  call.set_result(0, decimals > 0 ? (self * power).round() / power : (self / power).round() * power);
}

double largest_finite(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return 65504;
    case at::kBFloat16:
      return 3.38953138925153547590470800371487866880e38;
    case at::kFloat:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// (self, nan, posinf, neginf)
void replace_special(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(!call.result().defined() || call.result().scalar_type() == self.scalar_type(),
              "nan_to_num: dtype of out should be same as input: ", self.scalar_type());
  if (!self.is_floating_point()) return call.set_result(0, self.clone());
  const double limit = largest_finite(self.scalar_type());
  const auto replaced = [&](const at::Tensor& where, double value, const at::Tensor& rest) {
    return at::where(where, number_like(self, value), rest);
  };
  at::Tensor result = replaced(self.isnan(), call.real_or(1, 0), self);
  result = replaced(self.eq(kInfinity), call.real_or(2, limit), result);
  call.set_result(0, replaced(self.eq(-kInfinity), call.real_or(3, -limit), result));
}

// (self, other)
void hypotenuse(Call& call) {
  const at::ScalarType common = at::result_type(call.tensor(0), call.tensor(1));
  call.require(contains(kFloats, from_pytorch(common)), "no kernel for this dtype");
  const at::Tensor x = call.tensor(0).to(common).abs(), y = call.tensor(1).to(common).abs();
  const at::Tensor longer = at::maximum(x, y), shorter = at::minimum(x, y);
  const at::Tensor is_plain = longer.eq(0).logical_or(longer.isinf()).logical_not();
  const at::Tensor ratio = shorter / at::where(is_plain, longer, number_like(longer, 1));
  const at::Tensor result = at::where(is_plain, longer * (ratio.square() + 1).sqrt(), longer);
  const at::Tensor is_infinite = x.isinf().logical_or(y.isinf());
  set_cast_result(call, at::where(is_infinite, number_like(longer, kInfinity), result));
}

// (self, other, *, alpha)
void subtract_from(Call& call) { call.set_result(0, at::sub(call.tensor(1), call.tensor(0), call.scalar(2))); }

// -- special functions --------------------------------------------------------------------------------------------

// (n, self)
void polygamma(Call& call) {
  const int64_t order = call.integer(0);
  TORCH_CHECK(order >= 0, "polygamma(n, x) does not support negative n.");
  const at::Tensor self = floating(call.tensor(1));
  if (order == 0) return set_cast_result(call, self.digamma());
  const at::Tensor result = empty(self.sizes(), self.scalar_type());
  set_cast_result(call, result);
  if (result.numel() == 0) return;
  const View n = call.constant(static_cast<double>(order), self.scalar_type());
  const View x = view_of(call.keep(self)), y = view_of(result);
  call.map(uhal_map_polygamma, {&n, &x}, {&y});
}

// (self, p)
void multivariate_lgamma(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  const int64_t p = call.integer(1);
  TORCH_CHECK(p >= 1, "p has to be greater than or equal to 1");
  const at::Tensor steps = at::arange(p, self.options()).mul_(-0.5);
  const double constant = static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI);
  set_cast_result(call, self.unsqueeze(-1).add(steps).lgamma().sum(-1).add(constant));
}

void spherical_bessel_j0(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  const at::Tensor quotient = at::where(self.eq(0), number_like(self, 1), self.sin() / self);
  set_cast_result(call, quotient.masked_fill(self.isinf(), 0));
}

// exp(x^2) erfc(x), in double precision: of large x by its series.
at::Tensor scaled_erfc(const at::Tensor& x) {
  const at::Tensor large = x.clamp_min(10), square = large.square().mul(2).reciprocal();
  const at::Tensor series =
      (1 - square * (1 - 3 * square * (1 - 5 * square * (1 - 7 * square * (1 - 9 * square * (1 - 11 * square)))))) /
      (large * std::sqrt(M_PI));
  const at::Tensor near = x.clamp_max(10);
  return at::where(x.gt(10), series, near.square().exp() * near.erfc());
}

void erfcx(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  set_cast_result(call, scaled_erfc(self.to(at::kDouble)).to(self.scalar_type()));
}

// The logarithm of the normal distribution: of its tail by the scaled function.
void log_ndtr(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  const at::Tensor t = self.to(at::kDouble) * M_SQRT1_2;
  const at::Tensor tail = (scaled_erfc(t.clamp_max(0).neg()) / 2).log() - t.clamp_max(0).square();
  const at::Tensor rest = (t.clamp_min(-1).erfc() / -2).log1p();
  set_cast_result(call, at::where(self.lt(-1), tail, rest).to(self.scalar_type()));
}

// -- polynomials --------------------------------------------------------------------------------------------------

// p_0 = 1, p_1 = a x + b, and the next ones by the family's recurrence, of 2 x - 1 instead of x if it is shifted.
enum Family { kChebyshev, kHermite, kHermiteOfStatistics, kLaguerre, kLegendre };
struct Polynomial {
  Family family;
  double a, b;
  bool shifted = false;
};

at::Tensor next_of(Family family, const at::Tensor& x, const at::Tensor& now, const at::Tensor& before, double k) {
  switch (family) {
    case kChebyshev:
      return x * now * 2 - before;
    case kHermite:
      return x * now * 2 - before * (2 * k);
    case kHermiteOfStatistics:
      return x * now - before * k;
    case kLaguerre:
      return ((2 * k + 1 - x) * now - before * k) / (k + 1);
    case kLegendre:
      return (x * now * (2 * k + 1) - before * k) / (k + 1);
  }
  return {};
}

// (x, n): of whole numbers n, 0 of negative ones
void polynomial(Call& call) {
  const Polynomial& which = call.data<Polynomial>();
  const at::ScalarType common = at::result_type(call.tensor(0), call.tensor(1));
  const at::ScalarType dtype =
      at::isFloatingType(common) ? common : c10::typeMetaToScalarType(c10::get_default_dtype());
  at::Tensor x = call.tensor(0).to(dtype);
  if (which.shifted) x = x * 2 - 1;
  const std::vector<at::Tensor> operands = at::broadcast_tensors({x, call.tensor(1).to(at::kLong)});
  x = operands[0];
  const at::Tensor& order = operands[1];
  at::Tensor result = at::zeros(x.sizes(), x.options());
  if (result.numel() == 0) return set_cast_result(call, result);
  const int64_t highest = order.max().item<int64_t>();
  at::Tensor before = at::ones_like(x), now = x * which.a + which.b;
  result = at::where(order.eq(0), before, result);
  for (int64_t k = 1; k <= highest; ++k) {
    result = at::where(order.eq(k), now, result);
    at::Tensor next = next_of(which.family, x, now, before, static_cast<double>(k));
    before = std::move(now);
    now = std::move(next);
  }
  set_cast_result(call, result);
}

constexpr Polynomial kChebyshevT = {kChebyshev, 1, 0}, kChebyshevU = {kChebyshev, 2, 0},
                     kChebyshevV = {kChebyshev, 2, -1}, kChebyshevW = {kChebyshev, 2, 1},
                     kShiftedT = {kChebyshev, 1, 0, true}, kShiftedU = {kChebyshev, 2, 0, true},
                     kShiftedV = {kChebyshev, 2, -1, true}, kShiftedW = {kChebyshev, 2, 1, true},
                     kHermiteH = {kHermite, 2, 0}, kHermiteHe = {kHermiteOfStatistics, 1, 0},
                     kLaguerreL = {kLaguerre, -1, 1}, kLegendreP = {kLegendre, 1, 0};

// -- sequences, and what compares -----------------------------------------------------------------------------------

// (start, end, steps, base, *, out)
void logarithmic_sequence(Call& call) {
  at::Tensor result = call.tensor(4);
  const int64_t steps = call.integer(2);
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (result.numel() != steps) result.resize_({steps});
  if (steps > 0) {
    const at::ScalarType wide = result.is_complex() ? at::kComplexDouble : at::kDouble;
    const at::Tensor powers = at::linspace(call.scalar(0), call.scalar(1), steps, result.options().dtype(wide));
    result.copy_(at::pow(call.real(3), powers));
  }
  call.set_result(0, result);
}

// (row, col, offset, *, dtype, ...): the places of a triangle's elements, row after row
template <bool kUpper>
void triangle_places(Call& call) {
  const int64_t rows = call.integer(0), columns = call.integer(1);
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  const at::TensorOptions options = at::TensorOptions(c10::Device(kDevice, call.device()));
  const at::Tensor all = at::ones({rows, columns}, options.dtype(at::kBool));
  const at::Tensor places = (kUpper ? all.triu(call.integer(2)) : all.tril(call.integer(2))).nonzero();
  call.set_result(0, places.t().contiguous().to(call.dtype(3).value_or(at::kLong)));
}

// PyTorch makes this window on every device, of the numbers 0 to length - 1, and asks the device for these values only.
void fill_kaiser_window(at::TensorIteratorBase& iterator, const int64_t length, const double beta) {
  const at::Tensor& places = iterator.tensor(1);
  at::Tensor window = iterator.tensor(0);
  const at::ScalarType wide = at::toOpMathType(places.scalar_type());
  const double middle = static_cast<double>(length - 1) / 2;
  const at::Tensor distance = places.to(wide).sub(middle).div(middle);
  const at::Tensor argument = (1 - distance.square()).clamp_min(0).sqrt().mul(beta);
  window.copy_(argument.i0().div(std::cyl_bessel_i(0.0, std::abs(beta))));
}

// (n, *, out)
void square_eye(Call& call) {
  at::Tensor result = call.tensor(1);
  call.set_result(0, at::eye_out(result, call.integer(0), call.integer(0)));
}

// (self, other) -> bool
void are_equal(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& other = call.tensor(1);
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  const bool same = self.sizes() == other.sizes() && (self.numel() == 0 || self.eq(other).all().item<bool>());
  call.set_values({same});
}

// (self, groups)
void channel_shuffle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t groups = call.integer(1);
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  c10::DimVector parts = {self.size(0), groups, self.size(1) / groups};
  const at::IntArrayRef rest = self.sizes().slice(2);
  parts.append(rest.begin(), rest.end());
  if (self.numel() == 0) return call.set_result(0, self.clone());
  call.set_result(0, self.reshape(parts).transpose(1, 2).reshape(self.sizes()));
}

// (self, dim, start, length)
void narrow_copy(Call& call) {
  call.set_result(
      0, call.tensor(0).narrow(call.integer(1), call.integer(2), call.integer(3)).clone(at::MemoryFormat::Contiguous));
}

#define POLYNOMIAL(name, which) {"special_" name, kReal, polynomial, &which}

constexpr Kernel kSpecialKernels[] = {
    {"angle", kAll, angle},
    {"conj_physical.out", kAll, conjugate_to},
    {"complex", kWideFloats | only(UHAL_FLOAT16), complex_of<uhal_map_complex>},
    {"polar", kWideFloats | only(UHAL_FLOAT16), complex_of<uhal_map_polar>},
    {"ldexp.Tensor", kAll, ldexp},
    {"frexp.Tensor", kFloats, mantissa_and_exponent},
    {"signbit", kReal, sign_bit},
    {"round.decimals", kFloats, round_to_decimals},
    {"nan_to_num", kReal, replace_special},
    {"hypot", kFloats, hypotenuse},
    {"rsub.Tensor", kAll, subtract_from},
    {"polygamma", kReal, polygamma},
    {"mvlgamma", kReal, multivariate_lgamma},
    {"special_spherical_bessel_j0", kReal, spherical_bessel_j0},
    {"special_erfcx", kReal, erfcx},
    {"special_log_ndtr", kReal, log_ndtr},
    POLYNOMIAL("chebyshev_polynomial_t", kChebyshevT),
    POLYNOMIAL("chebyshev_polynomial_u", kChebyshevU),
    POLYNOMIAL("chebyshev_polynomial_v", kChebyshevV),
    POLYNOMIAL("chebyshev_polynomial_w", kChebyshevW),
    POLYNOMIAL("shifted_chebyshev_polynomial_t", kShiftedT),
    POLYNOMIAL("shifted_chebyshev_polynomial_u", kShiftedU),
    POLYNOMIAL("shifted_chebyshev_polynomial_v", kShiftedV),
    POLYNOMIAL("shifted_chebyshev_polynomial_w", kShiftedW),
    POLYNOMIAL("hermite_polynomial_h", kHermiteH),
    POLYNOMIAL("hermite_polynomial_he", kHermiteHe),
    POLYNOMIAL("laguerre_polynomial_l", kLaguerreL),
    POLYNOMIAL("legendre_polynomial_p", kLegendreP),
    {"logspace.out", kAll, logarithmic_sequence},
    {"eye.out", kStored, square_eye},
    {"tril_indices", kAll, triangle_places<false>},
    {"triu_indices", kAll, triangle_places<true>},
    {"equal", kStored, are_equal},
    {"channel_shuffle", kStored, channel_shuffle},
    {"narrow_copy", kStored, narrow_copy},
};

}  // namespace

void register_special() { register_kernels(kSpecialKernels); }

}  // namespace unihal::pytorch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &unihal::pytorch::fill_kaiser_window)
}  // namespace at::native
