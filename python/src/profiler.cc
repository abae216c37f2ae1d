// The profiler's recording.
#include <string>

#include "errors.h"
#include "module.h"
#include "unihal/profiler.h"

namespace unihal::python {
namespace {

py::list events() {
  py::list result;
  const size_t count = uhal_profiler_event_count();
  for (size_t i = 0; i < count; ++i) {
    uhal_profiler_event event = {};
    event.struct_size = sizeof event;
    check(uhal_profiler_event_get(i, &event));
    py::dict entry;
    entry["name"] = event.name;
    entry["op"] = event.op;
    entry["shape"] = event.shape;
    entry["stream"] = event.stream;
    entry["start_nanoseconds"] = event.start_nanoseconds;
    entry["duration_nanoseconds"] = event.duration_nanoseconds;
    entry["bytes"] = event.bytes;
    entry["flops"] = event.flops;
    entry["estimated_nanoseconds"] = event.estimated_nanoseconds;
    entry["implementation"] = event.implementation;
    result.append(entry);
  }
  return result;
}

py::list totals() {
  py::list result;
  const size_t count = uhal_profiler_total_count();
  for (size_t i = 0; i < count; ++i) {
    uhal_profiler_total total = {};
    total.struct_size = sizeof total;
    check(uhal_profiler_total_get(i, &total));
    py::dict entry;
    entry["op"] = total.op;
    entry["calls"] = total.calls;
    entry["duration_nanoseconds"] = total.duration_nanoseconds;
    entry["bytes"] = total.bytes;
    entry["flops"] = total.flops;
    entry["estimated_nanoseconds"] = total.estimated_nanoseconds;
    entry["implementations"] = total.implementations;
    result.append(entry);
  }
  return result;
}

}  // namespace

void bind_profiler(py::module_& module) {
  module.def("profiler_start", [] { check(uhal_profiler_start()); });
  module.def("profiler_stop", [] { check_blocking([] { return uhal_profiler_stop(); }); });
  module.def("profiler_clear", &uhal_profiler_clear);
  module.def("profiler_events", &events);
  module.def("profiler_totals", &totals);
  module.def("profiler_write_trace",
             [](const std::string& path) { check_blocking([&] { return uhal_profiler_write_trace(path.c_str()); }); });
}

}  // namespace unihal::python
