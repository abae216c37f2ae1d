// Tensors from numbers.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void full(Context context, Integers shape, Scalar value, Dtype dtype, Output y) {
  fill(context, context.allocate(y, to_uhal(dtype), shape.data(), shape.size()), value.number(), value.integer());
}

void full_like(Context context, Input, Scalar value, Dtype dtype, Output y) {
  fill(context, context.allocate(y, to_uhal(dtype)), value.number(), value.integer());
}

void arange(Context context, double start, double end, double step, uhal_dtype dtype, Output y) {
  if (step == 0) raise(UHAL_INVALID_ARGUMENT, "(unihal) arange: the step is 0; it must not be");
  const double length = (end - start) / step;
  const int64_t count = length > 0 ? static_cast<int64_t>(__builtin_ceil(length)) : 0;
  const View out = context.allocate(y, dtype, &count, 1);
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.start = start;
  attributes.step = step;
  attributes.integer_start = static_cast<int64_t>(start);
  attributes.integer_step = static_cast<int64_t>(step);
  context.run(UHAL_OP_IOTA, {}, {&out}, &attributes);
}

void arange_scalar(Context context, Scalar start, Scalar end, Scalar step, Output y) {
  arange(context, start.number(), end.number(), step.number(), y.uhal(), y);
}

void arange_tensor(Context context, Input start, Input end, Input step, Output y) {
  arange(context, read_number(context, start.view()), read_number(context, end.view()),
         read_number(context, step.view()), start.uhal(), y);
}

template <bool upper>
void triangle(Context context, Input x, int diagonal, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  attributes.diagonal = diagonal;
  context.run(UHAL_OP_TRIANGULAR, {&in}, {&out}, &attributes);
}

}  // namespace

KernelTable creation_kernels() {
  return {
      UNIHAL_KERNEL("full", kEvery, full),
      UNIHAL_KERNEL("full_like", kEvery, full_like),
      UNIHAL_KERNEL("arange", kNumbers, arange_scalar),
      UNIHAL_KERNEL("arange_tensor", kFloats | kInt32And64, arange_tensor),
      UNIHAL_KERNEL("tril", kReal, triangle<false>),
      UNIHAL_KERNEL("triu", kReal, triangle<true>),
      UNIHAL_KERNEL("tril_grad", kReal, triangle<false>),
      UNIHAL_KERNEL("triu_grad", kReal, triangle<true>),
  };
}

}  // namespace unihal::paddle
