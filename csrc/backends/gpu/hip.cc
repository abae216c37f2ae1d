// HIP, from ROCm 5.2 on.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "csrc/backends/common/lanes.h"
#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/rocm_sdk.h"

namespace unihal::gpu {
namespace {

// What takes other parameters than CUDA's.
const char* (*hipGetErrorName)(int code);
int (*hipSetDevice)(int device);
int (*hipDeviceEnablePeerAccess)(int peer, unsigned flags);
int (*hipMemcpyAsync)(void* destination, const void* source, size_t bytes, int kind, NativeStream stream);
int (*hipGraphInstantiate)(NativeExecutable* executable, NativeGraph graph, void** node, char* log, size_t bytes);
int (*hipGetDeviceProperties)(void* properties, int device);
bool has_new_properties;  // hipGetDevicePropertiesR0600: the struct of ROCm 6 and later

constexpr int kMemcpyDefault = 4;  // the driver sees where the addresses lie

// hipDeviceProp_t.gcnArchName, which no attribute tells: the struct of ROCm 5 (under the old name, which ROCm 6 still
// has), and ROCm 6's.
constexpr size_t kPropertyBytes = 8192;  // more than any version's struct has
constexpr size_t kOldArchitectureName = 396;
constexpr size_t kNewArchitectureName = 1160;

// hipDeviceAttributeMultiprocessorCount, WarpSize, MaxThreadsPerBlock, MaxSharedMemoryPerBlock, ClockRate,
// MemoryClockRate, MemoryBusWidth, ManagedMemory, Integrated
constexpr Attributes kAttributes = {63, 87, 56, 74, 5, 60, 59, 24, 16, 0};

// Without AMD's kernel driver there is no card, and HIP's libraries take their time to find that out: one of a
// distribution's ROCm 5 even crashed at it beside TensorFlow. Windows' subsystem for Linux has another driver.
std::vector<std::string> driver_libraries(bool asked_for) {
  const char* root = std::getenv("ROCM_PATH");
  const bool has_driver = access("/dev/kfd", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
  if (!asked_for && !has_driver && (root == nullptr || *root == '\0')) return {};
  return rocm_libraries("amdhip64", {7, 6, 5});
}

const char* find_functions(void* library) {
#define UHAL_FIND(target, symbol)                                      \
  target = reinterpret_cast<decltype(target)>(dlsym(library, symbol)); \
  if (target == nullptr) return symbol;
#define UHAL_FIND_IF_PRESENT(target, symbol) target = reinterpret_cast<decltype(target)>(dlsym(library, symbol));
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) UHAL_FIND(api.name, #hip)
#define UHAL_GPU_OPTIONAL_FUNCTION(name, cuda, hip, parameters) UHAL_FIND_IF_PRESENT(api.name, #hip)
#include "csrc/backends/gpu/functions.def"
  UHAL_FIND(hipGetErrorName, "hipGetErrorName")
  UHAL_FIND(hipSetDevice, "hipSetDevice")
  UHAL_FIND(hipDeviceEnablePeerAccess, "hipDeviceEnablePeerAccess")
  UHAL_FIND(hipMemcpyAsync, "hipMemcpyAsync")
  UHAL_FIND_IF_PRESENT(hipGraphInstantiate, "hipGraphInstantiate")
#undef UHAL_FIND_IF_PRESENT
  hipGetDeviceProperties =
      reinterpret_cast<decltype(hipGetDeviceProperties)>(dlsym(library, "hipGetDevicePropertiesR0600"));
  has_new_properties = hipGetDeviceProperties != nullptr;
  if (has_new_properties) return nullptr;
  UHAL_FIND(hipGetDeviceProperties, "hipGetDeviceProperties")
#undef UHAL_FIND
  return nullptr;
}

// 50221153 is 5.2.21153: HIP's version, which is ROCm's up to the second number.
std::string version_name(int version) {
  return "HIP " + std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
}

int architecture(int device, Architecture* found) {
  std::vector<char> properties(kPropertyBytes);
  const int code = hipGetDeviceProperties(properties.data(), device);
  if (code != kSuccess) return code;
  const char* name = properties.data() + (has_new_properties ? kNewArchitectureName : kOldArchitectureName);
  found->name.assign(name, strnlen(name, 256));
  found->lanes = lanes_of_gfx(found->name);
  found->is_stand_in = found->name.rfind("gfx", 0) != 0;
  if (found->name.rfind("gfx11", 0) == 0) found->matrix_form = kernels::MatrixForm::kWmma;
  return kSuccess;
}

int open(int device, void** context) {
  *context = nullptr;
  return hipSetDevice(device);
}

__attribute__((hot)) int make_current(int device, void*) { return hipSetDevice(device); }

int allow_local_memory(Function, int) { return kSuccess; }

int enable_peer(int peer, void*) { return hipDeviceEnablePeerAccess(peer, 0); }

int copy(void* destination, const void* source, size_t bytes, NativeStream stream) {
  return hipMemcpyAsync(destination, source, bytes, kMemcpyDefault, stream);
}

bool can_instantiate() { return hipGraphInstantiate != nullptr; }

int instantiate(NativeExecutable* executable, NativeGraph graph) {
  return hipGraphInstantiate(executable, graph, nullptr, nullptr, 0);
}

const char* error_name(int code) {
  const char* name = hipGetErrorName != nullptr ? hipGetErrorName(code) : nullptr;
  return name != nullptr ? name : "unknown code";
}

}  // namespace

const VendorDriver vendor = {
    Vendor::kHip,
    "hip",
    "AMD",
    "HIP",
    driver_libraries,
    "there is no /dev/kfd, so AMD's kernel driver is not loaded",
    "Install ROCm's HIP runtime (libamdhip64) and its kernel driver, and be a member of the groups render and video; "
    "see "
    "docs/hip.md",
    {"HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCM_PATH"},
    kAttributes,
    find_functions,
    version_name,
    architecture,
    open,
    make_current,
    allow_local_memory,
    enable_peer,
    copy,
    can_instantiate,
    instantiate,
    error_name,
};

}  // namespace unihal::gpu
