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
    case kTypeFloat8E4m3fnuz:
      return "float8_e4m3fnuz";
    case kTypeFloat8E5m2fnuz:
      return "float8_e5m2fnuz";
    case kTypeFloat4E2m1:
      return "float4_e2m1";
    case kTypeFloat8E8m0:
      return "float8_e8m0";
    case kTypeUint2:
      return "uint2";
    case kTypeInt2:
      return "int2";
    default:
      return "of a type that unihal has not";
  }
}

}  // namespace unihal::onnxruntime
