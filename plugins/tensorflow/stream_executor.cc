#include "plugins/tensorflow/stream_executor.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

// A timer is two events; an SP_Stream is a uhal_stream and an SP_Event a uhal_event, under TensorFlow's name.
struct SP_Timer_st {
  uhal_event* start;
  uhal_event* stop;
};

namespace unihal::tensorflow {
namespace {

// The stream of a device that TensorFlow computes on: the one that kernels are given. Until the first of them any
// stream of the device does, since nothing was computed: which one TensorFlow creates first depends on its version.
// SP_Device.ext points at it; nullptr where there is none yet.
using ComputeStream = std::atomic<uhal_stream*>;

ComputeStream& compute_stream_of(uhal_device* device) {
  static auto* const by_device = new std::map<uhal_device*, ComputeStream>;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  return (*by_device)[device];
}
ComputeStream& compute_stream_of(const SP_Device* device) { return *static_cast<ComputeStream*>(device->ext); }

uhal_device* device_of(const SP_Device* device) { return static_cast<uhal_device*>(device->device_handle); }
uhal_stream* stream_of(SP_Stream stream) { return reinterpret_cast<uhal_stream*>(stream); }
uhal_event* event_of(SP_Event event) { return reinterpret_cast<uhal_event*>(event); }

// Hands an error over. TensorFlow's status is OK until someone sets it.
void check(uhal_status code, TF_Status* status) {
  if (code != UHAL_OK) TF_SetStatus(status, static_cast<TF_Code>(code), uhal_last_error()->message);
}

// Prints an error that TensorFlow has no place for.
void print_dropped(uhal_status code) {
  if (code == UHAL_OK) return;
  const uhal_error* error = uhal_last_error();
  std::fprintf(stderr, "unihal: %s: %s\n", error->device, error->message);
}

// -- memory ----------------------------------------------------------------------------------------------

// A failure is told by NULL: TensorFlow's allocator then tries less, and reports out-of-memory itself.
void allocate(const SP_Device* device, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  void* pointer = nullptr;
  const bool good = uhal_allocate(device_of(device), nullptr, UHAL_MEMORY_DEVICE, size, &pointer) == UHAL_OK;
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = pointer;
  memory->size = good ? size : 0;
  memory->payload = 0;
}

// TensorFlow frees in the order of its computing stream: kernels that use the memory may be waiting there, whereas it
// has seen the end of copies.
void deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  uhal_stream* stream = compute_stream_of(device);
  if (stream == nullptr) print_dropped(uhal_device_synchronize(device_of(device)));
  uhal_free(device_of(device), stream, memory->opaque);
  memory->opaque = nullptr;
  memory->size = 0;
}

void* allocate_kind(const SP_Device* device, uhal_memory_kind kind, uint64_t size) {
  void* pointer = nullptr;
  return uhal_allocate(device_of(device), nullptr, kind, size, &pointer) == UHAL_OK ? pointer : nullptr;
}
void* host_memory_allocate(const SP_Device* device, uint64_t size) {
  return allocate_kind(device, UHAL_MEMORY_PINNED, size);
}
void* unified_memory_allocate(const SP_Device* device, uint64_t size) {
  return allocate_kind(device, UHAL_MEMORY_MANAGED, size);
}
void free_memory(const SP_Device* device, void* pointer) { uhal_free(device_of(device), nullptr, pointer); }

uhal_memory_stats memory_stats(const SP_Device* device) {
  uhal_memory_stats stats = {};
  stats.struct_size = sizeof stats;
  uhal_memory_stats_get(device_of(device), UHAL_MEMORY_DEVICE, &stats);
  return stats;
}

TF_Bool get_allocator_stats(const SP_Device* device, SP_AllocatorStats* out) {
  const uhal_memory_stats stats = memory_stats(device);
  out->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  out->num_allocs = static_cast<int64_t>(stats.total_allocations);
  out->bytes_in_use = static_cast<int64_t>(stats.allocated_bytes);
  out->peak_bytes_in_use = static_cast<int64_t>(stats.peak_allocated_bytes);
  out->bytes_reserved = static_cast<int64_t>(stats.reserved_bytes);
  out->peak_bytes_reserved = static_cast<int64_t>(stats.peak_reserved_bytes);
  out->has_bytes_limit = stats.limit_bytes != 0;
  out->bytes_limit = static_cast<int64_t>(stats.limit_bytes);
  out->largest_free_block_bytes = static_cast<int64_t>(stats.largest_free_block);
  return 1;
}

TF_Bool device_memory_usage(const SP_Device* device, int64_t* free_bytes, int64_t* total_bytes) {
  const uhal_memory_stats stats = memory_stats(device);
  const uint64_t total = stats.limit_bytes != 0 ? stats.limit_bytes : stats.total_bytes;
  *total_bytes = static_cast<int64_t>(total);
  *free_bytes = static_cast<int64_t>(total - (stats.reserved_bytes < total ? stats.reserved_bytes : total));
  return 1;
}

// -- streams and events ------------------------------------------------------------------------------------

void create_stream(const SP_Device* device, SP_Stream* stream, TF_Status* status) {
  const uhal_status code = uhal_stream_create(device_of(device), reinterpret_cast<uhal_stream**>(stream));
  check(code, status);
  uhal_stream* none = nullptr;
  if (code == UHAL_OK) compute_stream_of(device).compare_exchange_strong(none, stream_of(*stream));
}
void destroy_stream(const SP_Device* device, SP_Stream stream) {
  uhal_stream* destroyed = stream_of(stream);
  compute_stream_of(device).compare_exchange_strong(destroyed, nullptr);
  uhal_stream_destroy(stream_of(stream));
}

void create_event(const SP_Device* device, SP_Event* event, TF_Status* status) {
  check(uhal_event_create(device_of(device), reinterpret_cast<uhal_event**>(event)), status);
}
void destroy_event(const SP_Device*, SP_Event event) { uhal_event_destroy(event_of(event)); }

void record_event(const SP_Device*, SP_Stream stream, SP_Event event, TF_Status* status) {
  check(uhal_event_record(event_of(event), stream_of(stream)), status);
}
void wait_for_event(const SP_Device* const, SP_Stream stream, SP_Event event, TF_Status* const status) {
  check(uhal_stream_wait_event(stream_of(stream), event_of(event)), status);
}

SE_EventStatus get_event_status(const SP_Device*, SP_Event event) {
  int32_t done = 0;
  if (uhal_event_query(event_of(event), &done) != UHAL_OK) return SE_EVENT_ERROR;
  return done != 0 ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}

// Work submitted to `dependent` from now on runs after what was submitted to `other`.
uhal_status let_wait(uhal_stream* dependent, uhal_stream* other) {
  uhal_event* event = nullptr;
  // The streams may belong to two devices; an event belongs to the one that it is recorded on.
  uhal_status code = uhal_event_create(uhal_stream_device(other), &event);
  if (code == UHAL_OK) code = uhal_event_record(event, other);
  if (code == UHAL_OK) code = uhal_stream_wait_event(dependent, event);
  uhal_event_destroy(event);
  return code;
}
void create_stream_dependency(const SP_Device*, SP_Stream dependent, SP_Stream other, TF_Status* status) {
  check(let_wait(stream_of(dependent), stream_of(other)), status);
}

void get_stream_status(const SP_Device*, SP_Stream stream, TF_Status* status) {
  int32_t done = 0;
  check(uhal_stream_query(stream_of(stream), &done), status);
}

void block_host_for_event(const SP_Device*, SP_Event event, TF_Status* status) {
  check(uhal_event_synchronize(event_of(event)), status);
}
void block_host_until_done(const SP_Device*, SP_Stream stream, TF_Status* status) {
  check(uhal_stream_synchronize(stream_of(stream)), status);
}
// TensorFlow passes on that this failed, but not why.
void synchronize_all_activity(const SP_Device* device, TF_Status* status) {
  const uhal_status code = uhal_device_synchronize(device_of(device));
  print_dropped(code);
  check(code, status);
}

struct HostCallback {
  SE_StatusCallbackFn function;
  void* argument;
};

void run_host_callback(void* user_data) {
  auto* callback = static_cast<HostCallback*>(user_data);
  TF_Status* status = TF_NewStatus();
  callback->function(callback->argument, status);
  TF_DeleteStatus(status);
  delete callback;
}

TF_Bool host_callback(const SP_Device*, SP_Stream stream, SE_StatusCallbackFn function, void* argument) {
  auto* callback = new HostCallback{function, argument};
  if (uhal_stream_host_callback(stream_of(stream), run_host_callback, callback) == UHAL_OK) return 1;
  delete callback;
  return 0;
}

// -- timers ------------------------------------------------------------------------------------------------

void create_timer(const SP_Device* device, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st{};
  uhal_status code = uhal_event_create(device_of(device), &(*timer)->start);
  if (code == UHAL_OK) code = uhal_event_create(device_of(device), &(*timer)->stop);
  check(code, status);
}
void destroy_timer(const SP_Device*, SP_Timer timer) {
  uhal_event_destroy(timer->start);
  uhal_event_destroy(timer->stop);
  delete timer;
}
void start_timer(const SP_Device*, SP_Stream stream, SP_Timer timer, TF_Status* status) {
  check(uhal_event_record(timer->start, stream_of(stream)), status);
}
void stop_timer(const SP_Device*, SP_Stream stream, SP_Timer timer, TF_Status* status) {
  check(uhal_event_record(timer->stop, stream_of(stream)), status);
}
uint64_t timer_nanoseconds(SP_Timer timer) {
  int64_t nanoseconds = 0;
  uhal_event_elapsed_nanoseconds(timer->start, timer->stop, &nanoseconds);
  return static_cast<uint64_t>(nanoseconds);
}

// -- copies and fills ----------------------------------------------------------------------------------------

// Results leave the device here: what has failed so far is told with its message.
void memcpy_dtoh(const SP_Device* device, SP_Stream stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                 TF_Status* status) {
  if (uhal_stream* compute = compute_stream_of(device)) {
    int32_t done = 0;
    if (const uhal_status code = uhal_stream_query(compute, &done); code != UHAL_OK) return check(code, status);
  }
  check(uhal_copy(stream_of(stream), to, from->opaque, size, UHAL_COPY_DEVICE_TO_HOST), status);
}
// TensorFlow's pool hands on memory at once that kernels waiting in the computing stream still use. Most copies to the
// device are made to wait for that stream, but not those of a graph's constants (sync_dst_compute is false there).
void memcpy_htod(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                 TF_Status* status) {
  uhal_stream* compute = compute_stream_of(device);
  uhal_status code = UHAL_OK;
  if (compute != nullptr && compute != stream_of(stream)) code = let_wait(stream_of(stream), compute);
  if (code == UHAL_OK) code = uhal_copy(stream_of(stream), to->opaque, from, size, UHAL_COPY_HOST_TO_DEVICE);
  check(code, status);
}
void memcpy_dtod(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                 uint64_t size, TF_Status* status) {
  if (size == 0) return;
  // TensorFlow copies between two devices of a type through the same callback.
  uhal_pointer_info source = {};
  uhal_pointer_info destination = {};
  source.struct_size = destination.struct_size = sizeof source;
  uhal_status code = uhal_pointer_query(from->opaque, &source);
  if (code == UHAL_OK) code = uhal_pointer_query(to->opaque, &destination);
  if (code == UHAL_OK) {
    const bool within = source.device == destination.device && source.device == device_of(device);
    code = within
               ? uhal_copy(stream_of(stream), to->opaque, from->opaque, size, UHAL_COPY_DEVICE_TO_DEVICE)
               : uhal_copy_peer(stream_of(stream), destination.device, to->opaque, source.device, from->opaque, size);
  }
  check(code, status);
}

// The synchronous forms run on the device's default stream. TensorFlow calls them for memory that no submitted
// work uses.
template <class Submit>
void run_synchronously(const SP_Device* device, TF_Status* status, Submit submit) {
  uhal_stream* stream = nullptr;
  uhal_status code = uhal_device_default_stream(device_of(device), &stream);
  if (code != UHAL_OK) return check(code, status);
  submit(reinterpret_cast<SP_Stream>(stream));
  if (TF_GetCode(status) == TF_OK) check(uhal_stream_synchronize(stream), status);
}
void sync_memcpy_dtoh(const SP_Device* device, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                      TF_Status* status) {
  run_synchronously(device, status, [&](SP_Stream s) { memcpy_dtoh(device, s, to, from, size, status); });
}
void sync_memcpy_htod(const SP_Device* device, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                      TF_Status* status) {
  run_synchronously(device, status, [&](SP_Stream s) { memcpy_htod(device, s, to, from, size, status); });
}
void sync_memcpy_dtod(const SP_Device* device, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
                      TF_Status* status) {
  run_synchronously(device, status, [&](SP_Stream s) { memcpy_dtod(device, s, to, from, size, status); });
}

void fill_bytes(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size,
                TF_Status* status) {
  check(uhal_memory_fill(stream_of(stream), at->opaque, &pattern, sizeof pattern, size), status);
}
void fill_words(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* at, uint32_t pattern, uint64_t size,
                TF_Status* status) {
  check(uhal_memory_fill(stream_of(stream), at->opaque, &pattern, sizeof pattern, size), status);
}
void fill_zero(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* at, uint64_t size, TF_Status* status) {
  fill_bytes(device, stream, at, 0, size, status);
}

// -- devices ---------------------------------------------------------------------------------------------------

uhal_device_properties properties_of(const SP_Device* device) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  uhal_device_properties_get(device_of(device), &properties);
  return properties;
}

