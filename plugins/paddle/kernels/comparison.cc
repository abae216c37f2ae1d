// Comparisons, logic and bits.
#include "plugins/paddle/kernels/maps.h"
#include "plugins/paddle/phi_types.h"

namespace unihal::paddle {
namespace {

// out = whether all of a view's elements are true, a scalar
void reduce_all(const Context& context, const View& tests, const View& out) {
  const View elements = flat(tests), one = out.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_ALL);
  context.run(UHAL_OP_REDUCE, {&elements}, {&one}, &attributes);
}

void equal_all(Context context, Input x, Input y, Output out) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View result = context.allocate(out, UHAL_BOOL);
  if (!same_shape(a, b)) return fill_zero(context, result);
  const Scratch equal(context, UHAL_BOOL, a);
  context.map(uhal_map_equal, {&a, &b}, {&equal});
  reduce_all(context, equal, result);
}

// |x - y| <= absolute + relative * |y|, or equal (infinities), or both NaN if those count as equal
void close_elements(const Context& context, const View& a, const View& b, double relative, double absolute,
                    bool equal_nan, const View& out) {
  const Scratch difference(context, UHAL_FLOAT64, out), bound(context, UHAL_FLOAT64, b), test(context, UHAL_BOOL, out);
  context.map(uhal_map_subtract, {&a, &b}, {&difference});
  context.map(uhal_map_absolute, {&difference}, {&difference});
  context.map(uhal_map_absolute, {&b}, {&bound});
  context.map(uhal_map_scale, {&bound}, {&bound}, {relative, absolute});
  context.map(uhal_map_less_equal, {&difference, &bound}, {&out});
  // An infinite bound lets everything pass, but only finite differences are close.
  context.map(uhal_map_is_finite, {&difference}, {&test});
  context.map(uhal_map_logical_and, {&out, &test}, {&out});
  context.map(uhal_map_equal, {&a, &b}, {&test});
  context.map(uhal_map_logical_or, {&out, &test}, {&out});
  if (!equal_nan) return;
  const Scratch both(context, UHAL_BOOL, out);
  context.map(uhal_map_is_nan, {&a}, {&test});
  context.map(uhal_map_is_nan, {&b}, {&both});
  context.map(uhal_map_logical_and, {&test, &both}, {&test});
  context.map(uhal_map_logical_or, {&out, &test}, {&out});
}

// The dtypes that Paddle's own kernels take a tolerance in.
void check_tolerance(const Context& context, const char* name, const Scalar& tolerance, bool float32_too) {
  const int32_t dtype = tolerance.dtype();
  if (dtype == kPhiFloat64 || (dtype == kPhiFloat32 && float32_too)) return;
  invalid(context, std::string(name) + " is not a float64" + (float32_too ? " or a float32" : ""));
}

void isclose(Context context, Input x, Input y, Scalar relative, Scalar absolute, bool equal_nan, Output out) {
  const View a = x.view(), b = y.view();
  const View result = context.allocate(out, UHAL_BOOL);
  if (a.elements() == 0) return;
  check_tolerance(context, "atol", absolute, false);
  check_tolerance(context, "rtol", relative, false);
  require_same_dtype(context, a, b);
  close_elements(context, a, b, relative.number(), absolute.number(), equal_nan, result);
}

void allclose(Context context, Input x, Input y, Scalar relative, Scalar absolute, bool equal_nan, Output out) {
  const View a = x.view(), b = y.view();
  check_tolerance(context, "rtol", relative, true);
  check_tolerance(context, "atol", absolute, true);
  require_same_dtype(context, a, b);
  const View result = context.allocate(out, UHAL_BOOL);
  if (a.elements() == 0 || b.elements() == 0) return fill(context, result, 1, 1);
  const Scratch close(context, UHAL_BOOL, a);
  close_elements(context, a, b, relative.number(), absolute.number(), equal_nan, close);
  reduce_all(context, close, result);
}

