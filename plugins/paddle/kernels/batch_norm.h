// Batch normalization of dense tensors, which that of sparse ones' values is too.
#pragma once

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

void batch_norm(Context context, Input x, Input mean, Input variance, OptionalInput scale, OptionalInput bias,
                bool is_test, float momentum, float epsilon, Text data_format, bool use_global_stats,
                bool trainable_statistics, Output y, Output mean_out, Output variance_out, Output saved_mean,
                Output saved_variance, Output reserve_space);

void batch_norm_grad(Context context, Input x, OptionalInput scale, OptionalInput bias, OptionalInput mean,
                     OptionalInput variance, Input saved_mean, Input saved_variance, OptionalInput reserve_space,
                     Input dy, float momentum, float epsilon, Text data_format, bool is_test, bool use_global_stats,
                     bool trainable_statistics, Output dx, Output dscale, Output dbias);

}  // namespace unihal::paddle
