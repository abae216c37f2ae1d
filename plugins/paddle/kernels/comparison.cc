// Comparisons, logic and bits.
#include "plugins/paddle/kernels/maps.h"

namespace unihal::paddle {
namespace {

// out = all of function(x, y), a scalar
void equal_all(Context context, Input x, Input y, Output out) {
  const View a = x.view(), b = y.view();
  const View result = context.allocate(out, UHAL_BOOL);
  if (!same_shape(a, b)) return fill_zero(context, result);
  const Scratch equal(context, UHAL_BOOL, a);
  context.map(uhal_map_equal, {&a, &b}, {&equal});
  const View flat_equal = flat(equal), one = result.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_ALL);
  context.run(UHAL_OP_REDUCE, {&flat_equal}, {&one}, &attributes);
}

}  // namespace

KernelTable comparison_kernels() {
  return {
      UNIHAL_KERNEL("equal", kReal, binary_test<uhal_map_equal>),
      UNIHAL_KERNEL("greater_equal", kReal, binary_test<uhal_map_greater_equal>),
      UNIHAL_KERNEL("greater_than", kReal, binary_test<uhal_map_greater>),
      UNIHAL_KERNEL("less_equal", kReal, binary_test<uhal_map_less_equal>),
      UNIHAL_KERNEL("less_than", kReal, binary_test<uhal_map_less>),
      UNIHAL_KERNEL("not_equal", kReal, binary_test<uhal_map_not_equal>),
      UNIHAL_KERNEL("equal_all", kReal, equal_all),

      UNIHAL_KERNEL("isfinite", kNumbers, unary_test<uhal_map_is_finite>),
      UNIHAL_KERNEL("isinf", kNumbers, unary_test<uhal_map_is_infinite>),
      UNIHAL_KERNEL("isnan", kNumbers, unary_test<uhal_map_is_nan>),

      UNIHAL_KERNEL("logical_and", kReal, binary_test<uhal_map_logical_and>),
      UNIHAL_KERNEL("logical_not", kReal, unary_test<uhal_map_logical_not>),
      UNIHAL_KERNEL("logical_or", kReal, binary_test<uhal_map_logical_or>),
      UNIHAL_KERNEL("logical_xor", kReal, binary_test<uhal_map_logical_xor>),

      UNIHAL_KERNEL("bitwise_and", kIntegers | kBoolOnly, binary<uhal_map_bitwise_and>),
      UNIHAL_KERNEL("bitwise_not", kIntegers, unary<uhal_map_bitwise_not>),
      UNIHAL_KERNEL("bitwise_not", kBoolOnly, unary<uhal_map_logical_not>),
      UNIHAL_KERNEL("bitwise_or", kIntegers | kBoolOnly, binary<uhal_map_bitwise_or>),
      UNIHAL_KERNEL("bitwise_xor", kIntegers | kBoolOnly, binary<uhal_map_bitwise_xor>),
  };
}

}  // namespace unihal::paddle
