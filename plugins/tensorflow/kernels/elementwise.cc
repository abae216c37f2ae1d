// Elementwise ops: each row maps one op of TensorFlow to one function of csrc/tables/elementwise.def.
#include "plugins/tensorflow/kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

constexpr DtypeSet kSigned = kFloats | kSignedIntegers;
constexpr double kSeluScale = 1.0507009873554804934;
constexpr double kSeluAlpha = 1.6732632423543772848;
// Above this softplus(x) is x to the last bit, in float64 too.
constexpr double kSoftplusThreshold = 40;

constexpr MapRow kMapRows[] = {
    // arithmetic
    {"Add", uhal_map_add, without_int32(kNumbers) | kComplex},
    {"AddV2", uhal_map_add, without_int32(kNumbers) | kComplex},
    {"Sub", uhal_map_subtract, without_int32(kNumbers) | kComplex},
    {"Mul", uhal_map_multiply, without_int32(kNumbers) | kComplex},
    {"Div", uhal_map_divide, without_int32(kNumbers) | kComplex},
    {"RealDiv", uhal_map_divide, kFloats | kComplex},
    {"TruncateDiv", uhal_map_truncate_divide, without_int32(kIntegers)},
    {"DivNoNan", uhal_map_divide_no_nan, kFloats | kComplex},
    {"MulNoNan", uhal_map_multiply_no_nan, kFloats | kComplex},
    {"FloorDiv", uhal_map_floor_divide, without_int32(kNumbers)},
    {"FloorMod", uhal_map_floor_mod, without_int32(kNumbers)},
    {"Mod", uhal_map_truncate_mod, kFloats | only(UHAL_INT64)},
    {"TruncateMod", uhal_map_truncate_mod, kFloats | only(UHAL_INT64)},
    {"Maximum", uhal_map_maximum, without_int32(kNumbers)},
    {"Minimum", uhal_map_minimum, without_int32(kNumbers)},
    {"SquaredDifference", uhal_map_squared_difference, kFloats | only(UHAL_INT64) | kComplex},
    {"Pow", uhal_map_power, kFloats | only(UHAL_INT64) | kComplex},
    {"Atan2", uhal_map_atan2, kFloats},
    {"Neg", uhal_map_negative, without_int32(kSigned) | kComplex},
    {"Abs", uhal_map_absolute, without_int32(kSigned)},
    {"Sign", uhal_map_sign, without_int32(kSigned) | kComplex},
    {"Square", uhal_map_square, without_int32(kNumbers) | kComplex},
    {"Reciprocal", uhal_map_reciprocal, kFloats | kComplex},
    {"Inv", uhal_map_reciprocal, kFloats | kComplex},
    {"SelectV2", uhal_map_select, kReal | kComplex},
    {"Xdivy", uhal_map_x_divided_by_y, kFloats | kComplex},
    {"Xlogy", uhal_map_x_log_y, kFloats | kComplex},
    {"Xlog1py", uhal_map_x_log1p_y, kFloats | kComplex},

    // rounding
    {"Floor", uhal_map_floor, kFloats},
    {"Ceil", uhal_map_ceil, kFloats},
    {"Rint", uhal_map_round_half_to_even, kFloats},
    {"Round", uhal_map_round_half_to_even, kFloats},

    // exponentials, logarithms, roots
    {"Exp", uhal_map_exp, kFloats | kComplex},
    {"Expm1", uhal_map_expm1, kFloats | kComplex},
    {"Log", uhal_map_log, kFloats | kComplex},
    {"Log1p", uhal_map_log1p, kFloats | kComplex},
    {"Sqrt", uhal_map_sqrt, kFloats | kComplex},
    {"Rsqrt", uhal_map_rsqrt, kFloats | kComplex},

    // trigonometric and hyperbolic
    {"Sin", uhal_map_sin, kFloats | kComplex},
    {"Cos", uhal_map_cos, kFloats | kComplex},
    {"Tan", uhal_map_tan, kFloats | kComplex},
    {"Asin", uhal_map_asin, kFloats | kComplex},
    {"Acos", uhal_map_acos, kFloats | kComplex},
    {"Atan", uhal_map_atan, kFloats | kComplex},
    {"Sinh", uhal_map_sinh, kFloats | kComplex},
    {"Cosh", uhal_map_cosh, kFloats | kComplex},
    {"Tanh", uhal_map_tanh, kFloats | kComplex},
    {"Asinh", uhal_map_asinh, kFloats | kComplex},
    {"Acosh", uhal_map_acosh, kFloats | kComplex},
    {"Atanh", uhal_map_atanh, kFloats | kComplex},
    {"Erf", uhal_map_erf, kFloats},
    {"Erfc", uhal_map_erfc, kFloats},

    // special functions
    {"Lgamma", uhal_map_lgamma, kFloats},
    {"Digamma", uhal_map_digamma, kFloats},
    {"Polygamma", uhal_map_polygamma, kWideFloats},
    {"Zeta", uhal_map_zeta, kWideFloats},
    {"Igamma", uhal_map_igamma, kFloats},
    {"Igammac", uhal_map_igammac, kFloats},
    {"BesselI0", uhal_map_bessel_i0, kFloats},
    {"BesselI0e", uhal_map_bessel_i0e, kFloats},
    {"BesselI1", uhal_map_bessel_i1, kFloats},
    {"BesselI1e", uhal_map_bessel_i1e, kFloats},
    {"Erfinv", uhal_map_erfinv, kFloats},
    {"Ndtri", uhal_map_ndtri, kFloats},
    {"NextAfter", uhal_map_nextafter, kWideFloats},
    {"BesselJ0", uhal_map_bessel_j0, kFloats},
    {"BesselJ1", uhal_map_bessel_j1, kFloats},
    // Left of 0 they have what TensorFlow's CPU has.
    {"BesselY0", uhal_map_bessel_y0, kFloats, kSameDtype, kAsGiven, {-HUGE_VAL}},
    {"BesselY1", uhal_map_bessel_y1, kFloats, kSameDtype, kAsGiven, {-HUGE_VAL}},
    {"BesselK0", uhal_map_bessel_k0, kFloats, kSameDtype, kAsGiven, {HUGE_VAL}},
    {"BesselK0e", uhal_map_bessel_k0e, kFloats, kSameDtype, kAsGiven, {HUGE_VAL}},
    {"BesselK1", uhal_map_bessel_k1, kFloats, kSameDtype, kAsGiven, {HUGE_VAL}},
    {"BesselK1e", uhal_map_bessel_k1e, kFloats, kSameDtype, kAsGiven, {HUGE_VAL}},
    {"Expint", uhal_map_expint, kFloats, kSameDtype, kAsGiven, {std::numeric_limits<double>::quiet_NaN()}},
    {"Dawsn", uhal_map_dawson, kFloats},
    {"FresnelSin", uhal_map_fresnel_sin, kFloats},
    {"FresnelCos", uhal_map_fresnel_cos, kFloats},
    {"Spence", uhal_map_spence, kFloats},

    // activations
    {"Relu", uhal_map_relu, kNumbers},
    {"Relu6", uhal_map_relu6, kFloats},
    {"LeakyRelu", uhal_map_leaky_relu, kFloats, kSameDtype, kAsGiven, {}, "alpha"},
    {"Elu", uhal_map_elu, kFloats, kSameDtype, kAsGiven, {1}},
    {"Selu", uhal_map_selu, kFloats, kSameDtype, kAsGiven, {kSeluScale, kSeluAlpha}},
    {"Sigmoid", uhal_map_sigmoid, kFloats | kComplex},
    {"Softplus", uhal_map_softplus, kFloats, kSameDtype, kAsGiven, {1, kSoftplusThreshold}},
    {"Softsign", uhal_map_softsign, kFloats},

    // tests and logic
    {"IsNan", uhal_map_is_nan, kFloats, kTruth},
    {"IsInf", uhal_map_is_infinite, kFloats, kTruth},
    {"IsFinite", uhal_map_is_finite, kFloats, kTruth},
    {"Equal", uhal_map_equal, without_int32(kReal) | kComplex, kTruth},
    {"NotEqual", uhal_map_not_equal, without_int32(kReal) | kComplex, kTruth},
    {"Less", uhal_map_less, without_int32(kNumbers), kTruth},
    {"LessEqual", uhal_map_less_equal, without_int32(kNumbers), kTruth},
    {"Greater", uhal_map_greater, without_int32(kNumbers), kTruth},
    {"GreaterEqual", uhal_map_greater_equal, without_int32(kNumbers), kTruth},
    {"LogicalNot", uhal_map_logical_not, 0, kTruth},
    {"LogicalAnd", uhal_map_logical_and, 0, kTruth},
    {"LogicalOr", uhal_map_logical_or, 0, kTruth},
    {"Invert", uhal_map_bitwise_not, kIntegers},
    {"BitwiseAnd", uhal_map_bitwise_and, kIntegers},
    {"BitwiseOr", uhal_map_bitwise_or, kIntegers},
    {"BitwiseXor", uhal_map_bitwise_xor, kIntegers},
    {"LeftShift", uhal_map_shift_left, kIntegers},
    {"RightShift", uhal_map_shift_right, kIntegers},

    // gradients: TensorFlow gives the incoming gradient first where it also takes the features, last otherwise
    {"ReluGrad", uhal_map_relu_backward, kFloats, kSameDtype, kSwapped},
    {"Relu6Grad", uhal_map_relu6_backward, kFloats, kSameDtype, kSwapped},
    {"LeakyReluGrad", uhal_map_leaky_relu_backward, kFloats, kSameDtype, kSwapped, {}, "alpha"},
    {"EluGrad", uhal_map_selu_backward, kFloats, kSameDtype, kSwapped, {1, 1}},  // both take the output
    {"SeluGrad", uhal_map_selu_backward, kFloats, kSameDtype, kSwapped, {kSeluScale, kSeluAlpha}},
    {"SoftplusGrad", uhal_map_softplus_backward, kFloats, kSameDtype, kSwapped, {1, kSoftplusThreshold}},
    {"SoftsignGrad", uhal_map_softsign_backward, kFloats, kSameDtype, kSwapped},
    {"SigmoidGrad", uhal_map_sigmoid_backward, kFloats | kComplex},
    {"TanhGrad", uhal_map_tanh_backward, kFloats | kComplex},
    {"SqrtGrad", uhal_map_sqrt_backward, kFloats | kComplex},
    {"RsqrtGrad", uhal_map_rsqrt_backward, kFloats | kComplex},
    {"ReciprocalGrad", uhal_map_reciprocal_backward, kFloats | kComplex},
    {"InvGrad", uhal_map_reciprocal_backward, kFloats | kComplex},
};

