// Our declarations of cuDNN against its header. Compiled, never run.
#include <cudnn.h>

#include "csrc/backends/gpu/dnn_cudnn.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

UHAL_AGREES(CudnnFunctions::create, ::cudnnCreate)
UHAL_AGREES(CudnnFunctions::destroy, ::cudnnDestroy)
UHAL_AGREES(CudnnFunctions::get_version, ::cudnnGetVersion)
UHAL_AGREES(CudnnFunctions::set_stream, ::cudnnSetStream)
UHAL_AGREES(CudnnFunctions::tensor_create, ::cudnnCreateTensorDescriptor)
UHAL_AGREES(CudnnFunctions::tensor_destroy, ::cudnnDestroyTensorDescriptor)
UHAL_AGREES(CudnnFunctions::tensor_set, ::cudnnSetTensorNdDescriptor)
UHAL_AGREES(CudnnFunctions::filter_create, ::cudnnCreateFilterDescriptor)
UHAL_AGREES(CudnnFunctions::filter_destroy, ::cudnnDestroyFilterDescriptor)
UHAL_AGREES(CudnnFunctions::filter_set, ::cudnnSetFilterNdDescriptor)
UHAL_AGREES(CudnnFunctions::convolution_create, ::cudnnCreateConvolutionDescriptor)
UHAL_AGREES(CudnnFunctions::convolution_destroy, ::cudnnDestroyConvolutionDescriptor)
UHAL_AGREES(CudnnFunctions::convolution_set, ::cudnnSetConvolutionNdDescriptor)
UHAL_AGREES(CudnnFunctions::set_groups, ::cudnnSetConvolutionGroupCount)
UHAL_AGREES(CudnnFunctions::set_math, ::cudnnSetConvolutionMathType)
UHAL_AGREES(CudnnFunctions::forward_advice, ::cudnnGetConvolutionForwardAlgorithm_v7)
UHAL_AGREES(CudnnFunctions::data_advice, ::cudnnGetConvolutionBackwardDataAlgorithm_v7)
UHAL_AGREES(CudnnFunctions::filter_advice, ::cudnnGetConvolutionBackwardFilterAlgorithm_v7)
UHAL_AGREES(CudnnFunctions::forward_workspace, ::cudnnGetConvolutionForwardWorkspaceSize)
UHAL_AGREES(CudnnFunctions::data_workspace, ::cudnnGetConvolutionBackwardDataWorkspaceSize)
UHAL_AGREES(CudnnFunctions::filter_workspace, ::cudnnGetConvolutionBackwardFilterWorkspaceSize)
UHAL_AGREES(CudnnFunctions::forward, ::cudnnConvolutionForward)
UHAL_AGREES(CudnnFunctions::backward_data, ::cudnnConvolutionBackwardData)
UHAL_AGREES(CudnnFunctions::backward_filter, ::cudnnConvolutionBackwardFilter)

static_assert(kLibrarySuccess == CUDNN_STATUS_SUCCESS);
static_assert(kCudnnCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(kNchw == CUDNN_TENSOR_NCHW);
static_assert(kNhwc == CUDNN_TENSOR_NHWC);
static_assert(kDefaultMath == CUDNN_DEFAULT_MATH);
static_assert(kTensorMath == CUDNN_TENSOR_OP_MATH);
static_assert(kConvertingMath == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
static_assert(kFmaMath == CUDNN_FMA_MATH);
static_assert(kDeterministic == CUDNN_DETERMINISTIC);
static_assert(CUDNN_DATA_FLOAT == 0 && CUDNN_DATA_DOUBLE == 1 && CUDNN_DATA_HALF == 2 && CUDNN_DATA_BFLOAT16 == 9);

// One struct of ours for the three passes.
#define UHAL_SAME_ADVICE(theirs)                                                 \
  static_assert(sizeof(Advice) == sizeof(theirs));                               \
  static_assert(offsetof(Advice, algorithm) == offsetof(theirs, algo));          \
  static_assert(offsetof(Advice, status) == offsetof(theirs, status));           \
  static_assert(offsetof(Advice, milliseconds) == offsetof(theirs, time));       \
  static_assert(offsetof(Advice, workspace) == offsetof(theirs, memory));        \
  static_assert(offsetof(Advice, determinism) == offsetof(theirs, determinism)); \
  static_assert(offsetof(Advice, math) == offsetof(theirs, mathType));
UHAL_SAME_ADVICE(cudnnConvolutionFwdAlgoPerf_t)
UHAL_SAME_ADVICE(cudnnConvolutionBwdDataAlgoPerf_t)
UHAL_SAME_ADVICE(cudnnConvolutionBwdFilterAlgoPerf_t)

}  // namespace unihal::gpu
