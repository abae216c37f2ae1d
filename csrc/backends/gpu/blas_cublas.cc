// cuBLAS, where there is no cuBLASLt of 11 or later: cublasGemmStridedBatchedEx.
#include <algorithm>

#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/blas_problem.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

using CublasHandle = struct CublasContext*;

constexpr int kCublasNone = 0;
constexpr int kCublasTransposed = 1;
constexpr int kDefaultAlgorithm = -1;
constexpr int kTensorAlgorithm = 99;       // what 10 needs to use matrix units; later the default does
constexpr int kReduceInComputeType = 16;   // CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, from 11 on
constexpr int kFailures[] = {11, 13, 14};  // mapping, execution, internal: work may have begun
constexpr int kNotSupported = 15;

// cublasComputeType_t, from 11 on.
constexpr int kComputeFloat32 = 68;
constexpr int kComputeFloat64 = 70;
constexpr int kComputeTf32 = 77;

struct CublasFunctions {
  int (*create)(CublasHandle* handle);
  int (*destroy)(CublasHandle handle);
  int (*get_version)(CublasHandle handle, int* version);
  int (*set_stream)(CublasHandle handle, NativeStream stream);
  int (*set_math_mode)(CublasHandle handle, int mode);
  int (*set_workspace)(CublasHandle handle, void* workspace, size_t bytes);  // from 11 on
  int (*multiply)(CublasHandle handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha,
                  const void* a, int a_type, int a_leading, long long a_stride, const void* b, int b_type,
                  int b_leading, long long b_stride, const void* beta, void* d, int d_type, int d_leading,
                  long long d_stride, int batch, int compute, int algorithm);
};

class Cublas final : public Blas {
 public:
  Cublas(const CublasFunctions& functions, int major, std::string name)
      : functions(functions), major(major), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  bool takes(const MatmulProblem& problem) const override {
    BlasProblem blas;
    BlasTypes types;
    if (!make_blas_problem(problem, &blas) || !find_blas_types(blas, &types)) return false;
    if (types.compute == UHAL_INT32 || (types.input == UHAL_BFLOAT16 && major < 11)) return false;
    if (blas.has_bias || blas.activation != UHAL_ACTIVATION_NONE) return false;
    const BlasMatrix& c = blas.operands[kBlasC];
    const BlasMatrix& d = blas.operands[kBlasD];
    const bool adds_to_d = c.data == d.data && c.leading == d.leading && c.batch_stride == d.batch_stride;
    if (blas.beta != 0 && !adds_to_d) return false;
    int64_t largest = std::max({blas.m, blas.n, blas.k, blas.batch});
    for (const BlasMatrix& matrix : blas.operands) largest = std::max(largest, matrix.leading);
    return largest <= INT32_MAX;
  }

  bool uses_given_workspace() const override { return functions.set_workspace != nullptr; }

  std::unique_ptr<BlasStream> open_stream(NativeStream stream) override;

  const CublasFunctions functions;
  const int major;

 private:
  const std::string name_;
};

class CublasStream final : public BlasStream {
 public:
  CublasStream(const Cublas& library, NativeStream stream) : library_(library), stream_(stream) {}
  ~CublasStream() override {
    if (handle_ != nullptr) library_.functions.destroy(handle_);
  }
  uhal_status run(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace) override;

 private:
  bool start();
  int multiply(const BlasProblem& problem, const BlasTypes& types) const;

  const Cublas& library_;
  const NativeStream stream_;
  CublasHandle handle_ = nullptr;
  bool is_refused_ = false;
  bool is_tf32_refused_ = false;
};

bool CublasStream::start() {
  const CublasFunctions& cublas = library_.functions;
  if (cublas.create(&handle_) != kLibrarySuccess) {
    handle_ = nullptr;
    return false;
  }
  return cublas.set_stream(handle_, stream_) == kLibrarySuccess &&
         (library_.major < 11 || cublas.set_math_mode(handle_, kReduceInComputeType) == kLibrarySuccess);
}

