// Ops that a framework ran on the CPU.
#include "unihal/fallback.h"

#include <string>

#include "errors.h"
#include "module.h"

namespace unihal::python {
namespace {

py::list fallbacks() {
  py::list result;
  const size_t count = uhal_fallback_count();
  for (size_t i = 0; i < count; ++i) {
    uhal_fallback fallback = {};
    fallback.struct_size = sizeof fallback;
    check(uhal_fallback_get(i, &fallback));
    py::dict entry;
    entry["framework"] = fallback.framework;
    entry["op"] = fallback.op;
    entry["dtype"] = fallback.dtype;
    entry["reason"] = fallback.reason;
    entry["count"] = fallback.count;
    result.append(entry);
  }
  return result;
}

void record(const std::string& framework, const std::string& op, const std::string& dtype, const std::string& reason) {
  uhal_fallback fallback = {};
  fallback.struct_size = sizeof fallback;
  fallback.framework = framework.c_str();
  fallback.op = op.c_str();
  fallback.dtype = dtype.c_str();
  fallback.reason = reason.c_str();
  check(uhal_fallback_record(&fallback));
}

}  // namespace

void bind_fallback(py::module_& module) {
  module.def("fallbacks", &fallbacks);
  module.def("record_fallback", &record);
  module.def("strict", [] { return uhal_strict() != 0; });
}

}  // namespace unihal::python
