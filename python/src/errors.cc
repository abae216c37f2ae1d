#include "errors.h"

#include "module.h"
#include "unihal/stream.h"

namespace unihal::python {
namespace {

// Makes an exception from an error record: unihal.errors.from_record. Never freed: the module lives as long as the
// interpreter, and destroying a Python object in a static destructor is too late.
py::object* factory = nullptr;

[[noreturn]] void raise(uhal_status status, const char* message, const uhal_error* record) {
  py::dict fields;
  fields["code"] = status;
  fields["status"] = uhal_status_name(status);
  fields["native_code"] = record != nullptr ? record->native_code : 0;
  fields["native_name"] = record != nullptr ? record->native_name : "";
  fields["op"] = record != nullptr ? record->op : "";
  fields["device"] = record != nullptr ? record->device : "";
  fields["file"] = record != nullptr ? record->file : "";
  fields["line"] = record != nullptr ? record->line : 0;
  if (factory == nullptr) throw std::runtime_error(message);
  py::object exception = (*factory)(py::str(message), fields);
  PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr());
  throw py::error_already_set();
}

}  // namespace

namespace {

bool in_main_thread() {
  static const auto main =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();  // NOLINT: Python's
  return PyThread_get_thread_ident() == main;
}

int32_t run_signal_handlers(void*) {
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals();
}

}  // namespace

InterruptibleWaits::InterruptibleWaits() {
  if (in_main_thread()) uhal_set_wait_function(run_signal_handlers, nullptr);
}

InterruptibleWaits::~InterruptibleWaits() { uhal_set_wait_function(nullptr, nullptr); }

void check(uhal_status status) {
  if (status == UHAL_OK) return;
  if (status == UHAL_CANCELLED && PyErr_Occurred() != nullptr) throw py::error_already_set();
  const uhal_error* record = uhal_last_error();
  // A record of another status is an older one: the call failed without writing its own.
  const bool current = record->status == status;
  const char* message = current && record->message[0] != '\0' ? record->message : uhal_status_name(status);
  raise(status, message, current ? record : nullptr);
}

void fail(uhal_status status, const char* message) { raise(status, message, nullptr); }

void bind_errors(py::module_& module) {
  static_cast<void>(in_main_thread());  // looked up now, since later the interpreter may be about to end
  module.def("set_error_factory", [](py::object function) {
    delete factory;
    factory = new py::object(std::move(function));
  });
}

}  // namespace unihal::python
