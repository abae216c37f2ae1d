// What backends need to know about dtypes. They link nothing of the core, so they have their own.
#pragma once

#include "unihal/tensor.h"

namespace unihal {

struct DtypeInfo {
  const char* name;
  int8_t size;    // bytes
  bool floating;  // of the 8-bit ones the core gives backends what moves or casts them only
  bool integer;   // bool counts as an integer
};

inline constexpr DtypeInfo kDtypes[UHAL_DTYPE_COUNT] = {
    {"invalid", 0, false, false},     {"bool", 1, false, true},          {"int8", 1, false, true},
    {"int16", 2, false, true},        {"int32", 4, false, true},         {"int64", 8, false, true},
    {"uint8", 1, false, true},        {"uint16", 2, false, true},        {"uint32", 4, false, true},
    {"uint64", 8, false, true},       {"float16", 2, true, false},       {"bfloat16", 2, true, false},
    {"float32", 4, true, false},      {"float64", 8, true, false},       {"complex64", 8, false, false},
    {"complex128", 16, false, false}, {"float8_e4m3fn", 1, true, false}, {"float8_e5m2", 1, true, false},
};

inline constexpr const DtypeInfo& info(uhal_dtype dtype) {
  return kDtypes[dtype > 0 && dtype < UHAL_DTYPE_COUNT ? dtype : UHAL_DTYPE_INVALID];
}
inline constexpr int64_t dtype_size(uhal_dtype dtype) { return info(dtype).size; }
inline constexpr const char* dtype_name(uhal_dtype dtype) { return info(dtype).name; }
inline constexpr bool is_floating(uhal_dtype dtype) { return info(dtype).floating; }
inline constexpr bool is_integer(uhal_dtype dtype) { return info(dtype).integer; }
inline constexpr bool is_real(uhal_dtype dtype) { return info(dtype).floating || info(dtype).integer; }
inline constexpr bool is_complex(uhal_dtype dtype) { return dtype == UHAL_COMPLEX64 || dtype == UHAL_COMPLEX128; }

// The smallest and largest value of an integer dtype, in the 64-bit type that computes with it.
inline constexpr int64_t lowest_integer(uhal_dtype dtype) {
  const bool is_signed = dtype >= UHAL_INT8 && dtype <= UHAL_INT64;
  return is_signed ? INT64_MIN >> (64 - 8 * dtype_size(dtype)) : 0;
}
inline constexpr uint64_t highest_integer(uhal_dtype dtype) {
  if (dtype == UHAL_BOOL) return 1;
  const bool is_signed = dtype >= UHAL_INT8 && dtype <= UHAL_INT64;
  return UINT64_MAX >> (64 - 8 * dtype_size(dtype) + (is_signed ? 1 : 0));
}

}  // namespace unihal
