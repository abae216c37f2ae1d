// Optimizer steps, in place: graph execution loses an in-place op that falls back to the CPU. Those of one body for
// dense gradients and for rows of them take the rows as dense; what treats rows in its own way is in
// optimizer_sparse.cc.
#include "plugins/paddle/kernels/optimizer.h"

#include <algorithm>
#include <cstring>

#include "plugins/paddle/kernels/adam.h"

namespace unihal::paddle {
namespace {

void sgd(Context context, Input parameter, Input rate, Input gradient, OptionalInput master, bool multi_precision,
         Output parameter_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), lr = number(rate);
  context.map(uhal_map_sgd, {&step.before(), &g, &lr}, {&step.after()});
  step.finish();
}

template <class AnyGradient>
void momentum(Context context, Input parameter, AnyGradient gradient, Input velocity, Input rate, OptionalInput master,
              float mu, bool nesterov, Text regularization, float coefficient, bool multi_precision, float rescale,
              Output parameter_out, Output velocity_out, Output master_out) {
  const Gradient g(context, gradient, parameter);
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View v = velocity.view(), lr = number(rate);
  const View new_velocity = context.allocate(velocity_out, v.dtype);
  const double l2 = std::strcmp(regularization.value, "l2_decay") == 0 ? static_cast<double>(coefficient) : 0;
  context.map(uhal_map_momentum, {&step.before(), &g.view(), &v, &lr}, {&step.after(), &new_velocity},
              {static_cast<double>(mu), nesterov ? 1.0 : 0.0, l2, static_cast<double>(rescale)});
  step.finish();
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

template <class AnyGradient>
void adagrad(Context context, Input parameter, AnyGradient gradient, Input moment, Input rate, OptionalInput master,
             float epsilon, bool multi_precision, Output parameter_out, Output moment_out, Output master_out) {
  const Gradient g(context, gradient, parameter);
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View m = moment.view(), lr = number(rate);
  const View new_moment = context.allocate(moment_out, m.dtype);
  context.map(uhal_map_adagrad, {&step.before(), &g.view(), &m, &lr}, {&step.after(), &new_moment},
              {static_cast<double>(epsilon)});
  step.finish();
}

void adadelta(Context context, Input parameter, Input gradient, Input square, Input update, Input rate,
              OptionalInput master, float decay, float epsilon, bool multi_precision, Output parameter_out,
              Output square_out, Output update_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), s = square.view(), u = update.view(), lr = number(rate);
  const View new_square = context.allocate(square_out, s.dtype), new_update = context.allocate(update_out, u.dtype);
  context.map(uhal_map_adadelta, {&step.before(), &g, &s, &u, &lr}, {&step.after(), &new_square, &new_update},
              {static_cast<double>(decay), static_cast<double>(epsilon)});
  step.finish();
}

void adamax(Context context, Input parameter, Input gradient, Input rate, Input moment, Input norm, Input power1,
            OptionalInput master, float beta1, float beta2, float epsilon, bool multi_precision, Output parameter_out,
            Output moment_out, Output norm_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), m = moment.view(), n = norm.view(), lr = number(rate), b1 = number(power1);
  const View new_moment = context.allocate(moment_out, m.dtype), new_norm = context.allocate(norm_out, n.dtype);
  context.map(uhal_map_adamax, {&step.before(), &g, &m, &n, &lr, &b1}, {&step.after(), &new_moment, &new_norm},
              {static_cast<double>(beta1), static_cast<double>(beta2), static_cast<double>(epsilon)});
  step.finish();
}

void asgd(Context context, Input parameter, Input gradient, Input rate, Input total, Input oldest, Input count,
          OptionalInput master, bool multi_precision, Output parameter_out, Output total_out, Output oldest_out,
          Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), d = total.view(), y = oldest.view(), lr = number(rate), n = number(count);
  const View new_total = context.allocate(total_out, d.dtype), newest = context.allocate(oldest_out, y.dtype);
  context.map(uhal_map_asgd, {&step.before(), &g, &lr, &d, &y, &n}, {&step.after(), &new_total, &newest});
  step.finish();
}

// Paddle's range and factors are tensors of two elements.
void rprop(Context context, Input parameter, Input gradient, Input previous, Input rate, OptionalInput master,
           Input range, Input factors, bool multi_precision, Output parameter_out, Output previous_out, Output rate_out,
           Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), before = previous.view(), lr = rate.view();
  const View limits = flat(range.view()), etas = flat(factors.view());
  View low = limits.sliced(0, 0, 1), high = limits.sliced(0, 1, 1);
  View slower = etas.sliced(0, 0, 1), faster = etas.sliced(0, 1, 1);
  for (View* scalar : {&low, &high, &slower, &faster}) scalar->rank = 0;
  const View kept = context.allocate(previous_out, before.dtype), new_rate = context.allocate(rate_out, lr.dtype);
  context.map(uhal_map_rprop, {&step.before(), &g, &before, &lr, &low, &high, &slower, &faster},
              {&step.after(), &kept, &new_rate});
  step.finish();
}

