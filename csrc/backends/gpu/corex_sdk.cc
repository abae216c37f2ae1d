#include "csrc/backends/gpu/corex_sdk.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace unihal::gpu {
namespace {

namespace fs = std::filesystem;

// The numbers of "corex-4.4.0", to compare.
std::vector<int> version_of(const std::string& name) {
  std::vector<int> numbers;
  for (size_t at = name.find('-'); at != std::string::npos; at = name.find('.', at + 1)) {
    numbers.push_back(std::atoi(name.c_str() + at + 1));
  }
  return numbers;
}

void add(const std::string& folder, std::vector<std::string>* folders) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  if (std::find(folders->begin(), folders->end(), folder) == folders->end()) folders->push_back(folder);
}

}  // namespace

std::vector<std::string> corex_roots() {
  std::vector<std::string> roots;
  for (const char* variable : {"COREX_ROOT", "COREX_HOME", "ILUVATAR_SOFTWARE_ROOT"}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && *folder != '\0') add(folder, &roots);
  }
  add("/usr/local/corex", &roots);
  std::vector<std::string> versions;
  std::error_code error;
  for (fs::directory_iterator entry("/usr/local", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind("corex-", 0) == 0) versions.push_back(name);
  }
  std::sort(versions.begin(), versions.end(),
            [](const std::string& a, const std::string& b) { return version_of(a) > version_of(b); });
  for (const std::string& name : versions) add("/usr/local/" + name, &roots);
  return roots;
}

std::vector<std::string> corex_library_folders() {
  std::vector<std::string> folders;
  for (const std::string& root : corex_roots()) {
    add(root + "/lib64", &folders);
    add(root + "/lib", &folders);
  }
  return folders;
}

}  // namespace unihal::gpu
