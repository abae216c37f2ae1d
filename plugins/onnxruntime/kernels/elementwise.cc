// Ops that compute each element from elements at the same place.
#include <cmath>
#include <limits>

#include "plugins/onnxruntime/kernels/four_bits.h"

namespace unihal::onnxruntime {
namespace {

// -- one operand ----------------------------------------------------------------------------------------

// A number that a function of elementwise.def takes: an attribute of the node, or a constant where the name is NULL.
struct Parameter {
  const char* attribute;
  double otherwise;
};

struct UnaryFunction {
  uhal_map_function function;
  Parameter parameters[3];
};

// Pointwise y = function(x); y's dtype is what the graph says.
class Unary final : public Kernel {
 public:
  Unary(const Description& node, const void* data) : function_(*static_cast<const UnaryFunction*>(data)) {
    for (int i = 0; i < 3; ++i) {
      const Parameter& parameter = function_.parameters[i];
      values_[i] =
          parameter.attribute != nullptr ? node.real(parameter.attribute, parameter.otherwise) : parameter.otherwise;
    }
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() != 0) call.map(function_.function, {&x}, {&y}, {values_[0], values_[1], values_[2]});
  }

 private:
  const UnaryFunction& function_;
  double values_[3];
};

constexpr UnaryFunction kAbs{uhal_map_absolute};
constexpr UnaryFunction kNegative{uhal_map_negative};
constexpr UnaryFunction kSign{uhal_map_sign};
constexpr UnaryFunction kReciprocal{uhal_map_reciprocal};
constexpr UnaryFunction kFloor{uhal_map_floor};
constexpr UnaryFunction kCeil{uhal_map_ceil};
constexpr UnaryFunction kRound{uhal_map_round_half_to_even};
constexpr UnaryFunction kExp{uhal_map_exp};
constexpr UnaryFunction kLog{uhal_map_log};
constexpr UnaryFunction kSqrt{uhal_map_sqrt};
constexpr UnaryFunction kSin{uhal_map_sin};
constexpr UnaryFunction kCos{uhal_map_cos};
constexpr UnaryFunction kTan{uhal_map_tan};
constexpr UnaryFunction kAsin{uhal_map_asin};
constexpr UnaryFunction kAcos{uhal_map_acos};
constexpr UnaryFunction kAtan{uhal_map_atan};
constexpr UnaryFunction kSinh{uhal_map_sinh};
constexpr UnaryFunction kCosh{uhal_map_cosh};
constexpr UnaryFunction kTanh{uhal_map_tanh};
constexpr UnaryFunction kAsinh{uhal_map_asinh};
constexpr UnaryFunction kAcosh{uhal_map_acosh};
constexpr UnaryFunction kAtanh{uhal_map_atanh};
constexpr UnaryFunction kErf{uhal_map_erf};
constexpr UnaryFunction kRelu{uhal_map_relu};
constexpr UnaryFunction kSigmoid{uhal_map_sigmoid};
constexpr UnaryFunction kLeakyRelu{uhal_map_leaky_relu, {{"alpha", 0.01}}};
constexpr UnaryFunction kElu{uhal_map_elu, {{"alpha", 1.0}}};
constexpr UnaryFunction kSelu{uhal_map_selu,
                              {{"gamma", 1.05070102214813232421875}, {"alpha", 1.67326319217681884765625}}};
constexpr UnaryFunction kHardSigmoid{uhal_map_hard_sigmoid, {{"alpha", 0.2}, {"beta", 0.5}}};
constexpr UnaryFunction kHardSwish{uhal_map_hard_swish, {{nullptr, 6}, {nullptr, 6}, {nullptr, 3}}};
constexpr UnaryFunction kSoftplus{uhal_map_softplus, {{nullptr, 1}, {nullptr, 40}}};
constexpr UnaryFunction kSoftsign{uhal_map_softsign};
constexpr UnaryFunction kMish{uhal_map_mish};
constexpr UnaryFunction kThresholdedRelu{uhal_map_thresholded_relu, {{"alpha", 1.0}}};
constexpr UnaryFunction kSwish{uhal_map_swish, {{"alpha", 1.0}}};
constexpr UnaryFunction kQuickGelu{uhal_map_swish, {{"alpha", 1.702}}};
constexpr UnaryFunction kIsNan{uhal_map_is_nan};
constexpr UnaryFunction kNot{uhal_map_logical_not};
constexpr UnaryFunction kBitwiseNot{uhal_map_bitwise_not};
constexpr UnaryFunction kGeluErf{uhal_map_gelu_erf};

// alpha * (exp(x / alpha) - 1) below 0, else x.
class Celu final : public Kernel {
 public:
  explicit Celu(const Description& node) : alpha_(node.real("alpha", 1.0)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    call.map(uhal_map_scale, {&x}, {&y}, {1 / alpha_, 0});
    call.map(uhal_map_elu, {&y}, {&y}, {1});
    call.map(uhal_map_scale, {&y}, {&y}, {alpha_, 0});
  }

