// add, sub, mul with their alpha, powers, fills, where, clamp: what is elementwise but more than a row.
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/sub_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// self + alpha * other, or self - alpha * other.
template <class Meta, bool kSubtract>
void add(Call& call) {
  const at::Scalar alpha = call.scalar(2);
  Structured<Meta> iterator(call);
  iterator.meta(call.tensor(0), call.tensor(1), alpha);
  if (iterator.numel() == 0) return;
  const uhal_map_function function = kSubtract ? uhal_map_subtract : uhal_map_add;
  const bool is_one = alpha.isComplex() ? alpha.toComplexDouble() == c10::complex<double>(1, 0) : alpha.toDouble() == 1;
  const bool is_real = !c10::isComplexType(iterator.common_dtype());
  // Numbers that PyTorch keeps on the host are a parameter: (x + p1) * p0.
  if (is_real && iterator.is_cpu_scalar(2) && !iterator.is_cpu_scalar(1)) {
    const double other = iterator.tensor(2).item().toDouble() * alpha.toDouble();
    const View x = view_of(iterator, 1);
    const View y = view_of(iterator, 0);
    if (c10::isFloatingType(iterator.common_dtype()) || std::abs(other) < 9e15) {
      return call.map(uhal_map_add_then_scale, {&x}, {&y}, {1, kSubtract ? -other : other});
    }
  }
  if (is_one) return launch_map(call, iterator, function);
  call.require(is_real, "an alpha for complex numbers");
  const View x = iterator.is_cpu_scalar(1) ? call.constant(iterator.tensor(1).item(), iterator.common_dtype())
                                           : view_of(iterator, 1);
  const View y = iterator.is_cpu_scalar(2) ? call.constant(iterator.tensor(2).item(), iterator.common_dtype())
                                           : view_of(iterator, 2);
  const View z = view_of(iterator, 0);
  uhal_map_chain_attributes chain = {};
  chain.struct_size = sizeof chain;
  chain.step_count = 2;
  chain.functions[0] = uhal_map_scale;
  chain.operands[0][0] = 1;
  chain.parameters[0][0] = alpha.toDouble();
  chain.functions[1] = function;
  chain.operands[1][0] = 0;
  chain.operands[1][1] = 2;
  chain.results[0] = 3;
  call.launch(UHAL_OP_MAP_CHAIN, {&x, &y}, {&z}, &chain);
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
  call.fill(view_of(iterator, 0), call.scalar(1));
}

void fill_with_tensor(Call& call) {
  at::Tensor self = call.tensor(0);
  TORCH_CHECK(call.tensor(1).dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              call.tensor(1).dim(), " dimensions.");
  self.copy_(call.tensor(1));
}

void zero(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const auto iterator = at::TensorIterator::borrowing_nullary_op(self);
  call.fill(view_of(iterator, 0), 0);
}

constexpr Kernel kKernels[] = {
    {"add.Tensor", kAll, add<at::meta::structured_add_Tensor, false>},
    {"sub.Tensor", kAll, add<at::meta::structured_sub_Tensor, true>},
    {"mul.Tensor", kAll, multiply},
    {"fill_.Scalar", kStored, fill_with_number},
    {"fill_.Tensor", kStored, fill_with_tensor},
    {"zero_", kStored, zero},
};

}  // namespace

void register_arithmetic() { register_kernels(kKernels); }

}  // namespace unihal::pytorch
