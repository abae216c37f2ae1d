// cuBLASLt and hipBLASLt: one interface under two names, with other numbers.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/blas_problem.h"
#include "csrc/backends/gpu/tensile.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

using kernels::kBestAlgorithm;
using kernels::kMostGemmAlgorithms;
using kernels::LibraryAlgorithm;

// -- the interface, in declarations of our own -----------------------------------------------------------------

using LtHandle = struct LtContext*;
using Description = struct LtDescription*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;

constexpr int kAbsent = -1;

// An algorithm is told by the first bytes of an answer to a question for them; no version's are more.
constexpr size_t kAlgorithmBytes = 64;
constexpr size_t kMostAnswerBytes = 128;

// What the two number differently.
struct Numbers {
  int none, transposed;  // operations
  int compute_float32, compute_tf32, compute_float64, compute_int32;
  int transpose_a, transpose_b, epilogue, bias, bias_type;  // of a description
  int batch_count, batch_offset;                            // of a layout
  int most_workspace, reductions, alignment;                // of a preference; alignment: of A, then B, C, D
  size_t workspace_at, state_at, answer_bytes;              // in an answer, behind the algorithm
  int refusals[6];                                          // codes of work that was not begun
  int64_t line_bytes;                                       // that matrix units want; 1: not known to want any
};

constexpr Numbers kCublasLt = {
    0, 1, 68, 77, 70, 72, 3, 4, 7, 8, kAbsent, 5, 6, 1, 3, 5, 64, 72, 96, {1, 3, 7, 8, 15, 15}, 16};
constexpr Numbers kHipblasLt = {
    111, 112, 2, 6, 7, 9, 0, 1, 2, 3, 4, 0, 1, 1, kAbsent, kAbsent, 24, 32, 56, {1, 2, 3, 7, 8, 10}, 1};

// The same for both.
constexpr uint32_t kPlain = 1;
constexpr uint32_t kBias = 4;
constexpr uint32_t kNoReduction = 0;
constexpr uint32_t kLtReduceInComputeType = 2;  // float16 is never summed up in float16

struct LtFunctions {
  int (*create)(LtHandle* handle);
  int (*destroy)(LtHandle handle);
  int (*description_create)(Description* description, int compute, int scale);
  int (*description_destroy)(Description description);
  int (*description_set)(Description description, int attribute, const void* value, size_t bytes);
  int (*layout_create)(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layout_destroy)(Layout layout);
  int (*layout_set)(Layout layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(Preference* preference);
  int (*preference_destroy)(Preference preference);
  int (*preference_set)(Preference preference, int attribute, const void* value, size_t bytes);
  int (*find_algorithms)(LtHandle handle, Description description, Layout a, Layout b, Layout c, Layout d,
                         Preference preference, int wanted, unsigned char* answers, int* found);
  int (*multiply)(LtHandle handle, Description description, const void* alpha, const void* a, Layout a_layout,
                  const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d,
                  Layout d_layout, const void* algorithm, void* workspace, size_t workspace_bytes, NativeStream stream);
};

void find_functions(Library& library, const std::string& prefix, LtFunctions* functions) {
  library.find(prefix + "Create", &functions->create)
      .find(prefix + "Destroy", &functions->destroy)
      .find(prefix + "MatmulDescCreate", &functions->description_create)
      .find(prefix + "MatmulDescDestroy", &functions->description_destroy)
      .find(prefix + "MatmulDescSetAttribute", &functions->description_set)
      .find(prefix + "MatrixLayoutCreate", &functions->layout_create)
      .find(prefix + "MatrixLayoutDestroy", &functions->layout_destroy)
      .find(prefix + "MatrixLayoutSetAttribute", &functions->layout_set)
      .find(prefix + "MatmulPreferenceCreate", &functions->preference_create)
      .find(prefix + "MatmulPreferenceDestroy", &functions->preference_destroy)
      .find(prefix + "MatmulPreferenceSetAttribute", &functions->preference_set)
      .find(prefix + "MatmulAlgoGetHeuristic", &functions->find_algorithms)
      .find(prefix + "Matmul", &functions->multiply);
}

// -- a device --------------------------------------------------------------------------------------------------

class BlasLt final : public Blas {
 public:
  BlasLt(const LtFunctions& functions, const Numbers& numbers, LtHandle handle, std::string name)
      : functions(functions), numbers(numbers), handle(handle), name_(std::move(name)) {}
  ~BlasLt() override { functions.destroy(handle); }