int CublasStream::multiply(const BlasProblem& problem, const BlasTypes& types) const {
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  const BlasMatrix& a = problem.operands[kBlasA];
  const BlasMatrix& b = problem.operands[kBlasB];
  const BlasMatrix& d = problem.operands[kBlasD];
  const BlasScalar alpha(problem.alpha, types.compute);
  const BlasScalar beta(problem.beta, types.compute);
  const bool is_old = library_.major < 11;
  const bool is_double = types.compute == UHAL_FLOAT64;
  const bool allows_tf32 = problem.math_mode == UHAL_MATH_ALLOW_TF32 && !is_tf32_refused_;
  const int compute = is_old        ? cuda_data_type(types.compute)
                      : is_double   ? kComputeFloat64
                      : allows_tf32 ? kComputeTf32
                                    : kComputeFloat32;
  const int algorithm = is_old && types.input == UHAL_FLOAT16 ? kTensorAlgorithm : kDefaultAlgorithm;
  return library_.functions.multiply(
      handle_, a.transposed ? kCublasTransposed : kCublasNone, b.transposed ? kCublasTransposed : kCublasNone,
      number(problem.m), number(problem.n), number(problem.k), alpha.data(), a.data, cuda_data_type(types.input),
      number(a.leading), a.batch_stride, b.data, cuda_data_type(types.input), number(b.leading), b.batch_stride,
      beta.data(), d.data, cuda_data_type(types.output), number(d.leading), d.batch_stride, number(problem.batch),
      compute, algorithm);
}

uhal_status CublasStream::run(const MatmulProblem& problem, kernels::LibraryAlgorithm, void* workspace) {
  BlasProblem blas;
  BlasTypes types;
  if (is_refused_ || !make_blas_problem(problem, &blas) || !find_blas_types(blas, &types)) return UHAL_UNIMPLEMENTED;
  const CublasFunctions& cublas = library_.functions;
  is_refused_ = handle_ == nullptr && !start();
  if (is_refused_) return UHAL_UNIMPLEMENTED;
  if (cublas.set_workspace != nullptr && cublas.set_workspace(handle_, workspace, kBlasWorkspace) != kLibrarySuccess) {
    return UHAL_UNIMPLEMENTED;
  }
  int code = multiply(blas, types);
  if (code == kNotSupported && blas.math_mode == UHAL_MATH_ALLOW_TF32 && !is_tf32_refused_) {
    is_tf32_refused_ = true;
    code = multiply(blas, types);
  }
  if (code == kLibrarySuccess) return UHAL_OK;
  const bool may_have_begun = std::find(std::begin(kFailures), std::end(kFailures), code) != std::end(kFailures);
  if (!may_have_begun || can_begin_again(blas)) return UHAL_UNIMPLEMENTED;
  return kernels::fail(UHAL_INTERNAL,
                       "%s failed at a product of %lld x %lld x %lld with status %d; UNIHAL_GPU_LIBRARIES=none does "
                       "without it",
                       library_.name().c_str(), static_cast<long long>(problem.m), static_cast<long long>(problem.n),
                       static_cast<long long>(problem.k), code);
}

std::unique_ptr<BlasStream> Cublas::open_stream(NativeStream stream) {
  return std::make_unique<CublasStream>(*this, stream);
}

}  // namespace

std::unique_ptr<Blas> open_cublas(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "cublas", {13, 12, 11, 10}), refusal)) return nullptr;
  CublasFunctions functions;
  library.find("cublasCreate_v2", &functions.create)
      .find("cublasDestroy_v2", &functions.destroy)
      .find("cublasGetVersion_v2", &functions.get_version)
      .find("cublasSetStream_v2", &functions.set_stream)
      .find("cublasSetMathMode", &functions.set_math_mode)
      .find("cublasGemmStridedBatchedEx", &functions.multiply)
      .find_if_present("cublasSetWorkspace_v2", &functions.set_workspace);
  if (!library.complete(refusal)) return nullptr;
  CublasHandle handle = nullptr;
  int version = 0;
  int code = functions.create(&handle);
  if (code == kLibrarySuccess) code = functions.get_version(handle, &version);
  if (handle != nullptr) functions.destroy(handle);
  if (code != kLibrarySuccess) {
    *refusal = "cuBLAS does not start: status " + std::to_string(code);
    return nullptr;
  }
  const int major = version >= 100000 ? version / 10000 : version / 1000;
  const int minor = version / 100 % (version >= 100000 ? 100 : 10);
  return std::make_unique<Cublas>(functions, major, "cuBLAS " + std::to_string(major) + "." + std::to_string(minor));
}

}  // namespace unihal::gpu
