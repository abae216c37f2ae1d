#include "plugins/tensorflow/shim_functions.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace unihal::tensorflow {
namespace {

constexpr const char* kPrefix = "libunihal_tensorflow_shim_";
constexpr const char* kSuffix = ".so";

// "2.21", or "" where no TensorFlow is loaded.
std::string running_minor() {
  void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "";
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "TF_Version"));
  const std::string text = version != nullptr ? version() : "";
  return text.substr(0, text.find('.', text.find('.') + 1));
}

std::filesystem::path own_folder() {
  Dl_info self = {};
  dladdr(reinterpret_cast<void*>(&own_folder), &self);
  return std::filesystem::path(self.dli_fname != nullptr ? self.dli_fname : "").parent_path();
}

struct Shim {
  const unihal_shim_functions* functions = nullptr;
  std::string reason;
};

Shim open_shim() {
  Shim shim;
  const std::string minor = running_minor();
  const std::filesystem::path path = own_folder() / (kPrefix + minor + kSuffix);
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    using Query = const unihal_shim_functions* (*)();
    const auto query = reinterpret_cast<Query>(dlsym(library, UNIHAL_SHIM_FUNCTIONS_SYMBOL));
    const unihal_shim_functions* functions = query != nullptr ? query() : nullptr;
    if (functions != nullptr && functions->struct_size >= sizeof *functions) shim.functions = functions;
    if (shim.functions == nullptr) shim.reason = path.string() + " belongs to another release of unihal";
    return shim;
  }
  const std::string refusal = dlerror();
  shim.reason = "this unihal was built for TensorFlow " + built_versions() + ", and " +
                (minor.empty() ? "an unknown version" : minor) + " is running (" + refusal +
                "); install one of these versions, or reinstall unihal beside the present one";
  return shim;
}

const Shim& shim() {
  static const auto* opened = new Shim(open_shim());
  return *opened;
}

}  // namespace

std::string built_versions() {
  std::vector<std::string> built;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(own_folder(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) == 0 && entry.path().extension() == kSuffix) {
      built.push_back(entry.path().stem().string().substr(std::string(kPrefix).size()));
    }
  }
  std::sort(built.begin(), built.end());
  std::string versions;
  for (const std::string& minor : built) versions += (versions.empty() ? "" : ", ") + minor;
  return versions.empty() ? "(none)" : versions;
}

const unihal_shim_functions* shim_functions() { return shim().functions; }

uhal_math_mode math_mode() {
  return shim_functions()->tensor_float_32_allowed() != 0 ? UHAL_MATH_ALLOW_TF32 : UHAL_MATH_STRICT;
}

std::string missing_shim_reason() { return shim().reason; }

}  // namespace unihal::tensorflow
