#include "errors.h"

#include "module.h"

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

void check(uhal_status status) {
  if (status == UHAL_OK) return;
  const uhal_error* record = uhal_last_error();
  // A record of another status is an older one: the call failed without writing its own.
  const bool current = record->status == status;
  const char* message = current && record->message[0] != '\0' ? record->message : uhal_status_name(status);
  raise(status, message, current ? record : nullptr);
}

void fail(uhal_status status, const char* message) { raise(status, message, nullptr); }

void bind_errors(py::module_& module) {
  module.def("set_error_factory", [](py::object function) {
    delete factory;
    factory = new py::object(std::move(function));
  });
}

}  // namespace unihal::python
