#include "view.h"

#include <pybind11/stl.h>

#include <string>

#include "errors.h"
#include "module.h"

namespace unihal::python {
namespace {

// PEP 3118 format of each dtype; NULL for bfloat16, which it has none for.
const char* const buffer_formats[UHAL_DTYPE_COUNT] = {nullptr, "?", "b", "h",     "i", "q", "B",  "H",
                                                      "I",     "Q", "e", nullptr, "f", "d", "Zf", "Zd"};

// What a Py_buffer points to until it is released.
struct Export {
  Pin pin;
  Py_ssize_t shape[UHAL_MAX_RANK];
  Py_ssize_t strides[UHAL_MAX_RANK];
};

bool row_major(const Py_buffer& buffer) { return PyBuffer_IsContiguous(&buffer, 'C') != 0; }

void fill_buffer(const View& view, PyObject* object, Py_buffer* buffer, int flags) {
  const uhal_tensor& tensor = view.tensor();
  const char* format = buffer_formats[tensor.dtype];
  if (format == nullptr) {
    PyErr_Format(PyExc_BufferError, "%s has no buffer format in Python; use numpy() (with ml_dtypes) or DLPack",
                 uhal_dtype_name(tensor.dtype));
    throw py::error_already_set();
  }
  view.prepare_host_access();
  auto* exported = new Export{Pin(view.allocation()), {}, {}};
  const auto size = static_cast<Py_ssize_t>(uhal_dtype_size(tensor.dtype));
  for (int i = 0; i < tensor.rank; ++i) {
    exported->shape[i] = tensor.shape[i];
    exported->strides[i] = tensor.strides[i] * size;
  }
  // A pointer is wanted even for no elements.
  static char nothing;
  buffer->buf = tensor.data != nullptr ? tensor.data : &nothing;
  buffer->len = view.elements() * size;
  buffer->itemsize = size;
  buffer->readonly = 0;
  buffer->ndim = tensor.rank;
  buffer->format = const_cast<char*>(format);
  buffer->shape = exported->shape;
  buffer->strides = exported->strides;
  buffer->suboffsets = nullptr;
  buffer->internal = exported;
  const bool strides_welcome = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const bool row_major_wanted = !strides_welcome || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  if (row_major_wanted && !row_major(*buffer)) {
    delete exported;
    buffer->internal = nullptr;
    PyErr_SetString(PyExc_BufferError, "the view is not contiguous; copy it first with contiguous()");
    throw py::error_already_set();
  }
  if ((flags & PyBUF_FORMAT) == 0) buffer->format = nullptr;
  if ((flags & PyBUF_ND) == 0) buffer->shape = nullptr;
  if (!strides_welcome) buffer->strides = nullptr;
  buffer->obj = Py_NewRef(object);
}

extern "C" int get_buffer(PyObject* object, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  try {
    fill_buffer(py::handle(object).cast<const View&>(), object, buffer, flags);
    return 0;
  } catch (py::error_already_set& error) {
    // Consumers such as NumPy expect a BufferError and go on to other protocols then.
    if (error.matches(PyExc_BufferError)) {
      error.restore();
    } else {
      py::raise_from(error, PyExc_BufferError, "the buffer's memory cannot be looked at from the host");
    }
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

extern "C" void release_buffer(PyObject*, Py_buffer* buffer) { delete static_cast<Export*>(buffer->internal); }

py::tuple as_tuple(const int64_t* values, int32_t count) {
  py::tuple result(count);
  for (int32_t i = 0; i < count; ++i) result[i] = values[i];
  return result;
}

// The bytes of a contiguous Python object.
class HostBytes {
 public:
  HostBytes(const py::object& object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
      throw py::error_already_set();
    }
  }
  ~HostBytes() { PyBuffer_Release(&buffer_); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  void* pointer() const { return buffer_.buf; }
  size_t bytes() const { return static_cast<size_t>(buffer_.len); }

 private:
  Py_buffer buffer_;
};

// Both sides of a copy.
struct InCopy : InFlight {
  InCopy(const py::object& host, bool writable, const std::shared_ptr<Allocation>& device)
      : memory(host, writable), pin(device) {}
  HostBytes memory;
  Pin pin;
};

// Copies between a dense view and host memory, and waits for it: the host's side is only ours for this call.
void copy(const std::shared_ptr<Stream>& stream, const View& view, const py::object& host, uhal_copy_kind kind) {
  const bool to_host = kind == UHAL_COPY_DEVICE_TO_HOST;
  auto used = std::make_unique<InCopy>(host, to_host, view.allocation());
  const HostBytes& memory = used->memory;
  const size_t wanted = static_cast<size_t>(view.elements()) * uhal_dtype_size(view.tensor().dtype);
  if (memory.bytes() != wanted) {
    fail(UHAL_INVALID_ARGUMENT, ("the host's memory has " + std::to_string(memory.bytes()) + " bytes, the view " +
                                 std::to_string(wanted) + "; they must be equal")
                                    .c_str());
  }
  if (!view.dense()) fail(UHAL_INVALID_ARGUMENT, "the view is not contiguous; copy it first with contiguous()");
  void* device_memory = view.tensor().data;
  uhal_stream* handle = stream->get();
  view.allocation()->used_on(stream);
  check_blocking([&] {
    return uhal_copy(handle, to_host ? memory.pointer() : device_memory, to_host ? device_memory : memory.pointer(),
                     memory.bytes(), kind);
  });
  const uhal_status status = stream->synchronize();
  // The copy goes on: nobody may free either side before it has ended.
  if (status == UHAL_CANCELLED) stream->keep(std::move(used));
  check(status);
}

}  // namespace

View::View(std::shared_ptr<Allocation> allocation, uhal_dtype dtype, const std::vector<int64_t>& shape,
           const std::vector<int64_t>& strides, int64_t offset)
    : allocation_(std::move(allocation)), offset_(offset) {
  allocation_->require_open();
  const auto size = static_cast<int64_t>(uhal_dtype_size(dtype));
  if (size == 0) fail(UHAL_INVALID_ARGUMENT, "unknown dtype number");
  if (shape.size() > UHAL_MAX_RANK) fail(UHAL_INVALID_ARGUMENT, "a view has at most 10 axes");
  if (shape.size() != strides.size()) fail(UHAL_INVALID_ARGUMENT, "a view needs one stride per axis");
  tensor_.struct_size = sizeof tensor_;
  tensor_.dtype = dtype;
  tensor_.rank = static_cast<int32_t>(shape.size());

  // Offsets, in elements from the first one, of the lowest and the highest address.
  int64_t lowest = 0;
  int64_t highest = 0;
  bool empty = false;
  bool overflow = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) fail(UHAL_INVALID_ARGUMENT, "a shape has no negative entries");
    tensor_.shape[i] = shape[i];
    tensor_.strides[i] = strides[i];
    if (shape[i] == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    int64_t& end = reach < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  int64_t first = 0;
  int64_t last = 0;
  overflow |= __builtin_mul_overflow(lowest, size, &first) || __builtin_add_overflow(first, offset, &first);
  overflow |= __builtin_mul_overflow(highest, size, &last) || __builtin_add_overflow(last, offset + size, &last);
  const auto bytes = static_cast<int64_t>(allocation_->bytes());
  if (!empty && (overflow || first < 0 || last > bytes)) {
    fail(UHAL_OUT_OF_RANGE, ("the view reaches outside its allocation of " + std::to_string(bytes) + " bytes").c_str());
  }
  tensor_.data = empty ? nullptr : allocation_->pointer() + offset;
}

View::View(std::shared_ptr<Allocation> allocation, uhal_dtype dtype, const int64_t* shape, int32_t rank)
    : allocation_(std::move(allocation)), offset_(0) {
  tensor_.struct_size = sizeof tensor_;
  tensor_.dtype = dtype;
  tensor_.rank = rank;
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    tensor_.shape[i] = shape[i];
    tensor_.strides[i] = stride;
    stride *= shape[i] == 0 ? 1 : shape[i];
  }
  tensor_.data = elements() == 0 ? nullptr : allocation_->pointer();
}

std::unique_ptr<View> View::allocated(const Device& device, const std::shared_ptr<Stream>& stream, uhal_dtype dtype,
                                      const int64_t* shape, int32_t rank) {
  int64_t bytes = static_cast<int64_t>(uhal_dtype_size(dtype));
  for (int i = 0; i < rank; ++i) {
    if (shape[i] < 0 || __builtin_mul_overflow(bytes, shape[i], &bytes)) return nullptr;
  }
  return std::make_unique<View>(
      std::make_shared<Allocation>(device, stream, UHAL_MEMORY_DEVICE, static_cast<size_t>(bytes)), dtype, shape, rank);
}

int64_t View::elements() const {
  int64_t count = 1;
  for (int i = 0; i < tensor_.rank; ++i) count *= tensor_.shape[i];
  return count;
}

bool View::dense() const {
  int64_t stride = 1;
  for (int i = tensor_.rank - 1; i >= 0; --i) {
    if (tensor_.shape[i] != 1 && tensor_.strides[i] != stride) return elements() == 0;
    stride *= tensor_.shape[i];
  }
  return true;
}

void View::prepare_host_access() const {
  allocation_->require_open();
  if (allocation_->kind() == UHAL_MEMORY_DEVICE) {
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    check(uhal_device_properties_get(allocation_->device(), &properties));
    if (properties.unified_memory == 0) {
      PyErr_Format(PyExc_BufferError,
                   "the memory of %s:%d (%s) cannot be reached from the host; use numpy(), which copies",
                   properties.device_type, properties.ordinal, properties.backend);
      throw py::error_already_set();
    }
  }
  uhal_device* device = allocation_->device();
  check(wait_interruptibly([&] { return uhal_device_synchronize(device); }));
}

std::shared_ptr<Stream> stream_of(const View& view, const std::shared_ptr<Stream>& given) {
  return given != nullptr ? given : default_stream({view.allocation()->device()});
}

py::object new_buffer(const py::type& type, std::unique_ptr<View> view) {
  auto* const python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  const py::object buffer = py::reinterpret_steal<py::object>(py::detail::make_new_instance(python_type));
  auto* const instance = reinterpret_cast<py::detail::instance*>(buffer.ptr());
  py::detail::value_and_holder value = instance->get_value_and_holder(py::detail::get_type_info(typeid(View)));
  value.value_ptr() = view.release();
  value.type->init_instance(instance, nullptr);
  return buffer;
}

namespace {

// A buffer of its own memory on the device of `like`: what Buffer(shape, dtype, like.device, stream=stream) makes. None
// where that is to say what is wrong, or takes other arguments.
py::object buffer_like(const py::type& type, const View& like, uhal_dtype dtype, const py::tuple& shape,
                       const std::shared_ptr<Stream>& stream) {
  if (shape.size() > UHAL_MAX_RANK) return py::none();
  int64_t dims[UHAL_MAX_RANK];
  for (size_t i = 0; i < shape.size(); ++i) {
    const py::handle length = PyTuple_GET_ITEM(shape.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyLong_CheckExact(length.ptr())) return py::none();
    dims[i] = PyLong_AsLongLong(length.ptr());
    if (dims[i] == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  }
  const Device device = {like.allocation()->device()};
  std::unique_ptr<View> view =
      View::allocated(device, stream_of(like, stream), dtype, dims, static_cast<int32_t>(shape.size()));
  return view == nullptr ? py::none() : new_buffer(type, std::move(view));
}

}  // namespace

void bind_view(py::module_& module) {
  py::dict dtypes;
  for (int32_t dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) dtypes[uhal_dtype_name(dtype)] = dtype;
  module.attr("DTYPES") = dtypes;
  module.def("dtype_size", &uhal_dtype_size);

  py::class_<Allocation, std::shared_ptr<Allocation>>(module, "Allocation")
      .def(py::init<const Device&, std::shared_ptr<Stream>, uhal_memory_kind, size_t>())
      .def("close", &Allocation::close)
      .def_property_readonly("closed", &Allocation::closed)
      .def_property_readonly("bytes", &Allocation::bytes)
      .def_property_readonly("kind", &Allocation::kind)
      .def_property_readonly(
          "pointer", [](const Allocation& allocation) { return reinterpret_cast<size_t>(allocation.pointer()); })
      .def_property_readonly("device", [](const Allocation& allocation) { return Device{allocation.device()}; });

  const auto buffer_protocol = [](PyHeapTypeObject* type) {
    type->ht_type.tp_as_buffer = &type->as_buffer;
    type->as_buffer.bf_getbuffer = get_buffer;
    type->as_buffer.bf_releasebuffer = release_buffer;
  };
  py::class_<View>(module, "View", py::custom_type_setup(buffer_protocol))
      .def(py::init<std::shared_ptr<Allocation>, uhal_dtype, const std::vector<int64_t>&, const std::vector<int64_t>&,
                    int64_t>())
      .def_property_readonly("allocation", &View::allocation)
      .def_property_readonly("dtype", [](const View& view) { return uhal_dtype_name(view.tensor().dtype); })
      .def_property_readonly("itemsize", [](const View& view) { return uhal_dtype_size(view.tensor().dtype); })
      .def_property_readonly("shape",
                             [](const View& view) { return as_tuple(view.tensor().shape, view.tensor().rank); })
      .def_property_readonly("strides",
                             [](const View& view) { return as_tuple(view.tensor().strides, view.tensor().rank); })
      .def_property_readonly("ndim", [](const View& view) { return view.tensor().rank; })
      .def_property_readonly("size", &View::elements)
      .def_property_readonly("offset", &View::offset)
      .def_property_readonly("dense", &View::dense);

  module.def("buffer_like", &buffer_like);

  module.def("copy_from_host", [](const std::shared_ptr<Stream>& stream, const View& view, const py::object& host) {
    copy(stream, view, host, UHAL_COPY_HOST_TO_DEVICE);
  });
  module.def("copy_to_host", [](const std::shared_ptr<Stream>& stream, const View& view, const py::object& host) {
    copy(stream, view, host, UHAL_COPY_DEVICE_TO_HOST);
  });
}

}  // namespace unihal::python
