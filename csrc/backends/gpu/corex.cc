// CoreX, and every other driver with CUDA's names.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "csrc/backends/common/lanes.h"
#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/corex_sdk.h"

namespace unihal::gpu {
namespace {

using Context = struct DriverContext*;

// What takes other parameters than HIP's.
int (*cuGetErrorName)(int code, const char** name);
int (*cuDevicePrimaryCtxRetain)(Context* context, int device);
int (*cuCtxSetCurrent)(Context context);
int (*cuCtxEnablePeerAccess)(Context peer, unsigned flags);
int (*cuFuncSetAttribute)(Function function, int attribute, int value);
int (*cuMemcpyAsync)(void* destination, const void* source, size_t bytes, NativeStream stream);
int (*cuGraphInstantiateWithFlags)(NativeExecutable* executable, NativeGraph graph, unsigned long long flags);  // 11.4
int (*graph_instantiate_before)(NativeExecutable* executable, NativeGraph graph, void** node, char* log, size_t bytes);

constexpr int kMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinor = 76;

// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _WARP_SIZE, _MAX_THREADS_PER_BLOCK, _MAX_SHARED_MEMORY_PER_BLOCK,
// _CLOCK_RATE, _MEMORY_CLOCK_RATE, _GLOBAL_MEMORY_BUS_WIDTH, _MANAGED_MEMORY, _INTEGRATED,
// _MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
constexpr Attributes kAttributes = {16, 10, 1, 8, 13, 36, 37, 83, 18, 97};

constexpr int kCuda12 = 12000;              // a driver's version
constexpr int kNotSupported = 801;          // CUDA_ERROR_NOT_SUPPORTED
constexpr int kMaxLaunchedLocalMemory = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

std::vector<std::string> driver_libraries(bool asked_for) {
  std::vector<std::string> files;
  for (const std::string& folder : corex_library_folders()) {
    files.push_back(folder + "/libcuda.so.1");
    files.push_back(folder + "/libcuda.so");
  }
  // NVIDIA's has these names too, and takes its time to start.
  if (asked_for || !files.empty()) {
    files.push_back("libcuda.so.1");
    files.push_back("libcuda.so");
  }
  return files;
}

const char* find_functions(void* library) {
#define UHAL_FIND(target, symbol)                                      \
  target = reinterpret_cast<decltype(target)>(dlsym(library, symbol)); \
  if (target == nullptr) return symbol;
#define UHAL_FIND_IF_PRESENT(target, symbol) target = reinterpret_cast<decltype(target)>(dlsym(library, symbol));
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) UHAL_FIND(api.name, #cuda)
#define UHAL_GPU_OPTIONAL_FUNCTION(name, cuda, hip, parameters) UHAL_FIND_IF_PRESENT(api.name, #cuda)
#include "csrc/backends/gpu/functions.def"
  UHAL_FIND(cuGetErrorName, "cuGetErrorName")
  UHAL_FIND(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")
  UHAL_FIND(cuCtxSetCurrent, "cuCtxSetCurrent")
  UHAL_FIND(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess")
  UHAL_FIND(cuMemcpyAsync, "cuMemcpyAsync")
  UHAL_FIND_IF_PRESENT(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")
  UHAL_FIND_IF_PRESENT(graph_instantiate_before, "cuGraphInstantiate")
#undef UHAL_FIND_IF_PRESENT
#undef UHAL_FIND
  // Asked for on NVIDIA's cards only; whether CoreX has it is not known here.
  cuFuncSetAttribute = reinterpret_cast<decltype(cuFuncSetAttribute)>(dlsym(library, "cuFuncSetAttribute"));
  return nullptr;
}

std::string version_name(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// NVIDIA's cards can do all that CoreX's can, and pass for one where the user asks for it.
int architecture(int device, Architecture* found) {
  char name[256] = "";
  int major = 0;
  int minor = 0;
  int code = api.device_name(name, sizeof name, device);
  if (code == kSuccess) code = api.device_attribute(&major, kMajor, device);
  if (code == kSuccess) code = api.device_attribute(&minor, kMinor, device);
  if (code != kSuccess) return code;
  found->is_stand_in = strstr(name, "NVIDIA") != nullptr || strstr(name, "Tesla") != nullptr;
  found->lanes = found->is_stand_in ? lanes_of_capability(major, minor) : 0;
  const char* said = std::getenv("UNIHAL_COREX_ARCHITECTURE");
  if (said != nullptr && *said != '\0') {
    found->name = said;
  } else if (found->is_stand_in) {
    found->name = "sm_" + std::to_string(major) + std::to_string(minor);
    // What only this architecture has: compilers know it by this name from CUDA 12.0 on.
    int driver = 0;
    if (major == 9 && minor == 0 && api.driver_version(&driver) == kSuccess && driver >= kCuda12) found->name += "a";
  } else {
    // A BI-V150 is an ivcore11 and says 7.1; of others nothing is known here.
    found->name = major > 7 || (major == 7 && minor >= 1) ? "ivcore11" : "ivcore10";
  }
  if (found->is_stand_in && major >= 8) {
    found->matrix_form = found->name == "sm_90a" ? kernels::MatrixForm::kWarpgroup : kernels::MatrixForm::kMma;
  }
  return kSuccess;
}

// The primary context, which is the one of programs that use the runtime API.
int open(int device, void** context) {
  Context opened = nullptr;
  const int code = cuDevicePrimaryCtxRetain(&opened, device);
  *context = opened;
  return code;
}

__attribute__((hot)) int make_current(int, void* context) { return cuCtxSetCurrent(static_cast<Context>(context)); }

int allow_local_memory(Function function, int bytes) {
  return cuFuncSetAttribute != nullptr ? cuFuncSetAttribute(function, kMaxLaunchedLocalMemory, bytes) : kNotSupported;
}

int enable_peer(int, void* peer_context) { return cuCtxEnablePeerAccess(static_cast<Context>(peer_context), 0); }

int copy(void* destination, const void* source, size_t bytes, NativeStream stream) {
  return cuMemcpyAsync(destination, source, bytes, stream);
}

bool can_instantiate() { return cuGraphInstantiateWithFlags != nullptr || graph_instantiate_before != nullptr; }

int instantiate(NativeExecutable* executable, NativeGraph graph) {
  return cuGraphInstantiateWithFlags != nullptr ? cuGraphInstantiateWithFlags(executable, graph, 0)
                                                : graph_instantiate_before(executable, graph, nullptr, nullptr, 0);
}

const char* error_name(int code) {
  const char* name = nullptr;
  if (cuGetErrorName == nullptr || cuGetErrorName(code, &name) != kSuccess || name == nullptr) return "unknown code";
  return name;
}

}  // namespace

const VendorDriver vendor = {
    Vendor::kCorex,
    "corex",
    "Iluvatar",
    "CoreX",
    driver_libraries,
    "nothing of Iluvatar is installed",
    "Install Iluvatar's driver and SDK, and name the SDK's folder in COREX_ROOT if it is not /usr/local/corex; see "
    "docs/corex.md",
    {"COREX_ROOT", "COREX_HOME", "ILUVATAR_SOFTWARE_ROOT", "CUDA_VISIBLE_DEVICES", "UNIHAL_COREX_ARCHITECTURE"},
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
