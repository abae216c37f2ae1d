#include "csrc/backends/gpu/dnn.h"

namespace unihal::gpu {
namespace {

struct Row {
  const char* name;  // of UNIHAL_GPU_LIBRARIES
  const char* title;
  Vendor vendor;
  std::unique_ptr<Dnn> (*open)(const LibraryDevice& device, std::string* refusal);
};

constexpr Row kRows[] = {
    {"cudnn", "cuDNN", Vendor::kCorex, open_cudnn},
    {"miopen", "MIOpen", Vendor::kHip, open_miopen},
};

}  // namespace

bool DnnStream::plan(const kernels::ConvolutionTask& task, size_t* bytes) {
  DnnProblem problem;
  if (!make_dnn_problem(task, &problem)) return false;
  const DnnKey key = key_of(problem);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() == kMostPlans) plans_.clear();
    found = plans_.emplace(key, make_plan(problem)).first;
  }
  if (found->second == nullptr) return false;
  *bytes = found->second->workspace_bytes;
  return true;
}

uhal_status DnnStream::run(const kernels::ConvolutionTask& task, void* workspace) {
  DnnProblem problem;
  if (!make_dnn_problem(task, &problem)) return UHAL_UNIMPLEMENTED;
  const auto found = plans_.find(key_of(problem));
  if (found == plans_.end() || found->second == nullptr) return UHAL_UNIMPLEMENTED;
  if (found->second->run(problem, workspace)) return UHAL_OK;
  found->second.reset();  // and never again; what it may have begun is written anew
  return UHAL_UNIMPLEMENTED;
}

bool Dnn::takes(const kernels::ConvolutionTask& task) const {
  DnnProblem problem;
  return make_dnn_problem(task, &problem);
}

// All but depthwise ones, of which each output has a channel of its own: they are bound by memory.
bool Dnn::suits(const kernels::ConvolutionTask& task) const {
  const kernels::Convolution& c = task.convolution;
  return c.groups == 1 || (c.channels > 1 && c.rows > 1);
}

std::unique_ptr<Dnn> open_dnn(const LibraryDevice& device, LibraryNotes* notes) {
  for (const Row& row : kRows) {
    if (row.vendor != device.vendor) continue;
    std::string refusal;
    std::unique_ptr<Dnn> library;
    if (wants_library(row.name)) {
      library = row.open(device, &refusal);
    } else {
      refusal = "UNIHAL_GPU_LIBRARIES leaves it out";
    }
    notes->push_back(library != nullptr ? library->name() : std::string("no ") + row.title + " (" + refusal + ")");
    return library;
  }
  return nullptr;
}

}  // namespace unihal::gpu
