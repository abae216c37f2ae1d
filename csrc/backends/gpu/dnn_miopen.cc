// MIOpen in its immediate mode: solutions that it knows of by its database or, where that lacks the card, by its own
// estimates. None is searched for on the device (its find mode), which `unihal tune` does better: it measures them.
// All math modes are the strict one.
#include <algorithm>
#include <vector>

#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/tensile.h"

namespace unihal::gpu {
namespace {

// -- the interface, in declarations of our own -----------------------------------------------------------------

using MiopenHandle = struct MiopenContext*;
using MiopenTensorDescriptor = struct MiopenTensor*;
using MiopenConvolutionDescriptor = struct MiopenConvolution*;

constexpr int kMiopenCrossCorrelation = 0;
constexpr int kDeterministicAttribute = 1;

struct Solution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

// The functions of a pass take their operands in an order of its own: a, b, the convolution, c.
struct PassFunctions {
  int a, b, c;  // of kDnnX, kDnnW and kDnnY
  int (*count)(MiopenHandle handle, MiopenTensorDescriptor a, MiopenTensorDescriptor b,
               MiopenConvolutionDescriptor convolution, MiopenTensorDescriptor c, size_t* count);
  int (*solutions)(MiopenHandle handle, MiopenTensorDescriptor a, MiopenTensorDescriptor b,
                   MiopenConvolutionDescriptor convolution, MiopenTensorDescriptor c, size_t most, size_t* count,
                   Solution* solutions);
  int (*workspace)(MiopenHandle handle, MiopenTensorDescriptor a, MiopenTensorDescriptor b,
                   MiopenConvolutionDescriptor convolution, MiopenTensorDescriptor c, uint64_t solution, size_t* bytes);
  int (*compile)(MiopenHandle handle, MiopenTensorDescriptor a, MiopenTensorDescriptor b,
                 MiopenConvolutionDescriptor convolution, MiopenTensorDescriptor c, uint64_t solution);
  int (*run)(MiopenHandle handle, MiopenTensorDescriptor a_descriptor, const void* a,
             MiopenTensorDescriptor b_descriptor, const void* b, MiopenConvolutionDescriptor convolution,
             MiopenTensorDescriptor c_descriptor, void* c, void* workspace, size_t bytes, uint64_t solution);
};

struct PassRow {
  const char* name;
  int a, b, c;
};

// By kernels::Pass.
constexpr PassRow kPasses[] = {
    {"Forward", kDnnW, kDnnX, kDnnY},
    {"BackwardData", kDnnY, kDnnW, kDnnX},
    {"BackwardWeights", kDnnY, kDnnX, kDnnW},
};

struct MiopenFunctions {
  int (*create)(MiopenHandle* handle, NativeStream stream);
  int (*destroy)(MiopenHandle handle);
  int (*get_version)(size_t* major, size_t* minor, size_t* patch);
  int (*tensor_create)(MiopenTensorDescriptor* descriptor);
  int (*tensor_destroy)(MiopenTensorDescriptor descriptor);
  int (*tensor_set)(MiopenTensorDescriptor descriptor, int type, int axes, const int* lengths, const int* strides);
  int (*convolution_create)(MiopenConvolutionDescriptor* descriptor);
  int (*convolution_destroy)(MiopenConvolutionDescriptor descriptor);
  int (*convolution_set)(MiopenConvolutionDescriptor descriptor, int axes, const int* padding, const int* stride,
                         const int* dilation, int mode);
  int (*set_groups)(MiopenConvolutionDescriptor descriptor, int groups);
  int (*set_attribute)(MiopenConvolutionDescriptor descriptor, int attribute, int value);  // from ROCm 5.4 on
  PassFunctions passes[3];
};

void find_functions(Library& library, MiopenFunctions* functions) {
  library.find("miopenCreateWithStream", &functions->create)
      .find("miopenDestroy", &functions->destroy)
      .find("miopenGetVersion", &functions->get_version)
      .find("miopenCreateTensorDescriptor", &functions->tensor_create)
      .find("miopenDestroyTensorDescriptor", &functions->tensor_destroy)
      .find("miopenSetTensorDescriptor", &functions->tensor_set)
      .find("miopenCreateConvolutionDescriptor", &functions->convolution_create)
      .find("miopenDestroyConvolutionDescriptor", &functions->convolution_destroy)
      .find("miopenInitConvolutionNdDescriptor", &functions->convolution_set)
      .find("miopenSetConvolutionGroupCount", &functions->set_groups)
      .find_if_present("miopenSetConvolutionAttribute", &functions->set_attribute);
  for (size_t i = 0; i < std::size(kPasses); ++i) {
    const PassRow& row = kPasses[i];
    PassFunctions& pass = functions->passes[i];
    const std::string prefix = std::string("miopenConvolution") + row.name;
    pass.a = row.a;
    pass.b = row.b;
    pass.c = row.c;
    library.find(prefix + "GetSolutionCount", &pass.count)
        .find(prefix + "GetSolution", &pass.solutions)
        .find(prefix + "GetSolutionWorkspaceSize", &pass.workspace)
        .find(prefix + "CompileSolution", &pass.compile)
        .find(prefix + "Immediate", &pass.run);
  }
}

// miopenDataType_t.
int miopen_data_type(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT16:
      return 0;
    case UHAL_BFLOAT16:
      return 5;
    case UHAL_FLOAT64:
      return 6;
    default:
      return 1;
  }
}

// -- a plan ----------------------------------------------------------------------------------------------------

class MiopenPlan final : public DnnPlan {
 public:
  MiopenPlan(const MiopenFunctions& functions, MiopenHandle handle) : miopen_(functions), handle_(handle) {}
  ~MiopenPlan() override;

