// hipBLASLt by cuBLASLt: one interface, with other numbers and another size of what tells an algorithm.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/doubles/hip_on_cuda/library.h"

namespace on_cuda {
namespace {

const Library& cublaslt() {
  static const Library* const library =
      new Library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"});
  return *library;
}

// hipblasStatus_t, of cublasStatus_t.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 3;
constexpr int kNotSupported = 7;
constexpr Row kStatuses[] = {{0, 0}, {1, 1}, {2, 3}, {3, 7}, {4, 11}, {5, 13}, {6, 14}, {7, 15}, {8, 8}};

int status_of(int code) {
  constexpr int kInternalError = 6;
  for (const Row& row : kStatuses) {
    if (row.cuda == code) return row.hip;
  }
  return kInternalError;
}

constexpr Row kComputeTypes[] = {{2, 68}, {7, 70}, {9, 72}, {6, 77}};  // float32, float64, int32, TF32
constexpr Row kOperations[] = {{111, 0}, {112, 1}};                    // as it is, transposed
// HIPBLASLT_MATMUL_DESC_ and CUBLASLT_MATMUL_DESC_: TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_DATA_TYPE
constexpr int kTransposeA = 0;
constexpr int kTransposeB = 1;
constexpr Row kDescriptionAttributes[] = {{0, 3}, {1, 4}, {2, 7}, {3, 8}, {4, 26}};
constexpr Row kLayoutAttributes[] = {{0, 5}, {1, 6}};  // BATCH_COUNT, STRIDED_BATCH_OFFSET
constexpr Row kPreferenceAttributes[] = {{1, 1}};      // MAX_WORKSPACE_BYTES

// What tells an algorithm: here its own bytes, there a number of it.
struct CudaAlgorithm {
  uint64_t data[8];
};
struct CudaAnswer {
  CudaAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
struct HipAlgorithm {
  uint64_t number;
  uint64_t unused;
  size_t most_workspace;
};
struct HipAnswer {
  HipAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(CudaAnswer) == 96 && offsetof(CudaAnswer, state) == 72);
static_assert(sizeof(HipAlgorithm) == 24 && offsetof(HipAnswer, state) == 32);

struct Algorithms {
  std::mutex mutex;
  std::map<uint64_t, CudaAlgorithm> by_number;  // whose places stay
};
Algorithms& algorithms() {
  static Algorithms* const instance = new Algorithms;
  return *instance;
}

// The same in each process, as hipBLASLt's are.
uint64_t number_of(const CudaAlgorithm& algorithm) {
  uint64_t hash = 0;
  for (const uint64_t word : algorithm.data) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace
}  // namespace on_cuda

using namespace on_cuda;

ON_CUDA_EXPORT int hipblasLtCreate(void** handle) {
  constexpr int kNotInitialized = 1;
  if (cublaslt().find("cublasLtCreate") == nullptr) return kNotInitialized;
  return status_of(call<int(void**)>(cublaslt(), "cublasLtCreate")(handle));
}

ON_CUDA_EXPORT int hipblasLtDestroy(void* handle) {
  return status_of(call<int(void*)>(cublaslt(), "cublasLtDestroy")(handle));
}

// As 1.0.0 writes it.
ON_CUDA_EXPORT int hipblasLtGetVersion(void*, int* version) {
  *version = 100000;
  return kSuccess;
}

ON_CUDA_EXPORT int hipblasLtMatmulDescCreate(void** description, int compute, int scale) {
  const int translated = cuda_of(kComputeTypes, compute);
  if (translated < 0) return kNotSupported;
  return status_of(call<int(void**, int, int)>(cublaslt(), "cublasLtMatmulDescCreate")(description, translated, scale));
}

ON_CUDA_EXPORT int hipblasLtMatmulDescDestroy(void* description) {
  return status_of(call<int(void*)>(cublaslt(), "cublasLtMatmulDescDestroy")(description));
}

ON_CUDA_EXPORT int hipblasLtMatmulDescSetAttribute(void* description, int attribute, const void* value, size_t bytes) {
  const int translated = cuda_of(kDescriptionAttributes, attribute);
  int32_t operation = 0;
  if (translated < 0) return kNotSupported;
  if (attribute == kTransposeA || attribute == kTransposeB) {
    if (bytes != sizeof operation) return kInvalidValue;
    std::memcpy(&operation, value, sizeof operation);
    operation = cuda_of(kOperations, operation);
    if (operation < 0) return kInvalidValue;
    value = &operation;
  }
  return status_of(call<int(void*, int, const void*, size_t)>(cublaslt(), "cublasLtMatmulDescSetAttribute")(
      description, translated, value, bytes));
}

ON_CUDA_EXPORT int hipblasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                                               int64_t leading) {
  return status_of(call<int(void**, int, uint64_t, uint64_t, int64_t)>(cublaslt(), "cublasLtMatrixLayoutCreate")(
      layout, type, rows, columns, leading));
}

ON_CUDA_EXPORT int hipblasLtMatrixLayoutDestroy(void* layout) {
  return status_of(call<int(void*)>(cublaslt(), "cublasLtMatrixLayoutDestroy")(layout));
}

ON_CUDA_EXPORT int hipblasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  const int translated = cuda_of(kLayoutAttributes, attribute);
  if (translated < 0) return kNotSupported;
  return status_of(call<int(void*, int, const void*, size_t)>(cublaslt(), "cublasLtMatrixLayoutSetAttribute")(
      layout, translated, value, bytes));
}

ON_CUDA_EXPORT int hipblasLtMatmulPreferenceCreate(void** preference) {
  // Nothing is summed up in parts: cuBLASLt rounds some sums to 16 bits before it adds a bias, which hipBLASLt has no
  // word to ask for or against.
  constexpr int kReductions = 3;
  constexpr uint32_t kNoReduction = 0;
  int code = call<int(void**)>(cublaslt(), "cublasLtMatmulPreferenceCreate")(preference);
  if (code == 0) {
    code = call<int(void*, int, const void*, size_t)>(cublaslt(), "cublasLtMatmulPreferenceSetAttribute")(
        *preference, kReductions, &kNoReduction, sizeof kNoReduction);
  }
  return status_of(code);
}

ON_CUDA_EXPORT int hipblasLtMatmulPreferenceDestroy(void* preference) {
  return status_of(call<int(void*)>(cublaslt(), "cublasLtMatmulPreferenceDestroy")(preference));
}

ON_CUDA_EXPORT int hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                                         size_t bytes) {
  const int translated = cuda_of(kPreferenceAttributes, attribute);
  if (translated < 0) return kNotSupported;
  return status_of(call<int(void*, int, const void*, size_t)>(cublaslt(), "cublasLtMatmulPreferenceSetAttribute")(
      preference, translated, value, bytes));
}

