// DLPack both ways: views as capsules, and the contents of capsules as host memory to copy from.
#include "dlpack.h"

#include <algorithm>
#include <string>

#include "errors.h"
#include "module.h"
#include "view.h"

namespace unihal::python {
namespace {

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

constexpr dlpack::DataType data_types[UHAL_DTYPE_COUNT] = {
    {},                          // invalid
    {dlpack::kBool, 8, 1},       // bool
    {dlpack::kInt, 8, 1},        // int8
    {dlpack::kInt, 16, 1},       // int16
    {dlpack::kInt, 32, 1},       // int32
    {dlpack::kInt, 64, 1},       // int64
    {dlpack::kUint, 8, 1},       // uint8
    {dlpack::kUint, 16, 1},      // uint16
    {dlpack::kUint, 32, 1},      // uint32
    {dlpack::kUint, 64, 1},      // uint64
    {dlpack::kFloat, 16, 1},     // float16
    {dlpack::kBfloat, 16, 1},    // bfloat16
    {dlpack::kFloat, 32, 1},     // float32
    {dlpack::kFloat, 64, 1},     // float64
    {dlpack::kComplex, 64, 1},   // complex64
    {dlpack::kComplex, 128, 1},  // complex128
    {dlpack::kFloat8E4m3fn, 8, 1},
    {dlpack::kFloat8E5m2, 8, 1},
};

uhal_dtype find_dtype(const dlpack::DataType& wanted) {
  for (uhal_dtype dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
    const dlpack::DataType& type = data_types[dtype];
    if (type.code == wanted.code && type.bits == wanted.bits && type.lanes == wanted.lanes) return dtype;
  }
  return UHAL_DTYPE_INVALID;
}

// An exported view, until its consumer calls the deleter (from any thread, with or without the GIL).
template <class Managed>
struct Export {
  explicit Export(const View& view) : pin(view.allocation()) {
    const uhal_tensor& source = view.tensor();
    std::copy_n(source.shape, source.rank, shape);
    std::copy_n(source.strides, source.rank, strides);
    managed.tensor.data = source.data;
    managed.tensor.device = {dlpack::kCpu, 0};
    managed.tensor.rank = source.rank;
    managed.tensor.dtype = data_types[source.dtype];
    managed.tensor.shape = shape;
    managed.tensor.strides = strides;
    managed.context = this;
    managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->context); };
  }

  Managed managed = {};
  Pin pin;
  int64_t shape[UHAL_MAX_RANK];
  int64_t strides[UHAL_MAX_RANK];
};

template <class Managed>
py::capsule make_capsule(Export<Managed>* exported, const char* name) {
  // A capsule that nobody consumed keeps its name and frees the tensor; a consumed one was renamed.
  return py::reinterpret_steal<py::capsule>(PyCapsule_New(&exported->managed, name, [](PyObject* capsule) {
    const char* present = PyCapsule_GetName(capsule);
    if (std::string(present) != kName && std::string(present) != kVersionedName) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, present));
    managed->deleter(managed);
  }));
}

py::capsule to_dlpack(const View& view, bool versioned) {
  view.prepare_host_access();
  if (!versioned) return make_capsule(new Export<dlpack::ManagedTensor>(view), kName);
  auto* exported = new Export<dlpack::VersionedTensor>(view);
  exported->managed.major = 1;
  return make_capsule(exported, kVersionedName);
}

// A tensor taken over from a capsule; released when this goes.
class Imported {
 public:
  explicit Imported(const py::capsule& capsule) {
    if (PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0) {
      versioned_ = static_cast<dlpack::VersionedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
      if (versioned_->major != 1) {
        PyErr_Format(PyExc_BufferError, "DLPack version %u.%u is not supported, only 1.x", versioned_->major,
                     versioned_->minor);
        throw py::error_already_set();
      }
      tensor_ = &versioned_->tensor;
      PyCapsule_SetName(capsule.ptr(), kUsedVersionedName);
    } else if (PyCapsule_IsValid(capsule.ptr(), kName) != 0) {
      plain_ = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kName));
      tensor_ = &plain_->tensor;
      PyCapsule_SetName(capsule.ptr(), kUsedName);
    } else {
      throw py::type_error("not a DLPack capsule, or one that was consumed before");
    }
  }
  ~Imported() {
    if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
    if (plain_ != nullptr && plain_->deleter != nullptr) plain_->deleter(plain_);
  }
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  const dlpack::Tensor& tensor() const { return *tensor_; }

 private:
  dlpack::VersionedTensor* versioned_ = nullptr;
  dlpack::ManagedTensor* plain_ = nullptr;
  const dlpack::Tensor* tensor_ = nullptr;
};

// Copies the elements of a strided tensor into row-major order.
void gather(const char* source, const dlpack::Tensor& tensor, int axis, size_t size, char*& destination) {
  if (axis == tensor.rank) {
    std::copy_n(source, size, destination);
    destination += size;
    return;
  }
  int64_t stride = 1;
  if (tensor.strides != nullptr) {
    stride = tensor.strides[axis];
  } else {
    for (int i = axis + 1; i < tensor.rank; ++i) stride *= tensor.shape[i];
  }
  for (int64_t i = 0; i < tensor.shape[axis]; ++i) {
    gather(source + i * stride * static_cast<int64_t>(size), tensor, axis + 1, size, destination);
  }
}

// The contents of a capsule from host memory: dtype, shape, and the elements in row-major order.
py::tuple from_dlpack(const py::capsule& capsule) {
  const Imported imported(capsule);
  const dlpack::Tensor& tensor = imported.tensor();
  if (tensor.device.type != dlpack::kCpu) {
    PyErr_Format(PyExc_BufferError, "the tensor lies on DLPack device type %d; only host memory (1) can be taken over",
                 tensor.device.type);
    throw py::error_already_set();
  }
  const uhal_dtype dtype = find_dtype(tensor.dtype);
  if (dtype == UHAL_DTYPE_INVALID) {
    PyErr_Format(PyExc_BufferError, "DLPack type code %d with %d bits and %d lanes is no dtype of unihal",
                 tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
    throw py::error_already_set();
  }
  if (tensor.rank > UHAL_MAX_RANK) {
    PyErr_Format(PyExc_BufferError, "the tensor has %d axes, unihal takes at most %d", tensor.rank, UHAL_MAX_RANK);
    throw py::error_already_set();
  }
  const size_t size = uhal_dtype_size(dtype);
  int64_t elements = 1;
  py::tuple shape(tensor.rank);
  for (int i = 0; i < tensor.rank; ++i) {
    shape[i] = tensor.shape[i];
    elements *= tensor.shape[i];
  }
  py::bytearray bytes(nullptr, 0);
  if (PyByteArray_Resize(bytes.ptr(), elements * static_cast<Py_ssize_t>(size)) != 0) throw py::error_already_set();
  char* destination = PyByteArray_AsString(bytes.ptr());
  gather(static_cast<const char*>(tensor.data) + tensor.byte_offset, tensor, 0, size, destination);
  return py::make_tuple(uhal_dtype_name(dtype), shape, bytes);
}

}  // namespace

void bind_dlpack(py::module_& module) {
  module.def("to_dlpack", &to_dlpack);
  module.def("from_dlpack", &from_dlpack);
}

}  // namespace unihal::python
