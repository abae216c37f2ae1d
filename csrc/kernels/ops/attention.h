// What the ways to compute attention share.
#ifndef UNIHAL_KERNELS_OPS_ATTENTION_H_
#define UNIHAL_KERNELS_OPS_ATTENTION_H_

#include "csrc/backends/common/attention.h"
#include "csrc/kernels/operands.h"

namespace unihal::kernels {

// On matrix cores, where a device has them and an op's operands are theirs: source/attention_matrix.cl.
bool takes_matrix_attention(const DeviceTraits& traits, const uhal_op& op);
uhal_status run_matrix_attention(Queue& queue, const uhal_op& op);

constexpr int kAttentionAxes = 4;

// The strides of an operand by batch entry, head, row and column; 0 along axes of length 1 and those it lacks.
struct AttentionStrides {
  int64_t axes[kAttentionAxes] = {};

  // The last axis of `view` is axis `last` of the operand.
  static AttentionStrides of(const uhal_tensor* view, int last = kAttentionAxes - 1) {
    AttentionStrides strides;
    for (int i = 0; view != nullptr && i < view->rank; ++i) {
      const int axis = last - i;
      const int own = view->rank - 1 - i;
      if (view->shape[own] > 1) strides.axes[axis] = view->strides[own];
    }
    return strides;
  }
};

// Members of the dialect's structs of INDEX, in order.
class AttentionIndices {
 public:
  AttentionIndices& add(int64_t value) {
    values_[count_++] = value;
    return *this;
  }
  AttentionIndices& add(const AttentionStrides& strides) {
    for (int64_t stride : strides.axes) add(stride);
    return *this;
  }
  void append_to(Arguments& arguments, bool wide) const { append_indices(arguments, values_, count_, wide); }

 private:
  int64_t values_[64];
  int count_ = 0;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPS_ATTENTION_H_
