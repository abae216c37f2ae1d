// The ops that the graph pass puts in the place of several: see fusion.h.
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/kernels/fused_elementwise.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable.h"

namespace unihal::tensorflow {
namespace {

// The steps of several variables: lists of as many resources and tensors, then what the steps share. Each variable is
// locked for its own step only, as by an op of its own.
class Steps : public Kernel {
 public:
  explicit Steps(Construction& construction)
      : Kernel(construction), count_(static_cast<int>(construction.integer("N"))) {}
  // For steps of one variable: join_steps.cc joins none with more axes than a view has.
  Merging merging() const override { return Merging::kSameShape; }

 protected:
  int count() const { return count_; }
  // The input that is the `item`-th of the `list`-th list, or for item 0 what comes after the lists before.
  int at(int list, int item = 0) const { return list * count_ + item; }

 private:
  int count_;
};

// (variables, firsts, seconds, gradients, rate, [decay])
class FusedAdam : public Steps {
 public:
  explicit FusedAdam(Construction& construction)
      : Steps(construction),
        first_rate_(construction.real("first_rate")),
        second_rate_(construction.real("second_rate")),
        epsilon_(construction.real("epsilon")) {}
  void compute(Context& context) const override {
    const View rate = context.input(at(4));
    const bool decays = context.input_count() > at(4) + 1;
    const View decay = decays ? context.input(at(4) + 1) : View();
    for (int i = 0; i < count() && context.ok(); ++i) {
      LockedVariables variables(context, {at(0, i), at(1, i), at(2, i)});
      const View variable = variables.writable(0);
      const View first = variables.writable(1);
      const View second = variables.writable(2);
      const View gradient = context.input(at(3, i));
      if (decays) {
        context.map(uhal_map_adamw_by_difference, {&variable, &gradient, &first, &second, &rate, &decay},
                    {&variable, &first, &second}, {first_rate_, second_rate_, epsilon_});
      } else {
        context.map(uhal_map_adam_by_difference, {&variable, &gradient, &first, &second, &rate},
                    {&variable, &first, &second}, {first_rate_, second_rate_, epsilon_});
      }
    }
  }

 private:
  double first_rate_, second_rate_, epsilon_;
};

// (learning rate, step)
class FusedAdamRate : public Kernel {
 public:
  explicit FusedAdamRate(Construction& construction)
      : Kernel(construction), beta1_(construction.real("beta1")), beta2_(construction.real("beta2")) {}
  void compute(Context& context) const override {
    const View learning_rate = context.input(0);
    const View step = context.input(1);
    if (!context.ok()) return;
    Shape shape;
    if (!broadcast_shape(learning_rate, step, &shape)) {
      return context.fail_invalid("Adam: the learning rate has shape " + to_text(learning_rate) +
                                  ", the step has shape " + to_text(step));
    }
    const View rate = context.output(0, learning_rate.dtype, shape);
    context.map(uhal_map_adam_rate, {&learning_rate, &step}, {&rate}, {beta1_, beta2_});
  }

 private:
  double beta1_, beta2_;
};

// (variables, velocities, gradients, rate)
class FusedMomentum : public Steps {
 public:
  explicit FusedMomentum(Construction& construction)
      : Steps(construction),
        momentum_(construction.real("momentum")),
        nesterov_(construction.boolean("use_nesterov") ? 1 : 0) {}
  void compute(Context& context) const override {
    const View rate = context.input(at(3));
    for (int i = 0; i < count() && context.ok(); ++i) {
      LockedVariables variables(context, {at(0, i), at(1, i)});
      const View variable = variables.writable(0);
      const View velocity = variables.writable(1);
      const View gradient = context.input(at(2, i));
      context.map(uhal_map_momentum_with_rate, {&variable, &gradient, &velocity, &rate}, {&variable, &velocity},
                  {momentum_, nesterov_});
    }
  }

