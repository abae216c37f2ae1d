#include "csrc/backends/gpu/api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "csrc/backends/common/foreign_llvm.h"

namespace unihal::gpu {

Api api;

namespace {

struct Driver {
  std::string refusal;
  std::string file;
  int version = 0;
};

// Tries one file; empty if it is the driver now.
std::string open_file(const std::string& file, Driver* driver) {
  void* library = dlopen(file.c_str(), vendor_library_flags());
  if (library == nullptr) {
    const char* said = dlerror();
    return said != nullptr ? said : file + " does not load";
  }
  const char* lacking = vendor.find_functions(library);
  if (lacking != nullptr) {
    return file + " has no function " + lacking + ", so it is no " + vendor.driver + " driver that can be used";
  }
  int code = api.initialize(0);
  if (code == kSuccess) code = api.driver_version(&driver->version);
  if (code != kSuccess) {
    return file + " does not start: " + vendor.error_name(code) + " (" + std::to_string(code) + ")";
  }
  driver->file = file;
  return "";
}

Driver load(bool asked_for) {
  Driver driver;
  std::string reasons;
  for (const std::string& file : vendor.driver_libraries(asked_for)) {
    const std::string reason = open_file(file, &driver);
    if (reason.empty()) return driver;
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  if (reasons.empty()) reasons = vendor.absence;
  driver.refusal = std::string("there is no ") + vendor.driver + " driver" + overrides_in_force() + ": " + reasons +
                   ". " + vendor.advice;
  return driver;
}

Driver& driver() {
  static Driver* const instance = new Driver;
  return *instance;
}

}  // namespace

const std::string& open_driver(bool asked_for) {
  static const bool opened = (driver() = load(asked_for), true);
  static_cast<void>(opened);
  return driver().refusal;
}

const std::string& driver_file() { return driver().file; }

int driver_version() { return driver().version; }

std::string overrides_in_force() {
  std::string text;
  for (const char* name : vendor.overrides) {
    const char* value = std::getenv(name);
    if (value != nullptr) text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
  }
  return text.empty() ? "" : " (in force: " + text + ")";
}

}  // namespace unihal::gpu
