// A backend for tests of the core: host memory, streams that run at once or on a thread, and faults on request.
// variant.cc makes variants of it that a loader must refuse.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "tests/core/fake/fake_control.h"
#include "tests/core/fake/variant.h"
#include "unihal/graph_capture.h"

struct uhal_backend_device {
  int32_t ordinal;
  std::atomic<uint64_t> used{0};
};

struct uhal_backend_event {
  std::mutex mutex;
  std::condition_variable reached_changed;
  uint64_t recorded = 0;
  uint64_t reached = 0;
  int64_t nanoseconds = 0;
};

struct uhal_backend_graph {
  std::vector<std::function<void()>> work;
};

struct uhal_backend_stream {
  uhal_stream* owner;
  bool asynchronous;
  std::mutex mutex;
  std::condition_variable changed;
  std::queue<std::function<void()>> work;
  bool busy = false;
  bool stop = false;
  std::atomic<int32_t> submitters{0};
  std::atomic<uhal_backend_graph*> capturing{nullptr};
  std::thread thread;
};

namespace {

const uhal_host* host;
fake::Control control;

// The live allocations: end by start.
std::mutex allocations_mutex;
std::map<char*, char*> allocations;

bool is_allocated(void* address, size_t bytes) {
  char* start = static_cast<char*>(address);
  std::lock_guard<std::mutex> lock(allocations_mutex);
  auto after = allocations.upper_bound(start);
  return after != allocations.begin() && start + bytes <= std::prev(after)->second;
}

// Counts down a fault; true when this call shall fail.
bool fault(std::atomic<int64_t>& in, std::atomic<int64_t>& every, int64_t call) {
  if (in > 0 && --in == 0) return true;
  return every > 0 && call % every == 0;
}

uhal_status fail(uhal_status status, const char* message) {
  if (!control.silent_failures) host->report(status, 77, "FAKE_ERROR", message);
  return status;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void run_stream(uhal_backend_stream* stream) {
  std::unique_lock<std::mutex> lock(stream->mutex);
  for (;;) {
    auto ready = [&] { return stream->stop || (!stream->work.empty() && !control.hold_streams); };
    while (!ready()) stream->changed.wait_for(lock, std::chrono::milliseconds(1));
    if (stream->work.empty()) return;
    std::function<void()> work = std::move(stream->work.front());
    stream->work.pop();
    stream->busy = true;
    lock.unlock();
    work();
    lock.lock();
    stream->busy = false;
    stream->changed.notify_all();
  }
}

// Counts how many threads are inside a stream's slots at once: the core promises one.
class Submission {
 public:
  explicit Submission(uhal_backend_stream* stream) : stream_(stream) {
    int32_t inside = ++stream_->submitters;
    int32_t most = control.concurrent_submissions;
    while (inside > most && !control.concurrent_submissions.compare_exchange_weak(most, inside)) {
    }
  }
  ~Submission() { --stream_->submitters; }

 private:
  uhal_backend_stream* stream_;
};

void forbid_in_capture(uhal_backend_stream* stream) {
  if (stream->capturing != nullptr) ++control.calls_in_capture;
}

void submit(uhal_backend_stream* stream, std::function<void()> work) {
  if (uhal_backend_graph* graph = stream->capturing) return graph->work.push_back(std::move(work));
  if (!stream->asynchronous) return work();
  std::lock_guard<std::mutex> lock(stream->mutex);
  stream->work.push(std::move(work));
  stream->changed.notify_all();
}

void drain(uhal_backend_stream* stream) {
  std::unique_lock<std::mutex> lock(stream->mutex);
  stream->changed.wait(lock, [&] { return stream->work.empty() && !stream->busy; });
}

// -- slots ------------------------------------------------------------------------------------------

uhal_status device_count(int32_t* count) {
  ++control.count_calls;
  *count = 0;
  if (!fake::kVariant.counts_devices) {
    return fail(UHAL_UNAVAILABLE, "the driver /dev/fake was not found; load its kernel module");
  }
  *count = control.device_count;
  if (control.remarks) fail(UHAL_OK, "left out: a card without memory");
  return UHAL_OK;
}

uhal_status device_open(int32_t ordinal, uhal_backend_device** device) {
  ++control.open_calls;
  *device = new uhal_backend_device;
  (*device)->ordinal = ordinal;
  return UHAL_OK;
}

uhal_status device_properties(uhal_backend_device*, uhal_device_properties* properties) {
  properties->name = "fake board";
  properties->unified_memory = control.unified_memory ? 1 : 0;
  properties->total_memory = control.capacity;
  properties->max_allocation = control.capacity;
  return UHAL_OK;
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  int64_t call = ++control.allocate_calls;
  if (kind == UHAL_MEMORY_MANAGED) return fail(UHAL_UNIMPLEMENTED, "the fake has no managed memory");
  if (fault(control.fail_allocation_in, control.every_allocation, call)) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "injected: no memory");
  }
  if (control.counts_memory && device->used + bytes > control.capacity)
    return fail(UHAL_RESOURCE_EXHAUSTED, "the fake's memory is full");
  // Of exactly these bytes, which need not be a multiple of the alignment.
  if (posix_memalign(pointer, 256, bytes) != 0) return fail(UHAL_RESOURCE_EXHAUSTED, "no host memory");
  {
    std::lock_guard<std::mutex> lock(allocations_mutex);
    allocations[static_cast<char*>(*pointer)] = static_cast<char*>(*pointer) + bytes;
  }
  device->used += bytes;
  control.live_bytes += static_cast<int64_t>(bytes);
  ++control.live_allocations;
  return UHAL_OK;
}

