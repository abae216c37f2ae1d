#include "plugins/paddle/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "plugins/paddle/collectives.h"
#include "plugins/paddle/current_device.h"
#include "plugins/paddle/deferred_error.h"
#include "plugins/paddle/error.h"
#include "plugins/paddle/memory_pool.h"
#include "plugins/paddle/profiler.h"
#include "plugins/paddle/staging.h"
#include "plugins/paddle/stream.h"
#include "unihal/check.h"
#include "unihal/event.h"
#include "unihal/graph_capture.h"
#include "unihal/memory.h"
#include "unihal/tensor.h"

namespace unihal::paddle {
namespace {

// C_Device_st
struct DeviceNumber {
  int id;
};
// phi::DeviceProp, whose leading string is a live object of Paddle's.
struct DeviceProperties {
  std::string name;
  int major;
  int minor;
  size_t total_memory;
  int compute_units;
  bool is_multi_board;
  bool is_integrated;
};
using StreamCallback = void (*)(DeviceNumber*, Stream*, void* user_data, int32_t* status);

constexpr uint64_t kLargestChunkShare = 8;  // of the memory

Status translate(uhal_status status) { return status == UHAL_OK ? kSuccess : kFailed; }

// For calls whose failure Paddle raises: of a failed status alone it says no more than the number. Paddle lets
// exceptions through.
Status translate_or_raise(uhal_status status, const char* call) {
  if (status != UHAL_OK) raise_last_error(status, call);
  return kSuccess;
}

// Callbacks have no user pointer, so there is a set of them per device type.
template <int type_index>
struct Runtime {
  static inline const char* type = nullptr;
  static inline std::atomic<int> last_chosen{0};
  // Paddle asks for it in forked children too, where unihal's devices are closed.
  static inline std::atomic<int32_t> known_count{0};
  static inline DeferredError deferred;

  static uhal_device* device(int ordinal) {
    uhal_device* device = nullptr;
    return uhal_device_get(type, ordinal, &device) == UHAL_OK ? device : nullptr;
  }
  static uhal_device* device(const DeviceNumber* number) { return device(number->id); }

  // -- devices
  static Status initialize() { return kSuccess; }
  // Paddle is done with all devices of this type; uhal_finalize waits for all types, so the process's end does it.
  static Status finalize() { return kSuccess; }
  static Status init_device(DeviceNumber* number) {
    uhal_device* handle = device(number);
    if (handle == nullptr) return kFailed;
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    const uhal_status status = uhal_device_properties_get(handle, &properties);
    if (status == UHAL_OK && (properties.checks & UHAL_CHECK_MEMORY) != 0 && !keep_no_idle_memory()) {
      std::fprintf(stderr, "unihal: the memory check sees Paddle's pool in place of its tensors in this Paddle\n");
    }
    return translate(status);
  }
  static Status set_device(DeviceNumber* number) {
    choose_ordinal(type_index, number->id);
    last_chosen = number->id;
    return kSuccess;
  }
  static Status get_device(DeviceNumber* number) {
    number->id = std::max(current_ordinal(type_index), 0);
    return kSuccess;
  }
  static Status deinit_device(DeviceNumber* number) {
    uhal_device* handle = device(number);
    if (handle == nullptr) return kFailed;
    const uhal_status released = staging_of(handle).release(handle);
    const uhal_status status = uhal_device_synchronize(handle);
    return translate(status == UHAL_OK ? released : status);
  }
  static Status synchronize_device(DeviceNumber* number) {
    uhal_device* handle = device(number);
    if (handle == nullptr) return kFailed;
    deferred.raise_if_kept();
    return translate_or_raise(uhal_device_synchronize(handle), "device");
  }
  static Status get_device_count(size_t* count) {
    int32_t found = known_count;
    if (found == 0 && uhal_device_count(type, &found) != UHAL_OK) return kFailed;
    known_count = found;
    *count = static_cast<size_t>(found);
    return kSuccess;
  }
  static Status get_device_list(size_t* list) {
    size_t count = 0;
    const Status status = get_device_count(&count);
    for (size_t i = 0; i < count; ++i) list[i] = i;
    return status;
  }

