#include "csrc/backends/opencl/stream.h"

#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "csrc/backends/opencl/address_space.h"
#include "csrc/backends/opencl/clblast.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/live_streams.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/fill_pieces.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/views.h"

namespace unihal::opencl {
namespace {

// A queue that nobody waits for is flushed after so many commands: often enough to keep the device busy, seldom enough
// to cost nothing.
constexpr int kCommandsPerFlush = 16;

// How far into a buffer drivers fill. NVIDIA's (580) has 32 bits for offsets and sizes: beyond, it loses the device or
// fills a part. What reaches farther is filled by a kernel.
constexpr size_t kFarthestDriverFill = size_t{1} << 30;

}  // namespace

Stream::Stream(Device& device, uhal_stream* owner)
    : Queue(device.traits), device_(device), owner_(owner), kernels_(device), error_cell_(device) {}

Stream::~Stream() {
  if (queue_ != nullptr) api.clReleaseCommandQueue(queue_);
}

uhal_status Stream::open() {
  cl_int code = CL_SUCCESS;
  queue_ = api.clCreateCommandQueue(device_.context, device_.id, CL_QUEUE_PROFILING_ENABLE, &code);
  return queue_ != nullptr ? UHAL_OK : fail_native(code, "%s gives no command queue", device_.name.c_str());
}

// Notes a command that was enqueued, or reports why not.
uhal_status Stream::submitted(cl_int code, const char* what) {
  if (code != CL_SUCCESS) return fail_native(code, "%s does not take %s", device_.name.c_str(), what);
  submissions_.store(submissions_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (++unflushed_ < kCommandsPerFlush) return UHAL_OK;
  unflushed_ = 0;
  code = api.clFlush(queue_);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s does not begin its work", device_.name.c_str());
}

uhal_status Stream::library_gemm(const MatmulProblem& problem, kernels::LibraryAlgorithm, void*) {
  const uhal_status status = clblast_gemm(queue_, problem, device_.name);
  if (status != UHAL_OK) return status;
  kernels::note_implementation("%s", device_.traits.gemm_library->name());
  return submitted(CL_SUCCESS, "");
}

uhal_status Stream::run(const kernels::KernelSpec& spec, const kernels::Arguments& arguments,
                        const kernels::Grid& grid) {
  KernelInstance* instance;
  if (const uhal_status status = kernels_.find(spec, &instance); status != UHAL_OK) return status;
  return run_known(*instance, arguments, grid);
}

kernels::KnownKernel* Stream::find_known(const kernels::KernelSpec& spec) {
  KernelInstance* instance;
  return kernels_.find(spec, &instance) == UHAL_OK ? instance : nullptr;
}

uhal_status Stream::run_known(kernels::KnownKernel& known, const kernels::Arguments& arguments,
                              const kernels::Grid& grid) {
  KernelInstance* const instance = static_cast<KernelInstance*>(&known);
  size_t global[3];
  size_t local[3];
  cl_uint dimensions = 1;
  for (cl_uint axis = 0; axis < 3; ++axis) {
    local[axis] = static_cast<size_t>(grid.group_size[axis]);
    global[axis] = static_cast<size_t>(grid.groups[axis]) * local[axis];
    if (global[axis] > 1) dimensions = axis + 1;
  }
  const size_t group_size = local[0] * local[1] * local[2];
  if (group_size > instance->max_group_size() && group_size == local[0] && instance->takes_any_group_size()) {
    // As many work-items in smaller groups: a kernel that declares no size only strides by the grid.
    const size_t items = global[0];
    local[0] = instance->max_group_size();
    global[0] = (items + local[0] - 1) / local[0] * local[0];
  } else if (group_size > instance->max_group_size()) {
    return kernels::fail(UHAL_UNIMPLEMENTED,
                         "%s runs %s with at most %llu work-items in a group (CL_KERNEL_WORK_GROUP_SIZE), and %llu are "
                         "needed",
                         device_.name.c_str(), known.spec().describe().c_str(), number(instance->max_group_size()),
                         number(group_size));
  }
  if (const uhal_status status = instance->set(arguments); status != UHAL_OK) return status;
  const cl_int code =
      api.clEnqueueNDRangeKernel(queue_, instance->kernel(), dimensions, nullptr, global, local, 0, nullptr, nullptr);
  return submitted(code, code == CL_SUCCESS ? "" : known.spec().describe().c_str());
}

uhal_status Stream::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return UHAL_OK;
  const AddressSpace& addresses = AddressSpace::instance();
  Place to;
  Place from;
  const bool to_device = addresses.resolve(destination, &to);
  const bool from_device = addresses.resolve(source, &from);
  if (to_device && from_device) {
    return submitted(
        api.clEnqueueCopyBuffer(queue_, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, nullptr, nullptr),
        "a copy on the device");
  }
  if (to_device) {
    return submitted(
        api.clEnqueueWriteBuffer(queue_, to.buffer, CL_FALSE, to.offset, bytes, source, 0, nullptr, nullptr),
        "a copy to the device");
  }
  if (from_device) {
    return submitted(
        api.clEnqueueReadBuffer(queue_, from.buffer, CL_FALSE, from.offset, bytes, destination, 0, nullptr, nullptr),
        "a copy from the device");
  }
  return call([=] { std::memcpy(destination, source, bytes); });
}

uhal_status Stream::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return UHAL_OK;
  Place place;
  if (!AddressSpace::instance().resolve(destination, &place)) {
    std::array<char, 16> copied;
    std::memcpy(copied.data(), pattern, pattern_bytes);
    return call([=] {
      for (size_t i = 0; i < bytes; i += pattern_bytes) {
        std::memcpy(static_cast<char*>(destination) + i, copied.data(), pattern_bytes);
      }
    });
  }
  return kernels::fill_pieces(
      place.offset, pattern, pattern_bytes, bytes,
      [&](const char* begin, size_t piece, size_t offset, size_t length) -> uhal_status {
        const size_t at = place.offset + offset;
        if (at + length > kFarthestDriverFill) {
          return kernels::fill_by_kernel(*this, static_cast<char*>(destination) + offset, begin, piece, length);
        }
        return submitted(api.clEnqueueFillBuffer(queue_, place.buffer, begin, piece, at, length, 0, nullptr, nullptr),
                         "a fill");
      });
}