uhal_status free_memory(uhal_backend_device* device, uhal_memory_kind, void* pointer, size_t bytes) {
  ++control.free_calls;
  {
    std::lock_guard<std::mutex> lock(allocations_mutex);
    allocations.erase(static_cast<char*>(pointer));
  }
  free(pointer);
  device->used -= bytes;
  control.live_bytes -= static_cast<int64_t>(bytes);
  --control.live_allocations;
  return UHAL_OK;
}

uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  *total_bytes = control.capacity;
  *free_bytes = control.capacity - device->used;
  return UHAL_OK;
}

uhal_status stream_create(uhal_backend_device*, uhal_stream* owner, uhal_backend_stream** stream) {
  *stream = new uhal_backend_stream;
  (*stream)->owner = owner;
  (*stream)->asynchronous = control.asynchronous;
  if (control.asynchronous) (*stream)->thread = std::thread(run_stream, *stream);
  ++control.live_streams;
  return UHAL_OK;
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  if (stream->thread.joinable()) {
    {
      std::lock_guard<std::mutex> lock(stream->mutex);
      stream->stop = true;
      stream->changed.notify_all();
    }
    stream->thread.join();
  }
  delete stream;
  --control.live_streams;
  return UHAL_OK;
}

uhal_status stream_query(uhal_backend_stream* stream, int32_t* done) {
  forbid_in_capture(stream);
  std::lock_guard<std::mutex> lock(stream->mutex);
  *done = stream->work.empty() && !stream->busy ? 1 : 0;
  return UHAL_OK;
}

uhal_status stream_synchronize(uhal_backend_stream* stream) {
  forbid_in_capture(stream);
  drain(stream);
  return UHAL_OK;
}

uhal_status event_synchronize(uhal_backend_event* event) {
  std::unique_lock<std::mutex> lock(event->mutex);
  uint64_t target = event->recorded;
  event->reached_changed.wait(lock, [&] { return event->reached >= target; });
  return UHAL_OK;
}

uhal_status stream_wait_event(uhal_backend_stream* stream, uhal_backend_event* event) {
  forbid_in_capture(stream);
  Submission submission(stream);
  uint64_t target;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    target = event->recorded;
  }
  submit(stream, [event, target] {
    std::unique_lock<std::mutex> lock(event->mutex);
    event->reached_changed.wait(lock, [&] { return event->reached >= target; });
  });
  return UHAL_OK;
}

uhal_status event_create(uhal_backend_device*, uhal_backend_event** event) {
  *event = new uhal_backend_event;
  ++control.live_events;
  return UHAL_OK;
}