 private:
  const double alpha_;
};

class Gelu final : public Kernel {
 public:
  explicit Gelu(const Description& node) {
    const std::string approximate = node.text("approximate", "none");
    function_ = approximate == "tanh" ? uhal_map_gelu_tanh : uhal_map_gelu_erf;
    if (approximate != "tanh" && approximate != "none") node.refuse("approximate is " + approximate);
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() != 0) call.map(function_, {&x}, {&y});
  }

 private:
  uhal_map_function function_;
};

// x + bias below -lambd, x - bias above lambd, else 0.
class Shrink final : public Kernel {
 public:
  explicit Shrink(const Description& node) : lambda_(node.real("lambd", 0.5)), bias_(node.real("bias", 0)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    call.map(uhal_map_hard_shrink, {&x}, {&y}, {lambda_});
    if (bias_ == 0) return;
    const View sign = call.scratch_like(y, y.dtype);
    call.map(uhal_map_sign, {&y}, {&sign});
    const View minus = call.constant(-bias_, y.dtype);
    call.map(uhal_map_multiply_add, {&sign, &minus, &y}, {&y});
  }

 private:
  const double lambda_, bias_;
};

class IsInf final : public Kernel {
 public:
  explicit IsInf(const Description& node)
      : negative_(node.integer("detect_negative", 1) != 0), positive_(node.integer("detect_positive", 1) != 0) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    if (negative_ && positive_) return call.map(uhal_map_is_infinite, {&x}, {&y});
    if (!negative_ && !positive_) return call.fill(y, 0);
    const View infinity = call.constant(positive_ ? INFINITY : -INFINITY, x.dtype);
    call.map(uhal_map_equal, {&x, &infinity}, {&y});
  }

 private:
  const bool negative_, positive_;
};

class Cast final : public Kernel {
 public:
  explicit Cast(const Description& node) : to_(node.output(0).type), saturates_(node.integer("saturate", 1) != 0) {
    if (widened(to_) == UHAL_DTYPE_INVALID) node.refuse(std::string("to ") + type_name(to_));
    if (widened(node.input(0).type) == UHAL_DTYPE_INVALID)
      node.refuse(std::string("no kernel for dtype ") + type_name(node.input(0).type));
  }
  void run(Call& call) const override {
    const View x = widened_input(call, 0);
    const WidenedOutput output(call, 0, shape_of(x), to_);
    const View& y = output.view;
    if (y.elements() == 0) return;
    if (is_float8(y.dtype) && saturates_ && x.dtype != y.dtype) {
      // The largest number stands for what is beyond it, where unihal's cast has infinity or NaN.
      const View near = call.scratch_like(x, x.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32);
      call.move(x, near);
      call.map(uhal_map_clip, {&near}, {&near}, {-most_of(y.dtype), most_of(y.dtype)});
      return call.cast(near, y);
    }
    call.move(x, y);
    output.finish(call);
  }

