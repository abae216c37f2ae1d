// Numbers of 4 bits, for which unihal has no dtype: two in a byte, the first in its lower half. They are computed with
// in bytes of their own.
#pragma once

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

// Among an op's dtypes: what unihal has no dtype for. Its kernel says which of those it takes.
inline constexpr DtypeSet kWithoutDtype = only(UHAL_DTYPE_INVALID);

constexpr bool is_four_bits(int32_t type) { return type == kTypeInt4 || type == kTypeUint4; }
constexpr uhal_dtype widened(int32_t type) {
  return type == kTypeInt4 ? UHAL_INT8 : type == kTypeUint4 ? UHAL_UINT8 : from_onnx(type);
}

// An input; of 4 bits, each number in a byte.
View widened_input(Call& call, int index);

// An output of a shape that takes bytes in place of 4 bits: `view` is to be written, and then `finish` called.
class WidenedOutput {
 public:
  WidenedOutput(Call& call, int index, const Shape& shape, int32_t type);
  void finish(Call& call) const;

  View view;

 private:
  View packed_;  // of no dtype where nothing is packed
};

}  // namespace unihal::onnxruntime
