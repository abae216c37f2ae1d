// Normalization, by kind: called by norm.cc with the dtype that arithmetic is done in.
#pragma once

#include "stub/kernels.h"
#include "stub/staging.h"

namespace unihal::stub {

// The op's attributes, with defaults where the caller gave none.
uhal_norm_attributes norm_attributes(const uhal_op& op);

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