ON_CUDA_EXPORT int hipblasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c, void* d,
                                                   void* preference, int wanted, void* answers, int* found) {
  if (wanted <= 0) return kInvalidValue;
  std::vector<CudaAnswer> given(static_cast<size_t>(wanted));
  const int code = call<int(void*, void*, void*, void*, void*, void*, void*, int, void*, int*)>(
      cublaslt(), "cublasLtMatmulAlgoGetHeuristic")(handle, description, a, b, c, d, preference, wanted, given.data(),
                                                    found);
  if (code != 0) return status_of(code);
  std::lock_guard<std::mutex> lock(algorithms().mutex);
  for (size_t i = 0; i < static_cast<size_t>(*found); ++i) {
    HipAnswer answer = {};
    answer.algorithm.number = number_of(given[i].algorithm);
    answer.algorithm.most_workspace = given[i].workspace;
    answer.workspace = given[i].workspace;
    answer.state = status_of(given[i].state);
    answer.waves = given[i].waves;
    algorithms().by_number[answer.algorithm.number] = given[i].algorithm;
    std::memcpy(static_cast<char*>(answers) + i * sizeof answer, &answer, sizeof answer);
  }
  return kSuccess;
}

ON_CUDA_EXPORT int hipblasLtMatmul(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                                   void* d, void* d_layout, const void* algorithm, void* workspace,
                                   size_t workspace_bytes, void* stream) {
  HipAlgorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const CudaAlgorithm* known = nullptr;
  {
    std::lock_guard<std::mutex> lock(algorithms().mutex);
    const auto found = algorithms().by_number.find(chosen.number);
    if (found == algorithms().by_number.end()) return kInvalidValue;
    known = &found->second;
  }
  using Multiply = int(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*,
                       void*, void*, void*, const void*, void*, size_t, void*);
  return status_of(call<Multiply>(cublaslt(), "cublasLtMatmul")(handle, description, alpha, a, a_layout, b, b_layout,
                                                                beta, c, c_layout, d, d_layout, known, workspace,
                                                                workspace_bytes, stream));
}