  const std::string& name() const override { return name_; }
  bool takes(const MatmulProblem& problem) const override;
  int64_t line_bytes(const MatmulProblem& problem) const override;
  int algorithms(const MatmulProblem& problem, LibraryAlgorithm* numbers) const override;
  std::unique_ptr<BlasStream> open_stream(NativeStream stream) override;

  const LtFunctions functions;
  const Numbers& numbers;
  const LtHandle handle;  // for all threads and streams

 private:
  const std::string name_;
};

bool BlasLt::takes(const MatmulProblem& problem) const {
  BlasProblem blas;
  BlasTypes types;
  if (!make_blas_problem(problem, &blas) || !find_blas_types(blas, &types)) return false;
  // Their relu makes 0 of NaN, which ours keeps, and their gelu has fewer digits than float16.
  if (blas.batch > INT32_MAX || blas.activation != UHAL_ACTIVATION_NONE) return false;
  // A row is read in pieces of 16 bytes.
  constexpr uint32_t kBiasAlignment = 16;
  return !blas.has_bias || (types.output != UHAL_FLOAT64 && alignment_of(blas.bias) >= kBiasAlignment);
}

// What matrix units compute: products of 16 bits, and those of float32 in TF32.
int64_t BlasLt::line_bytes(const MatmulProblem& problem) const {
  const uhal_dtype dtype = problem.operands[kMatmulA].dtype;
  const bool is_of_16_bits = dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16;
  const bool is_tf32 = dtype == UHAL_FLOAT32 && problem.math_mode == UHAL_MATH_ALLOW_TF32;
  return is_of_16_bits || is_tf32 ? numbers.line_bytes : 1;
}

// -- a plan ----------------------------------------------------------------------------------------------------

// An algorithm that a library offers.
struct Offer {
  LibraryAlgorithm number;
  alignas(8) unsigned char algorithm[kAlgorithmBytes];
};

// An algorithm's own bytes as a number.
LibraryAlgorithm number_of(const unsigned char* algorithm, size_t bytes) {
  const Hash128 hash = hash_bytes(algorithm, bytes);
  return static_cast<LibraryAlgorithm>(hash.low ^ hash.low >> 32) | 1;  // none is kBestAlgorithm
}

// How products of one key are run. Descriptors are freed with it.
class LtPlan {
 public:
  LtPlan(const LtFunctions& functions, const Numbers& numbers) : functions_(functions), numbers_(numbers) {}
  ~LtPlan();
  LtPlan(const LtPlan&) = delete;
  LtPlan& operator=(const LtPlan&) = delete;

  // Describes a product. False if the library refuses that, perhaps only in this math mode.
  bool make(const BlasProblem& problem, const BlasTypes& types);

  // Asks for algorithms, at most so many; returns how many there are, those first that the library holds to be better.
  int ask(LtHandle handle, const BlasProblem& problem, int most, Offer* offers) const;

  // Takes an algorithm if it is offered, else the best one. False if there is none.
  bool choose(LtHandle handle, const BlasProblem& problem, LibraryAlgorithm algorithm);

  // Returns the library's code.
  int run(LtHandle handle, const BlasProblem& problem, void* workspace, NativeStream stream);

  bool is_refused = false;

 private:
  bool describe(const BlasProblem& problem);
  bool make_layout(const BlasProblem& problem, int operand);
  bool prefer(Preference preference, const BlasProblem& problem) const;

  template <class Value>
  bool set(int attribute, const Value& value) {
    return functions_.description_set(description_, attribute, &value, sizeof value) == kLibrarySuccess;
  }

