// Device types, backends, devices and their memory statistics.
#include <string>

#include "errors.h"
#include "handles.h"
#include "module.h"
#include "unihal/tensor.h"

namespace unihal::python {
namespace {

py::list device_types() {
  py::list result;
  for (size_t i = 0; i < uhal_device_type_count(); ++i) {
    uhal_device_type_info info = {};
    info.struct_size = sizeof info;
    check(uhal_device_type_get(i, &info));
    py::dict type;
    type["name"] = info.name;
    type["paddle_name"] = info.paddle_name;
    type["tensorflow_name"] = info.tensorflow_name;
    type["backends"] = py::str(info.backends).attr("split")(",");
    result.append(type);
  }
  return result;
}

py::list backend_reports(const std::string& device_type) {
  py::list result;
  for (size_t i = 0;; ++i) {
    uhal_backend_report report = {};
    report.struct_size = sizeof report;
    uhal_status status;
    {
      py::gil_scoped_release release;
      status = uhal_backend_report_get(device_type.c_str(), i, &report);
    }
    if (status == UHAL_OUT_OF_RANGE) return result;
    check(status);
    py::dict entry;
    entry["backend"] = report.backend;
    entry["state"] = report.state == UHAL_BACKEND_CHOSEN    ? "chosen"
                     : report.state == UHAL_BACKEND_REFUSED ? "refused"
                                                            : "not tried";
    entry["device_count"] = report.device_count;
    entry["library"] = report.library;
    entry["reason"] = report.reason;
    result.append(entry);
  }
}

int device_count(const std::string& device_type) {
  int32_t count = 0;
  check_blocking([&] { return uhal_device_count(device_type.c_str(), &count); });
  return count;
}

Device device_get(const std::string& device_type, int ordinal) {
  Device device = {};
  check_blocking([&] { return uhal_device_get(device_type.c_str(), ordinal, &device.handle); });
  return device;
}

py::dict properties(const Device& device) {
  uhal_device_properties p = {};
  p.struct_size = sizeof p;
  check_blocking([&] { return uhal_device_properties_get(device.handle, &p); });
  py::list dtypes;
  for (int32_t dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
    if ((p.supported_dtypes >> dtype & 1) != 0) dtypes.append(uhal_dtype_name(dtype));
  }
  py::dict result;
  result["device_type"] = p.device_type;
  result["backend"] = p.backend;
  result["name"] = p.name;
  result["vendor"] = p.vendor;
  result["driver"] = p.driver;
  result["pci_bus_id"] = p.pci_bus_id;
  result["ordinal"] = p.ordinal;
  result["compute_units"] = p.compute_units;
  result["wavefront_size"] = p.wavefront_size;
  result["is_stub"] = p.is_stub != 0;
  result["unified_memory"] = p.unified_memory != 0;
  result["clock_megahertz"] = p.clock_megahertz;
  result["total_memory"] = p.total_memory;
  result["max_allocation"] = p.max_allocation;
  result["local_memory"] = p.local_memory;
  result["supported_dtypes"] = py::tuple(dtypes);
  result["peak_gigaflops_float32"] = p.peak_gigaflops_float32;
  result["peak_gigabytes_per_second"] = p.peak_gigabytes_per_second;
  result["launch_nanoseconds"] = p.launch_nanoseconds;
  result["checks"] = p.checks;
  result["is_profile"] = p.figures_are_of == UHAL_FIGURES_OF_PROFILE;
  return result;
}

py::dict memory_stats(const Device& device, uhal_memory_kind kind) {
  uhal_memory_stats s = {};
  s.struct_size = sizeof s;
  check(uhal_memory_stats_get(device.handle, kind, &s));
  py::dict result;
  result["allocated_bytes"] = s.allocated_bytes;
  result["peak_allocated_bytes"] = s.peak_allocated_bytes;
  result["reserved_bytes"] = s.reserved_bytes;
  result["peak_reserved_bytes"] = s.peak_reserved_bytes;
  result["limit_bytes"] = s.limit_bytes;
  result["total_bytes"] = s.total_bytes;
  result["largest_free_block"] = s.largest_free_block;
  result["live_allocations"] = s.live_allocations;
  result["total_allocations"] = s.total_allocations;
  result["cache_hits"] = s.cache_hits;
  result["backend_allocations"] = s.backend_allocations;
  result["fragmentation"] = s.fragmentation;
  return result;
}

size_t trim(const Device& device, size_t keep_bytes) {
  size_t released = 0;
  check_blocking([&] { return uhal_memory_trim(device.handle, keep_bytes, &released); });
  return released;
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("device_types", &device_types);
  module.def("backend_reports", &backend_reports);
  module.def("device_count", &device_count);
  module.def("device_get", &device_get);
  module.def("select_backend", [](const std::string& name) { check(uhal_select_backend(name.c_str())); });
  module.def("load_backend", [](const std::string& path) {
    const char* name = nullptr;
    check(uhal_backend_load(path.c_str(), &name));
    return std::string(name);
  });
  module.def("finalize", &uhal_finalize, py::call_guard<py::gil_scoped_release>());

  py::class_<Device>(module, "Device")
      .def(
          "__eq__", [](const Device& a, const Device& b) { return a.handle == b.handle; }, py::is_operator())
      .def("__hash__", [](const Device& device) { return py::hash(py::int_(reinterpret_cast<size_t>(device.handle))); })
      .def("properties", &properties)
      .def("memory_stats", &memory_stats)
      .def("reset_peak", [](const Device& device) { check(uhal_memory_reset_peak(device.handle)); })
      .def("trim", &trim)
      .def("set_limit",
           [](const Device& device, size_t bytes) {
             check_blocking([&] { return uhal_memory_set_limit(device.handle, bytes); });
           })
      .def("synchronize", [](const Device& device) {
        check(wait_interruptibly([&] { return uhal_device_synchronize(device.handle); }));
      });
}

}  // namespace unihal::python