 private:
  const int32_t to_;
  const bool saturates_;
};

// -- two operands and more ----------------------------------------------------------------------------

struct BinaryFunction {
  uhal_map_function floating;
  uhal_map_function integer;
};

class Binary final : public Kernel {
 public:
  Binary(const Description& node, const void* data) {
    const auto& function = *static_cast<const BinaryFunction*>(data);
    const uhal_dtype dtype = node.input_dtype(0);
    function_ = contains(kFloats, dtype) ? function.floating : function.integer;
    // In the first opsets the second operand may begin in the middle of the first one's axes.
    node.require(node.version() >= 7 || node.integer("broadcast", 0) == 0, "broadcasting of opset 6");
  }
  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = call.input(1);
    const View y = call.output(0, broadcast(call, shape_of(a), shape_of(b)));
    if (y.elements() != 0) call.map(function_, {&a, &b}, {&y});
  }

 private:
  uhal_map_function function_;
};

constexpr BinaryFunction kAdd{uhal_map_add, uhal_map_add};
constexpr BinaryFunction kSubtract{uhal_map_subtract, uhal_map_subtract};
constexpr BinaryFunction kMultiply{uhal_map_multiply, uhal_map_multiply};
constexpr BinaryFunction kDivide{uhal_map_divide, uhal_map_truncate_divide};
constexpr BinaryFunction kPower{uhal_map_power, uhal_map_power};
constexpr BinaryFunction kAnd{uhal_map_logical_and, uhal_map_logical_and};
constexpr BinaryFunction kOr{uhal_map_logical_or, uhal_map_logical_or};
constexpr BinaryFunction kXor{uhal_map_logical_xor, uhal_map_logical_xor};
constexpr BinaryFunction kEqual{uhal_map_equal, uhal_map_equal};
constexpr BinaryFunction kLess{uhal_map_less, uhal_map_less};
constexpr BinaryFunction kLessEqual{uhal_map_less_equal, uhal_map_less_equal};
constexpr BinaryFunction kGreater{uhal_map_greater, uhal_map_greater};
constexpr BinaryFunction kGreaterEqual{uhal_map_greater_equal, uhal_map_greater_equal};
constexpr BinaryFunction kBitwiseAnd{uhal_map_bitwise_and, uhal_map_bitwise_and};
constexpr BinaryFunction kBitwiseOr{uhal_map_bitwise_or, uhal_map_bitwise_or};
constexpr BinaryFunction kBitwiseXor{uhal_map_bitwise_xor, uhal_map_bitwise_xor};

class Mod final : public Kernel {
 public:
  explicit Mod(const Description& node)
      : function_(node.integer("fmod", 0) != 0 ? uhal_map_truncate_mod : uhal_map_floor_mod) {}
  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = call.input(1);
    const View y = call.output(0, broadcast(call, shape_of(a), shape_of(b)));
    if (y.elements() != 0) call.map(function_, {&a, &b}, {&y});
  }

 private:
  const uhal_map_function function_;
};

class BitShift final : public Kernel {
 public:
  explicit BitShift(const Description& node)
      : function_(node.text("direction", "LEFT") == "RIGHT" ? uhal_map_shift_right : uhal_map_shift_left) {}
  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = call.input(1);
    const View y = call.output(0, broadcast(call, shape_of(a), shape_of(b)));
    if (y.elements() != 0) call.map(function_, {&a, &b}, {&y});
  }

 private:
  const uhal_map_function function_;
};

// Swish of a gate, times a value.
class SwiGlu final : public Kernel {
 public:
  explicit SwiGlu(const Description& node) : alpha_(node.real("alpha", 1)) {}
  void run(Call& call) const override {
    const View gate = call.input(0), value = call.input(1);
    call.require(shape_of(gate) == shape_of(value), "the gate and the value are not of one shape");
    const View y = call.output_like(0, gate);
    if (y.elements() == 0) return;
    const View open = call.scratch_like(gate, gate.dtype);
    call.map(uhal_map_swish, {&gate}, {&open}, {alpha_});
    call.map(uhal_map_multiply, {&open, &value}, {&y});
  }

