// TensorFlow's dtypes and ours.
#pragma once

#include "tensorflow/c/tf_datatype.h"
#include "unihal/tensor.h"

namespace unihal::tensorflow {

struct DtypePair {
  TF_DataType theirs;
  uhal_dtype ours;
};

inline constexpr DtypePair kDtypes[] = {
    {TF_BOOL, UHAL_BOOL},      {TF_INT8, UHAL_INT8},           {TF_INT16, UHAL_INT16},
    {TF_INT32, UHAL_INT32},    {TF_INT64, UHAL_INT64},         {TF_UINT8, UHAL_UINT8},
    {TF_UINT16, UHAL_UINT16},  {TF_UINT32, UHAL_UINT32},       {TF_UINT64, UHAL_UINT64},
    {TF_HALF, UHAL_FLOAT16},   {TF_BFLOAT16, UHAL_BFLOAT16},   {TF_FLOAT, UHAL_FLOAT32},
    {TF_DOUBLE, UHAL_FLOAT64}, {TF_COMPLEX64, UHAL_COMPLEX64}, {TF_COMPLEX128, UHAL_COMPLEX128},
};

// UHAL_DTYPE_INVALID for a dtype that unihal has not (strings, resources, quantized types).
constexpr uhal_dtype from_tensorflow(TF_DataType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.theirs == dtype) return pair.ours;
  }
  return UHAL_DTYPE_INVALID;
}

// The inverse; every dtype of unihal has one.
constexpr TF_DataType to_tensorflow(uhal_dtype dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.ours == dtype) return pair.theirs;
  }
  return TF_VARIANT;
}

// A set of dtypes, one bit each.
using DtypeSet = uint32_t;
constexpr DtypeSet only(uhal_dtype dtype) { return DtypeSet{1} << dtype; }
constexpr bool contains(DtypeSet set, uhal_dtype dtype) { return (set & only(dtype)) != 0; }

inline constexpr DtypeSet kInt32 = only(UHAL_INT32);
inline constexpr DtypeSet kBool = only(UHAL_BOOL);
inline constexpr DtypeSet kReducedFloats = only(UHAL_FLOAT16) | only(UHAL_BFLOAT16);
inline constexpr DtypeSet kWideFloats = only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
inline constexpr DtypeSet kFloats = kReducedFloats | kWideFloats;
inline constexpr DtypeSet kSignedIntegers = only(UHAL_INT8) | only(UHAL_INT16) | kInt32 | only(UHAL_INT64);
inline constexpr DtypeSet kUnsignedIntegers =
    only(UHAL_UINT8) | only(UHAL_UINT16) | only(UHAL_UINT32) | only(UHAL_UINT64);
inline constexpr DtypeSet kIntegers = kSignedIntegers | kUnsignedIntegers;
inline constexpr DtypeSet kNumbers = kFloats | kIntegers;
inline constexpr DtypeSet kReal = kNumbers | kBool;
inline constexpr DtypeSet kComplex = only(UHAL_COMPLEX64) | only(UHAL_COMPLEX128);
inline constexpr DtypeSet kAll = kReal | kComplex;
inline constexpr DtypeSet kIndices = kInt32 | only(UHAL_INT64);

// Where TensorFlow has int32 kernels in host memory for every device, ours leave int32 to them: int32 tensors
// are shapes and counters, and stay where the host reads them.
constexpr DtypeSet without_int32(DtypeSet set) { return set & ~kInt32; }

// The smallest and largest values of a dtype, as a fill takes them.
struct Limits {
  double lowest, highest;                   // finite
  int64_t integer_lowest, integer_highest;  // a uint64's bits
};
constexpr Limits limits_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT8:
      return {0, 0, INT8_MIN, INT8_MAX};
    case UHAL_INT16:
      return {0, 0, INT16_MIN, INT16_MAX};
    case UHAL_INT32:
      return {0, 0, INT32_MIN, INT32_MAX};
    case UHAL_INT64:
      return {0, 0, INT64_MIN, INT64_MAX};
    case UHAL_UINT8:
      return {0, 0, 0, UINT8_MAX};
    case UHAL_UINT16:
      return {0, 0, 0, UINT16_MAX};
    case UHAL_UINT32:
      return {0, 0, 0, UINT32_MAX};
    case UHAL_UINT64:
      return {0, 0, 0, -1};
    case UHAL_FLOAT16:
      return {-65504, 65504, 0, 0};
    case UHAL_BFLOAT16:
      return {-0x1.FEp127, 0x1.FEp127, 0, 0};
    case UHAL_FLOAT32:
      return {-0x1.FFFFFEp127, 0x1.FFFFFEp127, 0, 0};
    case UHAL_FLOAT64:
      return {-0x1.FFFFFFFFFFFFFp1023, 0x1.FFFFFFFFFFFFFp1023, 0, 0};
    default:
      return {0, 1, 0, 1};
  }
}

}  // namespace unihal::tensorflow
