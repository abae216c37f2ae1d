// Ops that a few others of the device make: no function of their own, no more than those have.
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

constexpr double kPi = 3.14159265358979323846;

void fraction(Call& call) {
  const at::Tensor& self = call.tensor(0);
  call.set_result(0, self - self.trunc());
}

void exp2(Call& call) {
  set_cast_result(call, at::pow(number_like(floating(call.tensor(0)), 2), floating(call.tensor(0))));
}

void sinc(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  const at::Tensor angle = self * kPi;
  set_cast_result(call, at::where(self.eq(0), number_like(self, 1), angle.sin() / angle));
}

void entropy(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  set_cast_result(call, at::where(self.lt(0), number_like(self, -kInfinity), at::xlogy(self, self).neg()));
}

// The logarithm of the sum of exponentials of two numbers; kTwo: by powers of two.
template <bool kTwo>
void log_add_exp(Call& call) {
  const at::ScalarType common = at::result_type(call.tensor(0), call.tensor(1));
  const at::Tensor x = call.tensor(0).to(common);
  const at::Tensor y = call.tensor(1).to(common);
  const at::Tensor larger = at::maximum(x, y);
  const at::Tensor distance = (x - y).abs().neg();
  const at::Tensor rest = kTwo ? (distance * M_LN2).exp().log1p() * (1 / M_LN2) : distance.exp().log1p();
  // Equal infinities have no distance.
  set_cast_result(call, at::where(x.eq(y).logical_and(x.isinf()), larger, larger + rest));
}

// (self, eps)
void logit(Call& call) {
  at::Tensor self = floating(call.tensor(0));
  if (!call.is_none(1)) {
    const double low = call.real(1), high = 1 - low;
    // With an epsilon above 0.5 the lower bound is above the upper one, and goes before it.
    self = low <= high ? self.clamp(low, high) : at::where(self.lt(low), number_like(self, low), self.clamp_max(high));
  }
  set_cast_result(call, (self / (1 - self)).log());
}

// (grad_output, self, eps)
void logit_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const double low = call.real_or(2, 0);
  const double outside = call.is_none(2) ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  const at::Tensor is_outside = self.lt(low).logical_or(self.gt(1 - low));  // a NaN is not
  call.set_result(0, at::where(is_outside, number_like(self, outside), gradient / (self * (1 - self))));
}

// -- weights --------------------------------------------------------------------------------------------------------

// The norms along all axes but one, in the shape of g.
at::Tensor norms_of(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  c10::DimVector others;
  for (int64_t i = 0; i < v.dim(); ++i) {
    if (i != dim) others.push_back(i);
  }
  const at::ScalarType wide = v.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::linalg_vector_norm(v, 2, others, /*keepdim=*/true, wide).reshape(g.sizes());
}

// (v, g, dim) -> w, norms
void weight_norm(Call& call) {
  const at::Tensor& v = call.tensor(0);
  const at::Tensor norms = norms_of(v, call.tensor(1), call.integer(2));
  call.set_result(0, (v * (call.tensor(1) / norms)).to(v.scalar_type()));
  call.set_result(1, norms);
}

// (grad_w, saved_v, saved_g, saved_norms, dim) -> grad_v, grad_g
void weight_norm_backward(Call& call) {
  const at::Tensor& v = call.tensor(1);
  const at::Tensor& g = call.tensor(2);
  const at::Tensor& norms = call.tensor(3);
  const int64_t dim = call.integer(4);
  c10::DimVector others;
  for (int64_t i = 0; i < v.dim(); ++i) {
    if (i != dim) others.push_back(i);
  }
  const at::Tensor products = call.tensor(0).to(norms.scalar_type()) * v;
  const at::Tensor along = (others.empty() ? products : products.sum(others, /*keepdim=*/true)).reshape(g.sizes());
  const at::Tensor slope = (call.tensor(0) - v * (along / norms.square())) * (g / norms);
  call.set_result(0, slope.to(v.scalar_type()));
  call.set_result(1, (along / norms).to(g.scalar_type()));
}

// The steps of a program that cut a number to [low, high], and tell whether it was in there. NaN becomes `low`, as do
// numbers above `end`.
struct Cut {
  Cut(Chain& chain, int number, int64_t low, int64_t high, double end) {
    const int within = chain.step(uhal_map_clip, {number}, {static_cast<double>(low), static_cast<double>(high)});
    inside = chain.step(uhal_map_equal, {number, within});
    const int zero = chain.step(uhal_map_less, {number, number});
    const int lowest = chain.step(uhal_map_add_then_scale, {zero}, {1, static_cast<double>(low)});
    const int last = chain.step(uhal_map_add_then_scale, {zero}, {1, end});
    result = chain.step(uhal_map_select, {chain.step(uhal_map_less_equal, {number, last}), within, lowest});
  }
  int result, inside;
};

