// The usual calls of an elementwise function in one step: buffers of one dtype into a new one, and any buffers into one
// that is given. All other calls are Python's (unihal/ops/elementwise.py), which asks here first.
#include "one_step.h"

namespace unihal::python {
namespace {

// The dtype that operands from number `first` on have in common; UHAL_DTYPE_INVALID if there is none, or if it is an
// integer's and the function gives fractions.
uhal_dtype common_dtype(const View* const* views, size_t count, size_t first, bool takes_integers) {
  const uhal_dtype dtype = views[first]->tensor().dtype;
  for (size_t i = first; i < count; ++i) {
    if (views[i]->tensor().dtype != dtype) return UHAL_DTYPE_INVALID;
  }
  return takes_integers || dtype >= UHAL_FLOAT16 ? dtype : UHAL_DTYPE_INVALID;
}

// Operands that are all of `type`, and the shape of what is computed from them.
struct Operands {
  const View* views[UHAL_MAP_MAX_INPUTS + 1];  // and, at last, the result
  const uhal_tensor* tensors[UHAL_MAP_MAX_INPUTS];
  size_t count = 0;
  Shape shape;

  // False if they are none that this file is for.
  bool read(const py::type& type, const py::tuple& objects) {
    count = objects.size();
    if (count == 0 || count > UHAL_MAP_MAX_INPUTS) return false;
    for (size_t i = 0; i < count; ++i) {
      const py::handle object = PyTuple_GET_ITEM(objects.ptr(), static_cast<Py_ssize_t>(i));
      if (!is_instance(object, type)) return false;
      views[i] = &object.cast<const View&>();
      tensors[i] = &views[i]->tensor();
      if (!shape.broadcast(tensors[i]->shape, tensors[i]->rank)) return false;
    }
    return true;
  }
};

void submit(uhal_map_function function, Operands& operands, const View& result, const std::shared_ptr<Stream>& stream) {
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = function;
  const uhal_tensor* output = &result.tensor();
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MAP;
  op.input_count = static_cast<int32_t>(operands.count);
  op.output_count = 1;
  op.inputs = operands.tensors;
  op.outputs = &output;
  op.attributes = &attributes;
  operands.views[operands.count] = &result;
  launch_on<UHAL_MAP_MAX_INPUTS + 1>(op, operands.views, operands.count + 1, stream);
}

// `gives_bool`: the result's dtype is bool; `first_value`:
// the first operand whose dtype counts; no stream: the device's own.
py::object map_to_new(const py::type& type, uhal_map_function function, size_t first_value, bool takes_integers,
                      bool gives_bool, const py::tuple& objects, const std::shared_ptr<Stream>& given) {
  Operands operands;
  if (!operands.read(type, objects) || operands.count <= first_value) return py::none();
  const uhal_dtype common = common_dtype(operands.views, operands.count, first_value, takes_integers || gives_bool);
  const uhal_dtype dtype = gives_bool ? static_cast<uhal_dtype>(UHAL_BOOL) : common;
  if (common == UHAL_DTYPE_INVALID) return py::none();
  const Device device = {operands.views[0]->allocation()->device()};
  const std::shared_ptr<Stream> stream = stream_of(*operands.views[0], given);
  std::unique_ptr<View> result = View::allocated(device, stream, dtype, operands.shape.dims, operands.shape.rank);
  if (result == nullptr) return py::none();
  submit(function, operands, *result, stream);
  return new_buffer(type, std::move(result));
}

// No stream: the device's own.
bool map_to(const py::type& type, uhal_map_function function, const py::tuple& objects, const py::object& out,
            const std::shared_ptr<Stream>& given) {
  Operands operands;
  if (!is_instance(out, type) || !operands.read(type, objects)) return false;
  const View& result = out.cast<const View&>();
  if (!(operands.shape == result.tensor())) return false;
  submit(function, operands, result, stream_of(result, given));
  return true;
}

}  // namespace

void bind_map(py::module_& module) {
  module.def("map_to_new", &map_to_new);
  module.def("map_to", &map_to);
}

}  // namespace unihal::python
