// Steps of many parameters in one kernel (use_multi_tensor of Paddle's optimizers), and LARS, which has no other form.
#include <cstring>

#include "plugins/paddle/kernels/adam.h"
#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

OptionalInput member(const OptionalInputList& list, size_t i) {
  return list.is_present() && i < list.size() ? OptionalInput{list[i]} : OptionalInput{};
}
Output member(const OutputList& list, size_t i) { return i < list.size() ? list[i] : Output{}; }

void require_as_many(const Context& context, size_t count, std::initializer_list<size_t> lengths) {
  for (const size_t length : lengths) {
    if (length != count) invalid(context, "there are not as many gradients, states and rates as parameters");
  }
}

// One rate may be for all.
Input rate_of(const InputList& rates, size_t i) { return rates[rates.size() == 1 ? 0 : i]; }

void merged_momentum(Context context, InputList parameters, InputList gradients, InputList velocities, InputList rates,
                     OptionalInputList masters, float mu, bool nesterov, Texts regularizations,
                     Span<float> coefficients, bool multi_precision, float rescale, OutputList parameters_out,
                     OutputList velocities_out, OutputList masters_out) {
  const size_t count = parameters.size();
  require_as_many(context, count, {gradients.size(), velocities.size(), rates.size() == 1 ? count : rates.size()});
  LaunchGroup group(context.stream()->handle);
  for (size_t i = 0; i < count; ++i) {
    const Step step(context, parameters[i], member(masters, i), multi_precision, parameters_out[i],
                    member(masters_out, i));
    const View g = gradients[i].view(), v = velocities[i].view(), lr = number(rate_of(rates, i));
    const View new_velocity = context.allocate(velocities_out[i], v.dtype);
    const bool decays = i < regularizations.size() && i < static_cast<size_t>(coefficients.size()) &&
                        std::strcmp(regularizations[i].value, "l2_decay") == 0;
    context.map(uhal_map_momentum, {&step.before(), &g, &v, &lr}, {&step.after(), &new_velocity},
                {static_cast<double>(mu), nesterov ? 1.0 : 0.0, decays ? static_cast<double>(coefficients[i]) : 0,
                 static_cast<double>(rescale)});
    step.finish();
  }
  context.check(group.end());
}

void merged_adam(Context context, InputList parameters, InputList gradients, InputList rates, InputList firsts,
                 InputList seconds, OptionalInputList largest, InputList powers1, InputList powers2,
                 OptionalInputList masters, Scalar beta1, Scalar beta2, Scalar epsilon, bool multi_precision,
                 bool use_global_powers, bool amsgrad, OutputList parameters_out, OutputList firsts_out,
                 OutputList seconds_out, OutputList largest_out, OutputList powers1_out, OutputList powers2_out,
                 OutputList masters_out) {
  const size_t count = parameters.size();
  require_as_many(context, count,
                  {gradients.size(), firsts.size(), seconds.size(), powers1.size(), powers2.size(),
                   rates.size() == 1 ? count : rates.size(), amsgrad ? largest.size() : count});
  const AdamSettings settings = {beta1.number(),  beta2.number(),    epsilon.number(), 0, 1,
                                 multi_precision, use_global_powers, amsgrad};
  LaunchGroup group(context.stream()->handle);
  for (size_t i = 0; i < count; ++i) {
    adam_any(context, parameters[i], gradients[i],
             {rate_of(rates, i), firsts[i], seconds[i], member(largest, i), powers1[i], powers2[i], firsts_out[i],
              seconds_out[i], member(largest_out, i), member(powers1_out, i), member(powers2_out, i)},
             member(masters, i), OptionalInput{}, settings, parameters_out[i], member(masters_out, i));
  }
  context.check(group.end());
}

// The Euclidean norm of all elements, of one element.
void norm_of(const Context& context, const View& x, const View& y) {
  const Scratch squares(context, y.dtype, x);
  context.map(uhal_map_square, {&x}, {&squares});
  const View all = flat(squares), sum = y.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&all}, {&sum}, &attributes);
  context.map(uhal_map_sqrt, {&y}, {&y});
}

