// What runs on PyTorch's CPU in the device's place.
#pragma once

#include "plugins/torch/pytorch.h"

namespace unihal::pytorch {

// Counts the op with the dtype of its first tensor, or raises NotImplementedError under UNIHAL_STRICT=1, and runs it on
// copies in host memory; what it writes in place or to out= is copied back. An op that would give a view is an error.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

// Only counts, or raises: for kernels that leave a call to the CPU themselves. `dtype` as unihal names it.
void record_fallback(const char* op, const char* dtype, const std::string& reason);

}  // namespace unihal::pytorch
