// cuDNN.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "tests/doubles/libraries_on_host/control.h"
#include "tests/doubles/libraries_on_host/convolution.h"

namespace {

LibraryControl control;
constexpr int kBadParameter = 3;
constexpr int kFirstAlgorithm = 1;

struct Descriptor {
  on_host::Tensor tensor;
};

struct ConvolutionDescriptor {
  on_host::Convolution convolution;
  int compute = 0;
  int math = 0;
};

struct Advice {
  int algorithm;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math;
  int reserved[3];
};

// cudnnDataType_t's numbers.
int type_of(int number) { return number == 9 ? on_host::kBfloat16 : number; }

int advise(const ConvolutionDescriptor* convolution, const Descriptor* x, const Descriptor* w, const Descriptor* y,
           int wanted, int* found, Advice* advice) {
  ++control.questions;
  *found = 0;
  if (control.advice_status != 0) return control.advice_status;
  if (wanted < 1 + control.algorithms || !agree(convolution->convolution, x->tensor, w->tensor, y->tensor))
    return kBadParameter;
  advice[0] = {0, 9, -1, 0, 1, 0, {}};  // CUDNN_STATUS_NOT_SUPPORTED: to be passed over
  const int math = control.advice_math >= 0 ? control.advice_math : convolution->math;
  for (int i = 0; i < control.algorithms; ++i) {
    const auto milliseconds = static_cast<float>(1 + i);
    const int determinism = control.is_random != 0 ? 0 : 1;
    advice[1 + i] = {kFirstAlgorithm + i, 0, milliseconds, control.workspace, determinism, math, {}};
  }
  *found = 1 + control.algorithms;
  return 0;
}

int work(on_host::Pass pass, const ConvolutionDescriptor* convolution, const Descriptor* x_descriptor, void* x,
         const Descriptor* w_descriptor, void* w, const Descriptor* y_descriptor, void* y, const void* alpha,
         const void* beta, int algorithm, void* workspace, size_t bytes) {
  if (control.work_status != 0) return control.work_status;
  const int type = x_descriptor->tensor.type;
  const int scale = type == on_host::kDouble ? on_host::kDouble : on_host::kFloat;
  const int number = algorithm - kFirstAlgorithm;
  if (number < 0 || number >= control.algorithms || number == control.refused_algorithm || bytes < control.workspace ||
      (bytes != 0 && workspace == nullptr) || convolution->compute != scale || on_host::read(alpha, 0, scale) != 1 ||
      on_host::read(beta, 0, scale) != 0) {
    return kBadParameter;
  }
  const bool may_be_tf32 = type == on_host::kFloat && convolution->math != 3;
  if (may_be_tf32 && control.allows_tf32 == 0) return kBadParameter;
  control.last_algorithm = number;
  ++control.works;
  control.compute = convolution->math;
  if (!control.computes) return 0;
  on_host::convolve(pass, convolution->convolution, x_descriptor->tensor, x, w_descriptor->tensor, w,
                    y_descriptor->tensor, y);
  return 0;
}

template <class Object>
int make(Object** object) {
  *object = new Object;
  ++control.descriptors;
  return 0;
}

template <class Object>
int drop(Object* object) {
  delete object;
  --control.descriptors;
  return 0;
}

void* writable(const void* data) { return const_cast<void*>(data); }

// -- graphs: what cudnnBackend... tells, kept as it came

struct Node {
  int type = 0;
  bool is_final = false;
  int engine = -1;  // of an engine, its configuration, a plan
  std::map<int, std::vector<unsigned char>> attributes;