  // -- streams and events
  static Status create_stream(DeviceNumber* number, Stream** stream) {
    uhal_device* handle = device(number);
    uhal_stream* created = nullptr;
    if (handle == nullptr) return kFailed;
    uhal_event* passed = nullptr;
    translate_or_raise(uhal_event_create(handle, &passed), "stream");
    if (const uhal_status status = uhal_stream_create(handle, &created); status != UHAL_OK) {
      static_cast<void>(uhal_event_destroy(passed));  // leaves the error record as it is
      return translate_or_raise(status, "stream");
    }
    *stream = new Stream{created, handle, number->id, passed};
    add_stream(*stream);
    return kSuccess;
  }
  static Status destroy_stream(DeviceNumber*, Stream* stream) {
    if (!is_our_stream(stream)) return kSuccess;
    remove_stream(stream);
    const Status status = translate(uhal_stream_destroy(stream->handle));
    static_cast<void>(uhal_event_destroy(stream->passed));
    delete stream;
    return status;
  }
  // The handle of the stream that Paddle names. Of one that is not ours Paddle knows no more than we do: the default
  // stream stands for it, and the work that it may have meant to follow has run by then.
  static uhal_stream* handle_of(DeviceNumber* number, Stream* stream) {
    if (is_our_stream(stream)) return stream->handle;
    uhal_device* handle = device(number);
    uhal_stream* standing_in = nullptr;
    if (handle == nullptr) return nullptr;
    translate_or_raise(uhal_device_synchronize(handle), "stream");
    translate_or_raise(uhal_device_default_stream(handle, &standing_in), "stream");
    return standing_in;
  }
  static Status query_stream(DeviceNumber* number, Stream* stream) {
    int32_t done = 0;
    return uhal_stream_query(handle_of(number, stream), &done) == UHAL_OK && done ? kSuccess : kFailed;
  }
  static Status synchronize_stream(DeviceNumber* number, Stream* stream) {
    if (!is_our_stream(stream)) return synchronize_device(number);
    deferred.raise_if_kept();
    return translate_or_raise(uhal_stream_synchronize(stream->handle), "stream");
  }
  static Status stream_add_callback(DeviceNumber* number, Stream* stream, StreamCallback callback, void* user_data) {
    struct Call {
      DeviceNumber number;
      Stream* stream;
      StreamCallback callback;
      void* user_data;
    };
    auto* call = new Call{*number, stream, callback, user_data};
    const uhal_status status = uhal_stream_host_callback(
        handle_of(number, stream),
        [](void* argument) {
          auto* call = static_cast<Call*>(argument);
          int32_t callback_status = kSuccess;
          call->callback(&call->number, call->stream, call->user_data, &callback_status);
          delete call;
        },
        call);
    if (status != UHAL_OK) delete call;
    return translate_or_raise(status, "stream");
  }
  static Status create_event(DeviceNumber* number, uhal_event** event) {
    uhal_device* handle = device(number);
    return handle ? translate_or_raise(uhal_event_create(handle, event), "event") : kFailed;
  }
  static Status record_event(DeviceNumber* number, Stream* stream, uhal_event* event) {
    return translate_or_raise(uhal_event_record(event, handle_of(number, stream)), "event");
  }
  static Status destroy_event(DeviceNumber*, uhal_event* event) { return translate(uhal_event_destroy(event)); }
  static Status query_event(DeviceNumber*, uhal_event* event) {
    int32_t done = 0;
    return uhal_event_query(event, &done) == UHAL_OK && done ? kSuccess : kFailed;
  }
  static Status synchronize_event(DeviceNumber*, uhal_event* event) {
    return translate_or_raise(uhal_event_synchronize(event), "event");
  }
  static Status stream_wait_event(DeviceNumber* number, Stream* stream, uhal_event* event) {
    return translate_or_raise(uhal_stream_wait_event(handle_of(number, stream), event), "stream");
  }

  // -- memory
  // Out of memory is success with a null pointer: then Paddle frees what its pool keeps and tries again. The second
  // refusal is raised, since Paddle's own message would not say by whom and why.
  static Status allocate(DeviceNumber* number, void** pointer, size_t size, uhal_memory_kind kind) {
    thread_local size_t refused = 0;
    uhal_device* handle = device(number);
    if (handle == nullptr) return kFailed;
    const uhal_status status = uhal_allocate(handle, nullptr, kind, size, pointer);
    const bool refused_before = refused == size;
    refused = 0;
    if (status == UHAL_RESOURCE_EXHAUSTED && !refused_before) {
      refused = size;
      return kSuccess;
    }
    return translate_or_raise(status, "memory");
  }
  // Paddle does not say which stream used the memory last, and its pool gives memory back rarely: wait for all. The
  // memory is free whatever became of the work; that is for the next wait to say.
  static Status release(DeviceNumber* number, void* pointer, size_t) {
    uhal_device* handle = device(number);
    if (handle == nullptr) return kFailed;
    const uhal_status status = uhal_device_synchronize(handle);
    const bool lost = status == UHAL_UNAVAILABLE;  // no error of the work: the next call says so itself
    if (status != UHAL_OK && !lost) deferred.keep(status, "memory");
    return translate(uhal_free(handle, nullptr, pointer));
  }
  static Status device_memory_allocate(DeviceNumber* number, void** pointer, size_t size) {
    return allocate(number, pointer, size, UHAL_MEMORY_DEVICE);
  }
  static Status host_memory_allocate(DeviceNumber* number, void** pointer, size_t size) {
    return allocate(number, pointer, size, UHAL_MEMORY_PINNED);
  }
  static Status unified_memory_allocate(DeviceNumber* number, void** pointer, size_t size) {
    return allocate(number, pointer, size, UHAL_MEMORY_MANAGED);
  }
  static Status device_memory_set(DeviceNumber* number, void* pointer, unsigned char value, size_t size) {
    return in_order(number, nullptr,
                    [&](uhal_stream* stream) { return uhal_memory_fill(stream, pointer, &value, 1, size); });
  }

