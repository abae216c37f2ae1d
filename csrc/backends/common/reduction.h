// The geometry and the attributes of UHAL_OP_REDUCE.
#pragma once

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/space.h"

namespace unihal {

// Which axes of a space stay in the result.
enum class Axes { kKept, kReduced };

// The axes of a space that an operand keeps (its stride is not 0), or those that it reduces; of one element if there
// are none. The order of iteration stays.
inline Space axes_of(const Space& space, int operand, Axes which) {
  Space result;
  result.operands = space.operands;
  for (int i = 0; i < space.rank; ++i) {
    if ((space.strides[operand][i] != 0) != (which == Axes::kKept)) continue;
    result.shape[result.rank] = space.shape[i];
    for (int k = 0; k < space.operands; ++k) result.strides[k][result.rank] = space.strides[k][i];
    result.count *= space.shape[i];
    ++result.rank;
  }
  if (result.rank == 0) {
    result.rank = 1;
    result.shape[0] = 1;
    for (int k = 0; k < space.operands; ++k) result.strides[k][0] = 0;
  }
  return result;
}

inline uhal_reduction reduction_of(const uhal_op& op) {
  return attributes_or(op, uhal_reduce_attributes{sizeof(uhal_reduce_attributes), UHAL_REDUCE_SUM, 0}).reduction;
}

inline bool is_known(uhal_reduction reduction) {
  return reduction >= UHAL_REDUCE_SUM && reduction <= UHAL_REDUCE_LOG_SUM_EXP;
}

// "sum"; of a reduction that is known, or none.
inline const char* reduction_name(uhal_reduction reduction) {
  constexpr const char* kNames[] = {"none", "sum", "mean",           "product", "maximum", "minimum",
                                    "all",  "any", "sum_of_squares", "l1_norm", "l2_norm", "log_sum_exp"};
  return kNames[reduction];
}

// Whether a reduction is defined on complex numbers, which have no order.
inline bool reduces_complex(uhal_reduction reduction) {
  return reduction == UHAL_REDUCE_SUM || reduction == UHAL_REDUCE_MEAN || reduction == UHAL_REDUCE_PRODUCT;
}

// Whether a reduction of complex numbers is that of their real and of their imaginary parts.
inline bool reduces_parts(uhal_reduction reduction, const uhal_tensor& x, const uhal_tensor& y) {
  return (is_complex(x.dtype) || is_complex(y.dtype)) && reduction != UHAL_REDUCE_PRODUCT;
}

}  // namespace unihal