const MapRow& find_row(const char* op) {
  const MapRow* row = find_map_row(op);
  assert(row != nullptr);
  return *row;
}

bool same_shape(const View& a, const View& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

class Map : public Kernel {
 public:
  explicit Map(Construction& construction) : Kernel(construction), row_(find_row(construction.op())) {
    attributes_ = map_attributes(row_.function, {row_.parameters[0], row_.parameters[1]});
    if (row_.parameter_attribute != nullptr) {
      attributes_.parameters[0] = construction.real(row_.parameter_attribute);
    }
    // Equal and NotEqual of shapes that do not broadcast are answers, not errors, where this is false.
    is_gradient_ = row_.is_gradient();
    shapes_must_match_ =
        !construction.has("incompatible_shape_error") || construction.boolean("incompatible_shape_error");
  }

  Merging merging() const override { return is_gradient_ ? Merging::kSameShape : Merging::kBroadcast; }
  void compute(Context& context) const override {
    View inputs[kMaxInputs];
    const int count = std::min(context.input_count(), +kMaxInputs);
    for (int i = 0; i < count; ++i) inputs[i] = context.input(i);
    if (!context.ok()) return;
    const View* shape = &inputs[0];
    View joint_shape;
    for (int i = 1; i < count; ++i) {
      if (same_shape(*shape, inputs[i])) continue;
      if (is_gradient_) return context.refuse("the operands of a gradient have different shapes");
      Shape joint;
      if (!broadcast_shape(*shape, inputs[i], &joint)) return refuse(context, *shape, inputs[i]);
      joint_shape = View(nullptr, UHAL_BOOL, joint);
      shape = &joint_shape;
    }
    const uhal_dtype dtype = row_.result == kTruth ? UHAL_BOOL : inputs[count - 1].dtype;
    int candidates[kMaxInputs];
    int candidate_count = 0;
    for (int i = 0; i < count; ++i) {
      if (inputs[i].dtype == dtype && same_shape(inputs[i], *shape)) candidates[candidate_count++] = i;
    }
    const View output = context.forwarded_output(0, dtype, shape->shape, shape->rank, candidates, candidate_count);
    if (row_.order == kSwapped) std::swap(inputs[0], inputs[1]);
    const bool conjugates = row_.function != uhal_map_sigmoid_backward && row_.function != uhal_map_tanh_backward;
    if (is_gradient_ && !conjugates && contains(kComplex, dtype)) {
      // The ABI's gradients conjugate the forward's operand, these of TensorFlow's do not.
      const View conjugate = context.temporary_like(inputs[0]);
      if (!context.ok() || !context.map(uhal_map_conjugate, {&inputs[0]}, {&conjugate})) return;
      inputs[0] = conjugate;
    }
    const uhal_tensor* operands[kMaxInputs] = {&inputs[0], &inputs[1], &inputs[2]};
    const uhal_tensor* results[1] = {&output};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_MAP;
    op.input_count = count;
    op.output_count = 1;
    op.inputs = operands;
    op.outputs = results;
    op.attributes = &attributes_;
    op.label = this->op();
    context.launch(op);
  }

 private:
  static constexpr int kMaxInputs = 3;

  __attribute__((cold)) void refuse(Context& context, const View& a, const View& b) const {
    if (shapes_must_match_) {
      return context.fail_invalid("Incompatible shapes: " + to_text(a) + " vs. " + to_text(b));
    }
    context.fill(context.output(0, UHAL_BOOL, nullptr, 0), 0, row_.function == uhal_map_not_equal);
  }

  const MapRow& row_;
  uhal_map_attributes attributes_;
  bool shapes_must_match_ = true;
  bool is_gradient_ = false;  // its operands do not broadcast
};

// Functions whose result has the dtype that attribute "Tout" names: parts of complex numbers, and these of parts.
template <uhal_map_function kFunction>
class Convert : public Kernel {
 public:
  explicit Convert(Construction& construction) : Kernel(construction), dtype_(construction.dtype("Tout")) {}
  Merging merging() const override { return Merging::kBroadcast; }
  void compute(Context& context) const override {
    const View first = context.input(0);
    const View second = context.input_count() > 1 ? context.input(1) : first;
    if (!context.ok()) return;
    Shape joint;
    if (!broadcast_shape(first, second, &joint)) {
      return context.fail_invalid("Incompatible shapes: " + to_text(first) + " vs. " + to_text(second));
    }
    const View output = context.output(0, dtype_, joint);
    if (context.input_count() > 1) {
      context.map(kFunction, {&first, &second}, {&output});
    } else {
      context.map(kFunction, {&first}, {&output});
    }
  }

 private:
  uhal_dtype dtype_;
};

class Conjugate : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const int candidate = 0;
    const View output = context.forwarded_output(0, input.dtype, input.shape, input.rank, &candidate, 1);
    context.map(uhal_map_conjugate, {&input}, {&output});
  }
};

