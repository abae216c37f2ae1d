// Variances and standard deviations, and their gradients.
#include <algorithm>
#include <string>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// What is left of the axes is x's shape with length 1 at those over which deviations are taken; no axes are all.
struct Spread {
  int64_t dims[UHAL_MAX_RANK];
  int rank;
  double counted = 1;  // elements of a deviation

  Spread(const View& x, const Span<int64_t>& axes) : rank(x.rank) {
    std::copy(x.shape, x.shape + x.rank, dims);
    bool reduced[UHAL_MAX_RANK] = {};
    for (int64_t axis : axes) reduced[from_front(axis, x.rank)] = true;
    for (int i = 0; i < x.rank; ++i) {
      if (axes.size() != 0 && !reduced[i]) continue;
      counted *= static_cast<double>(x.shape[i]);
      dims[i] = 1;
    }
  }
  // Of fewer elements than the correction a variance is infinite, as on Paddle's CPU, and has no gradient.
  double divisor(double correction) const { return std::max(0.0, counted - correction); }
};

// y = x without its means, which are of accumulator's dtype
void subtract_means(const Context& context, const View& x, const Spread& spread, const View& y) {
  const Scratch means(context, y.dtype, spread.dims, spread.rank);
  const auto attributes = reduce_attributes(UHAL_REDUCE_MEAN);
  context.run(UHAL_OP_REDUCE, {&x}, {&means}, &attributes);
  context.map(uhal_map_subtract, {&x, &means}, {&y});
}

void variance_to(const Context& context, const View& x, const Spread& spread, double correction, const View& y) {
  if (y.elements() == 0) return;
  const Scratch deviations(context, accumulator(x.dtype), x), divisor(context, deviations.dtype, nullptr, 0);
  if (x.elements() > 0) subtract_means(context, x, spread, deviations);
  fill(context, divisor, spread.divisor(correction), 0);
  const auto squares = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
  context.run(UHAL_OP_REDUCE, {&deviations}, {&y}, &squares);
  context.map(uhal_map_divide, {&y, &divisor}, {&y});
}

template <bool root>
void deviation(Context context, Input x, Span<int64_t> axes, bool, bool, double correction, Output y) {
  const View in = x.view();
  const Spread spread(in, axes);
  const View out = context.allocate(y, in.dtype).reshaped(spread.dims, in.rank);
  if (out.elements() == 0) return;
  const Scratch variance(context, accumulator(in.dtype), out);
  variance_to(context, in, spread, correction, variance);
  if (root) context.map(uhal_map_sqrt, {&variance}, {&variance});
  copy_or_cast(context, variance, out);
}

void variance(Context context, Input x, Span<int64_t> axes, bool keep, Output y) {
  deviation<false>(context, x, axes, keep, false, 0, y);
}

// dx = 2 (x - mean) dy / divisor
void gradient_to(const Context& context, const View& x, const Spread& spread, double correction, const View& dy,
                 Output dx) {
  const View out = context.allocate(dx, x.dtype);
  if (out.elements() == 0) return;
  const double divisor = spread.divisor(correction);
  const Scratch deviations(context, accumulator(x.dtype), x), factor(context, deviations.dtype, nullptr, 0);
  subtract_means(context, x, spread, deviations);
  fill(context, factor, 2 / divisor, 0);
  context.map(uhal_map_multiply, {&deviations, &factor}, {&deviations});
  context.map(uhal_map_multiply, {&deviations, &dy}, {&out});
}

void var_grad(Context context, Input x, Input dy, Span<int64_t> axes, bool, bool, double correction, Output dx) {
  const View in = x.view();
  const Spread spread(in, axes);
  gradient_to(context, in, spread, correction, dy.view().reshaped(spread.dims, in.rank), dx);
}

// That of the variance, with dy / (2 y), or 0 where y is 0.
void std_grad(Context context, Input x, Input y, Input dy, Span<int64_t> axes, bool, bool, double correction,
              Output dx) {
  const View in = x.view(), root = y.view(), gradient = dy.view();
  const Spread spread(in, axes);
  const Scratch slope(context, accumulator(in.dtype), root);
  if (root.elements() > 0) {
    context.map(uhal_map_divide_no_nan, {&gradient, &root}, {&slope});
    context.map(uhal_map_scale, {&slope}, {&slope}, {0.5, 0});
  }
  gradient_to(context, in, spread, correction, slope.reshaped(spread.dims, in.rank), dx);
}

}  // namespace

KernelTable variance_kernels() {
  return {
      UNIHAL_KERNEL("std", kFloats, deviation<true>),  UNIHAL_KERNEL("std_grad", kFloats, std_grad),
      UNIHAL_KERNEL("var", kFloats, deviation<false>), UNIHAL_KERNEL("var_grad", kFloats, var_grad),
      UNIHAL_KERNEL("variance", kFloats, variance),
  };
}

}  // namespace unihal::paddle
