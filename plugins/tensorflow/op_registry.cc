#include "plugins/tensorflow/op_registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "plugins/tensorflow/graph_messages.h"
#include "plugins/tensorflow/protobuf.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_status.h"

namespace unihal::tensorflow {
namespace {

// The messages of TensorFlow's registries, by their field numbers.
enum { kOpListOp = 1 };
enum { kOpName = 1, kOpInput = 2, kOpOutput = 3 };
enum { kArgumentName = 1, kArgumentType = 3, kArgumentTypeAttribute = 4, kArgumentTypesAttribute = 6 };
enum { kKernelListKernel = 1, kKernelOp = 1, kKernelDevice = 2, kKernelConstraint = 3, kKernelLabel = 5 };
enum { kConstraintName = 1, kConstraintAllowed = 2 };

// Of TensorFlow's large library, which the adapter does not link.
template <class Function>
Function* find_function(const char* name) {
  void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

std::string_view text_of(const TF_Buffer* buffer) { return {static_cast<const char*>(buffer->data), buffer->length}; }

Argument parse_argument(std::string_view message) {
  Argument argument;
  ProtobufReader fields(message);
  while (fields.next()) {
    if (fields.number() == kArgumentName) argument.name = fields.bytes();
    if (fields.number() == kArgumentType) argument.type = static_cast<TF_DataType>(fields.value());
    if (fields.number() == kArgumentTypeAttribute || fields.number() == kArgumentTypesAttribute) {
      argument.attribute = fields.bytes();
    }
  }
  return argument;
}

using Operations = std::map<std::string, Operation, std::less<>>;
using Kernels = std::map<std::string, std::vector<RegisteredKernel>, std::less<>>;

// Reading the registries takes tens of milliseconds each, so what was read is kept.
struct Registry {
  std::mutex mutex;
  Operations operations;
  Kernels kernels;
};

// Never destroyed: nothing runs at exit.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

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

void read_kernels(Kernels* kernels) {
  static const auto query = find_function<TF_Buffer*(TF_Status*)>("TF_GetAllRegisteredKernels");
  if (query == nullptr) return;
  TF_Status* status = TF_NewStatus();
  TF_Buffer* buffer = query(status);
  TF_DeleteStatus(status);
  if (buffer == nullptr) return;
  ProtobufReader list(text_of(buffer));
  while (list.next()) {
    if (list.number() != kKernelListKernel) continue;
    std::string op;
    RegisteredKernel kernel;
    bool labelled = false;
    ProtobufReader fields(list.bytes());
    while (fields.next()) {
      if (fields.number() == kKernelOp) op = fields.bytes();
      if (fields.number() == kKernelDevice) kernel.device = fields.bytes();
      if (fields.number() == kKernelLabel) labelled = !fields.bytes().empty();
      if (fields.number() != kKernelConstraint) continue;
      std::string_view name, allowed;
      ProtobufReader constraint(fields.bytes());
      while (constraint.next()) (constraint.number() == kConstraintName ? name : allowed) = constraint.bytes();
      kernel.allowed.emplace(name, parse_types(allowed));
    }
    if (!labelled) (*kernels)[op].push_back(std::move(kernel));
  }
  TF_DeleteBuffer(buffer);
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
      if (list.number() != kListTypes) continue;
      if (list.bytes().empty()) types.push_back(static_cast<TF_DataType>(list.value()));
      // Packed: every dtype number fits one byte.
      for (char number : list.bytes()) types.push_back(static_cast<TF_DataType>(number));
    }
  }
  return types;
}

TF_DataType main_type(const Types& types) {
  for (const char* name : {"T", "dtype", "SrcT", "Tparams"}) {
    const auto found = types.find(name);
    if (found != types.end() && found->second.size() == 1) return found->second[0];
  }
  return static_cast<TF_DataType>(0);
}

// Ops can be loaded later, so an unknown name is looked for again.
const Operation* find_operation(std::string_view op) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  Operations& operations = registry().operations;
  auto found = operations.find(op);
  if (found == operations.end()) {
    read_operations(&operations);
    found = operations.find(op);
  }
  return found != operations.end() ? &found->second : nullptr;
}

std::vector<std::string> operations_like(std::string_view prefix) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  Operations& operations = registry().operations;
  if (operations.empty()) read_operations(&operations);
  std::vector<std::string> names;
  for (auto i = operations.lower_bound(prefix); i != operations.end(); ++i) {
    if (i->first.compare(0, prefix.size(), prefix) != 0) break;
    names.push_back(i->first);
  }
  return names;
}

bool RegisteredKernel::fits(const Types& types) const {
  return std::all_of(allowed.begin(), allowed.end(), [&types](const auto& constraint) {
    const auto found = types.find(constraint.first);
    if (found == types.end()) return true;
    const std::vector<TF_DataType>& list = constraint.second;
    return std::all_of(found->second.begin(), found->second.end(),
                       [&list](TF_DataType type) { return std::find(list.begin(), list.end(), type) != list.end(); });
  });
}

std::vector<RegisteredKernel> find_kernels(std::string_view op) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  Kernels& kernels = registry().kernels;
  auto found = kernels.find(op);
  if (found == kernels.end()) {
    kernels.clear();
    read_kernels(&kernels);
    found = kernels.find(op);
  }
  return found != kernels.end() ? found->second : std::vector<RegisteredKernel>();
}

void forget_kernels() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().kernels.clear();
}

}  // namespace unihal::tensorflow
