// Strided views and op launching for adapters: what a framework's kernel needs to say, in one line each.
//
// A View is a uhal_tensor with the usual ways to look at the same memory differently (transpose, slice,
// broadcast, reshape). Nothing here touches data. launch() and map() wrap uhal_launch and return its
// status; the error record holds the detail.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "csrc/tables/elementwise.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace unihal {

class View : public uhal_tensor {
 public:
  View() {
    struct_size = sizeof(uhal_tensor);
    data = nullptr;
    dtype = UHAL_DTYPE_INVALID;
    rank = 0;
  }

  // A dense row-major view. `dims` has `dims_count` entries, at most UHAL_MAX_RANK (checked by the core).
  View(void* pointer, uhal_dtype type, const int64_t* dims, int dims_count) : View() {
    data = pointer;
    dtype = type;
    rank = dims_count;
    int64_t stride = 1;
    for (int i = dims_count - 1; i >= 0 && dims_count <= UHAL_MAX_RANK; --i) {
      shape[i] = dims[i];
      strides[i] = stride;
      stride *= dims[i] == 0 ? 1 : dims[i];
    }
  }
  View(void* pointer, uhal_dtype type, std::initializer_list<int64_t> dims)
      : View(pointer, type, dims.begin(), static_cast<int>(dims.size())) {}
  View(void* pointer, uhal_dtype type, const std::vector<int64_t>& dims)
      : View(pointer, type, dims.data(), static_cast<int>(dims.size())) {}

  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= shape[i];
    return count;
  }

  // The same elements with axes in another order: axis i of the result is axis order[i] of this.
  View permuted(const int* order, int count) const {
    assert(count == rank);
    View result = *this;
    for (int i = 0; i < count; ++i) {
      result.shape[i] = shape[order[i]];
      result.strides[i] = strides[order[i]];
    }
    return result;
  }
  View permuted(std::initializer_list<int> order) const {
    return permuted(order.begin(), static_cast<int>(order.size()));
  }

  // Swaps two axes; negative ones count from the end.
  View transposed(int a = -1, int b = -2) const {
    a = a < 0 ? a + rank : a;
    b = b < 0 ? b + rank : b;
    View result = *this;
    result.shape[a] = shape[b];
    result.strides[a] = strides[b];
    result.shape[b] = shape[a];
    result.strides[b] = strides[a];
    return result;
  }

  // `length` elements from `start`, every `step`-th (negative: backward), along one axis.
  View sliced(int axis, int64_t start, int64_t length, int64_t step = 1) const {
    View result = *this;
    if (data != nullptr) {
      result.data = static_cast<char*>(data) + start * strides[axis] * static_cast<int64_t>(uhal_dtype_size(dtype));
    }
    result.shape[axis] = length;
    result.strides[axis] = strides[axis] * step;
    return result;
  }

  // A new axis of length 1 before `axis`.
  View unsqueezed(int axis) const {
    View result = *this;
    for (int i = rank; i > axis; --i) {
      result.shape[i] = shape[i - 1];
      result.strides[i] = strides[i - 1];
    }
    result.shape[axis] = 1;
    result.strides[axis] = axis < rank ? shape[axis] * strides[axis] : 1;
    result.rank = rank + 1;
    return result;
  }

  // Another dense row-major shape over the same memory. Only for dense views.
  View reshaped(const int64_t* dims, int count) const { return View(data, dtype, dims, count); }
  View reshaped(std::initializer_list<int64_t> dims) const { return View(data, dtype, dims); }
  View reshaped(const std::vector<int64_t>& dims) const { return View(data, dtype, dims); }

  // The shape with length 1 at `axis` (what a reduction along it writes), over dense memory.
  View with_axis_one(int axis) const {
    int64_t dims[UHAL_MAX_RANK];
    for (int i = 0; i < rank; ++i) dims[i] = i == axis ? 1 : shape[i];
    return View(data, dtype, dims, rank);
  }

  // Images: channels-last memory (N, spatial..., C) seen in the ABI's order (N, C, spatial...).
  View channels_first() const {
    int order[UHAL_MAX_RANK] = {0, rank - 1};
    for (int i = 2; i < rank; ++i) order[i] = i - 1;
    return permuted(order, rank);
  }

  // Filters: memory (spatial..., I, O) seen in the ABI's order (O, I, spatial...).
  View filter_first() const {
    int order[UHAL_MAX_RANK] = {rank - 1, rank - 2};
    for (int i = 2; i < rank; ++i) order[i] = i - 2;
    return permuted(order, rank);
  }
};

using Operands = std::initializer_list<const uhal_tensor*>;

// Builds the op and hands it to `use`, which launches it or asks for support.
template <class Use>
uhal_status with_op(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes, const char* label,
                    Use use) {
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.input_count = static_cast<int32_t>(inputs.size());
  op.output_count = static_cast<int32_t>(outputs.size());
  op.inputs = inputs.begin();
  op.outputs = outputs.begin();
  op.attributes = attributes;
  op.label = label;
  return use(&op);
}

