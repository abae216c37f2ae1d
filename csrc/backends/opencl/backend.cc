// The backend's table: OpenCL 1.2 devices.
#include "unihal/backend.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/enumerate.h"
#include "csrc/backends/opencl/event.h"
#include "csrc/backends/opencl/live_streams.h"
#include "csrc/backends/opencl/properties.h"
#include "csrc/backends/opencl/stream.h"
#include "csrc/kernels/guarded.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"

namespace unihal::opencl {
namespace {

using kernels::fail;

template <class Function>
uhal_status guarded(Function&& function) {
  return kernels::guarded("opencl", function);
}

// The devices that serve, in order; filled by device_count, which comes first and once.
std::vector<FoundDevice>& chosen_devices() {
  static std::vector<FoundDevice>* const instance = new std::vector<FoundDevice>;
  return *instance;
}

uhal_status device_count(int32_t* count) {
  return guarded([&] {
    const std::string complaint = DiskCache::complaint();
    if (!complaint.empty()) return fail(UHAL_INVALID_ARGUMENT, "%s", complaint.c_str());
    const char* wish = std::getenv("UNIHAL_OPENCL_DEVICE");
    const uhal_host& core = kernels::host();
    // A core that cannot tell is older than the question, and always meant yes.
    const bool asked_for = core.struct_size <= offsetof(uhal_host, is_asked_for) || core.is_asked_for("opencl") != 0;
    const uhal_status status =
        choose_devices(take_inventory(), wish != nullptr ? wish : "", asked_for, &chosen_devices());
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
  return guarded([&] {
    describe_device(*Device::from(device), properties);
    return UHAL_OK;
  });
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  return guarded([&] { return Device::from(device)->memory.allocate(kind, bytes, pointer); });
}

uhal_status free(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes) {
  return guarded([&] { return Device::from(device)->memory.free(kind, pointer, bytes); });
}

uhal_status memory_info(uhal_backend_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return Device::from(device)->memory.info(free_bytes, total_bytes);
}

uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** stream) {
  return guarded([&]() -> uhal_status {
    auto created = std::make_unique<Stream>(*Device::from(device), owner);
    const uhal_status status = created->open();
    if (status != UHAL_OK) return status;
    note_stream(created.get());
    *stream = created.release()->handle();
    return UHAL_OK;
  });
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  return guarded([&] {
    forget_stream(Stream::from(stream));
    delete Stream::from(stream);
    return UHAL_OK;
  });
}

uhal_status stream_query(uhal_backend_stream* stream, int32_t* done) {
  return guarded([&] { return Stream::from(stream)->query(done); });
}

uhal_status stream_synchronize(uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->synchronize(); });
}

uhal_status stream_wait_event(uhal_backend_stream* stream, uhal_backend_event* event) {
  return guarded([&] { return Stream::from(stream)->wait(*Event::from(event)); });
}

uhal_status event_create(uhal_backend_device* device, uhal_backend_event** event) {
  return guarded([&] {
    *event = (new Event(*Device::from(device)))->handle();
    return UHAL_OK;
  });
}

uhal_status event_destroy(uhal_backend_event* event) {
  delete Event::from(event);
  return UHAL_OK;
}

uhal_status event_record(uhal_backend_event* event, uhal_backend_stream* stream) {
  return guarded([&] { return Stream::from(stream)->record(Event::from(event)); });
}

uhal_status event_query(uhal_backend_event* event, int32_t* done) {
  return guarded([&] { return Event::from(event)->query(done); });
}

uhal_status event_synchronize(uhal_backend_event* event) {
  return guarded([&] { return Event::from(event)->synchronize(); });
}

uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  return guarded([&] { return Event::elapsed(*Event::from(start), *Event::from(end), nanoseconds); });
}

uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes, uhal_copy_kind) {
  return guarded([&] { return Stream::from(stream)->copy(destination, source, bytes); });
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  return guarded([&] { return Stream::from(stream)->fill(destination, pattern, pattern_bytes, bytes); });
}

uhal_status supports(uhal_backend_device* device, const uhal_op* op) {
  return guarded([&] { return kernels::supports(Device::from(device)->traits, *op); });
}

uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  return guarded([&] { return kernels::launch(*Stream::from(stream), *op); });
}

uhal_status host_callback(uhal_backend_stream* stream, uhal_host_function function, void* user_data) {
  return guarded([&] { return Stream::from(stream)->call([=] { function(user_data); }); });
}

void finalize() { stop_all_streams(); }

const void* extension(const char* name, uint32_t version) {
  const bool is_tuning = std::strcmp(name, UHAL_TUNING_NAME) == 0 && version == UHAL_TUNING_VERSION;
  return is_tuning ? kernels::tuning_extension() : nullptr;
}

constexpr uhal_backend make_table() {
  uhal_backend table = {};
  table.struct_size = sizeof table;
  table.abi_major = UHAL_ABI_MAJOR;
  table.abi_minor = UHAL_ABI_MINOR;
  table.name = "opencl";
  table.version = UHAL_VERSION_STRING;
#define UHAL_BACKEND_SLOT(slot, ...) table.slot = slot;
#include "csrc/tables/backend_slots.def"
  return table;
}

constexpr uhal_backend kTable = make_table();

}  // namespace
}  // namespace unihal::opencl

extern "C" __attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* host,
                                                                                         uint32_t abi_major) {
  if (abi_major != UHAL_ABI_MAJOR) {
    host->report(UHAL_FAILED_PRECONDITION, 0, nullptr,
                 "the opencl backend was built for another major version of the unihal ABI; install libunihal.so and "
                 "libunihal_opencl.so of one release");
    return nullptr;
  }
  unihal::kernels::set_host(host);
  return &unihal::opencl::kTable;
}
