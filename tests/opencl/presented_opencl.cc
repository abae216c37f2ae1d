// An OpenCL library that presents the devices of presented_devices.h named in PRESENTED_OPENCL (keys, separated by
// commas, each on a platform of its own) and computes with the system's first device. What it presents, it enforces:
// the sizes of buffers, of work-groups, of their local memory and of kernels' arguments, and that programs know no
// float64.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/opencl/presented_devices.h"

using namespace unihal::opencl;
using opencl_test::PresentedDevice;

namespace {

constexpr cl_int kInvalidValue = -30;
constexpr cl_int kInvalidWorkGroupSize = -54;
constexpr cl_uint kKernelLocalMemory = 0x11b2;  // CL_KERNEL_LOCAL_MEM_SIZE

// What stands behind a presented cl_device_id, and behind the cl_platform_id that is the address of its member.
struct Presented {
  const PresentedDevice* row;
  char platform;
};

struct State {
  std::vector<Presented> devices;
  std::mutex mutex;                                    // guards what follows
  std::map<const void*, const PresentedDevice*> rows;  // of contexts, queues and programs
  std::map<cl_kernel, std::map<cl_uint, size_t>> argument_bytes;
};

State* make_state() {
  auto* state = new State;
  const char* wish = std::getenv("PRESENTED_OPENCL");
  std::string rest = wish != nullptr ? wish : "";
  while (!rest.empty()) {
    const std::string key = rest.substr(0, rest.find(','));
    rest.erase(0, key.size() + 1);
    const auto& rows = opencl_test::presented_devices();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const PresentedDevice& r) { return r.key == key; });
    if (row == rows.end()) abort();  // a test asks for a device that is not in the table
    state->devices.push_back({&*row, 0});
  }
  return state;
}

State& state() {
  static State* const instance = make_state();
  return *instance;
}

Presented& presented(cl_device_id device) { return *reinterpret_cast<Presented*>(device); }
cl_device_id handle(Presented& device) { return reinterpret_cast<cl_device_id>(&device); }

Presented* by_platform(cl_platform_id platform) {
  for (Presented& device : state().devices) {
    if (reinterpret_cast<cl_platform_id>(&device.platform) == platform) return &device;
  }
  return nullptr;
}

void note(const void* object, const PresentedDevice* row) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (object != nullptr) state().rows[object] = row;
}

const PresentedDevice& row_of(const void* object) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return *state().rows.at(object);
}

// The system's function.
template <class Function>
Function real(const char* name) {
  static void* const loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(loader, name));
}
#define UHAL_REAL(name) real<decltype(Api::name)>(#name)

struct Real {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
};

const Real& computer() {
  static const Real instance = [] {
    Real found;
    UHAL_REAL(clGetPlatformIDs)(1, &found.platform, nullptr);
    UHAL_REAL(clGetDeviceIDs)(found.platform, CL_DEVICE_TYPE_ALL, 1, &found.device, nullptr);
    return found;
  }();
  return instance;
}

cl_int give(const std::string& bytes, size_t said, size_t room, void* value, size_t* size) {
  if (value != nullptr) {
    if (room < bytes.size()) return kInvalidValue;
    memcpy(value, bytes.data(), bytes.size());
  }
  if (size != nullptr) *size = said != 0 ? said : bytes.size();
  return CL_SUCCESS;
}

}  // namespace

#define UHAL_EXPORT extern "C" __attribute__((visibility("default")))

UHAL_EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id* platforms, cl_uint* count) {
  std::vector<Presented>& devices = state().devices;
  if (count != nullptr) *count = static_cast<cl_uint>(devices.size());
  for (size_t i = 0; platforms != nullptr && i < std::min<size_t>(room, devices.size()); ++i) {
    platforms[i] = reinterpret_cast<cl_platform_id>(&devices[i].platform);
  }
  return devices.empty() ? CL_PLATFORM_NOT_FOUND_KHR : CL_SUCCESS;
}

UHAL_EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint what, size_t room, void* value, size_t* size) {
  const std::string text = what == CL_PLATFORM_NAME ? by_platform(platform)->row->platform : "OpenCL 3.0 presented";
  return give(text + '\0', 0, room, value, size);
}

UHAL_EXPORT cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield, cl_uint room, cl_device_id* devices,
                                  cl_uint* count) {
  if (count != nullptr) *count = 1;
  if (devices != nullptr && room > 0) *devices = handle(*by_platform(platform));
  return CL_SUCCESS;
}

UHAL_EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t room, void* value, size_t* size) {
  const auto& answers = presented(device).row->answers;
  const auto found = answers.find(what);
  if (found == answers.end()) return kInvalidValue;
  if (found->second.code != CL_SUCCESS) return found->second.code;
  return give(found->second.bytes, found->second.said_bytes, room, value, size);
}

