#include "csrc/backends/gpu/dnn_cudnn_graph.h"

#include <algorithm>
#include <iterator>

namespace unihal::gpu {
namespace {

// -- the interface, in declarations of our own -----------------------------------------------------------------

// cudnnBackendDescriptorType_t.
constexpr int kConvolution = 1;
constexpr int kEngine = 2;
constexpr int kEngineConfiguration = 3;
constexpr int kHeuristics = 4;
constexpr int kExecutionPlan = 5;
constexpr int kGraph = 15;
constexpr int kVariantPack = 16;
constexpr int kTensor = 17;

// cudnnBackendAttributeType_t.
constexpr int kHandleType = 0;
constexpr int kDataType = 1;
constexpr int kInt64Type = 3;
constexpr int kFloatType = 4;
constexpr int kDoubleType = 5;
constexpr int kPointerType = 6;
constexpr int kConvolutionModeType = 7;
constexpr int kHeuristicModeType = 8;
constexpr int kNoteType = 11;
constexpr int kDescriptorType = 15;

// cudnnBackendAttributeName_t.
constexpr int kConvolutionCompute = 100;
constexpr int kConvolutionMode = 101;
constexpr int kConvolutionDilations = 102;
constexpr int kConvolutionStrides = 103;
constexpr int kConvolutionPaddingBehind = 104;
constexpr int kConvolutionPaddingBefore = 105;
constexpr int kConvolutionSpatial = 106;
constexpr int kHeuristicMode = 200;
constexpr int kHeuristicGraph = 201;
constexpr int kHeuristicResults = 202;
constexpr int kConfigurationEngine = 300;
constexpr int kPlanHandle = 400;
constexpr int kPlanConfiguration = 401;
constexpr int kPlanWorkspace = 402;
constexpr int kGraphHandle = 800;
constexpr int kGraphOperations = 801;
constexpr int kTensorAlignment = 900;
constexpr int kTensorDataType = 901;
constexpr int kTensorDimensions = 902;
constexpr int kTensorStrides = 903;
constexpr int kTensorId = 906;
constexpr int kPackIds = 1000;
constexpr int kPackPointers = 1001;
constexpr int kPackWorkspace = 1003;
constexpr int kEngineNotes = 1303;

// A pass' descriptor and attributes.
struct Operation {
  int type;
  int alpha, beta, convolution;
  int operands[kDnnOperands];  // x, w, y
};
constexpr Operation kOperations[] = {
    {10, 700, 701, 702, {704, 703, 705}},  // kForward
    {12, 706, 707, 708, {710, 709, 711}},  // kBackwardData
    {11, 712, 713, 714, {716, 715, 717}},  // kBackwardFilter
};

constexpr int kModeA = 3;  // cudnnBackendHeurMode_t

// cudnnBackendNumericalNote_t.
constexpr int kUsesMatrixUnits = 0;
constexpr int kConvertsInputs = 1;
constexpr int kReducesInLowPrecision = 2;
constexpr int kIsRandom = 4;
constexpr int kMostNotes = 10;  // more than an engine has

constexpr LibraryAlgorithm kFirstNumber = 0x10000;  // beyond those of dnn_cudnn.cc
constexpr int64_t kMostEngines = 32;

// A descriptor that is destroyed with it; null where cuDNN gave none.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const CudnnGraphFunctions& cudnn, int type) : cudnn_(&cudnn) {
    if (cudnn.create(type, &descriptor_) != kLibrarySuccess) descriptor_ = nullptr;
  }
  Descriptor(Descriptor&& other) noexcept : cudnn_(other.cudnn_), descriptor_(other.descriptor_) {
    other.descriptor_ = nullptr;
  }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnn_->destroy(descriptor_);
  }

  CudnnDescriptor get() const { return descriptor_; }

  bool set(int name, int type, int64_t count, const void* values) const {
    return descriptor_ != nullptr && cudnn_->set(descriptor_, name, type, count, values) == kLibrarySuccess;
  }
  bool set(int name, int64_t value) const { return set(name, kInt64Type, 1, &value); }
  bool set(int name, int type, int value) const { return set(name, type, 1, &value); }
  bool set(int name, const Descriptor& value) const { return set(name, kDescriptorType, 1, &value.descriptor_); }
  bool set_handle(int name, CudnnHandle handle) const { return set(name, kHandleType, 1, &handle); }

  bool finalize() const { return descriptor_ != nullptr && cudnn_->finalize(descriptor_) == kLibrarySuccess; }

 private:
  const CudnnGraphFunctions* cudnn_ = nullptr;
  CudnnDescriptor descriptor_ = nullptr;
};

