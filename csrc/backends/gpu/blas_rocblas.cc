// rocBLAS: rocblas_gemm_strided_batched_ex. All math modes are the strict one: it has another on gfx942 only, and there
// hipBLASLt comes first.
#include <algorithm>

#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/blas_problem.h"
#include "csrc/backends/gpu/tensile.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

using RocblasHandle = struct RocblasContext*;

constexpr int kRocblasNone = 111;
constexpr int kRocblasTransposed = 112;
constexpr int kStandardAlgorithm = 0;
constexpr int kInternalError = 6;  // work may have begun

struct RocblasFunctions {
  int (*create)(RocblasHandle* handle);
  int (*destroy)(RocblasHandle handle);
  int (*get_version)(char* text, size_t bytes);
  int (*set_stream)(RocblasHandle handle, NativeStream stream);
  int (*set_workspace)(RocblasHandle handle, void* workspace, size_t bytes);  // from ROCm 5.5 on
  int (*multiply)(RocblasHandle handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha,
                  const void* a, int a_type, int a_leading, int64_t a_stride, const void* b, int b_type, int b_leading,
                  int64_t b_stride, const void* beta, const void* c, int c_type, int c_leading, int64_t c_stride,
                  void* d, int d_type, int d_leading, int64_t d_stride, int batch, int compute_type, int algorithm,
                  int solution, uint32_t flags);
};

// rocblas_datatype.
int rocblas_data_type(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT64 ? 152 : dtype == UHAL_FLOAT16 ? 150 : dtype == UHAL_BFLOAT16 ? 168 : 151;
}

class Rocblas final : public Blas {
 public:
  Rocblas(const RocblasFunctions& functions, std::string name) : functions(functions), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  bool takes(const MatmulProblem& problem) const override {
    BlasProblem blas;
    BlasTypes types;
    if (!make_blas_problem(problem, &blas) || !find_blas_types(blas, &types)) return false;
    if (types.compute == UHAL_INT32 || blas.has_bias || blas.activation != UHAL_ACTIVATION_NONE) return false;
    int64_t largest = std::max({blas.m, blas.n, blas.k, blas.batch});
    for (const BlasMatrix& matrix : blas.operands) largest = std::max(largest, matrix.leading);
    return largest <= INT32_MAX;
  }

  bool uses_given_workspace() const override { return functions.set_workspace != nullptr; }

  std::unique_ptr<BlasStream> open_stream(NativeStream stream) override;

  const RocblasFunctions functions;

 private:
  const std::string name_;
};

class RocblasStream final : public BlasStream {
 public:
  RocblasStream(const Rocblas& library, NativeStream stream) : library_(library), stream_(stream) {}
  ~RocblasStream() override {
    if (handle_ != nullptr) library_.functions.destroy(handle_);
  }
  uhal_status run(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace) override;

 private:
  bool start();
  int multiply(const BlasProblem& problem, const BlasTypes& types) const;

  const Rocblas& library_;
  const NativeStream stream_;
  RocblasHandle handle_ = nullptr;
  bool is_refused_ = false;
};

bool RocblasStream::start() {
  const RocblasFunctions& rocblas = library_.functions;
  if (rocblas.create(&handle_) != kLibrarySuccess) {
    handle_ = nullptr;
    return false;
  }
  return rocblas.set_stream(handle_, stream_) == kLibrarySuccess;
}

int RocblasStream::multiply(const BlasProblem& problem, const BlasTypes& types) const {
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  const BlasMatrix& a = problem.operands[kBlasA];
  const BlasMatrix& b = problem.operands[kBlasB];
  const BlasMatrix& c = problem.operands[kBlasC];
  const BlasMatrix& d = problem.operands[kBlasD];
  const BlasScalar alpha(problem.alpha, types.compute);
  const BlasScalar beta(problem.beta, types.compute);
  const int input = rocblas_data_type(types.input);
  const int output = rocblas_data_type(types.output);
  return library_.functions.multiply(
      handle_, a.transposed ? kRocblasTransposed : kRocblasNone, b.transposed ? kRocblasTransposed : kRocblasNone,
      number(problem.m), number(problem.n), number(problem.k), alpha.data(), a.data, input, number(a.leading),
      a.batch_stride, b.data, input, number(b.leading), b.batch_stride, beta.data(), c.data, output, number(c.leading),
      c.batch_stride, d.data, output, number(d.leading), d.batch_stride, number(problem.batch),
      rocblas_data_type(types.compute), kStandardAlgorithm, 0, 0);
}

uhal_status RocblasStream::run(const MatmulProblem& problem, kernels::LibraryAlgorithm, void* workspace) {
  BlasProblem blas;
  BlasTypes types;
  if (is_refused_ || !make_blas_problem(problem, &blas) || !find_blas_types(blas, &types)) return UHAL_UNIMPLEMENTED;
  const RocblasFunctions& rocblas = library_.functions;
  is_refused_ = handle_ == nullptr && !start();
  if (is_refused_) return UHAL_UNIMPLEMENTED;
  if (rocblas.set_workspace != nullptr &&
      rocblas.set_workspace(handle_, workspace, kBlasWorkspace) != kLibrarySuccess) {
    return UHAL_UNIMPLEMENTED;
  }
  const int code = multiply(blas, types);
  if (code == kLibrarySuccess) return UHAL_OK;
  if (code != kInternalError || can_begin_again(blas)) return UHAL_UNIMPLEMENTED;
  return kernels::fail(UHAL_INTERNAL,
                       "%s failed at a product of %lld x %lld x %lld with status %d; UNIHAL_GPU_LIBRARIES=none does "
                       "without it",
                       library_.name().c_str(), static_cast<long long>(problem.m), static_cast<long long>(problem.n),
                       static_cast<long long>(problem.k), code);
}

std::unique_ptr<BlasStream> Rocblas::open_stream(NativeStream stream) {
  return std::make_unique<RocblasStream>(*this, stream);
}

}  // namespace

std::unique_ptr<Blas> open_rocblas(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "rocblas", {5, 4, 0}), refusal)) return nullptr;
  RocblasFunctions functions;
  library.find("rocblas_create_handle", &functions.create)
      .find("rocblas_destroy_handle", &functions.destroy)
      .find("rocblas_get_version_string", &functions.get_version)
      .find("rocblas_set_stream", &functions.set_stream)
      .find("rocblas_gemm_strided_batched_ex", &functions.multiply)
      .find_if_present("rocblas_set_workspace", &functions.set_workspace);
  if (!library.complete(refusal)) return nullptr;
  if (!has_tensile_library(reinterpret_cast<const void*>(functions.create), "rocblas", "ROCBLAS_TENSILE_LIBPATH",
                           device.architecture, refusal)) {
    return nullptr;
  }
  char version[128] = "";
  if (functions.get_version(version, sizeof version) != kLibrarySuccess) version[0] = '\0';
  // "4.2.1.60201-120": the first two numbers are enough.
  std::string text = version;
  if (const size_t dot = text.find('.'); dot != std::string::npos) text = text.substr(0, text.find('.', dot + 1));
  return std::make_unique<Rocblas>(functions, text.empty() ? "rocBLAS" : "rocBLAS " + text);
}

}  // namespace unihal::gpu
