// The larger and the smaller of two numbers where a NaN counts for nothing.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

template <int function>
void extreme(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  const View out = context.allocate(z, a.dtype);
  if (!is_floating(out.dtype)) return context.map(function, {&a, &b}, {&out});
  // In place the output would take an operand's place too early.
  const Scratch found(context, out.dtype, out), missing(context, UHAL_BOOL, out);
  context.map(function, {&a, &b}, {&found});
  context.map(uhal_map_is_nan, {&b}, {&missing});
  context.map(uhal_map_select, {&missing, &a, &found}, {&found});
  context.map(uhal_map_is_nan, {&a}, {&missing});
  context.map(uhal_map_select, {&missing, &b, &found}, {&out});
}

}  // namespace

KernelTable extreme_kernels() {
  return {
      UNIHAL_KERNEL("fmax", kNumbers, extreme<uhal_map_maximum>),
      UNIHAL_KERNEL("fmin", kNumbers, extreme<uhal_map_minimum>),
  };
}

}  // namespace unihal::paddle
