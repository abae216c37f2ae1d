#include "csrc/core/launch/host_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "csrc/backends/common/owned_op.h"
#include "csrc/core/base/environment.h"
#include "csrc/core/check/byte_set.h"
#include "csrc/core/check/race_checker.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/launch/fallback.h"
#include "csrc/core/launch/host_kernels.h"
#include "csrc/core/memory/host_memory.h"
#include "csrc/core/op/description.h"
#include "csrc/core/op/shape_rules.h"
#include "csrc/core/profile/profiler.h"

namespace unihal::core {
namespace {

// -- the memory of runs that are on their way ---------------------------------------------------------------------

// Bounds what a program that is faster than its device can have waiting in host memory. One run is always let in, as
// are those of host callbacks, which the device waits for; and where nothing comes to an end for a while, all are.
class StagingBudget {
 public:
  void take(size_t bytes) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (taken_ > 0 && taken_ + bytes > kBytes && !in_host_callback()) {
      const uint64_t before = given_;
      if (!changed_.wait_for(lock, kPatience, [&] { return given_ != before; })) break;
    }
    taken_ += bytes;
  }

  void give(size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      taken_ -= bytes;
      ++given_;
    }
    changed_.notify_all();
  }

 private:
  static constexpr size_t kBytes = size_t{512} << 20;
  static constexpr std::chrono::seconds kPatience{1};

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t taken_ = 0;
  uint64_t given_ = 0;  // how often
};

StagingBudget& budget() {
  static StagingBudget* const instance = new StagingBudget;
  return *instance;
}

// A stretch of device memory and its copy. Operands that overlap share one, so that their copies overlap alike.
struct Staging {
  uintptr_t begin;
  uintptr_t end;
  std::unique_ptr<char, FreeHostMemory> memory;

  size_t bytes() const { return end - begin; }
  char* host(uintptr_t address) const { return memory.get() + (address - begin); }
};

// The stretches that operands cover, without their memory.
std::vector<Staging> stretches_of(const OpView& view) {
  std::vector<Staging> found;
  const auto add = [&](const uhal_tensor* operand) {
    if (operand == nullptr) return;
    const ByteSet bytes(*operand);
    if (!bytes.empty()) found.push_back({bytes.begin(), bytes.end(), nullptr});
  };
  for (int i = 0; i < view.op->input_count; ++i) add(view.op->inputs[i]);
  for (int i = 0; i < view.op->output_count; ++i) add(view.op->outputs[i]);
  std::sort(found.begin(), found.end(), [](const Staging& a, const Staging& b) { return a.begin < b.begin; });
  std::vector<Staging> merged;
  for (Staging& next : found) {
    // Stretches that only touch may belong to two allocations.
    if (!merged.empty() && next.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, next.end);
    } else {
      merged.push_back(std::move(next));
    }
  }
  return merged;
}

// The op with its kind's attributes, as backends get it.
uhal_op complete(const OpView& view) {
  uhal_op op = *view.op;
  op.attributes = view.attributes;
  return op;
}

// -- a run --------------------------------------------------------------------------------------------------------

class HostRun : public QueuedMemory {
 public:
  // Throws std::bad_alloc.
  HostRun(Stream* stream, const OpView& view, const uhal_host_kernels& kernels)
      : stream_(stream_pool().current_handle(stream)), kernels_(kernels), staging_(stretches_of(view)) {
    for (const Staging& part : staging_) bytes_ += part.bytes();
    budget().take(bytes_);
    try {
      prepare(view);
    } catch (...) {
      budget().give(bytes_);
      throw;
    }
  }
  HostRun(const HostRun&) = delete;
  HostRun& operator=(const HostRun&) = delete;
  ~HostRun() override { budget().give(bytes_); }

  // Queues a run; the stream's submission lock is held. The stream owns it from then on.
  static uhal_status submit(std::unique_ptr<HostRun> run, Stream* stream) {
    stream->abandoned.reserve(stream->abandoned.size() + 1);
    uhal_status status = run->copy_in(stream);
    if (status == UHAL_OK) status = call_after(stream, compute, run.get());
    if (status == UHAL_OK) status = run->copy_out(stream);
    if (status == UHAL_OK) status = call_after(stream, finish, run.get());
    if (status != UHAL_OK && run->queued_) {
      // Nobody knows when the device will have done with this memory, or whether it ever will.
      stream->abandoned.push_back(std::move(run));
    } else if (status == UHAL_OK) {
      static_cast<void>(run.release());  // finish() deletes it, and may have done so
    }
    return status;
  }