// How many labels are among the k best: their share, their number, and the number of all.
void accuracy(Context context, Input, Input indices, Input label, Output share, Output correct, Output total) {
  if (label.uhal() != UHAL_INT64 || indices.uhal() != UHAL_INT64) {
    invalid(context, std::string("indices and labels are ") + uhal_dtype_name(indices.uhal()) + " and " +
                         uhal_dtype_name(label.uhal()) + ", expected int64");
  }
  const View best = indices.view(), labels = label.view().reshaped({label.elements(), 1});
  const int64_t rows[] = {best.shape[0], 1}, one[] = {1, 1};
  const Scratch equal(context, UHAL_BOOL, best), hit(context, UHAL_BOOL, rows, 2), count(context, UHAL_INT32, one, 2);
  const Scratch mean(context, UHAL_FLOAT32, one, 2), as_number(context, UHAL_FLOAT32, rows, 2);
  const auto any = reduce_attributes(UHAL_REDUCE_ANY), sum = reduce_attributes(UHAL_REDUCE_SUM),
             average = reduce_attributes(UHAL_REDUCE_MEAN);
  context.map(uhal_map_equal, {&best, &labels}, {&equal});
  context.run(UHAL_OP_REDUCE, {&equal}, {&hit}, &any);
  copy_or_cast(context, hit, as_number);
  context.run(UHAL_OP_REDUCE, {&as_number}, {&mean}, &average);
  context.run(UHAL_OP_REDUCE, {&hit}, {&count}, &sum);
  copy_or_cast(context, flat(mean), flat(context.allocate(share, UHAL_FLOAT32)));
  copy_or_cast(context, flat(count), flat(context.allocate(correct, UHAL_INT32)));
  fill(context, context.allocate(total, UHAL_INT32), 0, rows[0]);
}

// The same bits, of an integer without a sign
View without_sign(View view) {
  switch (view.dtype) {
    case UHAL_INT8:
      view.dtype = UHAL_UINT8;
      break;
    case UHAL_INT16:
      view.dtype = UHAL_UINT16;
      break;
    case UHAL_INT32:
      view.dtype = UHAL_UINT32;
      break;
    case UHAL_INT64:
      view.dtype = UHAL_UINT64;
      break;
    default:
      break;
  }
  return view;
}

// Arithmetic shifts repeat the sign, logical ones shift zeros in.
template <int function>
void bitwise_shift(Context context, Input x, Input y, bool arithmetic, Output z) {
  const View a = arithmetic ? x.view() : without_sign(x.view()), b = arithmetic ? y.view() : without_sign(y.view());
  require_same_dtype(context, a, b);
  const View allocated = context.allocate(z, x.view().dtype), out = arithmetic ? allocated : without_sign(allocated);
  context.map(function, {&a, &b}, {&out});
}

}  // namespace

KernelTable comparison_kernels() {
  return {
      UNIHAL_KERNEL("equal", kEvery, binary_test<uhal_map_equal>),
      UNIHAL_KERNEL("greater_equal", kReal, binary_test<uhal_map_greater_equal>),
      UNIHAL_KERNEL("greater_than", kReal, binary_test<uhal_map_greater>),
      UNIHAL_KERNEL("less_equal", kReal, binary_test<uhal_map_less_equal>),
      UNIHAL_KERNEL("less_than", kReal, binary_test<uhal_map_less>),
      UNIHAL_KERNEL("not_equal", kEvery, binary_test<uhal_map_not_equal>),
      UNIHAL_KERNEL("equal_all", kReal, equal_all),
      UNIHAL_KERNEL("isclose", kNumbers, isclose),
      UNIHAL_KERNEL("allclose", kNumbers, allclose),
      UNIHAL_KERNEL("accuracy", kFloats, accuracy),

      UNIHAL_KERNEL("isfinite", kNumbers | kComplex, unary_test<uhal_map_is_finite>),
      UNIHAL_KERNEL("isinf", kNumbers | kComplex, unary_test<uhal_map_is_infinite>),
      UNIHAL_KERNEL("isnan", kNumbers | kComplex, unary_test<uhal_map_is_nan>),

      UNIHAL_KERNEL("logical_and", kEvery, binary_test<uhal_map_logical_and>),
      UNIHAL_KERNEL("logical_not", kEvery, unary_test<uhal_map_logical_not>),
      UNIHAL_KERNEL("logical_or", kEvery, binary_test<uhal_map_logical_or>),
      UNIHAL_KERNEL("logical_xor", kEvery, binary_test<uhal_map_logical_xor>),

      UNIHAL_KERNEL("bitwise_and", kIntegers | kBoolOnly, binary<uhal_map_bitwise_and>),
      UNIHAL_KERNEL("bitwise_not", kIntegers, unary<uhal_map_bitwise_not>),
      UNIHAL_KERNEL("bitwise_not", kBoolOnly, unary<uhal_map_logical_not>),
      UNIHAL_KERNEL("bitwise_or", kIntegers | kBoolOnly, binary<uhal_map_bitwise_or>),
      UNIHAL_KERNEL("bitwise_xor", kIntegers | kBoolOnly, binary<uhal_map_bitwise_xor>),
      UNIHAL_KERNEL("bitwise_left_shift", kIntegers, bitwise_shift<uhal_map_shift_left>),
      UNIHAL_KERNEL("bitwise_right_shift", kIntegers, bitwise_shift<uhal_map_shift_right>),
  };
}

}  // namespace unihal::paddle
