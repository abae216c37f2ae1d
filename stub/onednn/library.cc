#include "stub/onednn/library.h"

#if !defined(UNIHAL_STUB_ONEDNN)

namespace unihal::stub {

const char* onednn_description() { return "built-in kernels (this build has no oneDNN: its headers were not found)"; }

const char* onednn_refusal() { return ""; }

}  // namespace unihal::stub

#else

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "stub/common/library_search.h"

namespace unihal::stub {
namespace {

constexpr const char* kFileName = "libdnnl.so.3";
constexpr int kMajorVersion = 3;

struct LoadedOneDnn {
  OneDnn functions = {};
  std::string description;
  FoundLibrary found;
};

std::vector<std::string> onednn_candidates() {
  std::vector<std::string> paths;
  const std::string folder = own_folder();
  if (!folder.empty()) {
    paths.push_back(folder + "/" + kFileName);
    // <prefix>/lib/python3.x/site-packages/unihal/lib -> <prefix>/lib
    paths.push_back(folder + "/../../../../" + kFileName);
  }
  paths.push_back(kFileName);
  return paths;
}

// Opens a file and fills the functions; returns what was wrong, or an empty string.
std::string open_onednn(const std::string& path, OneDnn& functions) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
#define UNIHAL_ONEDNN_FIND(name)                                               \
  functions.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) return path + " has no function " #name;
  UNIHAL_ONEDNN_FUNCTIONS(UNIHAL_ONEDNN_FIND)
#undef UNIHAL_ONEDNN_FIND
  const dnnl_version_t* version = functions.dnnl_version();
  if (version->major != kMajorVersion) {
    return path + " is oneDNN " + std::to_string(version->major) + ", needed is " + std::to_string(kMajorVersion);
  }
  if (functions.dnnl_engine_create(&functions.engine, dnnl_cpu, 0) != dnnl_success) {
    return path + " has no CPU engine";
  }
  return {};
}

LoadedOneDnn load_onednn() {
  LoadedOneDnn loaded;
  loaded.found =
      find_library({"UNIHAL_ONEDNN_LIBRARY", "oneDNN", "built-in kernels", "pip install onednn-cpu-gomp",
                    onednn_candidates(), [&](const std::string& path) { return open_onednn(path, loaded.functions); }});
  if (!loaded.found.usable) {
    loaded.description = loaded.found.missing;
    return loaded;
  }
  const dnnl_version_t* version = loaded.functions.dnnl_version();
  loaded.description = "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                       std::to_string(version->patch);
  return loaded;
}

// Never destroyed: kernels may run until the process ends.
const LoadedOneDnn& loaded_onednn() {
  static const LoadedOneDnn* const instance = new LoadedOneDnn(load_onednn());
  return *instance;
}

}  // namespace

const char* onednn_description() { return loaded_onednn().description.c_str(); }

const char* onednn_refusal() {
  const char* wish = std::getenv("UNIHAL_ONEDNN_LIBRARY");
  return wish != nullptr && *wish != '\0' ? loaded_onednn().found.refusal.c_str() : "";
}

const OneDnn* onednn() {
  const LoadedOneDnn& library = loaded_onednn();
  return library.found.usable ? &library.functions : nullptr;
}

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