uhal_status Stream::workspace(size_t bytes, void** pointer) {
  return kernels::host().workspace(owner_, bytes, pointer);
}

uhal_status Stream::error_cell(const uhal_op& op, void** cell, int64_t* ticket) {
  return error_cell_.get(queue_, op, cell, ticket);
}

// A marker after the work submitted so far, on its way to the device. `timed`: one whose time the driver tells.
uhal_status Stream::mark(bool timed, EventReference* event) {
  cl_event marker = nullptr;
  cl_int code;
  if (timed && device_.clock_cell != nullptr) {
    const cl_int zero = 0;
    code = api.clEnqueueFillBuffer(queue_, device_.clock_cell, &zero, sizeof zero, 0, sizeof zero, 0, nullptr, &marker);
  } else {
    code = api.clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker);
  }
  if (code != CL_SUCCESS) return fail_native(code, "%s does not take a marker", device_.name.c_str());
  *event = EventReference(marker);
  code = api.clFlush(queue_);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s does not begin its work", device_.name.c_str());
}

uhal_status Stream::query(int32_t* done) {
  const uint64_t submissions = submissions_.load(std::memory_order_acquire);
  if (completions_.load(std::memory_order_acquire) < submissions) {
    std::lock_guard<std::mutex> lock(query_mutex_);
    // Asked again and again without new work, the same marker answers.
    if (query_submissions_ != submissions) {
      if (const uhal_status status = mark(false, &query_marker_); status != UHAL_OK) return status;
      query_submissions_ = submissions;
    }
    const uhal_status status = has_run(device_, query_marker_, done);
    if (status != UHAL_OK || *done == 0) return status;
    completed(submissions);
  }
  *done = 1;
  return error_cell_.collect(queue_, owner_);
}

uhal_status Stream::synchronize() {
  const uint64_t submissions = submissions_.load(std::memory_order_acquire);
  const cl_int code = api.clFinish(queue_);
  if (code != CL_SUCCESS) return fail_work(code, device_.name);
  note_synchronized_stream();
  completed(submissions);
  return error_cell_.collect(queue_, owner_);
}

void Stream::drain_until(std::chrono::steady_clock::time_point time) {
  constexpr std::chrono::microseconds kPause{200};
  int32_t done = 0;
  while (query(&done) == UHAL_OK && done == 0 && std::chrono::steady_clock::now() < time) {
    std::this_thread::sleep_for(kPause);
  }
  host_work_.wait_until(time);
}

// Notes that the first so many submissions have run.
void Stream::completed(uint64_t submissions) {
  uint64_t known = completions_.load(std::memory_order_relaxed);
  while (known < submissions && !completions_.compare_exchange_weak(known, submissions, std::memory_order_release)) {
  }
}

uhal_status Stream::record(Event* event) {
  EventReference marker;
  const uhal_status status = mark(true, &marker);
  if (status == UHAL_OK) event->set(std::move(marker));
  return status;
}

uhal_status Stream::wait(const Event& event) {
  const EventReference recorded = event.recorded();
  if (!recorded) return UHAL_OK;
  const cl_event handle = recorded.get();
  return submitted(api.clEnqueueBarrierWithWaitList(queue_, 1, &handle, nullptr), "a wait for an event");
}

uhal_status Stream::call(std::function<void()> function) {
  cl_int code = CL_SUCCESS;
  const EventReference after(api.clCreateUserEvent(device_.context, &code));
  if (!after) return fail_native(code, "%s gives no user event", device_.name.c_str());
  EventReference before;
  if (const uhal_status status = mark(false, &before); status != UHAL_OK) return status;
  const cl_event handle = after.get();
  code = api.clEnqueueBarrierWithWaitList(queue_, 1, &handle, nullptr);
  if (code == CL_SUCCESS) {
    try {
      host_work_.submit(before, after, std::move(function));
    } catch (...) {
      static_cast<void>(api.clSetUserEventStatus(handle, CL_COMPLETE));  // nobody else would
      throw;
    }
  }
  // Now that the barrier is going to be lifted: there are drivers whose clFlush waits for it.
  return submitted(code, "a function of the host");
}

}  // namespace unihal::opencl
