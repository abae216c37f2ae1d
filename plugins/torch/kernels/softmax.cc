// Softmax and its gradient.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

uhal_softmax_attributes attributes_of(const Call& call, int argument, int64_t rank, bool logarithm) {
  return softmax_attributes(static_cast<int>(at::maybe_wrap_dim(call.integer(argument), rank)), logarithm);
}

template <class Meta, bool kLogarithm>
void softmax(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result().numel() == 0) return;
  const View x = at_least_a_vector(call.tensor(0));
  const View y = at_least_a_vector(call.result());
  const uhal_softmax_attributes attributes = attributes_of(call, 1, call.tensor(0).dim(), kLogarithm);
  call.launch(UHAL_OP_SOFTMAX, {&x}, {&y}, &attributes);
}

// (grad_output, output, dim, input_dtype)
template <class Meta, bool kLogarithm>
void softmax_backward(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result().numel() == 0) return;
  const View dy = at_least_a_vector(call.tensor(0));
  const View y = at_least_a_vector(call.tensor(1));
  const View dx = at_least_a_vector(call.result());
  const uhal_softmax_attributes attributes = attributes_of(call, 2, call.tensor(1).dim(), kLogarithm);
  call.launch(UHAL_OP_SOFTMAX_BACKWARD, {&y, &dy}, {&dx}, &attributes);
}

constexpr Kernel kSoftmaxKernels[] = {
    {"_softmax", kFloats, softmax<at::meta::structured__softmax, false>},
    {"_log_softmax", kFloats, softmax<at::meta::structured__log_softmax, true>},
    {"_softmax_backward_data", kFloats, softmax_backward<at::meta::structured__softmax_backward_data, false>},
    {"_log_softmax_backward_data", kFloats, softmax_backward<at::meta::structured__log_softmax_backward_data, true>},
};

}  // namespace

void register_softmax() { register_kernels(kSoftmaxKernels); }

}  // namespace unihal::pytorch
