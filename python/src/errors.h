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

// While it exists, waits of this thread give way to Ctrl-C (and to whatever handler a signal has in Python). Only the
// main thread's do: Python runs handlers nowhere else. Constructed with the GIL, which the waits may be without.
class InterruptibleWaits {
 public:
  InterruptibleWaits();
  ~InterruptibleWaits();
  InterruptibleWaits(const InterruptibleWaits&) = delete;
  InterruptibleWaits& operator=(const InterruptibleWaits&) = delete;
};

// Runs a call that waits for a device, with the GIL released. UHAL_CANCELLED if a signal's handler raised: check()
// throws what it raised.
template <class Call>
uhal_status wait_interruptibly(Call call) {
  const InterruptibleWaits interruptible;
  const py::gil_scoped_release release;
  return call();
}

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