  const LtFunctions& functions_;
  const Numbers& numbers_;
  BlasTypes types_ = {};
  Description description_ = nullptr;
  Layout layouts_[kBlasOperands] = {};
  alignas(8) unsigned char algorithm_[kAlgorithmBytes];
};

LtPlan::~LtPlan() {
  for (Layout layout : layouts_) {
    if (layout != nullptr) functions_.layout_destroy(layout);
  }
  if (description_ != nullptr) functions_.description_destroy(description_);
}

bool LtPlan::describe(const BlasProblem& problem) {
  const int compute = types_.compute == UHAL_FLOAT64              ? numbers_.compute_float64
                      : types_.compute == UHAL_INT32              ? numbers_.compute_int32
                      : problem.math_mode == UHAL_MATH_ALLOW_TF32 ? numbers_.compute_tf32
                                                                  : numbers_.compute_float32;
  if (functions_.description_create(&description_, compute, cuda_data_type(types_.compute)) != kLibrarySuccess)
    return false;
  const int32_t a = problem.operands[kBlasA].transposed ? numbers_.transposed : numbers_.none;
  const int32_t b = problem.operands[kBlasB].transposed ? numbers_.transposed : numbers_.none;
  const uint32_t epilogue = problem.has_bias ? kBias : kPlain;
  if (!set(numbers_.transpose_a, a) || !set(numbers_.transpose_b, b) || !set(numbers_.epilogue, epilogue)) return false;
  if (!problem.has_bias) return true;
  const int32_t bias_type = cuda_data_type(types_.output);
  return set(numbers_.bias, problem.bias) && (numbers_.bias_type == kAbsent || set(numbers_.bias_type, bias_type));
}

bool LtPlan::make_layout(const BlasProblem& problem, int operand) {
  const BlasMatrix& matrix = problem.operands[operand];
  Layout& layout = layouts_[operand];
  if (functions_.layout_create(
          &layout, cuda_data_type(matrix.dtype), static_cast<uint64_t>(problem.stored_rows(operand)),
          static_cast<uint64_t>(problem.stored_columns(operand)), matrix.leading) != kLibrarySuccess) {
    return false;
  }
  if (problem.batch == 1) return true;
  const auto batch = static_cast<int32_t>(problem.batch);
  return functions_.layout_set(layout, numbers_.batch_count, &batch, sizeof batch) == kLibrarySuccess &&
         functions_.layout_set(layout, numbers_.batch_offset, &matrix.batch_stride, sizeof matrix.batch_stride) ==
             kLibrarySuccess;
}

bool LtPlan::prefer(Preference preference, const BlasProblem& problem) const {
  const auto set = [&](int attribute, const auto& value) {
    return functions_.preference_set(preference, attribute, &value, sizeof value) == kLibrarySuccess;
  };
  if (!set(numbers_.most_workspace, uint64_t{kBlasWorkspace})) return false;
  // What is summed up in parts is rounded before c is added to it: cuBLASLt 13 did so with a bias in bfloat16.
  const bool rounds_before_c = types_.output != types_.compute && (problem.has_bias || problem.beta != 0);
  const uint32_t reductions = rounds_before_c ? kNoReduction : kLtReduceInComputeType;
  if (numbers_.reductions != kAbsent && !set(numbers_.reductions, reductions)) return false;
  for (int i = 0; numbers_.alignment != kAbsent && i < kBlasOperands; ++i) {
    if (!set(numbers_.alignment + i, alignment_of(problem.operands[i].data))) return false;
  }
  return true;
}

int LtPlan::ask(LtHandle handle, const BlasProblem& problem, int most, Offer* offers) const {
  alignas(8) unsigned char answers[kMostGemmAlgorithms * kMostAnswerBytes] = {};
  Preference preference = nullptr;
  if (functions_.preference_create(&preference) != kLibrarySuccess) return 0;
  int found = 0;
  const bool answered =
      prefer(preference, problem) &&
      functions_.find_algorithms(handle, description_, layouts_[kBlasA], layouts_[kBlasB], layouts_[kBlasC],
                                 layouts_[kBlasD], preference, most, answers, &found) == kLibrarySuccess;
  functions_.preference_destroy(preference);
  int count = 0;
  for (int i = 0; answered && i < std::min(found, most); ++i) {
    const unsigned char* const answer = answers + static_cast<size_t>(i) * numbers_.answer_bytes;
    int32_t state = 0;
    size_t workspace = 0;
    std::memcpy(&state, answer + numbers_.state_at, sizeof state);
    std::memcpy(&workspace, answer + numbers_.workspace_at, sizeof workspace);
    if (state != kLibrarySuccess || workspace > kBlasWorkspace) continue;
    Offer& offer = offers[count++];
    const size_t bytes = std::min(numbers_.workspace_at, kAlgorithmBytes);
    offer.number = number_of(answer, bytes);
    std::memcpy(offer.algorithm, answer, bytes);
  }
  return count;
}

bool LtPlan::choose(LtHandle handle, const BlasProblem& problem, LibraryAlgorithm algorithm) {
  Offer offers[kMostGemmAlgorithms] = {};
  const int count = ask(handle, problem, algorithm == kBestAlgorithm ? 1 : kMostGemmAlgorithms, offers);
  if (count == 0) return false;
  const auto is_wanted = [&](const Offer& offer) { return offer.number == algorithm; };
  const Offer* const end = offers + count;
  const Offer* const wanted = std::find_if(static_cast<const Offer*>(offers), end, is_wanted);
  std::memcpy(algorithm_, (wanted != end ? wanted : offers)->algorithm, sizeof algorithm_);
  return true;
}

bool LtPlan::make(const BlasProblem& problem, const BlasTypes& types) {
  types_ = types;
  if (!describe(problem)) return false;
  for (int i = 0; i < kBlasOperands; ++i) {
    if (!make_layout(problem, i)) return false;
  }
  return true;
}

int LtPlan::run(LtHandle handle, const BlasProblem& problem, void* workspace, NativeStream stream) {
  if (problem.has_bias) {
    const int code = functions_.description_set(description_, numbers_.bias, &problem.bias, sizeof problem.bias);
    if (code != kLibrarySuccess) return code;
  }
  const BlasMatrix* operands = problem.operands;
  const BlasScalar alpha(problem.alpha, types_.compute);
  const BlasScalar beta(problem.beta, types_.compute);
  return functions_.multiply(handle, description_, alpha.data(), operands[kBlasA].data, layouts_[kBlasA],
                             operands[kBlasB].data, layouts_[kBlasB], beta.data(), operands[kBlasC].data,
                             layouts_[kBlasC], operands[kBlasD].data, layouts_[kBlasD], algorithm_, workspace,
                             kBlasWorkspace, stream);
}

// -- a stream --------------------------------------------------------------------------------------------------

class BlasLtStream final : public BlasStream {
 public:
  BlasLtStream(const BlasLt& library, NativeStream stream) : library_(library), stream_(stream) {}
  uhal_status run(const MatmulProblem& problem, LibraryAlgorithm algorithm, void* workspace) override;

