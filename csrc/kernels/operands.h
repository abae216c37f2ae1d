// Reading an op's operands.
#ifndef UNIHAL_KERNELS_OPERANDS_H_
#define UNIHAL_KERNELS_OPERANDS_H_

#include <cstdlib>

#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/layout.h"

namespace unihal::kernels {

// The operand with a number, or nullptr where it is absent.
inline const uhal_tensor* input_of(const uhal_op& op, int index) {
  return index < op.input_count ? op.inputs[index] : nullptr;
}
inline const uhal_tensor* output_of(const uhal_op& op, int index) {
  return index < op.output_count ? op.outputs[index] : nullptr;
}

// A view's memory; NULL for an absent one.
inline const void* data_of(const uhal_tensor* view) { return view != nullptr ? view->data : nullptr; }

// A view's dtype, for kernels that learn it at launch; float32 for an absent one, which they do not touch.
inline uhal_dtype dtype_of(const uhal_tensor* view) { return view != nullptr ? view->dtype : UHAL_FLOAT32; }

// Whether a kernel of a floating op computes in float or double (op.h, "Arithmetic").
inline Compute floating_compute(const uhal_op& op) {
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    if (view != nullptr && view->dtype == UHAL_FLOAT64) return Compute::kDouble;
  }
  return Compute::kFloat;
}

inline int64_t compute_bytes(Compute compute) {
  return compute == Compute::kFloat ? 4 : compute == Compute::kComplexDouble ? 16 : 8;
}
inline uhal_dtype compute_dtype(Compute compute) { return compute == Compute::kFloat ? UHAL_FLOAT32 : UHAL_FLOAT64; }

// Whether all elements of a view lie within what the 32-bit INDEX reaches from its data.
inline bool fits_32_bits(const uhal_tensor& view) {
  int64_t reach = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] > 1) reach += std::abs(view.strides[i]) * (view.shape[i] - 1);
    if (!fits_32_bits(view.shape[i])) return false;
  }
  return fits_32_bits(reach);
}

// Appends a struct of `count` members of the dialect's INDEX; at most 64.
inline void append_indices(Arguments& arguments, const int64_t* values, int count, bool wide) {
  if (wide) {
    arguments.bytes(values, sizeof(int64_t) * static_cast<size_t>(count));
    return;
  }
  int32_t narrow[64];
  for (int i = 0; i < count; ++i) narrow[i] = static_cast<int32_t>(values[i]);
  arguments.bytes(narrow, sizeof(int32_t) * static_cast<size_t>(count));
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPERANDS_H_
