// MIOpen's convolutions, in its immediate mode, by cuDNN: a solution is one of cuDNN's algorithms.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/doubles/hip_on_cuda/library.h"

namespace on_cuda {
namespace {

const Library& cudnn() {
  static const Library* const library = new Library({"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
  return *library;
}

// miopenStatus_t.
constexpr int kSuccess = 0;
constexpr int kBadParameter = 3;
constexpr int kUnknownError = 7;
constexpr int kNotImplemented = 6;

constexpr Row kTypes[] = {{0, 2}, {1, 0}, {5, 9}, {6, 1}};  // miopenDataType_t, cudnnDataType_t
constexpr int kCudnnFloat = 0;
constexpr int kCudnnDouble = 1;
constexpr int kCrossCorrelation = 1;
constexpr int kDeterministic = 1;
constexpr int kTensorMath = 1;
constexpr int kConvertingMath = 2;
constexpr int kFmaMath = 3;
constexpr size_t kMost = 16;  // more than there are algorithms of a pass

// A tensor, which cuDNN wants to know as a filter where it is one.
struct Tensor {
  int type = 0;
  std::vector<int> lengths;
  std::vector<int> strides;

  bool is_channels_last() const { return strides[1] == 1 && lengths[1] != 1; }
  bool is_half() const { return type != kCudnnFloat && type != kCudnnDouble; }
};

struct Convolution {
  std::vector<int> padding;
  std::vector<int> stride;
  std::vector<int> dilation;
  int groups = 1;
};

struct Handle {
  void* cudnn;
};

// What a heuristic of cuDNN tells of an algorithm.
struct Advice {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspace;
  int determinism;
  int math;
  int reserved[3];
};

// miopenConvSolution_t.
struct Solution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

// cuDNN's descriptors for the time of a call.
class Descriptors {
 public:
  Descriptors(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& convolution) {
    is_whole_ = make_tensor(x, &x_) && make_tensor(y, &y_) && make_filter(w) && make_convolution(x, convolution);
  }
  ~Descriptors() {
    if (x_ != nullptr) call<int(void*)>(cudnn(), "cudnnDestroyTensorDescriptor")(x_);
    if (y_ != nullptr) call<int(void*)>(cudnn(), "cudnnDestroyTensorDescriptor")(y_);
    if (w_ != nullptr) call<int(void*)>(cudnn(), "cudnnDestroyFilterDescriptor")(w_);
    if (convolution_ != nullptr) call<int(void*)>(cudnn(), "cudnnDestroyConvolutionDescriptor")(convolution_);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  bool is_whole() const { return is_whole_; }
  void* x() const { return x_; }
  void* w() const { return w_; }
  void* y() const { return y_; }
  void* convolution() const { return convolution_; }

  bool set_math(int math) {
    return call<int(void*, int)>(cudnn(), "cudnnSetConvolutionMathType")(convolution_, math) == 0;
  }

 private:
  static bool make_tensor(const Tensor& tensor, void** descriptor) {
    using Set = int(void*, int, int, const int*, const int*);
    return call<int(void**)>(cudnn(), "cudnnCreateTensorDescriptor")(descriptor) == 0 &&
           call<Set>(cudnn(), "cudnnSetTensorNdDescriptor")(*descriptor, tensor.type,
                                                            static_cast<int>(tensor.lengths.size()),
                                                            tensor.lengths.data(), tensor.strides.data()) == 0;
  }

  bool make_filter(const Tensor& tensor) {
    using Set = int(void*, int, int, int, const int*);
    return call<int(void**)>(cudnn(), "cudnnCreateFilterDescriptor")(&w_) == 0 &&
           call<Set>(cudnn(), "cudnnSetFilterNdDescriptor")(w_, tensor.type, tensor.is_channels_last() ? 1 : 0,
                                                            static_cast<int>(tensor.lengths.size()),
                                                            tensor.lengths.data()) == 0;
  }

  bool make_convolution(const Tensor& x, const Convolution& from) {
    using Set = int(void*, int, const int*, const int*, const int*, int, int);
    const int compute = x.type == kCudnnDouble ? kCudnnDouble : kCudnnFloat;
    return call<int(void**)>(cudnn(), "cudnnCreateConvolutionDescriptor")(&convolution_) == 0 &&
           call<Set>(cudnn(), "cudnnSetConvolutionNdDescriptor")(
               convolution_, static_cast<int>(from.padding.size()), from.padding.data(), from.stride.data(),
               from.dilation.data(), kCrossCorrelation, compute) == 0 &&
           call<int(void*, int)>(cudnn(), "cudnnSetConvolutionGroupCount")(convolution_, from.groups) == 0 &&
           set_math(x.is_half() ? kTensorMath : kFmaMath);
  }

  void* x_ = nullptr;
  void* w_ = nullptr;
  void* y_ = nullptr;
  void* convolution_ = nullptr;
  bool is_whole_ = false;
};

enum class Pass { kForward, kData, kFilter };

using AdviceFunction = int(void*, void*, void*, void*, void*, int, int*, Advice*);
using WorkspaceFunction = int(void*, void*, void*, void*, void*, int, size_t*);

// The solutions of a pass that give the same bits each time, in the precision of the operands, the fastest first.
int solutions_of(Pass pass, void* handle, const Tensor& x, const Tensor& w, const Tensor& y,
                 const Convolution& convolution, std::vector<Solution>* solutions) {
  Descriptors descriptors(x, w, y, convolution);
  if (!descriptors.is_whole()) return kBadParameter;
  const char* const advice_name = pass == Pass::kForward ? "cudnnGetConvolutionForwardAlgorithm_v7"
                                  : pass == Pass::kData  ? "cudnnGetConvolutionBackwardDataAlgorithm_v7"
                                                         : "cudnnGetConvolutionBackwardFilterAlgorithm_v7";
  const char* const workspace_name = pass == Pass::kForward ? "cudnnGetConvolutionForwardWorkspaceSize"
                                     : pass == Pass::kData  ? "cudnnGetConvolutionBackwardDataWorkspaceSize"
                                                            : "cudnnGetConvolutionBackwardFilterWorkspaceSize";
  void* const first = pass == Pass::kData ? descriptors.w() : descriptors.x();
  void* const second = pass == Pass::kForward ? descriptors.w() : descriptors.y();
  void* const third = pass == Pass::kForward ? descriptors.y()
                      : pass == Pass::kData  ? descriptors.x()
                                             : descriptors.w();
  void* const cudnn_handle = static_cast<Handle*>(handle)->cudnn;
  Advice advice[kMost] = {};
  int found = 0;
  if (call<AdviceFunction>(cudnn(), advice_name)(cudnn_handle, first, second, descriptors.convolution(), third,
                                                 static_cast<int>(kMost), &found, advice) != 0) {
    return kUnknownError;
  }
  for (int i = 0; i < found; ++i) {
    const Advice& row = advice[i];
    const bool rounds = row.math == kConvertingMath || (!x.is_half() && row.math == kTensorMath);
    if (row.status != 0 || row.determinism != kDeterministic || rounds) continue;
    if (!descriptors.set_math(row.math)) continue;
    size_t workspace = 0;
    if (call<WorkspaceFunction>(cudnn(), workspace_name)(cudnn_handle, first, second, descriptors.convolution(), third,
                                                         row.algorithm, &workspace) != 0) {
      continue;
    }
    // The algorithm and its arithmetic, in one number that is not 0.
    const auto id = static_cast<uint64_t>(row.algorithm) * 16 + static_cast<uint64_t>(row.math) + 1;
    solutions->push_back({row.milliseconds, workspace, id, 0});
  }
  return kSuccess;
}

int run(Pass pass, void* handle, const Tensor& x, const void* x_data, const Tensor& w, const void* w_data,
        const Tensor& y, const void* y_data, const Convolution& convolution, void* result, void* workspace,
        size_t bytes, uint64_t id) {
  Descriptors descriptors(x, w, y, convolution);
  if (!descriptors.is_whole() || id == 0) return kBadParameter;
  const int algorithm = static_cast<int>((id - 1) / 16);
  if (!descriptors.set_math(static_cast<int>((id - 1) % 16))) return kBadParameter;
  const double one = 1;
  const double zero = 0;
  const float one_float = 1;
  const float zero_float = 0;
  const bool is_double = x.type == kCudnnDouble;
  const void* const alpha = is_double ? static_cast<const void*>(&one) : &one_float;
  const void* const beta = is_double ? static_cast<const void*>(&zero) : &zero_float;
  void* const cudnn_handle = static_cast<Handle*>(handle)->cudnn;
  using Run = int(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,
                  void*, void*);
  int code = 0;
  switch (pass) {
    case Pass::kForward:
      code = call<Run>(cudnn(), "cudnnConvolutionForward")(cudnn_handle, alpha, descriptors.x(), x_data,
                                                           descriptors.w(), w_data, descriptors.convolution(),
                                                           algorithm, workspace, bytes, beta, descriptors.y(), result);
      break;
    case Pass::kData:
      code = call<Run>(cudnn(), "cudnnConvolutionBackwardData")(
          cudnn_handle, alpha, descriptors.w(), w_data, descriptors.y(), y_data, descriptors.convolution(), algorithm,
          workspace, bytes, beta, descriptors.x(), result);
      break;
    case Pass::kFilter:
      code = call<Run>(cudnn(), "cudnnConvolutionBackwardFilter")(
          cudnn_handle, alpha, descriptors.x(), x_data, descriptors.y(), y_data, descriptors.convolution(), algorithm,
          workspace, bytes, beta, descriptors.w(), result);
      break;
  }
  return code == 0 ? kSuccess : kUnknownError;
}

}  // namespace
}  // namespace on_cuda

using namespace on_cuda;

ON_CUDA_EXPORT int miopenCreateWithStream(void** handle, void* stream) {
  if (cudnn().find("cudnnCreate") == nullptr) return kUnknownError;
  void* made = nullptr;
  if (call<int(void**)>(cudnn(), "cudnnCreate")(&made) != 0) return kUnknownError;
  if (call<int(void*, void*)>(cudnn(), "cudnnSetStream")(made, stream) != 0) return kUnknownError;
  *handle = new Handle{made};
  return kSuccess;
}

ON_CUDA_EXPORT int miopenDestroy(void* handle) {
  Handle* const own = static_cast<Handle*>(handle);
  const int code = call<int(void*)>(cudnn(), "cudnnDestroy")(own->cudnn);
  delete own;
  return code == 0 ? kSuccess : kUnknownError;
}

ON_CUDA_EXPORT int miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  *major = *minor = *patch = 0;
  return kSuccess;
}

ON_CUDA_EXPORT int miopenCreateTensorDescriptor(void** descriptor) {
  *descriptor = new Tensor;
  return kSuccess;
}

ON_CUDA_EXPORT int miopenDestroyTensorDescriptor(void* descriptor) {
  delete static_cast<Tensor*>(descriptor);
  return kSuccess;
}

ON_CUDA_EXPORT int miopenSetTensorDescriptor(void* descriptor, int type, int axes, const int* lengths,
                                             const int* strides) {
  Tensor& tensor = *static_cast<Tensor*>(descriptor);
  tensor.type = cuda_of(kTypes, type);
  if (tensor.type < 0) return kNotImplemented;
  tensor.lengths.assign(lengths, lengths + axes);
  tensor.strides.assign(strides, strides + axes);
  return kSuccess;
}

ON_CUDA_EXPORT int miopenCreateConvolutionDescriptor(void** descriptor) {
  *descriptor = new Convolution;
  return kSuccess;
}

ON_CUDA_EXPORT int miopenDestroyConvolutionDescriptor(void* descriptor) {
  delete static_cast<Convolution*>(descriptor);
  return kSuccess;
}

ON_CUDA_EXPORT int miopenInitConvolutionNdDescriptor(void* descriptor, int axes, const int* padding, const int* stride,
                                                     const int* dilation, int mode) {
  constexpr int kConvolution = 0;  // which is a cross correlation
  if (mode != kConvolution) return kNotImplemented;
  Convolution& convolution = *static_cast<Convolution*>(descriptor);
  convolution.padding.assign(padding, padding + axes);
  convolution.stride.assign(stride, stride + axes);
  convolution.dilation.assign(dilation, dilation + axes);
  return kSuccess;
}

ON_CUDA_EXPORT int miopenSetConvolutionGroupCount(void* descriptor, int groups) {
  static_cast<Convolution*>(descriptor)->groups = groups;
  return kSuccess;
}

// Only what gives the same bits each time is offered anyway.
ON_CUDA_EXPORT int miopenSetConvolutionAttribute(void*, int, int) { return kSuccess; }

// The four functions of a pass, whose operands have an order of their own: the places of x, w and y among a, b and c.
#define ON_CUDA_PASS(name, pass, x, w, y, x_data, w_data, y_data)                                                      \
  ON_CUDA_EXPORT int miopenConvolution##name##GetSolution(void* handle, const Tensor* a, const Tensor* b,              \
                                                          const Convolution* convolution, const Tensor* c,             \
                                                          size_t most, size_t* count, Solution* solutions) {           \
    std::vector<Solution> all;                                                                                         \
    const int status = solutions_of(pass, handle, *x, *w, *y, *convolution, &all);                                     \
    *count = std::min(most, all.size());                                                                               \
    std::copy_n(all.begin(), *count, solutions);                                                                       \
    return status;                                                                                                     \
  }                                                                                                                    \
  ON_CUDA_EXPORT int miopenConvolution##name##GetSolutionCount(void* handle, const Tensor* a, const Tensor* b,         \
                                                               const Convolution* convolution, const Tensor* c,        \
                                                               size_t* count) {                                        \
    std::vector<Solution> all;                                                                                         \
    const int status = solutions_of(pass, handle, *x, *w, *y, *convolution, &all);                                     \
    *count = all.size();                                                                                               \
    return status;                                                                                                     \
  }                                                                                                                    \
  ON_CUDA_EXPORT int miopenConvolution##name##GetSolutionWorkspaceSize(void* handle, const Tensor* a, const Tensor* b, \
                                                                       const Convolution* convolution,                 \
                                                                       const Tensor* c, uint64_t id, size_t* bytes) {  \
    std::vector<Solution> all;                                                                                         \
    const int status = solutions_of(pass, handle, *x, *w, *y, *convolution, &all);                                     \
    for (const Solution& solution : all) {                                                                             \
      if (solution.id != id) continue;                                                                                 \
      *bytes = solution.workspace;                                                                                     \
      return kSuccess;                                                                                                 \
    }                                                                                                                  \
    return status != kSuccess ? status : kBadParameter;                                                                \
  }                                                                                                                    \
  ON_CUDA_EXPORT int miopenConvolution##name##CompileSolution(void*, const Tensor*, const Tensor*, const Convolution*, \
                                                              const Tensor*, uint64_t) {                               \
    return kSuccess;                                                                                                   \
  }                                                                                                                    \
  ON_CUDA_EXPORT int miopenConvolution##name##Immediate(                                                               \
      void* handle, const Tensor* a, const void* a_data, const Tensor* b, const void* b_data,                          \
      const Convolution* convolution, const Tensor* c, void* c_data, void* workspace, size_t bytes, uint64_t id) {     \
    return run(pass, handle, *x, x_data, *w, w_data, *y, y_data, *convolution, c_data, workspace, bytes, id);          \
  }

ON_CUDA_PASS(Forward, Pass::kForward, b, a, c, b_data, a_data, c_data)
ON_CUDA_PASS(BackwardData, Pass::kData, c, b, a, c_data, b_data, a_data)
ON_CUDA_PASS(BackwardWeights, Pass::kFilter, b, c, a, b_data, c_data, a_data)