// Numbers as a quantized tensor would hold them, and which of them were in its range: one program. `is_float32`: they
// are float32 before they are of a wider dtype.
void launch_fake_quantize(Call& call, Operands inputs, const uhal_map_chain_attributes* program, bool is_float32) {
  const at::Tensor& self = call.tensor(0);
  const View y = view_of(call.make_result_like(self));
  const View mask = view_of(call.make_result(1, self.sizes(), call.result(0).strides(), at::kBool));
  if (self.numel() == 0) return;
  if (!is_float32) return call.launch(UHAL_OP_MAP_CHAIN, inputs, {&y, &mask}, program);
  const View narrow = view_of(call.scratch(self.sizes(), at::kFloat));
  call.launch(UHAL_OP_MAP_CHAIN, inputs, {&narrow, &mask}, program);
  call.cast(narrow, y);
}

constexpr const char* kZeroPointOutside = "`zero_point` must be between `quant_min` and `quant_max`.";

// (self, scale, zero_point, quant_min, quant_max)
void fake_quantize_by_numbers(Call& call) {
  const int64_t zero = call.integer(2), low = call.integer(3), high = call.integer(4);
  TORCH_CHECK(low <= high, "`quant_min` should be less than or equal to `quant_max`.");
  TORCH_CHECK(low <= zero && zero <= high, kZeroPointOutside);
  const float scale = static_cast<float>(call.real(1)), inverse = 1 / scale;  // as on the CPU, of all dtypes
  const double offset = static_cast<double>(zero);
  Chain chain(1);
  const int whole = chain.step(uhal_map_round_half_to_even, {chain.step(uhal_map_scale, {0}, {inverse, 0})});
  const Cut cut(chain, chain.step(uhal_map_add_then_scale, {whole}, {1, offset}), low, high, kInfinity);
  const int result = chain.step(uhal_map_add_then_scale, {cut.result}, {scale, -offset});
  const View x = view_of(call.tensor(0));
  // Its products are float32 on the CPU, of double too.
  const bool is_float32 = call.tensor(0).scalar_type() == at::kDouble;
  launch_fake_quantize(call, {&x}, chain.program({result, cut.inside}), is_float32);
}

// (self, scale, zero_point, axis, quant_min, quant_max)
void fake_quantize_by_channels(Call& call) {
  const at::Tensor &self = call.tensor(0), &scale = call.tensor(1), &zero = call.tensor(2);
  const int64_t axis = call.integer(3), low = call.integer(4), high = call.integer(5);
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "Scale must be Float, found ", scale.scalar_type());
  TORCH_CHECK(zero.scalar_type() == at::kInt || zero.scalar_type() == at::kFloat || zero.scalar_type() == at::kHalf,
              "Zero-point must be Int32, Float or Half, found ", zero.scalar_type());
  TORCH_CHECK(scale.dim() == 1 && zero.dim() == 1, "scale and zero point should be 1-D tensors");
  TORCH_CHECK(scale.numel() == zero.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(low <= high, "`quant_min` should be less than or equal to `quant_max`.");
  TORCH_CHECK(axis >= 0, "`axis` must be between 0 and number of dimensions of input");
  const bool rounds_before = !zero.is_floating_point();
  if (rounds_before) refuse_unless(zero.ge(low).logical_and(zero.le(high)), kZeroPointOutside);
  c10::DimVector sizes(static_cast<size_t>(self.dim()), 1);
  sizes[axis] = self.size(axis);
  const View x = view_of(self), s = view_of(scale.view(sizes)), z = view_of(zero.view(sizes));
  const View inverse = view_of(call.keep(scale.reciprocal().view(sizes)));
  Chain chain(4);
  int number = chain.step(uhal_map_multiply, {0, 1});
  if (rounds_before) number = chain.step(uhal_map_round_half_to_even, {number});
  number = chain.step(uhal_map_add, {number, 2});
  if (!rounds_before) number = chain.step(uhal_map_round_half_to_even, {number});
  // The CPU converts to int64 here, infinity to its least number.
  const Cut cut(chain, number, low, high, 0x1.fffffep62);
  const int result = chain.step(uhal_map_multiply, {chain.step(uhal_map_subtract, {cut.result, 2}), 3});
  launch_fake_quantize(call, {&x, &inverse, &z, &s}, chain.program({result, cut.inside}), /*is_float32=*/false);
}

