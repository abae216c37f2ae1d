#include "tests/opencl/faulty_opencl.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "csrc/backends/opencl/api.h"

using namespace unihal::opencl;

namespace {

struct Rule {
  cl_int code;
  int after;
  int times;
};

struct State {
  std::mutex mutex;
  std::map<std::string, Rule> rules;
  std::set<cl_event> markers;
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

// The code that a call fails with now; CL_SUCCESS to let it through.
cl_int failure(const char* function) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto rule = state().rules.find(function);
  if (rule == state().rules.end() || rule->second.times == 0) return CL_SUCCESS;
  if (rule->second.after > 0) {
    --rule->second.after;
    return CL_SUCCESS;
  }
  --rule->second.times;
  return rule->second.code;
}

// The system's function.
template <class Function>
Function real(const char* name) {
  static void* const loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(loader, name));
}

}  // namespace

#define UHAL_EXPORT extern "C" __attribute__((visibility("default")))
#define UHAL_REAL(name) real<decltype(Api::name)>(#name)
#define UHAL_FAIL_IF_ASKED(name) \
  if (const cl_int code = failure(#name); code != CL_SUCCESS) return code
#define UHAL_FAIL_IF_ASKED_BY_POINTER(name, place)              \
  if (const cl_int code = failure(#name); code != CL_SUCCESS) { \
    if ((place) != nullptr) *(place) = code;                    \
    return nullptr;                                             \
  }

UHAL_EXPORT void faulty_opencl_fail(const char* function, int32_t code, int after, int times) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().rules[function] = {code, after, times};
}

UHAL_EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id* platforms, cl_uint* count) {
  UHAL_FAIL_IF_ASKED(clGetPlatformIDs);
  return UHAL_REAL(clGetPlatformIDs)(room, platforms, count);
}

UHAL_EXPORT cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield type, cl_uint room, cl_device_id* devices,
                                  cl_uint* count) {
  UHAL_FAIL_IF_ASKED(clGetDeviceIDs);
  return UHAL_REAL(clGetDeviceIDs)(platform, type, room, devices, count);
}

UHAL_EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t room, void* value, size_t* bytes) {
  static const char kEmbedded[] = "EMBEDDED_PROFILE";
  if (what != CL_DEVICE_PROFILE || failure("embedded") == CL_SUCCESS) {
    return UHAL_REAL(clGetDeviceInfo)(device, what, room, value, bytes);
  }
  if (bytes != nullptr) *bytes = sizeof kEmbedded;
  if (value != nullptr) memcpy(value, kEmbedded, sizeof kEmbedded);
  return CL_SUCCESS;
}

UHAL_EXPORT cl_context clCreateContext(const cl_context_properties* properties, cl_uint count,
                                       const cl_device_id* devices,
                                       void (*notify)(const char*, const void*, size_t, void*), void* user_data,
                                       cl_int* status) {
  UHAL_FAIL_IF_ASKED_BY_POINTER(clCreateContext, status);
  return UHAL_REAL(clCreateContext)(properties, count, devices, notify, user_data, status);
}

UHAL_EXPORT cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties,
                                                  cl_int* status) {
  UHAL_FAIL_IF_ASKED_BY_POINTER(clCreateCommandQueue, status);
  return UHAL_REAL(clCreateCommandQueue)(context, device, properties, status);
}

UHAL_EXPORT cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t bytes, void* host, cl_int* status) {
  UHAL_FAIL_IF_ASKED_BY_POINTER(clCreateBuffer, status);
  return UHAL_REAL(clCreateBuffer)(context, flags, bytes, host, status);
}

UHAL_EXPORT cl_int clFinish(cl_command_queue queue) {
  const cl_int finished = UHAL_REAL(clFinish)(queue);
  UHAL_FAIL_IF_ASKED(clFinish);
  return finished;
}

UHAL_EXPORT cl_int clWaitForEvents(cl_uint count, const cl_event* events) {
  const cl_int waited = UHAL_REAL(clWaitForEvents)(count, events);
  UHAL_FAIL_IF_ASKED(clWaitForEvents);
  return waited;
}

UHAL_EXPORT cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** texts,
                                                 const size_t* lengths, cl_int* status) {
  static const char* broken = "UHAL_MISTAKE __kernel void nothing() {}\n";
  const size_t length = strlen(broken);
  if (failure("source") != CL_SUCCESS) {
    count = 1;
    texts = &broken;
    lengths = &length;
  }
  return UHAL_REAL(clCreateProgramWithSource)(context, count, texts, lengths, status);
}

UHAL_EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint what, size_t room,
                                            void* value, size_t* bytes) {
  const cl_int found = UHAL_REAL(clGetKernelWorkGroupInfo)(kernel, device, what, room, value, bytes);
  // Not a failure but a limit: the "code" is the number of work-items.
  const cl_int limit = what == CL_KERNEL_WORK_GROUP_SIZE ? failure("clGetKernelWorkGroupInfo") : CL_SUCCESS;
  if (limit != CL_SUCCESS) {
    const size_t size = static_cast<size_t>(limit);
    memcpy(value, &size, sizeof size);
  }
  return found;
}

UHAL_EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                          const size_t* offset, const size_t* global, const size_t* local,
                                          cl_uint waits, const cl_event* events, cl_event* event) {
  UHAL_FAIL_IF_ASKED(clEnqueueNDRangeKernel);
  return UHAL_REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits, events, event);
}

UHAL_EXPORT cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern, size_t pattern_bytes,
                                       size_t offset, size_t bytes, cl_uint waits, const cl_event* events,
                                       cl_event* event) {
  const cl_int limit = failure("fills");
  if (limit != CL_SUCCESS && offset + bytes > static_cast<size_t>(limit)) {
    return UHAL_REAL(clEnqueueMarkerWithWaitList)(queue, waits, events, event);
  }
  return UHAL_REAL(clEnqueueFillBuffer)(queue, buffer, pattern, pattern_bytes, offset, bytes, waits, events, event);
}

UHAL_EXPORT cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits, const cl_event* events,
                                               cl_event* event) {
  UHAL_FAIL_IF_ASKED(clEnqueueMarkerWithWaitList);
  const cl_int code = UHAL_REAL(clEnqueueMarkerWithWaitList)(queue, waits, events, event);
  std::lock_guard<std::mutex> lock(state().mutex);
  if (code == CL_SUCCESS) state().markers.insert(*event);
  return code;
}

UHAL_EXPORT cl_int clGetEventProfilingInfo(cl_event event, cl_uint what, size_t room, void* value, size_t* bytes) {
  bool is_marker = false;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    is_marker = state().markers.count(event) != 0;
  }
  if (is_marker && failure("markers") != CL_SUCCESS) return CL_PROFILING_INFO_NOT_AVAILABLE;
  return UHAL_REAL(clGetEventProfilingInfo)(event, what, room, value, bytes);
}
