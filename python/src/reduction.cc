// The usual reductions in one step: of a buffer along axes into a new one. All other calls are Python's
// (unihal/ops/reduction.py), which asks here first.
#include "one_step.h"

namespace unihal::python {
namespace {

// An axis as a number from 0; -1 if there is none.
int axis_of(int32_t rank, int64_t axis) {
  if (axis < -static_cast<int64_t>(rank) || axis >= rank) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// Sets a bit for an axis that Python names; false if there is none.
bool add_axis(py::handle object, int32_t rank, uint32_t& bits) {
  if (!PyLong_CheckExact(object.ptr())) return false;
  int overflow = 0;
  const int axis = axis_of(rank, PyLong_AsLongLongAndOverflow(object.ptr(), &overflow));
  if (overflow != 0 || axis < 0) return false;
  bits |= 1U << axis;
  return true;
}

// The axes that Python names: a number, a list or tuple of numbers, or None for all.
bool read_axes(const py::object& given, int32_t rank, uint32_t& bits) {
  if (given.is_none()) {
    bits = (1U << rank) - 1;
    return true;
  }
  if (!PyList_CheckExact(given.ptr()) && !PyTuple_CheckExact(given.ptr())) return add_axis(given, rank, bits);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.ptr()); ++i) {
    if (!add_axis(PySequence_Fast_GET_ITEM(given.ptr(), i), rank, bits)) return false;
  }
  return true;
}

// `bits`: the axes that are reduced. The result, whose view has them only if they are kept.
py::object launch_reduction(const py::type& type, const View& x, uhal_op op, uint32_t bits, bool keep_axes,
                            uhal_dtype dtype, const std::shared_ptr<Stream>& given) {
  const uhal_tensor* const input = &x.tensor();
  Shape kept;
  Shape shape;
  kept.rank = input->rank;
  for (int i = 0; i < input->rank; ++i) {
    const bool reduced = (bits >> i & 1U) != 0;
    kept.dims[i] = reduced ? 1 : input->shape[i];
    if (!reduced || keep_axes) shape.dims[shape.rank++] = kept.dims[i];
  }
  const std::shared_ptr<Stream> stream = stream_of(x, given);
  std::unique_ptr<View> result = View::allocated({x.allocation()->device()}, stream, dtype, shape.dims, shape.rank);
  if (result == nullptr) return py::none();
  // What the device writes has x's rank.
  const View written(result->allocation(), dtype, kept.dims, kept.rank);
  const View* views[] = {&x, &written};
  const uhal_tensor* output = &written.tensor();
  op.struct_size = sizeof op;
  op.input_count = op.output_count = 1;
  op.inputs = &input;
  op.outputs = &output;
  launch_on<2>(op, views, 2, stream);
  return new_buffer(type, std::move(result));
}

// No stream: the device's own.
py::object reduce(const py::type& type, const py::object& x, const py::object& axes, uhal_reduction reduction,
                  bool keep_axes, uhal_dtype dtype, const std::shared_ptr<Stream>& stream) {
  if (!is_instance(x, type)) return py::none();
  const View& view = x.cast<const View&>();
  uint32_t bits = 0;
  if (!read_axes(axes, view.tensor().rank, bits)) return py::none();
  uhal_reduce_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = reduction;
  uhal_op op = {};
  op.kind = UHAL_OP_REDUCE;
  op.attributes = &attributes;
  return launch_reduction(type, view, op, bits, keep_axes, dtype, stream);
}

// `flags`: of uhal_axis_attributes. No stream: the device's own.
py::object arg_reduce(const py::type& type, const py::object& x, const py::object& axis, uint32_t flags, bool keep_axes,
                      uhal_dtype dtype, const std::shared_ptr<Stream>& stream) {
  if (!is_instance(x, type)) return py::none();
  const View& view = x.cast<const View&>();
  uint32_t bits = 0;
  if (!add_axis(axis, view.tensor().rank, bits)) return py::none();
  uhal_axis_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = __builtin_ctz(bits);
  attributes.flags = flags;
  uhal_op op = {};
  op.kind = UHAL_OP_ARG_REDUCE;
  op.attributes = &attributes;
  return launch_reduction(type, view, op, bits, keep_axes, dtype, stream);
}

}  // namespace

void bind_reduction(py::module_& module) {
  module.def("reduce", &reduce);
  module.def("arg_reduce", &arg_reduce);
}

}  // namespace unihal::python