// -- a graph of one convolution ----------------------------------------------------------------------------------

class ConvolutionGraph {
 public:
  ConvolutionGraph(const CudnnGraphFunctions& cudnn, CudnnHandle handle, const DnnProblem& problem)
      : cudnn_(cudnn), handle_(handle), problem_(problem) {}

  // Describes it and asks for engines. False if cuDNN refuses that.
  bool make();

  int64_t engines() const { return engine_count_; }

  // A plan of an engine with what we ask of it, by its place; no descriptor where cuDNN makes none.
  Descriptor plan(int64_t engine, size_t* workspace_bytes) const;

 private:
  bool make_tensor(int number);
  bool make_convolution();
  bool make_operation();
  bool ask();
  bool is_exact(const Descriptor& configuration) const;

  const CudnnGraphFunctions& cudnn_;
  const CudnnHandle handle_;
  const DnnProblem& problem_;
  Descriptor tensors_[kDnnOperands], convolution_, operation_, graph_, heuristics_;
  Descriptor engines_[kMostEngines];
  int64_t engine_count_ = 0;
};

bool ConvolutionGraph::make_tensor(int number) {
  const DnnTensor& tensor = problem_.operands[number];
  int64_t lengths[kDnnAxes];
  int64_t strides[kDnnAxes];
  std::copy_n(tensor.lengths, problem_.axes(), lengths);
  std::copy_n(tensor.strides, problem_.axes(), strides);
  Descriptor& made = tensors_[number] = Descriptor(cudnn_, kTensor);
  return made.set(kTensorDataType, kDataType, cudnn_data_type(problem_.dtype)) &&
         made.set(kTensorDimensions, kInt64Type, problem_.axes(), lengths) &&
         made.set(kTensorStrides, kInt64Type, problem_.axes(), strides) && made.set(kTensorId, int64_t{number}) &&
         made.set(kTensorAlignment, int64_t{kDnnAlignment}) && made.finalize();
}

bool ConvolutionGraph::make_convolution() {
  convolution_ = Descriptor(cudnn_, kConvolution);
  const int compute = cudnn_data_type(problem_.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32);
  const auto set = [&](int name, const int* values) {
    int64_t wide[kDnnSpatial];
    std::copy_n(values, problem_.spatial, wide);
    return convolution_.set(name, kInt64Type, problem_.spatial, wide);
  };
  return convolution_.set(kConvolutionCompute, kDataType, compute) &&
         convolution_.set(kConvolutionMode, kConvolutionModeType, kCudnnCrossCorrelation) &&
         convolution_.set(kConvolutionSpatial, int64_t{problem_.spatial}) &&
         set(kConvolutionDilations, problem_.dilation) && set(kConvolutionStrides, problem_.stride) &&
         set(kConvolutionPaddingBefore, problem_.padding) && set(kConvolutionPaddingBehind, problem_.padding) &&
         convolution_.finalize();
}

