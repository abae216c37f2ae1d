// cuDNN 7 to 9, by the functions that all of them have.
#include <algorithm>

#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/dnn_cudnn_graph.h"

namespace unihal::gpu {
namespace {

// -- the interface, in declarations of our own -----------------------------------------------------------------

using CudnnTensorDescriptor = struct CudnnTensor*;
using CudnnFilterDescriptor = struct CudnnFilter*;
using CudnnConvolutionDescriptor = struct CudnnConvolution*;

constexpr int kNchw = 0;
constexpr int kNhwc = 1;

// cudnnMathType_t.
constexpr int kDefaultMath = 0;
constexpr int kTensorMath = 1;
constexpr int kConvertingMath = 2;
constexpr int kFmaMath = 3;  // from 8 on: there the default may round float32 to TF32

constexpr int kDeterministic = 1;

// What a heuristic tells of an algorithm; the struct is the same for all three passes.
struct Advice {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspace;
  int determinism;
  int math;
  int reserved[3];
};

struct CudnnFunctions {
  int (*create)(CudnnHandle* handle);
  int (*destroy)(CudnnHandle handle);
  size_t (*get_version)();
  int (*set_stream)(CudnnHandle handle, NativeStream stream);
  int (*tensor_create)(CudnnTensorDescriptor* descriptor);
  int (*tensor_destroy)(CudnnTensorDescriptor descriptor);
  int (*tensor_set)(CudnnTensorDescriptor descriptor, int type, int axes, const int lengths[], const int strides[]);
  int (*filter_create)(CudnnFilterDescriptor* descriptor);
  int (*filter_destroy)(CudnnFilterDescriptor descriptor);
  int (*filter_set)(CudnnFilterDescriptor descriptor, int type, int format, int axes, const int lengths[]);
  int (*convolution_create)(CudnnConvolutionDescriptor* descriptor);
  int (*convolution_destroy)(CudnnConvolutionDescriptor descriptor);
  int (*convolution_set)(CudnnConvolutionDescriptor descriptor, int axes, const int padding[], const int stride[],
                         const int dilation[], int mode, int type);
  int (*set_groups)(CudnnConvolutionDescriptor descriptor, int groups);
  int (*set_math)(CudnnConvolutionDescriptor descriptor, int math);
  int (*forward_advice)(CudnnHandle handle, CudnnTensorDescriptor x, CudnnFilterDescriptor w,
                        CudnnConvolutionDescriptor convolution, CudnnTensorDescriptor y, int wanted, int* found,
                        Advice* advice);
  int (*data_advice)(CudnnHandle handle, CudnnFilterDescriptor w, CudnnTensorDescriptor dy,
                     CudnnConvolutionDescriptor convolution, CudnnTensorDescriptor dx, int wanted, int* found,
                     Advice* advice);
  int (*filter_advice)(CudnnHandle handle, CudnnTensorDescriptor x, CudnnTensorDescriptor dy,
                       CudnnConvolutionDescriptor convolution, CudnnFilterDescriptor dw, int wanted, int* found,
                       Advice* advice);
  int (*forward_workspace)(CudnnHandle handle, CudnnTensorDescriptor x, CudnnFilterDescriptor w,
                           CudnnConvolutionDescriptor convolution, CudnnTensorDescriptor y, int algorithm,
                           size_t* bytes);
  int (*data_workspace)(CudnnHandle handle, CudnnFilterDescriptor w, CudnnTensorDescriptor dy,
                        CudnnConvolutionDescriptor convolution, CudnnTensorDescriptor dx, int algorithm, size_t* bytes);
  int (*filter_workspace)(CudnnHandle handle, CudnnTensorDescriptor x, CudnnTensorDescriptor dy,
                          CudnnConvolutionDescriptor convolution, CudnnFilterDescriptor dw, int algorithm,
                          size_t* bytes);
  int (*forward)(CudnnHandle handle, const void* alpha, CudnnTensorDescriptor x_descriptor, const void* x,
                 CudnnFilterDescriptor w_descriptor, const void* w, CudnnConvolutionDescriptor convolution,
                 int algorithm, void* workspace, size_t bytes, const void* beta, CudnnTensorDescriptor y_descriptor,
                 void* y);
  int (*backward_data)(CudnnHandle handle, const void* alpha, CudnnFilterDescriptor w_descriptor, const void* w,
                       CudnnTensorDescriptor dy_descriptor, const void* dy, CudnnConvolutionDescriptor convolution,
                       int algorithm, void* workspace, size_t bytes, const void* beta,
                       CudnnTensorDescriptor dx_descriptor, void* dx);
  int (*backward_filter)(CudnnHandle handle, const void* alpha, CudnnTensorDescriptor x_descriptor, const void* x,
                         CudnnTensorDescriptor dy_descriptor, const void* dy, CudnnConvolutionDescriptor convolution,
                         int algorithm, void* workspace, size_t bytes, const void* beta,
                         CudnnFilterDescriptor dw_descriptor, void* dw);
  CudnnGraphFunctions graph;
};

void find_functions(Library& library, CudnnFunctions* functions) {
  library.find("cudnnCreate", &functions->create)
      .find("cudnnDestroy", &functions->destroy)
      .find("cudnnGetVersion", &functions->get_version)
      .find("cudnnSetStream", &functions->set_stream)
      .find("cudnnCreateTensorDescriptor", &functions->tensor_create)
      .find("cudnnDestroyTensorDescriptor", &functions->tensor_destroy)
      .find("cudnnSetTensorNdDescriptor", &functions->tensor_set)
      .find("cudnnCreateFilterDescriptor", &functions->filter_create)
      .find("cudnnDestroyFilterDescriptor", &functions->filter_destroy)
      .find("cudnnSetFilterNdDescriptor", &functions->filter_set)
      .find("cudnnCreateConvolutionDescriptor", &functions->convolution_create)
      .find("cudnnDestroyConvolutionDescriptor", &functions->convolution_destroy)
      .find("cudnnSetConvolutionNdDescriptor", &functions->convolution_set)
      .find("cudnnSetConvolutionGroupCount", &functions->set_groups)
      .find("cudnnSetConvolutionMathType", &functions->set_math)
      .find("cudnnGetConvolutionForwardAlgorithm_v7", &functions->forward_advice)
      .find("cudnnGetConvolutionBackwardDataAlgorithm_v7", &functions->data_advice)
      .find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", &functions->filter_advice)
      .find("cudnnGetConvolutionForwardWorkspaceSize", &functions->forward_workspace)
      .find("cudnnGetConvolutionBackwardDataWorkspaceSize", &functions->data_workspace)
      .find("cudnnGetConvolutionBackwardFilterWorkspaceSize", &functions->filter_workspace)
      .find("cudnnConvolutionForward", &functions->forward)
      .find("cudnnConvolutionBackwardData", &functions->backward_data)
      .find("cudnnConvolutionBackwardFilter", &functions->backward_filter);
  find_graph_functions(library, &functions->graph);
}

// An algorithm with its arithmetic as a number; none is kBestAlgorithm.
constexpr LibraryAlgorithm kMaths = 8;
LibraryAlgorithm number_of(int algorithm, int math) {
  return static_cast<LibraryAlgorithm>(algorithm) * kMaths + static_cast<LibraryAlgorithm>(math) + 1;
}
int algorithm_of(LibraryAlgorithm number) { return static_cast<int>((number - 1) / kMaths); }
int math_of(LibraryAlgorithm number) { return static_cast<int>((number - 1) % kMaths); }

// -- a plan ----------------------------------------------------------------------------------------------------

class CudnnPlan final : public DnnPlan {
 public:
  CudnnPlan(const CudnnFunctions& functions, int major, CudnnHandle handle)
      : cudnn_(functions), major_(major), handle_(handle) {}
  ~CudnnPlan() override;

