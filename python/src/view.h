// A strided view of an allocation, the base class of unihal.Buffer.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "handles.h"
#include "unihal/tensor.h"

namespace unihal::python {

class View {
 public:
  // A view of `dtype` elements that starts `offset` bytes into the allocation. Strides count elements. Throws unless
  // every element lies inside the allocation.
  View(std::shared_ptr<Allocation> allocation, uhal_dtype dtype, const std::vector<int64_t>& shape,
       const std::vector<int64_t>& strides, int64_t offset);

  // A dense row-major view of a whole allocation, whose bytes are those of so many elements. `rank` is at most
  // UHAL_MAX_RANK, and lengths are not negative.
  View(std::shared_ptr<Allocation> allocation, uhal_dtype dtype, const int64_t* shape, int32_t rank);

  // The like of a new allocation. Null if its bytes overflow, or lengths are negative.
  static std::unique_ptr<View> allocated(const Device& device, const std::shared_ptr<Stream>& stream, uhal_dtype dtype,
                                         const int64_t* shape, int32_t rank);

  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }
  const uhal_tensor& tensor() const { return tensor_; }
  int64_t offset() const { return offset_; }
  int64_t elements() const;

  // Whether the elements lie side by side in row-major order.
  bool dense() const;

  // Throws BufferError unless the host may touch the memory; then waits for the device's work.
  void prepare_host_access() const;

 private:
  std::shared_ptr<Allocation> allocation_;
  uhal_tensor tensor_ = {};
  int64_t offset_;
};

// The own stream of the device that `view` lies on stands for one that is not given.
std::shared_ptr<Stream> stream_of(const View& view, const std::shared_ptr<Stream>& given);

// An object of `type`, unihal.Buffer, around a view, as its constructor would make it.
pybind11::object new_buffer(const pybind11::type& type, std::unique_ptr<View> view);

}  // namespace unihal::python

namespace pybind11::detail {

// Refuses a Buffer whose __init__ failed. It has no View, and is seen all the same where somebody prints a traceback
// with its variables; pybind11's own caster hands out memory there that nobody has written.
template <>
class type_caster<unihal::python::View> : public type_caster_base<unihal::python::View> {
 public:
  bool load(handle source, bool convert) {
    if (!type_caster_base<unihal::python::View>::load(source, convert)) return false;
    if (value != nullptr && !reinterpret_cast<instance*>(source.ptr())->get_value_and_holder().holder_constructed()) {
      throw type_error("this Buffer has no memory: its construction failed");
    }
    return true;
  }
};

}  // namespace pybind11::detail
