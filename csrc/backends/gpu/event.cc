#include "csrc/backends/gpu/event.h"

#include <cmath>

#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/status.h"

namespace unihal::gpu {

Event::~Event() {
  if (event_ == nullptr || device_.make_current() != UHAL_OK) return;
  static_cast<void>(api.event_destroy(event_));  // while work is pending, the driver keeps it until then
}

uhal_status Event::open(unsigned kind) {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  const int code = api.event_create(&event_, kind);
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s gives no event", device_.name.c_str());
}

uhal_status Event::query(int32_t* done) const {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  const int code = api.event_query(event_);
  *done = code == kSuccess ? 1 : 0;
  return code == kSuccess || code == kNotReady ? UHAL_OK : fail_work(code, device_.name);
}

uhal_status Event::synchronize() const {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  const int code = api.event_synchronize(event_);
  return code == kSuccess ? UHAL_OK : fail_work(code, device_.name);
}

uhal_status Event::elapsed(const Event& start, const Event& end, int64_t* nanoseconds) {
  if (const uhal_status status = start.device_.make_current(); status != UHAL_OK) return status;
  float milliseconds = 0;
  const int code = api.event_elapsed(&milliseconds, start.event_, end.event_);
  if (code != kSuccess) return fail_native(code, "%s gives no time between two events", start.device_.name.c_str());
  *nanoseconds = std::llround(static_cast<double>(milliseconds) * 1e6);
  return UHAL_OK;
}

}  // namespace unihal::gpu
