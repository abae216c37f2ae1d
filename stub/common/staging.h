// Operands in the dtype and layout that a kernel computes in: the caller's own memory where it fits, else a copy in
// scratch memory that is filled before the kernel runs and, for outputs, stored after it.
#pragma once

#include "stub/common/kernels.h"
#include "stub/common/scratch.h"

namespace unihal::stub {

// Axes from the outermost (the largest stride) to the innermost.
struct AxisOrder {
  int rank = 0;
  int axes[UHAL_MAX_RANK];
};

// 0, 1, 2...
AxisOrder row_major(int rank);

// The order in which a view's axes lie in memory; axes of equal stride keep their order.
AxisOrder memory_order(const uhal_tensor& view);

// The order in which a view of images (N, C, spatial...) is computed on: its channels innermost if they are so now,
// else row-major.
AxisOrder image_order(const uhal_tensor& view);
inline bool channels_last(const AxisOrder& order) { return order.rank > 2 && order.axes[order.rank - 1] == 1; }

// Images with their channels innermost: N, spatial..., C.
AxisOrder channels_innermost(int rank);

// A view's own order, but with one axis (-1: the last) innermost.
AxisOrder order_with_axis_last(const uhal_tensor& view, int axis);

// Whether a view's elements fill one block of memory, with its axes in this order. Axes of length 1 fit anywhere.
bool is_packed(const uhal_tensor& view, const AxisOrder& order);

// Gives a view the strides of a packed block with its axes in this order.
void set_packed_strides(uhal_tensor& view, const AxisOrder& order);

int64_t element_count(const uhal_tensor& view);

// The dtype in which op.h wants arithmetic on the op's operands, results included: float64, float32 or int64.
uhal_dtype arithmetic_dtype(const uhal_op& op);

// The operand with a number, or nullptr where it is absent.
inline const uhal_tensor* input_of(const uhal_op& op, int index) {
  return index < op.input_count ? op.inputs[index] : nullptr;
}
inline const uhal_tensor* output_of(const uhal_op& op, int index) {
  return index < op.output_count ? op.outputs[index] : nullptr;
}

// A view's memory; nullptr for an absent one.
template <typename T>
T* data_of(const uhal_tensor* view) {
  return view != nullptr ? static_cast<T*>(view->data) : nullptr;
}

// The staged operands of one launch. Views are valid for the object's life. After a failure (out of host memory)
// status() keeps it and views may be nullptr.
class Staging {
 public:
  explicit Staging(const Launch& launch) : launch_(launch) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The operand in `dtype`, or nullptr if it is absent. Without `order` its strides may be anything; with it the view
  // is packed in that order.
  const uhal_tensor* input(int index, uhal_dtype dtype, const AxisOrder* order = nullptr);
  const uhal_tensor* output(int index, uhal_dtype dtype, const AxisOrder* order = nullptr);

  // The operand in its own dtype, packed.
  const uhal_tensor* input(int index, const AxisOrder& order);
  const uhal_tensor* output(int index, const AxisOrder& order);

  // As the above, for any view.
  const uhal_tensor* read(const uhal_tensor* view, uhal_dtype dtype, const AxisOrder* order = nullptr);
  const uhal_tensor* write(const uhal_tensor* view, uhal_dtype dtype, const AxisOrder* order = nullptr);

  uhal_status status() const { return status_; }

  // That a thread of the kernel had no memory for a row.
  uhal_status fail_without_memory();

  // Stores the staged outputs. Call once, when the kernel has run.
  uhal_status finish();

  // An array in scratch memory; nullptr and a status when there is none left.
  template <typename T>
  T* take(size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }

 private:
  static constexpr int kMaxViews = 16;
  struct Entry {
    uhal_tensor view;
    const uhal_tensor* target;  // where an output goes at the end; nullptr for an input
  };

  void* take_bytes(size_t bytes);
  uhal_tensor* stage(const uhal_tensor& view, uhal_dtype dtype, const AxisOrder* order);
  uhal_status convert(const uhal_tensor& from, const uhal_tensor& to);

  const Launch& launch_;
  ScratchFrame frame_;
  Entry entries_[kMaxViews];
  int count_ = 0;
  uhal_status status_ = UHAL_OK;
};

}  // namespace unihal::stub