template <class AnyGradient>
void rmsprop(Context context, Input parameter, Input square, AnyGradient gradient, Input velocity, Input rate,
             OptionalInput mean, OptionalInput master, float epsilon, float decay, float momentum, bool centered,
             bool multi_precision, Output parameter_out, Output velocity_out, Output square_out, Output mean_out,
             Output master_out) {
  const Gradient g(context, gradient, parameter);
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View s = square.view(), v = velocity.view(), lr = number(rate);
  const View new_square = context.allocate(square_out, s.dtype), new_velocity = context.allocate(velocity_out, v.dtype);
  const std::initializer_list<double> settings = {static_cast<double>(decay), static_cast<double>(momentum),
                                                  static_cast<double>(epsilon)};
  if (centered) {
    const View m = mean.view(), new_mean = context.allocate(mean_out, m.dtype);
    context.map(uhal_map_rmsprop_centered, {&step.before(), &g.view(), &s, &v, &lr, &m},
                {&step.after(), &new_square, &new_velocity, &new_mean}, settings);
  } else {
    context.map(uhal_map_rmsprop, {&step.before(), &g.view(), &s, &v, &lr}, {&step.after(), &new_square, &new_velocity},
                settings);
  }
  step.finish();
}

// The Euclidean norm, a scalar.
void euclidean_norm(const Context& context, const View& x, const View& y) {
  const View in = flat(x), out = y.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
  context.run(UHAL_OP_REDUCE, {&in}, {&out}, &attributes);
  context.map(uhal_map_sqrt, {&out}, {&out});
}

template <class AnyGradient>
void lamb(Context context, Input parameter, AnyGradient gradient, Input rate, Input first, Input second, Input power1,
          Input power2, OptionalInput master, OptionalInput skip_update, float decay, float beta1, float beta2,
          float epsilon, bool always_adapt, bool multi_precision, Output parameter_out, Output first_out,
          Output second_out, Output power1_out, Output power2_out, Output master_out) {
  if (skip_update && read_number(context, skip_update.view()) != 0) {
    pass_through(context, parameter, parameter_out);
    pass_through(context, first, first_out);
    pass_through(context, second, second_out);
    pass_through(context, power1, power1_out);
    pass_through(context, power2, power2_out);
    if (master) pass_through(context, Input{{master.handle}}, master_out);
    return;
  }
  const Gradient g(context, gradient, parameter);
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View m = first.view(), v = second.view(), lr = number(rate), b1 = number(power1), b2 = number(power2);
  const View new_m = context.allocate(first_out, m.dtype), new_v = context.allocate(second_out, v.dtype);
  const uhal_dtype type = accumulator(step.before().dtype);
  const Scratch direction(context, type, step.before());
  context.map(uhal_map_lamb_direction, {&step.before(), &g.view(), &m, &v, &b1, &b2}, {&direction, &new_m, &new_v},
              {static_cast<double>(beta1), static_cast<double>(beta2), static_cast<double>(epsilon),
               static_cast<double>(decay)});
  if (decay > 0 || always_adapt) {
    const Scratch length(context, type, nullptr, 0), of_parameter(context, type, nullptr, 0);
    euclidean_norm(context, step.before(), of_parameter);
    euclidean_norm(context, direction, length);
    context.map(uhal_map_lamb_rate, {&lr, &of_parameter, &length}, {&length});
    context.map(uhal_map_sgd, {&step.before(), &direction, &length}, {&step.after()});
  } else {
    context.map(uhal_map_sgd, {&step.before(), &direction, &lr}, {&step.after()});
  }
  step.finish();
  const View next1 = context.allocate(power1_out, b1.dtype), next2 = context.allocate(power2_out, b2.dtype);
  context.map(uhal_map_scale, {&b1}, {&next1}, {static_cast<double>(beta1), 0});
  context.map(uhal_map_scale, {&b2}, {&next2}, {static_cast<double>(beta2), 0});
}