// velocity = mu velocity + local rate (g + decay p); p -= velocity. The local rate is the rate, times
// coefficient |p| / (|g| + decay |p| + epsilon) where there is a decay and neither norm is 0.
void lars_momentum(Context context, InputList parameters, InputList velocities, InputList rates, InputList gradients,
                   OptionalInputList masters, Span<float> decays, float mu, float coefficient, float epsilon,
                   bool multi_precision, float rescale, OutputList parameters_out, OutputList velocities_out,
                   OutputList masters_out) {
  const size_t count = parameters.size();
  require_as_many(context, count,
                  {gradients.size(), velocities.size(), static_cast<size_t>(decays.size()),
                   rates.size() == 1 ? count : rates.size()});
  for (size_t i = 0; i < count; ++i) {
    const Step step(context, parameters[i], member(masters, i), multi_precision, parameters_out[i],
                    member(masters_out, i));
    const double decay = static_cast<double>(decays[static_cast<int>(i)]);
    const View given = gradients[i].view(), v = velocities[i].view(), lr = number(rate_of(rates, i));
    const View new_velocity = context.allocate(velocities_out[i], v.dtype);
    const uhal_dtype dtype = accumulator(step.before().dtype);
    const Scratch g(context, dtype, given), p(context, dtype, given), local(context, dtype, nullptr, 0);
    context.map(uhal_map_scale, {&given}, {&g}, {static_cast<double>(rescale), 0});
    copy_or_cast(context, step.before(), p);
    copy_or_cast(context, lr, local);
    if (decay > 0) {
      const Scratch norm(context, dtype, nullptr, 0), divisor(context, dtype, nullptr, 0),
          part(context, dtype, nullptr, 0), zero(context, dtype, nullptr, 0);
      const Scratch some(context, UHAL_BOOL, nullptr, 0), other(context, UHAL_BOOL, nullptr, 0);
      norm_of(context, p, norm);
      norm_of(context, g, divisor);
      fill_zero(context, zero);
      context.map(uhal_map_greater, {&norm, &zero}, {&some});
      context.map(uhal_map_greater, {&divisor, &zero}, {&other});
      context.map(uhal_map_logical_and, {&some, &other}, {&some});
      context.map(uhal_map_scale, {&norm}, {&part}, {decay, static_cast<double>(epsilon)});
      context.map(uhal_map_add, {&divisor, &part}, {&divisor});
      context.map(uhal_map_scale, {&norm}, {&norm}, {static_cast<double>(coefficient), 0});
      context.map(uhal_map_divide, {&norm, &divisor}, {&norm});
      context.map(uhal_map_multiply, {&norm, &local}, {&norm});
      context.map(uhal_map_select, {&some, &norm, &local}, {&local});
    }
    const Scratch change(context, dtype, given), decayed(context, dtype, given);
    context.map(uhal_map_scale, {&p}, {&decayed}, {decay, 0});
    context.map(uhal_map_add, {&g, &decayed}, {&g});
    context.map(uhal_map_multiply, {&g, &local}, {&g});
    context.map(uhal_map_scale, {&v}, {&change}, {static_cast<double>(mu), 0});
    context.map(uhal_map_add, {&change, &g}, {&change});
    context.map(uhal_map_subtract, {&p, &change}, {&p});
    copy_or_cast(context, change, new_velocity);
    copy_or_cast(context, p, step.after());
    step.finish();
  }
}

}  // namespace

KernelTable merged_optimizer_kernels() {
  return {
      UNIHAL_KERNEL("merged_momentum", kFloats, merged_momentum),
      UNIHAL_KERNEL_ANYWHERE("merged_adam", kFloats, kAdamPowersIn, kAdamPowersOut, merged_adam),
      UNIHAL_KERNEL("lars_momentum", kFloats, lars_momentum),
  };
}

}  // namespace unihal::paddle