bool ConvolutionGraph::make_operation() {
  const Operation& row = kOperations[static_cast<int>(problem_.pass)];
  operation_ = Descriptor(cudnn_, row.type);
  for (int i = 0; i < kDnnOperands; ++i) {
    if (!operation_.set(row.operands[i], tensors_[i])) return false;
  }
  const double factors[] = {1, 0};
  const float float_factors[] = {1, 0};
  const bool is_double = problem_.dtype == UHAL_FLOAT64;
  const auto set = [&](int name, int i) {
    return is_double ? operation_.set(name, kDoubleType, 1, &factors[i])
                     : operation_.set(name, kFloatType, 1, &float_factors[i]);
  };
  return operation_.set(row.convolution, convolution_) && set(row.alpha, 0) && set(row.beta, 1) &&
         operation_.finalize();
}

bool ConvolutionGraph::ask() {
  heuristics_ = Descriptor(cudnn_, kHeuristics);
  if (!heuristics_.set(kHeuristicGraph, graph_) || !heuristics_.set(kHeuristicMode, kHeuristicModeType, kModeA) ||
      !heuristics_.finalize()) {
    return false;
  }
  CudnnDescriptor results[kMostEngines];
  for (int64_t i = 0; i < kMostEngines; ++i) {
    engines_[i] = Descriptor(cudnn_, kEngineConfiguration);
    results[i] = engines_[i].get();
    if (results[i] == nullptr) return false;
  }
  int64_t found = 0;
  if (cudnn_.get(heuristics_.get(), kHeuristicResults, kDescriptorType, kMostEngines, &found, results) !=
      kLibrarySuccess) {
    return false;
  }
  engine_count_ = std::clamp<int64_t>(found, 0, kMostEngines);
  return true;
}

bool ConvolutionGraph::make() {
  for (int i = 0; i < kDnnOperands; ++i) {
    if (!make_tensor(i)) return false;
  }
  if (!make_convolution() || !make_operation()) return false;
  graph_ = Descriptor(cudnn_, kGraph);
  return graph_.set_handle(kGraphHandle, handle_) && graph_.set(kGraphOperations, operation_) && graph_.finalize() &&
         ask();
}

// Whether an engine gives the same bits each time, in the math mode's precision.
bool ConvolutionGraph::is_exact(const Descriptor& configuration) const {
  const Descriptor engine(cudnn_, kEngine);
  CudnnDescriptor found = engine.get();
  int64_t count = 0;
  if (found == nullptr ||
      cudnn_.get(configuration.get(), kConfigurationEngine, kDescriptorType, 1, &count, &found) != kLibrarySuccess) {
    return false;
  }
  int notes[kMostNotes] = {};
  if (cudnn_.get(found, kEngineNotes, kNoteType, kMostNotes, &count, notes) != kLibrarySuccess) return false;
  const int* const end = notes + std::clamp<int64_t>(count, 0, kMostNotes);
  const auto has = [&](int note) { return std::find(static_cast<const int*>(notes), end, note) != end; };
  const bool is_strict = problem_.dtype == UHAL_FLOAT32 && problem_.math_mode == UHAL_MATH_STRICT;
  return !has(kIsRandom) && !has(kConvertsInputs) && !has(kReducesInLowPrecision) &&
         !(is_strict && has(kUsesMatrixUnits));
}

Descriptor ConvolutionGraph::plan(int64_t engine, size_t* workspace_bytes) const {
  if (engine >= engine_count_ || !is_exact(engines_[engine])) return {};
  Descriptor plan(cudnn_, kExecutionPlan);
  if (!plan.set_handle(kPlanHandle, handle_) || !plan.set(kPlanConfiguration, engines_[engine]) || !plan.finalize()) {
    return {};
  }
  int64_t bytes = 0;
  int64_t count = 0;
  if (cudnn_.get(plan.get(), kPlanWorkspace, kInt64Type, 1, &count, &bytes) != kLibrarySuccess || bytes < 0 ||
      bytes > convolution_workspace_limit(problem_.operand_bytes())) {
    return {};
  }
  *workspace_bytes = static_cast<size_t>(bytes);
  return plan;
}

