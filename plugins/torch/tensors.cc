// What is about memory and not about its contents: factories, views, storages.
#include "plugins/torch/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "plugins/torch/allocator.h"
#include "unihal/memory.h"

namespace unihal::pytorch {

View view_of(const at::Tensor& tensor) {
  const uhal_dtype dtype = from_pytorch(tensor.scalar_type());
  if (dtype == UHAL_DTYPE_INVALID) throw Refusal(std::string("dtype ") + c10::toString(tensor.scalar_type()));
  const int64_t rank = tensor.dim();
  if (rank > UHAL_MAX_RANK) throw Refusal("more axes than unihal's views have");
  TORCH_CHECK(tensor.device().type() == kDevice,
              "Expected all tensors to be on the same device, but found at least two "
              "devices, ",
              tensor.device(), " and ", c10::Device(kDevice, current_device()), "!");
  View view;
  view.data = const_cast<void*>(tensor.const_data_ptr());
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(rank);
  const int64_t* const sizes = tensor.sizes().data();
  const int64_t* const strides = tensor.strides().data();
  for (int64_t i = 0; i < rank; ++i) {
    view.shape[i] = sizes[i];
    view.strides[i] = strides[i];
  }
  return view;
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype,
                                   format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(storage->device());
  c10::DataPtr grown = device_allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, storage->nbytes());
  if (kept > 0 && storage->data() != nullptr) {
    check(uhal_copy(current_stream(current_device()), grown.get(), storage->data(), kept, UHAL_COPY_DEVICE_TO_DEVICE));
  }
  storage->set_data_ptr_noswap(std::move(grown));
  storage->set_nbytes(bytes);
}

namespace {

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout.has_value() || *layout == at::kStrided, "Only strided tensors can be made on ", device_type(),
              ", not ", *layout, ".");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

// With torch.use_deterministic_algorithms what nobody has written yet is NaN, or the largest whole number.
at::Tensor filled(at::Tensor made) {
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) &&
      made.numel() != 0) {
    at::native::fill_empty_deterministic_(made);
  }
  return made;
}

at::Tensor make_empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled(empty(sizes, c10::dtype_or_default(dtype), format));
}

at::Tensor make_empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device,
                              std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled(empty_strided(sizes, strides, c10::dtype_or_default(dtype)));
}

// Room for what a tensor of these sizes reaches.
void ensure_room(c10::TensorImpl* tensor) {
  if (tensor->numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(tensor->sizes(), tensor->strides(), tensor->itemsize(),
                                                         tensor->storage_offset());
  const c10::Storage& storage = tensor->unsafe_storage();
  TORCH_CHECK(storage, "The tensor has no storage");
  if (needed > storage.nbytes()) resize_storage(storage.unsafeGetStorageImpl(), needed);
}

const at::Tensor& resize_tensor(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  c10::TensorImpl* const tensor = self.unsafeGetTensorImpl();
  if (tensor->sizes() != sizes) {
    tensor->set_sizes_contiguous(sizes);
    ensure_room(tensor);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    tensor->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides, false);
  c10::TensorImpl* const tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_offset(offset);
  if (strides.data() != nullptr) {
    tensor->set_sizes_and_strides(sizes, strides);
  } else {
    tensor->set_sizes_contiguous(sizes);
  }
  ensure_room(tensor);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const int64_t length = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator(), true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

// Whether a tensor may become what the other is and stay the same object, as `parameter.data = moved` makes it. Between
// the CPU and this device too, as between the CPU and CUDA: so a module that is moved keeps its parameters, those that
// two of its parts share stay shared, and an optimizer that was made before still knows them.
bool may_become(const at::Tensor& self, const at::Tensor& other) {
  const auto is_plain = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_nested() &&
           (tensor.device().is_cpu() || tensor.device().type() == kDevice);
  };
  return is_plain(self) && is_plain(other);
}

// PyTorch's zeros that need no memory, as zeros: nothing then has to know of them.
at::Tensor make_zeros(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pinned) {
  return at::zeros(sizes, dtype, layout, device, pinned);
}

void record_tensor_stream(at::Tensor& self, at::Stream stream) { record_stream(self.storage().data_ptr(), stream); }

bool is_set_to(const at::Tensor& self, const at::Tensor& source) {
  return self.storage().unsafeGetStorageImpl() == source.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == source.storage_offset() && self.sizes() == source.sizes() &&
         self.strides() == source.strides();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", make_empty);
  m.impl("empty_strided", make_empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", resize_tensor);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Tensor", set_to_tensor);
  m.impl("set_", set_to_nothing);
  m.impl("_has_compatible_shallow_copy_type", may_become);
  m.impl("_efficientzerotensor", make_zeros);
  m.impl("record_stream", record_tensor_stream);
  m.impl("is_set_to", is_set_to);
}

}  // namespace unihal::pytorch
