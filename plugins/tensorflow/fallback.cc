#include "plugins/tensorflow/fallback.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "plugins/tensorflow/dtype.h"
#include "plugins/tensorflow/protobuf.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_status.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

enum { kValueList = 1, kListType = 6, kValueType = 6 };

// Ops that run on the host wherever their data lies.
constexpr std::string_view kHostOps[] = {
    "Assert",
    "Const",
    "EagerPyFunc",
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

// What TensorFlow composes of several ops on the CPU is judged by the op in its name.
constexpr std::string_view kFusedPrefix = "_Fused";

bool runs_on_host(std::string_view op) {
  return op.substr(0, 1) == "_" || std::find(std::begin(kHostOps), std::end(kHostOps), op) != std::end(kHostOps);
}

// Of dtypes that unihal has not, too.
const char* name_of(TF_DataType dtype) {
  switch (dtype) {
    case TF_QINT8:
      return "qint8";
    case TF_QUINT8:
      return "quint8";
    case TF_QINT16:
      return "qint16";
    case TF_QUINT16:
      return "quint16";
    case TF_QINT32:
      return "qint32";
    default:
      return from_tensorflow(dtype) != UHAL_DTYPE_INVALID ? uhal_dtype_name(from_tensorflow(dtype)) : "";
  }
}

// -- what ops consist of ------------------------------------------------------------------------------------

// The messages of TensorFlow's op registry, by their field numbers.
enum { kOpListOp = 1 };
enum { kOpName = 1, kOpInput = 2, kOpOutput = 3 };
enum { kArgumentType = 3, kArgumentTypeAttribute = 4, kArgumentTypesAttribute = 6 };

// An input or output: a fixed type, or the attribute that tells its types.
struct Argument {
  TF_DataType type = static_cast<TF_DataType>(0);
  std::string attribute;
};

struct Operation {
  std::vector<Argument> inputs, outputs;
};

Argument parse_argument(std::string_view message) {
  Argument argument;
  ProtobufReader fields(message);
  while (fields.next()) {
    if (fields.number() == kArgumentType) argument.type = static_cast<TF_DataType>(fields.value());
    if (fields.number() == kArgumentTypeAttribute || fields.number() == kArgumentTypesAttribute) {
      argument.attribute = fields.bytes();
    }
  }
  return argument;
}

// Of TensorFlow's large library, which the adapter does not link.
template <class Function>
Function* find_function(const char* name) {
  void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

std::string_view text_of(const TF_Buffer* buffer) { return {static_cast<const char*>(buffer->data), buffer->length}; }

using Operations = std::map<std::string, Operation, std::less<>>;

void read_operations(Operations* operations) {
  static const auto query = find_function<TF_Buffer*()>("TF_GetAllOpList");
  TF_Buffer* buffer = query != nullptr ? query() : nullptr;
  if (buffer == nullptr) return;
  ProtobufReader list(text_of(buffer));
  while (list.next()) {
    if (list.number() != kOpListOp) continue;
    std::string name;
    Operation operation;
    ProtobufReader fields(list.bytes());
    while (fields.next()) {
      if (fields.number() == kOpName) name = fields.bytes();
      if (fields.number() == kOpInput) operation.inputs.push_back(parse_argument(fields.bytes()));
      if (fields.number() == kOpOutput) operation.outputs.push_back(parse_argument(fields.bytes()));
    }
    operations->emplace(std::move(name), std::move(operation));
  }
  TF_DeleteBuffer(buffer);
}

// What TensorFlow knows of an op; nullptr for what is none, such as the name of a function. Ops can be loaded later, so
// an unknown name is looked for again.
const Operation* find_operation(std::string_view op) {
  static std::mutex mutex;
  static auto* operations = new Operations;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = operations->find(op);
  if (found == operations->end()) {
    read_operations(operations);
    found = operations->find(op);
  }
  return found != operations->end() ? &found->second : nullptr;
}

std::vector<TF_DataType> types_of(const std::vector<Argument>& arguments, const Types& types) {
  std::vector<TF_DataType> result;
  for (const Argument& argument : arguments) {
    const auto found = types.find(argument.attribute);
    if (found != types.end()) {
      result.insert(result.end(), found->second.begin(), found->second.end());
    } else if (argument.type != 0) {
      result.push_back(argument.type);
    }
  }
  return result;
}

bool is_host_type(TF_DataType type) { return type == TF_STRING || type == TF_RESOURCE || type == TF_VARIANT; }

// The dtype of an op's data: the attribute that says most, else the first result's or operand's that is not int32. 0:
// it has no data that would be on a device.
TF_DataType data_type(const Operation& operation, const Types& types) {
  const std::vector<TF_DataType> inputs = types_of(operation.inputs, types);
  std::vector<TF_DataType> all = types_of(operation.outputs, types);
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (std::any_of(all.begin(), all.end(), is_host_type)) return static_cast<TF_DataType>(0);
  const auto data = std::find_if(all.begin(), all.end(), [](TF_DataType type) { return type != TF_INT32; });
  if (data == all.end()) return static_cast<TF_DataType>(0);
  for (const char* name : {"T", "dtype", "SrcT", "Tparams"}) {
    const auto found = types.find(name);
    if (found != types.end() && found->second.size() == 1 && found->second[0] != TF_INT32) return found->second[0];
  }
  return *data;
}

// -- which kernels there are --------------------------------------------------------------------------------

// The messages of TensorFlow's kernel registry.
enum { kKernelListKernel = 1, kKernelDevice = 2, kKernelConstraint = 3, kKernelLabel = 5 };
enum { kConstraintName = 1, kConstraintAllowed = 2 };

// Whether a constraint of a kernel allows the types of an op.
bool allows(std::string_view message, const Types& types) {
  std::string_view name, allowed;
  ProtobufReader fields(message);
  while (fields.next()) {
    if (fields.number() == kConstraintName) name = fields.bytes();
    if (fields.number() == kConstraintAllowed) allowed = fields.bytes();
  }
  const auto found = types.find(name);
  if (found == types.end()) return true;
  const std::vector<TF_DataType> list = parse_types(allowed);
  return std::all_of(found->second.begin(), found->second.end(),
                     [&list](TF_DataType type) { return std::find(list.begin(), list.end(), type) != list.end(); });
}

struct Kernels {
  bool any = false;        // ours, of any dtype
  bool for_types = false;  // also TensorFlow's own for every device
};

Kernels find_kernels(const char* device_type, std::string_view op, const Types& types) {
  static const auto query = find_function<TF_Buffer*(const char*, TF_Status*)>("TF_GetRegisteredKernelsForOp");
  Kernels kernels;
  if (query == nullptr) return kernels;
  TF_Status* status = TF_NewStatus();
  TF_Buffer* buffer = query(std::string(op).c_str(), status);
  if (buffer != nullptr) {
    ProtobufReader list(text_of(buffer));
    while (list.next()) {
      if (list.number() != kKernelListKernel) continue;
      std::string_view device;
      bool fits = true;
      ProtobufReader kernel(list.bytes());
      while (kernel.next()) {
        if (kernel.number() == kKernelDevice) device = kernel.bytes();
        if (kernel.number() == kKernelConstraint) fits &= allows(kernel.bytes(), types);
        if (kernel.number() == kKernelLabel) fits &= kernel.bytes().empty();
      }
      kernels.any |= device == device_type;
      kernels.for_types |= fits && (device == device_type || device == "DEFAULT");
    }
    TF_DeleteBuffer(buffer);
  }
  TF_DeleteStatus(status);
  return kernels;
}

}  // namespace

std::vector<TF_DataType> parse_types(std::string_view value) {
  std::vector<TF_DataType> types;
  ProtobufReader fields(value);
  while (fields.next()) {
    if (fields.number() == kValueType) types.push_back(static_cast<TF_DataType>(fields.value()));
    if (fields.number() != kValueList) continue;
    ProtobufReader list(fields.bytes());
    while (list.next()) {
      if (list.number() != kListType) continue;
      if (list.bytes().empty()) types.push_back(static_cast<TF_DataType>(list.value()));
      // Packed: every dtype number fits one byte.
      for (char number : list.bytes()) types.push_back(static_cast<TF_DataType>(number));
    }
  }
  return types;
}

bool is_fallback(const char* device_type, std::string_view op, const Types& types, Fallback* fallback) {
  if (op.substr(0, kFusedPrefix.size()) == kFusedPrefix) op.remove_prefix(kFusedPrefix.size());
  const Operation* operation = runs_on_host(op) ? nullptr : find_operation(op);
  fallback->dtype = operation != nullptr ? data_type(*operation, types) : static_cast<TF_DataType>(0);
  if (fallback->dtype == 0) return false;
  const Kernels kernels = find_kernels(device_type, op, types);
  fallback->reason = kernels.any ? "no kernel for this dtype is registered" : "no kernel is registered";
  return !kernels.for_types;
}

bool record_fallback(std::string_view op, const Fallback& fallback, std::string* message) {
  const std::string name(op);
  uhal_fallback record = {};
  record.struct_size = sizeof record;
  record.framework = "tensorflow";
  record.op = name.c_str();
  record.dtype = name_of(fallback.dtype);
  record.reason = fallback.reason;
  if (uhal_fallback_record(&record) == UHAL_OK) return true;
  *message = uhal_last_error()->message;
  return false;
}

}  // namespace unihal::tensorflow
