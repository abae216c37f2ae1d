#include "plugins/onnxruntime/dtype.h"

namespace unihal::onnxruntime {

const char* type_name(int32_t type) {
  if (from_onnx(type) != UHAL_DTYPE_INVALID) return uhal_dtype_name(from_onnx(type));
  switch (type) {
    case kTypeUndefined:
      return "of an unknown type";
    case kTypeString:
      return "string";
    case kTypeUint4:
      return "uint4";
    case kTypeInt4:
      return "int4";
    default:
      return "of a type that unihal has not";
  }
}

}  // namespace unihal::onnxruntime
