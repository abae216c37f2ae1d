#include "csrc/backends/opencl/clblast.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "csrc/backends/opencl/address_space.h"
#include "csrc/kernels/ops.h"

namespace unihal::opencl {
namespace {

// The part of CLBlast's C interface that is used here: our own declarations, under its names.
constexpr int kRowMajor = 101;
constexpr int kAsItIs = 111;
constexpr int kTransposed = 112;
constexpr int kSuccess = 0;

template <class Real>
using Gemm = int (*)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, Real alpha, cl_mem a,
                     size_t a_offset, size_t a_pitch, cl_mem b, size_t b_offset, size_t b_pitch, Real beta, cl_mem c,
                     size_t c_offset, size_t c_pitch, cl_command_queue* queue, cl_event* event);
template <class Real>
using BatchedGemm = int (*)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, Real alpha,
                            cl_mem a, size_t a_offset, size_t a_pitch, size_t a_stride, cl_mem b, size_t b_offset,
                            size_t b_pitch, size_t b_stride, Real beta, cl_mem c, size_t c_offset, size_t c_pitch,
                            size_t c_stride, size_t batch_count, cl_command_queue* queue, cl_event* event);

struct Library {
  Gemm<float> CLBlastSgemm = nullptr;
  Gemm<double> CLBlastDgemm = nullptr;
  BatchedGemm<float> CLBlastSgemmStridedBatched = nullptr;
  BatchedGemm<double> CLBlastDgemmStridedBatched = nullptr;
  bool complete = false;
};

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Library open() {
  Library library;
  // Never closed: it keeps compiled programs, and its destructors would run against a driver that is gone.
  void* handle = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return library;
  library.complete = find(handle, "CLBlastSgemm", &library.CLBlastSgemm) &&
                     find(handle, "CLBlastDgemm", &library.CLBlastDgemm) &&
                     find(handle, "CLBlastSgemmStridedBatched", &library.CLBlastSgemmStridedBatched) &&
                     find(handle, "CLBlastDgemmStridedBatched", &library.CLBlastDgemmStridedBatched);
  return library;
}

const Library& library() {
  static const Library instance = open();
  return instance;
}

// An operand as BLAS takes it: elements from one row (of the matrix as it lies in memory) to the next.
struct Matrix {
  Place place;
  size_t offset = 0;  // in elements
  size_t pitch = 0;
  size_t batch_stride = 0;
  int transpose = kAsItIs;
};

bool find_matrix(const MatmulProblem& problem, const MatmulOperand& operand, size_t element_bytes, Matrix* matrix) {
  if (!AddressSpace::instance().resolve(operand.data, &matrix->place)) return false;
  matrix->offset = matrix->place.offset / element_bytes;
  const bool by_rows = operand.column_stride == 1;
  matrix->transpose = by_rows ? kAsItIs : kTransposed;
  matrix->pitch = static_cast<size_t>(by_rows ? operand.row_stride : operand.column_stride);
  if (problem.batch_rank == 1) matrix->batch_stride = static_cast<size_t>(operand.batch_strides[0]);
  return true;
}

template <class Real>
uhal_status run(Gemm<Real> gemm, BatchedGemm<Real> batched, cl_command_queue queue, const MatmulProblem& problem,
                const std::string& device) {
  Matrix a, b, d;
  if (!find_matrix(problem, problem.operands[kMatmulA], sizeof(Real), &a) ||
      !find_matrix(problem, problem.operands[kMatmulB], sizeof(Real), &b) ||
      !find_matrix(problem, problem.operands[kMatmulD], sizeof(Real), &d)) {
    return kernels::fail(UHAL_INVALID_ARGUMENT, "matmul: an operand lies in no live allocation of %s", device.c_str());
  }
  const auto m = static_cast<size_t>(problem.m);
  const auto n = static_cast<size_t>(problem.n);
  const auto k = static_cast<size_t>(problem.k);
  const Real alpha = static_cast<Real>(problem.alpha);
  const Real beta = static_cast<Real>(problem.beta);
  const int code =
      problem.batch_rank == 0
          ? gemm(kRowMajor, a.transpose, b.transpose, m, n, k, alpha, a.place.buffer, a.offset, a.pitch, b.place.buffer,
                 b.offset, b.pitch, beta, d.place.buffer, d.offset, d.pitch, &queue, nullptr)
          : batched(kRowMajor, a.transpose, b.transpose, m, n, k, alpha, a.place.buffer, a.offset, a.pitch,
                    a.batch_stride, b.place.buffer, b.offset, b.pitch, b.batch_stride, beta, d.place.buffer, d.offset,
                    d.pitch, d.batch_stride, static_cast<size_t>(problem.batch[0]), &queue, nullptr);
  if (code == kSuccess) return UHAL_OK;
  return kernels::fail(UHAL_INTERNAL,
                       "CLBlast refuses a product of %lld x %lld x %lld on %s with status %d; "
                       "UNIHAL_CLBLAST=off does without it",
                       static_cast<long long>(problem.m), static_cast<long long>(problem.n),
                       static_cast<long long>(problem.k), device.c_str(), code);
}