int32_t get_numa_node(const SP_Device*) { return -1; }
int64_t get_memory_bandwidth(const SP_Device* device) {
  return static_cast<int64_t>(properties_of(device).peak_gigabytes_per_second * 1e9);
}
double get_gflops(const SP_Device* device) { return properties_of(device).peak_gigaflops_float32; }

const Platform& platform_of(const SP_Platform* platform) { return *static_cast<const Platform*>(platform->ext); }

void get_device_count(const SP_Platform* platform, int* count, TF_Status*) {
  int32_t devices = 0;
  const std::string& type = platform_of(platform).device_type;
  if (!type.empty() && !platform_of(platform).hidden && uhal_device_count(type.c_str(), &devices) != UHAL_OK)
    devices = 0;
  *count = devices;
}

void create_device(const SP_Platform* platform, SE_CreateDeviceParams* params, TF_Status* status) {
  uhal_device* device = nullptr;
  const uhal_status code = uhal_device_get(platform_of(platform).device_type.c_str(), params->ordinal, &device);
  if (code != UHAL_OK) return check(code, status);
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
  params->device->device_handle = device;
  params->device->ext = &compute_stream_of(device);
  const uhal_device_properties properties = properties_of(params->device);
  params->device->hardware_name = properties.name;
  params->device->device_vendor = properties.vendor;
  params->device->pci_bus_id = properties.pci_bus_id;
}

