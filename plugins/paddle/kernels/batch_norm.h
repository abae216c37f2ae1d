// Batch normalization of dense tensors, which that of sparse ones' values is too.
#pragma once

#include <optional>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// Paddle's C operands of float16 and bfloat16 layers may be of that dtype; the ops want float32.
class Parameter32 {
 public:
  Parameter32(const Context& context, OptionalInput input, uhal_dtype dtype, const int64_t* dims, int rank) {
    if (!input) return;
    view_ = input.view().reshaped(dims, rank);
    present_ = true;
    if (view_.dtype == dtype) return;
    converted_.emplace(context, dtype, dims, rank);
    copy_or_cast(context, view_, *converted_);
    view_ = *converted_;
  }
  const uhal_tensor* tensor() const { return present_ ? &view_ : nullptr; }

 private:
  View view_;
  bool present_ = false;
  std::optional<Scratch> converted_;
};

inline uhal_norm_attributes batch_norm_attributes(float momentum, float epsilon, bool inference) {
  auto attributes = norm_attributes(static_cast<double>(epsilon));
  attributes.momentum = static_cast<double>(momentum);
  attributes.inference = inference;
  return attributes;
}

// Whether a forward normalizes by the running statistics rather than the batch's.
inline bool takes_running_statistics(bool is_test, bool use_global_stats, bool trainable_statistics) {
  return (is_test && !trainable_statistics) || use_global_stats;
}

// The operands of a forward, with memory for its results; images have their channels in axis 1. batch_variance is the
// batch's variance (Paddle's own kernels keep 1 / sqrt(variance + epsilon) there); nobody but our gradients reads it.
struct BatchNorm {
  View in;
  uhal_dtype statistic;
  Parameter32 gamma, beta;
  View running_mean, running_variance;
  View out, new_mean, new_variance, batch_mean, batch_variance;

  BatchNorm(const Context& context, Input x, Input mean, Input variance, OptionalInput scale, OptionalInput bias,
            Text data_format, Output y, Output mean_out, Output variance_out, Output saved_mean, Output saved_variance,
            Output reserve_space);
};

void batch_norm(Context context, Input x, Input mean, Input variance, OptionalInput scale, OptionalInput bias,
                bool is_test, float momentum, float epsilon, Text data_format, bool use_global_stats,
                bool trainable_statistics, Output y, Output mean_out, Output variance_out, Output saved_mean,
                Output saved_variance, Output reserve_space);

void batch_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, OptionalInput mean,
                     OptionalInput variance, Input saved_mean, Input saved_variance, OptionalInput reserve_space,
                     Input dy, float momentum, float epsilon, Text data_format, bool is_test, bool use_global_stats,
                     bool trainable_statistics, Output dx, Output dscale, Output dbias);

// By the batches of all processes.
void sync_batch_norm(Context context, Input x, Input mean, Input variance, Input scale, Input bias, bool is_test,
                     float momentum, float epsilon, Text data_format, bool use_global_stats, bool trainable_statistics,
                     Output y, Output mean_out, Output variance_out, Output saved_mean, Output saved_variance,
                     Output reserve_space);

void sync_batch_norm_grad(Context context, Input x, Input scale, Input bias, Input saved_mean, Input saved_variance,
                          OptionalInput reserve_space, Input dy, float momentum, float epsilon, Text data_format,
                          bool is_test, bool use_global_stats, bool trainable_statistics, Output dx, Output dscale,
                          Output dbias);

}  // namespace unihal::paddle
