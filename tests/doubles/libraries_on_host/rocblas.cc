// rocBLAS.
#include <cstdio>

#include "tests/doubles/libraries_on_host/control.h"
#include "tests/doubles/libraries_on_host/gemm.h"

namespace {

LibraryControl control;
constexpr int kInvalidSize = 4;
constexpr int kNotImplemented = 2;

// rocblas_datatype's numbers; -1 for others.
int type_of(int number) {
  switch (number) {
    case 150:
      return on_host::kHalf;
    case 151:
      return on_host::kFloat;
    case 152:
      return on_host::kDouble;
    case 168:
      return on_host::kBfloat16;
    default:
      return -1;
  }
}

}  // namespace

extern "C" {

LibraryControl* on_host_control() { return &control; }

int rocblas_create_handle(void** handle) {
  if (control.create_status != 0) return control.create_status;
  *handle = &control;
  ++control.handles;
  return 0;
}

int rocblas_destroy_handle(void*) {
  --control.handles;
  return 0;
}

int rocblas_get_version_string(char* text, size_t bytes) {
  std::snprintf(text, bytes, "4.2.1.60201");
  return 0;
}

int rocblas_set_stream(void*, void*) { return 0; }

int rocblas_gemm_strided_batched_ex(void*, int a_operation, int b_operation, int m, int n, int k, const void* alpha,
                                    const void* a, int a_type, int a_leading, int64_t a_stride, const void* b,
                                    int b_type, int b_leading, int64_t b_stride, const void* beta, const void* c,
                                    int c_type, int c_leading, int64_t c_stride, void* d, int d_type, int d_leading,
                                    int64_t d_stride, int batch, int compute, int algorithm, int, uint32_t) {
  if (control.work_status != 0) return control.work_status;
  const bool is_a = a_operation == 112;
  const bool is_b = b_operation == 112;
  if (a_leading < (is_a ? k : m) || b_leading < (is_b ? n : k) || c_leading < m || d_leading < m) return kInvalidSize;
  const int scale = type_of(compute);
  if (algorithm != 0 || type_of(a_type) < 0 || type_of(d_type) < 0 || scale < 0) return kNotImplemented;
  ++control.works;
  control.compute = compute;
  if (!control.computes) return 0;
  on_host::multiply(m, n, k, batch, on_host::read(alpha, 0, scale), {a, type_of(a_type), is_a, a_leading, a_stride},
                    {b, type_of(b_type), is_b, b_leading, b_stride}, on_host::read(beta, 0, scale),
                    {c, type_of(c_type), false, c_leading, c_stride}, d,
                    {d, type_of(d_type), false, d_leading, d_stride}, [](double value, int64_t) { return value; });
  return 0;
}

}  // extern "C"
