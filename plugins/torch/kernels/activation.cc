// Activations and their gradients that are more than a row of elementwise.cc.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/threshold_backward_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

constexpr int kSwapped[] = {1, 0};

void gelu(Call& call) {
  Structured<at::meta::structured_gelu> iterator(call);
  iterator.infer();
  launch_map(call, iterator, call.argument(1).toStringView() == "tanh" ? uhal_map_gelu_tanh : uhal_map_gelu_erf);
}

void gelu_backward(Call& call) {
  Structured<at::meta::structured_gelu_backward> iterator(call);
  iterator.infer();
  const bool is_tanh = call.argument(2).toStringView() == "tanh";
  launch_map(call, iterator, is_tanh ? uhal_map_gelu_tanh_backward : uhal_map_gelu_erf_backward, kSwapped);
}

// (self, alpha, scale, input_scale): x > 0 ? scale x : scale alpha (exp(input_scale x) - 1)
void elu(Call& call) {
  Structured<at::meta::structured_elu> iterator(call);
  iterator.infer();
  const double alpha = call.real(1), scale = call.real(2), input_scale = call.real(3);
  if (input_scale == 1) return launch_map(call, iterator, uhal_map_selu, nullptr, {scale, alpha});
  // Right of 0 the scale is taken back.
  Chain chain(1);
  const int negative = chain.step(uhal_map_clip, {0}, {-HUGE_VAL, 0});
  const int positive = chain.step(uhal_map_scale, {chain.step(uhal_map_relu, {0})}, {scale, 0});
  const int curved =
      chain.step(uhal_map_selu, {chain.step(uhal_map_scale, {negative}, {input_scale, 0})}, {scale, alpha});
  chain.step(uhal_map_add, {positive, curved});
  launch_chain(call, iterator, chain);
}

// (grad_output, alpha, scale, input_scale, is_result, self_or_result)
void elu_backward(Call& call) {
  Structured<at::meta::structured_elu_backward> iterator(call);
  iterator.infer();
  const double alpha = call.real(1), scale = call.real(2), input_scale = call.real(3);
  if (call.boolean(4)) {
    call.require(input_scale == 1, "a gradient of the result with an input scale");
    return launch_map(call, iterator, uhal_map_selu_backward, kSwapped, {scale, alpha});
  }
  // Of the input: x > 0 ? g scale : g scale alpha input_scale exp(input_scale x)
  Chain chain(2);
  const int scaled = chain.step(uhal_map_scale, {1}, {input_scale, 0});
  const int given = chain.step(uhal_map_scale, {0}, {scale, 0});
  chain.step(uhal_map_elu_backward, {scaled, given}, {alpha * input_scale});
  launch_chain(call, iterator, chain);
}

// (grad_output, self, threshold): relu's gradient. PyTorch's iterator has self first.
void threshold_backward(Call& call) {
  Structured<at::meta::structured_threshold_backward> iterator(call);
  iterator.infer();
  const double threshold = call.real(2);
  if (threshold == 0 && c10::isFloatingType(iterator.common_dtype())) {
    return launch_map(call, iterator, uhal_map_relu_backward);
  }
  call.require(c10::isFloatingType(iterator.common_dtype()), "whole numbers");
  Chain chain(2);
  const int shifted = chain.step(uhal_map_add_then_scale, {0}, {1, -threshold});
  chain.step(uhal_map_relu_backward, {shifted, 1});
  launch_chain(call, iterator, chain);
}

void hardsigmoid_backward(Call& call) {
  Structured<at::meta::structured_hardsigmoid_backward> iterator(call);
  iterator.infer();
  launch_map(call, iterator, uhal_map_hard_tanh_backward, kSwapped, {-3, 3});
  const at::Tensor& result = call.result();
  if (result.numel() == 0) return;
  const View y = view_of(result);
  call.map(uhal_map_scale, {&y}, {&y}, {1.0 / 6, 0});
}

// Zero between -lambda and lambda, the gradient elsewhere. (grad, self, lambda)
template <class Meta>
void shrink_backward(Call& call) {
  Structured<Meta> iterator(call);
  iterator.infer();
  const double limit = call.real(2);
  Chain chain(2);
  const int shrunk = chain.step(uhal_map_hard_shrink, {1}, {limit});
  const int size = chain.step(uhal_map_absolute, {shrunk});
  chain.step(uhal_map_relu_backward, {size, 0});
  launch_chain(call, iterator, chain);
}

void log_sigmoid(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& result = call.make_result_like(self);
  call.make_result(1, {0}, self.scalar_type());  // the CPU's buffer, which our gradient does not need
  if (self.numel() == 0) return;
  const View x = view_of(self);
  const View y = view_of(result);
  call.map(uhal_map_log_sigmoid, {&x}, {&y});
}

void log_sigmoid_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& result = call.make_result_like(self);
  if (self.numel() == 0) return;
  const View dy = view_of(call.tensor(0));
  const View x = view_of(self);
  const View dx = view_of(result);
  call.map(uhal_map_log_sigmoid_backward, {&x, &dy}, {&dx});
}

void glu(Call& call) {
  Structured<at::meta::structured_glu> iterator(call);
  iterator.infer();
  Chain chain(2);
  chain.step(uhal_map_multiply, {0, chain.step(uhal_map_sigmoid, {1})});
  launch_chain(call, iterator, chain);
}

