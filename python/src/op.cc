// Launching ops and asking for support; the names of op kinds and map functions.
#include <mutex>
#include <set>
#include <string>

#include <pybind11/stl.h>

#include "attributes.h"
#include "errors.h"
#include "module.h"
#include "op.h"

namespace unihal::python {
namespace {

// A copy of a label that lives as long as the process, as uhal_op asks for.
const char* interned(const std::string& label) {
  static auto* labels = new std::set<std::string>;
  static auto* mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  return labels->insert(label).first->c_str();
}

}  // namespace

Op::Op(uhal_op_kind kind, const Views& inputs, const Views& outputs, const py::object& attributes,
       const std::optional<std::string>& label)
    : inputs_(tensors(inputs)), outputs_(tensors(outputs)) {
  op_.struct_size = sizeof op_;
  op_.kind = kind;
  op_.input_count = static_cast<int32_t>(inputs_.size());
  op_.output_count = static_cast<int32_t>(outputs_.size());
  op_.inputs = inputs_.data();
  op_.outputs = outputs_.data();
  op_.label = label ? interned(*label) : nullptr;
  if (py::isinstance<py::dict>(attributes)) {
    attributes_ = make_attributes(kind, py::reinterpret_borrow<py::dict>(attributes));
    op_.attributes = attributes_.empty() ? nullptr : attributes_.data();
  } else if (py::isinstance<Attributes>(attributes)) {
    op_.attributes = attributes.cast<const Attributes&>().of(kind);
  } else {
    throw py::type_error("attributes are a dict of names and numbers");
  }
}

std::vector<const uhal_tensor*> Op::tensors(const Views& views) {
  std::vector<const uhal_tensor*> result;
  result.reserve(views.size());
  for (const View* view : views) result.push_back(view != nullptr ? &view->tensor() : nullptr);
  return result;
}

namespace {

// The own stream of the device that an operand lies on.
std::shared_ptr<Stream> default_stream_of(const Views& inputs, const Views& outputs) {
  for (const Views* views : {&outputs, &inputs}) {
    for (const View* view : *views) {
      if (view != nullptr) return default_stream({view->allocation()->device()});
    }
  }
  fail(UHAL_INVALID_ARGUMENT, "an op needs at least one operand");
}

void launch(const std::shared_ptr<Stream>& given, uhal_op_kind kind, const Views& inputs, const Views& outputs,
            const py::object& attributes, const std::optional<std::string>& label) {
  const std::shared_ptr<Stream> stream = given != nullptr ? given : default_stream_of(inputs, outputs);
  const Op op(kind, inputs, outputs, attributes, label);
  uhal_stream* handle = stream->get();
  std::vector<Pin> pins;
  pins.reserve(inputs.size() + outputs.size());
  for (const Views* views : {&inputs, &outputs}) {
    for (const View* view : *views) {
      if (view == nullptr) continue;
      pins.emplace_back(view->allocation());
      view->allocation()->used_on(stream);
    }
  }
  check_blocking([&] { return uhal_launch(handle, op.get()); });
}

void supports(const Device& device, uhal_op_kind kind, const Views& inputs, const Views& outputs,
              const py::object& attributes) {
  const Op op(kind, inputs, outputs, attributes, std::nullopt);
  check(uhal_supports(device.handle, op.get()));
}

// Whether it is the host that runs the op.
bool can_run(const Device& device, uhal_op_kind kind, const Views& inputs, const Views& outputs,
             const py::object& attributes) {
  const Op op(kind, inputs, outputs, attributes, std::nullopt);
  int32_t on_host = 0;
  check(uhal_can_run(device.handle, op.get(), &on_host));
  return on_host != 0;
}

py::dict op_kinds() {
  py::dict result;
  for (uhal_op_kind kind = 1; kind < UHAL_OP_KIND_LIMIT; ++kind) {
    const std::string name = uhal_op_kind_name(kind);
    if (name != "invalid") result[name.c_str()] = kind;
  }
  return result;
}

py::dict map_functions() {
  py::dict result;
  for (size_t i = 0; i < uhal_map_function_count(); ++i) {
    uhal_map_function_info info = {};
    info.struct_size = sizeof info;
    check(uhal_map_function_get(static_cast<uhal_map_function>(i), &info));
    py::dict function;
    function["number"] = i;
    function["name"] = info.name;
    function["input_count"] = info.input_count;
    function["output_count"] = info.output_count;
    function["integer"] = info.integer != 0;
    function["flops"] = info.flops;
    function["expression"] = info.expression;
    function["complex_expression"] = info.complex_expression;
    result[info.name] = function;
  }
  return result;
}

}  // namespace

void bind_op(py::module_& module) {
  py::class_<Attributes>(module, "Attributes").def(py::init<uhal_op_kind, const py::dict&>());
  module.def("op_kinds", &op_kinds);
  module.def("map_functions", &map_functions);
  module.def("launch", &launch, py::arg("stream"), py::arg("kind"), py::arg("inputs"), py::arg("outputs"),
             py::arg("attributes") = py::dict(), py::arg("label") = py::none());
  module.def("supports", &supports, py::arg("device"), py::arg("kind"), py::arg("inputs"), py::arg("outputs"),
             py::arg("attributes") = py::dict());
  module.def("can_run", &can_run, py::arg("device"), py::arg("kind"), py::arg("inputs"), py::arg("outputs"),
             py::arg("attributes") = py::dict());
}

}  // namespace unihal::python
