#include "csrc/backends/opencl/drivers.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>

#include "csrc/backends/common/foreign_llvm.h"
#include "csrc/backends/common/regular_file.h"

namespace unihal::opencl {
namespace {

constexpr char kVendors[] = "/etc/OpenCL/vendors";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void open_library(const std::string& name) {
  if (!name.empty()) dlopen(name.c_str(), vendor_library_flags());
}

// An .icd file holds the name of a library.
void open_named_in(const std::string& file) {
  struct stat status;
  const int descriptor = open_regular_file(AT_FDCWD, file.c_str(), 0, &status);
  if (descriptor < 0) return;
  char text[4096];
  const ssize_t length = read(descriptor, text, sizeof text);
  close(descriptor);
  std::istringstream stream(std::string(text, length > 0 ? static_cast<size_t>(length) : 0));
  std::string name;  // which may have blanks in it
  std::getline(stream, name);
  while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
  open_library(name);
}

void open_all_of(DIR* folder, const std::string& path) {
  while (const dirent* entry = readdir(folder)) {
    if (ends_with(entry->d_name, ".icd")) open_named_in(path + "/" + entry->d_name);
  }
}

}  // namespace

void preload_drivers() {
  if (!has_foreign_llvm()) return;
  if (const char* names = std::getenv("OCL_ICD_FILENAMES")) {
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ':');) open_library(name);
  }
  // As the loaders read it: a folder of .icd files, or (ocl-icd) one of them, or a library.
  const char* wish = std::getenv("OCL_ICD_VENDORS");
  if (wish == nullptr || *wish == '\0') wish = std::getenv("OPENCL_VENDOR_PATH");
  const std::string path = wish != nullptr && *wish != '\0' ? wish : kVendors;
  if (DIR* folder = opendir(path.c_str())) {
    open_all_of(folder, path);
    closedir(folder);
  } else if (ends_with(path, ".icd")) {
    open_named_in(path.find('/') == std::string::npos ? std::string(kVendors) + "/" + path : path);
  } else {
    open_library(path);
  }
}

}  // namespace unihal::opencl