// -- a plan ------------------------------------------------------------------------------------------------------

class CudnnGraphPlan final : public DnnPlan {
 public:
  CudnnGraphPlan(const CudnnGraphFunctions& cudnn, CudnnHandle handle, const DnnProblem& problem)
      : cudnn_(cudnn), handle_(handle), problem_(problem), graph_(cudnn, handle, problem_) {}

  bool make(LibraryAlgorithm wanted) {
    if (!graph_.make()) return false;
    const bool is_best = wanted == kBestAlgorithm;
    const int64_t first = is_best ? 0 : wanted - kFirstNumber;
    const int64_t end = is_best ? graph_.engines() : first + 1;
    for (int64_t engine = first; engine < end; ++engine) {
      plan_ = graph_.plan(engine, &workspace_bytes);
      algorithm = kFirstNumber + static_cast<LibraryAlgorithm>(engine);
      if (plan_.get() != nullptr) return true;
    }
    return false;
  }

  bool run(const DnnProblem& problem, void* workspace) override {
    constexpr int64_t kIds[kDnnOperands] = {kDnnX, kDnnW, kDnnY};
    void* pointers[kDnnOperands];
    for (int i = 0; i < kDnnOperands; ++i) pointers[i] = problem.operands[i].data;
    const Descriptor pack(cudnn_, kVariantPack);
    return pack.set(kPackIds, kInt64Type, kDnnOperands, kIds) &&
           pack.set(kPackPointers, kPointerType, kDnnOperands, pointers) &&
           pack.set(kPackWorkspace, kPointerType, 1, &workspace) && pack.finalize() &&
           cudnn_.execute(handle_, plan_.get(), pack.get()) == kLibrarySuccess;
  }

 private:
  const CudnnGraphFunctions& cudnn_;
  const CudnnHandle handle_;
  const DnnProblem problem_;
  ConvolutionGraph graph_;  // lives as long as the plan
  Descriptor plan_;
};

}  // namespace

int cudnn_data_type(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
      return 1;
    case UHAL_FLOAT16:
      return 2;
    case UHAL_BFLOAT16:
      return 9;
    default:
      return 0;
  }
}

void find_graph_functions(Library& library, CudnnGraphFunctions* functions) {
  library.find_if_present("cudnnBackendCreateDescriptor", &functions->create)
      .find_if_present("cudnnBackendDestroyDescriptor", &functions->destroy)
      .find_if_present("cudnnBackendSetAttribute", &functions->set)
      .find_if_present("cudnnBackendGetAttribute", &functions->get)
      .find_if_present("cudnnBackendFinalize", &functions->finalize)
      .find_if_present("cudnnBackendExecute", &functions->execute);
}

bool is_graph_algorithm(LibraryAlgorithm number) { return number >= kFirstNumber; }

std::vector<LibraryAlgorithm> graph_algorithms(const CudnnGraphFunctions& functions, CudnnHandle handle,
                                               const DnnProblem& problem, size_t most) {
  std::vector<LibraryAlgorithm> numbers;
  ConvolutionGraph graph(functions, handle, problem);
  if (!graph.make()) return numbers;
  for (int64_t engine = 0; engine < graph.engines() && numbers.size() < most; ++engine) {
    size_t bytes = 0;
    if (graph.plan(engine, &bytes).get() != nullptr) {
      numbers.push_back(kFirstNumber + static_cast<LibraryAlgorithm>(engine));
    }
  }
  return numbers;
}

std::unique_ptr<DnnPlan> make_graph_plan(const CudnnGraphFunctions& functions, CudnnHandle handle,
                                         const DnnProblem& problem, LibraryAlgorithm wanted) {
  auto plan = std::make_unique<CudnnGraphPlan>(functions, handle, problem);
  return plan->make(wanted) ? std::move(plan) : nullptr;
}

}  // namespace unihal::gpu
