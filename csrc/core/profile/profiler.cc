// The recording: a pair of backend events around each piece of work, read once they were reached.
#include "csrc/core/profile/profiler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "csrc/core/base/environment.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/handle/waiting.h"
#include "csrc/core/op/cost.h"
#include "csrc/core/op/description.h"
#include "unihal/profiler.h"

namespace unihal::core {

std::atomic<bool> profiling{false};

struct ProfiledWork::Pending {
  ProfileRecord record;
  Stream* stream;
  uhal_backend_event* begin;
  uhal_backend_event* end;
  uint64_t recording;  // the number of the recording it belongs to
};

namespace {

using Pending = ProfiledWork::Pending;

// The op that this thread launches, if it is recorded.
thread_local Pending* launched = nullptr;

// Between the parts that an op runs as.
constexpr char kPartSeparator[] = " + ";

// Appends a part to those of an op, unless it is one of them.
void add_part(std::string* parts, const std::string& part) {
  const std::string separator = kPartSeparator;
  if ((separator + *parts + separator).find(separator + part + separator) != std::string::npos) return;
  *parts += (parts->empty() ? "" : separator) + part;
}

using Clock = std::chrono::steady_clock;

// How a device's event times become nanoseconds since the start of the recording.
struct DeviceClock {
  uhal_backend_event* origin = nullptr;
  int64_t origin_nanoseconds = 0;
  std::vector<uhal_backend_event*> spare_events;
};

struct Recorder {
  std::mutex control;  // serializes start and stop; taken before `mutex`
  std::mutex mutex;    // guards the fields below; never held while waiting for a device
  uint64_t recording = 0;
  Clock::time_point start;
  int64_t system_start = 0;  // the same moment in nanoseconds since 1970
  std::map<uhal_device*, DeviceClock> clocks;
  std::deque<std::unique_ptr<Pending>> pending;  // in order of submission
  std::vector<ProfileRecord> records;
};

Recorder& recorder() {
  static Recorder* const instance = new Recorder;
  return *instance;
}

int64_t since_start(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - recorder().start).count();
}

int64_t system_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Reads both clocks. Between two readings of the system's the thread may have to wait for a core: of several, the pair
// that took the least time counts.
void note_start() {
  constexpr int kReadings = 8;
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const int64_t before = system_nanoseconds();
    const Clock::time_point start = Clock::now();
    const int64_t took = std::abs(system_nanoseconds() - before);  // somebody may set it back
    if (took >= shortest) continue;
    shortest = took;
    recorder().start = start;
    recorder().system_start = before + took / 2;
  }
}

// The functions below are called with the recorder's lock held. A failing event costs its record, never the
// work that is measured.

uhal_backend_event* take_event(uhal_device* device) {
  std::vector<uhal_backend_event*>& spare = recorder().clocks[device].spare_events;
  uhal_backend_event* event = nullptr;
  if (!spare.empty()) {
    event = spare.back();
    spare.pop_back();
  } else if (device->backend->table.event_create(device->backend_device, &event) != UHAL_OK) {
    return nullptr;
  }
  return event;
}

bool record_event(Stream* stream, uhal_backend_event** event) {
  *event = take_event(stream->device);
  return *event != nullptr && stream->device->backend->table.event_record(*event, stream->backend_stream) == UHAL_OK;
}

// The device's clock is set by the first work that is recorded on it. What was queued before that work makes all
// times of the device a little too early; waiting for it here could wait for a callback that wants our locks.
bool set_clock(Stream* stream) {
  DeviceClock& clock = recorder().clocks[stream->device];
  if (clock.origin != nullptr) return true;
  uhal_backend_event* origin = nullptr;
  if (!record_event(stream, &origin)) return false;
  clock.origin = origin;
  clock.origin_nanoseconds = since_start(Clock::now());
  return true;
}

bool is_reached(uhal_device* device, uhal_backend_event* event) {
  int32_t done = 0;
  return device->backend->table.event_query(event, &done) == UHAL_OK && done != 0;
}