uhal_status event_destroy(uhal_backend_event* event) {
  event_synchronize(event);
  delete event;
  --control.live_events;
  return UHAL_OK;
}

uhal_status event_record(uhal_backend_event* event, uhal_backend_stream* stream) {
  forbid_in_capture(stream);
  Submission submission(stream);
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    number = ++event->recorded;
  }
  submit(stream, [event, number] {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->reached = number;
    event->nanoseconds = now();
    event->reached_changed.notify_all();
  });
  return UHAL_OK;
}

uhal_status event_query(uhal_backend_event* event, int32_t* done) {
  std::lock_guard<std::mutex> lock(event->mutex);
  *done = event->reached >= event->recorded ? 1 : 0;
  return UHAL_OK;
}

int64_t time_of(uhal_backend_event* event) {
  std::lock_guard<std::mutex> lock(event->mutex);
  return event->nanoseconds;
}

uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  *nanoseconds = time_of(end) - time_of(start);
  return UHAL_OK;
}

// Counts down a fault without a rhythm.
bool fault(std::atomic<int64_t>& in) { return in > 0 && --in == 0; }

uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                 uhal_copy_kind kind) {
  Submission submission(stream);
  ++control.copy_calls;
  if (fault(control.fail_copy_in)) return fail(UHAL_INTERNAL, "injected: copy failed");
  if (kind == UHAL_COPY_HOST_TO_DEVICE) control.bytes_to_device += bytes;
  submit(stream, [=] { memcpy(destination, source, bytes); });
  return UHAL_OK;
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  Submission submission(stream);
  std::array<char, 16> bits;
  memcpy(bits.data(), pattern, pattern_bytes);
  submit(stream, [=] {
    if (!is_allocated(destination, bytes)) {
      ++control.stray_fills;
      return;
    }
    for (size_t i = 0; i < bytes; i += pattern_bytes)
      memcpy(static_cast<char*>(destination) + i, bits.data(), pattern_bytes);
  });
  return UHAL_OK;
}

const char* const kRefusal = "the fake leaves this to others";

uhal_status supports(uhal_backend_device*, const uhal_op* op) {
  if (control.refuse_launches) return fail(UHAL_UNIMPLEMENTED, kRefusal);
  if (op->kind != UHAL_OP_SORT) return UHAL_OK;
  return fail(UHAL_UNIMPLEMENTED, "the fake cannot sort");
}

std::mutex seen_mutex;

// Only fills and additions of dense float32 views are computed.
[[maybe_unused]] uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  Submission submission(stream);
  int64_t call = ++control.launch_calls;
  control.saw_attributes = op->attributes != nullptr;
  if (op->attributes != nullptr) {
    size_t bytes;
    memcpy(&bytes, op->attributes, sizeof bytes);
    bytes = std::min(bytes, sizeof control.seen_attributes);
    const std::lock_guard<std::mutex> lock(seen_mutex);
    memcpy(control.seen_attributes, op->attributes, bytes);
    control.saw_attribute_bytes = bytes;
  }
  if (control.refuse_launches) return fail(UHAL_UNIMPLEMENTED, kRefusal);
  if (fault(control.fail_launch_in, control.every_launch, call)) return fail(UHAL_INTERNAL, "injected: launch failed");
  const char* label = op->label != nullptr ? op->label : "";
  if (strcmp(label, fake::kFailNow) == 0) return fail(UHAL_INTERNAL, "the fake's compiler said no");
  if (strcmp(label, fake::kFailLater) == 0) {
    uhal_stream* owner = stream->owner;
    submit(stream, [owner] { host->stream_error(owner, UHAL_INTERNAL, "fail later", "the fake's queue hung up"); });
    return UHAL_OK;
  }
  const uhal_tensor& y = *op->outputs[0];
  size_t count = 1;
  for (int i = 0; i < y.rank; ++i) count *= static_cast<size_t>(y.shape[i]);
  if (strcmp(label, fake::kWorkspace) == 0) {
    void* scratch = nullptr;
    uhal_status status = host->workspace(stream->owner, count * 4, &scratch);
    if (status != UHAL_OK) return status;
    control.last_workspace = scratch;
    memset(scratch, 0x5a, count * 4);
    return UHAL_OK;
  }
  auto* to = static_cast<float*>(y.data);
  if (y.dtype != UHAL_FLOAT32) return UHAL_OK;
  if (op->kind == UHAL_OP_FILL) {
    auto value = static_cast<float>(static_cast<const uhal_fill_attributes*>(op->attributes)->value);
    submit(stream, [=] { std::fill_n(to, count, value); });
  } else if (op->kind == UHAL_OP_MAP && op->input_count == 2) {
    const auto* a = static_cast<const float*>(op->inputs[0]->data);
    const auto* b = static_cast<const float*>(op->inputs[1]->data);
    for (const int adder : {2, 12, 2}) host->note_implementation("adder %d", adder);
    submit(stream, [=] {
      for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
    });
  }
  return UHAL_OK;
}

