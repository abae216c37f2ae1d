#include "csrc/core/registry/registry.h"

#include <cstdlib>
#include <map>
#include <string>

#include "csrc/core/backend/loader.h"
#include "csrc/core/base/environment.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/base/struct_size.h"
#include "csrc/core/registry/host.h"
#include "csrc/core/registry/open_device.h"

namespace unihal::core {
namespace {

constexpr int32_t kMostDevices = 4096;  // of a backend; more is a fault in it

// One line of uhal_backend_report_get.
struct Report {
  std::string backend;
  uhal_backend_state state = UHAL_BACKEND_NOT_TRIED;
  int32_t device_count = 0;
  std::string library;
  std::string reason;
};

struct TypeState {
  bool enumerated = false;
  std::vector<Report> reports;
  Backend* backend = nullptr;         // the chosen one
  std::vector<uhal_device*> devices;  // by ordinal; nullptr until opened
};

struct Registry {
  std::mutex mutex;
  std::string selection;  // by uhal_select_backend; empty: the environment's
  bool enumerated = false;
  std::map<std::string, LoadResult> loads;  // by backend name, kept for the life of the process
  TypeState types[kDeviceTypeCount];
};

// Never destroyed: other threads may still use devices while the process ends.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

TypeState& state_of(const DeviceTypeRow* row) { return registry().types[row - kDeviceTypes]; }

// The functions below are called with the registry's lock held.

const std::string& wished_backend() {
  Registry& r = registry();
  return r.selection.empty() ? environment().backend : r.selection;
}

std::string how_to_wish() {
  return registry().selection.empty() ? "UNIHAL_BACKEND=" + environment().backend
                                      : "uhal_select_backend(\"" + registry().selection + "\")";
}

bool is_loaded(const std::string& name) {
  auto found = registry().loads.find(name);
  return found != registry().loads.end() && found->second.backend != nullptr;
}

const LoadResult& load(const std::string& name) {
  auto found = registry().loads.find(name);
  if (found != registry().loads.end()) return found->second;
  return registry().loads.emplace(name, load_backend_by_name(name, kHost)).first->second;
}

// Whether a name may be part of a file name: lower-case letters, digits and '_'.
bool is_plain_name(const std::string& name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// A backend that no device type lists may be wished for too, if its library is found.
uhal_status check_wish() {
  const std::string& wish = wished_backend();
  if (wish.empty() || is_listed_backend(wish) || is_loaded(wish)) return UHAL_OK;
  std::string reason;
  if (is_plain_name(wish)) {
    const LoadResult& loaded = load(wish);
    if (loaded.backend != nullptr) return UHAL_OK;
    reason = " (" + loaded.reason + ")";
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "The environment variable UNIHAL_BACKEND is '%s', but must be one of %s, or the name of a backend "
                   "library libunihal_<name>.so in a folder of UNIHAL_BACKEND_PATH%s; correct or unset it.",
                   wish.c_str(), known_backends().c_str(), reason.c_str());
}

void count_devices(Backend* backend) {
  if (backend->counted) return;
  backend->counted = true;
  int32_t count = 0;
  const uint64_t serial = error_serial();
  uhal_status status = call_backend(*backend, "device_count", backend->table.device_count, &count);
  if (status != UHAL_OK) {
    backend->refusal = uhal_last_error()->message;
  } else if (count == 0) {
    backend->refusal = "it found no device";
  } else if (count < 0 || count > kMostDevices) {
    backend->refusal = "it reported " + std::to_string(count) + " devices, which cannot be; expected 0 to " +
                       std::to_string(kMostDevices);
  } else {
    if (error_serial() != serial) backend->remark = uhal_last_error()->message;
    backend->device_count = count;
    backend->devices.resize(static_cast<size_t>(count), nullptr);
  }
}

Report try_backend(const std::string& name, TypeState* type) {
  Report report;
  report.backend = name;
  const std::string& wish = wished_backend();
  if (type->backend != nullptr) {
    report.reason = "the backend '" + type->backend->name + "' serves this device type already";
  } else if (!wish.empty() && wish != name) {
    report.reason = how_to_wish() + " asks for another backend";
  } else if (wish.empty() && name == "stub") {
    report.reason = "the stub computes in host memory and serves only when asked for";
  } else {
    const LoadResult& loaded = load(name);
    report.library = loaded.library;
    report.state = UHAL_BACKEND_REFUSED;
    report.reason = loaded.reason;
    if (loaded.backend != nullptr) {
      count_devices(loaded.backend);
      report.device_count = loaded.backend->device_count;
      report.reason = loaded.backend->refusal;
      if (report.device_count > 0) {
        report.state = UHAL_BACKEND_CHOSEN;
        report.reason = wish.empty() ? "the first backend of this type with a device" : how_to_wish();
        if (!loaded.backend->remark.empty()) report.reason += "; " + loaded.backend->remark;
        type->backend = loaded.backend;
        type->devices.resize(static_cast<size_t>(report.device_count), nullptr);
      }
    }
  }
  return report;
}

uhal_status enumerate(const DeviceTypeRow* row) {
  TypeState& type = state_of(row);
  if (type.enumerated) return UHAL_OK;
  name_unknown_variables();
  if (uhal_status status = check_environment(); status != UHAL_OK) return status;
  if (uhal_status status = check_wish(); status != UHAL_OK) return status;
  EnumerationScope scope;
  ErrorRecordKeeper keeper;  // a refusal is told by uhal_device_get, when somebody asks for a device
  registry().enumerated = true;
  type.enumerated = true;
  for (size_t i = 0; i < kMaxBackendsPerType && row->backends[i] != nullptr; ++i) {
    type.reports.push_back(try_backend(row->backends[i], &type));
  }
  // A library given to uhal_backend_load can serve every type; a backend that the table knows serves those of its rows.
  const std::string& wish = wished_backend();
  if (!is_listed_backend(wish) && is_loaded(wish)) type.reports.push_back(try_backend(wish, &type));
  return UHAL_OK;
}

uhal_status find_type(const char* name, const DeviceTypeRow** row) {
  *row = find_device_type(name);
  if (*row != nullptr) return UHAL_OK;
  return UHAL_FAIL(UHAL_NOT_FOUND, "There is no device type '%s'; the known ones are %s.", name ? name : "(NULL)",
                   known_device_types().c_str());
}

// Why a type has no device: the whole story.
uhal_status refuse_without_devices(const DeviceTypeRow* row) {
  static const char* const kStateNames[] = {"chosen", "refused", "not tried"};
  std::string text = "No device of type '" + std::string(row->name) + "' is available. What was looked for:\n";
  for (const Report& report : state_of(row).reports) {
    text += "  backend " + report.backend + ", " + kStateNames[report.state] + ": " + report.reason + "\n";
  }
  if (wished_backend().empty()) {
    text +=
        "To compute in host memory instead, without this hardware, ask for the stub: set UNIHAL_BACKEND=stub, or "
        "call unihal.use_backend(\"stub\") before the framework is imported.";
  } else {
    text += how_to_wish() + " restricts the search to that backend; the backends of this device type are " +
            row->backend_list + ".";
  }
  text += " `unihal doctor` prints the details.";
  std::string overrides = overrides_in_force();
  if (!overrides.empty()) text += "\nSet in the environment: " + overrides;
  return UHAL_FAIL(UHAL_UNAVAILABLE, "%s", text.c_str());
}

}  // namespace

int32_t is_asked_for(const char* backend) { return backend != nullptr && wished_backend() == backend; }

std::vector<Backend*> loaded_backends() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<Backend*> backends;
  for (auto& [name, result] : registry().loads) {
    if (result.backend != nullptr) backends.push_back(result.backend);
  }
  return backends;
}

Backend* find_backend(const std::string& name, std::string* reason) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  const LoadResult& loaded = load(name);
  *reason = loaded.reason;
  return loaded.backend;
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_select_backend(const char* name) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (name == nullptr || *name == '\0') {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "No backend was named; the known ones are %s.", known_backends().c_str());
    }
    Registry& r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    if (!is_listed_backend(name) && !is_loaded(name)) {
      return UHAL_FAIL(UHAL_NOT_FOUND,
                       "There is no backend '%s'; the known ones are %s. Load another with uhal_backend_load first.",
                       name, known_backends().c_str());
    }
    if (r.enumerated && wished_backend() != name) {
      return UHAL_FAIL(
          UHAL_FAILED_PRECONDITION,
          "The backend '%s' cannot be selected any more: devices were enumerated with %s. Select it before "
          "the framework is imported, or set UNIHAL_BACKEND=%s.",
          name, wished_backend().empty() ? "no wish for a backend" : how_to_wish().c_str(), name);
    }
    r.selection = name;
    return UHAL_OK;
  });
}

