// The backend's table: GPUs behind HIP or CUDA.
#include "unihal/backend.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/gpu/collectives.h"
#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/enumerate.h"
#include "csrc/backends/gpu/event.h"
#include "csrc/backends/gpu/graph.h"
#include "csrc/backends/gpu/guarded.h"
#include "csrc/backends/gpu/properties.h"
#include "csrc/backends/gpu/stream.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"
#include "unihal/launch_group.h"
#include "unihal/peer_copy.h"

namespace unihal::gpu {
namespace {

// The devices that serve, by the driver's numbers; filled by device_count, which comes first and once.
std::vector<int>& chosen_devices() {
  static std::vector<int>* const instance = new std::vector<int>;
  return *instance;
}

// The streams that exist, for finalize. Never destroyed: other threads may use streams while the process ends.
struct LiveStreams {
  std::mutex mutex;
  std::set<Stream*> streams;
};
LiveStreams& live_streams() {
  static LiveStreams* const instance = new LiveStreams;
  return *instance;
}

uhal_status device_count(int32_t* count) {
  return guarded([&] {
    const std::string complaint = DiskCache::complaint();
    if (!complaint.empty()) return kernels::fail(UHAL_INVALID_ARGUMENT, "%s", complaint.c_str());
    const bool asked_for = kernels::host().is_asked_for(vendor.backend) != 0;
    const uhal_status status = choose_devices(asked_for, &chosen_devices());
    *count = static_cast<int32_t>(chosen_devices().size());
    return status;
  });
}

uhal_status device_open(int32_t ordinal, uhal_backend_device** device) {
  return guarded([&] {
    auto opened = std::make_unique<Device>(ordinal, chosen_devices().at(static_cast<size_t>(ordinal)));
    const uhal_status status = opened->open();
    if (status == UHAL_OK) *device = opened.release()->handle();
    return status;
  });
}

uhal_status device_properties(uhal_backend_device* device, uhal_device_properties* properties) {
  describe_device(*Device::from(device), properties);
  return UHAL_OK;
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  return guarded([&] { return Device::from(device)->memory.allocate(kind, bytes, pointer); });
}

uhal_status free(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t) {
  return Device::from(device)->memory.free(kind, pointer);
}

uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return Device::from(device)->memory.info(free_bytes, total_bytes);
}

uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream) {
  return guarded([&]() -> uhal_status {
    auto created = std::make_unique<Stream>(*Device::from(device), owner);
    if (const uhal_status status = created->open(); status != UHAL_OK) return status;
    std::lock_guard<std::mutex> lock(live_streams().mutex);
    live_streams().streams.insert(created.get());
    *stream = created.release()->handle();
    return UHAL_OK;
  });
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  return guarded([&] {
    {
      std::lock_guard<std::mutex> lock(live_streams().mutex);
      live_streams().streams.erase(Stream::from(stream));
    }
    delete Stream::from(stream);
    return UHAL_OK;
  });
}

uhal_status stream_query(uhal_backend_stream* stream, int32_t* done) { return Stream::from(stream)->query(done); }

uhal_status stream_synchronize(uhal_backend_stream* stream) { return Stream::from(stream)->synchronize(); }

uhal_status stream_wait_event(uhal_backend_stream* stream, uhal_backend_event* event) {
  return Stream::from(stream)->wait(*Event::from(event));
}

uhal_status event_create(uhal_backend_device* device, uhal_backend_event** event) {
  return guarded([&]() -> uhal_status {
    auto created = std::make_unique<Event>(*Device::from(device));
    if (const uhal_status status = created->open(); status != UHAL_OK) return status;
    *event = created.release()->handle();
    return UHAL_OK;
  });
}

uhal_status event_destroy(uhal_backend_event* event) {
  delete Event::from(event);
  return UHAL_OK;
}

uhal_status event_record(uhal_backend_event* event, uhal_backend_stream* stream) {
  return Stream::from(stream)->record(*Event::from(event));
}

uhal_status event_query(uhal_backend_event* event, int32_t* done) { return Event::from(event)->query(done); }

