// Each device becomes a plane of TensorFlow's XSpace, each stream a line, each recorded piece of work an event with its
// bytes, FLOPs, shapes and what it ran on. The messages are those of xplane.proto, by field number.
//
// unihal has one recording per process, TensorFlow a profiler per type: the first start begins the recording, the first
// stop ends it, and each type collects its own devices.
#include "plugins/tensorflow/profiler.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "plugins/tensorflow/protobuf.h"
#include "unihal/profiler.h"

namespace unihal::tensorflow {
namespace {

struct Session {
  std::mutex mutex;
  bool ours = false;  // whether this adapter started the recording
  int64_t begin = 0;  // nanoseconds since 1970, when it did
};

Session& session() {
  static auto* instance = new Session;
  return *instance;
}

// Names with numbers, as a plane keeps them.
class Names {
 public:
  uint64_t number(const std::string& name) { return numbers_.emplace(name, numbers_.size() + 1).first->second; }

  // Appends them to a plane as a map field from number to metadata.
  void append(std::string* plane, int field) const {
    enum { kEntryKey = 1, kEntryValue = 2, kMetadataId = 1, kMetadataName = 2 };
    for (const auto& [name, number] : numbers_) {
      std::string metadata, entry;
      append_integer(&metadata, kMetadataId, number);
      append_bytes(&metadata, kMetadataName, name);
      append_integer(&entry, kEntryKey, number);
      append_bytes(&entry, kEntryValue, metadata);
      append_bytes(plane, field, entry);
    }
  }

 private:
  std::map<std::string, uint64_t> numbers_;
};

enum { kSpacePlanes = 1 };
enum { kPlaneId = 1, kPlaneName = 2, kPlaneLines = 3, kPlaneEventMetadata = 4, kPlaneStatMetadata = 5 };
enum { kLineId = 1, kLineName = 2, kLineTimestamp = 3, kLineEvents = 4 };
enum { kEventMetadata = 1, kEventOffset = 2, kEventDuration = 3, kEventStats = 4 };
enum { kStatMetadata = 1, kStatUnsigned = 3, kStatText = 5 };

struct Plane {
  Names events;
  Names stats;
  std::map<uint64_t, std::string> lines;  // by stream: its events

  void add(const uhal_profiler_event& event) {
    constexpr int64_t kPicoseconds = 1000;  // of a nanosecond
    std::string message;
    append_integer(&message, kEventMetadata, events.number(event.name));
    append_integer(&message, kEventOffset, static_cast<uint64_t>(event.start_nanoseconds * kPicoseconds));
    append_integer(&message, kEventDuration, static_cast<uint64_t>(event.duration_nanoseconds * kPicoseconds));
    add_number(&message, "bytes_accessed", event.bytes);
    add_number(&message, "flops", event.flops);
    if (event.estimated_nanoseconds > 0) {
      add_number(&message, "estimated_ns", static_cast<uint64_t>(event.estimated_nanoseconds));
    }
    add_text(&message, "op", event.op);
    add_text(&message, "shape", event.shape);
    add_text(&message, "implementation", event.implementation);
    append_bytes(&lines[event.stream], kLineEvents, message);
  }

