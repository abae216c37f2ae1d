// Convolutions by a vendor's library: cuDNN or MIOpen.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/dnn_problem.h"
#include "csrc/backends/gpu/library.h"
#include "csrc/kernels/libraries.h"
#include "unihal/status.h"

namespace unihal::gpu {

using kernels::kBestAlgorithm;
using kernels::LibraryAlgorithm;

// How a stream runs the convolutions of one key. The device is current in all calls.
class DnnPlan {
 public:
  virtual ~DnnPlan() = default;

  // Device memory that it needs.
  size_t workspace_bytes = 0;

  // What it runs by; never kBestAlgorithm.
  LibraryAlgorithm algorithm = kBestAlgorithm;

  // Submits the convolution; returns whether the library took it.
  virtual bool run(const DnnProblem& problem, void* workspace) = 0;
};

// The seconds that the device takes for what a function submits; infinite if that returns false.
using MeasureWork = std::function<double(const std::function<bool()>& submit)>;

// What a library keeps for a stream. Threads: as submissions, one at a time.
class DnnStream {
 public:
  // `kept_for`: what the choices that the library makes are kept on disk for, its version and the card; empty: they are
  // not kept, where asking again costs no more.
  explicit DnnStream(std::string kept_for = "") : kept_for_(std::move(kept_for)) {}
  virtual ~DnnStream() = default;

  // Lets the first convolution of each key try all algorithms; `kept_for` as of the constructor.
  void measure_with(MeasureWork measure, std::string kept_for) {
    measure_ = std::move(measure);
    measured_for_ = std::move(kept_for);
  }

  // As the functions of kernels::Queue.
  bool plan(const kernels::ConvolutionTask& task, size_t* bytes);
  uhal_status run(const kernels::ConvolutionTask& task, void* workspace);

  // The algorithms that the library offers within the limit on workspaces, those first that it holds to be better.
  virtual std::vector<LibraryAlgorithm> algorithms(const DnnProblem& problem) = 0;

 protected:
  // Plans go before what they were made with: in the destructors of derived classes.
  void drop_plans() { plans_.clear(); }

 private:
  // Programs whose shapes change all the time start again at this number.
  static constexpr size_t kMostPlans = 4096;

  // By an algorithm of the library's or, of kBestAlgorithm, by the first that it offers; nullptr where it has no way
  // within the limit on workspaces, or not this one.
  virtual std::unique_ptr<DnnPlan> make_plan(const DnnProblem& problem, LibraryAlgorithm algorithm) = 0;

  // As it was kept, if that still goes.
  std::unique_ptr<DnnPlan> make_best_plan(const DnnProblem& problem, const DnnKey& key);

  // One that finds the fastest when it runs, where there are some to choose from.
  std::unique_ptr<DnnPlan> make_measuring_plan(const DnnProblem& problem, const DnnKey& key);

  // The plan of an algorithm or, where that was refused, of the best one; nullptr if that was refused too.
  std::unique_ptr<DnnPlan>& find_plan(const DnnProblem& problem, LibraryAlgorithm algorithm);

  const std::string kept_for_;
  MeasureWork measure_;  // empty: nothing is measured
  std::string measured_for_;
  std::unordered_map<DnnKey, std::unique_ptr<DnnPlan>, DnnKeyHash> plans_;  // nullptr: refused
};

// A library on a device. All functions from any thread.
class Dnn : public kernels::ConvolutionLibrary {
 public:
  Dnn(std::string name, const LibraryDevice& device) : name_(std::move(name)), device_(device) {}

  const char* name() const override { return name_.c_str(); }
  bool suits(const kernels::ConvolutionTask& task) const override;
  bool takes(const kernels::ConvolutionTask& task) const override;
  int algorithms(const kernels::ConvolutionTask& task, LibraryAlgorithm* numbers) const override;

  // Nothing of the device is touched before the first convolution. Throws std::bad_alloc.
  virtual std::unique_ptr<DnnStream> open_stream(NativeStream stream) const = 0;

 protected:
  const LibraryDevice& device() const { return device_; }

 private:
  const std::string name_;  // "cuDNN 9.14"
  const LibraryDevice device_;

  // The last answer: candidates of one convolution are asked for one by one.
  mutable std::mutex mutex_;  // of what follows
  mutable DnnKey asked_ = {};
  mutable std::vector<LibraryAlgorithm> answer_;
};

// The library of a device, which is current; nullptr where there is none that can be used. `notes` gets a line.
std::unique_ptr<Dnn> open_dnn(const LibraryDevice& device, LibraryNotes* notes);

// Openers of each; nullptr, with the reason. dnn_cudnn.cc, dnn_miopen.cc
std::unique_ptr<Dnn> open_cudnn(const LibraryDevice& device, std::string* refusal);
std::unique_ptr<Dnn> open_miopen(const LibraryDevice& device, std::string* refusal);

}  // namespace unihal::gpu
