// Optimizer steps, in place: graph execution loses an in-place op that falls back to the CPU, silently.
#include <cstring>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// The parameter of a step and its result. With multi_precision the step is made on the float32 master copy, and the
// parameter is that rounded.
class Step {
 public:
  Step(const Context& context, Input parameter, OptionalInput master, bool multi_precision, Output parameter_out,
       Output master_out)
      : context_(context), rounded_(context.allocate(parameter_out, parameter.uhal())) {
    use_master_ = multi_precision && master && master_out;
    before_ = use_master_ ? master.view() : parameter.view();
    after_ = use_master_ ? context.allocate(master_out, before_.dtype) : rounded_;
  }
  const View& before() const { return before_; }
  const View& after() const { return after_; }
  void finish() const {
    if (use_master_) copy_or_cast(context_, after_, rounded_);
  }

 private:
  const Context& context_;
  View rounded_, before_, after_;
  bool use_master_;
};

void pass_through(const Context& context, Input x, Output y) {
  if (!y) return;
  const View in = x.view(), out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
}

void sgd(Context context, Input parameter, Input rate, Input gradient, OptionalInput master, bool multi_precision,
         Output parameter_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), lr = rate.view();
  context.map(uhal_map_sgd, {&step.before(), &g, &lr}, {&step.after()});
  step.finish();
}

void momentum(Context context, Input parameter, Input gradient, Input velocity, Input rate, OptionalInput master,
              float mu, bool nesterov, Text regularization, float coefficient, bool multi_precision, float rescale,
              Output parameter_out, Output velocity_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), v = velocity.view(), lr = rate.view();
  const View new_velocity = context.allocate(velocity_out, v.dtype);
  const double l2 = std::strcmp(regularization.value, "l2_decay") == 0 ? static_cast<double>(coefficient) : 0;
  context.map(uhal_map_momentum, {&step.before(), &g, &v, &lr}, {&step.after(), &new_velocity},
              {static_cast<double>(mu), nesterov ? 1.0 : 0.0, l2, static_cast<double>(rescale)});
  step.finish();
}

struct AdamState {
  Input rate, first, second;
  OptionalInput largest;  // second moment so far, for amsgrad
  Input power1, power2;
  Output first_out, second_out, largest_out, power1_out, power2_out;
};

// Parameters of a step of Adam, or of AdamW with decay > 0.
struct AdamSettings {
  double beta1, beta2, epsilon, decay, rate_factor;
  bool multi_precision, use_global_powers, amsgrad;
};

// Paddle's powers already are beta^t of this step.
void adam_step(const Context& context, const Step& step, Input gradient, const AdamState& state,
               const AdamSettings& settings) {
  const View g = gradient.view(), lr = state.rate.view(), m = state.first.view(), v = state.second.view();
  const View b1 = state.power1.view(), b2 = state.power2.view();
  const View new_m = context.allocate(state.first_out, m.dtype), new_v = context.allocate(state.second_out, v.dtype);
  if (settings.amsgrad) {
    const View top = state.largest.view(), new_top = context.allocate(state.largest_out, top.dtype);
    context.map(uhal_map_adam_amsgrad, {&step.before(), &g, &m, &v, &lr, &b1, &b2, &top},
                {&step.after(), &new_m, &new_v, &new_top},
                {settings.beta1, settings.beta2, settings.epsilon, settings.decay, settings.rate_factor});
  } else {
    context.map(uhal_map_adam, {&step.before(), &g, &m, &v, &lr, &b1, &b2}, {&step.after(), &new_m, &new_v},
                {settings.beta1, settings.beta2, settings.epsilon, settings.decay, settings.rate_factor});
  }
  step.finish();
  if (settings.use_global_powers) return;
  const View next1 = context.allocate(state.power1_out, b1.dtype), next2 = context.allocate(state.power2_out, b2.dtype);
  context.map(uhal_map_scale, {&b1}, {&next1}, {settings.beta1, 0});
  context.map(uhal_map_scale, {&b2}, {&next2}, {settings.beta2, 0});
}

// What adam and adamw share. Paddle sets skip_update when a loss scaler found an overflow.
void adam_any(const Context& context, Input parameter, Input gradient, const AdamState& state, OptionalInput master,
              OptionalInput skip_update, const AdamSettings& settings, Output parameter_out, Output master_out) {
  if (skip_update && read_number(context, skip_update.view()) != 0) {
    pass_through(context, parameter, parameter_out);
    pass_through(context, state.first, state.first_out);
    pass_through(context, state.second, state.second_out);
    if (state.largest) pass_through(context, Input{{state.largest.handle}}, state.largest_out);
    pass_through(context, state.power1, state.power1_out);
    pass_through(context, state.power2, state.power2_out);
    if (master) pass_through(context, Input{{master.handle}}, master_out);
    return;
  }
  const Step step(context, parameter, master, settings.multi_precision, parameter_out, master_out);
  adam_step(context, step, gradient, state, settings);
}

