// Softmax, log-softmax and their gradients.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

template <bool logarithm>
void softmax(Context context, Input x, int axis, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  if (in.rank == 0) return fill(context, out, logarithm ? 0 : 1, 0);
  const auto attributes = softmax_attributes(from_front(axis, in.rank), logarithm);
  context.run(UHAL_OP_SOFTMAX, {&in}, {&out}, &attributes);
}

template <bool logarithm>
void softmax_grad(Context context, Input y, Input dy, int axis, Output dx) {
  const View forward = y.view(), gradient = dy.view();
  const View out = context.allocate(dx, forward.dtype);
  if (forward.rank == 0) return fill_zero(context, out);
  const auto attributes = softmax_attributes(from_front(axis, forward.rank), logarithm);
  context.run(UHAL_OP_SOFTMAX_BACKWARD, {&forward, &gradient}, {&out}, &attributes);
}

}  // namespace

KernelTable softmax_kernels() {
  return {
      UNIHAL_KERNEL("softmax", kFloats, softmax<false>),
      UNIHAL_KERNEL("softmax_grad", kFloats, softmax_grad<false>),
      UNIHAL_KERNEL("log_softmax", kFloats, softmax<true>),
      UNIHAL_KERNEL("log_softmax_grad", kFloats, softmax_grad<true>),
  };
}

}  // namespace unihal::paddle