// ApproximateEqual(x, y): |x - y| < tolerance
class ApproximateEqual : public Kernel {
 public:
  explicit ApproximateEqual(Construction& construction)
      : Kernel(construction), tolerance_(construction.real("tolerance")) {}
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    if (!context.ok()) return;
    if (!same_shape(x, y)) {
      return context.fail_invalid("x and y must be of the same shape. x shape: " + to_text(x) +
                                  ". y shape: " + to_text(y));
    }
    const View output = context.output(0, UHAL_BOOL, x.shape, x.rank);
    const View distance = context.temporary_like(x);
    const View tolerance = context.temporary(x.dtype, nullptr, 0);
    if (!context.ok()) return;
    context.fill(tolerance, tolerance_, 0);
    context.map(uhal_map_subtract, {&x, &y}, {&distance});
    context.map(uhal_map_absolute, {&distance}, {&distance});
    context.map(uhal_map_less, {&distance, &tolerance}, {&output});
  }

 private:
  double tolerance_;
};

// ClipByValue(t, low, high), the limits being scalars or of t's shape.
class ClipByValue : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View value = context.input(0);
    const View low = context.input(1);
    const View high = context.input(2);
    if (!context.ok()) return;
    for (const View* limit : {&low, &high}) {
      if (limit->rank > 0 && !same_shape(*limit, value)) {
        return context.fail_invalid("ClipByValue: limits must be scalars or of shape " + to_text(value) + ", got " +
                                    to_text(*limit));
      }
    }
    const View output = context.output_like(0, value);
    context.map(uhal_map_minimum, {&value, &high}, {&output});
    context.map(uhal_map_maximum, {&output, &low}, {&output});
  }
};