 private:
  const double alpha_;
};

// x where it is not negative, else slope * x; the slope broadcasts to x.
class PRelu final : public Kernel {
 public:
  explicit PRelu(const Description& node) { node.require(node.version() >= 7, "broadcasting of opset 6"); }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View slope = call.input(1);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const View negative = call.scratch_like(x, UHAL_BOOL);
    const View zero = call.constant(0, x.dtype);
    call.map(uhal_map_less, {&x, &zero}, {&negative});
    const View scaled = call.scratch_like(x, x.dtype);
    call.map(uhal_map_multiply, {&x, &slope}, {&scaled});
    call.map(uhal_map_select, {&negative, &scaled, &x}, {&y});
  }
};

struct VariadicFunction {
  uhal_map_function function;
  bool is_mean;
};
constexpr VariadicFunction kMaximum{uhal_map_maximum, false};
constexpr VariadicFunction kMinimum{uhal_map_minimum, false};
constexpr VariadicFunction kSum{uhal_map_add, false};
constexpr VariadicFunction kMean{uhal_map_add, true};

class Variadic final : public Kernel {
 public:
  Variadic(const Description& node, const void* data) : function_(*static_cast<const VariadicFunction*>(data)) {
    node.require(node.input_count() > 0, "no operands");
  }
  void run(Call& call) const override {
    Shape shape = call.shape(0);
    for (int i = 1; i < call.input_count(); ++i) shape = broadcast(call, shape, call.shape(i));
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const View first = call.input(0);
    if (call.input_count() == 1) return call.copy(first, y);
    // The output may lie where the first operand does, or another one: what is read later must not be overwritten.
    const View sum = call.input_count() == 2 ? y : call.scratch_like(y, y.dtype);
    const View second = call.input(1);
    call.map(function_.function, {&first, &second}, {&sum});
    for (int i = 2; i < call.input_count(); ++i) {
      const View next = call.input(i);
      const View& to = i + 1 == call.input_count() ? y : sum;
      call.map(function_.function, {&sum, &next}, {&to});
    }
    if (function_.is_mean) call.map(uhal_map_scale, {&y}, {&y}, {1.0 / call.input_count(), 0});
  }

 private:
  const VariadicFunction& function_;
};

class Where final : public Kernel {
 public:
  explicit Where(const Description& node) {
    node.require(contains(kReal, node.input_dtype(1)), "a dtype that is only moved");
  }
  void run(Call& call) const override {
    const View condition = call.input(0);
    const View yes = call.input(1);
    const View no = call.input(2);
    const View y = call.output(0, broadcast(call, broadcast(call, shape_of(condition), shape_of(yes)), shape_of(no)));
    if (y.elements() != 0) call.map(uhal_map_select, {&condition, &yes, &no}, {&y});
  }
};

class Clip final : public Kernel {
 public:
  explicit Clip(const Description& node)
      : by_attributes_(node.version() < 11),
        minimum_(node.version() < 11 ? node.real("min", -INFINITY) : -INFINITY),
        maximum_(node.version() < 11 ? node.real("max", INFINITY) : INFINITY) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const bool has_minimum = !by_attributes_ && call.has(1);
    const bool has_maximum = !by_attributes_ && call.has(2);
    if (contains(kFloats, x.dtype)) {
      const double most = has_maximum ? call.scalar(2) : maximum_;
      const double least = std::min(has_minimum ? call.scalar(1) : minimum_, most);  // the maximum wins
      return call.map(uhal_map_clip, {&x}, {&y}, {least, most});
    }
    View from = x;
    if (has_minimum) {
      const View least = bound(call, 1);
      call.map(uhal_map_maximum, {&from, &least}, {&y});
      from = y;
    }
    if (has_maximum) {
      const View most = bound(call, 2);
      call.map(uhal_map_minimum, {&from, &most}, {&y});
      from = y;
    }
    call.copy(from, y);
  }

 private:
  // Integers keep all of their bits.
  static View bound(Call& call, int index) {
    const View on_host = call.input(index);
    call.require(on_host.elements() == 1, "a bound is not one number");
    return call.upload(on_host.data, {}, on_host.dtype);
  }

  const bool by_attributes_;
  const double minimum_, maximum_;
};