 private:
  void prepare(const OpView& view) {
    for (Staging& part : staging_) {
      // Of zeros: a copy that fails on the device leaves nothing undefined.
      part.memory.reset(static_cast<char*>(calloc(part.bytes(), 1)));
      if (part.memory == nullptr) throw std::bad_alloc();
    }
    op_ = std::make_unique<OwnedOp>(complete(view), [this](const uhal_tensor& operand) { return host_data(operand); });
    for (int i = 0; i < view.op->output_count; ++i) {
      if (view.op->outputs[i] != nullptr) outputs_.emplace_back(*view.op->outputs[i]);
    }
  }

  const Staging& staging_at(uintptr_t address) const {
    const auto after = std::upper_bound(staging_.begin(), staging_.end(), address,
                                        [](uintptr_t at, const Staging& part) { return at < part.begin; });
    return *std::prev(after);
  }

  void* host_data(const uhal_tensor& operand) const {
    if (ByteSet(operand).empty()) return nullptr;
    const auto data = reinterpret_cast<uintptr_t>(operand.data);
    return staging_at(data).host(data);
  }

  uhal_status copy(Stream* stream, void* destination, const void* source, size_t bytes, uhal_copy_kind kind) {
    const Backend& backend = *stream->device->backend;
    const uhal_status status =
        call_backend(backend, "copy", backend.table.copy, stream->backend_stream, destination, source, bytes, kind);
    queued_ = queued_ || status == UHAL_OK;
    return status;
  }

  // Outputs too: an op may read them, or leave some of their elements alone.
  uhal_status copy_in(Stream* stream) {
    for (const Staging& part : staging_) {
      UHAL_EXPECT(copy(stream, part.memory.get(), reinterpret_cast<const void*>(part.begin), part.bytes(),
                       UHAL_COPY_DEVICE_TO_HOST));
    }
    return UHAL_OK;
  }

  // What lies between the elements of an output belongs to others, who may be writing it.
  uhal_status copy_out(Stream* stream) {
    uhal_status status = UHAL_OK;
    for (const ByteSet& output : outputs_) {
      if (output.empty()) continue;
      const Staging& part = staging_at(output.begin());
      output.visit_runs([&](uintptr_t begin, uint64_t bytes) {
        status = copy(stream, reinterpret_cast<void*>(begin), part.host(begin), bytes, UHAL_COPY_HOST_TO_DEVICE);
        return status == UHAL_OK;
      });
      if (status != UHAL_OK) break;
    }
    return status;
  }

  // Calls a function in the stream's order.
  static uhal_status call_after(Stream* stream, uhal_host_function function, HostRun* run) {
    const Backend& backend = *stream->device->backend;
    if (backend.table.host_callback != nullptr) {
      return call_backend(backend, "host_callback", backend.table.host_callback, stream->backend_stream, function,
                          static_cast<void*>(run));
    }
    // With the submission lock, which keeps other threads' work out of the run. No function of the host waits for it:
    // without the slot, none is called on a thread of the backend's.
    const uhal_status status =
        call_backend(backend, "stream_synchronize", backend.table.stream_synchronize, stream->backend_stream);
    if (status == UHAL_OK) function(run);
    return status;
  }

  static void compute(void* run) {
    static_cast<void>(guarded([&]() -> uhal_status {
      ErrorRecordKeeper keeper;  // this may be a thread of the caller's
      auto* self = static_cast<HostRun*>(run);
      const uhal_status status = self->kernels_.launch(self->stream_, &self->op_->op());
      if (status == UHAL_OK) return status;
      Stream* stream = stream_of_backend(self->stream_);
      stream->sticky.set(status, op_display_name(self->op_->op()).c_str(), uhal_last_error()->message);
      return status;
    }));
  }

  static void finish(void* run) { delete static_cast<HostRun*>(run); }

  uhal_stream* const stream_;
  const uhal_host_kernels& kernels_;
  std::vector<Staging> staging_;  // by address
  size_t bytes_ = 0;
  std::unique_ptr<OwnedOp> op_;
  std::vector<ByteSet> outputs_;  // on the device
  bool queued_ = false;           // the device may hold addresses of the staging
};

