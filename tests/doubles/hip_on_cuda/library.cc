#include "tests/doubles/hip_on_cuda/library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace on_cuda {

Library::Library(std::vector<std::string> names) {
  const char* chosen = std::getenv("HIP_ON_CUDA_LIBRARIES");
  std::vector<std::string> folders;
  if (chosen != nullptr && *chosen != '\0') folders.push_back(std::string(chosen) + "/");
  folders.insert(folders.end(), {"", "/usr/local/cuda/lib64/"});
  for (const std::string& folder : folders) {
    for (const std::string& name : names) {
      if (handle_ == nullptr) handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

void* Library::find(const char* name) const { return handle_ != nullptr ? dlsym(handle_, name) : nullptr; }

void* find_or_abort(const Library& library, const char* name) {
  void* const function = library.find(name);
  if (function != nullptr) return function;
  std::fprintf(stderr, "hip_on_cuda: CUDA's %s is missing\n", name);
  std::abort();
}

}  // namespace on_cuda
