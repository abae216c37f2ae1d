#include "plugins/paddle/host_tensor.h"

#include <dlfcn.h>

#include <string>

#include "plugins/paddle/error.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"

namespace unihal::paddle {
namespace {

using PlaceOf = const Place* (*)(const void* tensor);
using HostAllocate = void* (*)(const void* device_context, void* tensor, int32_t phi_dtype, size_t bytes, bool fake);

PlaceOf place_of() {
  static const auto function = find_function<PlaceOf>("_ZNK3phi11DenseTensor5placeEv");
  return function;
}

HostAllocate host_allocate() {
  static const auto function =
      find_function<HostAllocate>("_ZNK3phi13DeviceContext9HostAllocEPNS_10TensorBaseENS_8DataTypeEmb");
  return function;
}

constexpr int8_t kCpuPlace = 1;     // phi::AllocationType::CPU
constexpr uint8_t kAnyBackend = 0;  // phi::Backend::ALL_BACKEND

// phi::TensorArgDef begins with its backend.
void set_any_backend(List definitions, uint32_t arguments) {
  auto** array = static_cast<void**>(definitions.data);
  for (size_t i = 0; i < definitions.size; ++i) {
    if ((arguments >> i & 1) != 0) *static_cast<uint8_t*>(array[i]) = kAnyBackend;
  }
  phi.PD_DeletePointerList(definitions);
}

}  // namespace

bool host_tensors_known() { return place_of() != nullptr && host_allocate() != nullptr; }

bool is_on_host(const Tensor& x) {
  return host_tensors_known() && x.is_allocated() && place_of()(x.handle)->kind == kCpuPlace;
}

bool is_plain_number(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
    case UHAL_FLOAT32:
    case UHAL_INT64:
    case UHAL_INT32:
    case UHAL_BOOL:
      return true;
    default:
      return false;
  }
}

double plain_number(const void* data, uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
      return *static_cast<const double*>(data);
    case UHAL_FLOAT32:
      return static_cast<double>(*static_cast<const float*>(data));
    case UHAL_INT64:
      return static_cast<double>(*static_cast<const int64_t*>(data));
    case UHAL_INT32:
      return static_cast<double>(*static_cast<const int32_t*>(data));
    default:
      return *static_cast<const bool*>(data) ? 1 : 0;
  }
}

double host_number(const Tensor& x) {
  const uhal_dtype dtype = x.uhal();
  if (is_plain_number(dtype)) return plain_number(x.data(), dtype);
  raise(UHAL_UNIMPLEMENTED, std::string("(unihal) a number of dtype ") + uhal_dtype_name(dtype) +
                                " in host memory is not supported; expected float32, float64, int32, int64 or bool");
}

void set_host_number(const Context& context, Output out, uhal_dtype dtype, double value) {
  context.refuse_in_graph(
      "it keeps a number in host memory, which replays of a graph do not change; call it outside of the capture");
  const bool wide = dtype == UHAL_FLOAT64;
  void* data = host_allocate()(context.handle(), out.handle, wide ? kPhiFloat64 : kPhiFloat32, 0, false);
  if (wide) {
    *static_cast<double*>(data) = value;
  } else {
    *static_cast<float*>(data) = static_cast<float>(value);
  }
}

void declare_anywhere(uint32_t inputs, uint32_t outputs, void* kernel) {
  if (!host_tensors_known()) return;
  int status;
  void* definitions = phi.PD_KernelGetArgsDef(kernel, &status);
  set_any_backend(phi.PD_KernelArgsDefGetInputArgDefs(definitions, &status), inputs);
  set_any_backend(phi.PD_KernelArgsDefGetOutputArgDefs(definitions, &status), outputs);
}

}  // namespace unihal::paddle
