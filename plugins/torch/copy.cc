// Copies in all directions, with strides and conversion of dtypes.
#include <ATen/ops/_to_copy_native.h>

#include <cstring>

#include "plugins/torch/allocator.h"
#include "plugins/torch/call.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::pytorch {
namespace {

bool on_device(const at::Tensor& tensor) { return tensor.device().type() == kDevice; }

// On one device. Views are merged by PyTorch's iterator, so that ten axes are enough.
void copy_on_device(const at::Tensor& self, const at::Tensor& source, uhal_stream* stream) {
  const auto iterator = at::TensorIteratorConfig()
                            .add_output(self)
                            .add_const_input(source)
                            .resize_outputs(false)
                            .check_all_same_dtype(false)
                            .check_all_same_device(true)
                            .set_check_mem_overlap(true)
                            .build();
  if (iterator.numel() == 0) return;
  View to, from;
  try {
    to = view_of(iterator, 0);
    from = view_of(iterator, 1);
  } catch (const Refusal& refusal) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "copy_ of ", source.scalar_type(), " to ", self.scalar_type(), " on ",
                                device_type(), ": ", refusal.reason);
  }
  if (from.dtype == to.dtype && from.data == to.data) return;  // a tensor onto itself
  if (source.is_complex() && to.dtype == UHAL_BOOL) {          // true is what is not 0, its imaginary part included
    const uhal_map_attributes is_true = map_attributes(uhal_map_logical_and);
    return check(launch(stream, UHAL_OP_MAP, {&from, &from}, {&to}, &is_true, "copy_"));
  }
  check(launch(stream, from.dtype == to.dtype ? UHAL_OP_COPY : UHAL_OP_CAST, {&from}, {&to}, nullptr, "copy_"));
}

// Between two devices: what is sent is dense and has the destination's dtype.
void copy_between_devices(const at::Tensor& self, const at::Tensor& source) {
  at::Tensor sent = source.to(self.scalar_type()).contiguous();
  if (self.is_contiguous()) {
    const c10::DeviceGuard guard(self.device());
    check(uhal_copy_peer(current_stream(self.device().index()), device(self.device().index()), self.mutable_data_ptr(),
                         device(sent.device().index()), sent.const_data_ptr(), sent.nbytes()));
    return;
  }
  const at::Tensor dense = at::empty(self.sizes(), self.options());
  copy_between_devices(dense, sent);
  self.copy_(dense);
}

// Whether the elements of both lie in memory in the same order without gaps.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_non_overlapping_and_dense() && a.strides() == b.strides();
}

// The bytes of `host` to or from the same place of `tensor`, which has its layout.
void transfer(const at::Tensor& tensor, const at::Tensor& host, bool to_device, bool non_blocking) {
  const c10::DeviceIndex index = tensor.device().index();
  uhal_stream* const stream = current_stream(index);
  void* const device_pointer = const_cast<void*>(tensor.const_data_ptr());
  void* const host_pointer = const_cast<void*>(host.const_data_ptr());
  if (to_device) {
    check(uhal_copy(stream, device_pointer, host_pointer, tensor.nbytes(), UHAL_COPY_HOST_TO_DEVICE));
  } else {
    check(uhal_copy(stream, host_pointer, device_pointer, tensor.nbytes(), UHAL_COPY_DEVICE_TO_HOST));
  }
  if (non_blocking && is_pinned(host_pointer)) {
    keep_until_passed(stream, index, host.detach());
  } else {
    check(uhal_stream_synchronize(stream));
  }
}

void copy_to_device(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (same_layout(self, source)) return transfer(self, source, true, non_blocking);
  // What unihal has no dtype for is converted here, everything else on the device.
  const bool is_known = from_pytorch(source.scalar_type()) != UHAL_DTYPE_INVALID;
  const at::Tensor host = (is_known ? source : source.to(self.scalar_type())).contiguous();
  if (same_layout(self, host)) return transfer(self, host, true, non_blocking && host.is_same(source));
  const at::Tensor staged = at::empty(host.sizes(), self.options().dtype(host.scalar_type()));
  transfer(staged, host, true, non_blocking && host.is_same(source));
  copy_on_device(self, staged, current_stream(self.device().index()));
}