UHAL_EXPORT cl_context clCreateContext(const cl_context_properties*, cl_uint, const cl_device_id* devices,
                                       void (*notify)(const char*, const void*, size_t, void*), void* user_data,
                                       cl_int* status) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(computer().platform), 0};
  const cl_context context = UHAL_REAL(clCreateContext)(properties, 1, &computer().device, notify, user_data, status);
  note(context, presented(devices[0]).row);
  return context;
}

UHAL_EXPORT cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties,
                                                  cl_int* status) {
  const cl_command_queue queue = UHAL_REAL(clCreateCommandQueue)(context, computer().device, properties, status);
  note(queue, presented(device).row);
  return queue;
}

UHAL_EXPORT cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t bytes, void* host, cl_int* status) {
  if (bytes > opencl_test::value_of<cl_ulong>(row_of(context), CL_DEVICE_MAX_MEM_ALLOC_SIZE)) {
    if (status != nullptr) *status = CL_INVALID_BUFFER_SIZE;
    return nullptr;
  }
  return UHAL_REAL(clCreateBuffer)(context, flags, bytes, host, status);
}

UHAL_EXPORT cl_program clCreateProgramWithSource(cl_context context, cl_uint, const char** texts, const size_t* lengths,
                                                 cl_int* status) {
  const PresentedDevice& row = row_of(context);
  std::string text;
  if (opencl_test::value_of<cl_bitfield>(row, CL_DEVICE_DOUBLE_FP_CONFIG) == 0) {
    text = "#define double there_is_no_float64\n#define double4 there_is_no_float64\n";
  }
  text.append(texts[0], lengths[0]);
  const char* source = text.c_str();
  const size_t length = text.size();
  const cl_program program = UHAL_REAL(clCreateProgramWithSource)(context, 1, &source, &length, status);
  note(program, &row);
  return program;
}

UHAL_EXPORT cl_program clCreateProgramWithBinary(cl_context context, cl_uint, const cl_device_id*,
                                                 const size_t* lengths, const unsigned char** binaries, cl_int* taken,
                                                 cl_int* status) {
  const cl_program program =
      UHAL_REAL(clCreateProgramWithBinary)(context, 1, &computer().device, lengths, binaries, taken, status);
  note(program, &row_of(context));
  return program;
}

UHAL_EXPORT cl_int clBuildProgram(cl_program program, cl_uint, const cl_device_id*, const char* options,
                                  void (*notify)(cl_program, void*), void* user_data) {
  return UHAL_REAL(clBuildProgram)(program, 1, &computer().device, options, notify, user_data);
}

UHAL_EXPORT cl_int clGetProgramBuildInfo(cl_program program, cl_device_id, cl_uint what, size_t room, void* value,
                                         size_t* size) {
  return UHAL_REAL(clGetProgramBuildInfo)(program, computer().device, what, room, value, size);
}

UHAL_EXPORT cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    state().argument_bytes[kernel][index] = bytes;
  }
  return UHAL_REAL(clSetKernelArg)(kernel, index, bytes, value);
}

UHAL_EXPORT cl_int clReleaseKernel(cl_kernel kernel) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    state().argument_bytes.erase(kernel);
  }
  return UHAL_REAL(clReleaseKernel)(kernel);
}

UHAL_EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint what, size_t room,
                                            void* value, size_t* size) {
  const cl_int code = UHAL_REAL(clGetKernelWorkGroupInfo)(kernel, computer().device, what, room, value, size);
  if (code == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE) {
    auto* const most = static_cast<size_t*>(value);
    *most = std::min(*most, opencl_test::value_of<size_t>(*presented(device).row, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  }
  return code;
}

UHAL_EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                          const size_t* offset, const size_t* global, const size_t* local,
                                          cl_uint waits, const cl_event* events, cl_event* event) {
  const PresentedDevice& row = row_of(queue);
  size_t items = 1;
  for (cl_uint axis = 0; axis < dimensions; ++axis) items *= local[axis];
  if (items > opencl_test::value_of<size_t>(row, CL_DEVICE_MAX_WORK_GROUP_SIZE)) return kInvalidWorkGroupSize;
  cl_ulong local_bytes = 0;
  UHAL_REAL(clGetKernelWorkGroupInfo)(kernel, computer().device, kKernelLocalMemory, sizeof local_bytes, &local_bytes,
                                      nullptr);
  if (local_bytes > opencl_test::value_of<cl_ulong>(row, CL_DEVICE_LOCAL_MEM_SIZE)) return CL_OUT_OF_RESOURCES;
  size_t argument_bytes = 0;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    for (const auto& [index, bytes] : state().argument_bytes[kernel]) argument_bytes += bytes;
  }
  if (argument_bytes > opencl_test::value_of<size_t>(row, CL_DEVICE_MAX_PARAMETER_SIZE)) return CL_OUT_OF_RESOURCES;
  return UHAL_REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits, events, event);
}
