#include "csrc/backends/opencl/event.h"

#include <utility>

#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/status.h"

namespace unihal::opencl {

uhal_status has_run(const Device& device, const EventReference& event, int32_t* done) {
  cl_int state = CL_COMPLETE;
  const cl_int code = api.clGetEventInfo(event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
  if (code != CL_SUCCESS) return fail_native(code, "%s does not tell the state of an event", device.name.c_str());
  if (state < 0) return fail_work(state, device.name);
  *done = state == CL_COMPLETE ? 1 : 0;
  return UHAL_OK;
}

void Event::set(EventReference recorded) {
  std::lock_guard<std::mutex> lock(mutex_);
  recorded_ = std::move(recorded);
}

EventReference Event::recorded() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return recorded_;
}

uhal_status Event::query(int32_t* done) const { return has_run(device_, recorded(), done); }

uhal_status Event::synchronize() const {
  const EventReference event = recorded();
  const cl_event handle = event.get();
  const cl_int code = api.clWaitForEvents(1, &handle);
  return code == CL_SUCCESS ? UHAL_OK : fail_work(code, device_.name);
}

uhal_status Event::reached_at(cl_ulong* nanoseconds) const {
  const cl_int code = api.clGetEventProfilingInfo(recorded().get(), CL_PROFILING_COMMAND_END, sizeof *nanoseconds,
                                                  nanoseconds, nullptr);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "%s gives no time of an event", device_.name.c_str());
}

uhal_status Event::elapsed(const Event& start, const Event& end, int64_t* nanoseconds) {
  cl_ulong from = 0;
  cl_ulong to = 0;
  if (const uhal_status status = start.reached_at(&from); status != UHAL_OK) return status;
  if (const uhal_status status = end.reached_at(&to); status != UHAL_OK) return status;
  *nanoseconds = static_cast<int64_t>(to) - static_cast<int64_t>(from);
  return UHAL_OK;
}

}  // namespace unihal::opencl
