// Streams: the driver's own, with what a launch needs at hand.
//
// Threads: submissions one at a time; query, synchronize and everything of events from any thread meanwhile.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/error_cell.h"
#include "csrc/backends/gpu/event.h"
#include "csrc/backends/gpu/fft.h"
#include "csrc/backends/gpu/graph.h"
#include "csrc/backends/gpu/host_work.h"
#include "csrc/backends/gpu/program.h"
#include "csrc/backends/gpu/staging.h"
#include "csrc/kernels/held_launches.h"
#include "csrc/kernels/queue.h"
#include "csrc/kernels/spec_table.h"

namespace unihal::gpu {

class Stream final : public kernels::Queue {
 public:
  Stream(Device& device, uhal_stream* owner);

  // Its work has run.
  ~Stream() override;

  // Makes the driver's stream. After a failure this one is of no use.
  uhal_status open();

  // kernels::Queue. The device is current (launch()). The addresses of copy() and fill() may be those of host memory
  // too.
  uhal_status run(const kernels::KernelSpec& spec, const kernels::Arguments& arguments,
                  const kernels::Grid& grid) override;
  kernels::KnownKernel* find_known(const kernels::KernelSpec& spec) override;
  uhal_status run_known(kernels::KnownKernel& known, const kernels::Arguments& arguments,
                        const kernels::Grid& grid) override;
  uhal_status copy(void* destination, const void* source, size_t bytes) override;
  uhal_status fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  uhal_status workspace(size_t bytes, void** pointer) override;
  uhal_status error_cell(const uhal_op& op, void** cell, int64_t* ticket) override;
  uhal_status library_gemm(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace) override;
  bool plan_library_convolution(const kernels::ConvolutionTask& task, size_t* bytes) override;
  uhal_status library_convolution(const kernels::ConvolutionTask& task, void* workspace) override;
  bool plan_library_fft(const kernels::FftTask& task, size_t* bytes) override;
  uhal_status library_fft(const kernels::FftTask& task, void* workspace) override;

  // The slots of the backend's table.
  uhal_status launch(const uhal_op& op);
  uhal_status submit_copy(void* destination, const void* source, size_t bytes, uhal_copy_kind kind);
  uhal_status submit_fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);
  uhal_status query(int32_t* done);
  uhal_status synchronize();
  uhal_status record(const Event& event);
  uhal_status wait(const Event& event);
  uhal_status call(uhal_host_function function, void* user_data);

  // Those of the extension for graphs.
  uhal_status begin_capture();
  uhal_status end_capture(std::unique_ptr<Graph>* graph);
  uhal_status cancel_capture();
  uhal_status launch_graph(const Graph& graph);

  // Those of the extension for launch groups.
  uhal_status start_group();
  uhal_status end_group();

  // Submits what a group holds back. All of the above do so first; so does who submits to native().
  uhal_status submit_held() {
    return __builtin_expect(in_group_.load(std::memory_order_acquire), 0) ? submit_held_launches() : UHAL_OK;
  }

  // Joins the stream's thread, if it has one. Its work has run, and nothing is submitted afterwards.
  void stop() { host_work_.stop(); }

  // For libraries that submit to the stream themselves.
  NativeStream native() const { return stream_; }
  uhal_stream* owner() const { return owner_; }

  static Stream* from(uhal_backend_stream* handle) { return reinterpret_cast<Stream*>(handle); }
  uhal_backend_stream* handle() { return reinterpret_cast<uhal_backend_stream*>(this); }

 private:
  // A kernel that this stream has run.
  struct LoadedKernel final : kernels::KnownKernel {
    LoadedKernel(const kernels::KernelSpec& spec, const Kernel& loaded) : KnownKernel(spec), kernel(loaded) {}
    const Kernel kernel;
  };

  uhal_status add_kernel(const kernels::KernelSpec& spec, int32_t local_bytes, LoadedKernel** loaded);
  uhal_status submitted(int code, const char* what) const;
  uhal_status prepare();  // makes the device current, and submits what is held
  uhal_status submit_held_launches();
  bool hold(const uhal_op& op, uhal_status* status);
  uhal_status collect_errors();
  double seconds_of(const std::function<bool()>& submit) const;  // as MeasureWork

  Device& device_;
  uhal_stream* const owner_;
  NativeStream stream_ = nullptr;
  kernels::SpecTable<LoadedKernel> kernels_;
  std::unique_ptr<BlasQueue> blas_;  // nullptr: there is no library
  std::unique_ptr<DnnStream> dnn_;   // likewise
  std::unique_ptr<FftStream> fft_;   // likewise
  ErrorCell error_cell_;
  HostWork host_work_;
  Staging staging_;

  std::unique_ptr<Graph> capturing_;  // nullptr: nothing is captured

  // Who waits or queries submits what is held, whoever submits meanwhile: kernels run with the lock held, or while
  // nothing is held, so that they run one at a time.
  std::atomic<bool> in_group_{false};
  std::mutex held_mutex_;
  std::unique_ptr<kernels::HeldLaunches> held_;  // nullptr: there was no group yet

  // Of the graphs that were launched since their errors were collected.
  std::mutex launched_mutex_;
  std::vector<std::shared_ptr<GraphErrors>> launched_;
  std::atomic<bool> has_launched_{false};
};

}  // namespace unihal::gpu