void create_device_fns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status*) {
  *params->device_fns = {SP_DEVICE_FNS_STRUCT_SIZE, nullptr, get_numa_node, get_memory_bandwidth, get_gflops};
}

void create_timer_fns(const SP_Platform*, SP_TimerFns* timer, TF_Status*) {
  *timer = {SP_TIMER_FNS_STRUCT_SIZE, nullptr, timer_nanoseconds};
}

void create_stream_executor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status*) {
  SP_StreamExecutor& executor = *params->stream_executor;
  std::memset(&executor, 0, SP_STREAMEXECUTOR_STRUCT_SIZE);
  executor.struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  executor.allocate = allocate;
  executor.deallocate = deallocate;
  executor.host_memory_allocate = host_memory_allocate;
  executor.host_memory_deallocate = free_memory;
  executor.unified_memory_allocate = unified_memory_allocate;
  executor.unified_memory_deallocate = free_memory;
  executor.get_allocator_stats = get_allocator_stats;
  executor.device_memory_usage = device_memory_usage;
  executor.create_stream = create_stream;
  executor.destroy_stream = destroy_stream;
  executor.create_stream_dependency = create_stream_dependency;
  executor.get_stream_status = get_stream_status;
  executor.create_event = create_event;
  executor.destroy_event = destroy_event;
  executor.get_event_status = get_event_status;
  executor.record_event = record_event;
  executor.wait_for_event = wait_for_event;
  executor.create_timer = create_timer;
  executor.destroy_timer = destroy_timer;
  executor.start_timer = start_timer;
  executor.stop_timer = stop_timer;
  executor.memcpy_dtoh = memcpy_dtoh;
  executor.memcpy_htod = memcpy_htod;
  executor.memcpy_dtod = memcpy_dtod;
  executor.sync_memcpy_dtoh = sync_memcpy_dtoh;
  executor.sync_memcpy_htod = sync_memcpy_htod;
  executor.sync_memcpy_dtod = sync_memcpy_dtod;
  executor.block_host_for_event = block_host_for_event;
  executor.block_host_until_done = block_host_until_done;
  executor.synchronize_all_activity = synchronize_all_activity;
  executor.mem_zero = fill_zero;
  executor.memset = fill_bytes;
  executor.memset32 = fill_words;
  executor.host_callback = host_callback;
}