// f(a, x) that is a gradient function of csrc/tables/elementwise.def for an incoming gradient of 1: IgammaGradA,
// RandomGammaGrad
template <int function>
class GradientOfOne : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kBroadcast; }
  void compute(Context& context) const override {
    const View a = context.input(0);
    const View x = context.input(1);
    if (!context.ok()) return;
    Shape joint;
    if (!broadcast_shape(a, x, &joint)) {
      return context.fail_invalid("Incompatible shapes: " + to_text(a) + " vs. " + to_text(x));
    }
    const View output = context.output(0, a.dtype, joint);
    const View one = context.temporary(a.dtype, nullptr, 0);
    if (!context.ok()) return;
    context.fill(one, 1, 1);
    context.map(function, {&a, &x, &one}, {&output});
  }
};

// PopulationCount: the bits that are 1, as uint8. Signed numbers are counted as the unsigned ones of their bits.
class PopulationCount : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    View x = context.input(0);
    if (!context.ok()) return;
    constexpr uhal_dtype kUnsigned[] = {UHAL_UINT8, UHAL_UINT16, UHAL_UINT32, UHAL_UINT64};
    for (uhal_dtype dtype : kUnsigned) {
      if (uhal_dtype_size(dtype) == uhal_dtype_size(x.dtype)) x.dtype = dtype;
    }
    const View output = context.output(0, UHAL_UINT8, x.shape, x.rank);
    context.map(uhal_map_population_count, {&x}, {&output});
  }
};

