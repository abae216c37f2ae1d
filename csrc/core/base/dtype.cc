#include "csrc/core/base/dtype.h"

namespace {

// In order of the enumerators.
constexpr const char* kNames[] = {
    "invalid", "bool",    "int8",     "int16",   "int32",   "int64",     "uint8",      "uint16",        "uint32",
    "uint64",  "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
};
static_assert(sizeof kNames / sizeof *kNames == UHAL_DTYPE_COUNT, "a name for each dtype");

uhal_dtype known(uhal_dtype dtype) {
  return dtype > UHAL_DTYPE_INVALID && dtype < UHAL_DTYPE_COUNT ? dtype : UHAL_DTYPE_INVALID;
}

}  // namespace

size_t uhal_dtype_size(uhal_dtype dtype) { return unihal::core::dtype_bytes(known(dtype)); }

const char* uhal_dtype_name(uhal_dtype dtype) { return kNames[known(dtype)]; }