// -- random -----------------------------------------------------------------------------------------------------

// Fills a tensor: one of a narrow dtype from float32, in which its numbers are many.
template <class Fill>
void with_room(at::Tensor self, const Fill& fill) {
  if (self.scalar_type() == at::kDouble || self.scalar_type() == at::kFloat) return fill(self);
  const at::Tensor wide = at::empty(self.sizes(), self.options().dtype(at::kFloat));
  fill(wide);
  self.copy_(wide);
}

// (self, mean, std, *, generator)
void log_normal(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.real(2) > 0, "log_normal_ expects std > 0.0, but found std=", call.real(2));
  with_room(self, [&](at::Tensor x) { x.normal_(call.real(1), call.real(2), call.generator(3)).exp_(); });
}

// (self, median, sigma, *, generator)
void cauchy(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.real(2) > 0, "cauchy_ expects sigma > 0.0, but found sigma=", call.real(2));
  with_room(self, [&](at::Tensor x) {
    x.uniform_(-0.5, 0.5, call.generator(3)).mul_(kPi).tan_().mul_(call.real(2)).add_(call.real(1));
  });
}

// (self, p, *, generator)
void geometric(Call& call) {
  at::Tensor self = call.tensor(0);
  const double p = call.real(1);
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  const at::Tensor uniform = at::empty(self.sizes(), self.options().dtype(at::kFloat));
  uniform.uniform_(0, 1, call.generator(2));
  self.copy_(uniform.neg().log1p().div(std::log1p(-p)).ceil().clamp_min(1));
}

// (self, num_samples, replacement, *, generator)
void multinomial(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t count = call.integer(1);
  const bool replaces = call.boolean(2);
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replaces || count <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  if (self.numel() == 0) {
    c10::DimVector sizes(self.sizes());
    sizes.back() = count;
    call.make_result(0, sizes, at::kLong);
    return;
  }
  const at::Tensor weights = self.to(self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor is_valid = weights.ge(0).logical_and(weights.isinf().logical_not()).all();
  TORCH_CHECK(is_valid.item<bool>(), "probability tensor contains either `inf`, `nan` or element < 0");
  const at::Tensor totals = weights.sum(-1, true);
  TORCH_CHECK(totals.gt(0).all().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replaces || count == 1) {
    // The order of arrival of exponential times with these rates.
    const at::Tensor times = at::empty_like(weights);
    times.exponential_(1, call.generator(3));
    const at::Tensor speed = weights / times.clamp_min_(1e-37);
    call.set_result(0, std::get<1>(speed.topk(count, -1)));
    return;
  }
  const at::Tensor sums = weights.cumsum(-1);
  c10::DimVector sizes(self.sizes());
  sizes.back() = count;
  const at::Tensor places = at::empty(sizes, weights.options());
  places.uniform_(0, 1, call.generator(3));
  // What rounding puts at or above the last sum belongs to the last one with a weight.
  const at::Tensor found = at::searchsorted(sums, places * sums.narrow(-1, sums.size(-1) - 1, 1), false, true);
  const at::Tensor last = at::searchsorted(sums, sums.narrow(-1, sums.size(-1) - 1, 1).contiguous());
  call.set_result(0, at::minimum(found, last));
}

constexpr Kernel kComposedKernels[] = {
    {"frac", kFloats, fraction},
    {"exp2", kAll, exp2},
    {"sinc", kAll, sinc},
    {"special_entr", kReal, entropy},
    {"logaddexp", kFloats, log_add_exp<false>},
    {"logaddexp2", kFloats, log_add_exp<true>},
    {"logit", kReal, logit},
    {"logit_backward", kFloats, logit_backward},
    {"_weight_norm_interface", kFloats, weight_norm},
    {"_weight_norm_interface_backward", kFloats, weight_norm_backward},
    {"fake_quantize_per_tensor_affine_cachemask", kFloats, fake_quantize_by_numbers},
    {"fake_quantize_per_channel_affine_cachemask", kFloats, fake_quantize_by_channels},
    {"log_normal_", kFloats, log_normal},
    {"cauchy_", kFloats, cauchy},
    {"geometric_", kNumbers, geometric},
    {"multinomial", kFloats, multinomial},
};

}  // namespace

void register_composed() { register_kernels(kComposedKernels); }

}  // namespace unihal::pytorch
