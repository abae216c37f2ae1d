// Reading index operands, which are int32 or int64.
#pragma once

#include "unihal/tensor.h"

namespace unihal::stub {

class IndexReader {
 public:
  explicit IndexReader(const uhal_tensor& view) : data_(view.data), wide_(view.dtype == UHAL_INT64) {}

  // The index at an offset, counted in elements.
  int64_t operator()(int64_t offset) const {
    return wide_ ? static_cast<const int64_t*>(data_)[offset] : static_cast<const int32_t*>(data_)[offset];
  }

 private:
  const void* data_;
  bool wide_;
};

}  // namespace unihal::stub