  template <class Value>
  std::vector<Value> all(int name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<Value> values(found->second.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <class Value>
  Value one(int name) const {
    const std::vector<Value> values = all<Value>(name);
    return values.size() == 1 ? values[0] : Value();
  }
};

// cudnnBackendAttributeType_t: a handle, an enumeration, a bool, int64_t, float, double, a pointer; 15: a descriptor.
size_t bytes_of(int type) {
  constexpr size_t kBytes[] = {8, 4, 1, 8, 4, 8, 8};
  return type < 7 ? kBytes[type] : type == 15 ? 8 : 4;
}

on_host::Tensor tensor_of(const Node& node) {
  const auto lengths = node.all<int64_t>(902);
  const auto strides = node.all<int64_t>(903);
  on_host::Tensor tensor = {type_of(node.one<int>(901)), static_cast<int>(lengths.size())};
  for (size_t i = 0; i < lengths.size(); ++i) {
    tensor.lengths[i] = static_cast<int>(lengths[i]);
    tensor.strides[i] = static_cast<int>(strides.at(i));
  }
  return tensor;
}

// Runs a plan; what it lacks is a bad parameter.
int run_graph(const Node& plan, const Node& pack) {
  const Node* const graph = plan.one<const Node*>(401)->one<const Node*>(-1);
  const Node* const operation = graph->one<const Node*>(801);
  const int base = operation->type == 10 ? 700 : operation->type == 12 ? 706 : 712;
  const on_host::Pass pass = base == 700   ? on_host::Pass::kForward
                             : base == 706 ? on_host::Pass::kData
                                           : on_host::Pass::kFilter;
  // By pass: x, w, y.
  const int names[3][3] = {{704, 703, 705}, {710, 709, 711}, {716, 715, 717}};
  const Node* const told = operation->one<const Node*>(base + 2);
  on_host::Convolution convolution;
  convolution.spatial = static_cast<int>(told->one<int64_t>(106));
  for (int i = 0; i < convolution.spatial; ++i) {
    const auto at = [&](int name) { return static_cast<int>(told->all<int64_t>(name).at(static_cast<size_t>(i))); };
    convolution.dilation[i] = at(102);
    convolution.stride[i] = at(103);
    convolution.padding[i] = at(105);
    if (at(104) != at(105)) return kBadParameter;
  }
  on_host::Tensor tensors[3];
  void* data[3] = {};
  const auto ids = pack.all<int64_t>(1000);
  const auto pointers = pack.all<void*>(1001);
  for (int i = 0; i < 3; ++i) {
    const Node* const node = operation->one<const Node*>(names[(base - 700) / 6][i]);
    tensors[i] = tensor_of(*node);
    for (size_t k = 0; k < ids.size(); ++k) {
      if (ids[k] == node->one<int64_t>(906)) data[i] = pointers.at(k);
    }
    if (reinterpret_cast<uintptr_t>(data[i]) % static_cast<uintptr_t>(node->one<int64_t>(900)) != 0)
      return kBadParameter;
  }
  const bool is_double = tensors[0].type == on_host::kDouble;
  const bool is_one = is_double ? operation->one<double>(base) == 1 && operation->one<double>(base + 1) == 0
                                : operation->one<float>(base) == 1 && operation->one<float>(base + 1) == 0;
  if (!is_one || told->one<int>(100) != (is_double ? 1 : 0) || told->one<int>(101) != 1) return kBadParameter;
  if (control.workspace != 0 && pack.one<void*>(1003) == nullptr) return kBadParameter;
  if (tensors[1].lengths[1] == 0 || tensors[0].lengths[1] % tensors[1].lengths[1] != 0) return kBadParameter;
  convolution.groups = tensors[0].lengths[1] / tensors[1].lengths[1];
  if (!agree(convolution, tensors[0], tensors[1], tensors[2])) return kBadParameter;
  ++control.works;
  ++control.graphs;
  control.last_algorithm = plan.engine;
  if (control.computes) {
    on_host::convolve(pass, convolution, tensors[0], data[0], tensors[1], data[1], tensors[2], data[2]);
  }
  return 0;
}

}  // namespace

extern "C" {

LibraryControl* on_host_control() { return &control; }

size_t cudnnGetVersion() { return control.version != 0 ? static_cast<size_t>(control.version) : 91400; }

int cudnnCreate(void** handle) {
  if (control.create_status != 0) return control.create_status;
  *handle = &control;
  ++control.handles;
  return 0;
}

int cudnnDestroy(void*) {
  --control.handles;
  return 0;
}

int cudnnSetStream(void*, void*) { return 0; }
int cudnnCreateTensorDescriptor(Descriptor** descriptor) { return make(descriptor); }
int cudnnDestroyTensorDescriptor(Descriptor* descriptor) { return drop(descriptor); }
int cudnnCreateFilterDescriptor(Descriptor** descriptor) { return make(descriptor); }
int cudnnDestroyFilterDescriptor(Descriptor* descriptor) { return drop(descriptor); }
int cudnnCreateConvolutionDescriptor(ConvolutionDescriptor** descriptor) { return make(descriptor); }
int cudnnDestroyConvolutionDescriptor(ConvolutionDescriptor* descriptor) { return drop(descriptor); }

int cudnnSetTensorNdDescriptor(Descriptor* descriptor, int type, int axes, const int lengths[], const int strides[]) {
  if (axes < 4 || axes > on_host::kMostAxes) return kBadParameter;
  descriptor->tensor = {type_of(type), axes};
  for (int i = 0; i < axes; ++i) {
    descriptor->tensor.lengths[i] = lengths[i];
    descriptor->tensor.strides[i] = strides[i];
  }
  return 0;
}

int cudnnSetFilterNdDescriptor(Descriptor* descriptor, int type, int format, int axes, const int lengths[]) {
  if (axes < 4 || axes > on_host::kMostAxes || format < 0 || format > 1) return kBadParameter;
  descriptor->tensor = {type_of(type), axes};
  const bool channels_last = format == 1;
  int stride = channels_last ? lengths[1] : 1;
  for (int i = axes - 1; i >= 2; --i) {
    descriptor->tensor.strides[i] = stride;
    stride *= lengths[i];
  }
  descriptor->tensor.strides[1] = channels_last ? 1 : stride;
  descriptor->tensor.strides[0] = channels_last ? stride : stride * lengths[1];
  for (int i = 0; i < axes; ++i) descriptor->tensor.lengths[i] = lengths[i];
  return 0;
}

int cudnnSetConvolutionNdDescriptor(ConvolutionDescriptor* descriptor, int axes, const int padding[],
                                    const int stride[], const int dilation[], int mode, int compute) {
  if (axes < 2 || axes > 3 || mode != 1) return kBadParameter;
  descriptor->compute = compute;
  descriptor->convolution.spatial = axes;
  for (int i = 0; i < axes; ++i) {
    descriptor->convolution.padding[i] = padding[i];
    descriptor->convolution.stride[i] = stride[i];
    descriptor->convolution.dilation[i] = dilation[i];
  }
  return 0;
}

int cudnnSetConvolutionGroupCount(ConvolutionDescriptor* descriptor, int groups) {
  descriptor->convolution.groups = groups;
  return 0;
}

int cudnnSetConvolutionMathType(ConvolutionDescriptor* descriptor, int math) {
  descriptor->math = math;
  return 0;
}

int cudnnGetConvolutionForwardAlgorithm_v7(void*, Descriptor* x, Descriptor* w, ConvolutionDescriptor* convolution,
                                           Descriptor* y, int wanted, int* found, Advice* advice) {
  return advise(convolution, x, w, y, wanted, found, advice);
}

int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, Descriptor* w, Descriptor* dy,
                                                ConvolutionDescriptor* convolution, Descriptor* dx, int wanted,
                                                int* found, Advice* advice) {
  return advise(convolution, dx, w, dy, wanted, found, advice);
}

int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, Descriptor* x, Descriptor* dy,
                                                  ConvolutionDescriptor* convolution, Descriptor* dw, int wanted,
                                                  int* found, Advice* advice) {
  return advise(convolution, x, dw, dy, wanted, found, advice);
}

int cudnnGetConvolutionForwardWorkspaceSize(void*, Descriptor*, Descriptor*, ConvolutionDescriptor*, Descriptor*, int,
                                            size_t* bytes) {
  *bytes = control.workspace;
  return 0;
}

int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, Descriptor*, Descriptor*, ConvolutionDescriptor*, Descriptor*,
                                                 int, size_t* bytes) {
  *bytes = control.workspace;
  return 0;
}

