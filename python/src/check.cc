// The checks of a whole run: races, and what is still allocated.
#include "unihal/check.h"

#include <string>
#include <vector>

#include "errors.h"
#include "handles.h"
#include "module.h"

namespace unihal::python {
namespace {

py::dict as_dict(const uhal_race_access& access) {
  py::dict entry;
  entry["work"] = access.work;
  entry["role"] = access.role;
  entry["site"] = access.site;
  entry["stream"] = access.stream == UINT64_MAX ? py::object(py::none()) : py::object(py::int_(access.stream));
  entry["writes"] = access.is_write != 0;
  entry["address"] = access.address;
  entry["bytes"] = access.bytes;
  return entry;
}

py::list races() {
  py::list result;
  for (size_t i = 0;; ++i) {
    Device device = {};
    uhal_race_access earlier = {};
    uhal_race_access later = {};
    earlier.struct_size = later.struct_size = sizeof earlier;
    uhal_status status = uhal_race_get(i, &device.handle, &earlier, &later);
    if (status == UHAL_OUT_OF_RANGE) return result;
    check(status);
    py::dict race;
    race["device"] = device;
    race["earlier"] = as_dict(earlier);
    race["later"] = as_dict(later);
    result.append(race);
  }
}

struct LiveAllocation {
  uintptr_t address;
  size_t bytes;
  uhal_memory_kind kind;
  std::string site;
};

void keep(const uhal_live_allocation* allocation, void* list) {
  static_cast<std::vector<LiveAllocation>*>(list)->push_back(
      {reinterpret_cast<uintptr_t>(allocation->pointer), allocation->bytes, allocation->kind, allocation->site});
}

py::list live_allocations(const Device& device) {
  // Python objects come afterwards: making one may collect garbage, and so free device memory.
  std::vector<LiveAllocation> found;
  check_blocking([&] { return uhal_live_allocations(device.handle, keep, &found); });
  py::list result;
  for (const LiveAllocation& allocation : found) {
    py::dict entry;
    entry["address"] = allocation.address;
    entry["bytes"] = allocation.bytes;
    entry["kind"] = allocation.kind;
    entry["site"] = allocation.site;
    result.append(entry);
  }
  return result;
}

}  // namespace

void bind_check(py::module_& module) {
  module.def("races", &races);
  module.def("clear_races", &uhal_race_clear);
  module.def("live_allocations", &live_allocations);
}

}  // namespace unihal::python
