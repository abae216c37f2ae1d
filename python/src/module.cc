// unihal._core: the C ABI for Python. Private; the interface for users is the package unihal around it.
#include "module.h"

#include "unihal/version.h"

PYBIND11_MODULE(_core, module) {
  namespace python = unihal::python;
  module.doc() = "The C ABI of libunihal.so. Private: use the package unihal.";
  module.def("version", &uhal_version_string);
  module.def("abi_version", [] {
    const uint32_t version = uhal_abi_version();
    return pybind11::make_tuple(version >> 16, version & 0xffff);
  });
  python::bind_errors(module);
  python::bind_device(module);
  python::bind_stream(module);
  python::bind_view(module);
  python::bind_dlpack(module);
  python::bind_op(module);
  python::bind_map(module);
  python::bind_matmul(module);
  python::bind_reduction(module);
  python::bind_profiler(module);
  python::bind_fallback(module);
  python::bind_check(module);
  python::bind_fault_injection(module);
  python::bind_tuning(module);
  python::bind_collectives(module);
  python::bind_graph(module);
}