// Launches an op. `label` must be a literal or interned.
inline uhal_status launch(uhal_stream* stream, uhal_op_kind kind, Operands inputs, Operands outputs,
                          const void* attributes = nullptr, const char* label = nullptr) {
  return with_op(kind, inputs, outputs, attributes, label, [&](const uhal_op* op) { return uhal_launch(stream, op); });
}

// Ops that are launched on a stream while this lives may become one launch (uhal_launch_group_start).
class LaunchGroup {
 public:
  // A failure is end()'s.
  explicit LaunchGroup(uhal_stream* stream) : stream_(stream), status_(uhal_launch_group_start(stream)) {}
  LaunchGroup(const LaunchGroup&) = delete;
  LaunchGroup& operator=(const LaunchGroup&) = delete;
  ~LaunchGroup() {  // for who leaves by an exception, which says more than what end() returns
    if (is_open_) static_cast<void>(end());
  }

  // Submits what was held back. Call it once.
  uhal_status end() {
    is_open_ = false;
    return status_ == UHAL_OK ? uhal_launch_group_end(stream_) : status_;
  }

 private:
  uhal_stream* const stream_;
  const uhal_status status_;
  bool is_open_ = true;
};

inline uhal_map_attributes map_attributes(uhal_map_function function, std::initializer_list<double> parameters = {}) {
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = function;
  int i = 0;
  for (double p : parameters) attributes.parameters[i++] = p;
  return attributes;
}

// Launches one function of elementwise.def; operands broadcast to the outputs' shape.
inline uhal_status map(uhal_stream* stream, uhal_map_function function, Operands inputs, Operands outputs,
                       std::initializer_list<double> parameters = {}, const char* label = nullptr) {
  uhal_map_attributes attributes = map_attributes(function, parameters);
  return launch(stream, UHAL_OP_MAP, inputs, outputs, &attributes, label);
}

// Attribute structs with their defaults (op.h) filled in; the math mode is the framework's to say.
inline uhal_convolution_attributes convolution_attributes(uhal_math_mode math_mode) {
  uhal_convolution_attributes a = {};
  a.struct_size = sizeof a;
  a.math_mode = math_mode;
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) a.stride[i] = a.dilation[i] = 1;
  a.groups = 1;
  return a;
}
inline uhal_pool_attributes pool_attributes(uhal_pool_mode mode) {
  uhal_pool_attributes a = {};
  a.struct_size = sizeof a;
  a.mode = mode;
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) a.window[i] = a.stride[i] = 1;
  return a;
}
inline uhal_matmul_attributes matmul_attributes(uhal_math_mode math_mode) {
  uhal_matmul_attributes a = {};
  a.struct_size = sizeof a;
  a.math_mode = math_mode;
  a.alpha = 1;
  a.beta = 1;
  return a;
}
inline uhal_norm_attributes norm_attributes(double epsilon) {
  uhal_norm_attributes a = {};
  a.struct_size = sizeof a;
  a.epsilon = epsilon;
  a.momentum = 0.9;
  a.axis = -1;
  a.groups = 1;
  return a;
}
inline uhal_softmax_attributes softmax_attributes(int axis, bool logarithm = false) {
  uhal_softmax_attributes a = {};
  a.struct_size = sizeof a;
  a.axis = axis;
  a.logarithm = logarithm;
  return a;
}
inline uhal_cross_entropy_attributes cross_entropy_attributes(int axis) {
  uhal_cross_entropy_attributes a = {};
  a.struct_size = sizeof a;
  a.axis = axis;
  return a;
}
inline uhal_index_attributes index_attributes(int axis) {
  uhal_index_attributes a = {};
  a.struct_size = sizeof a;
  a.axis = axis;
  return a;
}
inline uhal_reduce_attributes reduce_attributes(uhal_reduction reduction) {
  uhal_reduce_attributes a = {};
  a.struct_size = sizeof a;
  a.reduction = reduction;
  return a;
}
inline uhal_axis_attributes axis_attributes(int axis, bool descending) {
  uhal_axis_attributes a = {};
  a.struct_size = sizeof a;
  a.axis = axis;
  a.flags = descending ? UHAL_AXIS_DESCENDING : 0;
  return a;
}
inline uhal_random_attributes random_attributes(uhal_distribution distribution, double first, double second,
                                                uint64_t key, uint64_t counter_low, uint64_t counter_high = 0) {
  uhal_random_attributes a = {};
  a.struct_size = sizeof a;
  a.distribution = distribution;
  a.key = key;
  a.counter[0] = counter_low;
  a.counter[1] = counter_high;
  a.a = first;
  a.b = second;
  return a;
}

}  // namespace unihal
