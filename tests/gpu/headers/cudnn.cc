// Our declarations of cuDNN against its headers. Compiled, never run.
#include <cudnn.h>

#include "csrc/backends/gpu/dnn_cudnn.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

UHAL_AGREES(Functions::create, ::cudnnCreate)
UHAL_AGREES(Functions::destroy, ::cudnnDestroy)
UHAL_AGREES(Functions::get_version, ::cudnnGetVersion)
UHAL_AGREES(Functions::set_stream, ::cudnnSetStream)
UHAL_AGREES(Functions::tensor_create, ::cudnnCreateTensorDescriptor)
UHAL_AGREES(Functions::tensor_destroy, ::cudnnDestroyTensorDescriptor)
UHAL_AGREES(Functions::tensor_set, ::cudnnSetTensorNdDescriptor)
UHAL_AGREES(Functions::filter_create, ::cudnnCreateFilterDescriptor)
UHAL_AGREES(Functions::filter_destroy, ::cudnnDestroyFilterDescriptor)
UHAL_AGREES(Functions::filter_set, ::cudnnSetFilterNdDescriptor)
UHAL_AGREES(Functions::convolution_create, ::cudnnCreateConvolutionDescriptor)
UHAL_AGREES(Functions::convolution_destroy, ::cudnnDestroyConvolutionDescriptor)
UHAL_AGREES(Functions::convolution_set, ::cudnnSetConvolutionNdDescriptor)
UHAL_AGREES(Functions::set_groups, ::cudnnSetConvolutionGroupCount)
UHAL_AGREES(Functions::set_math, ::cudnnSetConvolutionMathType)
UHAL_AGREES(Functions::forward_advice, ::cudnnGetConvolutionForwardAlgorithm_v7)
UHAL_AGREES(Functions::data_advice, ::cudnnGetConvolutionBackwardDataAlgorithm_v7)
UHAL_AGREES(Functions::filter_advice, ::cudnnGetConvolutionBackwardFilterAlgorithm_v7)
UHAL_AGREES(Functions::forward_workspace, ::cudnnGetConvolutionForwardWorkspaceSize)
UHAL_AGREES(Functions::data_workspace, ::cudnnGetConvolutionBackwardDataWorkspaceSize)
UHAL_AGREES(Functions::filter_workspace, ::cudnnGetConvolutionBackwardFilterWorkspaceSize)
UHAL_AGREES(Functions::forward, ::cudnnConvolutionForward)
UHAL_AGREES(Functions::backward_data, ::cudnnConvolutionBackwardData)
UHAL_AGREES(Functions::backward_filter, ::cudnnConvolutionBackwardFilter)

static_assert(kOk == CUDNN_STATUS_SUCCESS);
static_assert(kCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(kNchw == CUDNN_TENSOR_NCHW && kNhwc == CUDNN_TENSOR_NHWC);
static_assert(kDefaultMath == CUDNN_DEFAULT_MATH && kTensorMath == CUDNN_TENSOR_OP_MATH);
static_assert(kConvertingMath == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION && kFmaMath == CUDNN_FMA_MATH);
static_assert(kDeterministic == CUDNN_DETERMINISTIC);
static_assert(sizeof(Advice) == sizeof(cudnnConvolutionFwdAlgoPerf_t));
static_assert(sizeof(Advice) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
static_assert(sizeof(Advice) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
static_assert(offsetof(Advice, workspace) == offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
static_assert(offsetof(Advice, determinism) == offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
static_assert(offsetof(Advice, math) == offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
static_assert(CUDNN_DATA_FLOAT == 0 && CUDNN_DATA_DOUBLE == 1 && CUDNN_DATA_HALF == 2 && CUDNN_DATA_BFLOAT16 == 9);

}  // namespace unihal::gpu
