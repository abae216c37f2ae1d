// The plugin that TensorFlow finds in tensorflow-plugins/: one small library per device type, because TensorFlow
// takes one platform from each. It finds libunihal_tensorflow.so beside itself and forwards to it.
//
// TensorFlow opens every library in that folder at import, and an error from SE_InitPlugin ends the process. So
// this file links nothing, and when the adapter cannot be opened it prints one line and registers a platform
// without devices.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr const char* kType = UNIHAL_TENSORFLOW_TYPE;

// The adapter, or nullptr. A copy that another loader opened, from whatever folder, is found by its SONAME and
// used again: two copies in one process would register the same kernels twice.
void* open_adapter() {
  if (void* loaded = dlopen("libunihal_tensorflow.so", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  Dl_info self = {};
  dladdr(reinterpret_cast<void*>(&open_adapter), &self);
  std::string folder = self.dli_fname != nullptr ? self.dli_fname : "";
  folder = folder.substr(0, folder.rfind('/') + 1);
  void* adapter = dlopen((folder + "../unihal/lib/libunihal_tensorflow.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (adapter == nullptr) {
    std::fprintf(stderr, "unihal: device type %s is off, its adapter could not be opened: %s; reinstall unihal\n",
                 kType, dlerror());
  }
  return adapter;
}

template <class Function>
Function adapter_function(const char* name) {
  static void* const adapter = open_adapter();
  return adapter != nullptr ? reinterpret_cast<Function>(dlsym(adapter, name)) : nullptr;
}

// -- a platform without devices ---------------------------------------------------------------------------

void no_devices(const SP_Platform*, int* count, TF_Status*) { *count = 0; }

// Fills the slots that TensorFlow checks at registration. Without a device none of them is ever called.
void never_called() {}
template <class Slot>
void fill(Slot& slot) {
  slot = reinterpret_cast<Slot>(&never_called);
}

void create_device_fns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status*) {
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
}
void create_timer_fns(const SP_Platform*, SP_TimerFns* timer, TF_Status*) {
  timer->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
  fill(timer->nanoseconds);
}
void create_stream_executor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status*) {
  SP_StreamExecutor& e = *params->stream_executor;
  e.struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  fill(e.allocate), fill(e.deallocate), fill(e.host_memory_allocate), fill(e.host_memory_deallocate);
  fill(e.get_allocator_stats), fill(e.device_memory_usage);
  fill(e.create_stream), fill(e.destroy_stream), fill(e.create_stream_dependency), fill(e.get_stream_status);
  fill(e.create_event), fill(e.destroy_event), fill(e.get_event_status), fill(e.record_event), fill(e.wait_for_event);
  fill(e.create_timer), fill(e.destroy_timer), fill(e.start_timer), fill(e.stop_timer);
  fill(e.memcpy_dtoh), fill(e.memcpy_htod), fill(e.memcpy_dtod);
  fill(e.sync_memcpy_dtoh), fill(e.sync_memcpy_htod), fill(e.sync_memcpy_dtod);
  fill(e.block_host_for_event), fill(e.block_host_until_done), fill(e.synchronize_all_activity);
  fill(e.mem_zero), fill(e.memset), fill(e.memset32), fill(e.host_callback);
}

void register_without_devices(SE_PlatformRegistrationParams* params) {
  SP_Platform& platform = *params->platform;
  platform.struct_size = SP_PLATFORM_STRUCT_SIZE;
  platform.name = platform.type = kType;
  platform.use_bfc_allocator = 1;
  SP_PlatformFns& f = *params->platform_fns;
  f.struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  f.get_device_count = no_devices;
  f.create_device_fns = create_device_fns;
  f.create_timer_fns = create_timer_fns;
  f.create_stream_executor = create_stream_executor;
  fill(f.create_device), fill(f.destroy_device), fill(f.destroy_device_fns);
  fill(f.destroy_stream_executor), fill(f.destroy_timer_fns);
  params->struct_size = SE_PLATFORM_REGISTRATION_PARAMS_STRUCT_SIZE;
  fill(params->destroy_platform), fill(params->destroy_platform_fns);
}

}  // namespace

EXPORT void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  using Function = void (*)(const char*, SE_PlatformRegistrationParams*, TF_Status*);
  if (auto init = adapter_function<Function>("uhal_tensorflow_init_plugin")) {
    init(kType, params, status);
  } else {
    register_without_devices(params);
  }
}

EXPORT void TF_InitKernel() {
  if (auto init = adapter_function<void (*)(const char*)>("uhal_tensorflow_init_kernels")) init(kType);
}

EXPORT void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status* status) {
  using Function = void (*)(const char*, TP_OptimizerRegistrationParams*, TF_Status*);
  if (auto init = adapter_function<Function>("uhal_tensorflow_init_graph")) {
    init(kType, params, status);
  } else {
    // An optimizer is required of whoever exports this symbol; for a type without devices it is never run.
    params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
    params->device_type = kType;
    params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
    params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
    fill(params->optimizer->optimize_func);
  }
}

EXPORT void TF_InitProfiler(TF_ProfilerRegistrationParams* params, TF_Status* status) {
  using Function = void (*)(const char*, TF_ProfilerRegistrationParams*, TF_Status*);
  if (auto init = adapter_function<Function>("uhal_tensorflow_init_profiler")) {
    init(kType, params, status);
  } else {
    params->struct_size = TF_PROFILER_REGISTRATION_PARAMS_STRUCT_SIZE;
    params->profiler->struct_size = TP_PROFILER_STRUCT_SIZE;
    params->profiler->device_type = kType;
    TP_ProfilerFns& f = *params->profiler_fns;
    f.struct_size = TP_PROFILER_FNS_STRUCT_SIZE;
    f.start = f.stop = [](const TP_Profiler*, TF_Status*) {};
    f.collect_data_xspace = [](const TP_Profiler*, uint8_t*, size_t* size, TF_Status*) { *size = 0; };
    fill(params->destroy_profiler), fill(params->destroy_profiler_fns);
  }
}