// (grad_output, self, dim)
void glu_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const int64_t axis = at::maybe_wrap_dim(call.integer(2), self.dim());
  const int64_t half = self.size(axis) / 2;
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  const View dy = view_of(call.tensor(0));
  const View x = view_of(self);
  const View dx = view_of(result);
  const int at = static_cast<int>(axis);
  const View a = x.sliced(at, 0, half), b = x.sliced(at, half, half);
  const View da = dx.sliced(at, 0, half), db = dx.sliced(at, half, half);
  Chain chain(3);  // dy, a, b
  const int gate = chain.step(uhal_map_sigmoid, {2});
  const int first = chain.step(uhal_map_multiply, {0, gate});
  const int through = chain.step(uhal_map_multiply, {0, 1});
  const int second = chain.step(uhal_map_sigmoid_backward, {gate, through});
  call.launch(UHAL_OP_MAP_CHAIN, {&dy, &a, &b}, {&da, &db}, chain.program({first, second}));
}

struct Halves {
  at::Tensor first, second;
};

Halves halves_of(const at::Tensor& x, int64_t dim) {
  const int64_t half = x.size(dim) / 2;
  return {x.narrow(dim, 0, half), x.narrow(dim, half, half)};
}

// Forward mode: (glu, x, dx, dim)
void glu_jvp(Call& call) {
  const int64_t dim = call.integer(3);
  const auto [a, b] = halves_of(call.tensor(1), dim);
  const auto [da, db] = halves_of(call.tensor(2), dim);
  const at::Tensor gate = b.sigmoid();
  call.set_result(0, da * gate + call.tensor(0) * (1 - gate) * db);
}

// Forward mode of the gradient: (grad_x, grad_glu, x, dgrad_glu, dx, dim)
void glu_backward_jvp(Call& call) {
  const at::Tensor &gradient = call.tensor(1), &moved = call.tensor(3);
  const int64_t dim = call.integer(5);
  const auto [a, b] = halves_of(call.tensor(2), dim);
  const auto [da, db] = halves_of(call.tensor(4), dim);
  const at::Tensor gate = b.sigmoid();
  const at::Tensor slope = gate * (1 - gate);
  const at::Tensor of_gate = moved * a + gradient * da + gradient * a * (1 - 2 * gate) * db;
  call.set_result(0, at::cat({moved * gate + gradient * slope * db, slope * of_gate}, dim));
}

void prelu(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (self.numel() == 0) return;
  const View x = view_of(self);
  const View w = view_of(weight);
  const View y = view_of(result);
  Chain chain(2);  // x w + relu(x) (1 - w), without a difference that cancels
  const int positive = chain.step(uhal_map_relu, {0});
  const int negative = chain.step(uhal_map_clip, {0}, {-HUGE_VAL, 0});
  chain.step(uhal_map_add, {positive, chain.step(uhal_map_multiply, {negative, 1})});
  call.launch(UHAL_OP_MAP_CHAIN, {&x, &w}, {&y}, chain.program());
}

// (grad_output, self, weight)
void prelu_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& dx = call.make_result(0, self.sizes(), self.scalar_type());
  const at::Tensor& dw = call.make_result(1, self.sizes(), self.scalar_type());
  if (self.numel() == 0) return;
  const View g = view_of(call.tensor(0));
  const View x = view_of(self);
  const View w = view_of(call.tensor(2));
  const View to_x = view_of(dx), to_w = view_of(dw);
  Chain chain(3);  // g, x, w
  const int positive = chain.step(uhal_map_relu_backward, {1, 0});
  const int rest = chain.step(uhal_map_subtract, {0, positive});
  const int first = chain.step(uhal_map_add, {positive, chain.step(uhal_map_multiply, {rest, 2})});
  const int negative = chain.step(uhal_map_clip, {1}, {-HUGE_VAL, 0});
  const int second = chain.step(uhal_map_multiply, {0, negative});
  call.launch(UHAL_OP_MAP_CHAIN, {&g, &x, &w}, {&to_x, &to_w}, chain.program({first, second}));
}

void mish_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& result = call.make_result_like(self);
  if (self.numel() == 0) return;
  const View g = view_of(call.tensor(0));
  const View x = view_of(self);
  const View dx = view_of(result);
  Chain chain(2);  // t = tanh(softplus(x)); t + x (1 - t^2) sigmoid(x)
  const int t = chain.step(uhal_map_tanh, {chain.step(uhal_map_softplus, {1}, {1, 20})});
  const int gate = chain.step(uhal_map_sigmoid, {1});
  const int slope = chain.step(uhal_map_tanh_backward, {t, chain.step(uhal_map_multiply, {1, gate})});
  chain.step(uhal_map_multiply, {0, chain.step(uhal_map_add, {t, slope})});
  call.launch(UHAL_OP_MAP_CHAIN, {&g, &x}, {&dx}, chain.program());
}

constexpr Kernel kActivationKernels[] = {
    {"gelu", kFloats, gelu},
    {"gelu_backward", kFloats, gelu_backward},
    {"elu", kFloats, elu},
    {"elu_backward", kFloats, elu_backward},
    {"threshold_backward", kNumbers, threshold_backward},
    {"hardsigmoid_backward", kFloats, hardsigmoid_backward},
    {"hardshrink_backward", kFloats, shrink_backward<at::meta::structured_hardshrink_backward>},
    {"softshrink_backward", kFloats, shrink_backward<at::meta::structured_softshrink_backward>},
    {"log_sigmoid_forward", kFloats, log_sigmoid},
    {"log_sigmoid_backward", kFloats, log_sigmoid_backward},
    {"glu", kFloats, glu},
    {"glu_backward", kFloats, glu_backward},
    {"glu_jvp", kFloats, glu_jvp},
    {"glu_backward_jvp", kFloats, glu_backward_jvp},
    {"_prelu_kernel", kFloats, prelu},
    {"_prelu_kernel_backward", kFloats, prelu_backward},
    {"mish_backward", kFloats, mish_backward},
};

}  // namespace

void register_activation() { register_kernels(kActivationKernels); }

}  // namespace unihal::pytorch
