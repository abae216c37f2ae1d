// The extension "uhal.fault_injection" of a device's backend.
#include "unihal/fault_injection.h"

#include <string>

#include "errors.h"
#include "handles.h"
#include "module.h"

namespace unihal::python {
namespace {

const uhal_fault_injection& extension_of(const Device& device) {
  const void* table = nullptr;
  check(uhal_device_extension(device.handle, UHAL_FAULT_INJECTION_NAME, UHAL_FAULT_INJECTION_VERSION, &table));
  return *static_cast<const uhal_fault_injection*>(table);
}

void set_rules(const Device& device, const std::string& rules) { check(extension_of(device).set_rules(rules.c_str())); }

py::dict counts(const Device& device) {
  uhal_fault_counts c = {};
  c.struct_size = sizeof c;
  check(extension_of(device).get_counts(&c));
  py::dict result;
  result["allocations"] = c.allocations;
  result["launches"] = c.launches;
  result["copies"] = c.copies;
  result["injected"] = c.injected;
  return result;
}

}  // namespace

void bind_fault_injection(py::module_& module) {
  module.def("set_fault_rules", &set_rules);
  module.def("fault_counts", &counts);
}

}  // namespace unihal::python