 private:
  // Programs whose shapes change all the time start again at this number.
  static constexpr size_t kMostPlans = 4096;

  LtPlan& plan_of(const BlasProblem& problem, LibraryAlgorithm algorithm);
  std::unique_ptr<LtPlan> make_plan(const BlasProblem& problem, LibraryAlgorithm algorithm) const;

  const BlasLt& library_;
  const NativeStream stream_;
  std::unordered_map<BlasKey, std::unique_ptr<LtPlan>, BlasKeyHash> plans_;
};

LtPlan& BlasLtStream::plan_of(const BlasProblem& problem, LibraryAlgorithm algorithm) {
  BlasKey key = key_of(problem);
  key.back() = algorithm;
  const auto found = plans_.find(key);
  if (found != plans_.end()) return *found->second;
  if (plans_.size() == kMostPlans) plans_.clear();
  std::unique_ptr<LtPlan> plan = make_plan(problem, algorithm);
  if (plan->is_refused && algorithm == kBestAlgorithm && problem.math_mode != UHAL_MATH_STRICT) {
    BlasProblem strict = problem;
    strict.math_mode = UHAL_MATH_STRICT;
    plan = make_plan(strict, algorithm);
  }
  return *plans_.emplace(key, std::move(plan)).first->second;
}

std::unique_ptr<LtPlan> BlasLtStream::make_plan(const BlasProblem& problem, LibraryAlgorithm algorithm) const {
  auto plan = std::make_unique<LtPlan>(library_.functions, library_.numbers);
  BlasTypes types;
  plan->is_refused = !find_blas_types(problem, &types) || !plan->make(problem, types) ||
                     !plan->choose(library_.handle, problem, algorithm);
  return plan;
}

uhal_status BlasLtStream::run(const MatmulProblem& problem, LibraryAlgorithm algorithm, void* workspace) {
  BlasProblem blas;
  if (!make_blas_problem(problem, &blas)) return UHAL_UNIMPLEMENTED;
  LtPlan& plan = plan_of(blas, algorithm);
  const auto refuse = [&] {
    return algorithm == kBestAlgorithm ? UHAL_UNIMPLEMENTED : run(problem, kBestAlgorithm, workspace);
  };
  if (plan.is_refused) return refuse();
  const int code = plan.run(library_.handle, blas, workspace, stream_);
  if (code == kLibrarySuccess) return UHAL_OK;
  const auto& refusals = library_.numbers.refusals;
  const bool was_not_begun = std::find(std::begin(refusals), std::end(refusals), code) != std::end(refusals);
  if (!was_not_begun && !can_begin_again(blas)) {
    return kernels::fail(UHAL_INTERNAL,
                         "%s failed at a product of %lld x %lld x %lld with status %d; UNIHAL_GPU_LIBRARIES=none does "
                         "without it",
                         library_.name().c_str(), static_cast<long long>(problem.m), static_cast<long long>(problem.n),
                         static_cast<long long>(problem.k), code);
  }
  plan.is_refused = true;
  return refuse();
}

int BlasLt::algorithms(const MatmulProblem& problem, LibraryAlgorithm* numbers_offered) const {
  BlasProblem blas;
  BlasTypes types;
  LtPlan plan(functions, numbers);
  if (!make_blas_problem(problem, &blas) || !find_blas_types(blas, &types) || !plan.make(blas, types)) return 0;
  Offer offers[kMostGemmAlgorithms];
  const int count = plan.ask(handle, blas, kMostGemmAlgorithms, offers);
  for (int i = 0; i < count; ++i) numbers_offered[i] = offers[i].number;
  return count;
}

std::unique_ptr<BlasStream> BlasLt::open_stream(NativeStream stream) {
  return std::make_unique<BlasLtStream>(*this, stream);
}

// Makes the handle; `version_of` gives "12.4", or the reason why the version cannot be used.
template <class VersionOf>
std::unique_ptr<Blas> start(const char* title, const LtFunctions& functions, const Numbers& numbers,
                            const VersionOf& version_of, std::string* refusal) {
  LtHandle handle = nullptr;
  const int code = functions.create(&handle);
  if (code != kLibrarySuccess) {
    *refusal = std::string(title) + " does not start: status " + std::to_string(code);
    return nullptr;
  }
  std::string version;
  if (!version_of(handle, &version)) {
    *refusal = version;
    functions.destroy(handle);
    return nullptr;
  }
  return std::make_unique<BlasLt>(functions, numbers, handle, std::string(title) + " " + version);
}

}  // namespace

