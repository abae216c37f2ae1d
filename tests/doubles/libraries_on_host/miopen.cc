// MIOpen in its immediate mode.
#include <cstddef>

#include "tests/doubles/libraries_on_host/control.h"
#include "tests/doubles/libraries_on_host/convolution.h"

namespace {

LibraryControl control;
constexpr int kBadParameter = 3;
constexpr uint64_t kTooLarge = 5;  // a solution that asks for all memory
constexpr uint64_t kFirstSolution = 7;

struct Solution {
  float time;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

// miopenDataType_t's numbers; -1 for others.
int type_of(int number) {
  constexpr int kTypes[] = {on_host::kHalf,     on_host::kFloat, on_host::kInt32, on_host::kInt8, -1,
                            on_host::kBfloat16, on_host::kDouble};
  return number >= 0 && number < 7 ? kTypes[number] : -1;
}

struct ConvolutionDescriptor {
  on_host::Convolution convolution;
  int is_deterministic = 0;
};

int advise(const ConvolutionDescriptor* convolution, const on_host::Tensor* x, const on_host::Tensor* w,
           const on_host::Tensor* y, size_t most, size_t* count, Solution* solutions) {
  ++control.questions;
  *count = 0;
  if (control.advice_status != 0) return control.advice_status;
  if (most < 1 + static_cast<size_t>(control.algorithms) || !agree(convolution->convolution, *x, *w, *y))
    return kBadParameter;
  solutions[0] = {.5F, ~size_t{0} / 2, kTooLarge, 0};
  for (int i = 0; i < control.algorithms; ++i) {
    solutions[1 + i] = {static_cast<float>(1 + i), control.workspace, kFirstSolution + static_cast<uint64_t>(i), 1};
  }
  *count = 1 + static_cast<size_t>(control.algorithms);
  return 0;
}

// Of a solution, from 0 on; negative for those that there are not.
int number_of(uint64_t solution) {
  const auto number = static_cast<int>(solution - kFirstSolution);
  return number < control.algorithms ? number : -1;
}

int workspace_of(uint64_t solution, size_t* bytes) {
  *bytes = control.workspace;
  return number_of(solution) < 0 ? kBadParameter : 0;
}

int work(on_host::Pass pass, const ConvolutionDescriptor* convolution, const on_host::Tensor* x_tensor, const void* x,
         const on_host::Tensor* w_tensor, const void* w, const on_host::Tensor* y_tensor, const void* y,
         void* workspace, size_t bytes, uint64_t solution) {
  if (control.work_status != 0) return control.work_status;
  const int number = number_of(solution);
  if (number < 0 || number == control.refused_algorithm || bytes < control.workspace ||
      (bytes != 0 && workspace == nullptr) || convolution->is_deterministic != 1) {
    return kBadParameter;
  }
  control.last_algorithm = number;
  ++control.works;
  if (!control.computes) return 0;
  on_host::convolve(pass, convolution->convolution, *x_tensor, const_cast<void*>(x), *w_tensor, const_cast<void*>(w),
                    *y_tensor, const_cast<void*>(y));
  return 0;
}

int count_all(size_t* count) {
  *count = 1 + static_cast<size_t>(control.algorithms);
  return 0;
}

}  // namespace

extern "C" {

LibraryControl* on_host_control() { return &control; }

int miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  *major = 3;
  *minor = 2;
  *patch = 0;
  return 0;
}

int miopenCreateWithStream(void** handle, void*) {
  if (control.create_status != 0) return control.create_status;
  *handle = &control;
  ++control.handles;
  return 0;
}

int miopenDestroy(void*) {
  --control.handles;
  return 0;
}

int miopenCreateTensorDescriptor(on_host::Tensor** descriptor) {
  *descriptor = new on_host::Tensor;
  ++control.descriptors;
  return 0;
}

int miopenDestroyTensorDescriptor(on_host::Tensor* descriptor) {
  delete descriptor;
  --control.descriptors;
  return 0;
}

int miopenSetTensorDescriptor(on_host::Tensor* descriptor, int type, int axes, const int* lengths, const int* strides) {
  if (type_of(type) < 0 || axes < 4 || axes > on_host::kMostAxes) return kBadParameter;
  *descriptor = {type_of(type), axes};
  for (int i = 0; i < axes; ++i) {
    descriptor->lengths[i] = lengths[i];
    descriptor->strides[i] = strides[i];
  }
  return 0;
}

int miopenCreateConvolutionDescriptor(ConvolutionDescriptor** descriptor) {
  *descriptor = new ConvolutionDescriptor;
  ++control.descriptors;
  return 0;
}

int miopenDestroyConvolutionDescriptor(ConvolutionDescriptor* descriptor) {
  delete descriptor;
  --control.descriptors;
  return 0;
}

int miopenInitConvolutionNdDescriptor(ConvolutionDescriptor* descriptor, int axes, const int* padding,
                                      const int* stride, const int* dilation, int mode) {
  if (axes < 2 || axes > 3 || mode != 0) return kBadParameter;
  descriptor->convolution.spatial = axes;
  for (int i = 0; i < axes; ++i) {
    descriptor->convolution.padding[i] = padding[i];
    descriptor->convolution.stride[i] = stride[i];
    descriptor->convolution.dilation[i] = dilation[i];
  }
  return 0;
}

int miopenSetConvolutionGroupCount(ConvolutionDescriptor* descriptor, int groups) {
  descriptor->convolution.groups = groups;
  return 0;
}

int miopenSetConvolutionAttribute(ConvolutionDescriptor* descriptor, int attribute, int value) {
  if (attribute != 1) return kBadParameter;
  descriptor->is_deterministic = value;
  return 0;
}

// -- by pass: the operands in the order of each ---------------------------------------------------------------

using Operand = const on_host::Tensor*;
using Convolution = const ConvolutionDescriptor*;

int miopenConvolutionForwardGetSolutionCount(void*, Operand, Operand, Convolution, Operand, size_t* count) {
  return count_all(count);
}
int miopenConvolutionBackwardDataGetSolutionCount(void*, Operand, Operand, Convolution, Operand, size_t* count) {
  return count_all(count);
}
int miopenConvolutionBackwardWeightsGetSolutionCount(void*, Operand, Operand, Convolution, Operand, size_t* count) {
  return count_all(count);
}

int miopenConvolutionForwardGetSolution(void*, Operand w, Operand x, Convolution convolution, Operand y, size_t most,
                                        size_t* count, Solution* solutions) {
  return advise(convolution, x, w, y, most, count, solutions);
}
int miopenConvolutionBackwardDataGetSolution(void*, Operand dy, Operand w, Convolution convolution, Operand dx,
                                             size_t most, size_t* count, Solution* solutions) {
  return advise(convolution, dx, w, dy, most, count, solutions);
}
int miopenConvolutionBackwardWeightsGetSolution(void*, Operand dy, Operand x, Convolution convolution, Operand dw,
                                                size_t most, size_t* count, Solution* solutions) {
  return advise(convolution, x, dw, dy, most, count, solutions);
}

int miopenConvolutionForwardGetSolutionWorkspaceSize(void*, Operand, Operand, Convolution, Operand, uint64_t solution,
                                                     size_t* bytes) {
  return workspace_of(solution, bytes);
}
int miopenConvolutionBackwardDataGetSolutionWorkspaceSize(void*, Operand, Operand, Convolution, Operand,
                                                          uint64_t solution, size_t* bytes) {
  return workspace_of(solution, bytes);
}
int miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(void*, Operand, Operand, Convolution, Operand,
                                                             uint64_t solution, size_t* bytes) {
  return workspace_of(solution, bytes);
}

int miopenConvolutionForwardCompileSolution(void*, Operand, Operand, Convolution, Operand, uint64_t) { return 0; }
int miopenConvolutionBackwardDataCompileSolution(void*, Operand, Operand, Convolution, Operand, uint64_t) { return 0; }
int miopenConvolutionBackwardWeightsCompileSolution(void*, Operand, Operand, Convolution, Operand, uint64_t) {
  return 0;
}

int miopenConvolutionForwardImmediate(void*, Operand w_tensor, const void* w, Operand x_tensor, const void* x,
                                      Convolution convolution, Operand y_tensor, void* y, void* workspace, size_t bytes,
                                      uint64_t solution) {
  return work(on_host::Pass::kForward, convolution, x_tensor, x, w_tensor, w, y_tensor, y, workspace, bytes, solution);
}
int miopenConvolutionBackwardDataImmediate(void*, Operand dy_tensor, const void* dy, Operand w_tensor, const void* w,
                                           Convolution convolution, Operand dx_tensor, void* dx, void* workspace,
                                           size_t bytes, uint64_t solution) {
  return work(on_host::Pass::kData, convolution, dx_tensor, dx, w_tensor, w, dy_tensor, dy, workspace, bytes, solution);
}
int miopenConvolutionBackwardWeightsImmediate(void*, Operand dy_tensor, const void* dy, Operand x_tensor, const void* x,
                                              Convolution convolution, Operand dw_tensor, void* dw, void* workspace,
                                              size_t bytes, uint64_t solution) {
  return work(on_host::Pass::kFilter, convolution, x_tensor, x, dw_tensor, dw, dy_tensor, dy, workspace, bytes,
              solution);
}

}  // extern "C"