  // Whether cuDNN takes the description.
  bool describe(const DnnProblem& problem);

  // The algorithms that give the same bits each time, in the math mode's precision, within the limit.
  std::vector<LibraryAlgorithm> ask(const DnnProblem& problem);

  // Whether it can run by one of these.
  bool take(const DnnProblem& problem, LibraryAlgorithm wanted);

  bool run(const DnnProblem& problem, void* workspace) override;

 private:
  bool may_use_matrix_units(const DnnProblem& problem) const;
  int advise(const DnnProblem& problem, int wanted, int* found, Advice* advice) const;
  int ask_workspace(const DnnProblem& problem, size_t* bytes) const;

  const CudnnFunctions& cudnn_;
  const int major_;
  const CudnnHandle handle_;
  CudnnTensorDescriptor x_ = nullptr;
  CudnnTensorDescriptor y_ = nullptr;
  CudnnFilterDescriptor w_ = nullptr;
  CudnnConvolutionDescriptor convolution_ = nullptr;
  int algorithm_ = 0;
};

CudnnPlan::~CudnnPlan() {
  if (convolution_ != nullptr) cudnn_.convolution_destroy(convolution_);
  if (w_ != nullptr) cudnn_.filter_destroy(w_);
  if (y_ != nullptr) cudnn_.tensor_destroy(y_);
  if (x_ != nullptr) cudnn_.tensor_destroy(x_);
}

// Those multiply in half precision or TF32. Before 8 they knew the first only.
bool CudnnPlan::may_use_matrix_units(const DnnProblem& problem) const {
  const bool is_half = problem.dtype == UHAL_FLOAT16 || problem.dtype == UHAL_BFLOAT16;
  return is_half || (problem.math_mode == UHAL_MATH_ALLOW_TF32 && major_ >= 8);
}

bool CudnnPlan::describe(const DnnProblem& problem) {
  const int type = cudnn_data_type(problem.dtype);
  const auto set_tensor = [&](CudnnTensorDescriptor* descriptor, const DnnTensor& tensor) {
    return cudnn_.tensor_create(descriptor) == kLibrarySuccess &&
           cudnn_.tensor_set(*descriptor, type, problem.axes(), tensor.lengths, tensor.strides) == kLibrarySuccess;
  };
  const bool is_double = problem.dtype == UHAL_FLOAT64;
  const int math = may_use_matrix_units(problem) ? kTensorMath : major_ >= 8 ? kFmaMath : kDefaultMath;
  return set_tensor(&x_, problem.operands[kDnnX]) && set_tensor(&y_, problem.operands[kDnnY]) &&
         cudnn_.filter_create(&w_) == kLibrarySuccess &&
         cudnn_.filter_set(w_, type, problem.channels_last ? kNhwc : kNchw, problem.axes(),
                           problem.operands[kDnnW].lengths) == kLibrarySuccess &&
         cudnn_.convolution_create(&convolution_) == kLibrarySuccess &&
         cudnn_.convolution_set(convolution_, problem.spatial, problem.padding, problem.stride, problem.dilation,
                                kCudnnCrossCorrelation,
                                cudnn_data_type(is_double ? UHAL_FLOAT64 : UHAL_FLOAT32)) == kLibrarySuccess &&
         cudnn_.set_groups(convolution_, problem.groups) == kLibrarySuccess &&
         cudnn_.set_math(convolution_, math) == kLibrarySuccess;
}

int CudnnPlan::advise(const DnnProblem& problem, int wanted, int* found, Advice* advice) const {
  switch (problem.pass) {
    case kernels::Pass::kForward:
      return cudnn_.forward_advice(handle_, x_, w_, convolution_, y_, wanted, found, advice);
    case kernels::Pass::kBackwardData:
      return cudnn_.data_advice(handle_, w_, y_, convolution_, x_, wanted, found, advice);
    default:
      return cudnn_.filter_advice(handle_, x_, y_, convolution_, w_, wanted, found, advice);
  }
}

int CudnnPlan::ask_workspace(const DnnProblem& problem, size_t* bytes) const {
  switch (problem.pass) {
    case kernels::Pass::kForward:
      return cudnn_.forward_workspace(handle_, x_, w_, convolution_, y_, algorithm_, bytes);
    case kernels::Pass::kBackwardData:
      return cudnn_.data_workspace(handle_, w_, y_, convolution_, x_, algorithm_, bytes);
    default:
      return cudnn_.filter_workspace(handle_, x_, y_, convolution_, w_, algorithm_, bytes);
  }
}

std::vector<LibraryAlgorithm> CudnnPlan::ask(const DnnProblem& problem) {
  constexpr int kMostAdvice = 16;  // more than there are algorithms of a pass
  Advice advice[kMostAdvice] = {};
  int found = 0;
  std::vector<LibraryAlgorithm> numbers;
  if (advise(problem, kMostAdvice, &found, advice) != kLibrarySuccess) return numbers;
  for (int i = 0; i < std::min(found, kMostAdvice); ++i) {
    const Advice& row = advice[i];
    const LibraryAlgorithm number = number_of(row.algorithm, row.math);
    if (row.status == kLibrarySuccess && row.determinism == kDeterministic && take(problem, number))
      numbers.push_back(number);
  }
  return numbers;
}

bool CudnnPlan::take(const DnnProblem& problem, LibraryAlgorithm wanted) {
  const int math = math_of(wanted);
  const bool with_units = may_use_matrix_units(problem);
  const bool rounds_operands = math == kConvertingMath || (!with_units && math == kTensorMath);
  if (rounds_operands || (with_units && cudnn_.set_math(convolution_, math) != kLibrarySuccess)) return false;
  algorithm = wanted;
  algorithm_ = algorithm_of(wanted);
  return ask_workspace(problem, &workspace_bytes) == kLibrarySuccess &&
         workspace_bytes <= static_cast<size_t>(convolution_workspace_limit(problem.operand_bytes()));
}

bool CudnnPlan::run(const DnnProblem& problem, void* workspace) {
  // The factors are of the type of the computation.
  const double one = 1;
  const double zero = 0;
  const float one_float = 1;
  const float zero_float = 0;
  const bool is_double = problem.dtype == UHAL_FLOAT64;
  const void* const alpha = is_double ? static_cast<const void*>(&one) : &one_float;
  const void* const beta = is_double ? static_cast<const void*>(&zero) : &zero_float;
  void* const x = problem.operands[kDnnX].data;
  void* const w = problem.operands[kDnnW].data;
  void* const y = problem.operands[kDnnY].data;
  switch (problem.pass) {
    case kernels::Pass::kForward:
      return cudnn_.forward(handle_, alpha, x_, x, w_, w, convolution_, algorithm_, workspace, workspace_bytes, beta,
                            y_, y) == kLibrarySuccess;
    case kernels::Pass::kBackwardData:
      return cudnn_.backward_data(handle_, alpha, w_, w, y_, y, convolution_, algorithm_, workspace, workspace_bytes,
                                  beta, x_, x) == kLibrarySuccess;
    default:
      return cudnn_.backward_filter(handle_, alpha, x_, x, y_, y, convolution_, algorithm_, workspace, workspace_bytes,
                                    beta, w_, w) == kLibrarySuccess;
  }
}

// -- a stream and a device -------------------------------------------------------------------------------------

class CudnnStream final : public DnnStream {
 public:
  CudnnStream(const CudnnFunctions& functions, int major, NativeStream stream)
      : cudnn_(functions), major_(major), stream_(stream) {}
  ~CudnnStream() override {
    drop_plans();
    if (handle_ != nullptr) cudnn_.destroy(handle_);
  }

