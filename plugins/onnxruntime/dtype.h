// ONNX's element types and unihal's dtypes.
#pragma once

#include <cstdint>

#include "unihal/tensor.h"

namespace unihal::onnxruntime {

// TensorProto.DataType, which is ONNX Runtime's ONNXTensorElementDataType.
enum : int32_t {
  kTypeUndefined = 0,
  kTypeFloat = 1,
  kTypeUint8 = 2,
  kTypeInt8 = 3,
  kTypeUint16 = 4,
  kTypeInt16 = 5,
  kTypeInt32 = 6,
  kTypeInt64 = 7,
  kTypeString = 8,
  kTypeBool = 9,
  kTypeFloat16 = 10,
  kTypeDouble = 11,
  kTypeUint32 = 12,
  kTypeUint64 = 13,
  kTypeComplex64 = 14,
  kTypeComplex128 = 15,
  kTypeBfloat16 = 16,
  kTypeFloat8E4m3fn = 17,
  kTypeFloat8E4m3fnuz = 18,
  kTypeFloat8E5m2 = 19,
  kTypeFloat8E5m2fnuz = 20,
  kTypeUint4 = 21,
  kTypeInt4 = 22,
  kTypeFloat4E2m1 = 23,
  kTypeFloat8E8m0 = 24,
  kTypeUint2 = 25,
  kTypeInt2 = 26,
};

struct DtypePair {
  int32_t theirs;
  uhal_dtype ours;
};

inline constexpr DtypePair kDtypes[] = {
    {kTypeFloat, UHAL_FLOAT32},
    {kTypeInt64, UHAL_INT64},
    {kTypeFloat16, UHAL_FLOAT16},
    {kTypeInt32, UHAL_INT32},
    {kTypeBool, UHAL_BOOL},
    {kTypeUint8, UHAL_UINT8},
    {kTypeInt8, UHAL_INT8},
    {kTypeBfloat16, UHAL_BFLOAT16},
    {kTypeDouble, UHAL_FLOAT64},
    {kTypeInt16, UHAL_INT16},
    {kTypeUint16, UHAL_UINT16},
    {kTypeUint32, UHAL_UINT32},
    {kTypeUint64, UHAL_UINT64},
    {kTypeComplex64, UHAL_COMPLEX64},
    {kTypeComplex128, UHAL_COMPLEX128},
    {kTypeFloat8E4m3fn, UHAL_FLOAT8_E4M3FN},
    {kTypeFloat8E5m2, UHAL_FLOAT8_E5M2},
};

// UHAL_DTYPE_INVALID for what unihal has not (strings, types of less than a byte).
constexpr uhal_dtype from_onnx(int32_t type) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.theirs == type) return pair.ours;
  }
  return UHAL_DTYPE_INVALID;
}

// "float32", "string", "int4", ...
const char* type_name(int32_t type);

// A set of dtypes, one bit each.
using DtypeSet = uint32_t;
constexpr DtypeSet only(uhal_dtype dtype) { return DtypeSet{1} << dtype; }
constexpr bool contains(DtypeSet set, uhal_dtype dtype) { return (set & only(dtype)) != 0; }

inline constexpr DtypeSet kBool = only(UHAL_BOOL);
inline constexpr DtypeSet kWideFloats = only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
inline constexpr DtypeSet kNarrowFloats = only(UHAL_FLOAT16) | only(UHAL_BFLOAT16);
inline constexpr DtypeSet kFloats = kNarrowFloats | kWideFloats;
inline constexpr DtypeSet kSignedIntegers = only(UHAL_INT8) | only(UHAL_INT16) | only(UHAL_INT32) | only(UHAL_INT64);
inline constexpr DtypeSet kUnsignedIntegers =
    only(UHAL_UINT8) | only(UHAL_UINT16) | only(UHAL_UINT32) | only(UHAL_UINT64);
inline constexpr DtypeSet kIntegers = kSignedIntegers | kUnsignedIntegers;
inline constexpr DtypeSet kNumbers = kFloats | kIntegers;
inline constexpr DtypeSet kReal = kNumbers | kBool;
// What is only moved.
inline constexpr DtypeSet kStored = ~DtypeSet{1};

}  // namespace unihal::onnxruntime
