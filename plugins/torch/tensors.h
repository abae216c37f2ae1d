// Tensors on the device: views of them, their storages, and making them.
#pragma once

#include "plugins/common/view.h"
#include "plugins/torch/dtype.h"
#include "plugins/torch/runtime.h"

namespace unihal::pytorch {

// An op that is not for the device: PyTorch's CPU runs it, counted with this reason. Thrown by kernels before they
// submit work; `reason` counts: no values of this call in it.
struct Refusal : std::exception {
  explicit Refusal(std::string text) : reason(std::move(text)) {}
  const char* what() const noexcept override { return reason.c_str(); }
  std::string reason;
};

// A view of a tensor of the device; refuses more than UHAL_MAX_RANK axes and dtypes that unihal has not.
View view_of(const at::Tensor& tensor);

// A tensor on the current device, without going through the dispatcher.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format = std::nullopt);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

// Gives a storage another size; what fits of its contents is kept.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

// Registers the allocator, the guard and the hooks (guard.cc).
void register_device();
// Registers what PyTorch's profilers measure device time with (profiler.cc).
void register_profiler();

}  // namespace unihal::pytorch