std::unique_ptr<Blas> open_cublaslt(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "cublasLt", {13, 12, 11, 10}), refusal)) return nullptr;
  LtFunctions functions;
  size_t (*get_version)() = nullptr;
  find_functions(library, "cublasLt", &functions);
  library.find("cublasLtGetVersion", &get_version);
  if (!library.complete(refusal)) return nullptr;
  return start(
      "cuBLASLt", functions, kCublasLt,
      [&](LtHandle, std::string* version) {
        // Before 11 descriptions were made from other arguments; from 12 on the number is written another way.
        const size_t number = get_version();
        const size_t major = number >= 100000 ? number / 10000 : number / 1000;
        *version = std::to_string(major) + "." + std::to_string(number / 100 % (number >= 100000 ? 100 : 10));
        if (major >= 11) return true;
        *version = "version " + *version + " is older than 11";
        return false;
      },
      refusal);
}

std::unique_ptr<Blas> open_hipblaslt(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "hipblaslt", {1, 0}), refusal)) return nullptr;
  LtFunctions functions;
  int (*get_version)(LtHandle handle, int* version) = nullptr;
  find_functions(library, "hipblasLt", &functions);
  library.find("hipblasLtGetVersion", &get_version);
  if (!library.complete(refusal)) return nullptr;
  if (!has_tensile_library(reinterpret_cast<const void*>(functions.create), "hipblaslt", "HIPBLASLT_TENSILE_LIBPATH",
                           device.architecture, refusal)) {
    return nullptr;
  }
  return start(
      "hipBLASLt", functions, kHipblasLt,
      [&](LtHandle handle, std::string* version) {
        // 0.6, of ROCm 6.0, is the first whose types have hipDataType's numbers.
        constexpr int kFirst = 600;
        int number = 0;
        if (get_version(handle, &number) != kLibrarySuccess) number = 0;
        *version = std::to_string(number / 100000) + "." + std::to_string(number / 100 % 1000);
        if (number >= kFirst) return true;
        *version = "version " + *version + " is older than 0.6, of ROCm 6.0";
        return false;
      },
      refusal);
}

}  // namespace unihal::gpu