class Clblast final : public kernels::GemmLibrary {
 public:
  explicit Clblast(bool preferred) : preferred_(preferred) {}
  const char* name() const override { return "CLBlast"; }
  bool is_preferred() const override { return preferred_; }
  size_t workspace_bytes() const override { return 0; }

  // One dtype that it computes in, matrices of which one stride is 1, at most one axis of batch, and the sum scaled and
  // added to d itself.
  bool takes(const MatmulProblem& problem) const override {
    const MatmulOperand& c = problem.operands[kMatmulC];
    const MatmulOperand& d = problem.operands[kMatmulD];
    if (problem.activation != UHAL_ACTIVATION_NONE || problem.batch_rank > 1) return false;
    if (d.dtype != UHAL_FLOAT32 && d.dtype != UHAL_FLOAT64) return false;
    for (const int i : {kMatmulA, kMatmulB, kMatmulD}) {
      const MatmulOperand& operand = problem.operands[i];
      if (operand.dtype != d.dtype) return false;
      const int64_t rows = i == kMatmulB ? problem.k : problem.m;
      const int64_t columns = i == kMatmulA ? problem.k : problem.n;
      const bool by_rows = operand.column_stride == 1 && operand.row_stride >= columns;
      const bool by_columns = operand.row_stride == 1 && operand.column_stride >= rows;
      if (!by_rows && (i == kMatmulD || !by_columns)) return false;
      if (problem.batch_rank == 1 && operand.batch_strides[0] <= 0) return false;
    }
    if (problem.beta == 0) return true;
    return c.data == d.data && c.dtype == d.dtype && c.row_stride == d.row_stride &&
           c.column_stride == d.column_stride && (problem.batch_rank == 0 || c.batch_strides[0] == d.batch_strides[0]);
  }

 private:
  const bool preferred_;
};

}  // namespace

const kernels::GemmLibrary& clblast(bool preferred) {
  static const Clblast where_tuned(false);
  static const Clblast wherever_it_can(true);
  return preferred ? wherever_it_can : where_tuned;
}

uhal_status clblast_wish(ClblastWish* wish) {
  const char* text = std::getenv("UNIHAL_CLBLAST");
  *wish = ClblastWish::kWhereTuned;
  if (text == nullptr || *text == '\0') return UHAL_OK;
  if (std::strcmp(text, "on") == 0) {
    *wish = ClblastWish::kOn;
  } else if (std::strcmp(text, "off") == 0) {
    *wish = ClblastWish::kOff;
  } else {
    return kernels::fail(UHAL_INVALID_ARGUMENT, "UNIHAL_CLBLAST is '%s'; expected on or off", text);
  }
  return UHAL_OK;
}

bool has_clblast() { return library().complete; }

uhal_status clblast_gemm(cl_command_queue queue, const MatmulProblem& problem, const std::string& device) {
  const Library& blas = library();
  return problem.operands[kMatmulA].dtype == UHAL_FLOAT64
             ? run<double>(blas.CLBlastDgemm, blas.CLBlastDgemmStridedBatched, queue, problem, device)
             : run<float>(blas.CLBlastSgemm, blas.CLBlastSgemmStridedBatched, queue, problem, device);
}

}  // namespace unihal::opencl