uhal_status uhal_backend_load(const char* path, const char** name) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (path == nullptr || *path == '\0') {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "No file was named; pass the path of a backend library.");
    }
    EnumerationScope scope;
    Registry& r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    LoadResult result = load_backend_file(path, "", kHost);
    if (result.backend == nullptr) return UHAL_FAIL(result.status, "The backend %s.", result.reason.c_str());
    Backend* backend = result.backend;
    auto [place, inserted] = r.loads.emplace(backend->name, result);
    if (!inserted && place->second.backend != nullptr && place->second.library != backend->library) {
      std::string message = "A backend named '" + backend->name + "' was loaded already, from " +
                            place->second.library + "; a process can have only one.";
      delete backend;
      return UHAL_FAIL(UHAL_ALREADY_EXISTS, "%s", message.c_str());
    }
    if (!inserted && place->second.backend != nullptr) {
      delete backend;
    } else {
      place->second = result;
    }
    if (name != nullptr) *name = place->second.backend->name.c_str();
    return UHAL_OK;
  });
}

uhal_status uhal_backend_report_get(const char* device_type, size_t index, uhal_backend_report* report) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    const DeviceTypeRow* row;
    if (uhal_status status = find_type(device_type, &row); status != UHAL_OK) return status;
    std::lock_guard<std::mutex> lock(registry().mutex);
    if (uhal_status status = enumerate(row); status != UHAL_OK) return status;
    const std::vector<Report>& reports = state_of(row).reports;
    if (index >= reports.size()) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE, "Device type '%s' has %zu backend reports, there is no number %zu.",
                       row->name, reports.size(), index);
    }
    const Report& found = reports[index];
    uhal_backend_report value = {sizeof value,       found.backend.c_str(), found.state,
                                 found.device_count, found.library.c_str(), found.reason.c_str()};
    return copy_out(value, report, "report");
  });
}

