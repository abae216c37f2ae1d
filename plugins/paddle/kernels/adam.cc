#include "plugins/paddle/kernels/adam.h"

#include <cmath>
#include <optional>

#include "plugins/paddle/host_tensor.h"

namespace unihal::paddle {
namespace {

// The tensors of a step that have the parameter's shape, or some of its rows; `largest` for amsgrad only.
struct Moments {
  View parameter, first, second, largest;
};

// One of Paddle's powers on the device, wherever it lies.
class Power : public View {
 public:
  Power(const Context& context, Input power) {
    if (is_on_host(power)) {
      copy_.emplace(context, power.uhal(), nullptr, 0);
      fill(context, *copy_, host_number(power), 0);
      static_cast<View&>(*this) = *copy_;
    } else {
      static_cast<View&>(*this) = number(power);
    }
  }

 private:
  std::optional<Scratch> copy_;
};

// Paddle's powers already are beta^t of this step.
void step_of(const Context& context, const View& gradient, const AdamState& state, const AdamSettings& settings,
             const Moments& in, const Moments& out) {
  const View lr = number(state.rate);
  if (!settings.amsgrad && is_on_host(state.power1) && is_on_host(state.power2)) {
    const double root = std::sqrt(1 - host_number(state.power2));
    const double factor = settings.rate_factor * root / (1 - host_number(state.power1));
    context.map(
        uhal_map_adam_corrected, {&in.parameter, &gradient, &in.first, &in.second, &lr},
        {&out.parameter, &out.first, &out.second},
        {settings.beta1, settings.beta2, settings.epsilon * root, settings.decay * settings.rate_factor, factor});
    return;
  }
  const Power b1(context, state.power1), b2(context, state.power2);
  const std::initializer_list<double> numbers = {settings.beta1, settings.beta2, settings.epsilon, settings.decay,
                                                 settings.rate_factor};
  if (settings.amsgrad) {
    context.map(uhal_map_adam_amsgrad, {&in.parameter, &gradient, &in.first, &in.second, &lr, &b1, &b2, &in.largest},
                {&out.parameter, &out.first, &out.second, &out.largest}, numbers);
  } else {
    context.map(uhal_map_adam, {&in.parameter, &gradient, &in.first, &in.second, &lr, &b1, &b2},
                {&out.parameter, &out.first, &out.second}, numbers);
  }
}

Moments moments_before(const Step& step, const AdamState& state, const AdamSettings& settings) {
  return {step.before(), state.first.view(), state.second.view(), settings.amsgrad ? state.largest.view() : View()};
}

Moments moments_after(const Context& context, const Step& step, const AdamState& state, const AdamSettings& settings,
                      const Moments& before) {
  return {step.after(), context.allocate(state.first_out, before.first.dtype),
          context.allocate(state.second_out, before.second.dtype),
          settings.amsgrad ? context.allocate(state.largest_out, before.largest.dtype) : View()};
}

// out = power * factor, where the power lies. In host memory it costs no launch.
void advance_power(const Context& context, Input power, Output out, double factor) {
  if (is_on_host(power)) return set_host_number(context, out, power.uhal(), host_number(power) * factor);
  const View before = power.view(), after = context.allocate(out, before.dtype);
  context.map(uhal_map_scale, {&before}, {&after}, {factor, 0});
}

void advance_powers(const Context& context, const AdamState& state, const AdamSettings& settings) {
  if (settings.use_global_powers) return;
  advance_power(context, state.power1, state.power1_out, settings.beta1);
  advance_power(context, state.power2, state.power2_out, settings.beta2);
}

void keep_power(const Context& context, Input power, Output out) {
  if (!is_on_host(power)) return pass_through(context, power, out);
  if (out) set_host_number(context, out, power.uhal(), host_number(power));
}

bool skips(const Context& context, OptionalInput skip_update) {
  return skip_update && read_number(context, skip_update.view()) != 0;
}

void skip(const Context& context, Input parameter, const AdamState& state, OptionalInput master, Output parameter_out,
          Output master_out) {
  pass_through(context, parameter, parameter_out);
  pass_through(context, state.first, state.first_out);
  pass_through(context, state.second, state.second_out);
  if (state.largest) pass_through(context, Input{{state.largest.handle}}, state.largest_out);
  keep_power(context, state.power1, state.power1_out);
  keep_power(context, state.power2, state.power2_out);
  if (master) pass_through(context, Input{{master.handle}}, master_out);
}

void dense_step(const Context& context, const Gradient& gradient, const Step& step, const AdamState& state,
                const AdamSettings& settings) {
  const Moments before = moments_before(step, state, settings);
  step_of(context, gradient.view(), state, settings, before, moments_after(context, step, state, settings, before));
  step.finish();
  advance_powers(context, state, settings);
}

// The rows of one tensor that a step changes.
class ChangedRows {
 public:
  ChangedRows(const Context& context, const View& whole, const MergedRows& merged)
      : context_(context), merged_(merged), rows_(context, whole.dtype, with_rows(whole, merged)) {
    const auto attributes = index_attributes(0);
    context.run(UHAL_OP_GATHER, {&whole, &merged.indices()}, {&rows_}, &attributes);
  }
  const View& view() const { return rows_; }
  void put_into(const View& whole) const {
    const auto attributes = index_attributes(0);
    context_.run(UHAL_OP_SCATTER, {&merged_.indices(), &rows_}, {&whole}, &attributes);
  }

