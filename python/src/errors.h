// From uhal_status to Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include "unihal/status.h"

namespace unihal::python {

namespace py = pybind11;

// Throws the Python exception that belongs to the calling thread's error record, unless status is UHAL_OK.
// Needs the GIL.
void check(uhal_status status);

// Throws the Python exception for an error that the module itself found.
[[noreturn]] void fail(uhal_status status, const char* message);

// Runs a call that may block, with the GIL released, and checks its status.
template <class Call>
void check_blocking(Call call) {
  uhal_status status;
  {
    py::gil_scoped_release release;
    status = call();
  }
  check(status);
}

}  // namespace unihal::python