uhal_status uhal_device_count(const char* device_type, int32_t* count) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (count == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "count is NULL; pass the place for the number.");
    *count = 0;
    const DeviceTypeRow* row;
    if (uhal_status status = find_type(device_type, &row); status != UHAL_OK) return status;
    std::lock_guard<std::mutex> lock(registry().mutex);
    if (uhal_status status = enumerate(row); status != UHAL_OK) return status;
    *count = static_cast<int32_t>(state_of(row).devices.size());
    return UHAL_OK;
  });
}

uhal_status uhal_device_get(const char* device_type, int32_t ordinal, uhal_device** device) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    if (device == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "device is NULL; pass the place for the device.");
    *device = nullptr;
    const DeviceTypeRow* row;
    if (uhal_status status = find_type(device_type, &row); status != UHAL_OK) return status;
    std::lock_guard<std::mutex> lock(registry().mutex);
    if (uhal_status status = enumerate(row); status != UHAL_OK) return status;
    TypeState& type = state_of(row);
    if (type.devices.empty()) return refuse_without_devices(row);
    int32_t count = static_cast<int32_t>(type.devices.size());
    if (ordinal < 0 || ordinal >= count) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE,
                       "There is no device %s:%d; backend '%s' has %d of this type, from %s:0 to %s:%d.", row->name,
                       ordinal, type.backend->name.c_str(), count, row->name, row->name, count - 1);
    }
    uhal_device*& place = type.devices[static_cast<size_t>(ordinal)];
    if (place == nullptr) {
      if (uhal_status status = open_device(row, type.backend, ordinal, &place); status != UHAL_OK) return status;
    }
    *device = place;
    return UHAL_OK;
  });
}