 private:
  static View with_rows(const View& whole, const MergedRows& merged) {
    View rows = whole;
    rows.shape[0] = merged.indices().shape[0];
    return rows;
  }
  const Context& context_;
  const MergedRows& merged_;
  Scratch rows_;
};

// parameter *= 1 - rate * decay, for the rows without a gradient too
void decay_all(const Context& context, const AdamState& state, const AdamSettings& settings, const View& parameter) {
  if (settings.decay == 0) return;
  const View lr = number(state.rate);
  const Scratch factor(context, accumulator(lr.dtype), nullptr, 0);
  context.map(uhal_map_scale, {&lr}, {&factor}, {-settings.rate_factor * settings.decay, 1});
  context.map(uhal_map_multiply, {&parameter, &factor}, {&parameter});
}

void lazy_step(const Context& context, SparseInput gradient, const Step& step, const AdamState& state,
               AdamSettings settings) {
  const Moments before = moments_before(step, state, settings);
  const Moments after = moments_after(context, step, state, settings, before);
  copy_or_cast(context, before.parameter, after.parameter);
  copy_or_cast(context, before.first, after.first);
  copy_or_cast(context, before.second, after.second);
  if (settings.amsgrad) copy_or_cast(context, before.largest, after.largest);
  decay_all(context, state, settings, after.parameter);
  settings.decay = 0;
  if (!gradient.rows().empty()) {
    const MergedRows merged(context, gradient);
    const ChangedRows parameter(context, after.parameter, merged), first(context, after.first, merged);
    const ChangedRows second(context, after.second, merged);
    const ChangedRows largest(context, settings.amsgrad ? after.largest : after.second, merged);
    const Moments rows = {parameter.view(), first.view(), second.view(), largest.view()};
    step_of(context, merged.values(), state, settings, rows, rows);
    parameter.put_into(after.parameter);
    first.put_into(after.first);
    second.put_into(after.second);
    if (settings.amsgrad) largest.put_into(after.largest);
  }
  step.finish();
  advance_powers(context, state, settings);
}

}  // namespace

void adam_any(const Context& context, Input parameter, Input gradient, const AdamState& state, OptionalInput master,
              OptionalInput skip_update, const AdamSettings& settings, Output parameter_out, Output master_out) {
  if (skips(context, skip_update)) return skip(context, parameter, state, master, parameter_out, master_out);
  const Step step(context, parameter, master, settings.multi_precision, parameter_out, master_out);
  dense_step(context, Gradient(context, gradient, parameter), step, state, settings);
}

void adam_any_sparse(const Context& context, Input parameter, SparseInput gradient, const AdamState& state,
                     OptionalInput master, OptionalInput skip_update, const AdamSettings& settings, bool lazy,
                     Output parameter_out, Output master_out) {
  if (skips(context, skip_update)) return skip(context, parameter, state, master, parameter_out, master_out);
  const Step step(context, parameter, master, settings.multi_precision, parameter_out, master_out);
  if (lazy) return lazy_step(context, gradient, step, state, settings);
  dense_step(context, Gradient(context, gradient, parameter), step, state, settings);
}

}  // namespace unihal::paddle
