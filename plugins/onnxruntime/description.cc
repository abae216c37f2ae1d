#include "plugins/onnxruntime/description.h"

#include <cstring>

namespace unihal::onnxruntime {
namespace {

OperandType read_type(const OrtTypeInfo* info) {
  OperandType result;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (info == nullptr) return result;
  check(ort.CastTypeInfoToTensorInfo(info, &tensor));
  if (tensor == nullptr) return result;  // a sequence, a map
  check(ort.GetTensorElementType(tensor, &result.type));
  if (!ort.TensorTypeAndShape_HasShape(tensor)) return result;
  size_t rank = 0;
  check(ort.GetDimensionsCount(tensor, &rank));
  result.shape.emplace(rank);
  check(ort.GetDimensions(tensor, result.shape->data(), rank));
  return result;
}

// Attributes of a node of the graph.
class NodeDescription final : public Description {
 public:
  NodeDescription(const OrtNode* node, const Provider& provider) : node_(node) {
    provider_ = &provider;
    check(ort.Node_GetSinceVersion(node, &version_));
    size_t count = 0;
    check(ort.Node_GetNumInputs(node, &count));
    std::vector<const OrtValueInfo*> values(count);
    check(ort.Node_GetInputs(node, values.data(), count));
    for (const OrtValueInfo* value : values) inputs_.push_back(type_of(value));
    check(ort.Node_GetNumOutputs(node, &count));
    values.assign(count, nullptr);
    check(ort.Node_GetOutputs(node, values.data(), count));
    for (const OrtValueInfo* value : values) outputs_.push_back(type_of(value));
  }

