// Our declarations of cuDNN's graphs against its header, of 9 and later. Compiled, never run.
#include <cudnn.h>

#include "csrc/backends/gpu/dnn_cudnn_graph.cc"
#include "tests/gpu/headers/agree.h"

#if CUDNN_MAJOR >= 9
namespace unihal::gpu {

UHAL_AGREES(CudnnGraphFunctions::create, ::cudnnBackendCreateDescriptor)
UHAL_AGREES(CudnnGraphFunctions::destroy, ::cudnnBackendDestroyDescriptor)
UHAL_AGREES(CudnnGraphFunctions::set, ::cudnnBackendSetAttribute)
UHAL_AGREES(CudnnGraphFunctions::get, ::cudnnBackendGetAttribute)
UHAL_AGREES(CudnnGraphFunctions::finalize, ::cudnnBackendFinalize)
UHAL_AGREES(CudnnGraphFunctions::execute, ::cudnnBackendExecute)

static_assert(kConvolution == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
static_assert(kEngine == CUDNN_BACKEND_ENGINE_DESCRIPTOR);
static_assert(kEngineConfiguration == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
static_assert(kHeuristics == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
static_assert(kExecutionPlan == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
static_assert(kGraph == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
static_assert(kVariantPack == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
static_assert(kTensor == CUDNN_BACKEND_TENSOR_DESCRIPTOR);

static_assert(kHandleType == CUDNN_TYPE_HANDLE);
static_assert(kDataType == CUDNN_TYPE_DATA_TYPE);
static_assert(kInt64Type == CUDNN_TYPE_INT64);
static_assert(kFloatType == CUDNN_TYPE_FLOAT);
static_assert(kDoubleType == CUDNN_TYPE_DOUBLE);
static_assert(kPointerType == CUDNN_TYPE_VOID_PTR);
static_assert(kConvolutionModeType == CUDNN_TYPE_CONVOLUTION_MODE);
static_assert(kHeuristicModeType == CUDNN_TYPE_HEUR_MODE);
static_assert(kNoteType == CUDNN_TYPE_NUMERICAL_NOTE);
static_assert(kDescriptorType == CUDNN_TYPE_BACKEND_DESCRIPTOR);

static_assert(kConvolutionCompute == CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
static_assert(kConvolutionMode == CUDNN_ATTR_CONVOLUTION_CONV_MODE);
static_assert(kConvolutionDilations == CUDNN_ATTR_CONVOLUTION_DILATIONS);
static_assert(kConvolutionStrides == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
static_assert(kConvolutionPaddingBehind == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
static_assert(kConvolutionPaddingBefore == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
static_assert(kConvolutionSpatial == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
static_assert(kHeuristicMode == CUDNN_ATTR_ENGINEHEUR_MODE);
static_assert(kHeuristicGraph == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
static_assert(kHeuristicResults == CUDNN_ATTR_ENGINEHEUR_RESULTS);
static_assert(kConfigurationEngine == CUDNN_ATTR_ENGINECFG_ENGINE);
static_assert(kPlanHandle == CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
static_assert(kPlanConfiguration == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
static_assert(kPlanWorkspace == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
static_assert(kGraphHandle == CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
static_assert(kGraphOperations == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(kTensorAlignment == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
static_assert(kTensorDataType == CUDNN_ATTR_TENSOR_DATA_TYPE);
static_assert(kTensorDimensions == CUDNN_ATTR_TENSOR_DIMENSIONS);
static_assert(kTensorStrides == CUDNN_ATTR_TENSOR_STRIDES);
static_assert(kTensorId == CUDNN_ATTR_TENSOR_UNIQUE_ID);
static_assert(kPackIds == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
static_assert(kPackPointers == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
static_assert(kPackWorkspace == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(kEngineNotes == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);

#define UHAL_SAME_OPERATION(row, descriptor, pass, x, w, y)                                   \
  static_assert((row).type == CUDNN_BACKEND_OPERATION_CONVOLUTION_##descriptor##_DESCRIPTOR); \
  static_assert((row).alpha == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_ALPHA);              \
  static_assert((row).beta == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_BETA);                \
  static_assert((row).convolution == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_CONV_DESC);    \
  static_assert((row).operands[kDnnX] == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##x);      \
  static_assert((row).operands[kDnnW] == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##w);      \
  static_assert((row).operands[kDnnY] == CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##y);
UHAL_SAME_OPERATION(kOperations[static_cast<int>(kernels::Pass::kForward)], FORWARD, FORWARD, X, W, Y)
UHAL_SAME_OPERATION(kOperations[static_cast<int>(kernels::Pass::kBackwardData)], BACKWARD_DATA, BWD_DATA, DX, W, DY)
UHAL_SAME_OPERATION(kOperations[static_cast<int>(kernels::Pass::kBackwardFilter)], BACKWARD_FILTER, BWD_FILTER, X, DW,
                    DY)

static_assert(kCudnnCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(kModeA == CUDNN_HEUR_MODE_A);
static_assert(kUsesMatrixUnits == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
static_assert(kConvertsInputs == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
static_assert(kReducesInLowPrecision == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
static_assert(kIsRandom == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
static_assert(kMostNotes >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);

}  // namespace unihal::gpu
#endif