void finalize() { ++control.finalize_calls; }

uhal_status host_callback(uhal_backend_stream* stream, uhal_host_function function, void* user_data) {
  forbid_in_capture(stream);
  Submission submission(stream);
  ++control.callback_calls;
  if (fault(control.fail_callback_in)) return fail(UHAL_INTERNAL, "injected: callback failed");
  submit(stream, [=] { function(user_data); });
  return UHAL_OK;
}

// -- graphs

uhal_status begin_capture(uhal_backend_stream* stream) {
  stream->capturing = new uhal_backend_graph;
  ++control.live_graphs;
  return UHAL_OK;
}

uhal_status destroy_graph(uhal_backend_graph* graph) {
  delete graph;
  --control.live_graphs;
  return UHAL_OK;
}

uhal_status cancel_capture(uhal_backend_stream* stream) { return destroy_graph(stream->capturing.exchange(nullptr)); }

uhal_status end_capture(uhal_backend_stream* stream, uhal_backend_graph** graph) {
  if (fault(control.fail_capture_end_in)) {
    cancel_capture(stream);
    return fail(UHAL_INTERNAL, "injected: the capture was lost");
  }
  *graph = stream->capturing.exchange(nullptr);
  return UHAL_OK;
}

uhal_status launch_graph(uhal_backend_graph* graph, uhal_backend_stream* stream) {
  Submission submission(stream);
  submit(stream, [graph] {
    for (const std::function<void()>& work : graph->work) work();
  });
  return UHAL_OK;
}

constexpr uhal_graph_capture kGraphCapture = {sizeof kGraphCapture, begin_capture, end_capture,
                                              cancel_capture,       launch_graph,  destroy_graph};

const void* extension(const char* name, uint32_t version) {
  const bool known = strcmp(name, UHAL_GRAPH_CAPTURE_NAME) == 0 && version == UHAL_GRAPH_CAPTURE_VERSION;
  return known && control.captures ? &kGraphCapture : nullptr;
}

const uhal_backend kTable = {fake::kVariant.struct_size,
                             fake::kVariant.abi_major,
                             fake::kVariant.abi_minor,
                             fake::kVariant.name,
                             "1.2.3",
                             device_count,
                             device_open,
                             device_properties,
                             allocate,
                             free_memory,
                             memory_info,
                             stream_create,
                             stream_destroy,
                             stream_query,
                             stream_synchronize,
                             stream_wait_event,
                             event_create,
                             event_destroy,
                             event_record,
                             event_query,
                             event_synchronize,
                             event_elapsed,
                             copy,
                             fill,
                             supports,
                             fake::kVariant.launches ? launch : nullptr,
                             finalize,
                             host_callback,
                             extension};

}  // namespace

extern "C" __attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* offered,
                                                                                         uint32_t) {
  host = offered;
  switch (fake::kVariant.answer) {
    case fake::Answer::kTable:
      return &kTable;
    case fake::Answer::kRefusal:
      host->report(UHAL_FAILED_PRECONDITION, 0, nullptr, "the fake wants ABI 9");
      return nullptr;
    case fake::Answer::kNull:
      return nullptr;
  }
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) fake::Control* fake_control() { return &control; }
