// Events: a place in a stream's work.
//
// Threads: any.
#pragma once

#include <mutex>

#include "csrc/backends/opencl/api.h"
#include "unihal/backend.h"

namespace unihal::opencl {

struct Device;

// A reference to an event of OpenCL, or to none.
class EventReference {
 public:
  EventReference() = default;
  explicit EventReference(cl_event owned) : event_(owned) {}
  EventReference(const EventReference& other) : event_(other.event_) {
    if (event_ != nullptr) api.clRetainEvent(event_);
  }
  EventReference(EventReference&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  EventReference& operator=(EventReference other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~EventReference() {
    if (event_ != nullptr) api.clReleaseEvent(event_);
  }

  cl_event get() const { return event_; }
  explicit operator bool() const { return event_ != nullptr; }

 private:
  cl_event event_ = nullptr;
};

class Event {
 public:
  explicit Event(const Device& device) : device_(device) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Replaces what was recorded before.
  void set(EventReference recorded);
  EventReference recorded() const;

  // The slots of the backend's table, for events that were recorded.
  uhal_status query(int32_t* done) const;
  uhal_status synchronize() const;
  static uhal_status elapsed(const Event& start, const Event& end, int64_t* nanoseconds);

  static Event* from(uhal_backend_event* handle) { return reinterpret_cast<Event*>(handle); }
  uhal_backend_event* handle() { return reinterpret_cast<uhal_backend_event*>(this); }

 private:
  uhal_status reached_at(cl_ulong* nanoseconds) const;

  const Device& device_;
  mutable std::mutex mutex_;
  EventReference recorded_;
};

// Whether the command of an event has run. A command that failed is a failure, after a report.
uhal_status has_run(const Device& device, const EventReference& event, int32_t* done);

}  // namespace unihal::opencl