  std::vector<LibraryAlgorithm> algorithms(const DnnProblem& problem) override {
    constexpr size_t kMostOfGraphs = 10;  // of kMostConvolutionAlgorithms
    std::vector<LibraryAlgorithm> numbers;
    if (!start()) return numbers;
    if (const std::unique_ptr<CudnnPlan> plan = describe(problem); plan != nullptr) numbers = plan->ask(problem);
    if (takes_graph(problem)) {
      const std::vector<LibraryAlgorithm> of_graphs = graph_algorithms(cudnn_.graph, handle_, problem, kMostOfGraphs);
      numbers.insert(prefers_graph(problem) ? numbers.begin() : numbers.end(), of_graphs.begin(), of_graphs.end());
    }
    return numbers;
  }

 private:
  // Graphs of 8 lack much of what later ones have. A plan of theirs is for data of some alignment.
  bool takes_graph(const DnnProblem& problem) const {
    constexpr int kFirstMajor = 9;
    return major_ >= kFirstMajor && cudnn_.graph.is_complete() && problem.is_aligned;
  }

  // Where matrix units may be used. A graph does not say that they must not be: of its engines the best ones use them
  // for float32 too, and what is left of them comes in no order that counts.
  bool prefers_graph(const DnnProblem& problem) const {
    const bool is_half = problem.dtype == UHAL_FLOAT16 || problem.dtype == UHAL_BFLOAT16;
    return takes_graph(problem) && (is_half || problem.math_mode == UHAL_MATH_ALLOW_TF32);
  }

