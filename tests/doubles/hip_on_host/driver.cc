// The driver's functions, under the names of one vendor.
//
// Each is written once, as on_host_NAME by the name that functions.def has for it, and exported under the vendor's.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "csrc/backends/gpu/api.h"
#include "tests/doubles/hip_on_host/codes.h"
#include "tests/doubles/hip_on_host/device.h"
#include "tests/doubles/hip_on_host/faults.h"
#include "tests/doubles/hip_on_host/memory.h"
#include "tests/doubles/hip_on_host/program.h"
#include "tests/doubles/hip_on_host/stream.h"
#include "tests/doubles/hip_on_host/vendor.h"

using unihal::gpu::Function;
using unihal::gpu::Module;
using unihal::gpu::NativeEvent;
using unihal::gpu::NativeExecutable;
using unihal::gpu::NativeGraph;
using unihal::gpu::NativeStream;

#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters)                            \
  extern "C" __attribute__((visibility("hidden"))) int on_host_##name parameters; \
  ON_HOST_EXPORT int ON_HOST_NAME(cuda, hip)                                      \
  parameters __attribute__((alias("on_host_" #name)));
#include "csrc/backends/gpu/functions.def"

namespace on_host {
namespace {

namespace symbols {
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) constexpr const char* name = ON_HOST_NAME(#cuda, #hip);
#include "csrc/backends/gpu/functions.def"
}  // namespace symbols

constexpr int kMostGroupItems = 1024;
constexpr unsigned kMostGroups = 65535;  // along the second and the third axis
constexpr int kMaxThreadsAttribute = 0;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kTimed = 0;
constexpr unsigned kUntimed = 2;
constexpr unsigned kPortable = 1;
constexpr unsigned kGlobal = 1;

// Handles that are in use. A stale one is found, not followed.
template <class Object>
class Handles {
 public:
  void* add(std::shared_ptr<Object> object) {
    std::lock_guard<std::mutex> lock(mutex_);
    void* const handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }

  std::shared_ptr<Object> find(const void* handle) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found != objects_.end() ? found->second : nullptr;
  }

  std::shared_ptr<Object> take(const void* handle) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    const std::shared_ptr<Object> object = found->second;
    objects_.erase(found);
    return object;
  }

  template <class Visit>
  void for_each(Visit&& visit) {
    std::map<const void*, std::shared_ptr<Object>> all;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      all = objects_;
    }
    for (const auto& entry : all) visit(*entry.second);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::shared_ptr<Object>> objects_;
};

// What was captured, and the same ready for launches.
struct Graph {
  std::shared_ptr<const Stream::Captured> work;
};
struct Executable {
  std::shared_ptr<const Stream::Captured> work;
};

// Never destroyed: threads of streams use them while the process ends.
struct Driver {
  std::atomic<bool> is_open{false};
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Program> modules;
  Handles<Kernel> functions;
  Handles<Graph> graphs;
  Handles<Executable> executables;
};

Driver& driver() {
  static Driver* const instance = new Driver;
  return *instance;
}

// What every call begins with: 0 to go on.
int begin(const char* symbol) {
  if (const int code = failure(symbol); code != kSuccess) return code;
  // HIP has no code for it.
  if (is_driver_thread()) return ON_HOST_NAME(kNotPermitted, kUnknown);
  return driver().is_open ? kSuccess : kNotInitialized;
}

// The same for calls that are for the current device.
int begin(const char* symbol, Device** device) {
  if (const int code = begin(symbol); code != kSuccess) return code;
  *device = current_device();
  if (*device == nullptr) return kIsCuda ? kInvalidContext : kNoDevice;
  return (*device)->lost;
}

#define BEGIN(name) \
  if (const int refused = begin(symbols::name); refused != kSuccess) return refused
#define BEGIN_ON_DEVICE(name) \
  Device* device = nullptr;   \
  if (const int refused = begin(symbols::name, &device); refused != kSuccess) return refused

// A stream of the current device.
int find_stream(NativeStream handle, const Device* device, std::shared_ptr<Stream>* stream) {
  *stream = driver().streams.find(handle);
  return *stream != nullptr && (*stream)->device == device ? kSuccess : kInvalidHandle;
}

int find_event(NativeEvent handle, std::shared_ptr<Event>* event) {
  *event = driver().events.find(handle);
  return *event != nullptr ? kSuccess : kInvalidHandle;
}

int copy(Device* device, void* destination, const void* source, size_t bytes, NativeStream handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (destination == nullptr || source == nullptr) return kInvalidValue;
  // Ordinary memory is read at the call, as drivers do.
  std::string early;
  if (is_ordinary(source)) early.assign(static_cast<const char*>(source), bytes);
  stream->submit([destination, source, bytes, early = std::move(early)] {
    char* const to = reach(destination, bytes);
    const char* const from = early.empty() ? reach(const_cast<void*>(source), bytes) : early.data();
    if (to == nullptr || from == nullptr) return kIllegalAddress;
    std::memmove(to, from, bytes);
    return kSuccess;
  });
  return kSuccess;
}

template <class Value>
int fill(Device* device, void* destination, Value value, size_t count, NativeStream handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (destination == nullptr || reinterpret_cast<uintptr_t>(destination) % sizeof value != 0) return kInvalidValue;
  stream->submit([destination, value, count] {
    char* const to = reach(destination, count * sizeof value);
    if (to == nullptr) return kIllegalAddress;
    const size_t bytes = count * sizeof value;
    std::memcpy(to, &value, std::min(bytes, sizeof value));
    // What is filled is copied behind itself: in few calls, of which sanitizers look at each.
    for (size_t filled = sizeof value; filled < bytes; filled *= 2) {
      std::memcpy(to + filled, to, std::min(filled, bytes - filled));
    }
    return kSuccess;
  });
  return kSuccess;
}

int enable_peer(Device* device, Device* peer, unsigned flags) {
  if (peer == nullptr || peer == device) return kInvalidDevice;
  if (flags != 0) return kInvalidValue;
  const uint64_t bit = uint64_t{1} << peer->number;
  return (device->peers.fetch_or(bit) & bit) != 0 ? kPeerAlreadyEnabled : kSuccess;
}

int copy_text(const std::string& text, char* room, int bytes) {
  if (room == nullptr || bytes <= 0) return kInvalidValue;
  const size_t length = std::min(text.size(), static_cast<size_t>(bytes) - 1);
  std::memcpy(room, text.c_str(), length);
  room[length] = '\0';
  return kSuccess;
}

}  // namespace
}  // namespace on_host

using namespace on_host;

int on_host_initialize(unsigned flags) {
  if (const int code = failure(symbols::initialize); code != kSuccess) return code;
  if (flags != 0) return kInvalidValue;
  if (kIsCuda && device_count() == 0) return kNoDevice;
  driver().is_open = true;
  return kSuccess;
}

int on_host_driver_version(int* version) {
  BEGIN(driver_version);
  const char* said = std::getenv("HIP_ON_HOST_VERSION");
  *version = said != nullptr ? std::atoi(said) : ON_HOST_NAME(10020, 60342134);
  return kSuccess;
}

int on_host_device_count(int* count) {
  BEGIN(device_count);
  *count = device_count();
  return *count == 0 ? kNoDevice : kSuccess;
}

int on_host_device_name(char* name, int bytes, int number) {
  BEGIN(device_name);
  const Device* device = find_device(number);
  return device != nullptr ? copy_text(device->name, name, bytes) : kInvalidDevice;
}

int on_host_device_pci_bus_id(char* id, int bytes, int number) {
  BEGIN(device_pci_bus_id);
  const Device* device = find_device(number);
  if (device == nullptr) return kInvalidDevice;
  return copy_text("0000:0" + std::to_string(number + 3) + ":00.0", id, bytes);
}

int on_host_device_total_memory(size_t* bytes, int number) {
  BEGIN(device_total_memory);
  const Device* device = find_device(number);
  if (device == nullptr) return kInvalidDevice;
  *bytes = device->memory;
  return kSuccess;
}

int on_host_device_attribute(int* value, int attribute, int number) {
  BEGIN(device_attribute);
  const Device* device = find_device(number);
  if (device == nullptr) return kInvalidDevice;
  return attribute_of(*device, attribute, value) ? kSuccess : kInvalidValue;
}

int on_host_device_can_access_peer(int* can, int number, int peer) {
  BEGIN(device_can_access_peer);
  if (find_device(number) == nullptr || find_device(peer) == nullptr) return kInvalidDevice;
  *can = number != peer ? 1 : 0;
  return kSuccess;
}

int on_host_memory_info(size_t* free_bytes, size_t* total_bytes) {
  BEGIN_ON_DEVICE(memory_info);
  *total_bytes = device->memory;
  *free_bytes = device->memory - device->used;
  return kSuccess;
}

int on_host_allocate(void** pointer, size_t bytes) {
  BEGIN_ON_DEVICE(allocate);
  return allocate(*device, Kind::kDevice, bytes, pointer);
}

int on_host_free(void* pointer) {
  BEGIN_ON_DEVICE(free);
  // As both drivers: once everything that may use it has run.
  driver().streams.for_each([](const Stream& stream) { stream.wait(); });
  return release(Kind::kDevice, pointer);
}

int on_host_allocate_pinned(void** pointer, size_t bytes, unsigned flags) {
  BEGIN_ON_DEVICE(allocate_pinned);
  return flags == kPortable ? allocate(*device, Kind::kPinned, bytes, pointer) : kInvalidValue;
}

int on_host_free_pinned(void* pointer) {
  BEGIN_ON_DEVICE(free_pinned);
  driver().streams.for_each([](const Stream& stream) { stream.wait(); });
  return release(Kind::kPinned, pointer);
}

int on_host_allocate_managed(void** pointer, size_t bytes, unsigned flags) {
  BEGIN_ON_DEVICE(allocate_managed);
  return flags == kGlobal ? allocate(*device, Kind::kManaged, bytes, pointer) : kInvalidValue;
}

int on_host_stream_create(NativeStream* handle, unsigned flags) {
  BEGIN_ON_DEVICE(stream_create);
  if (flags != kNonBlocking) return kNotSupported;  // there is no default stream here to be in order with
  *handle = static_cast<NativeStream>(driver().streams.add(Stream::open(device)));
  return kSuccess;
}

int on_host_stream_destroy(NativeStream handle) {
  BEGIN(stream_destroy);
  const std::shared_ptr<Stream> stream = driver().streams.take(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->close();
  return kSuccess;
}

int on_host_stream_query(NativeStream handle) {
  BEGIN_ON_DEVICE(stream_query);
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  if (!stream->is_idle()) return kNotReady;
  return device->lost;
}

int on_host_stream_synchronize(NativeStream handle) {
  BEGIN_ON_DEVICE(stream_synchronize);
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  stream->wait();
  return device->lost;
}

int on_host_stream_wait_event(NativeStream handle, NativeEvent event_handle, unsigned flags) {
  BEGIN_ON_DEVICE(stream_wait_event);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  if (flags != 0) return kInvalidValue;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  if (const int code = find_event(event_handle, &event); code != kSuccess) return code;
  if (const std::shared_ptr<Mark> mark = event->mark()) {
    stream->submit([mark] {
      mark->wait();
      return kSuccess;
    });
  }
  return kSuccess;
}

int on_host_launch_host_function(NativeStream handle, void (*function)(void*), void* user_data) {
  BEGIN_ON_DEVICE(launch_host_function);
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  if (function == nullptr) return kInvalidValue;
  stream->submit([function, user_data] {
    call_on_driver_thread(function, user_data);
    return kSuccess;
  });
  return kSuccess;
}

int on_host_event_create(NativeEvent* handle, unsigned flags) {
  BEGIN_ON_DEVICE(event_create);
  if (flags != kTimed && flags != kUntimed) return kInvalidValue;
  *handle = static_cast<NativeEvent>(driver().events.add(std::make_shared<Event>(device, flags == kTimed)));
  return kSuccess;
}

int on_host_event_destroy(NativeEvent handle) {
  BEGIN(event_destroy);
  return driver().events.take(handle) != nullptr ? kSuccess : kInvalidHandle;
}

int on_host_event_record(NativeEvent event_handle, NativeStream handle) {
  BEGIN_ON_DEVICE(event_record);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  if (const int code = find_event(event_handle, &event); code != kSuccess) return code;
  if (event->device != device) return kInvalidHandle;
  event->set_mark(stream->mark());
  return kSuccess;
}

int on_host_event_query(NativeEvent handle) {
  BEGIN(event_query);
  std::shared_ptr<Event> event;
  if (const int code = find_event(handle, &event); code != kSuccess) return code;
  const std::shared_ptr<Mark> mark = event->mark();
  if (mark != nullptr && !mark->is_passed()) return kNotReady;
  return event->device->lost;
}

int on_host_event_synchronize(NativeEvent handle) {
  BEGIN(event_synchronize);
  std::shared_ptr<Event> event;
  if (const int code = find_event(handle, &event); code != kSuccess) return code;
  if (const std::shared_ptr<Mark> mark = event->mark()) mark->wait();
  return event->device->lost;
}

int on_host_event_elapsed(float* milliseconds, NativeEvent start_handle, NativeEvent end_handle) {
  BEGIN(event_elapsed);
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  if (const int code = find_event(start_handle, &start); code != kSuccess) return code;
  if (const int code = find_event(end_handle, &end); code != kSuccess) return code;
  const std::shared_ptr<Mark> begun = start->mark();
  const std::shared_ptr<Mark> ended = end->mark();
  if (begun == nullptr || ended == nullptr || start->device != end->device) return kInvalidHandle;
  if (!start->is_timed || !end->is_timed) return kInvalidHandle;
  if (!begun->is_passed() || !ended->is_passed()) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(ended->time() - begun->time()).count();
  return kSuccess;
}

int on_host_fill_8(void* destination, unsigned char value, size_t count, NativeStream stream) {
  BEGIN_ON_DEVICE(fill_8);
  return fill(device, destination, value, count, stream);
}

int on_host_fill_16(void* destination, unsigned short value, size_t count, NativeStream stream) {
  BEGIN_ON_DEVICE(fill_16);
  return fill(device, destination, value, count, stream);
}

int on_host_fill_32(void* destination, unsigned value, size_t count, NativeStream stream) {
  BEGIN_ON_DEVICE(fill_32);
  return fill(device, destination, value, count, stream);
}

int on_host_module_load(Module* module, const void* image) {
  BEGIN_ON_DEVICE(module_load);
  std::string architecture;
  auto program = std::make_shared<Program>();
  if (!read_binary(image, &architecture, &program->text)) return kInvalidImage;
  // "sm_90a" is sm_90 with what only that has.
  if (architecture != compiled_for(*device) && architecture != compiled_for(*device) + "a") return kNoBinary;
  *module = static_cast<Module>(driver().modules.add(std::move(program)));
  return kSuccess;
}

int on_host_module_unload(Module module) {
  BEGIN_ON_DEVICE(module_unload);
  return driver().modules.take(module) != nullptr ? kSuccess : kInvalidHandle;
}

int on_host_module_function(Function* function, Module module, const char* name) {
  BEGIN_ON_DEVICE(module_function);
  const std::shared_ptr<Program> program = driver().modules.find(module);
  if (program == nullptr) return kInvalidHandle;
  if (!has_kernel(*program, name)) return kNotFound;
  *function = static_cast<Function>(driver().functions.add(std::make_shared<Kernel>(Kernel{program, name})));
  return kSuccess;
}

namespace {

// The most work-items of a group, of any kernel.
int most_items() {
  const int limit = failure("groups");
  return limit != 0 ? limit : kMostGroupItems;
}

}  // namespace

int on_host_function_attribute(int* value, int attribute, Function function) {
  BEGIN_ON_DEVICE(function_attribute);
  if (driver().functions.find(function) == nullptr) return kInvalidHandle;
  if (attribute != kMaxThreadsAttribute) return kInvalidValue;
  *value = most_items();
  return kSuccess;
}

constexpr unsigned kMostSharedBytes = 99 * 1024;

int on_host_launch(Function function, unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned size_x,
                   unsigned size_y, unsigned size_z, unsigned shared_bytes, NativeStream handle, void** parameters,
                   void** extra) {
  BEGIN_ON_DEVICE(launch);
  std::shared_ptr<Stream> stream;
  const std::shared_ptr<Kernel> kernel = driver().functions.find(function);
  if (kernel == nullptr) return kInvalidHandle;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  const uint64_t items = uint64_t{size_x} * size_y * size_z;
  if (items == 0 || uint64_t{groups_x} * groups_y * groups_z == 0 || groups_x > INT32_MAX || groups_y > kMostGroups ||
      groups_z > kMostGroups || parameters == nullptr || extra != nullptr || shared_bytes > kMostSharedBytes) {
    return kInvalidValue;
  }
  if (items > static_cast<uint64_t>(most_items())) return kInvalidValue;
  stream->submit([kernel] { return kSuccess; });
  return kSuccess;
}

int on_host_stream_begin_capture(NativeStream handle, int mode) {
  BEGIN_ON_DEVICE(stream_begin_capture);
  constexpr int kRelaxed = 2;
  std::shared_ptr<Stream> stream;
  if (const int code = find_stream(handle, device, &stream); code != kSuccess) return code;
  if (mode != kRelaxed) return kNotSupported;  // what the others forbid is not looked at here
  return stream->begin_capture() ? kSuccess : kInvalidValue;
}

int on_host_stream_end_capture(NativeStream handle, NativeGraph* graph) {
  // The capture is over whatever comes of the call.
  const std::shared_ptr<Stream> stream = driver().streams.find(handle);
  const std::shared_ptr<const Stream::Captured> work = stream != nullptr ? stream->end_capture() : nullptr;
  *graph = nullptr;
  BEGIN_ON_DEVICE(stream_end_capture);
  if (stream == nullptr || stream->device != device) return kInvalidHandle;
  if (work == nullptr) return kCaptureInvalidated;
  *graph = static_cast<NativeGraph>(driver().graphs.add(std::make_shared<Graph>(Graph{work})));
  return kSuccess;
}

int on_host_graph_destroy(NativeGraph graph) {
  BEGIN(graph_destroy);
  return driver().graphs.take(graph) != nullptr ? kSuccess : kInvalidHandle;
}

int on_host_graph_launch(NativeExecutable handle, NativeStream stream_handle) {
  BEGIN_ON_DEVICE(graph_launch);
  std::shared_ptr<Stream> stream;
  const std::shared_ptr<Executable> executable = driver().executables.find(handle);
  if (executable == nullptr) return kInvalidHandle;
  if (const int code = find_stream(stream_handle, device, &stream); code != kSuccess) return code;
  if (stream->spoil_capture()) return kCaptureUnsupported;
  stream->submit([work = executable->work] {
    for (const Stream::Work& piece : *work) {
      if (const int code = piece(); code != kSuccess) return code;
    }
    return kSuccess;
  });
  return kSuccess;
}

int on_host_executable_destroy(NativeExecutable executable) {
  BEGIN(executable_destroy);
  return driver().executables.take(executable) != nullptr ? kSuccess : kInvalidHandle;
}

namespace {

int instantiate(const char* symbol, NativeExecutable* executable, NativeGraph handle) {
  if (const int code = begin(symbol); code != kSuccess) return code;
  const std::shared_ptr<Graph> graph = driver().graphs.find(handle);
  if (graph == nullptr) return kInvalidHandle;
  *executable =
      static_cast<NativeExecutable>(driver().executables.add(std::make_shared<Executable>(Executable{graph->work})));
  return kSuccess;
}

}  // namespace

// -- what the two have under parameters of their own ------------------------------------------------------------------

#ifdef ON_HOST_CUDA

ON_HOST_EXPORT int cuGetErrorName(int code, const char** name) {
  *name = code_name(code);
  return *name != nullptr ? kSuccess : kInvalidValue;
}

ON_HOST_EXPORT int cuFuncSetAttribute(Function function, int attribute, int value) {
  constexpr int kMaxDynamicSharedBytes = 8;
  if (driver().functions.find(function) == nullptr) return kInvalidHandle;
  return attribute == kMaxDynamicSharedBytes && value <= static_cast<int>(kMostSharedBytes) ? kSuccess : kInvalidValue;
}

ON_HOST_EXPORT int cuDevicePrimaryCtxRetain(void** context, int number) {
  if (const int code = begin("cuDevicePrimaryCtxRetain"); code != kSuccess) return code;
  Device* const device = find_device(number);
  *context = device;
  return device != nullptr ? kSuccess : kInvalidDevice;
}

ON_HOST_EXPORT int cuCtxSetCurrent(void* context) {
  if (const int code = begin("cuCtxSetCurrent"); code != kSuccess) return code;
  set_current_device(static_cast<Device*>(context));
  return kSuccess;
}

ON_HOST_EXPORT int cuCtxEnablePeerAccess(void* context, unsigned flags) {
  Device* device = nullptr;
  if (const int code = begin("cuCtxEnablePeerAccess", &device); code != kSuccess) return code;
  return enable_peer(device, static_cast<Device*>(context), flags);
}

ON_HOST_EXPORT int cuGraphInstantiateWithFlags(NativeExecutable* executable, NativeGraph graph,
                                               unsigned long long flags) {
  return flags == 0 ? instantiate("cuGraphInstantiateWithFlags", executable, graph) : kInvalidValue;
}

ON_HOST_EXPORT int cuMemcpyAsync(void* destination, const void* source, size_t bytes, NativeStream stream) {
  Device* device = nullptr;
  if (const int code = begin("cuMemcpyAsync", &device); code != kSuccess) return code;
  return copy(device, destination, source, bytes, stream);
}

#else

ON_HOST_EXPORT const char* hipGetErrorName(int code) {
  const char* name = code_name(code);
  return name != nullptr ? name : "hipErrorUnknown";
}

ON_HOST_EXPORT int hipSetDevice(int number) {
  if (const int code = begin("hipSetDevice"); code != kSuccess) return code;
  Device* const device = find_device(number);
  if (device == nullptr) return kInvalidDevice;
  set_current_device(device);
  return kSuccess;
}

ON_HOST_EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  Device* device = nullptr;
  if (const int code = begin("hipDeviceEnablePeerAccess", &device); code != kSuccess) return code;
  return enable_peer(device, find_device(peer), flags);
}

ON_HOST_EXPORT int hipGraphInstantiate(NativeExecutable* executable, NativeGraph graph, void**, char*, size_t) {
  return instantiate("hipGraphInstantiate", executable, graph);
}

ON_HOST_EXPORT int hipMemcpyAsync(void* destination, const void* source, size_t bytes, int kind, NativeStream stream) {
  constexpr int kDefault = 4;
  Device* device = nullptr;
  if (const int code = begin("hipMemcpyAsync", &device); code != kSuccess) return code;
  return kind == kDefault ? copy(device, destination, source, bytes, stream) : kInvalidValue;
}

namespace {

// Fills the room of a struct of a release; what is in it elsewhere is not asked for.
int device_properties(const char* symbol, void* properties, int number, size_t bytes, size_t architecture_at) {
  if (const int code = begin(symbol); code != kSuccess) return code;
  const Device* device = find_device(number);
  if (device == nullptr) return kInvalidDevice;
  char* const room = static_cast<char*>(properties);
  std::memset(room, 0, bytes);
  device->name.copy(room, 255);
  device->architecture.copy(room + architecture_at, 255);
  return kSuccess;
}

}  // namespace

// The struct of ROCm 5, and that of ROCm 6 and later.
ON_HOST_EXPORT int hipGetDeviceProperties(void* properties, int number) {
  return device_properties("hipGetDeviceProperties", properties, number, 792, 396);
}

ON_HOST_EXPORT int hipGetDevicePropertiesR0600(void* properties, int number) {
  return device_properties("hipGetDevicePropertiesR0600", properties, number, 1472, 1160);
}

#endif
