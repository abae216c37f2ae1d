// cuBLAS: of 10.2 if the test asks for version 10202.
#include "tests/doubles/libraries_on_host/control.h"
#include "tests/doubles/libraries_on_host/gemm.h"

namespace {

LibraryControl control;
constexpr int kInvalid = 7;
constexpr int kNotSupported = 15;

int version() { return control.version != 0 ? control.version : 120405; }

}  // namespace

extern "C" {

LibraryControl* on_host_control() { return &control; }

int cublasCreate_v2(void** handle) {
  if (control.create_status != 0) return control.create_status;
  *handle = &control;
  ++control.handles;
  return 0;
}

int cublasDestroy_v2(void*) {
  --control.handles;
  return 0;
}

int cublasGetVersion_v2(void*, int* number) {
  *number = version();
  return 0;
}

int cublasSetStream_v2(void*, void*) { return 0; }

int cublasSetMathMode(void*, int mode) { return version() >= 11000 && mode == 16 ? 0 : kInvalid; }

int cublasSetWorkspace_v2(void*, void* workspace, size_t bytes) {
  return workspace != nullptr && bytes > 0 ? 0 : kInvalid;
}

int cublasGemmStridedBatchedEx(void*, int a_operation, int b_operation, int m, int n, int k, const void* alpha,
                               const void* a, int a_type, int a_leading, long long a_stride, const void* b, int b_type,
                               int b_leading, long long b_stride, const void* beta, void* c, int c_type, int c_leading,
                               long long c_stride, int batch, int compute, int) {
  if (control.work_status != 0) return control.work_status;
  const bool is_a = a_operation == 1;
  const bool is_b = b_operation == 1;
  if (a_leading < (is_a ? k : m) || b_leading < (is_b ? n : k) || c_leading < m) return kInvalid;
  const bool is_old = version() < 11000;
  const int scale = compute == (is_old ? on_host::kDouble : 70) ? on_host::kDouble : on_host::kFloat;
  const bool is_tf32 = !is_old && compute == 77 && a_type == on_host::kFloat && b_type == on_host::kFloat;
  if (scale == on_host::kFloat && compute != (is_old ? on_host::kFloat : 68) && !is_tf32) return kNotSupported;
  if (is_tf32 && compute == control.refused_compute) return kNotSupported;
  ++control.works;
  control.compute = compute;
  if (!control.computes) return 0;
  const on_host::Matrix result = {c, c_type, false, c_leading, c_stride};
  on_host::multiply(m, n, k, batch, on_host::read(alpha, 0, scale), {a, a_type, is_a, a_leading, a_stride},
                    {b, b_type, is_b, b_leading, b_stride}, on_host::read(beta, 0, scale), result, c, result,
                    [](double value, int64_t) { return value; });
  return 0;
}

}  // extern "C"
