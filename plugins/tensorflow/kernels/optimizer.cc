// Optimizer steps on resource variables, each one function of csrc/kernels/elementwise.def.
//
// Learning rates and powers of beta come as device scalars and broadcast; the other coefficients are parameters of the
// function, so they are asked for in host memory.
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable.h"

namespace unihal::tensorflow {
namespace {

// The host must read coefficients in their dtype.
constexpr DtypeSet kOptimizerFloats = only(UHAL_FLOAT32) | only(UHAL_FLOAT64);

// Slots and gradients have the variable's shape; only coefficients broadcast.
bool check_shapes(Context& context, const char* op, const View& variable, std::initializer_list<const View*> others) {
  for (const View* other : others) {
    if (context.ok() && shape_of(*other) != shape_of(variable)) {
      context.fail_invalid(std::string(op) + ": gradient and slots must have the variable's shape " +
                           to_text(variable) + ", got " + to_text(*other));
    }
  }
  return context.ok();
}

class Optimizer : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
};

bool check_scalars(Context& context, const char* op, std::initializer_list<const View*> coefficients) {
  for (const View* coefficient : coefficients) {
    if (context.ok() && coefficient->rank != 0) {
      context.fail_invalid(std::string(op) + ": learning rate and powers of beta must be scalars, got shape " +
                           to_text(*coefficient));
    }
  }
  return context.ok();
}

// (var, alpha, delta)
class GradientDescent : public Optimizer {
 public:
  using Optimizer::Optimizer;
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View parameter = variables.writable(0);
    const View rate = context.input(1);
    const View gradient = context.input(2);
    if (!check_scalars(context, op(), {&rate})) return;
    if (!check_shapes(context, op(), parameter, {&gradient})) return;
    context.map(uhal_map_sgd, {&parameter, &gradient, &rate}, {&parameter});
  }
};

// (var, accum, lr, grad, momentum)
template <bool kRateInVelocity>
class Momentum : public Optimizer {
 public:
  explicit Momentum(Construction& construction)
      : Optimizer(construction), nesterov_(construction.boolean("use_nesterov")) {}
  void compute(Context& context) const override {
    LockedVariables variables(context, {0, 1});
    const View parameter = variables.writable(0);
    const View velocity = variables.writable(1);
    const View rate = context.input(2);
    const View gradient = context.input(3);
    const double momentum = context.host_real(4);
    if (!check_scalars(context, op(), {&rate})) return;
    if (!check_shapes(context, op(), parameter, {&velocity, &gradient})) return;
    const double nesterov = nesterov_ ? 1 : 0;
    if (kRateInVelocity) {
      context.map(uhal_map_momentum_with_rate, {&parameter, &gradient, &velocity, &rate}, {&parameter, &velocity},
                  {momentum, nesterov});
    } else {
      context.map(uhal_map_momentum, {&parameter, &gradient, &velocity, &rate}, {&parameter, &velocity},
                  {momentum, nesterov, 0, 1});
    }
  }

 private:
  bool nesterov_;
};

// (var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)
class Adam : public Optimizer {
 public:
  explicit Adam(Construction& construction) : Optimizer(construction) {
    if (construction.boolean("use_nesterov")) {
      construction.fail(TF_UNIMPLEMENTED, "use_nesterov is not supported; keep the variable on /CPU:0 or leave it off");
    }
  }
  void compute(Context& context) const override {
    LockedVariables variables(context, {0, 1, 2});
    const View parameter = variables.writable(0);
    const View first = variables.writable(1);
    const View second = variables.writable(2);
    const View power1 = context.input(3);
    const View power2 = context.input(4);
    const View rate = context.input(5);
    const double beta1 = context.host_real(6);
    const double beta2 = context.host_real(7);
    const double epsilon = context.host_real(8);
    const View gradient = context.input(9);
    if (!check_scalars(context, op(), {&rate, &power1, &power2})) return;
    if (!check_shapes(context, op(), parameter, {&first, &second, &gradient})) return;
    context.map(uhal_map_adam_epsilon_hat, {&parameter, &gradient, &first, &second, &rate, &power1, &power2},
                {&parameter, &first, &second}, {beta1, beta2, epsilon});
  }
};

// (var, ms, mom, lr, rho, momentum, epsilon, grad)
class RmsProp : public Optimizer {
 public:
  using Optimizer::Optimizer;
  void compute(Context& context) const override {
    LockedVariables variables(context, {0, 1, 2});
    const View parameter = variables.writable(0);
    const View mean_square = variables.writable(1);
    const View velocity = variables.writable(2);
    const View rate = context.input(3);
    const double decay = context.host_real(4);
    const double momentum = context.host_real(5);
    const double epsilon = context.host_real(6);
    const View gradient = context.input(7);
    if (!check_scalars(context, op(), {&rate})) return;
    if (!check_shapes(context, op(), parameter, {&mean_square, &velocity, &gradient})) return;
    context.map(uhal_map_rmsprop, {&parameter, &gradient, &mean_square, &velocity, &rate},
                {&parameter, &mean_square, &velocity}, {decay, momentum, epsilon});
  }
};

// (var, accum, lr, [epsilon], grad)
template <bool kHasEpsilon>
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(Construction& construction) : Optimizer(construction) {
    if (!construction.boolean("update_slots")) {
      construction.fail(TF_UNIMPLEMENTED, "update_slots=False is not supported; keep the variable on /CPU:0");
    }
  }
  void compute(Context& context) const override {
    LockedVariables variables(context, {0, 1});
    const View parameter = variables.writable(0);
    const View accumulator = variables.writable(1);
    const View rate = context.input(2);
    const double epsilon = kHasEpsilon ? context.host_real(3) : 0;
    const View gradient = context.input(kHasEpsilon ? 4 : 3);
    if (!check_scalars(context, op(), {&rate})) return;
    if (!check_shapes(context, op(), parameter, {&accumulator, &gradient})) return;
    context.map(uhal_map_adagrad, {&parameter, &gradient, &accumulator, &rate}, {&parameter, &accumulator}, {epsilon});
  }
};

}  // namespace

void register_optimizer(Registrar& registrar) {
  const std::initializer_list<TypeConstraint> types = {{"T", kOptimizerFloats}};
  registrar.add<GradientDescent>("ResourceApplyGradientDescent", {{"T", kFloats}}, {"var"});
  registrar.add<Momentum<false>>("ResourceApplyMomentum", types, {"var", "accum", "momentum"});
  registrar.add<Momentum<true>>("ResourceApplyKerasMomentum", types, {"var", "accum", "momentum"});
  registrar.add<Adam>("ResourceApplyAdam", types, {"var", "m", "v", "beta1", "beta2", "epsilon"});
  registrar.add<RmsProp>("ResourceApplyRMSProp", types, {"var", "ms", "mom", "rho", "momentum", "epsilon"});
  registrar.add<Adagrad<false>>("ResourceApplyAdagrad", types, {"var", "accum"});
  registrar.add<Adagrad<true>>("ResourceApplyAdagradV2", types, {"var", "accum", "epsilon"});
}

}  // namespace unihal::tensorflow