void nadam(Context context, Input parameter, Input gradient, Input rate, Input decay_power, Input power2, Input product,
           Input first, Input second, OptionalInput master, float beta1, float beta2, float epsilon, float decay,
           bool multi_precision, Output parameter_out, Output decay_power_out, Output power2_out, Output product_out,
           Output first_out, Output second_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), m = first.view(), v = second.view(), lr = number(rate);
  const View p = decay_power.view(), b2 = power2.view(), mu = product.view();
  const View new_p = context.allocate(decay_power_out, p.dtype), new_b2 = context.allocate(power2_out, b2.dtype);
  const View new_mu = context.allocate(product_out, mu.dtype);
  const Scratch of_moment(context, accumulator(p.dtype), p), of_gradient(context, accumulator(p.dtype), p);
  context.map(uhal_map_nadam_schedule, {&p, &mu}, {&new_p, &new_mu, &of_moment, &of_gradient},
              {static_cast<double>(beta1), static_cast<double>(decay)});
  context.map(uhal_map_scale, {&b2}, {&new_b2}, {static_cast<double>(beta2), 0});

  const View new_m = context.allocate(first_out, m.dtype), new_v = context.allocate(second_out, v.dtype);
  const View f = of_moment.reshaped(nullptr, 0), h = of_gradient.reshaped(nullptr, 0);
  const View now = new_b2.reshaped(nullptr, 0);
  context.map(uhal_map_nadam, {&step.before(), &g, &m, &v, &lr, &f, &h, &now}, {&step.after(), &new_m, &new_v},
              {static_cast<double>(beta1), static_cast<double>(beta2), static_cast<double>(epsilon)});
  step.finish();
}

void radam(Context context, Input parameter, Input gradient, Input rate, Input power1, Input power2, Input rest,
           Input first, Input second, OptionalInput master, float beta1, float beta2, float epsilon,
           bool multi_precision, Output parameter_out, Output power1_out, Output power2_out, Output rest_out,
           Output first_out, Output second_out, Output master_out) {
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View g = gradient.view(), m = first.view(), v = second.view(), lr = number(rate);
  const View b1 = power1.view(), b2 = power2.view(), r = rest.view();
  const View new_b1 = context.allocate(power1_out, b1.dtype), new_b2 = context.allocate(power2_out, b2.dtype);
  const View new_r = context.allocate(rest_out, r.dtype);
  const Scratch rectification(context, accumulator(b1.dtype), b1);
  context.map(uhal_map_radam_schedule, {&b1, &b2, &r}, {&new_b1, &new_b2, &new_r, &rectification},
              {static_cast<double>(beta1), static_cast<double>(beta2)});

  const View new_m = context.allocate(first_out, m.dtype), new_v = context.allocate(second_out, v.dtype);
  const View now = new_b1.reshaped(nullptr, 0), factor = rectification.reshaped(nullptr, 0);
  context.map(uhal_map_radam, {&step.before(), &g, &m, &v, &lr, &now, &factor}, {&step.after(), &new_m, &new_v},
              {static_cast<double>(beta1), static_cast<double>(beta2), static_cast<double>(epsilon)});
  step.finish();
}

