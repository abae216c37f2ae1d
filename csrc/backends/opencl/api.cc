#include "csrc/backends/opencl/api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "csrc/backends/common/foreign_llvm.h"
#include "csrc/backends/opencl/drivers.h"

namespace unihal::opencl {

Api api;

namespace {

constexpr char kLoader[] = "libOpenCL.so.1";

std::string wanted_library() {
  const char* wish = std::getenv("UNIHAL_OPENCL_LIBRARY");
  return wish != nullptr && *wish != '\0' ? wish : kLoader;
}

// Whether a library is a loader of drivers, by its file's name, and not a driver itself.
bool is_loader(const std::string& name) { return name.substr(name.rfind('/') + 1).rfind("libOpenCL.", 0) == 0; }

std::string load() {
  const std::string& name = library_name();
  if (is_loader(name)) preload_drivers();
  void* library = dlopen(name.c_str(), vendor_library_flags());
  if (library == nullptr) {
    const char* said = dlerror();
    const std::string reason = name + " does not load: " + (said != nullptr ? said : "unknown cause") + ". ";
    if (name == kLoader) {
      return reason +
             "Install the OpenCL loader (Debian: ocl-icd-libopencl1) and the driver of the device, or name the "
             "driver's own library in UNIHAL_OPENCL_LIBRARY";
    }
    return reason + "UNIHAL_OPENCL_LIBRARY names it; correct or unset the variable";
  }
#define UHAL_OPENCL_FIND(result, function, parameters)                                                   \
  api.function = reinterpret_cast<decltype(api.function)>(dlsym(library, #function));                    \
  if (api.function == nullptr) {                                                                         \
    return name + " has no function " #function ", so it is no OpenCL 1.2 library; install a newer one"; \
  }
  UHAL_OPENCL_FUNCTIONS(UHAL_OPENCL_FIND)
#undef UHAL_OPENCL_FIND
  return "";
}

}  // namespace

const std::string& library_name() {
  static const std::string* const name = new std::string(wanted_library());
  return *name;
}

const std::string& open_library() {
  static const std::string* const refusal = new std::string(load());
  return *refusal;
}

}  // namespace unihal::opencl