  // Makes the handle; false if there is none.
  bool start() {
    if (handle_ == nullptr && cudnn_.create(&handle_) != kLibrarySuccess) handle_ = nullptr;
    return handle_ != nullptr && cudnn_.set_stream(handle_, stream_) == kLibrarySuccess;
  }

  std::unique_ptr<CudnnPlan> describe(const DnnProblem& problem) {
    if ((problem.dtype == UHAL_BFLOAT16 && major_ < 8) || !start()) return nullptr;
    auto plan = std::make_unique<CudnnPlan>(cudnn_, major_, handle_);
    return plan->describe(problem) ? std::move(plan) : nullptr;
  }

  std::unique_ptr<DnnPlan> make_plan(const DnnProblem& problem, LibraryAlgorithm wanted) override {
    const bool is_of_graph = is_graph_algorithm(wanted);
    if (is_of_graph ? takes_graph(problem) && start() : wanted == kBestAlgorithm && prefers_graph(problem) && start()) {
      std::unique_ptr<DnnPlan> plan = make_graph_plan(cudnn_.graph, handle_, problem, wanted);
      if (plan != nullptr) return plan;
    }
    if (is_of_graph) return nullptr;
    std::unique_ptr<CudnnPlan> plan = describe(problem);
    if (plan == nullptr) return nullptr;
    if (wanted == kBestAlgorithm) {
      const std::vector<LibraryAlgorithm> offered = plan->ask(problem);
      if (offered.empty()) return nullptr;
      wanted = offered[0];
    }
    if (!plan->take(problem, wanted)) return nullptr;
    return plan;
  }

