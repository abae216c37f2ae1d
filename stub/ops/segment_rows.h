// Rows of a view of any layout in the type that a kernel computes in.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/backends/common/dtype.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/ops/copy.h"

namespace unihal::stub {

// The axes of a view but the first.
inline uhal_tensor window_of(const uhal_tensor& view) {
  uhal_tensor window = view;
  --window.rank;
  std::copy_n(view.shape + 1, window.rank, window.shape);
  std::copy_n(view.strides + 1, window.rank, window.strides);
  return window;
}

// Rows of a view as elements of a compute type, in row-major order.
class ViewRows {
 public:
  ViewRows(const uhal_tensor& view, ComputeType type)
      : data_(static_cast<char*>(view.data)),
        size_(dtype_size(view.dtype)),
        bytes_(view.strides[0] * size_),
        window_(window_of(view)),
        order_(row_major_view(window_)),
        space_(make_row_major()),
        operand_(space_, 1, window_, type),
        load_(vectors().load[view.dtype][type]),
        store_(vectors().store[type][view.dtype]),
        is_dense_(space_.dense(1)),
        in_place_(view.dtype == compute_dtype(type) && is_dense_) {}
  ViewRows(const ViewRows&) = delete;
  ViewRows& operator=(const ViewRows&) = delete;

  int64_t length() const { return space_.count; }
  bool in_place() const { return in_place_; }
  bool is_dense() const { return is_dense_; }
  int64_t row_bytes() const { return bytes_; }  // from one row to the next

  // Where the row is: one element after the other only if is_dense(), and of the compute type only if in_place().
  char* at(int64_t row) const { return data_ + row * bytes_; }

  // The row where it is, or converted into `buffer`.
  const void* read(int64_t row, void* buffer) const {
    if (in_place_) return at(row);
    if (length() == 0) return buffer;
    if (is_dense_) {
      load_(length(), at(row), 1, buffer);
    } else {
      operand_at(row).load(Cursor(space_, 0), length(), buffer);
    }
    return buffer;
  }

  // Whether all rows are one run of elements.
  bool lie_together() const { return is_dense_ && bytes_ == length() * size_; }

  // Rows from `first` to `last` - 1, if they lie together.
  void write_many(int64_t first, int64_t last, const void* values) const {
    if (first < last && length() != 0) store_((last - first) * length(), values, at(first), 1);
  }

  void write(int64_t row, const void* values) const {
    if (length() == 0) return;
    if (is_dense_) {
      store_(length(), values, at(row), 1);
    } else {
      operand_at(row).store(Cursor(space_, 0), length(), values);
    }
  }

 private:
  Space make_row_major() const {
    const uhal_tensor* views[] = {&order_, &window_};
    return make_space(views, 2);
  }
  BlockOperand operand_at(int64_t row) const {
    BlockOperand moved = operand_;
    moved.move(row * bytes_);
    return moved;
  }

  char* data_;
  int64_t size_;
  int64_t bytes_;
  uhal_tensor window_;
  uhal_tensor order_;
  Space space_;
  BlockOperand operand_;
  LoadLoop load_;
  StoreLoop store_;
  bool is_dense_;
  bool in_place_;
};

}  // namespace unihal::stub