  // Paddle takes for granted that a copy of which it names no stream comes after all work that was submitted before,
  // and before all that will be; it also copies by a stream of its own into memory that another one still reads. So the
  // device's streams wait for each other around such work, and the host does not.
  template <class Submit>
  static Status in_order(DeviceNumber* number, const Stream* wanted, Submit submit) {
    uhal_device* handle = device(number);
    uhal_stream* standing_in = nullptr;
    if (handle == nullptr || uhal_device_default_stream(handle, &standing_in) != UHAL_OK) return kFailed;
    const auto call = [](uhal_stream* stream, void* argument) { return (*static_cast<Submit*>(argument))(stream); };
    return translate_or_raise(submit_in_device_order(handle, wanted, standing_in, call, &submit), "copy");
  }
  // Paddle reads the host's memory, or gives it away, as soon as the call returns.
  template <uhal_copy_kind kind>
  static Status copy_in_order(DeviceNumber* number, const Stream* wanted, void* destination, const void* source,
                              size_t size) {
    uhal_stream* used = nullptr;
    const Status status = in_order(number, wanted, [&](uhal_stream* stream) {
      used = stream;
      int32_t capturing = 0;
      static_cast<void>(uhal_graph_capture_query(stream, &capturing));
      // A graph would copy what lies in the staging memory by then; the core refuses other host memory.
      if (kind != UHAL_COPY_HOST_TO_DEVICE || capturing != 0) return uhal_copy(stream, destination, source, size, kind);
      uhal_device* handle = device(number);
      return staging_of(handle).copy(handle, stream, destination, source, size);
    });
    if (status != kSuccess || kind != UHAL_COPY_DEVICE_TO_HOST) return status;
    return translate_or_raise(uhal_stream_synchronize(used), "copy");
  }
  template <uhal_copy_kind kind>
  static Status copy(DeviceNumber* number, void* destination, const void* source, size_t size) {
    return copy_in_order<kind>(number, nullptr, destination, source, size);
  }
  template <uhal_copy_kind kind>
  static Status copy_async(DeviceNumber* number, Stream* stream, void* destination, const void* source, size_t size) {
    const bool known = is_our_stream(stream);
    if (kind != UHAL_COPY_DEVICE_TO_DEVICE || !known) {
      return copy_in_order<kind>(number, known ? stream : nullptr, destination, source, size);
    }
    return translate_or_raise(uhal_copy(stream->handle, destination, source, size, kind), "copy");
  }
  static Status copy_peer(DeviceNumber* to, DeviceNumber* from, void* destination, const void* source, size_t size) {
    if (const Status status = synchronize_device(from); status != kSuccess) return status;
    return in_order(to, nullptr, [&](uhal_stream* stream) {
      return uhal_copy_peer(stream, device(to), destination, device(from), source, size);
    });
  }
  static Status copy_peer_async(DeviceNumber* to, DeviceNumber* from, Stream* stream, void* destination,
                                const void* source, size_t size) {
    return translate_or_raise(
        uhal_copy_peer(handle_of(to, stream), device(to), destination, device(from), source, size), "copy");
  }

