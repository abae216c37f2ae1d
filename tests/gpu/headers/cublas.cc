// Our declarations of cuBLAS against its header. Compiled, never run.
#include <cublas_v2.h>

#include "csrc/backends/gpu/blas_cublas.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

UHAL_AGREES(CublasFunctions::create, ::cublasCreate_v2)
UHAL_AGREES(CublasFunctions::destroy, ::cublasDestroy_v2)
UHAL_AGREES(CublasFunctions::get_version, ::cublasGetVersion_v2)
UHAL_AGREES(CublasFunctions::set_stream, ::cublasSetStream_v2)
UHAL_AGREES(CublasFunctions::set_math_mode, ::cublasSetMathMode)
UHAL_AGREES(CublasFunctions::set_workspace, ::cublasSetWorkspace_v2)

// Declared twice in C++: with its type of computation, and with cudaDataType as in 10.
using Multiply = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                const void*, cudaDataType, int, long long int, const void*, cudaDataType, int,
                                long long int, const void*, void*, cudaDataType, int, long long int, int,
                                cublasComputeType_t, cublasGemmAlgo_t);
[[maybe_unused]] constexpr Multiply* kMultiply = ::cublasGemmStridedBatchedEx;
static_assert(headers::agree<std::remove_pointer_t<decltype(CublasFunctions::multiply)>, Multiply>());

static_assert(kLibrarySuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kCublasNone == CUBLAS_OP_N);
static_assert(kCublasTransposed == CUBLAS_OP_T);
static_assert(kDefaultAlgorithm == CUBLAS_GEMM_DEFAULT);
static_assert(kTensorAlgorithm == CUBLAS_GEMM_DEFAULT_TENSOR_OP);
static_assert(kReduceInComputeType == CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
static_assert(kComputeFloat32 == CUBLAS_COMPUTE_32F && kComputeFloat64 == CUBLAS_COMPUTE_64F &&
              kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32 && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kFailures[0] == CUBLAS_STATUS_MAPPING_ERROR && kFailures[1] == CUBLAS_STATUS_EXECUTION_FAILED &&
              kFailures[2] == CUBLAS_STATUS_INTERNAL_ERROR);
static_assert(CUDA_R_32F == 0 && CUDA_R_64F == 1 && CUDA_R_16F == 2 && CUDA_R_8I == 3 && CUDA_R_32I == 10 &&
              CUDA_R_16BF == 14);  // cuda_data_type(), also of cuBLASLt

}  // namespace unihal::gpu