// Devices, tables and platforms belong to the core or to the process: there is nothing to give back.
void keep_device(const SP_Platform*, SP_Device*) {}
void keep_device_fns(const SP_Platform*, SP_DeviceFns*) {}
void keep_stream_executor(const SP_Platform*, SP_StreamExecutor*) {}
void keep_timer_fns(const SP_Platform*, SP_TimerFns*) {}
void keep_platform(SP_Platform*) {}
void keep_platform_fns(SP_PlatformFns*) {}

}  // namespace

void set_compute_stream(uhal_stream* stream) { compute_stream_of(uhal_stream_device(stream)) = stream; }

void fill_registration(Platform& platform, SE_PlatformRegistrationParams* params) {
  params->struct_size = SE_PLATFORM_REGISTRATION_PARAMS_STRUCT_SIZE;
  SP_Platform& p = *params->platform;
  p.struct_size = SP_PLATFORM_STRUCT_SIZE;
  p.ext = &platform;
  p.name = platform.type.c_str();
  p.type = platform.type.c_str();
  p.supports_unified_memory = 0;
  // TensorFlow's own pool over ours: get_memory_info and clean out-of-memory errors come from it. It grows as
  // needed, so that several processes can share a device.
  p.use_bfc_allocator = platform.pool;
  p.force_memory_growth = 1;
  *params->platform_fns = {SP_PLATFORM_FNS_STRUCT_SIZE,
                           nullptr,
                           get_device_count,
                           create_device,
                           keep_device,
                           create_device_fns,
                           keep_device_fns,
                           create_stream_executor,
                           keep_stream_executor,
                           create_timer_fns,
                           keep_timer_fns};
  params->destroy_platform = keep_platform;
  params->destroy_platform_fns = keep_platform_fns;
}

}  // namespace unihal::tensorflow
