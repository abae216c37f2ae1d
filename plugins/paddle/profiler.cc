#include "plugins/paddle/profiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "plugins/paddle/library.h"
#include "unihal/device.h"
#include "unihal/profiler.h"

namespace unihal::paddle {
namespace {

// phi::TracerEventType
enum EventType : int32_t { kRuntimeCall = 3, kKernel = 4, kCopy = 5, kFill = 6 };

// phi::RuntimeTraceEvent: a call on the host, of its thread.
struct RuntimeEvent {
  std::string name;
  EventType type;
  uint64_t start;
  uint64_t end;
  uint64_t process;
  uint64_t thread;
  uint32_t correlation;
  uint32_t callback;
};

// phi::DeviceTraceEvent; the call of the same correlation submitted it. What follows is about CUDA's launches and kinds
// of memory, as large as the largest of that.
constexpr size_t kDetailBytes = 160;
constexpr size_t kDetailNameBytes = 50;
struct CopyDetail {
  uint64_t bytes;
  char kind[kDetailNameBytes];
  char source[kDetailNameBytes];
  char destination[kDetailNameBytes];
};
static_assert(sizeof(CopyDetail) == kDetailBytes);
struct DeviceEvent {
  std::string name;
  EventType type;
  uint64_t start;
  uint64_t end;
  uint64_t device;
  uint64_t context;
  uint64_t stream;
  uint32_t correlation;
  union {
    char none[kDetailBytes];
    CopyDetail copy;
    uint64_t fill_bytes;
  };
};

using AddEvent = void (*)(void* collector, void* event);
constexpr const char* kAddRuntimeEvent = "profiler_add_runtime_trace_event";
constexpr const char* kAddDeviceEvent = "profiler_add_device_trace_event";

struct Recording {
  std::mutex mutex;
  bool running = false;  // by the first tracer's start
  bool made = false;     // there is one to be given
};
Recording& recording() {
  static Recording* const instance = new Recording;
  return *instance;
}

Status initialize(void*, void** user_data) {
  *user_data = nullptr;
  return kSuccess;
}
Status do_nothing(void*, void*) { return kSuccess; }

// Paddle starts its tracers one after another, and then stops each and takes what it has before it stops the next: the
// first to come begins and ends the recording for all.
Status start(void*, void*) {
  std::lock_guard<std::mutex> lock(recording().mutex);
  if (recording().running) return kSuccess;
  recording().running = recording().made = uhal_profiler_start() == UHAL_OK;
  if (!recording().made) {
    std::fprintf(stderr, "unihal: Paddle's profiler shows no work of the devices: %s\n", uhal_last_error()->message);
  }
  return kSuccess;
}

Status stop(void*, void*) {
  std::lock_guard<std::mutex> lock(recording().mutex);
  if (!recording().running) return kSuccess;
  recording().running = false;
  if (uhal_profiler_stop() != UHAL_OK) {
    std::fprintf(stderr, "unihal: the recording for Paddle's profiler: %s\n", uhal_last_error()->message);
  }
  return kSuccess;
}

bool begins_with(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

void describe_event(DeviceEvent* event, const uhal_profiler_event& work) {
  std::memset(event->none, 0, sizeof event->none);
  event->type = kKernel;
  if (begins_with(work.op, "fill")) {
    event->type = kFill;
    event->fill_bytes = work.bytes;
  } else if (begins_with(work.op, "copy.")) {
    event->type = kCopy;
    event->copy.bytes = work.bytes;
    std::snprintf(event->copy.kind, kDetailNameBytes, "%s", work.op + std::strlen("copy."));
  }
}

bool is_of_type(const uhal_device* device, const char* device_type, int32_t* ordinal) {
  int32_t count = 0;
  if (uhal_device_count(device_type, &count) != UHAL_OK) return false;
  for (*ordinal = 0; *ordinal < count; ++*ordinal) {
    uhal_device* candidate = nullptr;
    if (uhal_device_get(device_type, *ordinal, &candidate) == UHAL_OK && candidate == device) return true;
  }
  return false;
}

}  // namespace

void give_profiled_work(void* collector, const char* device_type) {
  void* library = find_paddle_library(kAddDeviceEvent);
  if (library == nullptr) return;
  const auto add_call = reinterpret_cast<AddEvent>(dlsym(library, kAddRuntimeEvent));
  const auto add_work = reinterpret_cast<AddEvent>(dlsym(library, kAddDeviceEvent));
  std::lock_guard<std::mutex> lock(recording().mutex);
  if (!recording().made || add_call == nullptr) return;
  const auto origin = static_cast<uint64_t>(uhal_profiler_start_time());  // Paddle's clock is the system's
  for (size_t i = 0; i < uhal_profiler_event_count(); ++i) {
    uhal_profiler_event work = {};
    work.struct_size = sizeof work;
    int32_t ordinal = 0;
    if (uhal_profiler_event_get(i, &work) != UHAL_OK || !is_of_type(work.device, device_type, &ordinal)) continue;
    const auto correlation = static_cast<uint32_t>(i + 1);
    const uint64_t submitted = origin + static_cast<uint64_t>(work.submit_nanoseconds);
    RuntimeEvent call = {std::string("submit ") + work.op,
                         kRuntimeCall,
                         submitted,
                         submitted + static_cast<uint64_t>(work.submit_duration_nanoseconds),
                         static_cast<uint64_t>(getpid()),
                         work.thread,
                         correlation,
                         0};
    const uint64_t began = origin + static_cast<uint64_t>(work.start_nanoseconds);
    DeviceEvent event = {work.name,
                         kKernel,
                         began,
                         began + static_cast<uint64_t>(work.duration_nanoseconds),
                         static_cast<uint64_t>(ordinal),
                         0,
                         work.stream,
                         correlation,
                         {}};
    describe_event(&event, work);
    add_call(collector, &call);
    add_work(collector, &event);
  }
}

const Callback* profiler_callbacks() {
#define UNIHAL_CALLBACK(slot, function)      \
  {                                          \
    slot, reinterpret_cast<void*>(&function) \
  }
  static const Callback table[] = {
      UNIHAL_CALLBACK("profiler_initialize", initialize),      UNIHAL_CALLBACK("profiler_finalize", do_nothing),
      UNIHAL_CALLBACK("profiler_prepare_tracing", do_nothing), UNIHAL_CALLBACK("profiler_start_tracing", start),
      UNIHAL_CALLBACK("profiler_stop_tracing", stop),          {nullptr, nullptr},
  };
#undef UNIHAL_CALLBACK
  return table;
}

}  // namespace unihal::paddle
