#include "plugins/tensorflow/fallback.h"

#include <algorithm>

#include "plugins/tensorflow/dtype.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

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
constexpr std::string_view kTensorArray = "TensorArray";

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

// What takes or gives these is on the host; but the elements of a TensorArray are data.
bool keeps_to_host(std::string_view op, const std::vector<TF_DataType>& types) {
  return op.substr(0, kTensorArray.size()) != kTensorArray && std::any_of(types.begin(), types.end(), is_host_type);
}

// The dtype of an op's data: the attribute that says most, else the first result's or operand's that is not int32. 0:
// it has no data that would be on a device.
TF_DataType data_type(std::string_view op, const Operation& operation, const Types& types) {
  const std::vector<TF_DataType> inputs = types_of(operation.inputs, types);
  std::vector<TF_DataType> all = types_of(operation.outputs, types);
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (keeps_to_host(op, all)) return static_cast<TF_DataType>(0);
  const auto is_data = [](TF_DataType type) { return type != TF_INT32 && !is_host_type(type); };
  const auto data = std::find_if(all.begin(), all.end(), is_data);
  if (data == all.end()) return static_cast<TF_DataType>(0);
  const TF_DataType main = main_type(types);
  return main != 0 && main != TF_INT32 ? main : *data;
}

}  // namespace

bool is_fallback(const char* device_type, std::string_view op, const Types& types, Fallback* fallback) {
  if (op.substr(0, kFusedPrefix.size()) == kFusedPrefix) op.remove_prefix(kFusedPrefix.size());
  const Operation* operation = runs_on_host(op) ? nullptr : find_operation(op);
  fallback->dtype = operation != nullptr ? data_type(op, *operation, types) : static_cast<TF_DataType>(0);
  if (fallback->dtype == 0) return false;
  // What was read before all our kernels were registered is out of date.
  static const bool forgotten = (forget_kernels(), true);
  static_cast<void>(forgotten);
  // TensorFlow's own kernels for every device are none of ours, but serve.
  fallback->reason = kNoKernel;
  for (const RegisteredKernel& kernel : find_kernels(op)) {
    const bool is_ours = kernel.device == device_type;
    if (is_ours) fallback->reason = kNoKernelForDtype;
    if ((is_ours || kernel.device == "DEFAULT") && kernel.fits(types)) return false;
  }
  return true;
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
