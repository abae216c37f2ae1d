// Copies: between layouts, dtypes and tensors. Paddle has no CPU fallback for the first three.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void contiguous(Context context, Input x, Output y) {
  const View in = x.strided_view();
  // The output's description may carry x's strides.
  const View dense(nullptr, in.dtype, in.shape, in.rank);
  phi.PD_TensorSetDims(y.handle, dense.rank, dense.shape, IgnoredStatus());
  phi.PD_TensorSetStrides(y.handle, dense.rank, dense.strides, IgnoredStatus());
  const View out = context.allocate(y, in.dtype);
  context.run(UHAL_OP_COPY, {&in}, {&out});
}

// Writes x into the memory that y already has, seen with other dims, strides (of elements) and offset (of bytes).
void strided_copy(Context context, Input x, Span<int64_t> dims, Span<int64_t> strides, int64_t offset, Output y) {
  phi.PD_TensorSetDims(y.handle, dims.size(), dims.data, IgnoredStatus());
  phi.PD_TensorSetStrides(y.handle, strides.size(), strides.data, IgnoredStatus());
  phi.PD_TensorSetOffset(y.handle, offset, IgnoredStatus());
  const View in = x.strided_view(), out = Tensor{y.handle}.strided_view();
  // Equal numbers of elements, possibly in other shapes.
  if (same_shape(in, out)) return context.run(UHAL_OP_COPY, {&in}, {&out});
  const Scratch dense(context, in.dtype, in);
  context.run(UHAL_OP_COPY, {&in}, {&dense});
  const View reshaped = dense.reshaped(out.shape, out.rank);
  context.run(UHAL_OP_COPY, {&reshaped}, {&out});
}

void fill_kernel(Context context, Input x, Scalar value, Output y) {
  fill(context, context.allocate(y, x.uhal()), value);
}

void fill_grad(Context context, Input dy, Scalar, Output dx) { fill_zero(context, context.allocate(dx, dy.uhal())); }

void assign(Context context, Input x, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
}

void assign_raw(Context context, OptionalInput x, Output y) {
  if (x) assign(context, Input{{x.handle}}, y);
}

void cast(Context context, Input x, Dtype dtype, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, to_uhal(dtype));
  copy_or_cast(context, in, out);
}

}  // namespace

KernelTable copy_kernels() {
  return {
      UNIHAL_KERNEL("contiguous", kEvery, contiguous), UNIHAL_KERNEL("strided_copy", kEvery, strided_copy),
      UNIHAL_KERNEL("fill", kEvery, fill_kernel),      UNIHAL_KERNEL("fill_grad", kNumbers | kComplex, fill_grad),
      UNIHAL_KERNEL("assign", kEvery, assign),         UNIHAL_KERNEL("assign_raw", kEvery, assign_raw),
      UNIHAL_KERNEL("share_data", kEvery, assign),     UNIHAL_KERNEL("cast", kEvery, cast),
  };
}

}  // namespace unihal::paddle
