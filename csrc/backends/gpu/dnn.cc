#include "csrc/backends/gpu/dnn.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/disk_cache.h"

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

// A convolution by an algorithm. Room for it is left at the end of keys.
DnnKey key_of(const DnnProblem& problem, LibraryAlgorithm algorithm) {
  DnnKey key = key_of(problem);
  key.back() = algorithm;
  return key;
}

// What a library's choice for a convolution is kept under.
std::string store_key(const std::string& kept_for, const DnnKey& key) {
  std::string text = "algorithm 1\n" + kept_for + "\n";
  for (const int64_t word : key) text += std::to_string(word) + " ";
  return text;
}

}  // namespace

std::unique_ptr<DnnPlan> DnnStream::make_best_plan(const DnnProblem& problem, const DnnKey& key) {
  if (kept_for_.empty()) return make_plan(problem, kBestAlgorithm);
  std::string kept;
  if (DiskCache::shared().load(store_key(kept_for_, key), &kept)) {
    const auto number = static_cast<LibraryAlgorithm>(std::strtoul(kept.c_str(), nullptr, 10));
    std::unique_ptr<DnnPlan> plan = number != kBestAlgorithm ? make_plan(problem, number) : nullptr;
    if (plan != nullptr) return plan;
  }
  std::unique_ptr<DnnPlan> plan = make_plan(problem, kBestAlgorithm);
  if (plan != nullptr)
    DiskCache::shared().store(store_key(kept_for_, key), "algorithm", std::to_string(plan->algorithm));
  return plan;
}

std::unique_ptr<DnnPlan>& DnnStream::find_plan(const DnnProblem& problem, LibraryAlgorithm algorithm) {
  const DnnKey key = key_of(problem, algorithm);
  const bool is_best = algorithm == kBestAlgorithm;
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() == kMostPlans) plans_.clear();
    std::unique_ptr<DnnPlan> plan = is_best ? make_best_plan(problem, key) : make_plan(problem, algorithm);
    if (plan == nullptr && is_best && problem.math_mode != UHAL_MATH_STRICT) {
      DnnProblem strict = problem;
      strict.math_mode = UHAL_MATH_STRICT;
      plan = make_best_plan(strict, key_of(strict, algorithm));
    }
    found = plans_.emplace(key, std::move(plan)).first;
  }
  return found->second != nullptr || is_best ? found->second : find_plan(problem, kBestAlgorithm);
}

bool DnnStream::plan(const kernels::ConvolutionTask& task, size_t* bytes) {
  DnnProblem problem;
  if (!make_dnn_problem(task, &problem)) return false;
  const std::unique_ptr<DnnPlan>& plan = find_plan(problem, task.algorithm);
  if (plan == nullptr) return false;
  *bytes = plan->workspace_bytes;
  return true;
}

uhal_status DnnStream::run(const kernels::ConvolutionTask& task, void* workspace) {
  DnnProblem problem;
  if (!make_dnn_problem(task, &problem)) return UHAL_UNIMPLEMENTED;
  std::unique_ptr<DnnPlan>& plan = find_plan(problem, task.algorithm);
  if (plan == nullptr) return UHAL_UNIMPLEMENTED;
  if (plan->run(problem, workspace)) return UHAL_OK;
  plan.reset();  // and never again; what it may have begun is written anew
  return UHAL_UNIMPLEMENTED;
}

bool Dnn::takes(const kernels::ConvolutionTask& task) const {
  DnnProblem problem;
  return make_dnn_problem(task, &problem);
}

int Dnn::algorithms(const kernels::ConvolutionTask& task, LibraryAlgorithm* numbers) const {
  DnnProblem problem;
  if (!make_dnn_problem(task, &problem)) return 0;
  const DnnKey key = key_of(problem);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (key != asked_) {
    device_.make_current();
    answer_ = open_stream(nullptr)->algorithms(problem);
    asked_ = key;
  }
  const size_t count = std::min(answer_.size(), size_t{kernels::kMostConvolutionAlgorithms});
  std::copy_n(answer_.begin(), count, numbers);
  return static_cast<int>(count);
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
