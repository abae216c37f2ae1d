// Optimizers of Paddle 1 and 2, which programs saved with them still run.
#include "plugins/paddle/kernels/optimizer.h"

namespace unihal::paddle {
namespace {

// Follow the regularized leader. Paddle adds 1e-10 to both penalties.
constexpr double kLeast = 1e-10;

void ftrl(Context context, Input parameter, Input square, Input linear, Input gradient, Input rate, float l1, float l2,
          float power, Output parameter_out, Output square_out, Output linear_out) {
  const View p = parameter.view(), s = square.view(), z = linear.view(), g = gradient.view(), lr = number(rate);
  const View p_out = context.allocate(parameter_out, p.dtype), s_out = context.allocate(square_out, s.dtype);
  const View z_out = context.allocate(linear_out, z.dtype);
  context.map(uhal_map_ftrl, {&p, &g, &s, &z, &lr}, {&p_out, &s_out, &z_out},
              {static_cast<double>(l1) + kLeast, static_cast<double>(l2) + kLeast, static_cast<double>(power), 0, 0});
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

}  // namespace

KernelTable old_optimizer_kernels() {
  constexpr DtypeSet kFloat32Only = 1u << kFloat32;
  return {
      UNIHAL_KERNEL("ftrl", kFloat32Only, ftrl),
      UNIHAL_KERNEL("decayed_adagrad", kFloat32Only, decayed_adagrad),
  };
}

}  // namespace unihal::paddle
