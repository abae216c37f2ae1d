// A strided view of an allocation, the base class of unihal.Buffer.
#pragma once

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

}  // namespace unihal::python