uhal_status submit(Stream* stream, const OpView& view, const uhal_host_kernels& kernels) {
  auto run = std::make_unique<HostRun>(stream, view, kernels);
  TrackedWork tracked(stream, view);
  std::lock_guard<SubmissionLock> lock(stream->submission);
  ProfiledWork profiled(stream, view, " on the host");
  const uhal_status status = HostRun::submit(std::move(run), stream);
  if (status == UHAL_OK) tracked.submitted();
  return status;
}

// -- refusals -----------------------------------------------------------------------------------------------------

// What to call the dtype of an op: that in which it computes.
const char* dtype_of(const uhal_op& op) {
  uhal_dtype widest = UHAL_DTYPE_INVALID, first = UHAL_DTYPE_INVALID;
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* operand = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    if (operand == nullptr) continue;
    if (first == UHAL_DTYPE_INVALID) first = operand->dtype;
    const bool inexact = is_floating(operand->dtype) || is_complex(operand->dtype);
    if (inexact && uhal_dtype_size(operand->dtype) > uhal_dtype_size(widest)) widest = operand->dtype;
  }
  return uhal_dtype_name(widest != UHAL_DTYPE_INVALID ? widest : first);
}

// "Exp (map.exp)"
std::string name_of(const uhal_op& op) {
  const std::string kind = op_display_name(op);
  return op.label != nullptr && kind != op.label ? std::string(op.label) + " (" + kind + ")" : kind;
}

// An op that a device refused for a reason.
struct Refusal {
  const uhal_device& device;
  const uhal_op& op;
  const std::string& reason;
};

uhal_status refuse(const Refusal& refusal, const std::string& why_not_on_host) {
  return UHAL_FAIL(UHAL_UNIMPLEMENTED, "%s does not run %s of %s: %s. %s", refusal.device.label.c_str(),
                   name_of(refusal.op).c_str(), dtype_of(refusal.op), refusal.reason.c_str(), why_not_on_host.c_str());
}

uhal_status refuse_under_strict(const Refusal& refusal) {
  return refuse(refusal,
                "It would run on the host; UNIHAL_STRICT=1 forbids that. Unset it, or place the op on the CPU "
                "explicitly.");
}

// The kernels for an op, or nullptr and the failure in the record.
const uhal_host_kernels* kernels_for(const Refusal& refusal) {
  std::string missing;
  const uhal_host_kernels* kernels = host_kernels(&missing);
  if (kernels == nullptr) {
    static_cast<void>(refuse(refusal, "Nor can it run on the host: " + missing));
    return nullptr;
  }
  if (kernels->supports(&refusal.op) == UHAL_OK) return kernels;
  static_cast<void>(refuse(refusal, std::string("Nor does the host: ") + uhal_last_error()->message));
  return nullptr;
}

}  // namespace

uhal_status run_on_host(Stream* stream, const OpView& view, uint64_t serial) {
  uhal_device& device = *stream->device;
  if (runs_host_kernels(device)) return UHAL_UNIMPLEMENTED;
  const std::string reason = uhal_last_error()->message;
  const uhal_op op = complete(view);
  const Refusal refusal = {device, op, reason};
  if (stream->is_capturing()) {
    const std::string what = "An op that the device refuses (" + reason + "), which would run on the host,";
    return refuse_in_capture(*stream, what.c_str());
  }
  const bool strict = environment().strict;
  const uhal_host_kernels* kernels = strict ? nullptr : kernels_for(refusal);
  if (kernels == nullptr && !strict) return UHAL_UNIMPLEMENTED;
  const uhal_status counted = count_fallback(device.label, name_of(op), dtype_of(op), reason);
  if (strict) return refuse_under_strict(refusal);
  if (counted != UHAL_OK) return counted;
  const uhal_status status = submit(stream, view, *kernels);
  if (status == UHAL_OK) {
    forget_errors_since(serial);
  } else {
    append_error(" (The op was to run on the host, since the device refuses it: %s)", reason.c_str());
  }
  return status;
}

uhal_status host_supports(const uhal_device& device, const OpView& view, uint64_t serial) {
  if (runs_host_kernels(device)) return UHAL_UNIMPLEMENTED;
  const std::string reason = uhal_last_error()->message;
  const uhal_op op = complete(view);
  const Refusal refusal = {device, op, reason};
  if (environment().strict) return refuse_under_strict(refusal);
  if (kernels_for(refusal) == nullptr) return UHAL_UNIMPLEMENTED;
  forget_errors_since(serial);
  return UHAL_OK;
}

}  // namespace unihal::core
