// The step of Adam and AdamW, for dense gradients and for rows of them.
#pragma once

#include "plugins/paddle/kernels/optimizer.h"

namespace unihal::paddle {

struct AdamState {
  Input rate, first, second;
  OptionalInput largest;  // second moment so far, for amsgrad
  Input power1, power2;
  Output first_out, second_out, largest_out, power1_out, power2_out;
};

// The numbers of the powers among a kernel's inputs and outputs, as bits. Paddle makes them in host memory, one pair
// for each parameter, and there they stay: a step is one launch.
constexpr uint32_t kAdamPowersIn = 1u << 6 | 1u << 7;
constexpr uint32_t kAdamPowersOut = 1u << 4 | 1u << 5;

// Parameters of a step of Adam, or of AdamW with decay > 0.
struct AdamSettings {
  double beta1, beta2, epsilon, decay, rate_factor;
  bool multi_precision, use_global_powers, amsgrad;
};

// Paddle sets skip_update when a loss scaler found an overflow.
void adam_any(const Context& context, Input parameter, Input gradient, const AdamState& state, OptionalInput master,
              OptionalInput skip_update, const AdamSettings& settings, Output parameter_out, Output master_out);

// `lazy` leaves parameter and moments of rows alone that the gradient has not; else their gradient is zero.
void adam_any_sparse(const Context& context, Input parameter, SparseInput gradient, const AdamState& state,
                     OptionalInput master, OptionalInput skip_update, const AdamSettings& settings, bool lazy,
                     Output parameter_out, Output master_out);

}  // namespace unihal::paddle
