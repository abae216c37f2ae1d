#include "plugins/tensorflow/output_shapes.h"

#include <dlfcn.h>

#include <cstdlib>

#include "plugins/tensorflow/graph_messages.h"
#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {
namespace {

enum { kPropertiesShape = 2 };

// In TensorFlow's large library, which the adapter does not link.
struct Functions {
  decltype(&TF_NewGraphProperties) make = nullptr;
  decltype(&TF_DeleteGraphProperties) free = nullptr;
  decltype(&TF_InferStatically) infer = nullptr;
  decltype(&TF_GetOutputPropertiesListSize) size = nullptr;
  decltype(&TF_GetOutputPropertiesList) list = nullptr;

  Functions() {
    void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    find(library, "TF_NewGraphProperties", &make);
    find(library, "TF_DeleteGraphProperties", &free);
    find(library, "TF_InferStatically", &infer);
    find(library, "TF_GetOutputPropertiesListSize", &size);
    find(library, "TF_GetOutputPropertiesList", &list);
    dlclose(library);
  }
  template <class Function>
  static void find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
  }
  bool complete() const { return make && free && infer && size && list; }
};

const Functions& functions() {
  static const Functions found;
  return found;
}

// Empty if the rank or a size is unknown: -1 equals nothing.
std::string shape_text(std::string_view shape) {
  std::string text = "[";
  ProtobufReader fields(shape);
  while (fields.next()) {
    if (fields.number() == kShapeUnknownRank && fields.value() != 0) return "";
    if (fields.number() != kShapeDimension) continue;
    int64_t size = 0;
    ProtobufReader dimension(fields.bytes());
    while (dimension.next()) {
      if (dimension.number() == kDimensionSize) size = static_cast<int64_t>(dimension.value());
    }
    if (size == -1) return "";
    text += std::to_string(size) + ",";
  }
  return text + "]";
}

}  // namespace

OutputShapes::~OutputShapes() {
  if (properties_ != nullptr) functions().free(properties_);
}

void OutputShapes::infer() {
  inferred_ = true;
  if (!functions().complete()) return;
  TF_Status* status = TF_NewStatus();
  properties_ = functions().make(item_);
  functions().infer(properties_, 0, 0, 0, 0, status);
  if (TF_GetCode(status) != TF_OK) {
    functions().free(properties_);
    properties_ = nullptr;
  }
  TF_DeleteStatus(status);
}

std::string OutputShapes::of(std::string_view node, int port) {
  if (!inferred_) infer();
  if (properties_ == nullptr) return "";
  const std::string name(node);
  TF_Status* status = TF_NewStatus();
  int count = 0;
  functions().size(properties_, name.c_str(), &count, status);
  std::string text;
  if (TF_GetCode(status) == TF_OK && port >= 0 && port < count) {
    std::vector<TF_Buffer*> buffers(static_cast<size_t>(count));
    for (TF_Buffer*& buffer : buffers) buffer = TF_NewBuffer();
    functions().list(properties_, name.c_str(), buffers.data(), count, status);
    if (TF_GetCode(status) == TF_OK) {
      const TF_Buffer* buffer = buffers[static_cast<size_t>(port)];
      ProtobufReader fields(std::string_view(static_cast<const char*>(buffer->data), buffer->length));
      while (fields.next()) {
        if (fields.number() == kPropertiesShape) text = shape_text(fields.bytes());
      }
    }
    for (TF_Buffer* buffer : buffers) TF_DeleteBuffer(buffer);
  }
  TF_DeleteStatus(status);
  return text;
}

std::optional<std::vector<int64_t>> sizes_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::vector<int64_t> sizes;
  const char* next = text.c_str() + 1;
  while (*next != ']' && *next != 0) {
    char* end = nullptr;
    sizes.push_back(std::strtoll(next, &end, 10));
    if (end == next) return std::nullopt;
    next = *end == ',' ? end + 1 : end;
  }
  return sizes;
}

}  // namespace unihal::tensorflow
