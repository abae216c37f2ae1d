// Our declarations of cuBLASLt against its header, and the numbers by which the double with hipBLASLt's names calls it.
// Compiled, never run.
#include <cublasLt.h>

#include "csrc/backends/gpu/blas_lt.cc"
#include "tests/doubles/hip_on_cuda/hipblaslt.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

UHAL_AGREES(LtFunctions::create, ::cublasLtCreate)
UHAL_AGREES(LtFunctions::destroy, ::cublasLtDestroy)
UHAL_AGREES(LtFunctions::description_create, ::cublasLtMatmulDescCreate)
UHAL_AGREES(LtFunctions::description_destroy, ::cublasLtMatmulDescDestroy)
UHAL_AGREES(LtFunctions::description_set, ::cublasLtMatmulDescSetAttribute)
UHAL_AGREES(LtFunctions::layout_create, ::cublasLtMatrixLayoutCreate)
UHAL_AGREES(LtFunctions::layout_destroy, ::cublasLtMatrixLayoutDestroy)
UHAL_AGREES(LtFunctions::layout_set, ::cublasLtMatrixLayoutSetAttribute)
UHAL_AGREES(LtFunctions::preference_create, ::cublasLtMatmulPreferenceCreate)
UHAL_AGREES(LtFunctions::preference_destroy, ::cublasLtMatmulPreferenceDestroy)
UHAL_AGREES(LtFunctions::preference_set, ::cublasLtMatmulPreferenceSetAttribute)
UHAL_AGREES(LtFunctions::find_algorithms, ::cublasLtMatmulAlgoGetHeuristic)
UHAL_AGREES(LtFunctions::multiply, ::cublasLtMatmul)

static_assert(kLibrarySuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kCublasLt.none == CUBLAS_OP_N);
static_assert(kCublasLt.transposed == CUBLAS_OP_T);
static_assert(kCublasLt.compute_float32 == CUBLAS_COMPUTE_32F);
static_assert(kCublasLt.compute_tf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kCublasLt.compute_float64 == CUBLAS_COMPUTE_64F);
static_assert(kCublasLt.compute_int32 == CUBLAS_COMPUTE_32I);
static_assert(kCublasLt.transpose_a == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kCublasLt.transpose_b == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kCublasLt.epilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kCublasLt.bias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kCublasLt.batch_count == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kCublasLt.batch_offset == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kCublasLt.most_workspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kCublasLt.reductions == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kCublasLt.alignment == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kCublasLt.alignment + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kCublasLt.state_at == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(kCublasLt.workspace_at == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(kCublasLt.answer_bytes == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(kAlgorithmBytes == sizeof(cublasLtMatmulAlgo_t));
static_assert(kPlain == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(kBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kLtReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

}  // namespace unihal::gpu

namespace on_cuda {

static_assert(kComputeTypes[0].cuda == CUBLAS_COMPUTE_32F && kComputeTypes[1].cuda == CUBLAS_COMPUTE_64F &&
              kComputeTypes[2].cuda == CUBLAS_COMPUTE_32I && kComputeTypes[3].cuda == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kOperations[0].cuda == CUBLAS_OP_N && kOperations[1].cuda == CUBLAS_OP_T);
static_assert(kDescriptionAttributes[0].cuda == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kDescriptionAttributes[1].cuda == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kDescriptionAttributes[2].cuda == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescriptionAttributes[3].cuda == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kDescriptionAttributes[4].cuda == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(kLayoutAttributes[0].cuda == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kLayoutAttributes[1].cuda == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kPreferenceAttributes[0].cuda == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(sizeof(CudaAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CudaAnswer) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CudaAnswer, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace on_cuda
