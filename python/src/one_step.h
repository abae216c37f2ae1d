// What calls of an op in one step share: operands read from Python's objects, the shape of what is computed from them,
// and the launch. Functions of a usual call's arguments return None or false where the call is of another kind, or is
// wrong: the op's Python then does all it can do, and says what is wrong.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "errors.h"
#include "module.h"
#include "unihal/op.h"
#include "view.h"

namespace unihal::python {

struct Shape {
  int64_t dims[UHAL_MAX_RANK];
  int32_t rank = 0;

  // Becomes the common shape with `other_rank` lengths by NumPy's rule; false if there is none.
  bool broadcast(const int64_t* lengths, int32_t other_rank) {
    if (other_rank > rank) {
      std::copy_backward(dims, dims + rank, dims + other_rank);
      std::fill(dims, dims + other_rank - rank, 1);
      rank = other_rank;
    }
    for (int i = 1; i <= other_rank; ++i) {
      const int64_t length = lengths[other_rank - i];
      int64_t& common = dims[rank - i];
      if (length == 1 || length == common) continue;
      if (common != 1) return false;
      common = length;
    }
    return true;
  }

  bool operator==(const uhal_tensor& view) const {
    return rank == view.rank && std::equal(dims, dims + rank, view.shape);
  }
};

inline bool is_instance(py::handle object, const py::type& type) {
  return PyType_IsSubtype(Py_TYPE(object.ptr()), reinterpret_cast<PyTypeObject*>(type.ptr())) != 0;
}

// Launches an op whose inputs and outputs are tensors of these views, each at most MaxOperands of both together.
template <size_t MaxOperands>
void launch_on(const uhal_op& op, const View* const* views, size_t count, const std::shared_ptr<Stream>& stream) {
  uhal_stream* const handle = stream->get();
  std::optional<Pin> pins[MaxOperands];
  for (size_t i = 0; i < count; ++i) {
    pins[i].emplace(views[i]->allocation());
    views[i]->allocation()->used_on(stream);
  }
  check_blocking([&] { return uhal_launch(handle, &op); });
}

}  // namespace unihal::python