int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, Descriptor*, Descriptor*, ConvolutionDescriptor*, Descriptor*,
                                                   int, size_t* bytes) {
  *bytes = control.workspace;
  return 0;
}

int cudnnConvolutionForward(void*, const void* alpha, Descriptor* x_descriptor, const void* x, Descriptor* w_descriptor,
                            const void* w, ConvolutionDescriptor* convolution, int algorithm, void* workspace,
                            size_t bytes, const void* beta, Descriptor* y_descriptor, void* y) {
  return work(on_host::Pass::kForward, convolution, x_descriptor, writable(x), w_descriptor, writable(w), y_descriptor,
              y, alpha, beta, algorithm, workspace, bytes);
}

int cudnnConvolutionBackwardData(void*, const void* alpha, Descriptor* w_descriptor, const void* w,
                                 Descriptor* dy_descriptor, const void* dy, ConvolutionDescriptor* convolution,
                                 int algorithm, void* workspace, size_t bytes, const void* beta,
                                 Descriptor* dx_descriptor, void* dx) {
  return work(on_host::Pass::kData, convolution, dx_descriptor, dx, w_descriptor, writable(w), dy_descriptor,
              writable(dy), alpha, beta, algorithm, workspace, bytes);
}

int cudnnConvolutionBackwardFilter(void*, const void* alpha, Descriptor* x_descriptor, const void* x,
                                   Descriptor* dy_descriptor, const void* dy, ConvolutionDescriptor* convolution,
                                   int algorithm, void* workspace, size_t bytes, const void* beta,
                                   Descriptor* dw_descriptor, void* dw) {
  return work(on_host::Pass::kFilter, convolution, x_descriptor, writable(x), dw_descriptor, dw, dy_descriptor,
              writable(dy), alpha, beta, algorithm, workspace, bytes);
}

