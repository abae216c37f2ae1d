// rocBLAS by cuBLAS: the functions that the hip backend calls.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/doubles/hip_on_cuda/library.h"

namespace on_cuda {
namespace {

const Library& cublas() {
  static const Library* const library =
      new Library({"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"});
  return *library;
}

// rocblas_status.
constexpr int kSuccess = 0;
constexpr int kNotImplemented = 2;
constexpr int kInternalError = 6;
constexpr int kInvalidValue = 11;

constexpr Row kTypes[] = {{151, 0}, {152, 1}, {150, 2}, {168, 14}};  // rocblas_datatype, cudaDataType
constexpr Row kComputeTypes[] = {{151, 68}, {152, 70}};              // rocblas_datatype, cublasComputeType_t
constexpr Row kOperations[] = {{111, 0}, {112, 1}};                  // as it is, transposed
constexpr int kDefaultAlgorithm = -1;
constexpr int kNoReducedPrecision = 16;  // CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION

int status_of(int code) { return code == 0 ? kSuccess : code == 7 ? kInvalidValue : kInternalError; }

}  // namespace
}  // namespace on_cuda

using namespace on_cuda;

ON_CUDA_EXPORT int rocblas_create_handle(void** handle) {
  if (cublas().find("cublasCreate_v2") == nullptr) return kInternalError;
  int code = call<int(void**)>(cublas(), "cublasCreate_v2")(handle);
  if (code == 0) code = call<int(void*, int)>(cublas(), "cublasSetMathMode")(*handle, kNoReducedPrecision);
  return status_of(code);
}

ON_CUDA_EXPORT int rocblas_destroy_handle(void* handle) {
  return status_of(call<int(void*)>(cublas(), "cublasDestroy_v2")(handle));
}

ON_CUDA_EXPORT int rocblas_get_version_string(char* text, size_t bytes) {
  static const char kVersion[] = "0.0.on-cuBLAS";
  if (bytes < sizeof kVersion) return kInvalidValue;
  std::memcpy(text, kVersion, sizeof kVersion);
  return kSuccess;
}

ON_CUDA_EXPORT int rocblas_set_stream(void* handle, void* stream) {
  return status_of(call<int(void*, void*)>(cublas(), "cublasSetStream_v2")(handle, stream));
}

ON_CUDA_EXPORT int rocblas_set_workspace(void* handle, void* workspace, size_t bytes) {
  return status_of(call<int(void*, void*, size_t)>(cublas(), "cublasSetWorkspace_v2")(handle, workspace, bytes));
}

// cuBLAS adds to D only, so another C is refused, unless nothing of it is added.
ON_CUDA_EXPORT int rocblas_gemm_strided_batched_ex(void* handle, int a_operation, int b_operation, int m, int n, int k,
                                                   const void* alpha, const void* a, int a_type, int a_leading,
                                                   int64_t a_stride, const void* b, int b_type, int b_leading,
                                                   int64_t b_stride, const void* beta, const void* c, int c_type,
                                                   int c_leading, int64_t c_stride, void* d, int d_type, int d_leading,
                                                   int64_t d_stride, int batch, int compute_type, int, int, uint32_t) {
  const int types[] = {cuda_of(kTypes, a_type), cuda_of(kTypes, b_type), cuda_of(kTypes, d_type)};
  const int compute = cuda_of(kComputeTypes, compute_type);
  const int operations[] = {cuda_of(kOperations, a_operation), cuda_of(kOperations, b_operation)};
  for (const int number : {types[0], types[1], types[2], compute, operations[0], operations[1]}) {
    if (number < 0) return kNotImplemented;
  }
  const bool is_double = compute == 70;
  const bool adds = is_double ? *static_cast<const double*>(beta) != 0 : *static_cast<const float*>(beta) != 0;
  if (adds && (c != d || c_type != d_type || c_leading != d_leading || c_stride != d_stride)) return kNotImplemented;
  using Multiply = int(void*, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, int,
                       int, long long, const void*, void*, int, int, long long, int, int, int);
  return status_of(call<Multiply>(cublas(), "cublasGemmStridedBatchedEx")(
      handle, operations[0], operations[1], m, n, k, alpha, a, types[0], a_leading, a_stride, b, types[1], b_leading,
      b_stride, beta, d, types[2], d_leading, d_stride, batch, compute, kDefaultAlgorithm));
}
