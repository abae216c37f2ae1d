// The usual products in one step: two buffers of one dtype into a new one, or any two into one that is given. All other
// calls are Python's (unihal/ops/linear.py), which asks here first.
#include "one_step.h"

namespace unihal::python {
namespace {

// The shape of a product; false if the operands do not multiply.
bool product_shape(const uhal_tensor& a, const uhal_tensor& b, Shape& shape) {
  if (a.rank < 2 || b.rank < 2 || a.shape[a.rank - 1] != b.shape[b.rank - 2]) return false;
  if (!shape.broadcast(a.shape, a.rank - 2) || !shape.broadcast(b.shape, b.rank - 2)) return false;
  shape.dims[shape.rank++] = a.shape[a.rank - 2];
  shape.dims[shape.rank++] = b.shape[b.rank - 1];
  return true;
}

// The result, or None. `out`: None for a new buffer. No stream: the device's own.
py::object matmul(const py::type& type, const py::object& a, const py::object& b, const py::object& out,
                  int32_t math_mode, const std::shared_ptr<Stream>& given) {
  if (!is_instance(a, type) || !is_instance(b, type)) return py::none();
  const View* views[] = {&a.cast<const View&>(), &b.cast<const View&>(), nullptr};
  const uhal_tensor* inputs[] = {&views[0]->tensor(), &views[1]->tensor()};
  Shape shape;
  if (!product_shape(*inputs[0], *inputs[1], shape)) return py::none();
  std::unique_ptr<View> made;
  if (!out.is_none()) {
    if (!is_instance(out, type)) return py::none();
    views[2] = &out.cast<const View&>();
    if (!(shape == views[2]->tensor())) return py::none();
  }
  const std::shared_ptr<Stream> stream = stream_of(views[2] != nullptr ? *views[2] : *views[0], given);
  if (views[2] == nullptr) {
    if (inputs[0]->dtype != inputs[1]->dtype) return py::none();
    made = View::allocated({views[0]->allocation()->device()}, stream, inputs[0]->dtype, shape.dims, shape.rank);
    if (made == nullptr) return py::none();
    views[2] = made.get();
  }
  uhal_matmul_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.alpha = attributes.beta = 1;
  attributes.activation = UHAL_ACTIVATION_NONE;
  attributes.math_mode = math_mode;
  const uhal_tensor* output = &views[2]->tensor();
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MATMUL;
  op.input_count = 2;
  op.output_count = 1;
  op.inputs = inputs;
  op.outputs = &output;
  op.attributes = &attributes;
  launch_on<3>(op, views, 3, stream);
  return made == nullptr ? out : new_buffer(type, std::move(made));
}

}  // namespace

void bind_matmul(py::module_& module) { module.def("matmul", &matmul); }

}  // namespace unihal::python
