// The stub backend's table: host memory stands in for a device. Here the fast mode, where work runs at once on the
// submitting thread; strict/table.cc replaces what the strict mode does otherwise.

#include "unihal/backend.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "csrc/backends/common/op_names.h"
#include "csrc/backends/common/owned_op.h"
#include "stub/backend/device.h"
#include "stub/backend/fault_table.h"
#include "stub/backend/faults.h"
#include "stub/collectives/table.h"
#include "stub/common/move.h"
#include "stub/graph/graph.h"
#include "stub/onednn/constant_copies.h"
#include "stub/ops/launch.h"
#include "stub/strict/table.h"
#include "stub/strict/worker_thread.h"
#include "unihal/host_kernels.h"

struct uhal_backend_stream {
  uhal_backend_device* device;
  uhal_stream* owner;
  unihal::stub::GraphBeingCaptured capturing;
};

struct uhal_backend_event {
  std::atomic<int64_t> nanoseconds{0};  // of the last record
};

namespace unihal::stub {
namespace {

const uhal_host* core = nullptr;

// Blocks from here on are worth huge pages: fewer faults and fewer misses of the address cache.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 256;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (kind == UHAL_MEMORY_DEVICE) {
    if (const uhal_status status = take_memory(device, bytes); status != UHAL_OK) return status;
  }
  const bool huge = bytes >= kHugePage;
  const int error = posix_memalign(pointer, huge ? kHugePage : kAlignment, bytes);
  if (error != 0) {
    *pointer = nullptr;
    if (kind == UHAL_MEMORY_DEVICE) give_memory(device, bytes);
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no %zu bytes left for stub device %d (%s)", bytes,
                device->ordinal, std::strerror(error));
  }
  if (huge) madvise(*pointer, bytes, MADV_HUGEPAGE);  // a wish: without it everything works, slower
  return UHAL_OK;
}

uhal_status free(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes) {
  std::free(pointer);
  if (kind == UHAL_MEMORY_DEVICE) give_memory(device, bytes);
  return UHAL_OK;
}

uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream) {
  *stream = new (std::nothrow) uhal_backend_stream{device, owner, nullptr};
  return *stream != nullptr ? UHAL_OK : fail_without_host_memory("a stream");
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  delete stream;
  return UHAL_OK;
}

// Submitted work has always run already.
uhal_status stream_query(uhal_backend_stream*, int32_t* done) {
  *done = 1;
  return UHAL_OK;
}

uhal_status stream_synchronize(uhal_backend_stream*) { return UHAL_OK; }

uhal_status stream_wait_event(uhal_backend_stream*, uhal_backend_event*) { return UHAL_OK; }

uhal_status event_create(uhal_backend_device*, uhal_backend_event** event) {
  *event = new (std::nothrow) uhal_backend_event;
  return *event != nullptr ? UHAL_OK : fail_without_host_memory("an event");
}

uhal_status event_destroy(uhal_backend_event* event) {
  delete event;
  return UHAL_OK;
}

uhal_status event_record(uhal_backend_event* event, uhal_backend_stream*) {
  event->nanoseconds.store(now(), std::memory_order_relaxed);
  return UHAL_OK;
}

uhal_status event_query(uhal_backend_event*, int32_t* done) {
  *done = 1;
  return UHAL_OK;
}

uhal_status event_synchronize(uhal_backend_event*) { return UHAL_OK; }

uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  *nanoseconds = end->nanoseconds.load(std::memory_order_relaxed) - start->nanoseconds.load(std::memory_order_relaxed);
  return UHAL_OK;
}

// Adds work to the graph that the stream captures.
template <class Work>
uhal_status capture(uhal_backend_stream* stream, std::string name, Work work) {
  try {
    stream->capturing->add(std::move(name), std::move(work));
    return UHAL_OK;
  } catch (const std::bad_alloc&) {
    return fail_without_host_memory("captured work");
  }
}

uhal_status run_copy(void* destination, const void* source, size_t bytes) {
  SlowedWork slowed;
  move_bytes(destination, source, static_cast<int64_t>(bytes));
  return UHAL_OK;
}

uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes, uhal_copy_kind) {
  if (stream->capturing == nullptr) return run_copy(destination, source, bytes);
  return capture(stream, "copy", [=](uhal_stream*) { return run_copy(destination, source, bytes); });
}

uhal_status run_fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  SlowedWork slowed;
  fill_bytes(destination, pattern, static_cast<int64_t>(pattern_bytes), static_cast<int64_t>(bytes));
  return UHAL_OK;
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  if (stream->capturing == nullptr) return run_fill(destination, pattern, pattern_bytes, bytes);
  std::array<char, 16> own;
  std::memcpy(own.data(), pattern, pattern_bytes);
  return capture(stream, "fill", [=](uhal_stream*) { return run_fill(destination, own.data(), pattern_bytes, bytes); });
}

uhal_status supports(uhal_backend_device*, const uhal_op* op) { return stub::supports(*op); }
// The kernels without the device: what the core runs in place of other backends.
uhal_status host_supports(const uhal_op* op) { return stub::supports(*op); }
uhal_status host_launch(uhal_stream* stream, const uhal_op* op) { return stub::launch(stream, *op); }
constexpr uhal_host_kernels kHostKernels = {sizeof kHostKernels, host_supports, host_launch};

// -- collectives: they wait for the other ranks on the calling thread

struct CollectiveRun {
  const uhal_collective_batch* batch;
  uint64_t turn;
  RankFailure failure;

  Communicator& communicator() const { return *Communicator::from(batch->communicator); }
  void run() {
    SlowedWork slowed;
    failure = communicator().run(turn, batch->collectives, batch->count);
  }
};