// Reads the times of reached work.
void finish(std::unique_ptr<Pending> work) {
  uhal_device* device = work->record.device;
  const uhal_backend& table = device->backend->table;
  DeviceClock& clock = recorder().clocks[device];
  int64_t since_origin = 0;
  int64_t duration = 0;
  if (table.event_elapsed(clock.origin, work->begin, &since_origin) == UHAL_OK &&
      table.event_elapsed(work->begin, work->end, &duration) == UHAL_OK) {
    // Work on another stream may have begun before the clock's origin.
    work->record.start_nanoseconds = std::max<int64_t>(0, clock.origin_nanoseconds + since_origin);
    work->record.duration_nanoseconds = duration;
    recorder().records.push_back(std::move(work->record));
  }
  clock.spare_events.push_back(work->begin);
  clock.spare_events.push_back(work->end);
}

void finish_reached() {
  std::deque<std::unique_ptr<Pending>>& pending = recorder().pending;
  while (!pending.empty()) {
    uhal_device* device = pending.front()->record.device;
    if (!is_reached(device, recorder().clocks[device].origin) || !is_reached(device, pending.front()->end)) return;
    std::unique_ptr<Pending> work = std::move(pending.front());
    pending.pop_front();
    finish(std::move(work));
  }
}

void finish_all() {
  for (std::unique_ptr<Pending>& work : recorder().pending) finish(std::move(work));
  recorder().pending.clear();
  for (auto& [device, clock] : recorder().clocks) {
    const uhal_backend& table = device->backend->table;
    for (uhal_backend_event* event : clock.spare_events) static_cast<void>(table.event_destroy(event));
    if (clock.origin != nullptr) static_cast<void>(table.event_destroy(clock.origin));
  }
  recorder().clocks.clear();
}

// The events that must be reached before the recording can be read.
std::vector<std::pair<uhal_device*, uhal_backend_event*>> awaited_events() {
  std::vector<std::pair<uhal_device*, uhal_backend_event*>> events;
  for (auto& [device, clock] : recorder().clocks) {
    if (clock.origin != nullptr) events.emplace_back(device, clock.origin);
  }
  for (std::unique_ptr<Pending>& work : recorder().pending) events.emplace_back(work->record.device, work->end);
  return events;
}

// A recording that was stopped meanwhile has destroyed its clock; the begin event goes as well.
bool give_up(const Pending& work) {
  if (work.recording == recorder().recording && profiling.load(std::memory_order_relaxed)) return false;
  static_cast<void>(work.record.device->backend->table.event_destroy(work.begin));
  return true;
}

Pending* begin_work(Stream* stream, ProfileRecord record) {
  const Clock::time_point submitted = Clock::now();
  std::lock_guard<std::mutex> lock(recorder().mutex);
  if (!profiling.load(std::memory_order_relaxed)) return nullptr;  // stopped meanwhile
  auto work = std::make_unique<Pending>();
  work->record = std::move(record);
  work->record.device = stream->device;
  work->record.stream = stream->number;
  work->record.submit_nanoseconds = since_start(submitted);
  work->record.thread = static_cast<uint64_t>(syscall(SYS_gettid));
  work->record.estimated_nanoseconds =
      estimated_nanoseconds(stream->device->properties, work->record.bytes, work->record.flops);
  work->stream = stream;
  work->recording = recorder().recording;
  if (!set_clock(stream) || !record_event(stream, &work->begin)) return nullptr;
  return work.release();
}

}  // namespace

void ProfiledWork::begin(Stream* stream, const char* name, uint64_t bytes) {
  ProfileRecord record = {};
  record.name = record.op = name;
  record.shape = std::to_string(bytes) + " bytes";
  record.bytes = bytes;
  work_ = begin_work(stream, std::move(record));
}

