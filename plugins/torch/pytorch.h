// What of PyTorch's C++ every file here needs. CMakeLists.txt precompiles these headers once for the library.
#pragma once

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace unihal::pytorch {

// The one device type of PyTorch's that is not built in: what UNIHAL_TORCH_DEVICE says, or the first that has a device.
constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

}  // namespace unihal::pytorch
