// The activations that ops can fuse, on scalars.
#pragma once

#include <cmath>
#include <type_traits>

#include "unihal/op.h"

namespace unihal::stub {

// `activation` is loop-invariant where this is called, so the compiler hoists the switch or keeps it well predicted.
template <typename T>
T activate(uhal_activation activation, T x) {
  if constexpr (std::is_integral_v<T>) {
    return activation == UHAL_ACTIVATION_RELU && x < 0 ? T(0) : x;
  } else {
    switch (activation) {
      case UHAL_ACTIVATION_RELU:
        return x < 0 ? T(0) : x;  // a NaN stays
      case UHAL_ACTIVATION_GELU_ERF:
        return T(0.5) * x * (1 + std::erf(x * T(0.70710678118654752440)));
      case UHAL_ACTIVATION_GELU_TANH:
        return T(0.5) * x * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
      case UHAL_ACTIVATION_SIGMOID:
        return 1 / (1 + std::exp(-x));
      case UHAL_ACTIVATION_TANH:
        return std::tanh(x);
      case UHAL_ACTIVATION_SILU:
        return x / (1 + std::exp(-x));
      case UHAL_ACTIVATION_RELU6:
        return x < 0 ? T(0) : x > 6 ? T(6) : x;
      default:
        return x;
    }
  }
}

}  // namespace unihal::stub