// Betainc(a, b, x): operands of one shape, or scalars.
class Betainc : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    View operands[3];
    Shape shape;
    for (int i = 0; i < 3; ++i) {
      operands[i] = context.input(i);
      if (!context.ok()) return;
      if (operands[i].rank == 0) continue;
      if (!shape.empty() && shape != shape_of(operands[i])) {
        return context.fail_invalid("Shapes of a, b and x are inconsistent: " + to_text(operands[0]) + " vs. " +
                                    to_text(operands[1]) + " vs. " + to_text(context.input(2)));
      }
      shape = shape_of(operands[i]);
    }
    const View output = context.output(0, operands[0].dtype, shape);
    context.map(uhal_map_betainc, {&operands[0], &operands[1], &operands[2]}, {&output});
  }
};

// Select(condition, x, y): a condition of rank 1 chooses whole rows.
class Select : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    View condition = context.input(0);
    const View yes = context.input(1);
    const View no = context.input(2);
    if (!context.ok()) return;
    const bool chooses_rows = condition.rank == 1 && yes.rank > 1 && condition.shape[0] == yes.shape[0];
    if (!same_shape(yes, no) || !(condition.rank == 0 || same_shape(condition, yes) || chooses_rows)) {
      return context.fail_invalid("Select: a condition of shape " + to_text(condition) +
                                  " does not choose between shapes " + to_text(yes) + " and " + to_text(no));
    }
    if (chooses_rows) {
      while (condition.rank < yes.rank) condition = condition.unsqueezed(condition.rank);
    }
    const View output = context.output_like(0, yes);
    context.map(uhal_map_select, {&condition, &yes, &no}, {&output});
  }
};