  int64_t integer(const char* name, int64_t otherwise) const override {
    int64_t value = otherwise;
    read(name, kOrtAttributeInt, &value, sizeof value);
    return value;
  }
  double real(const char* name, double otherwise) const override {
    float value = 0;
    return read(name, kOrtAttributeFloat, &value, sizeof value) ? value : otherwise;
  }
  std::string text(const char* name, const char* otherwise) const override {
    const auto found = array<char>(name, kOrtAttributeString);
    return found ? std::string(found->data(), strnlen(found->data(), found->size())) : otherwise;
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const override {
    return array<int64_t>(name, kOrtAttributeInts);
  }
  std::optional<std::vector<float>> reals(const char* name) const override {
    return array<float>(name, kOrtAttributeFloats);
  }
  std::optional<std::vector<std::string>> texts(const char* name) const override {
    // One after another, each with its NUL.
    const auto found = array<char>(name, kOrtAttributeStrings);
    if (!found) return {};
    std::vector<std::string> result;
    for (const char* at = found->data(); at < found->data() + found->size(); at += std::strlen(at) + 1) {
      result.emplace_back(at);
    }
    return result;
  }
  std::optional<HostTensor> tensor(const char* name) const override {
    const OrtOpAttr* attribute = find(name);
    if (attribute == nullptr) return {};
    OrtValue* value = nullptr;
    check(ort.OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
    const std::unique_ptr<OrtValue, void (*)(OrtValue*)> owned(value, ort.ReleaseValue);
    return read_tensor(value);
  }

 private:
  static OperandType type_of(const OrtValueInfo* value) {
    const OrtTypeInfo* info = nullptr;
    if (value != nullptr) check(ort.GetValueInfoTypeInfo(value, &info));
    return read_type(info);
  }

  const OrtOpAttr* find(const char* name) const {
    const OrtOpAttr* attribute = nullptr;
    OrtStatus* const status = ort.Node_GetAttributeByName(node_, name, &attribute);
    if (status == nullptr) return attribute;
    ort.ReleaseStatus(status);
    return nullptr;
  }

  bool read(const char* name, int32_t type, void* value, size_t bytes) const {
    const OrtOpAttr* const attribute = find(name);
    size_t needed = 0;
    if (attribute == nullptr) return false;
    check(ort.ReadOpAttr(attribute, type, value, bytes, &needed));
    return true;
  }

  template <class Element>
  std::optional<std::vector<Element>> array(const char* name, int32_t type) const {
    const OrtOpAttr* const attribute = find(name);
    if (attribute == nullptr) return {};
    size_t needed = 0;
    OrtStatus* const status = ort.ReadOpAttr(attribute, type, nullptr, 0, &needed);  // fails, and says how much
    if (status != nullptr) ort.ReleaseStatus(status);
    std::vector<Element> values(needed / sizeof(Element));
    if (needed != 0) check(ort.ReadOpAttr(attribute, type, values.data(), needed, &needed));
    return values;
  }

  const OrtNode* const node_;
};

// Attributes as ONNX Runtime gives them to kernels.
class KernelDescription final : public Description {
 public:
  KernelDescription(const OrtKernelInfo* info, const Provider& provider) : info_(info) {
    provider_ = &provider;
    check(ort.KernelInfo_GetOperatorSinceVersion(info, &version_));
    size_t count = 0;
    check(ort.KernelInfo_GetInputCount(info, &count));
    for (size_t i = 0; i < count; ++i) inputs_.push_back(type_of(ort.KernelInfo_GetInputTypeInfo, i));
    check(ort.KernelInfo_GetOutputCount(info, &count));
    for (size_t i = 0; i < count; ++i) outputs_.push_back(type_of(ort.KernelInfo_GetOutputTypeInfo, i));
  }

  int64_t integer(const char* name, int64_t otherwise) const override {
    int64_t value = 0;
    return is_there(ort.KernelInfoGetAttribute_int64(info_, name, &value)) ? value : otherwise;
  }
  double real(const char* name, double otherwise) const override {
    float value = 0;
    return is_there(ort.KernelInfoGetAttribute_float(info_, name, &value)) ? value : otherwise;
  }
  std::string text(const char* name, const char* otherwise) const override {
    size_t bytes = 0;
    if (!is_there(ort.KernelInfoGetAttribute_string(info_, name, nullptr, &bytes))) return otherwise;
    std::string value(bytes, '\0');
    check(ort.KernelInfoGetAttribute_string(info_, name, value.data(), &bytes));
    value.resize(std::strlen(value.c_str()));
    return value;
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const override {
    return array<int64_t>(ort.KernelInfoGetAttributeArray_int64, name);
  }
  std::optional<std::vector<float>> reals(const char* name) const override {
    return array<float>(ort.KernelInfoGetAttributeArray_float, name);
  }
  // ONNX Runtime gives kernels no lists of texts; they were looked at where the node was chosen.
  std::optional<std::vector<std::string>> texts(const char*) const override { return {}; }
  std::optional<HostTensor> tensor(const char* name) const override {
    OrtAllocator* allocator = nullptr;
    check(ort.GetAllocatorWithDefaultOptions(&allocator));
    OrtValue* value = nullptr;
    if (!is_there(ort.KernelInfoGetAttribute_tensor(info_, name, allocator, &value))) return {};
    const std::unique_ptr<OrtValue, void (*)(OrtValue*)> owned(value, ort.ReleaseValue);
    return read_tensor(value);
  }

 private:
  static bool is_there(OrtStatus* status) {
    if (status == nullptr) return true;
    ort.ReleaseStatus(status);
    return false;
  }

  template <class Function>
  OperandType type_of(Function function, size_t index) const {
    OrtTypeInfo* info = nullptr;
    if (!is_there(function(info_, index, &info)) || info == nullptr) return {};  // an optional operand is left out
    const std::unique_ptr<OrtTypeInfo, void (*)(OrtTypeInfo*)> owned(info, ort.ReleaseTypeInfo);
    return read_type(info);
  }

  template <class Element>
  std::optional<std::vector<Element>> array(OrtStatus* (*function)(const OrtKernelInfo*, const char*, Element*,
                                                                   size_t*),
                                            const char* name) const {
    size_t count = 0;
    if (!is_there(function(info_, name, nullptr, &count))) return {};
    std::vector<Element> values(count);
    if (count != 0) check(function(info_, name, values.data(), &count));
    return values;
  }

  const OrtKernelInfo* const info_;
};

}  // namespace

std::unique_ptr<Description> describe(const OrtNode* node, const Provider& provider) {
  return std::make_unique<NodeDescription>(node, provider);
}
std::unique_ptr<Description> describe(const OrtKernelInfo* info, const Provider& provider) {
  return std::make_unique<KernelDescription>(info, provider);
}

HostTensor read_tensor(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(ort.GetTensorTypeAndShape(value, &info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)> owned(
      info, ort.ReleaseTensorTypeAndShapeInfo);
  HostTensor result;
  int32_t type = 0;
  size_t rank = 0, bytes = 0;
  void* data = nullptr;
  check(ort.GetTensorElementType(info, &type));
  result.dtype = from_onnx(type);
  if (result.dtype == UHAL_DTYPE_INVALID) throw Refusal(std::string("a constant ") + type_name(type));
  check(ort.GetDimensionsCount(info, &rank));
  result.shape.resize(rank);
  check(ort.GetDimensions(info, result.shape.data(), rank));
  check(ort.GetTensorSizeInBytes(value, &bytes));
  check(ort.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  result.bytes.resize(bytes);
  if (bytes != 0) std::memcpy(result.bytes.data(), data, bytes);
  return result;
}

}  // namespace unihal::onnxruntime
