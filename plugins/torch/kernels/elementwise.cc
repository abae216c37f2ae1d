// Elementwise ops: each row maps one op of ATen to one function of csrc/tables/elementwise.def. PyTorch's own iterator
// broadcasts, promotes dtypes, checks and allocates, as it does for the CPU.
#include <ATen/OpMathType.h>
#include <ATen/native/ReduceOpsUtils.h>

#include <cmath>
#include <string_view>

#include "plugins/torch/call.h"
#include "plugins/torch/kernels/kernels.h"
#include "plugins/torch/versions.h"

namespace unihal::pytorch {
namespace {

// What the result's dtype follows from.
enum class Types {
  kSame,        // the operands' common dtype
  kFloat,       // the same, float for integers
  kTruth,       // bool
  kComparison,  // bool, of operands promoted to a common dtype
};

constexpr int kMaxOperands = 3;
constexpr int kMaxParameters = 4;

// A function's parameter: an argument's number, or a constant.
struct Parameter {
  int argument = -1;
  double constant = 0;
  bool is_element = false;
};
constexpr Parameter from(int argument) { return {argument, 0}; }
// A number that the CPU takes in the elements' dtype; others of two-byte dtypes it takes as float32.
constexpr Parameter element(int argument) { return {argument, 0, true}; }
constexpr Parameter constant(double value) { return {-1, value}; }

struct MapRow {
  const char* op;
  DtypeSet dtypes;  // of the common dtype
  Types types;
  uhal_map_function function;
  int operands[kMaxOperands] = {0, -1, -1};  // the arguments that are the function's operands, in its order
  Parameter parameters[kMaxParameters] = {};
};

#define UNARY {0, -1, -1}
#define BINARY {0, 1, -1}
#define SWAPPED {1, 0, -1}

constexpr DtypeSet kSigned = kFloats | kSignedIntegers;
constexpr DtypeSet kFloatsAndComplex = kFloats | kComplex;
constexpr DtypeSet kInts = kIntegers | kBool;

constexpr MapRow kMapRows[] = {
    // arithmetic
    {"neg", kSigned | only(UHAL_UINT8) | kComplex, Types::kSame, uhal_map_negative},
    {"abs", kReal | kComplex, Types::kSame, uhal_map_absolute},
    {"sign", kReal, Types::kSame, uhal_map_sign},
    {"sgn", kComplex | kReal, Types::kSame, uhal_map_sign},
    {"reciprocal", kFloatsAndComplex, Types::kFloat, uhal_map_reciprocal},
    {"div.Tensor", kFloatsAndComplex, Types::kFloat, uhal_map_divide, BINARY},
    {"maximum", kReal, Types::kSame, uhal_map_maximum, BINARY},
    {"minimum", kReal, Types::kSame, uhal_map_minimum, BINARY},
    {"fmax", kReal, Types::kSame, uhal_map_fmax, BINARY},
    {"fmin", kReal, Types::kSame, uhal_map_fmin, BINARY},
    {"clamp_min.Tensor", kNumbers, Types::kSame, uhal_map_maximum, BINARY},
    {"clamp_max.Tensor", kNumbers, Types::kSame, uhal_map_minimum, BINARY},
    {"pow.Tensor_Tensor", kNumbers | kComplex, Types::kSame, uhal_map_power, BINARY},
    {"atan2", kFloats, Types::kFloat, uhal_map_atan2, BINARY},
    {"copysign.Tensor", kFloats, Types::kFloat, uhal_map_copysign, BINARY},
    {"heaviside", kReal, Types::kSame, uhal_map_heaviside, BINARY},
    {"nextafter", kWideFloats, Types::kSame, uhal_map_nextafter, BINARY},
    {"gcd", kIntegers, Types::kSame, uhal_map_gcd, BINARY},
    {"lcm", kIntegers, Types::kSame, uhal_map_lcm, BINARY},
    {"xlogy.Tensor", kFloats, Types::kFloat, uhal_map_x_log_y, BINARY},
    {"special_xlog1py", kFloats, Types::kFloat, uhal_map_x_log1p_y, BINARY},
    {"conj_physical_", kAll, Types::kSame, uhal_map_conjugate},

    // rounding
    {"floor", kNumbers, Types::kSame, uhal_map_floor},
    {"ceil", kNumbers, Types::kSame, uhal_map_ceil},
    {"trunc", kNumbers, Types::kSame, uhal_map_truncate},
    {"round", kNumbers, Types::kSame, uhal_map_round_half_to_even},

    // exponentials, logarithms, roots
    {"exp", kFloatsAndComplex, Types::kFloat, uhal_map_exp},
    {"expm1", kFloatsAndComplex, Types::kFloat, uhal_map_expm1},
    {"log", kFloatsAndComplex, Types::kFloat, uhal_map_log},
    {"log1p", kFloatsAndComplex, Types::kFloat, uhal_map_log1p},
    {"log2", kFloatsAndComplex, Types::kFloat, uhal_map_log2},
    {"log10", kFloatsAndComplex, Types::kFloat, uhal_map_log10},
    {"sqrt", kFloatsAndComplex, Types::kFloat, uhal_map_sqrt},
    {"rsqrt", kFloatsAndComplex, Types::kFloat, uhal_map_rsqrt},

    // trigonometric and hyperbolic
    {"sin", kFloatsAndComplex, Types::kFloat, uhal_map_sin},
    {"cos", kFloatsAndComplex, Types::kFloat, uhal_map_cos},
    {"tan", kFloatsAndComplex, Types::kFloat, uhal_map_tan},
    {"asin", kFloatsAndComplex, Types::kFloat, uhal_map_asin},
    {"acos", kFloatsAndComplex, Types::kFloat, uhal_map_acos},
    {"atan", kFloatsAndComplex, Types::kFloat, uhal_map_atan},
    {"sinh", kFloatsAndComplex, Types::kFloat, uhal_map_sinh},
    {"cosh", kFloatsAndComplex, Types::kFloat, uhal_map_cosh},
    {"tanh", kFloatsAndComplex, Types::kFloat, uhal_map_tanh},
    {"asinh", kFloatsAndComplex, Types::kFloat, uhal_map_asinh},
    {"acosh", kFloatsAndComplex, Types::kFloat, uhal_map_acosh},
    {"atanh", kFloatsAndComplex, Types::kFloat, uhal_map_atanh},
    {"erf", kFloats, Types::kFloat, uhal_map_erf},
    {"erfc", kFloats, Types::kFloat, uhal_map_erfc},

    // special functions
    {"lgamma", kFloats, Types::kFloat, uhal_map_lgamma},
    {"digamma", kFloats, Types::kFloat, uhal_map_digamma},
    {"special_zeta", kWideFloats, Types::kFloat, uhal_map_zeta, BINARY},
    {"special_ndtri", kWideFloats, Types::kFloat, uhal_map_ndtri},
    {"igamma", kFloats, Types::kSame, uhal_map_igamma, BINARY},
    {"igammac", kFloats, Types::kSame, uhal_map_igammac, BINARY},
    {"i0", kFloats, Types::kFloat, uhal_map_bessel_i0},
    {"special_i0e", kFloats, Types::kFloat, uhal_map_bessel_i0e},
    {"special_i1", kWideFloats, Types::kFloat, uhal_map_bessel_i1},
    {"special_i1e", kWideFloats, Types::kFloat, uhal_map_bessel_i1e},
    {"erfinv", kFloats, Types::kFloat, uhal_map_erfinv},
    {"special_bessel_j0", kWideFloats, Types::kFloat, uhal_map_bessel_j0},
    {"special_bessel_j1", kWideFloats, Types::kFloat, uhal_map_bessel_j1},
    {"special_bessel_y0", kWideFloats, Types::kFloat, uhal_map_bessel_y0},
    {"special_bessel_y1", kWideFloats, Types::kFloat, uhal_map_bessel_y1},
    {"special_modified_bessel_i0", kWideFloats, Types::kFloat, uhal_map_bessel_i0},
    {"special_modified_bessel_i1", kWideFloats, Types::kFloat, uhal_map_bessel_i1},
    {"special_modified_bessel_k0", kWideFloats, Types::kFloat, uhal_map_bessel_k0},
    {"special_modified_bessel_k1", kWideFloats, Types::kFloat, uhal_map_bessel_k1},
    {"special_scaled_modified_bessel_k0", kWideFloats, Types::kFloat, uhal_map_bessel_k0e},
    {"special_scaled_modified_bessel_k1", kWideFloats, Types::kFloat, uhal_map_bessel_k1e},

    // activations
    {"relu", kNumbers, Types::kSame, uhal_map_relu},
    {"leaky_relu", kFloats, Types::kSame, uhal_map_leaky_relu, UNARY, {from(1)}},
    {"sigmoid", kFloatsAndComplex, Types::kFloat, uhal_map_sigmoid},
    {"silu", kFloatsAndComplex, Types::kSame, uhal_map_silu},
    {"mish", kFloats, Types::kSame, uhal_map_mish},
    {"softplus", kFloats, Types::kSame, uhal_map_softplus, UNARY, {from(1), from(2)}},
    {"hardsigmoid", kFloats, Types::kSame, uhal_map_hard_sigmoid, UNARY, {constant(1.0 / 6), constant(0.5)}},
    {"hardswish", kFloats, Types::kSame, uhal_map_hard_swish, UNARY, {constant(6), constant(6), constant(3)}},
    {"hardtanh", kFloats, Types::kSame, uhal_map_hard_tanh, UNARY, {element(1), element(2)}},
    {"hardshrink", kFloats, Types::kSame, uhal_map_hard_shrink, UNARY, {element(1)}},
    {"softshrink", kFloats, Types::kSame, uhal_map_soft_shrink, UNARY, {element(1)}},
    {"threshold", kFloats, Types::kSame, uhal_map_thresholded_relu, UNARY, {from(1), element(2)}},

    // tests and logic
    {"isnan", kAll, Types::kTruth, uhal_map_is_nan},
    {"isinf", kAll, Types::kTruth, uhal_map_is_infinite},
    {"eq.Tensor", kAll, Types::kComparison, uhal_map_equal, BINARY},
    {"ne.Tensor", kAll, Types::kComparison, uhal_map_not_equal, BINARY},
    {"lt.Tensor", kReal, Types::kComparison, uhal_map_less, BINARY},
    {"le.Tensor", kReal, Types::kComparison, uhal_map_less_equal, BINARY},
    {"gt.Tensor", kReal, Types::kComparison, uhal_map_greater, BINARY},
    {"ge.Tensor", kReal, Types::kComparison, uhal_map_greater_equal, BINARY},
    {"eq.Scalar", kAll, Types::kComparison, uhal_map_equal, BINARY},
    {"ne.Scalar", kAll, Types::kComparison, uhal_map_not_equal, BINARY},
    {"lt.Scalar", kReal, Types::kComparison, uhal_map_less, BINARY},
    {"le.Scalar", kReal, Types::kComparison, uhal_map_less_equal, BINARY},
    {"gt.Scalar", kReal, Types::kComparison, uhal_map_greater, BINARY},
    {"ge.Scalar", kReal, Types::kComparison, uhal_map_greater_equal, BINARY},
    {"logical_not", kAll, Types::kTruth, uhal_map_logical_not},
    {"logical_and", kAll, Types::kComparison, uhal_map_logical_and, BINARY},
    {"logical_or", kAll, Types::kComparison, uhal_map_logical_or, BINARY},
    {"logical_xor", kAll, Types::kComparison, uhal_map_logical_xor, BINARY},
    {"bitwise_not", kInts, Types::kSame, uhal_map_bitwise_not},
    {"bitwise_and.Tensor", kInts, Types::kSame, uhal_map_bitwise_and, BINARY},
    {"bitwise_or.Tensor", kInts, Types::kSame, uhal_map_bitwise_or, BINARY},
    {"bitwise_xor.Tensor", kInts, Types::kSame, uhal_map_bitwise_xor, BINARY},
    {"bitwise_left_shift.Tensor", kIntegers, Types::kSame, uhal_map_shift_left, BINARY},
    {"bitwise_right_shift.Tensor", kIntegers, Types::kSame, uhal_map_shift_right, BINARY},

    // gradients: PyTorch gives the incoming gradient first, our functions take it last
    {"sigmoid_backward", kFloatsAndComplex, Types::kSame, uhal_map_sigmoid_backward, SWAPPED},
    {"tanh_backward", kFloatsAndComplex, Types::kSame, uhal_map_tanh_backward, SWAPPED},
    {"silu_backward", kFloatsAndComplex, Types::kSame, uhal_map_silu_backward, SWAPPED},
    {"leaky_relu_backward", kFloats, Types::kSame, uhal_map_leaky_relu_backward, SWAPPED, {from(2)}},
    {"softplus_backward", kFloats, Types::kSame, uhal_map_softplus_backward, SWAPPED, {from(2), from(3)}},
    {"hardswish_backward",
     kFloats,
     Types::kSame,
     uhal_map_hard_swish_backward,
     SWAPPED,
     {constant(6), constant(6), constant(3)}},
    {"hardtanh_backward", kFloats, Types::kSame, uhal_map_hard_tanh_backward, SWAPPED, {from(2), from(3)}},
};

uhal_dtype common_dtype(const at::TensorIteratorBase& iterator) {
  const auto common = maybe_common_dtype(iterator);
  return from_pytorch(common.has_value() ? *common : iterator.dtype(iterator.noutputs()));
}

}  // namespace

void configure(at::TensorIteratorConfig& config) {
  config.set_check_mem_overlap(true).allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
}

namespace {

// Whether the CPU takes one number, the second operand, as float32 where the other one is of two bytes.
bool takes_wide_number(uhal_map_function function) {
  return function == uhal_map_multiply || function == uhal_map_divide || function == uhal_map_floor_divide_exact;
}

// Whether an operand has values that PyTorch rounds to the dtype `common`, and that our functions would take as they
// are: tensors without axes do not widen that dtype, and whole numbers do not widen those of two bytes.
bool needs_rounding(at::ScalarType dtype, at::ScalarType common) {
  if (dtype == common) return false;
  if (c10::promoteTypes(dtype, common) != common) return true;
  return c10::isReducedFloatingType(common) && c10::isIntegralType(dtype, false) && c10::elementSize(dtype) > 1;
}

// A view in another dtype. What repeats is converted once.
View converted(Call& call, const View& view, at::ScalarType dtype) {
  c10::DimVector sizes;
  for (int i = 0; i < view.rank; ++i) sizes.push_back(view.strides[i] == 0 ? 1 : view.shape[i]);
  View from = view;
  std::copy(sizes.begin(), sizes.end(), from.shape);
  const View to = view_of(call.scratch(sizes, dtype));
  // Not the call's own launch: nothing of its results is written yet.
  check(launch(call.stream(), UHAL_OP_CAST, {&from}, {&to}, nullptr, call.op()));
  return to;
}

// An operand as a view; what PyTorch keeps on the host as one number is put on the device. `rounds`: its values are
// those that the dtype has in which PyTorch computes.
View operand_of(Call& call, const at::TensorIteratorBase& iterator, int operand, bool takes_wide, bool rounds = true) {
  std::optional<at::ScalarType> common = maybe_common_dtype(iterator);
  const bool is_narrow = common.has_value() && c10::isReducedFloatingType(*common);
  const bool is_wide = takes_wide && is_narrow && operand == iterator.noutputs() + 1;
  if (iterator.is_cpu_scalar(operand)) {
    const at::Scalar value = iterator.tensor(operand).item();
    // A number that the narrow dtype has is given in that, for which there are faster loops.
    if (is_wide && rounded(*common, value.toDouble()) != value.toDouble()) common = at::kFloat;
    return call.constant(value, common.value_or(iterator.dtype(operand)));
  }
  if (is_wide && iterator.tensor(operand).numel() == 1) common = at::kFloat;
  const View view = view_of(iterator, operand);
  const bool fits = !rounds || !common.has_value() || !needs_rounding(iterator.dtype(operand), *common);
  return fits ? view : converted(call, view, *common);
}

}  // namespace

void launch_chain(Call& call, at::TensorIteratorBase& iterator, Chain& chain, bool takes_wide) {
  if (iterator.numel() == 0) return;
  View inputs[UHAL_MAP_MAX_INPUTS];
  const uhal_tensor* operands[UHAL_MAP_MAX_INPUTS];
  const int count = iterator.ninputs();
  for (int i = 0; i < count; ++i) {
    inputs[i] = operand_of(call, iterator, iterator.noutputs() + i, takes_wide);
    operands[i] = &inputs[i];
  }
  const View output = view_of(iterator, 0);
  const uhal_tensor* result = &output;
  uhal_op op = {};
  op.kind = UHAL_OP_MAP_CHAIN;
  op.input_count = count;
  op.output_count = 1;
  op.inputs = operands;
  op.outputs = &result;
  op.attributes = chain.program();
  call.launch(op);
}

void launch_map(Call& call, at::TensorIteratorBase& iterator, uhal_map_function function, const int* order,
                std::initializer_list<double> parameters) {
  if (iterator.numel() == 0) return;
  const int outputs = iterator.noutputs();
  const int inputs = iterator.ninputs();
  View views[UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS];
  const uhal_tensor* operands[UHAL_MAP_MAX_INPUTS];
  const uhal_tensor* results[UHAL_MAP_MAX_OUTPUTS];
  uhal_map_attributes attributes = map_attributes(function, parameters);
  const bool takes_wide = takes_wide_number(function);
  const bool rounds = function != uhal_map_select;  // a condition has no dtype in common with what is chosen
  int count = 0;
  for (int i = 0; i < inputs; ++i) {
    const int operand = outputs + (order != nullptr ? order[i] : i);
    views[operand] = operand_of(call, iterator, operand, takes_wide, rounds);
    operands[count++] = &views[operand];
  }
  for (int i = 0; i < outputs; ++i) {
    views[i] = view_of(iterator, i);
    results[i] = &views[i];
  }
  uhal_op op = {};
  op.kind = UHAL_OP_MAP;
  op.input_count = count;
  op.output_count = outputs;
  op.inputs = operands;
  op.outputs = results;
  op.attributes = &attributes;
  call.launch(op);
}

namespace {

// What the CPU's ops ask for beyond dtypes that there is a kernel for.
void check_arguments(const Call& call, uhal_map_function function) {
  if (function == uhal_map_heaviside) {
    TORCH_CHECK(call.tensor(0).scalar_type() == call.tensor(1).scalar_type(),
                "heaviside is not yet implemented for tensors with different dtypes.");
  } else if (function == uhal_map_soft_shrink) {
    const double lambda = call.real(1);
    TORCH_CHECK(std::isfinite(lambda) && lambda >= 0, "lambda must be finite and not negative, but found ", lambda);
  }
}

// PyTorch's sign is how many of x > 0 and x < 0 hold: 0 of NaN, and of -0 without its sign.
void launch_sign(Call& call, at::TensorIteratorBase& iterator) {
  Chain chain(1);
  const int zero = chain.step(uhal_map_less, {0, 0});
  const int is_positive = chain.step(uhal_map_greater, {0, zero});
  chain.step(uhal_map_subtract, {is_positive, chain.step(uhal_map_less, {0, zero})});
  launch_chain(call, iterator, chain);
}

// x log(y) and x log(1 + y), 0 where x is: but for a y that is NaN.
void launch_x_log_y(Call& call, at::TensorIteratorBase& iterator, uhal_map_function function) {
  Chain chain(2);
  const int product = chain.step(function, {0, 1});
  chain.step(uhal_map_select, {chain.step(uhal_map_is_nan, {1}), 1, product});
  launch_chain(call, iterator, chain);
}

double value_of(const Call& call, const Parameter& parameter, const at::TensorIteratorBase& iterator) {
  if (parameter.argument < 0) return parameter.constant;
  const at::ScalarType dtype = iterator.dtype(iterator.noutputs());
  return number_of(parameter.is_element ? dtype : at::toOpMathType(dtype), call.scalar(parameter.argument)).toDouble();
}

void run_map(Call& call) {
  const MapRow& row = call.data<MapRow>();
  at::Tensor operands[kMaxOperands];
  check_arguments(call, row.function);
  at::TensorIteratorConfig config;
  configure(config);
  at::Tensor out = call.result();
  if (row.types == Types::kTruth || row.types == Types::kComparison) {
    // The result is bool, except in what was given: it takes the 0 and 1 in its own dtype.
    if (!out.defined()) config.declare_static_dtype(at::kBool);
    if (row.types == Types::kTruth) config.promote_inputs_to_common_dtype(false);
    config.check_all_same_dtype(false);
  } else if (row.function == uhal_map_absolute && call.tensor(0).is_complex()) {
    call.require(call.variant() != Variant::kInPlace, "complex numbers in place");
    if (!out.defined()) config.declare_static_dtype(c10::toRealValueType(call.tensor(0).scalar_type()));
    config.check_all_same_dtype(false).promote_inputs_to_common_dtype(false);
  } else {
    config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
    if (row.types == Types::kFloat) config.promote_integer_inputs_to_float(true);
  }
  config.add_owned_output(out);
  for (int i = 0; i < kMaxOperands && row.operands[i] >= 0; ++i) {
    const c10::IValue& value = call.argument(row.operands[i]);
    operands[i] = value.isTensor() ? value.toTensor() : at::native::wrapped_scalar_tensor(value.toScalar());
    config.add_const_input(operands[i]);
  }
  at::TensorIterator iterator = config.build();
  if (!call.result().defined()) call.set_result(0, iterator.output());
  call.require(contains(row.dtypes, common_dtype(iterator)), "no kernel for this dtype");
  double parameters[kMaxParameters];
  for (int i = 0; i < kMaxParameters; ++i) parameters[i] = value_of(call, row.parameters[i], iterator);
  // Whole numbers are rounded already, and may be more than a float holds.
  const bool is_rounded = row.function == uhal_map_floor || row.function == uhal_map_ceil ||
                          row.function == uhal_map_truncate || row.function == uhal_map_round_half_to_even;
  const bool is_whole = is_rounded && c10::isIntegralType(call.tensor(0).scalar_type(), true);
  // Not sgn, which is abs's gradient: NaN there makes up for relu's gradient, in which it is lost (relu_backward).
  if (std::string_view(row.op) == "sign" && c10::isFloatingType(iterator.dtype(1))) return launch_sign(call, iterator);
  if (row.function == uhal_map_x_log_y || row.function == uhal_map_x_log1p_y) {
    return launch_x_log_y(call, iterator, row.function);
  }
  const uhal_map_function function = is_whole ? uhal_map_identity : row.function;
  launch_map(call, iterator, function, nullptr, {parameters[0], parameters[1], parameters[2], parameters[3]});
}

}  // namespace

void register_elementwise() {
  static auto* kernels = [] {
    auto* rows = new std::vector<Kernel>;
    for (const MapRow& row : kMapRows) rows->push_back({row.op, kAll, run_map, &row});
    return rows;
  }();
  register_kernels(kernels->data(), kernels->size());
}

}  // namespace unihal::pytorch
