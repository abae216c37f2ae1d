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
  call.set_result(0, at::pow(number_like(floating(call.tensor(0)), 2), floating(call.tensor(0))));
}

void sinc(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  const at::Tensor angle = self * kPi;
  call.set_result(0, at::where(self.eq(0), number_like(self, 1), angle.sin() / angle));
}

void entropy(Call& call) {
  const at::Tensor self = floating(call.tensor(0));
  call.set_result(0, at::where(self.lt(0), number_like(self, -kInfinity), at::xlogy(self, self).neg()));
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
  call.set_result(0, at::where(x.eq(y).logical_and(x.isinf()), larger, larger + rest));
}

// (self, eps)
void logit(Call& call) {
  at::Tensor self = floating(call.tensor(0));
  if (!call.is_none(1)) {
    const double low = call.real(1), high = 1 - low;
    // With an epsilon above 0.5 the lower bound is above the upper one, and goes before it.
    self = low <= high ? self.clamp(low, high) : at::where(self.lt(low), number_like(self, low), self.clamp_max(high));
  }
  call.set_result(0, (self / (1 - self)).log());
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

// Numbers as a quantized tensor would hold them, and which of them were in its range.
void fake_quantize(Call& call, const at::Tensor& scale, const at::Tensor& zero, int64_t low, int64_t high) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(low <= high, "`quant_min` should be less than or equal to `quant_max`.");
  const at::Tensor number = (self * scale.reciprocal()).round() + zero;
  call.set_result(0, ((number.clamp(low, high) - zero) * scale).to(self.scalar_type()));
  call.set_result(1, number.ge(low).logical_and(number.le(high)));
}

// (self, scale, zero_point, quant_min, quant_max)
void fake_quantize_by_numbers(Call& call) {
  const at::Tensor& self = call.tensor(0);
  fake_quantize(call, number_like(self, call.real(1)), number_like(self, call.real(2)), call.integer(3),
                call.integer(4));
}

// (self, scale, zero_point, axis, quant_min, quant_max)
void fake_quantize_by_channels(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t axis = call.integer(3);
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(call.tensor(1).dim() == 1 && call.tensor(1).numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  c10::DimVector sizes(static_cast<size_t>(self.dim()), 1);
  sizes[axis] = self.size(axis);
  fake_quantize(call, call.tensor(1).view(sizes), call.tensor(2).to(self.scalar_type()).view(sizes), call.integer(4),
                call.integer(5));
}

// -- random -----------------------------------------------------------------------------------------------------

// (self, mean, std, *, generator)
void log_normal(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.real(2) > 0, "log_normal_ expects std > 0.0, but found std=", call.real(2));
  self.normal_(call.real(1), call.real(2), call.generator(3)).exp_();
}

// (self, median, sigma, *, generator)
void cauchy(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.real(2) > 0, "cauchy_ expects sigma > 0.0, but found sigma=", call.real(2));
  self.uniform_(-0.5, 0.5, call.generator(3)).mul_(kPi).tan_().mul_(call.real(2)).add_(call.real(1));
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