  static Status device_memory_stats(DeviceNumber* number, size_t* total, size_t* available) {
    uhal_memory_stats stats = {};
    stats.struct_size = sizeof stats;
    uhal_device* handle = device(number);
    if (handle == nullptr || uhal_memory_stats_get(handle, UHAL_MEMORY_DEVICE, &stats) != UHAL_OK) return kFailed;
    *total = stats.limit_bytes != 0 ? stats.limit_bytes : stats.total_bytes;
    *available = *total > stats.allocated_bytes ? *total - stats.allocated_bytes : 0;
    return kSuccess;
  }
  static Status device_min_chunk_size(DeviceNumber*, size_t* size) {
    *size = kMinimumChunk;
    return kSuccess;
  }
  // What Paddle's best-fit pool (FLAGS_use_system_allocator) takes at its first request, beside what there is already.
  static Status device_max_chunk_size(DeviceNumber* number, size_t* size) {
    return property(number, [&](const uhal_device_properties& p) {
      *size = std::max<size_t>(kMinimumChunk, std::min(p.max_allocation, p.total_memory / kLargestChunkShare));
    });
  }
  static Status device_max_alloc_size(DeviceNumber* number, size_t* size) {
    return property(number, [&](const uhal_device_properties& p) { *size = p.max_allocation; });
  }
  static Status device_extra_padding_size(DeviceNumber*, size_t* size) {
    *size = 0;
    return kSuccess;
  }

  // -- properties
  template <class Read>
  static Status property(DeviceNumber* number, Read read) {
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    uhal_device* handle = device(number);
    if (handle == nullptr || uhal_device_properties_get(handle, &properties) != UHAL_OK) return kFailed;
    read(properties);
    return kSuccess;
  }
  static Status get_device_properties(DeviceNumber* number, DeviceProperties* out) {
    return property(number, [&](const uhal_device_properties& p) {
      out->name = p.name;
      out->major = 0;
      out->minor = 0;
      out->total_memory = p.total_memory;
      out->compute_units = p.compute_units;
      out->is_multi_board = false;
      out->is_integrated = p.unified_memory != 0;
    });
  }
  static Status get_multi_process(DeviceNumber* number, size_t* count) {
    return property(number, [&](const uhal_device_properties& p) { *count = static_cast<size_t>(p.compute_units); });
  }
  // What unihal has no number for.
  static Status zero(size_t* value) {
    *value = 0;
    return kSuccess;
  }
  static Status zero_of_device(DeviceNumber*, size_t* value) { return zero(value); }
  static Status get_max_grid_dim_size(DeviceNumber*, std::array<unsigned, 3>* size) {
    size->fill(UINT32_MAX);
    return kSuccess;
  }
  template <uhal_dtype dtype>
  static Status is_supported(DeviceNumber* number, bool* supported) {
    return property(number, [&](const uhal_device_properties& p) { *supported = p.supported_dtypes >> dtype & 1; });
  }

  // -- collectives: the rest of them is in collectives.cc
  // Paddle names no device: it is the thread's, or in threads that chose none, the process's.
  static uhal_device* current_device() {
    const int current = current_ordinal(type_index);
    uhal_device* handle = device(current >= 0 ? current : last_chosen.load());
    if (handle == nullptr) raise_last_error(uhal_last_error()->status, "collective");
    return handle;
  }
  static Status xccl_get_unique_id(RootId* id) {
    create_communicator_id(current_device(), id);
    return kSuccess;
  }
  static Status xccl_comm_init_rank(size_t size, RootId* id, size_t rank, Communicator** communicator) {
    *communicator = create_communicator(current_device(), size, id, rank);
    return kSuccess;
  }

  // -- profiler
  static Status profiler_collect_trace_data(void* collector, uint64_t, void*) {
    give_profiled_work(collector, type);
    return kSuccess;
  }