#define UNARY(op, from, dtypes_, function) \
  {.name = op,                             \
   .first = from,                          \
   .last = kNewestOpset,                   \
   .dtypes = dtypes_,                      \
   .make = make<Unary>,                    \
   .reuse = Reuse::kInPlace,               \
   .data = &function}
// Whose result has another dtype than the operand.
#define TEST(op, from, dtypes_, function) \
  {.name = op, .first = from, .last = kNewestOpset, .dtypes = dtypes_, .make = make<Unary>, .data = &function}
#define BINARY(op, from, dtypes_, function) \
  {.name = op,                              \
   .first = from,                           \
   .last = kNewestOpset,                    \
   .dtypes = dtypes_,                       \
   .make = make<Binary>,                    \
   .reuse = Reuse::kInPlace,                \
   .data = &function}
#define COMPARE(op, from, dtypes_, function) \
  {.name = op, .first = from, .last = kNewestOpset, .dtypes = dtypes_, .make = make<Binary>, .data = &function}
#define VARIADIC(op, from, dtypes_, function) \
  {.name = op, .first = from, .last = kNewestOpset, .dtypes = dtypes_, .make = make<Variadic>, .data = &function}
#define IN_PLACE(op, from, dtypes_, type) \
  {.name = op, .first = from, .last = kNewestOpset, .dtypes = dtypes_, .make = make<type>, .reuse = Reuse::kInPlace}