  const CudnnFunctions& cudnn_;
  const int major_;
  const NativeStream stream_;
  CudnnHandle handle_ = nullptr;
};

class Cudnn final : public Dnn {
 public:
  Cudnn(const CudnnFunctions& functions, int major, std::string name, const LibraryDevice& device)
      : Dnn(std::move(name), device), functions_(functions), major_(major) {}

  std::unique_ptr<DnnStream> open_stream(NativeStream stream) const override {
    return std::make_unique<CudnnStream>(functions_, major_, stream);
  }

 private:
  const CudnnFunctions functions_;
  const int major_;
};

}  // namespace

std::unique_ptr<Dnn> open_cudnn(const LibraryDevice& device, std::string* refusal) {
  Library library;
  if (!library.open(library_files(device.vendor, "cudnn", {9, 8, 7}), refusal)) return nullptr;
  CudnnFunctions functions;
  find_functions(library, &functions);
  if (!library.complete(refusal)) return nullptr;
  // 7605, 8907, 91400.
  const auto version = static_cast<int>(functions.get_version());
  const int major = version >= 90000 ? version / 10000 : version / 1000;
  const int minor = version / 100 % (version >= 90000 ? 100 : 10);
  const std::string text = std::to_string(major) + "." + std::to_string(minor);
  if (major < 7) {
    *refusal = "version " + text + " is older than 7";
    return nullptr;
  }
  return std::make_unique<Cudnn>(functions, major, "cuDNN " + text, device);
}

}  // namespace unihal::gpu