// A failure is that of the stream's work, unless the caller gave up.
uhal_status finish(const CollectiveRun& run) {
  if (!run.failure || run.failure.status == UHAL_CANCELLED) return report(run.failure);
  host().stream_error(run.batch->stream->owner, run.failure.status, name_of(*run.batch), run.failure.message.c_str());
  return UHAL_OK;
}

// Ranks of one thread wait for each other: all but the first get threads of their own.
uhal_status run_together(const uhal_collective_batch* batches, int32_t count) {
  std::vector<CollectiveRun> runs;
  for (int32_t i = 0; i < count; ++i) runs.push_back({&batches[i], 0, {}});
  std::vector<std::thread> threads;
  threads.reserve(runs.size());
  for (CollectiveRun& run : runs) run.turn = run.communicator().take_turn();
  for (size_t i = 1; i < runs.size(); ++i) {
    try {
      threads.push_back(strict::start_worker([&runs, i] { runs[i].run(); }));
    } catch (const std::exception&) {
      runs[i].communicator().abort();
      runs[i].run();  // which fails at once
    }
  }
  runs[0].run();
  for (std::thread& thread : threads) thread.join();
  uhal_status status = UHAL_OK;
  for (const CollectiveRun& run : runs) {
    if (const uhal_status finished = finish(run); finished != UHAL_OK) status = finished;
  }
  return status;
}

uhal_status launch_collectives(const uhal_collective_batch* batches, int32_t count) {
  if (const uhal_status status = check_batches(batches, count); status != UHAL_OK) return status;
  if (count == 1) {
    CollectiveRun run = {batches, Communicator::from(batches->communicator)->take_turn(), {}};
    run.run();
    return finish(run);
  }
  try {
    return run_together(batches, count);
  } catch (const std::bad_alloc&) {
    return fail_without_host_memory("a group of collectives");
  }
}

const uhal_collectives kCollectives = collectives_with(launch_collectives);

// -- graphs

uhal_status capture_op(uhal_backend_stream* stream, const uhal_op& op) {
  if (const uhal_status status = stub::supports(op); status != UHAL_OK) return status;
  try {
    const auto owned = std::make_shared<const OwnedOp>(op, [](const uhal_tensor& operand) { return operand.data; });
    return capture(stream, op_name(op), [owned](uhal_stream* owner) {
      SlowedWork slowed;
      return stub::launch(owner, owned->op());
    });
  } catch (const std::bad_alloc&) {
    return fail_without_host_memory("captured work");
  }
}

uhal_status begin_capture(uhal_backend_stream* stream) { return stub::begin_capture(&stream->capturing); }

uhal_status end_capture(uhal_backend_stream* stream, uhal_backend_graph** graph) {
  *graph = stream->capturing.release()->handle();
  return UHAL_OK;
}

uhal_status cancel_capture(uhal_backend_stream* stream) {
  stream->capturing.reset();
  return UHAL_OK;
}

uhal_status launch_graph(uhal_backend_graph* graph, uhal_backend_stream* stream) {
  if (const uhal_status lost = fail_if_lost(); lost != UHAL_OK) return lost;
  Graph::from(graph)->run(stream->owner);
  return UHAL_OK;
}

constexpr uhal_graph_capture kGraphCapture = {sizeof kGraphCapture, begin_capture, end_capture,
                                              cancel_capture,       launch_graph,  destroy_graph};

const void* extension(const char* name, uint32_t version) {
  if (std::strcmp(name, UHAL_HOST_KERNELS_NAME) == 0 && version == UHAL_HOST_KERNELS_VERSION) return &kHostKernels;
  if (std::strcmp(name, UHAL_COLLECTIVES_NAME) == 0 && version == UHAL_COLLECTIVES_VERSION) return &kCollectives;
  if (std::strcmp(name, UHAL_GRAPH_CAPTURE_NAME) == 0 && version == UHAL_GRAPH_CAPTURE_VERSION) return &kGraphCapture;
#if defined(UNIHAL_STUB_ONEDNN)
  if (std::strcmp(name, UHAL_CONSTANTS_NAME) == 0 && version == UHAL_CONSTANTS_VERSION) return &kConstants;
#endif
  return nullptr;
}

uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  if (stream->capturing != nullptr) return capture_op(stream, *op);
  SlowedWork slowed;
  return stub::launch(stream->owner, *op);
}

uhal_status host_callback(uhal_backend_stream*, uhal_host_function function, void* user_data) {
  function(user_data);
  return UHAL_OK;
}

void finalize() {}

constexpr uhal_backend make_table() {
  uhal_backend table = {};
  table.struct_size = sizeof table;
  table.abi_major = UHAL_ABI_MAJOR;
  table.abi_minor = UHAL_ABI_MINOR;
  table.name = "stub";
  table.version = UHAL_VERSION_STRING;
#define UHAL_BACKEND_SLOT(slot, ...) table.slot = slot;
#include "csrc/tables/backend_slots.def"
  return table;
}

constexpr uhal_backend kTable = make_table();

}  // namespace

const uhal_host& host() { return *core; }

}  // namespace unihal::stub

extern "C" __attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* host,
                                                                                         uint32_t abi_major) {
  if (abi_major != UHAL_ABI_MAJOR) {
    host->report(UHAL_FAILED_PRECONDITION, 0, nullptr,
                 "the stub was built for another major version of the unihal ABI; install libunihal.so and "
                 "libunihal_stub.so of one release");
    return nullptr;
  }
  unihal::stub::core = host;
  using namespace unihal::stub;
  return with_faults(wants_strict_mode() ? *strict::table(kTable) : kTable);
}