  // Whether MIOpen takes the description.
  bool describe(const DnnProblem& problem);

  // The numbers of the solutions that it knows, within the limit.
  std::vector<LibraryAlgorithm> ask(const DnnProblem& problem) const;

  // Whether a solution is within the limit, and compiles.
  bool take(const DnnProblem& problem, LibraryAlgorithm wanted);

  bool run(const DnnProblem& problem, void* workspace) override;

 private:
  const PassFunctions& pass_of(const DnnProblem& problem) const {
    return miopen_.passes[static_cast<size_t>(problem.pass)];
  }

  const MiopenFunctions& miopen_;
  const MiopenHandle handle_;
  MiopenTensorDescriptor operands_[kDnnOperands] = {};
  MiopenConvolutionDescriptor convolution_ = nullptr;
};

MiopenPlan::~MiopenPlan() {
  if (convolution_ != nullptr) miopen_.convolution_destroy(convolution_);
  for (MiopenTensorDescriptor descriptor : operands_) {
    if (descriptor != nullptr) miopen_.tensor_destroy(descriptor);
  }
}

bool MiopenPlan::describe(const DnnProblem& problem) {
  for (int i = 0; i < kDnnOperands; ++i) {
    const DnnTensor& tensor = problem.operands[i];
    if (miopen_.tensor_create(&operands_[i]) != kLibrarySuccess ||
        miopen_.tensor_set(operands_[i], miopen_data_type(problem.dtype), problem.axes(), tensor.lengths,
                           tensor.strides) != kLibrarySuccess) {
      return false;
    }
  }
  if (miopen_.convolution_create(&convolution_) != kLibrarySuccess ||
      miopen_.convolution_set(convolution_, problem.spatial, problem.padding, problem.stride, problem.dilation,
                              kMiopenCrossCorrelation) != kLibrarySuccess ||
      miopen_.set_groups(convolution_, problem.groups) != kLibrarySuccess) {
    return false;
  }
  return miopen_.set_attribute == nullptr ||
         miopen_.set_attribute(convolution_, kDeterministicAttribute, 1) == kLibrarySuccess;
}

std::vector<LibraryAlgorithm> MiopenPlan::ask(const DnnProblem& problem) const {
  const PassFunctions& pass = pass_of(problem);
  const MiopenTensorDescriptor a = operands_[pass.a];
  const MiopenTensorDescriptor b = operands_[pass.b];
  const MiopenTensorDescriptor c = operands_[pass.c];
  std::vector<LibraryAlgorithm> numbers;
  size_t count = 0;
  if (pass.count(handle_, a, b, convolution_, c, &count) != kLibrarySuccess || count == 0) return numbers;
  std::vector<Solution> solutions(count);
  if (pass.solutions(handle_, a, b, convolution_, c, count, &count, solutions.data()) != kLibrarySuccess)
    return numbers;
  solutions.resize(std::min(count, solutions.size()));
  const auto limit = static_cast<size_t>(convolution_workspace_limit(problem.operand_bytes()));
  for (const Solution& solution : solutions) {  // the fastest first
    const bool is_small = solution.workspace <= limit;
    const bool is_number = solution.id != kBestAlgorithm && solution.id <= UINT32_MAX;  // as MIOpen's own all are
    if (is_small && is_number) numbers.push_back(static_cast<LibraryAlgorithm>(solution.id));
  }
  return numbers;
}

bool MiopenPlan::take(const DnnProblem& problem, LibraryAlgorithm wanted) {
  const PassFunctions& pass = pass_of(problem);
  const MiopenTensorDescriptor a = operands_[pass.a];
  const MiopenTensorDescriptor b = operands_[pass.b];
  const MiopenTensorDescriptor c = operands_[pass.c];
  algorithm = wanted;
  return pass.workspace(handle_, a, b, convolution_, c, wanted, &workspace_bytes) == kLibrarySuccess &&
         workspace_bytes <= static_cast<size_t>(convolution_workspace_limit(problem.operand_bytes())) &&
         pass.compile(handle_, a, b, convolution_, c, wanted) == kLibrarySuccess;
}

bool MiopenPlan::run(const DnnProblem& problem, void* workspace) {
  const PassFunctions& pass = pass_of(problem);
  return pass.run(handle_, operands_[pass.a], problem.operands[pass.a].data, operands_[pass.b],
                  problem.operands[pass.b].data, convolution_, operands_[pass.c], problem.operands[pass.c].data,
                  workspace, workspace_bytes, algorithm) == kLibrarySuccess;
}

// -- a stream and a device -------------------------------------------------------------------------------------

class MiopenStream final : public DnnStream {
 public:
  MiopenStream(const MiopenFunctions& functions, NativeStream stream, std::string kept_for)
      : DnnStream(std::move(kept_for)), miopen_(functions), stream_(stream) {}
  ~MiopenStream() override {
    drop_plans();
    if (handle_ != nullptr) miopen_.destroy(handle_);
  }