void copy_to_host(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (same_layout(self, source)) return transfer(source, self, false, non_blocking);
  const at::Tensor dense = source.contiguous();
  if (same_layout(self, dense)) return transfer(dense, self, false, non_blocking);
  at::Tensor host = at::empty(dense.sizes(), dense.options().device(at::kCPU));
  transfer(dense, host, false, false);
  at::Tensor target = self;
  target.copy_(host);
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source) || self.numel() == 0) return self;
  TORCH_CHECK(self.defined() && source.defined(), "copy_ needs two tensors");
  at::Tensor from = source.expand(self.sizes());
  const c10::DeviceGuard guard(on_device(self) ? self.device() : source.device());
  // Bits that stand for work not yet done (conj(), imag of a conj()) are done where they differ.
  const bool conjugate = self.is_conj() != from.is_conj();
  const bool negate = self.is_neg() != from.is_neg();
  at::Tensor to = self;
  if (to.is_conj()) to = at::conj(to);
  if (from.is_conj()) from = at::conj(from);
  if (to.is_neg()) to = at::_neg_view(to);
  if (from.is_neg()) from = at::_neg_view(from);
  if (on_device(to) && on_device(from)) {
    if (to.device() == from.device()) {
      copy_on_device(to, from, current_stream(to.device().index()));
    } else {
      copy_between_devices(to, from);
    }
  } else if (on_device(to)) {
    TORCH_CHECK(from.device().is_cpu(), "A copy from ", from.device(), " to ", to.device(),
                " goes through the CPU: call .cpu() first");
    copy_to_device(to, from, non_blocking);
  } else {
    TORCH_CHECK(to.device().is_cpu(), "A copy from ", from.device(), " to ", to.device(),
                " goes through the CPU: call .cpu() first");
    copy_to_host(to, from, non_blocking);
  }
  if (conjugate) to.conj_physical_();
  if (negate) to.neg_();
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  at::Tensor target = destination;
  return copy(target, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  at::Tensor target = destination;
  target.resize_(self.sizes());
  return copy(target, self, false);
}

// Axes have names in PyTorch before 2.13.
template <class Tensor>
bool has_names(const Tensor& tensor) {
  if constexpr (requires { tensor.has_names(); }) {
    return tensor.has_names();
  } else {
    return false;
  }
}

// `tensor.to(dtype)`, as autocast asks for before most ops: what is dense is converted as one row, without PyTorch's
// iterator and a second dispatch. All else goes PyTorch's way.
at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                   std::optional<at::MemoryFormat> format) {
  const at::ScalarType wanted = dtype.value_or(self.scalar_type());
  const uhal_dtype from = from_pytorch(self.scalar_type()), to = from_pytorch(wanted);
  const bool stays = on_device(self) && (!device.has_value() || *device == self.device()) &&
                     layout.value_or(at::kStrided) == at::kStrided && !pin_memory.value_or(false) &&
                     format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve;
  const bool is_plain = self.is_non_overlapping_and_dense() && !self.is_conj() && !self.is_neg() && !has_names(self) &&
                        self.numel() != 0 && from != UHAL_DTYPE_INVALID && to != UHAL_DTYPE_INVALID &&
                        (!self.is_complex() || c10::isComplexType(wanted));  // or PyTorch warns
  if (!stays || !is_plain) {
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, format);
  }
  const c10::DeviceGuard guard(self.device());
  at::Tensor result = empty_strided(self.sizes(), self.strides(), wanted);
  View x, y;
  x.data = const_cast<void*>(self.const_data_ptr());
  y.data = result.mutable_data_ptr();
  x.dtype = from;
  y.dtype = to;
  for (View* view : {&x, &y}) {
    view->rank = 1;
    view->shape[0] = self.numel();
    view->strides[0] = 1;
  }
  check(launch(current_stream(self.device().index()), from == to ? UHAL_OP_COPY : UHAL_OP_CAST, {&x}, {&y}, nullptr,
               "_to_copy"));
  return result;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "a Tensor with 0 elements cannot be converted to Scalar");
  alignas(16) char value[16];
  uhal_stream* const stream = current_stream(self.device().index());
  check(uhal_copy(stream, value, self.const_data_ptr(), self.itemsize(), UHAL_COPY_DEVICE_TO_HOST));
  check(uhal_stream_synchronize(stream));
  return at::from_blob(value, {}, self.options().device(at::kCPU)).item();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", copy);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_to_copy", to_copy);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

}  // namespace unihal::pytorch