 private:
  void add_number(std::string* event, const char* name, uint64_t value) {
    std::string stat;
    append_integer(&stat, kStatMetadata, stats.number(name));
    append_integer(&stat, kStatUnsigned, value);
    append_bytes(event, kEventStats, stat);
  }
  void add_text(std::string* event, const char* name, const char* value) {
    if (value == nullptr || *value == '\0') return;
    std::string stat;
    append_integer(&stat, kStatMetadata, stats.number(name));
    append_bytes(&stat, kStatText, value);
    append_bytes(event, kEventStats, stat);
  }
};

// The recording of a type's devices as an XSpace.
std::string space_of(const char* type, const std::string& device_type, int64_t begin) {
  std::map<int32_t, Plane> planes;  // by ordinal
  for (size_t i = 0; i < uhal_profiler_event_count(); ++i) {
    uhal_profiler_event event = {};
    event.struct_size = sizeof event;
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    if (uhal_profiler_event_get(i, &event) != UHAL_OK) continue;
    if (uhal_device_properties_get(event.device, &properties) != UHAL_OK) continue;
    if (device_type == properties.device_type) planes[properties.ordinal].add(event);
  }
  std::string space;
  for (auto& [ordinal, content] : planes) {
    std::string plane;
    append_integer(&plane, kPlaneId, static_cast<uint64_t>(ordinal) + 1);
    // The prefix under which TensorBoard looks for devices that it does not know.
    append_bytes(&plane, kPlaneName, "/device:CUSTOM:" + std::string(type) + ":" + std::to_string(ordinal));
    for (const auto& [stream, events] : content.lines) {
      std::string line;
      append_integer(&line, kLineId, stream);
      append_bytes(&line, kLineName, "stream " + std::to_string(stream));
      append_integer(&line, kLineTimestamp, static_cast<uint64_t>(begin));
      line += events;
      append_bytes(&plane, kPlaneLines, line);
    }
    content.events.append(&plane, kPlaneEventMetadata);
    content.stats.append(&plane, kPlaneStatMetadata);
    append_bytes(&space, kSpacePlanes, plane);
  }
  return space;
}

// What TP_Profiler::ext is.
struct Profiler {
  const char* type;
  std::string device_type;  // "" without devices
  std::string space;        // between the two calls of collect()
};

Profiler& profiler_of(const TP_Profiler* profiler) { return *static_cast<Profiler*>(profiler->ext); }

void start(const TP_Profiler* profiler, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  if (profiler_of(profiler).device_type.empty()) return;
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.ours) return;
  if (uhal_profiler_start() != UHAL_OK) {
    // A recording of the program's own (UNIHAL_PROFILE, uhal.profiler): it keeps it, and TensorFlow's profile lacks us.
    return TF_SetStatus(status, TF_FAILED_PRECONDITION, uhal_last_error()->message);
  }
  s.ours = true;
  s.begin = uhal_profiler_start_time();
}

void stop(const TP_Profiler* profiler, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  Profiler& self = profiler_of(profiler);
  if (self.device_type.empty()) return;
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.ours && uhal_profiler_stop() != UHAL_OK) {
    TF_SetStatus(status, TF_INTERNAL, uhal_last_error()->message);
  }
  s.ours = false;
  self.space = s.begin != 0 ? space_of(self.type, self.device_type, s.begin) : "";
}

void collect(const TP_Profiler* profiler, uint8_t* buffer, size_t* size, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  Profiler& self = profiler_of(profiler);
  const size_t room = *size;
  *size = self.space.size();
  if (buffer == nullptr) return;
  if (room < self.space.size()) {
    return TF_SetStatus(status, TF_INVALID_ARGUMENT, "the buffer is smaller than the profile");
  }
  std::memcpy(buffer, self.space.data(), self.space.size());
  self.space.clear();
}

// TensorFlow calls these of copies of its structs too, while others live on: what is registered stays.
void destroy_profiler(TP_Profiler*) {}
void destroy_functions(TP_ProfilerFns*) {}

}  // namespace

void fill_profiler_registration(const char* type, const char* device_type, TF_ProfilerRegistrationParams* params) {
  params->struct_size = TF_PROFILER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->profiler->struct_size = TP_PROFILER_STRUCT_SIZE;
  params->profiler->device_type = type;
  params->profiler->ext = new Profiler{type, device_type, ""};
  params->profiler_fns->struct_size = TP_PROFILER_FNS_STRUCT_SIZE;
  params->profiler_fns->start = start;
  params->profiler_fns->stop = stop;
  params->profiler_fns->collect_data_xspace = collect;
  params->destroy_profiler = destroy_profiler;
  params->destroy_profiler_fns = destroy_functions;
}

}  // namespace unihal::tensorflow