 private:
  double momentum_, nesterov_;
};

// (variables, values, rate): variable -= value * rate
class ScaledUpdate : public Steps {
 public:
  using Steps::Steps;
  Merging merging() const override { return Merging::kBroadcast; }
  void compute(Context& context) const override {
    const View rate = context.input(at(2));
    for (int i = 0; i < count() && context.ok(); ++i) {
      LockedVariables variables(context, {at(0, i)});
      const View variable = variables.writable(0);
      const View value = context.input(at(1, i));
      Shape joint;
      if (context.ok() && (!broadcast_shape(value, rate, &joint) || joint != shape_of(variable))) {
        return context.fail_invalid("Cannot update a variable of shape " + to_text(variable) +
                                    " with a product of shapes " + to_text(value) + " and " + to_text(rate));
      }
      context.map(uhal_map_sgd, {&variable, &value, &rate}, {&variable});
    }
  }
};

// (y, gradient) -> (x_gradient)
class FusedSoftmaxGrad : public Kernel {
 public:
  explicit FusedSoftmaxGrad(Construction& construction) : Kernel(construction), axis_(construction.integer("axis")) {}
  void compute(Context& context) const override {
    const View y = context.input(0);
    const View gradient = context.input(1);
    if (!context.ok()) return;
    if (shape_of(gradient) != shape_of(y)) {
      return context.fail_invalid("Incompatible shapes: " + to_text(y) + " vs. " + to_text(gradient));
    }
    const int axis = checked_axis(context, axis_, y.rank);
    const View x_gradient = context.output_like(0, y);
    if (!context.ok()) return;
    const uhal_softmax_attributes attributes = softmax_attributes(axis);
    context.launch(UHAL_OP_SOFTMAX_BACKWARD, {&y, &gradient}, {&x_gradient}, &attributes);
  }

 private:
  int64_t axis_;
};

// (variables, values, rate): variable += (value - variable) * rate
class MovingAverage : public Steps {
 public:
  using Steps::Steps;
  void compute(Context& context) const override {
    const View rate = context.input(at(2));
    for (int i = 0; i < count() && context.ok(); ++i) {
      LockedVariables variables(context, {at(0, i)});
      const View variable = variables.writable(0);
      const View value = context.input(at(1, i));
      context.map(uhal_map_linear_interpolation, {&variable, &value, &rate}, {&variable});
    }
  }
};

// (x) -> (y), or (x, gradient) -> (x_gradient)
class FusedGelu : public Kernel {
 public:
  explicit FusedGelu(Construction& construction)
      : Kernel(construction), approximate_(construction.boolean("approximate")) {}
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (context.input_count() == 1) {
      const View y = context.output_like(0, x);
      context.map(approximate_ ? uhal_map_gelu_tanh : uhal_map_gelu_erf, {&x}, {&y});
      return;
    }
    const View gradient = context.input(1);
    if (context.ok() && shape_of(gradient) != shape_of(x)) {
      return context.fail_invalid("Incompatible shapes: " + to_text(x) + " vs. " + to_text(gradient));
    }
    const View x_gradient = context.output_like(0, x);
    context.map(approximate_ ? uhal_map_gelu_tanh_backward : uhal_map_gelu_erf_backward, {&x, &gradient},
                {&x_gradient});
  }

 private:
  bool approximate_;
};

class ReplaceNegativeZero : public Kernel {
 public:
  explicit ReplaceNegativeZero(Construction& construction)
      : Kernel(construction), replacement_(construction.real("replacement")) {}
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.output_like(0, x);
    context.map(uhal_map_replace_negative_zero, {&x}, {&y}, {replacement_});
  }

 private:
  double replacement_;
};

// () -> (signal), in host memory: that all it waits for has been submitted
class Submitted : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View signal = context.output(0, UHAL_INT32, Shape{});
    if (context.ok()) *static_cast<int32_t*>(signal.data) = 1;
  }
};

}  // namespace

void register_fused(Registrar& registrar) {
  register_fused_ops();
  const std::initializer_list<TypeConstraint> types = {{"T", only(UHAL_FLOAT32)}};
  const std::initializer_list<TypeConstraint> narrow = {{"T", kReducedFloats | only(UHAL_FLOAT32)}};
  registrar.add_own<FusedAdam>("UnihalAdam", types, {"variables", "firsts", "seconds"});
  registrar.add_own<FusedAdam>("UnihalAdamWithDecay", types, {"variables", "firsts", "seconds"});
  registrar.add_own<FusedAdamRate>("UnihalAdamRate", types);
  registrar.add_own<FusedMomentum>("UnihalMomentum", types, {"variables", "velocities"});
  registrar.add_own<FusedGelu>("UnihalGelu", narrow);
  registrar.add_own<FusedGelu>("UnihalGeluGrad", narrow);
  registrar.add_own<FusedSoftmaxGrad>("UnihalSoftmaxGrad", narrow);
  registrar.add_own<ScaledUpdate>("UnihalScaledUpdate", types, {"variables"});
  registrar.add_own<MovingAverage>("UnihalMovingAverage", types, {"variables"});
  registrar.add_own<ReplaceNegativeZero>("UnihalReplaceNegativeZero", types);
  registrar.add_own<Submitted>("UnihalSubmitted", {}, {"signal"});
  registrar.add_own<FusedElementwise>("UnihalElementwise", {});
}

}  // namespace unihal::tensorflow