void ProfiledWork::begin(Stream* stream, const uhal_graph_info& graph) {
  ProfileRecord record = {};
  record.name = record.op = "graph";
  record.shape = std::to_string(graph.work_count) + " pieces of work";
  record.bytes = graph.bytes;
  record.flops = graph.flops;
  work_ = begin_work(stream, std::move(record));
}

void ProfiledWork::begin(Stream* stream, const OpView& op, const char* where) {
  ProfileRecord record = {};
  record.op = op_display_name(*op.op) + where;
  record.name = op.op->label != nullptr ? op.op->label : record.op;
  record.shape = describe_operands(*op.op);
  record.bytes = op_bytes(*op.op);
  record.flops = op.row->flops(op);
  work_ = begin_work(stream, std::move(record));
  launched = work_;
}

void note_implementation(const char* format, ...) {
  if (launched == nullptr) return;
  char part[128];
  va_list values;
  va_start(values, format);
  vsnprintf(part, sizeof part, format, values);
  va_end(values);
  try {
    add_part(&launched->record.implementation, part);
  } catch (const std::bad_alloc&) {  // costs the note, never the work
  }
}

void ProfiledWork::end() {
  std::unique_ptr<Pending> work(work_);
  launched = nullptr;
  std::lock_guard<std::mutex> lock(recorder().mutex);
  if (give_up(*work)) return;
  if (!record_event(work->stream, &work->end)) return;
  work->record.submit_duration_nanoseconds = since_start(Clock::now()) - work->record.submit_nanoseconds;
  recorder().pending.push_back(std::move(work));
  finish_reached();
}

void ProfiledWork::forget() {
  std::unique_ptr<Pending> work(work_);
  work_ = nullptr;
  launched = nullptr;
  std::lock_guard<std::mutex> lock(recorder().mutex);
  if (!give_up(*work)) recorder().clocks[work->record.device].spare_events.push_back(work->begin);
}

void start_profiler_by_environment() {
  static std::atomic<bool> started{false};
  if (environment().profile.empty() || started.exchange(true)) return;
  if (uhal_profiler_start() != UHAL_OK) return;
  // Asked for by the user, so that a program that never calls uhal_finalize has its trace too.
  atexit(finish_profiler_by_environment);
}

void finish_profiler_by_environment() {
  static std::atomic<bool> finished{false};
  if (environment().profile.empty() || process_state.load() != ProcessState::kRunning || finished.exchange(true))
    return;
  if (uhal_profiler_stop() == UHAL_OK && uhal_profiler_write_trace(environment().profile.c_str()) == UHAL_OK) return;
  fprintf(stderr, "unihal: no profile was written: %s\n", uhal_last_error()->message);
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_profiler_start(void) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> control(recorder().control);
    std::lock_guard<std::mutex> lock(recorder().mutex);
    if (profiling.load()) {
      return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                       "A recording is running already; stop it with uhal_profiler_stop first.");
    }
    set_profile_records({});
    recorder().records.clear();
    ++recorder().recording;
    note_start();
    profiling.store(true);
    return UHAL_OK;
  });
}

int64_t uhal_profiler_start_time(void) {
  std::lock_guard<std::mutex> lock(recorder().mutex);
  return recorder().system_start;
}

uhal_status uhal_profiler_stop(void) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    UHAL_EXPECT(refuse_wait_in_callback("uhal_profiler_stop"));
    std::lock_guard<std::mutex> control(recorder().control);
    std::vector<std::pair<uhal_device*, uhal_backend_event*>> events;
    {
      std::lock_guard<std::mutex> lock(recorder().mutex);
      if (!profiling.exchange(false)) return UHAL_OK;
      events = awaited_events();
    }
    for (auto [device, event] : events) static_cast<void>(device->backend->table.event_synchronize(event));
    std::lock_guard<std::mutex> lock(recorder().mutex);
    finish_all();
    set_profile_records(std::move(recorder().records));
    recorder().records.clear();
    return UHAL_OK;
  });
}
