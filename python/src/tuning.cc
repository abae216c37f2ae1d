// The extension "uhal.tuning" of a device's backend.
#include "unihal/tuning.h"

#include "errors.h"
#include "handles.h"
#include "module.h"
#include "op.h"

namespace unihal::python {
namespace {

constexpr size_t kMostText = 256;

const uhal_tuning& extension_of(const Device& device) {
  const void* table = nullptr;
  check(uhal_device_extension(device.handle, UHAL_TUNING_NAME, UHAL_TUNING_VERSION, &table));
  return *static_cast<const uhal_tuning*>(table);
}

int32_t ordinal_of(const Device& device) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  check(uhal_device_properties_get(device.handle, &properties));
  return properties.ordinal;
}

// The key of an op, and its candidates as (name, usable).
py::tuple describe(const Device& device, uhal_op_kind kind, const Views& inputs, const Views& outputs,
                   const py::dict& attributes) {
  const Op op(kind, inputs, outputs, attributes);
  const uhal_tuning& tuning = extension_of(device);
  const int32_t ordinal = ordinal_of(device);
  char key[kMostText];
  int32_t count = 0;
  check(tuning.describe(ordinal, op.get(), key, sizeof key, &count));
  py::list candidates;
  for (int32_t i = 0; i < count; ++i) {
    char name[kMostText];
    int32_t usable = 0;
    check(tuning.candidate(ordinal, op.get(), i, name, sizeof name, &usable));
    candidates.append(py::make_tuple(std::string(name), usable != 0));
  }
  return py::make_tuple(std::string(key), candidates);
}

void choose(const Device& device, uhal_op_kind kind, const Views& inputs, const Views& outputs,
            const py::dict& attributes, int32_t number) {
  const Op op(kind, inputs, outputs, attributes);
  check(extension_of(device).choose(ordinal_of(device), op.get(), number));
}

int32_t chosen(const Device& device, uhal_op_kind kind, const Views& inputs, const Views& outputs,
               const py::dict& attributes) {
  const Op op(kind, inputs, outputs, attributes);
  int32_t number = -1;
  check(extension_of(device).chosen(ordinal_of(device), op.get(), &number));
  return number;
}

void keep(const Device& device) { check(extension_of(device).keep(ordinal_of(device))); }

void forget(const Device& device) { check(extension_of(device).forget(ordinal_of(device))); }

}  // namespace

void bind_tuning(py::module_& module) {
  module.def("tuning_describe", &describe);
  module.def("tuning_choose", &choose);
  module.def("tuning_chosen", &chosen);
  module.def("tuning_keep", &keep);
  module.def("tuning_forget", &forget);
}

}  // namespace unihal::python
