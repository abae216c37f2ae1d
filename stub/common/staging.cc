#include "stub/common/staging.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/dtype.h"

namespace unihal::stub {

AxisOrder row_major(int rank) {
  AxisOrder order;
  order.rank = rank;
  for (int i = 0; i < rank; ++i) order.axes[i] = i;
  return order;
}

AxisOrder memory_order(const uhal_tensor& view) {
  AxisOrder order;
  order.rank = view.rank;
  for (int i = 0; i < view.rank; ++i) {
    int at = i;
    for (; at > 0 && std::abs(view.strides[order.axes[at - 1]]) < std::abs(view.strides[i]); --at) {
      order.axes[at] = order.axes[at - 1];
    }
    order.axes[at] = i;
  }
  return order;
}

AxisOrder channels_innermost(int rank) {
  AxisOrder order = row_major(rank);
  for (int i = 1; i + 1 < rank; ++i) order.axes[i] = i + 1;
  order.axes[rank - 1] = 1;
  return order;
}

AxisOrder image_order(const uhal_tensor& view) {
  AxisOrder order = row_major(view.rank);
  if (view.rank > 2 && view.shape[1] > 1 && view.strides[1] == 1) {  // N, spatial..., C
    for (int i = 1; i + 1 < view.rank; ++i) order.axes[i] = i + 1;
    order.axes[view.rank - 1] = 1;
  }
  return order;
}

AxisOrder order_with_axis_last(const uhal_tensor& view, int axis) {
  const AxisOrder own = memory_order(view);
  if (axis < 0) axis += view.rank;
  AxisOrder order;
  for (int i = 0; i < own.rank; ++i) {
    if (own.axes[i] != axis) order.axes[order.rank++] = own.axes[i];
  }
  if (own.rank > 0) order.axes[order.rank++] = axis;
  return order;
}

bool is_packed(const uhal_tensor& view, const AxisOrder& order) {
  int64_t expected = 1;
  for (int i = order.rank - 1; i >= 0; --i) {
    const int axis = order.axes[i];
    if (view.shape[axis] == 1) continue;
    if (view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

void set_packed_strides(uhal_tensor& view, const AxisOrder& order) {
  int64_t stride = 1;
  for (int i = order.rank - 1; i >= 0; --i) {
    const int axis = order.axes[i];
    view.strides[axis] = stride;
    stride *= view.shape[axis] > 1 ? view.shape[axis] : 1;
  }
}

int64_t element_count(const uhal_tensor& view) {
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

uhal_dtype arithmetic_dtype(const uhal_op& op) {
  bool floating = false;
  bool doubled = false;
  const auto consider = [&](const uhal_tensor* operand) {
    if (operand == nullptr) return;
    floating |= is_floating(operand->dtype);
    doubled |= operand->dtype == UHAL_FLOAT64;
  };
  std::for_each_n(op.inputs, op.input_count, consider);
  std::for_each_n(op.outputs, op.output_count, consider);
  return doubled ? UHAL_FLOAT64 : floating ? UHAL_FLOAT32 : UHAL_INT64;
}

const uhal_tensor* Staging::input(int index, uhal_dtype dtype, const AxisOrder* order) {
  return read(input_of(launch_.op, index), dtype, order);
}

const uhal_tensor* Staging::output(int index, uhal_dtype dtype, const AxisOrder* order) {
  return write(output_of(launch_.op, index), dtype, order);
}

const uhal_tensor* Staging::input(int index, const AxisOrder& order) {
  const uhal_tensor* const view = input_of(launch_.op, index);
  return view != nullptr ? read(view, view->dtype, &order) : nullptr;
}

const uhal_tensor* Staging::output(int index, const AxisOrder& order) {
  const uhal_tensor* const view = output_of(launch_.op, index);
  return view != nullptr ? write(view, view->dtype, &order) : nullptr;
}

const uhal_tensor* Staging::read(const uhal_tensor* view, uhal_dtype dtype, const AxisOrder* order) {
  if (view == nullptr) return nullptr;
  if (view->dtype == dtype && (order == nullptr || is_packed(*view, *order))) return view;
  uhal_tensor* staged = stage(*view, dtype, order);
  if (staged != nullptr && status_ == UHAL_OK) status_ = convert(*view, *staged);
  return staged;
}

const uhal_tensor* Staging::write(const uhal_tensor* view, uhal_dtype dtype, const AxisOrder* order) {
  if (view == nullptr) return nullptr;
  if (view->dtype == dtype && (order == nullptr || is_packed(*view, *order))) return view;
  uhal_tensor* staged = stage(*view, dtype, order);
  if (staged != nullptr) entries_[count_ - 1].target = view;
  return staged;
}

uhal_status Staging::fail_without_memory() {
  return fail(UHAL_RESOURCE_EXHAUSTED, "%s: the host has no memory left for a row",
              launch_.op.label != nullptr ? launch_.op.label : "an op");
}

uhal_status Staging::finish() {
  // Backwards: the target of a view may be one staged before it.
  for (int i = count_ - 1; i >= 0 && status_ == UHAL_OK; --i) {
    if (entries_[i].target != nullptr) status_ = convert(entries_[i].view, *entries_[i].target);
  }
  return status_;
}

void* Staging::take_bytes(size_t bytes) {
  void* memory = frame_.take(bytes);
  if (memory == nullptr && status_ == UHAL_OK) {
    status_ = fail(UHAL_RESOURCE_EXHAUSTED, "%s needs %zu bytes of temporary host memory, and the host has none left",
                   launch_.op.label != nullptr ? launch_.op.label : "an op", bytes);
  }
  return memory;
}

uhal_tensor* Staging::stage(const uhal_tensor& view, uhal_dtype dtype, const AxisOrder* order) {
  Entry& entry = entries_[count_];
  entry.view = view;
  entry.view.dtype = dtype;
  entry.target = nullptr;
  set_packed_strides(entry.view, order != nullptr ? *order : memory_order(view));
  entry.view.data = take_bytes(static_cast<size_t>(element_count(view) * dtype_size(dtype)));
  if (entry.view.data == nullptr) return nullptr;
  ++count_;
  return &entry.view;
}

uhal_status Staging::convert(const uhal_tensor& from, const uhal_tensor& to) {
  const uhal_tensor* inputs[] = {&from};
  const uhal_tensor* outputs[] = {&to};
  uhal_op cast = {};
  cast.struct_size = sizeof cast;
  cast.kind = UHAL_OP_CAST;
  cast.input_count = cast.output_count = 1;
  cast.inputs = inputs;
  cast.outputs = outputs;
  return run_copy({cast, launch_.stream});
}

}  // namespace unihal::stub