  static const Callback* callbacks() {
#define UNIHAL_CALLBACK(slot, function)      \
  {                                          \
    slot, reinterpret_cast<void*>(&function) \
  }
    static const Callback table[] = {
        UNIHAL_CALLBACK("initialize", initialize),
        UNIHAL_CALLBACK("finalize", finalize),
        UNIHAL_CALLBACK("init_device", init_device),
        UNIHAL_CALLBACK("set_device", set_device),
        UNIHAL_CALLBACK("get_device", get_device),
        UNIHAL_CALLBACK("deinit_device", deinit_device),
        UNIHAL_CALLBACK("create_stream", create_stream),
        UNIHAL_CALLBACK("destroy_stream", destroy_stream),
        UNIHAL_CALLBACK("query_stream", query_stream),
        UNIHAL_CALLBACK("stream_add_callback", stream_add_callback),
        UNIHAL_CALLBACK("create_event", create_event),
        UNIHAL_CALLBACK("record_event", record_event),
        UNIHAL_CALLBACK("destroy_event", destroy_event),
        UNIHAL_CALLBACK("query_event", query_event),
        UNIHAL_CALLBACK("synchronize_device", synchronize_device),
        UNIHAL_CALLBACK("synchronize_stream", synchronize_stream),
        UNIHAL_CALLBACK("synchronize_event", synchronize_event),
        UNIHAL_CALLBACK("stream_wait_event", stream_wait_event),
        UNIHAL_CALLBACK("device_memory_allocate", device_memory_allocate),
        UNIHAL_CALLBACK("device_memory_deallocate", release),
        UNIHAL_CALLBACK("device_memory_set", device_memory_set),
        UNIHAL_CALLBACK("host_memory_allocate", host_memory_allocate),
        UNIHAL_CALLBACK("host_memory_deallocate", release),
        UNIHAL_CALLBACK("unified_memory_allocate", unified_memory_allocate),
        UNIHAL_CALLBACK("unified_memory_deallocate", release),
        UNIHAL_CALLBACK("memory_copy_h2d", copy<UHAL_COPY_HOST_TO_DEVICE>),
        UNIHAL_CALLBACK("memory_copy_d2h", copy<UHAL_COPY_DEVICE_TO_HOST>),
        UNIHAL_CALLBACK("memory_copy_d2d", copy<UHAL_COPY_DEVICE_TO_DEVICE>),
        UNIHAL_CALLBACK("memory_copy_p2p", copy_peer),
        UNIHAL_CALLBACK("async_memory_copy_h2d", copy_async<UHAL_COPY_HOST_TO_DEVICE>),
        UNIHAL_CALLBACK("async_memory_copy_d2h", copy_async<UHAL_COPY_DEVICE_TO_HOST>),
        UNIHAL_CALLBACK("async_memory_copy_d2d", copy_async<UHAL_COPY_DEVICE_TO_DEVICE>),
        UNIHAL_CALLBACK("async_memory_copy_p2p", copy_peer_async),
        UNIHAL_CALLBACK("get_device_count", get_device_count),
        UNIHAL_CALLBACK("get_device_list", get_device_list),
        UNIHAL_CALLBACK("device_memory_stats", device_memory_stats),
        UNIHAL_CALLBACK("device_min_chunk_size", device_min_chunk_size),
        UNIHAL_CALLBACK("device_max_chunk_size", device_max_chunk_size),
        UNIHAL_CALLBACK("device_max_alloc_size", device_max_alloc_size),
        UNIHAL_CALLBACK("device_extra_padding_size", device_extra_padding_size),
        UNIHAL_CALLBACK("get_compute_capability@3.0", zero),
        UNIHAL_CALLBACK("get_compute_capability", zero_of_device),
        UNIHAL_CALLBACK("get_device_properties", get_device_properties),
        UNIHAL_CALLBACK("get_runtime_version@3.0", zero),
        UNIHAL_CALLBACK("get_runtime_version", zero_of_device),
        UNIHAL_CALLBACK("get_driver_version@3.0", zero),
        UNIHAL_CALLBACK("get_driver_version", zero_of_device),
        UNIHAL_CALLBACK("get_multi_process", get_multi_process),
        UNIHAL_CALLBACK("get_max_threads_per_mp", zero_of_device),
        UNIHAL_CALLBACK("get_max_threads_per_block", zero_of_device),
        UNIHAL_CALLBACK("get_max_grid_dim_size", get_max_grid_dim_size),
        UNIHAL_CALLBACK("is_float16_supported", is_supported<UHAL_FLOAT16>),
        UNIHAL_CALLBACK("is_bfloat16_supported", is_supported<UHAL_BFLOAT16>),
        UNIHAL_CALLBACK("xccl_get_unique_id", xccl_get_unique_id),
        UNIHAL_CALLBACK("xccl_comm_init_rank", xccl_comm_init_rank),
        UNIHAL_CALLBACK("profiler_collect_trace_data", profiler_collect_trace_data),
        {nullptr, nullptr},
    };
#undef UNIHAL_CALLBACK
    return table;
  }
};

template <int index>
const Callback* callbacks_of(const char* name) {
  Runtime<index>::type = name;
  return Runtime<index>::callbacks();
}

// One entry per row that the core's table of device types may have.
constexpr const Callback* (*kRuntimes[kMostDeviceTypes])(const char*) = {
    callbacks_of<0>, callbacks_of<1>, callbacks_of<2>, callbacks_of<3>, callbacks_of<4>, callbacks_of<5>};

}  // namespace

const Callback* runtime_callbacks(const char* device_type) {
  uhal_device_type_info info = {};
  info.struct_size = sizeof info;
  for (size_t i = 0; i < std::size(kRuntimes) && uhal_device_type_get(i, &info) == UHAL_OK; ++i) {
    if (std::strcmp(info.name, device_type) == 0) return kRuntimes[i](info.name);
  }
  return nullptr;
}

}  // namespace unihal::paddle
