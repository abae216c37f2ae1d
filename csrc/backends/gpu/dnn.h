// Convolutions by a vendor's library: cuDNN or MIOpen.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/dnn_problem.h"
#include "csrc/backends/gpu/library.h"
#include "csrc/kernels/libraries.h"
#include "unihal/status.h"

namespace unihal::gpu {

// How a stream runs the convolutions of one key. The device is current in all calls.
class DnnPlan {
 public:
  virtual ~DnnPlan() = default;

  // Device memory that it needs.
  size_t workspace_bytes = 0;

  // Submits the convolution; returns whether the library took it.
  virtual bool run(const DnnProblem& problem, void* workspace) = 0;
};

// What a library keeps for a stream. Threads: as submissions, one at a time.
class DnnStream {
 public:
  virtual ~DnnStream() = default;

  // As the functions of kernels::Queue.
  bool plan(const kernels::ConvolutionTask& task, size_t* bytes);
  uhal_status run(const kernels::ConvolutionTask& task, void* workspace);

 protected:
  // Plans go before what they were made with: in the destructors of derived classes.
  void drop_plans() { plans_.clear(); }

 private:
  // Programs whose shapes change all the time start again at this number.
  static constexpr size_t kMostPlans = 4096;

  // Asks the library; nullptr where it has no way within the limit on workspaces.
  virtual std::unique_ptr<DnnPlan> make_plan(const DnnProblem& problem) = 0;

  std::unordered_map<DnnKey, std::unique_ptr<DnnPlan>, DnnKeyHash> plans_;  // nullptr: refused
};

// A library on a device. All functions from any thread.
class Dnn : public kernels::ConvolutionLibrary {
 public:
  explicit Dnn(std::string name) : name_(std::move(name)) {}

  const char* name() const override { return name_.c_str(); }
  bool suits(const kernels::ConvolutionTask& task) const override;
  bool takes(const kernels::ConvolutionTask& task) const override;

  // Nothing of the device is touched before the first convolution. Throws std::bad_alloc.
  virtual std::unique_ptr<DnnStream> open_stream(NativeStream stream) const = 0;

 private:
  const std::string name_;  // "cuDNN 9.14"
};

// The library of a device, which is current; nullptr where there is none that can be used. `notes` gets a line.
std::unique_ptr<Dnn> open_dnn(const LibraryDevice& device, LibraryNotes* notes);

// Openers of each; nullptr, with the reason. dnn_cudnn.cc, dnn_miopen.cc
std::unique_ptr<Dnn> open_cudnn(const LibraryDevice& device, std::string* refusal);
std::unique_ptr<Dnn> open_miopen(const LibraryDevice& device, std::string* refusal);

}  // namespace unihal::gpu