// AddN: the sum of all inputs, of one shape.
class AddN : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const int count = context.input_count();
    const View first = context.input(0);
    if (count == 1) return context.share(0, 0, first);
    for (int i = 1; i < count; ++i) {
      const View next = context.input(i);
      if (!context.ok()) return;
      if (!same_shape(first, next)) {
        return context.fail_invalid("AddN: input " + std::to_string(i) + " has shape " + to_text(next) +
                                    ", input 0 has " + to_text(first));
      }
    }
    const View output = context.output_like(0, first);
    for (int i = 1; i < count; ++i) {
      const View next = context.input(i);
      const View& sum = i == 1 ? first : output;
      context.map(uhal_map_add, {&sum, &next}, {&output});
    }
  }
};

}  // namespace

const MapRow* find_map_row(std::string_view op) {
  const auto* row =
      std::find_if(std::begin(kMapRows), std::end(kMapRows), [op](const MapRow& r) { return op == r.op; });
  return row == std::end(kMapRows) ? nullptr : row;
}

void register_elementwise(Registrar& registrar) {
  for (const MapRow& row : kMapRows) {
    if (row.dtypes != 0) {
      registrar.add<Map>(row.op, {{"T", row.dtypes}});
    } else {
      registrar.add<Map>(row.op, {});
    }
  }
  registrar.add<ClipByValue>("ClipByValue", {{"T", kNumbers}});
  registrar.add<GradientOfOne<uhal_map_igamma_backward_first>>("IgammaGradA", {{"T", kWideFloats}});
  registrar.add<GradientOfOne<uhal_map_gamma_sample_backward>>("RandomGammaGrad", {{"T", kWideFloats}});
  registrar.add<PopulationCount>("PopulationCount", {{"T", kIntegers}});
  registrar.add<Betainc>("Betainc", {{"T", kWideFloats}});
  registrar.add<Select>("Select", {{"T", kAll}});
  registrar.add<AddN>("AddN", {{"T", without_int32(kNumbers | kComplex)}});
  for (const auto& [real, complex] :
       {std::pair(UHAL_FLOAT32, UHAL_COMPLEX64), std::pair(UHAL_FLOAT64, UHAL_COMPLEX128)}) {
    const std::initializer_list<TypeConstraint> parts = {{"T", only(complex)}, {"Tout", only(real)}};
    registrar.add<Convert<uhal_map_real>>("Real", parts);
    registrar.add<Convert<uhal_map_imaginary>>("Imag", parts);
    registrar.add<Convert<uhal_map_angle>>("Angle", parts);
    registrar.add<Convert<uhal_map_absolute>>("ComplexAbs", parts);
    registrar.add<Convert<uhal_map_complex>>("Complex", {{"T", only(real)}, {"Tout", only(complex)}});
  }
  registrar.add<Conjugate>("Conj", {{"T", kComplex}});
  registrar.add<ApproximateEqual>("ApproximateEqual", {{"T", kWideFloats | kReducedFloats}});
}

}  // namespace unihal::tensorflow
