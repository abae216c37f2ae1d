// Rows of adjacent elements in the type that a kernel computes in.
#pragma once

#include <type_traits>

#include "csrc/backends/common/dtype.h"
#include "stub/common/kernels.h"
#include "stub/vector/compute.h"

namespace unihal::stub {

// The rows of `count` elements of a packed view of a real dtype, one behind the other: where they lie if they are of
// type T (float or double), else converted one at a time, while a cache has them. nullptr is an absent view.
template <typename T>
class ConvertedRows {
 public:
  ConvertedRows(const uhal_tensor* view, int64_t count) : count_(count) {
    static_assert(std::is_floating_point_v<T>);
    if (view == nullptr) return;
    constexpr ComputeType kType = std::is_same_v<T, double> ? kDouble : kFloat;
    data_ = static_cast<char*>(view->data);
    row_bytes_ = count * dtype_size(view->dtype);
    converts_ = view->dtype != compute_dtype(kType);
    load_ = vectors().load[view->dtype][kType];
    store_ = vectors().store[kType][view->dtype];
  }

  bool is_absent() const { return data_ == nullptr; }
  bool converts() const { return converts_; }

  // A row to be read; `room` is for `count` elements.
  const T* read(int64_t row, T* room) const {
    if (!converts_) return reinterpret_cast<const T*>(data_ + row * row_bytes_);
    load_(count_, data_ + row * row_bytes_, 1, room);
    return room;
  }

  // Where a row is to be written, and what makes it so once it is there.
  T* place(int64_t row, T* room) const { return converts_ ? room : reinterpret_cast<T*>(data_ + row * row_bytes_); }
  void finish(int64_t row, const T* values) const {
    if (converts_) store_(count_, values, data_ + row * row_bytes_, 1);
  }

 private:
  char* data_ = nullptr;
  int64_t count_;
  int64_t row_bytes_ = 0;
  bool converts_ = false;
  LoadLoop load_ = nullptr;
  StoreLoop store_ = nullptr;
};

}  // namespace unihal::stub