int cudnnBackendCreateDescriptor(int type, Node** node) {
  if (const int status = make(node); status != 0) return status;
  (*node)->type = type;
  return 0;
}

int cudnnBackendDestroyDescriptor(Node* node) { return drop(node); }

int cudnnBackendSetAttribute(Node* node, int name, int type, int64_t count, const void* values) {
  if (node->is_final) return kBadParameter;
  const auto* const bytes = static_cast<const unsigned char*>(values);
  node->attributes[name].assign(bytes, bytes + static_cast<size_t>(count) * bytes_of(type));
  // What is made of a descriptor needs it to be final.
  if (type == 15 && !(*static_cast<Node* const*>(values))->is_final) return kBadParameter;
  if (name == 401) node->engine = (*static_cast<Node* const*>(values))->engine;
  return 0;
}

int cudnnBackendGetAttribute(Node* node, int name, int, int64_t room, int64_t* count, void* values) {
  if (!node->is_final) return kBadParameter;
  if (name == 202) {
    *count = control.engines;
    for (int64_t i = 0; i < room && i < control.engines; ++i) {
      Node* const result = static_cast<Node**>(values)[i];
      const Node* const graph = node->one<const Node*>(201);
      const auto* const bytes = reinterpret_cast<const unsigned char*>(&graph);
      result->engine = static_cast<int>(i);
      result->is_final = true;
      result->attributes[-1].assign(bytes, bytes + sizeof graph);
    }
  } else if (name == 300) {
    Node* const engine = *static_cast<Node**>(values);
    engine->engine = node->engine;
    engine->is_final = true;
    *count = 1;
  } else if (name == 1303) {
    *count = node->engine == 0 && control.engine_note >= 0 ? 1 : 0;
    if (*count != 0) *static_cast<int*>(values) = control.engine_note;
  } else if (name == 402) {
    *static_cast<int64_t*>(values) = static_cast<int64_t>(control.workspace);
    *count = 1;
  } else {
    return kBadParameter;
  }
  return 0;
}

int cudnnBackendFinalize(Node* node) {
  if (node->type == 4 && control.engines != 0) ++control.questions;
  if (node->type == 5 && node->engine == control.refused_engine) return kBadParameter;
  node->is_final = true;
  return 0;
}

int cudnnBackendExecute(void*, const Node* plan, const Node* pack) {
  if (control.work_status != 0) return control.work_status;
  return plan->is_final && pack->is_final ? run_graph(*plan, *pack) : kBadParameter;
}

}  // extern "C"
