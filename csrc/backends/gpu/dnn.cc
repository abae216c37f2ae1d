#include "csrc/backends/gpu/dnn.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "csrc/backends/common/disk_cache.h"

namespace unihal::gpu {
namespace {

struct DnnRow {
  const char* name;  // of UNIHAL_GPU_LIBRARIES
  const char* title;
  Vendor vendor;
  std::unique_ptr<Dnn> (*open)(const LibraryDevice& device, std::string* refusal);
};

constexpr DnnRow kDnnRows[] = {
    {"cudnn", "cuDNN", Vendor::kCorex, open_cudnn},
    {"miopen", "MIOpen", Vendor::kHip, open_miopen},
};

// A convolution by an algorithm. Room for it is left at the end of keys.
DnnKey key_of(const DnnProblem& problem, LibraryAlgorithm algorithm) {
  DnnKey key = key_of(problem);
  key.back() = algorithm;
  return key;
}

// What a choice for a convolution is kept under; `how` it was made: "algorithm 1" by the library.
std::string store_key(const char* how, const std::string& kept_for, const DnnKey& key) {
  std::string text = std::string(how) + "\n" + kept_for + "\n";
  for (const int64_t word : key) text += std::to_string(word) + " ";
  return text;
}

// What was kept; kBestAlgorithm if nothing was.
LibraryAlgorithm load_choice(const std::string& store_key) {
  std::string kept;
  if (!DiskCache::shared().load(store_key, &kept)) return kBestAlgorithm;
  return static_cast<LibraryAlgorithm>(std::strtoul(kept.c_str(), nullptr, 10));
}

void store_choice(const std::string& store_key, LibraryAlgorithm number) {
  DiskCache::shared().store(store_key, "algorithm", std::to_string(number));
}

// Runs by the fastest of some plans, which its first run finds out.
class MeasuringPlan final : public DnnPlan {
 public:
  // All plans write the same.
  MeasuringPlan(std::vector<std::unique_ptr<DnnPlan>> plans, MeasureWork measure, std::string store_key)
      : plans_(std::move(plans)), measure_(std::move(measure)), store_key_(std::move(store_key)) {
    for (const std::unique_ptr<DnnPlan>& plan : plans_) {
      workspace_bytes = std::max(workspace_bytes, plan->workspace_bytes);
    }
    algorithm = plans_[0]->algorithm;
  }

  bool run(const DnnProblem& problem, void* workspace) override {
    if (plans_.size() > 1) choose(problem, workspace);
    return plans_[0]->run(problem, workspace);
  }

 private:
  // Each twice, since the first time also loads it; then those that are near the fastest in turn, several launches at a
  // time: one alone may wait for the host, and a GPU's clock differs from one moment to the next. Of those that do not
  // differ by more than such measurements do it takes the one that the library names first.
  void choose(const DnnProblem& problem, void* workspace) {
    constexpr int kRounds = 5;
    constexpr double kNear = 1.5;
    constexpr double kSame = 1.01;
    constexpr double kSeconds = 3e-4;
    constexpr double kMostLaunches = 16;
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const auto measure = [&](DnnPlan& plan, int launches) {
      const auto submit = [&] {
        for (int i = 0; i < launches; ++i) {
          if (!plan.run(problem, workspace)) return false;
        }
        return true;
      };
      return measure_(submit) / launches;
    };
    std::vector<double> seconds;
    for (const std::unique_ptr<DnnPlan>& plan : plans_) {
      seconds.push_back(measure(*plan, 1) == kNever ? kNever : measure(*plan, 1));
    }
    const auto least = [&] { return *std::min_element(seconds.begin(), seconds.end()); };
    for (int round = 0; round < kRounds; ++round) {
      const double most = kNear * least();
      for (size_t i = 0; i < plans_.size(); ++i) {
        if (seconds[i] == kNever || seconds[i] > most) continue;
        const int launches = static_cast<int>(std::clamp(kSeconds / std::max(seconds[i], 1e-7), 1.0, kMostLaunches));
        seconds[i] = std::min(seconds[i], measure(*plans_[i], launches));
      }
    }
    if (least() != kNever) {
      const auto chosen =
          std::find_if(seconds.begin(), seconds.end(), [same = kSame * least()](double each) { return each <= same; });
      std::swap(plans_[0], plans_[static_cast<size_t>(chosen - seconds.begin())]);
      store_choice(store_key_, plans_[0]->algorithm);
    }
    plans_.resize(1);
    workspace_bytes = plans_[0]->workspace_bytes;
    algorithm = plans_[0]->algorithm;
  }

  std::vector<std::unique_ptr<DnnPlan>> plans_;
  const MeasureWork measure_;
  const std::string store_key_;
};

}  // namespace

std::unique_ptr<DnnPlan> DnnStream::make_best_plan(const DnnProblem& problem, const DnnKey& key) {
  if (measure_) return make_measuring_plan(problem, key);
  if (kept_for_.empty()) return make_plan(problem, kBestAlgorithm);
  const std::string store = store_key("algorithm 1", kept_for_, key);
  const LibraryAlgorithm number = load_choice(store);
  std::unique_ptr<DnnPlan> plan = number != kBestAlgorithm ? make_plan(problem, number) : nullptr;
  if (plan != nullptr) return plan;
  plan = make_plan(problem, kBestAlgorithm);
  if (plan != nullptr) store_choice(store, plan->algorithm);
  return plan;
}

std::unique_ptr<DnnPlan> DnnStream::make_measuring_plan(const DnnProblem& problem, const DnnKey& key) {
  const std::string store = store_key("measured 2", measured_for_, key);
  const LibraryAlgorithm kept = load_choice(store);
  std::unique_ptr<DnnPlan> plan = kept != kBestAlgorithm ? make_plan(problem, kept) : nullptr;
  if (plan != nullptr) return plan;
  std::vector<std::unique_ptr<DnnPlan>> plans;
  for (const LibraryAlgorithm number : algorithms(problem)) {
    plan = make_plan(problem, number);
    if (plan != nullptr) plans.push_back(std::move(plan));
  }
  if (plans.empty()) return nullptr;
  return std::make_unique<MeasuringPlan>(std::move(plans), measure_, store);
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
  for (const DnnRow& row : kDnnRows) {
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
