// Vectors divided by their norms.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void reduce_sum(const Context& context, const View& x, const View& y) {
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
}

// x / sqrt(sum of x^2 along an axis + epsilon)
void norm(Context context, Input x, int axis, float epsilon, bool is_test, Output out, Output norms) {
  const View in = x.view();
  const View target = context.allocate(out, in.dtype);
  const View lengths = in.with_axis_one(from_front(axis, in.rank));
  const Scratch squares(context, accumulator(in.dtype), in), sum(context, accumulator(in.dtype), lengths);
  if (target.elements() > 0) {
    context.map(uhal_map_square, {&in}, {&squares});
    reduce_sum(context, squares, sum);
    context.map(uhal_map_scale, {&sum}, {&sum}, {1, epsilon});
    context.map(uhal_map_sqrt, {&sum}, {&sum});
    context.map(uhal_map_divide, {&in, &sum}, {&target});
  }
  if (norms && !is_test) copy_or_cast(context, sum, context.allocate(norms, in.dtype, lengths.shape, lengths.rank));
}

// (dy - x sum(dy x) / norm^2) / norm
void norm_grad(Context context, Input x, Input norms, Input dout, int, float, bool, Output dx) {
  const View in = x.view(), lengths = norms.view(), gradient = dout.view();
  const View target = context.allocate(dx, in.dtype);
  if (target.elements() == 0) return;
  const uhal_dtype wide = accumulator(in.dtype);
  const Scratch part(context, wide, in), sum(context, wide, lengths), squared(context, wide, lengths);
  context.map(uhal_map_multiply, {&gradient, &in}, {&part});
  reduce_sum(context, part, sum);
  context.map(uhal_map_square, {&lengths}, {&squared});
  context.map(uhal_map_divide, {&sum, &squared}, {&sum});
  context.map(uhal_map_multiply, {&in, &sum}, {&part});
  context.map(uhal_map_subtract, {&gradient, &part}, {&part});
  context.map(uhal_map_divide, {&part, &lengths}, {&target});
}

// x, shortened to max_norm if it is longer.
void clip_by_norm(Context context, Input x, float max_norm, Output out) {
  const View in = x.view();
  const View target = context.allocate(out, in.dtype);
  if (target.elements() == 0) return;
  const int64_t one[] = {1};
  const uhal_dtype wide = accumulator(in.dtype);
  const Scratch squares(context, wide, in), length(context, wide, one, 1), least(context, wide, one, 1);
  context.map(uhal_map_square, {&in}, {&squares});
  reduce_sum(context, flat(squares), length);
  context.map(uhal_map_sqrt, {&length}, {&length});
  fill(context, least, max_norm, 0);
  context.map(uhal_map_maximum, {&length, &least}, {&length});
  context.map(uhal_map_divide, {&least, &length}, {&length});
  const View factor(length.data, wide, nullptr, 0);
  context.map(uhal_map_multiply, {&in, &factor}, {&target});
}

// Of slices along an axis: what they are multiplied by, and their norms.
struct SliceNorms {
  int64_t dims[UHAL_MAX_RANK] = {};
  View in;
  Scratch powers, norms, factors, longer;

  static View shape(const View& x, int axis) {
    View result(nullptr, x.dtype, nullptr, 0);
    result.rank = x.rank;
    for (int i = 0; i < x.rank; ++i) result.shape[i] = i == axis ? x.shape[i] : 1;
    return result;
  }

  SliceNorms(const Context& context, const View& x, float p, int axis, float max_norm)
      : in(x),
        powers(context, accumulator(x.dtype), x),
        norms(context, accumulator(x.dtype), shape(x, axis)),
        factors(context, accumulator(x.dtype), shape(x, axis)),
        longer(context, UHAL_BOOL, shape(x, axis)) {
    const Scratch limit(context, norms.dtype, nullptr, 0), one(context, norms.dtype, nullptr, 0);
    context.map(uhal_map_absolute, {&in}, {&powers});
    context.map(uhal_map_power_scalar, {&powers}, {&powers}, {p});
    reduce_sum(context, powers, norms);
    context.map(uhal_map_power_scalar, {&norms}, {&norms}, {1.0 / p});
    fill(context, limit, max_norm, 0);
    fill(context, one, 1, 0);
    context.map(uhal_map_greater, {&norms, &limit}, {&longer});
    context.map(uhal_map_divide, {&limit, &norms}, {&factors});
    context.map(uhal_map_select, {&longer, &factors, &one}, {&factors});
  }
};

void renorm(Context context, Input x, float p, int axis, float max_norm, Output out) {
  const View in = x.view();
  const View target = context.allocate(out, in.dtype);
  if (target.elements() == 0) return;
  const SliceNorms slices(context, in, p, from_front(axis, in.rank), max_norm);
  context.map(uhal_map_multiply, {&in, &slices.factors}, {&target});
}

// With f = m / n of a slice that is longer than m: dx = f dy - (f / n) (sum of dy x) |x|^(p-1) sign(x)
// n^(1-p).
void renorm_grad(Context context, Input x, Input dout, float p, int axis, float max_norm, Output dx) {
  const View in = x.view(), gradient = dout.view();
  const View target = context.allocate(dx, in.dtype);
  if (target.elements() == 0) return;
  const SliceNorms slices(context, in, p, from_front(axis, in.rank), max_norm);
  const uhal_dtype wide = slices.norms.dtype;
  const Scratch part(context, wide, in), sign(context, wide, in), weight(context, wide, slices.norms),
      other(context, wide, slices.norms);
  context.map(uhal_map_multiply, {&gradient, &in}, {&part});
  reduce_sum(context, part, weight);
  context.map(uhal_map_multiply, {&weight, &slices.factors}, {&weight});
  context.map(uhal_map_divide, {&weight, &slices.norms}, {&weight});
  context.map(uhal_map_power_scalar, {&slices.norms}, {&other}, {1.0 - p});
  context.map(uhal_map_multiply, {&weight, &other}, {&weight});
  const Scratch zero(context, wide, nullptr, 0);
  fill_zero(context, zero);
  context.map(uhal_map_select, {&slices.longer, &weight, &zero}, {&weight});
  context.map(uhal_map_absolute, {&in}, {&part});
  context.map(uhal_map_power_scalar, {&part}, {&part}, {p - 1.0});
  context.map(uhal_map_sign, {&in}, {&sign});
  context.map(uhal_map_multiply, {&part, &sign}, {&part});
  context.map(uhal_map_multiply, {&part, &weight}, {&part});
  context.map(uhal_map_multiply, {&gradient, &slices.factors}, {&sign});
  context.map(uhal_map_subtract, {&sign, &part}, {&target});
}

}  // namespace

KernelTable vector_norm_kernels() {
  return {
      UNIHAL_KERNEL("clip_by_norm", kFloats, clip_by_norm),   UNIHAL_KERNEL("norm", kFloats, norm),
      UNIHAL_KERNEL("norm_grad", kFloats, norm_grad),         UNIHAL_KERNEL("renorm", kWideFloats, renorm),
      UNIHAL_KERNEL("renorm_grad", kWideFloats, renorm_grad),
  };
}

}  // namespace unihal::paddle
