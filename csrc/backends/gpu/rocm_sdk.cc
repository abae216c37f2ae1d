#include "csrc/backends/gpu/rocm_sdk.h"

#include <cstdlib>
#include <filesystem>

namespace unihal::gpu {

std::vector<std::string> rocm_libraries(const std::string& stem, const std::vector<int>& versions) {
  std::vector<std::string> names;
  for (const int version : versions) names.push_back("lib" + stem + ".so." + std::to_string(version));
  names.push_back("lib" + stem + ".so");
  std::vector<std::string> files;
  const auto add_folder = [&](const std::string& folder) {
    std::error_code error;
    for (const std::string& name : names) {
      // One name that is missing says enough of a folder.
      if (name == names.back() || std::filesystem::exists(folder + name, error)) files.push_back(folder + name);
    }
  };
  const char* root = std::getenv("ROCM_PATH");
  if (root != nullptr && *root != '\0') add_folder(std::string(root) + "/lib/");
  files.insert(files.end(), names.begin(), names.end());
  add_folder("/opt/rocm/lib/");
  return files;
}

}  // namespace unihal::gpu