const Op kElementwiseOps[] = {
    UNARY("Abs", 6, kNumbers, kAbs),
    UNARY("Neg", 6, kFloats | kSignedIntegers, kNegative),
    UNARY("Sign", 9, kNumbers, kSign),
    UNARY("Reciprocal", 6, kFloats, kReciprocal),
    UNARY("Floor", 6, kFloats, kFloor),
    UNARY("Ceil", 6, kFloats, kCeil),
    UNARY("Round", 11, kFloats, kRound),
    UNARY("Exp", 6, kFloats, kExp),
    UNARY("Log", 6, kFloats, kLog),
    UNARY("Sqrt", 6, kFloats, kSqrt),
    UNARY("Sin", 7, kFloats, kSin),
    UNARY("Cos", 7, kFloats, kCos),
    UNARY("Tan", 7, kFloats, kTan),
    UNARY("Asin", 7, kFloats, kAsin),
    UNARY("Acos", 7, kFloats, kAcos),
    UNARY("Atan", 7, kFloats, kAtan),
    UNARY("Sinh", 9, kFloats, kSinh),
    UNARY("Cosh", 9, kFloats, kCosh),
    UNARY("Tanh", 6, kFloats, kTanh),
    UNARY("Asinh", 9, kFloats, kAsinh),
    UNARY("Acosh", 9, kFloats, kAcosh),
    UNARY("Atanh", 9, kFloats, kAtanh),
    UNARY("Erf", 9, kFloats, kErf),
    UNARY("Relu", 6, kFloats | kSignedIntegers, kRelu),
    UNARY("Sigmoid", 6, kFloats, kSigmoid),
    UNARY("LeakyRelu", 6, kFloats, kLeakyRelu),
    UNARY("Elu", 6, kFloats, kElu),
    UNARY("Selu", 6, kFloats, kSelu),
    UNARY("HardSigmoid", 6, kFloats, kHardSigmoid),
    UNARY("HardSwish", 14, kFloats, kHardSwish),
    UNARY("Softplus", 1, kFloats, kSoftplus),
    UNARY("Softsign", 1, kFloats, kSoftsign),
    UNARY("Mish", 18, kFloats, kMish),
    UNARY("ThresholdedRelu", 10, kFloats, kThresholdedRelu),
    UNARY("Swish", 24, kFloats, kSwish),
    UNARY("Not", 1, kBool, kNot),
    UNARY("BitwiseNot", 18, kIntegers, kBitwiseNot),
    TEST("IsNaN", 9, kFloats, kIsNan),
    {.name = "QuickGelu",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<Unary>,
     .reuse = Reuse::kInPlace,
     .data = &kQuickGelu,
     .domain = kMicrosoft},
    {.name = "Gelu",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<Unary>,
     .reuse = Reuse::kInPlace,
     .data = &kGeluErf,
     .domain = kMicrosoft},
    IN_PLACE("Celu", 12, kFloats, Celu),
    IN_PLACE("Gelu", 20, kFloats, Gelu),
    {.name = "SwiGLU", .first = 28, .last = kNewestOpset, .dtypes = kFloats, .make = make<SwiGlu>},
    {.name = "Shrink", .first = 9, .last = kNewestOpset, .dtypes = kFloats, .make = make<Shrink>},
    {.name = "IsInf", .first = 10, .last = kNewestOpset, .dtypes = kFloats, .make = make<IsInf>},
    {.name = "Cast",
     .first = 6,
     .last = kNewestOpset,
     .dtypes = kReal | only(UHAL_FLOAT8_E4M3FN) | only(UHAL_FLOAT8_E5M2) | kWithoutDtype,
     .make = make<Cast>},
    {.name = "CastLike",
     .first = 15,
     .last = kNewestOpset,
     .dtypes = kReal | only(UHAL_FLOAT8_E4M3FN) | only(UHAL_FLOAT8_E5M2) | kWithoutDtype,
     .make = make<Cast>},
    BINARY("Add", 6, kNumbers, kAdd),
    BINARY("Sub", 6, kNumbers, kSubtract),
    BINARY("Mul", 6, kNumbers, kMultiply),
    BINARY("Div", 6, kNumbers, kDivide),
    BINARY("Pow", 7, kNumbers, kPower),
    BINARY("And", 7, kBool, kAnd),
    BINARY("Or", 7, kBool, kOr),
    BINARY("Xor", 7, kBool, kXor),
    BINARY("BitwiseAnd", 18, kIntegers, kBitwiseAnd),
    BINARY("BitwiseOr", 18, kIntegers, kBitwiseOr),
    BINARY("BitwiseXor", 18, kIntegers, kBitwiseXor),
    COMPARE("Equal", 7, kReal, kEqual),
    COMPARE("Less", 7, kNumbers, kLess),
    COMPARE("LessOrEqual", 12, kNumbers, kLessEqual),
    COMPARE("Greater", 7, kNumbers, kGreater),
    COMPARE("GreaterOrEqual", 12, kNumbers, kGreaterEqual),
    IN_PLACE("Mod", 10, kNumbers, Mod),
    IN_PLACE("BitShift", 11, kIntegers, BitShift),
    {.name = "PRelu",
     .first = 6,
     .last = kNewestOpset,
     .dtypes = kFloats | only(UHAL_INT32) | only(UHAL_INT64),
     .make = make<PRelu>},
    VARIADIC("Max", 6, kNumbers, kMaximum),
    VARIADIC("Min", 6, kNumbers, kMinimum),
    VARIADIC("Sum", 6, kFloats, kSum),
    VARIADIC("Mean", 6, kFloats, kMean),
    {.name = "Where", .first = 9, .last = kNewestOpset, .dtypes = kBool, .make = make<Where>},
    {.name = "Clip",
     .first = 6,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<Clip>,
     .reuse = Reuse::kInPlace,
     .host_inputs = host({1, 2})},
};

#undef UNARY
#undef TEST
#undef BINARY
#undef COMPARE
#undef VARIADIC
#undef IN_PLACE

}  // namespace

Table elementwise_ops() { return table(kElementwiseOps); }

}  // namespace unihal::onnxruntime
