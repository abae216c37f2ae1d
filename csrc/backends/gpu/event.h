// Events: a place in a stream's work.
//
// Threads: any.
#pragma once

#include "csrc/backends/gpu/api.h"
#include "unihal/backend.h"

namespace unihal::gpu {

struct Device;

class Event {
 public:
  explicit Event(const Device& device) : device_(device) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Makes the driver's event, kEventTimed or kEventUntimed. After a failure this one is of no use.
  uhal_status open(unsigned kind = kEventTimed);

  NativeEvent get() const { return event_; }

  // The slots of the backend's table.
  uhal_status query(int32_t* done) const;
  uhal_status synchronize() const;
  static uhal_status elapsed(const Event& start, const Event& end, int64_t* nanoseconds);

  static Event* from(uhal_backend_event* handle) { return reinterpret_cast<Event*>(handle); }
  uhal_backend_event* handle() { return reinterpret_cast<uhal_backend_event*>(this); }

 private:
  const Device& device_;
  NativeEvent event_ = nullptr;
};

}  // namespace unihal::gpu