// What ModelAverage adds up: three sums, of which the younger ones move on before they lose precision or when the
// window is full. How many were added decides it, on the host, as in Paddle's own kernels.
void average_accumulates(Context context, Input parameter, Input sum1, Input sum2, Input sum3, Input count,
                         Input old_count, Input updates, float window, int64_t max_window, int64_t min_window,
                         Output sum1_out, Output sum2_out, Output sum3_out, Output count_out, Output old_count_out,
                         Output updates_out) {
  constexpr int64_t kMaxInOneSum = 16384;
  int64_t counts[3];
  uhal_stream* stream = context.stream()->handle;
  const View on_device[] = {count.view(), old_count.view(), updates.view()};
  for (int i = 0; i < 3; ++i) {
    context.check(uhal_copy(stream, &counts[i], on_device[i].data, sizeof counts[i], UHAL_COPY_DEVICE_TO_HOST));
  }
  context.check(uhal_stream_synchronize(stream));
  auto& [added, old, steps] = counts;
  ++added;
  ++steps;

  const View p = parameter.view(), in1 = sum1.view(), in2 = sum2.view(), in3 = sum3.view();
  const View s1 = context.allocate(sum1_out, in1.dtype), s2 = context.allocate(sum2_out, in2.dtype);
  const View s3 = context.allocate(sum3_out, in3.dtype);
  context.map(uhal_map_add, {&in1, &p}, {&s1});
  copy_or_cast(context, in2, s2);
  copy_or_cast(context, in3, s3);
  if (steps % kMaxInOneSum == 0) {
    context.map(uhal_map_add, {&s2, &s1}, {&s2});
    fill_zero(context, s1);
  }
  const auto share = static_cast<int64_t>(static_cast<float>(steps) * window);
  if (added >= min_window && added >= std::min(max_window, share)) {
    context.map(uhal_map_add, {&s1, &s2}, {&s3});
    fill_zero(context, s1);
    fill_zero(context, s2);
    old = added;
    added = 0;
  }
  const Output outputs[] = {count_out, old_count_out, updates_out};
  for (int i = 0; i < 3; ++i) fill(context, context.allocate(outputs[i], UHAL_INT64), 0, counts[i]);
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

// What a step's overflow does to the scale of the loss: gradients become zero, so many bad steps in a row make the
// scale smaller, so many good ones larger, to 1 at least and never infinite. Nothing of it is looked at on the host.
void update_loss_scaling(Context context, InputList gradients, Input found, Input scale, Input good, Input bad,
                         int good_steps, int bad_steps, float increase, float decrease, Scalar stop, OutputList zeroed,
                         Output scale_out, Output good_out, Output bad_out) {
  const View overflow = found.view().reshaped({});
  for (size_t i = 0; i < gradients.size(); ++i) {
    const View gradient = gradients[i].view(), out = context.allocate(zeroed[i], gradient.dtype);
    const Constant zero(context, gradient.dtype, 0);
    context.map(uhal_map_select, {&overflow, &zero, &gradient}, {&out});
  }
  if (stop.number() != 0) return;
  const View before = scale.view(), goods = good.view(), bads = bad.view();
  const View after = context.allocate(scale_out, before.dtype);
  const View new_goods = context.allocate(good_out, goods.dtype), new_bads = context.allocate(bad_out, bads.dtype);
  const Constant none(context, goods.dtype, 0), one(context, goods.dtype, 1), least(context, before.dtype, 1);
  const Constant good_limit(context, goods.dtype, good_steps), bad_limit(context, bads.dtype, bad_steps);
  const Scratch up(context, before.dtype, before), down(context, before.dtype, before);
  const Scratch test(context, UHAL_BOOL, before);
  context.map(uhal_map_scale, {&before}, {&up}, {static_cast<double>(increase), 0});
  context.map(uhal_map_is_finite, {&up}, {&test});
  context.map(uhal_map_select, {&test, &up, &before}, {&up});
  context.map(uhal_map_scale, {&before}, {&down}, {static_cast<double>(decrease), 0});
  context.map(uhal_map_maximum, {&down, &least}, {&down});
  context.map(uhal_map_add, {&goods, &one}, {&new_goods});
  context.map(uhal_map_select, {&overflow, &none, &new_goods}, {&new_goods});
  context.map(uhal_map_add, {&bads, &one}, {&new_bads});
  context.map(uhal_map_select, {&overflow, &new_bads, &none}, {&new_bads});
  context.map(uhal_map_equal, {&new_goods, &good_limit}, {&test});
  context.map(uhal_map_select, {&test, &up, &before}, {&up});
  context.map(uhal_map_select, {&test, &none, &new_goods}, {&new_goods});
  context.map(uhal_map_equal, {&new_bads, &bad_limit}, {&test});
  context.map(uhal_map_select, {&test, &down, &up}, {&after});
  context.map(uhal_map_select, {&test, &none, &new_bads}, {&new_bads});
}

}  // namespace

KernelTable optimizer_kernels() {
  return {
      UNIHAL_KERNEL("sgd", kFloats, sgd),
      UNIHAL_KERNEL("momentum", kFloats, momentum<Input>),
      UNIHAL_KERNEL("momentum_dense_param_sparse_grad", kFloats, momentum<SparseInput>),
      UNIHAL_KERNEL_ANYWHERE("adam", kFloats, kAdamPowersIn, kAdamPowersOut, adam),
      UNIHAL_KERNEL_ANYWHERE("adamw", kFloats, kAdamPowersIn, kAdamPowersOut, adamw),
      UNIHAL_KERNEL("adagrad", kFloats, adagrad<Input>),
      UNIHAL_KERNEL("adagrad_dense_param_sparse_grad", kFloats, adagrad<SparseInput>),
      UNIHAL_KERNEL("adadelta", kFloats, adadelta),
      UNIHAL_KERNEL("adamax", kFloats, adamax),
      UNIHAL_KERNEL("asgd", kFloats, asgd),
      UNIHAL_KERNEL("rprop", kFloats, rprop),
      UNIHAL_KERNEL("rmsprop", kFloats, rmsprop<Input>),
      UNIHAL_KERNEL("rmsprop_dense_param_sparse_grad", kFloats, rmsprop<SparseInput>),
      UNIHAL_KERNEL("lamb", kFloats, lamb<Input>),
      UNIHAL_KERNEL("lamb_sr", kFloats, lamb<SparseInput>),
      UNIHAL_KERNEL("nadam", kFloats, nadam),
      UNIHAL_KERNEL("radam", kFloats, radam),
      UNIHAL_KERNEL("average_accumulates", kFloats, average_accumulates),
      UNIHAL_KERNEL("check_finite_and_unscale", kFloats, check_finite_and_unscale),
      UNIHAL_KERNEL("update_loss_scaling", kFloats, update_loss_scaling),
  };
}

}  // namespace unihal::paddle
