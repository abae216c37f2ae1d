// Root-mean-square normalization: y = x / sqrt(mean(x^2) + epsilon) * scale, over the last axes.
#include <numeric>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// A tensor as rows of what is normalized together.
struct NormalizedRows {
  int64_t count = 1, length = 1;

  NormalizedRows(const Context& context, const View& x, Span<int64_t> shape) {
    const int kept = x.rank - shape.size();
    if (kept < 0) invalid(context, "normalized_shape has more axes than x");
    for (int i = 0; i < x.rank; ++i) {
      if (i >= kept && shape[static_cast<size_t>(i - kept)] != x.shape[i]) {
        invalid(context, "normalized_shape is not the shape of x's last axes");
      }
      (i < kept ? count : length) *= x.shape[i];
    }
  }
  View of(const View& x) const { return x.reshaped({count, length}); }
  View column(const View& x) const { return x.reshaped({count, 1}); }
  View row(const View& x) const { return x.reshaped({1, length}); }
};

// What the scale of each row is: 1 / sqrt(mean(x^2) + epsilon), in the dtype of y.
void inverse_root(const Context& context, const View& x, double epsilon, const View& y) {
  const Scratch squares(context, y.dtype, x);
  context.map(uhal_map_square, {&x}, {&squares});
  const auto mean = reduce_attributes(UHAL_REDUCE_MEAN);
  context.run(UHAL_OP_REDUCE, {&squares}, {&y}, &mean);
  context.map(uhal_map_scale, {&y}, {&y}, {1, epsilon});
  context.map(uhal_map_rsqrt, {&y}, {&y});
}

void rms_norm(Context context, Input x, OptionalInput scale, Span<int64_t> shape, double epsilon, Output y,
              Output inverse) {
  const View in = x.view();
  const NormalizedRows rows(context, in, shape);
  const uhal_dtype dtype = accumulator(in.dtype);
  const View allocated = context.allocate(y, in.dtype);
  const View factor = context.allocate(inverse, dtype, in.shape, in.rank - shape.size());
  if (in.elements() == 0) return;
  const View data = rows.of(in), out = rows.of(allocated), each = rows.column(factor);
  // x^2 in the accumulator's dtype: that of float16 would overflow.
  const Scratch wide(context, dtype, data);
  copy_or_cast(context, data, wide);
  inverse_root(context, wide, epsilon, each);
  if (!scale) return context.map(uhal_map_multiply, {&wide, &each}, {&out});
  const View gamma = rows.row(scale.view());
  context.map(uhal_map_multiply, {&wide, &each}, {&wide});
  context.map(uhal_map_multiply, {&wide, &gamma}, {&out});
}

// With h = x * inverse and g = dy * scale: dx = inverse * (g - h * mean(g * h)), dscale = sum(dy * h)
void rms_norm_grad(Context context, Input x, OptionalInput scale, Input inverse, Input dy, Span<int64_t> shape, double,
                   Output dx, Output dscale) {
  const View in = x.view();
  const NormalizedRows rows(context, in, shape);
  const uhal_dtype dtype = accumulator(in.dtype);
  const View to_x = dx ? context.allocate(dx, in.dtype) : View();
  const View to_scale = dscale && scale ? context.allocate(dscale, scale.uhal()) : View();
  if (in.elements() == 0) {
    if (to_scale.data != nullptr) fill_zero(context, to_scale);
    return;
  }
  const View data = rows.of(in), gradient = rows.of(dy.view()), each = rows.column(inverse.view());
  const Scratch normal(context, dtype, data), part(context, dtype, data), mean(context, dtype, each);
  context.map(uhal_map_multiply, {&data, &each}, {&normal});
  if (to_scale.data != nullptr) {
    context.map(uhal_map_multiply, {&gradient, &normal}, {&part});
    sum_to_shape(context, part, rows.row(to_scale));
  }
  if (!dx) return;
  const Scratch scaled(context, dtype, data);
  copy_or_cast(context, gradient, scaled);
  if (scale) {
    const View gamma = rows.row(scale.view());
    context.map(uhal_map_multiply, {&scaled, &gamma}, {&scaled});
  }
  context.map(uhal_map_multiply, {&scaled, &normal}, {&part});
  const auto average = reduce_attributes(UHAL_REDUCE_MEAN);
  context.run(UHAL_OP_REDUCE, {&part}, {&mean}, &average);
  context.map(uhal_map_multiply, {&normal, &mean}, {&normal});
  context.map(uhal_map_subtract, {&scaled, &normal}, {&scaled});
  const View out = rows.of(to_x);
  context.map(uhal_map_multiply, {&scaled, &each}, {&out});
}

}  // namespace

KernelTable rms_norm_kernels() {
  return {
      UNIHAL_KERNEL("rms_norm", kFloats, rms_norm),
      UNIHAL_KERNEL("rms_norm_grad", kFloats, rms_norm_grad),
  };
}

}  // namespace unihal::paddle
