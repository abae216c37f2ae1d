// What HIP's driver has under other parameters or numbers than CUDA's.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/doubles/hip_on_cuda/library.h"

namespace on_cuda {

const Library& cuda();  // forward.cc

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kInvalidDevice = 101;

// hipDeviceAttribute_t and CUdevice_attribute.
constexpr Row kAttributes[] = {
    {63, 16},  // multiprocessors
    {87, 10},  // lanes of a warp
    {56, 1},   // threads of a block
    {74, 8},   // shared memory of a block
    {5, 13},   // the clock
    {60, 36},  // the memory's
    {59, 37},  // its bits
    {24, 83},  // managed memory
    {16, 18},  // integrated
    {23, 75},  // capability, major
    {61, 76},  // and minor
};

using Context = void*;

// The primary context of a device, retained for the life of the process.
int context_of(int device, Context* context) {
  struct Known {
    std::mutex mutex;
    std::vector<Context> contexts;
  };
  static Known* const known = new Known;
  std::lock_guard<std::mutex> lock(known->mutex);
  if (known->contexts.empty()) {
    int count = 0;
    if (const int code = call<int(int*)>(cuda(), "cuDeviceGetCount")(&count); code != kSuccess) return code;
    known->contexts.resize(static_cast<size_t>(count));
  }
  if (device < 0 || static_cast<size_t>(device) >= known->contexts.size()) return kInvalidDevice;
  Context& retained = known->contexts[static_cast<size_t>(device)];
  if (retained == nullptr) {
    const int code = call<int(Context*, int)>(cuda(), "cuDevicePrimaryCtxRetain")(&retained, device);
    if (code != kSuccess) {
      retained = nullptr;
      return code;
    }
  }
  *context = retained;
  return kSuccess;
}

int attribute(int* value, int number, int device) {
  return call<int(int*, int, int)>(cuda(), "cuDeviceGetAttribute")(value, number, device);
}

// Fills the room of a release's struct: the name, and the architecture as CUDA's compilers call it.
int properties_of(void* properties, int device, size_t bytes, size_t architecture_at) {
  int major = 0;
  int minor = 0;
  char* const room = static_cast<char*>(properties);
  std::memset(room, 0, bytes);
  int code = call<int(char*, int, int)>(cuda(), "cuDeviceGetName")(room, 256, device);
  if (code == kSuccess) code = attribute(&major, 75, device);
  if (code == kSuccess) code = attribute(&minor, 76, device);
  if (code == kSuccess) std::snprintf(room + architecture_at, 256, "sm_%d%d", major, minor);
  return code;
}

}  // namespace
}  // namespace on_cuda

using namespace on_cuda;

ON_CUDA_EXPORT int hipDeviceGetAttribute(int* value, int number, int device) {
  const int translated = cuda_of(kAttributes, number);
  return translated >= 0 ? attribute(value, translated, device) : kInvalidValue;
}

// CUDA 13.0 passes for HIP 13.0.
ON_CUDA_EXPORT int hipDriverGetVersion(int* version) {
  int number = 0;
  const int code = call<int(int*)>(cuda(), "cuDriverGetVersion")(&number);
  *version = number / 1000 * 10000000 + number % 1000 / 10 * 100000;
  return code;
}

ON_CUDA_EXPORT const char* hipGetErrorName(int error) {
  const char* name = nullptr;
  const void* const function = cuda().find("cuGetErrorName");
  if (function == nullptr) return "hipErrorNoDevice";
  const int code = call<int(int, const char**)>(cuda(), "cuGetErrorName")(error, &name);
  return code == kSuccess ? name : "hipErrorUnknown";
}

ON_CUDA_EXPORT int hipSetDevice(int device) {
  Context context = nullptr;
  const int code = context_of(device, &context);
  static const auto set_current = call<int(Context)>(cuda(), "cuCtxSetCurrent");
  return code == kSuccess ? set_current(context) : code;
}

ON_CUDA_EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  Context context = nullptr;
  const int code = context_of(peer, &context);
  return code == kSuccess ? call<int(Context, unsigned)>(cuda(), "cuCtxEnablePeerAccess")(context, flags) : code;
}

// The kind is what the driver sees by itself.
ON_CUDA_EXPORT int hipMemcpyAsync(void* destination, const void* source, size_t bytes, int, void* stream) {
  static const auto copy = call<int(void*, const void*, size_t, void*)>(cuda(), "cuMemcpyAsync");
  return copy(destination, source, bytes, stream);
}

// CUDA has the parameters of old under this name only up to 11.
ON_CUDA_EXPORT int hipGraphInstantiate(void** executable, void* graph, void**, char*, size_t) {
  static const auto instantiate = call<int(void**, void*, unsigned long long)>(cuda(), "cuGraphInstantiateWithFlags");
  return instantiate(executable, graph, 0);
}

// The structs of ROCm 5, and of ROCm 6 and later.
ON_CUDA_EXPORT int hipGetDeviceProperties(void* properties, int device) {
  return properties_of(properties, device, 792, 396);
}

ON_CUDA_EXPORT int hipGetDevicePropertiesR0600(void* properties, int device) {
  return properties_of(properties, device, 1472, 1160);
}
