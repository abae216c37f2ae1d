#include "plugins/tensorflow/fallback.h"

#include <dlfcn.h>

#include <algorithm>

#include "plugins/tensorflow/dtype.h"
#include "plugins/tensorflow/protobuf.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_status.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

// Ops that run on the host wherever their data lies.
constexpr std::string_view kHostOps[] = {
    "Assert",
    "Const",
    "EagerPyFunc",
    "Empty",
    "Identity",
    "IdentityN",
    "NoOp",
    "Print",
    "PrintV2",
    "PyFunc",
    "PyFuncStateless",
    // boundaries and calls of graphs
    "Case",
    "If",
    "PartitionedCall",
    "Placeholder",
    "PlaceholderWithDefault",
    "RemoteCall",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessWhile",
    "While",
    "_Arg",
    "_DeviceArg",
    "_DeviceRetval",
    "_HostRecv",
    "_HostSend",
    "_Recv",
    "_Retval",
    "_Send",
};

// Parts of the names of whole families.
constexpr std::string_view kHostFamilies[] = {
    "Collective", "Dataset", "Decode", "Encode",  "File", "Iterator", "Lookup", "Optional",
    "Parse",      "Ragged",  "Reader", "Restore", "Save", "Sparse",   "String", "Summary",
};
// Members of those families that compute on tensors all the same.
constexpr std::string_view kDeviceFamilies[] = {"SparseSoftmax", "SparseApply", "SparseSegment"};

bool contains_any(std::string_view name, const std::string_view* parts, size_t count) {
  return std::any_of(parts, parts + count, [name](std::string_view part) { return name.find(part) != name.npos; });
}

bool belongs_to_host(std::string_view op, TF_DataType dtype) {
  if (dtype == TF_INT32 || dtype == TF_STRING || dtype == TF_RESOURCE || dtype == TF_VARIANT) return true;
  if (std::find(std::begin(kHostOps), std::end(kHostOps), op) != std::end(kHostOps)) return true;
  return contains_any(op, kHostFamilies, std::size(kHostFamilies)) &&
         !contains_any(op, kDeviceFamilies, std::size(kDeviceFamilies));
}

// The messages of TensorFlow's kernel registry, by their field numbers.
enum { kKernelListKernel = 1, kKernelDefDevice = 2, kKernelDefConstraint = 3, kConstraintAllowed = 2 };
enum { kAttrValueList = 1, kListType = 6 };

// Whether a KernelDef lists dtypes in its constraints, but not this one.
bool excludes(std::string_view kernel, TF_DataType dtype) {
  bool constrained = false;
  bool found = false;
  ProtobufReader fields(kernel);
  while (fields.next()) {
    if (fields.number() != kKernelDefConstraint) continue;
    ProtobufReader constraint(fields.bytes());
    while (constraint.next()) {
      if (constraint.number() != kConstraintAllowed) continue;
      ProtobufReader value(constraint.bytes());
      while (value.next()) {
        if (value.number() != kAttrValueList) continue;
        ProtobufReader list(value.bytes());
        while (list.next()) {
          if (list.number() != kListType) continue;
          constrained = true;
          if (list.bytes().empty()) {
            found |= list.value() == static_cast<uint64_t>(dtype);
          } else {  // packed: every dtype number fits one byte
            found |= list.bytes().find(static_cast<char>(dtype)) != std::string_view::npos;
          }
        }
      }
    }
  }
  return dtype != 0 && constrained && !found;
}

struct Kernels {
  bool any = false;  // for the device, of any dtype
  bool for_dtype = false;
};

Kernels find_kernels(const char* device_type, std::string_view op, TF_DataType dtype) {
  using Query = TF_Buffer* (*)(const char*, TF_Status*);
  static const auto query = [] {
    void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
    return library != nullptr ? reinterpret_cast<Query>(dlsym(library, "TF_GetRegisteredKernelsForOp")) : nullptr;
  }();
  Kernels kernels;
  if (query == nullptr) return kernels;
  TF_Status* status = TF_NewStatus();
  TF_Buffer* buffer = query(std::string(op).c_str(), status);
  if (buffer != nullptr) {
    ProtobufReader list(std::string_view(static_cast<const char*>(buffer->data), buffer->length));
    while (list.next()) {
      if (list.number() != kKernelListKernel) continue;
      bool ours = false;
      ProtobufReader kernel(list.bytes());
      while (kernel.next()) {
        if (kernel.number() == kKernelDefDevice) ours = kernel.bytes() == device_type || kernel.bytes() == "DEFAULT";
      }
      kernels.any |= ours;
      kernels.for_dtype |= ours && !excludes(list.bytes(), dtype);
    }
    TF_DeleteBuffer(buffer);
  }
  TF_DeleteStatus(status);
  return kernels;
}

}  // namespace

bool is_fallback(const char* device_type, std::string_view op, TF_DataType dtype, const char** reason) {
  if (belongs_to_host(op, dtype)) return false;
  const Kernels kernels = find_kernels(device_type, op, dtype);
  if (kernels.for_dtype) return false;
  *reason = kernels.any ? "no kernel for this dtype is registered" : "no kernel is registered";
  return true;
}

bool record_fallback(std::string_view op, TF_DataType dtype, const char* reason, std::string* message) {
  const std::string name(op);
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  fallback.framework = "tensorflow";
  fallback.op = name.c_str();
  fallback.dtype = dtype != 0 ? uhal_dtype_name(from_tensorflow(dtype)) : "";
  fallback.reason = reason;
  if (uhal_fallback_record(&fallback) == UHAL_OK) return true;
  *message = uhal_last_error()->message;
  return false;
}

}  // namespace unihal::tensorflow
