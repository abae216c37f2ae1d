// Normalization, by kind: called by norm.cc with the dtype that arithmetic is done in.
#pragma once

#include "csrc/backends/common/norm.h"
#include "stub/common/kernels.h"
#include "stub/common/staging.h"

namespace unihal::stub {

// T is float or double.
template <typename T>
uhal_status batch_norm(const Launch& launch, uhal_dtype dtype);
template <typename T>
uhal_status batch_norm_backward(const Launch& launch, uhal_dtype dtype);
template <typename T>
uhal_status group_norm(const Launch& launch, uhal_dtype dtype);
template <typename T>
uhal_status group_norm_backward(const Launch& launch, uhal_dtype dtype);
template <typename T>
uhal_status layer_norm(const Launch& launch, uhal_dtype dtype);  // and RMS norm
template <typename T>
uhal_status layer_norm_backward(const Launch& launch, uhal_dtype dtype);

}  // namespace unihal::stub
