// Optimizers of Paddle 1 and 2, which programs saved with them still run.
#include <cstring>

#include "plugins/paddle/kernels/optimizer.h"

namespace unihal::paddle {
namespace {

// Follow the regularized leader. Paddle adds 1e-10 to both penalties.
constexpr double kLeast = 1e-10;

void ftrl_step(const Context& context, const View& p, const View& g, const View& s, const View& z, const View& lr,
               float l1, float l2, float power, const View& p_out, const View& s_out, const View& z_out) {
  context.map(uhal_map_ftrl, {&p, &g, &s, &z, &lr}, {&p_out, &s_out, &z_out},
              {static_cast<double>(l1) + kLeast, static_cast<double>(l2) + kLeast, static_cast<double>(power), 0, 0});
}

void ftrl(Context context, Input parameter, Input square, Input linear, Input gradient, Input rate, float l1, float l2,
          float power, Output parameter_out, Output square_out, Output linear_out) {
  const View p = parameter.view(), s = square.view(), z = linear.view(), g = gradient.view(), lr = number(rate);
  ftrl_step(context, p, g, s, z, lr, l1, l2, power, context.allocate(parameter_out, p.dtype),
            context.allocate(square_out, s.dtype), context.allocate(linear_out, z.dtype));
}

// The rows that the gradient has.
void ftrl_sr(Context context, Input parameter, Input square, Input linear, SparseInput gradient, Input rate, float l1,
             float l2, float power, Output parameter_out, Output square_out, Output linear_out) {
  const MergedRows merged(context, gradient);
  const View lr = number(rate), g = merged.values();
  const Input before[] = {parameter, square, linear};
  const Output after[] = {parameter_out, square_out, linear_out};
  const Scratch p(context, parameter.uhal(), g), s(context, square.uhal(), g), z(context, linear.uhal(), g);
  const View* rows[] = {&p, &s, &z};
  const auto attributes = index_attributes(0);
  if (g.elements() > 0) {
    for (int i = 0; i < 3; ++i) {
      const View whole = before[i].view();
      context.run(UHAL_OP_GATHER, {&whole, &merged.indices()}, {rows[i]}, &attributes);
    }
    ftrl_step(context, p, g, s, z, lr, l1, l2, power, p, s, z);
  }
  for (int i = 0; i < 3; ++i) {
    const View whole = before[i].view(), out = context.allocate(after[i], whole.dtype);
    copy_or_cast(context, whole, out);
    if (g.elements() > 0) context.run(UHAL_OP_SCATTER, {&merged.indices(), rows[i]}, {&out}, &attributes);
  }
}

// moment = decay moment + (1 - decay) g^2; p -= rate g / (sqrt(moment) + epsilon)
void decayed_adagrad(Context context, Input parameter, Input gradient, Input moment, Input rate, float decay,
                     float epsilon, Output parameter_out, Output moment_out) {
  const View p = parameter.view(), g = gradient.view(), m = moment.view(), lr = number(rate);
  const View p_out = context.allocate(parameter_out, p.dtype), m_out = context.allocate(moment_out, m.dtype);
  const Scratch square(context, m.dtype, m), change(context, p.dtype, p);
  context.map(uhal_map_square, {&g}, {&square});
  context.map(uhal_map_scale, {&square}, {&square}, {1 - static_cast<double>(decay), 0});
  context.map(uhal_map_scale, {&m}, {&m_out}, {static_cast<double>(decay), 0});
  context.map(uhal_map_add, {&m_out, &square}, {&m_out});
  context.map(uhal_map_sqrt, {&m_out}, {&square});
  context.map(uhal_map_scale, {&square}, {&square}, {1, static_cast<double>(epsilon)});
  context.map(uhal_map_multiply, {&g, &lr}, {&change});
  context.map(uhal_map_divide, {&change, &square}, {&change});
  context.map(uhal_map_subtract, {&p, &change}, {&p_out});
}

// Momentum whose gradient has some rows of the parameter, or with axis 1 some columns; others have the gradient 0. What
// no row is does not count.
void sparse_momentum(Context context, Input parameter, Input gradient, Input velocity, Input index, Input rate,
                     OptionalInput master, float mu, Scalar axis, bool nesterov, Text regularization, float coefficient,
                     bool multi_precision, float rescale, Output parameter_out, Output velocity_out,
                     Output master_out) {
  const View g = gradient.view(), v = velocity.view(), at = flat(index.view()), lr = number(rate);
  const int64_t along = axis.integer();
  const View shape = parameter.shape_only();
  if (shape.rank != 2 || g.rank != 2 || (along != 0 && along != 1)) {
    invalid(context, "expected matrices, and the axis 0 or 1");
  }
  if (at.elements() == 0 || g.shape[along] != at.elements() || g.shape[1 - along] != shape.shape[1 - along]) {
    invalid(context, "grad has not a row or column of param for each index");
  }
  if (multi_precision && (!master || !master_out)) invalid(context, "there is no master parameter");
  const Step step(context, parameter, master, multi_precision, parameter_out, master_out);
  const View v_out = context.allocate(velocity_out, v.dtype);
  if (shape.elements() == 0) return;
  const Scratch whole(context, v.dtype, shape);
  fill_zero(context, whole);
  auto add = index_attributes(static_cast<int>(along));
  add.reduction = UHAL_REDUCE_SUM;
  add.ignore_out_of_range = 1;
  const Scratch wide(context, v.dtype, g);
  copy_or_cast(context, g, wide);
  context.run(UHAL_OP_SCATTER, {&at, &wide}, {&whole}, &add);
  const double decay = std::strcmp(regularization.value, "l2_decay") == 0 ? static_cast<double>(coefficient) : 0;
  context.map(uhal_map_momentum, {&step.before(), &whole, &v, &lr}, {&step.after(), &v_out},
              {static_cast<double>(mu), nesterov ? 1.0 : 0.0, decay, static_cast<double>(rescale)});
  step.finish();
}

// Steps by gradients whose norm is clipped, with one number of noise for all (Abadi et al. 2016).
void dpsgd(Context context, Input parameter, Input gradient, Input rate, float clip, float batch_size, float sigma,
           int seed, Output parameter_out) {
  const View p = parameter.view(), g = gradient.view(), lr = number(rate), all = flat(g);
  const View out = context.allocate(parameter_out, p.dtype);
  if (out.elements() == 0) return;
  const Scratch norm(context, p.dtype, {1}), noise(context, p.dtype, {1}), step(context, p.dtype, g);
  const auto length = reduce_attributes(UHAL_REDUCE_L2_NORM);
  context.run(UHAL_OP_REDUCE, {&all}, {&norm}, &length);
  const View factor = norm.reshaped(nullptr, 0), shift = noise.reshaped(nullptr, 0);
  context.map(uhal_map_scale, {&factor}, {&factor}, {1 / static_cast<double>(clip), 0});
  const Constant one(context, p.dtype, 1);
  context.map(uhal_map_maximum, {&factor, &one}, {&factor});
  const Context::RandomSequence sequence =
      seed != 0 ? Context::RandomSequence{static_cast<uint64_t>(seed), nullptr} : context.random_sequence();
  const auto normal = random_attributes(UHAL_RANDOM_NORMAL, 0, static_cast<double>(sigma), sequence.key, 0);
  context.run(UHAL_OP_RANDOM, {sequence.turn}, {&noise}, &normal);
  context.map(uhal_map_scale, {&shift}, {&shift}, {1 / static_cast<double>(batch_size), 0});
  context.map(uhal_map_divide, {&g, &factor}, {&step});
  context.map(uhal_map_add, {&step, &shift}, {&step});
  context.map(uhal_map_multiply, {&step, &lr}, {&step});
  context.map(uhal_map_subtract, {&p, &step}, {&out});
}

}  // namespace

KernelTable old_optimizer_kernels() {
  constexpr DtypeSet kFloat32Only = 1u << kFloat32;
  return {
      UNIHAL_KERNEL("ftrl", kFloat32Only, ftrl),
      UNIHAL_KERNEL("ftrl_sr", kFloat32Only, ftrl_sr),
      UNIHAL_KERNEL("decayed_adagrad", kFloat32Only, decayed_adagrad),
      UNIHAL_KERNEL("sparse_momentum", kWideFloats, sparse_momentum),
      UNIHAL_KERNEL("dpsgd", kWideFloats, dpsgd),
  };
}

}  // namespace unihal::paddle
