// Streams: an in-order command queue each, with what a launch needs at hand.
//
// Threads: submissions one at a time; query, synchronize and everything of events from any thread meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "csrc/backends/opencl/error_cell.h"
#include "csrc/backends/opencl/event.h"
#include "csrc/backends/opencl/host_work.h"
#include "csrc/backends/opencl/kernel_table.h"
#include "csrc/kernels/queue.h"

namespace unihal::opencl {

class Stream final : public kernels::Queue {
 public:
  Stream(Device& device, uhal_stream* owner);

  // Its work has run.
  ~Stream() override;

  // Makes the queue. After a failure the stream is of no use.
  uhal_status open();

  // kernels::Queue. The addresses of copy() and fill() may be those of host memory too.
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

  // The slots of the backend's table.
  uhal_status query(int32_t* done);
  uhal_status synchronize();

  // Waits until nothing of the stream runs any more, on the device or the host, at most until a time.
  void drain_until(std::chrono::steady_clock::time_point time);

  uhal_status record(Event* event);
  uhal_status wait(const Event& event);

  // Submits a function that is called after the work submitted so far and before the work submitted from now on.
  uhal_status call(std::function<void()> function);

  // Joins the stream's thread, if it has one. Nothing is submitted afterwards.
  void stop() { host_work_.stop(); }

  static Stream* from(uhal_backend_stream* handle) { return reinterpret_cast<Stream*>(handle); }
  uhal_backend_stream* handle() { return reinterpret_cast<uhal_backend_stream*>(this); }

 private:
  uhal_status submitted(cl_int code, const char* what);
  uhal_status mark(bool timed, EventReference* event);
  void completed(uint64_t submissions);

  Device& device_;
  uhal_stream* const owner_;
  cl_command_queue queue_ = nullptr;
  KernelTable kernels_;
  int unflushed_ = 0;  // commands since a submission last flushed the queue
  std::atomic<uint64_t> submissions_{0};
  std::atomic<uint64_t> completions_{0};  // how many submissions are known to have run

  ErrorCell error_cell_;

  std::mutex query_mutex_;  // guards what follows
  EventReference query_marker_;
  uint64_t query_submissions_ = 0;  // how many submissions the marker follows

  HostWork host_work_;
};

}  // namespace unihal::opencl