  std::vector<LibraryAlgorithm> algorithms(const DnnProblem& problem) override {
    const std::unique_ptr<MiopenPlan> plan = describe(problem);
    return plan != nullptr ? plan->ask(problem) : std::vector<LibraryAlgorithm>();
  }

 private:
  std::unique_ptr<MiopenPlan> describe(const DnnProblem& problem) {
    if (handle_ == nullptr && miopen_.create(&handle_, stream_) != kLibrarySuccess) handle_ = nullptr;
    if (handle_ == nullptr) return nullptr;
    auto plan = std::make_unique<MiopenPlan>(miopen_, handle_);
    return plan->describe(problem) ? std::move(plan) : nullptr;
  }

  std::unique_ptr<DnnPlan> make_plan(const DnnProblem& problem, LibraryAlgorithm wanted) override {
    std::unique_ptr<MiopenPlan> plan = describe(problem);
    if (plan == nullptr) return nullptr;
    std::vector<LibraryAlgorithm> candidates = {wanted};
    if (wanted == kBestAlgorithm) candidates = plan->ask(problem);
    for (const LibraryAlgorithm candidate : candidates) {
      if (plan->take(problem, candidate)) return plan;
    }
    return nullptr;
  }

  const MiopenFunctions& miopen_;
  const NativeStream stream_;
  MiopenHandle handle_ = nullptr;
};

class Miopen final : public Dnn {
 public:
  Miopen(const MiopenFunctions& functions, std::string name, const LibraryDevice& device)
      : Dnn(std::move(name), device), functions_(functions) {}

  std::unique_ptr<DnnStream> open_stream(NativeStream stream) const override {
    return std::make_unique<MiopenStream>(functions_, stream, std::string(name()) + "\n" + device().architecture);
  }

 private:
  const MiopenFunctions functions_;
};

// MIOpen multiplies by rocBLAS, which ends the process on a card that it lacks.
bool can_multiply(const LibraryDevice& device, std::string* refusal) {
  Library rocblas;
  std::string ignored;
  if (!rocblas.open(library_files(device.vendor, "rocblas", {5, 4, 0}), &ignored)) return true;
  int (*create)(void** handle) = nullptr;
  rocblas.find("rocblas_create_handle", &create);
  if (rocblas.complete(&ignored) && has_tensile_library(reinterpret_cast<const void*>(create), "rocblas",
                                                        "ROCBLAS_TENSILE_LIBPATH", device.architecture, refusal)) {
    return true;
  }
  *refusal = "it needs rocBLAS, of which is to be said: " + *refusal;
  return false;
}

}  // namespace

std::unique_ptr<Dnn> open_miopen(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "MIOpen", {1}), refusal)) return nullptr;
  MiopenFunctions functions;
  find_functions(library, &functions);
  if (!library.complete(refusal) || !can_multiply(device, refusal)) return nullptr;
  size_t major = 0;
  size_t minor = 0;
  size_t patch = 0;
  if (functions.get_version(&major, &minor, &patch) != kLibrarySuccess) major = minor = 0;
  return std::make_unique<Miopen>(functions, "MIOpen " + std::to_string(major) + "." + std::to_string(minor), device);
}

}  // namespace unihal::gpu
