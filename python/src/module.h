// One function per subject, each adding its part to the module unihal._core.
#pragma once

#include <pybind11/pybind11.h>

namespace unihal::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_device(py::module_& module);
void bind_stream(py::module_& module);
void bind_view(py::module_& module);
void bind_dlpack(py::module_& module);
void bind_op(py::module_& module);
void bind_map(py::module_& module);
void bind_matmul(py::module_& module);
void bind_reduction(py::module_& module);
void bind_profiler(py::module_& module);
void bind_fallback(py::module_& module);
void bind_check(py::module_& module);
void bind_collectives(py::module_& module);
void bind_graph(py::module_& module);
void bind_fault_injection(py::module_& module);
void bind_tuning(py::module_& module);

}  // namespace unihal::python