void adam(Context context, Input parameter, Input gradient, Input rate, Input first, Input second,
          OptionalInput largest, Input power1, Input power2, OptionalInput master, OptionalInput skip_update,
          Scalar beta1, Scalar beta2, Scalar epsilon, bool /*lazy*/, int64_t, bool multi_precision,
          bool use_global_powers, bool amsgrad, Output parameter_out, Output first_out, Output second_out,
          Output largest_out, Output power1_out, Output power2_out, Output master_out) {
  adam_any(context, parameter, gradient,
           {rate, first, second, largest, power1, power2, first_out, second_out, largest_out, power1_out, power2_out},
           master, skip_update,
           {beta1.number(), beta2.number(), epsilon.number(), 0, 1, multi_precision, use_global_powers, amsgrad},
           parameter_out, master_out);
}

void adamw(Context context, Input parameter, Input gradient, Input rate, Input first, Input second,
           OptionalInput largest, Input power1, Input power2, OptionalInput master, OptionalInput skip_update,
           Scalar beta1, Scalar beta2, Scalar epsilon, float rate_ratio, float decay, bool with_decay, bool /*lazy*/,
           int64_t, bool multi_precision, bool use_global_powers, bool amsgrad, Output parameter_out, Output first_out,
           Output second_out, Output largest_out, Output power1_out, Output power2_out, Output master_out) {
  adam_any(context, parameter, gradient,
           {rate, first, second, largest, power1, power2, first_out, second_out, largest_out, power1_out, power2_out},
           master, skip_update,
           {beta1.number(), beta2.number(), epsilon.number(), with_decay ? static_cast<double>(decay) : 0,
            static_cast<double>(rate_ratio), multi_precision, use_global_powers, amsgrad},
           parameter_out, master_out);
}

void adagrad(Context context, Input parameter, Input gradient, Input moment, Input rate, OptionalInput master,
             float epsilon, bool multi_precision, Output parameter_out, Output moment_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), m = moment.view(), lr = rate.view();
  const View new_moment = context.allocate(moment_out, m.dtype);
  context.map(uhal_map_adagrad, {&step.before(), &g, &m, &lr}, {&step.after(), &new_moment},
              {static_cast<double>(epsilon)});
  step.finish();
}

// Loss scaling: every gradient divided by the scale, and whether any was not finite.
void check_finite_and_unscale(Context context, InputList gradients, Input scale, OutputList unscaled, Output found) {
  const int64_t one[] = {1};
  const View factor = scale.view();
  const Scratch inverse(context, UHAL_FLOAT32, one, 1), all_finite(context, UHAL_BOOL, one, 1);
  const View overflow = context.allocate(found, UHAL_BOOL).reshaped({1});
  context.map(uhal_map_reciprocal, {&factor}, {&inverse});
  fill_zero(context, overflow);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const View gradient = flat(gradients[i].view());
    const Scratch finite(context, UHAL_BOOL, gradient);
    context.map(uhal_map_is_finite, {&gradient}, {&finite});
    const auto all = reduce_attributes(UHAL_REDUCE_ALL);
    context.run(UHAL_OP_REDUCE, {&finite}, {&all_finite}, &all);
    context.map(uhal_map_logical_not, {&all_finite}, {&all_finite});
    context.map(uhal_map_logical_or, {&overflow, &all_finite}, {&overflow});
    const View out = flat(context.allocate(unscaled[i], gradient.dtype));
    context.map(uhal_map_multiply, {&gradient, &inverse}, {&out});
  }
}

}  // namespace

KernelTable optimizer_kernels() {
  return {
      UNIHAL_KERNEL("sgd", kFloats, sgd),
      UNIHAL_KERNEL("momentum", kFloats, momentum),
      UNIHAL_KERNEL("adam", kFloats, adam),
      UNIHAL_KERNEL("adamw", kFloats, adamw),
      UNIHAL_KERNEL("adagrad", kFloats, adagrad),
      UNIHAL_KERNEL("check_finite_and_unscale", kFloats, check_finite_and_unscale),
  };
}

}  // namespace unihal::paddle
