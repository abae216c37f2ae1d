// cuDNN.
#include <cstddef>

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

}  // extern "C"