uhal_status event_synchronize(uhal_backend_event* event) { return Event::from(event)->synchronize(); }

uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  return Event::elapsed(*Event::from(start), *Event::from(end), nanoseconds);
}

uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                 uhal_copy_kind kind) {
  return guarded([&] { return Stream::from(stream)->submit_copy(destination, source, bytes, kind); });
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  return guarded([&] { return Stream::from(stream)->submit_fill(destination, pattern, pattern_bytes, bytes); });
}

uhal_status supports(uhal_backend_device* device, const uhal_op* op) {
  return guarded([&] { return kernels::supports(Device::from(device)->traits, *op); });
}

__attribute__((hot)) uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  return guarded([&] { return Stream::from(stream)->launch(*op); });
}

uhal_status host_callback(uhal_backend_stream* stream, uhal_host_function function, void* user_data) {
  return guarded([&] { return Stream::from(stream)->call(function, user_data); });
}

void finalize() {
  std::lock_guard<std::mutex> lock(live_streams().mutex);
  for (Stream* stream : live_streams().streams) stream->stop();
}

uhal_status copy_peer(uhal_backend_stream* stream, uhal_backend_device* destination_device, void* destination,
                      uhal_backend_device* source_device, const void* source, size_t bytes) {
  return guarded([&] {
    Device& to = *Device::from(destination_device);
    Device& from = *Device::from(source_device);
    if (!to.reaches(from)) {
      return kernels::fail(UHAL_UNIMPLEMENTED, "%s and %s have no way to each other's memory", to.name.c_str(),
                           from.name.c_str());
    }
    return Stream::from(stream)->submit_copy(destination, source, bytes, UHAL_COPY_DEVICE_TO_DEVICE);
  });
}

constexpr uhal_peer_copy kPeerCopy = {sizeof kPeerCopy, copy_peer};

uhal_status start_group(uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->start_group(); });
}

uhal_status end_group(uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->end_group(); });
}

constexpr uhal_launch_group kLaunchGroup = {sizeof kLaunchGroup, start_group, end_group};

const void* extension(const char* name, uint32_t version) {
  const auto asks_for = [&](const char* known, uint32_t known_version) {
    return std::strcmp(name, known) == 0 && version == known_version;
  };
  if (asks_for(UHAL_TUNING_NAME, UHAL_TUNING_VERSION)) return kernels::tuning_extension();
  if (asks_for(UHAL_COLLECTIVES_NAME, UHAL_COLLECTIVES_VERSION)) return &collectives_table();
  if (asks_for(UHAL_GRAPH_CAPTURE_NAME, UHAL_GRAPH_CAPTURE_VERSION)) return graph_capture_table();
  if (asks_for(UHAL_PEER_COPY_NAME, UHAL_PEER_COPY_VERSION)) return &kPeerCopy;
  if (asks_for(UHAL_LAUNCH_GROUP_NAME, UHAL_LAUNCH_GROUP_VERSION)) return &kLaunchGroup;
  return nullptr;
}

uhal_backend make_table() {
  uhal_backend table = {};
  table.struct_size = sizeof table;
  table.abi_major = UHAL_ABI_MAJOR;
  table.abi_minor = UHAL_ABI_MINOR;
  table.name = vendor.backend;
  table.version = UHAL_VERSION_STRING;
#define UHAL_BACKEND_SLOT(slot, ...) table.slot = slot;
#include "csrc/tables/backend_slots.def"
  return table;
}

}  // namespace
}  // namespace unihal::gpu

extern "C" __attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* host,
                                                                                         uint32_t abi_major) {
  using unihal::gpu::vendor;
  if (abi_major != UHAL_ABI_MAJOR || host->struct_size < sizeof *host) {
    const std::string message =
        std::string("the ") + vendor.backend + " backend was built for another version of the " +
        "unihal ABI; install libunihal.so and libunihal_" + vendor.backend + ".so of one release";
    host->report(UHAL_FAILED_PRECONDITION, 0, nullptr, message.c_str());
    return nullptr;
  }
  unihal::kernels::set_host(host);
  static const uhal_backend table = unihal::gpu::make_table();
  return &table;
}
