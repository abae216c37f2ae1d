// PyTorch's dtypes and ours.
#pragma once

#include "plugins/torch/pytorch.h"
#include "unihal/tensor.h"

namespace unihal::pytorch {

struct DtypePair {
  c10::ScalarType theirs;
  uhal_dtype ours;
};

inline constexpr DtypePair kDtypes[] = {
    {c10::ScalarType::Float, UHAL_FLOAT32},
    {c10::ScalarType::Long, UHAL_INT64},
    {c10::ScalarType::Bool, UHAL_BOOL},
    {c10::ScalarType::Int, UHAL_INT32},
    {c10::ScalarType::Half, UHAL_FLOAT16},
    {c10::ScalarType::BFloat16, UHAL_BFLOAT16},
    {c10::ScalarType::Double, UHAL_FLOAT64},
    {c10::ScalarType::Byte, UHAL_UINT8},
    {c10::ScalarType::Char, UHAL_INT8},
    {c10::ScalarType::Short, UHAL_INT16},
    {c10::ScalarType::ComplexFloat, UHAL_COMPLEX64},
    {c10::ScalarType::ComplexDouble, UHAL_COMPLEX128},
    {c10::ScalarType::UInt16, UHAL_UINT16},
    {c10::ScalarType::UInt32, UHAL_UINT32},
    {c10::ScalarType::UInt64, UHAL_UINT64},
    {c10::ScalarType::Float8_e4m3fn, UHAL_FLOAT8_E4M3FN},
    {c10::ScalarType::Float8_e5m2, UHAL_FLOAT8_E5M2},
};

// UHAL_DTYPE_INVALID for a dtype that unihal has not (quantized and sub-byte types, complex32).
constexpr uhal_dtype from_pytorch(c10::ScalarType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.theirs == dtype) return pair.ours;
  }
  return UHAL_DTYPE_INVALID;
}

// A set of dtypes, one bit each.
using DtypeSet = uint32_t;
constexpr DtypeSet only(uhal_dtype dtype) { return DtypeSet{1} << dtype; }
constexpr bool contains(DtypeSet set, uhal_dtype dtype) { return (set & only(dtype)) != 0; }

inline constexpr DtypeSet kBool = only(UHAL_BOOL);
inline constexpr DtypeSet kWideFloats = only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
inline constexpr DtypeSet kFloats = only(UHAL_FLOAT16) | only(UHAL_BFLOAT16) | kWideFloats;
inline constexpr DtypeSet kSignedIntegers = only(UHAL_INT8) | only(UHAL_INT16) | only(UHAL_INT32) | only(UHAL_INT64);
inline constexpr DtypeSet kIntegers = kSignedIntegers | only(UHAL_UINT8);
inline constexpr DtypeSet kNumbers = kFloats | kIntegers;
inline constexpr DtypeSet kReal = kNumbers | kBool;
inline constexpr DtypeSet kComplex = only(UHAL_COMPLEX64) | only(UHAL_COMPLEX128);
inline constexpr DtypeSet kFactored = kWideFloats | kComplex;  // what matrices are factored in
inline constexpr DtypeSet kAll = kReal | kComplex;
// What is only moved.
inline constexpr DtypeSet kStored = ~DtypeSet{1};

}  // namespace unihal::pytorch
