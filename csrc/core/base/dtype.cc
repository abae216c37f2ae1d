#include "unihal/tensor.h"

namespace {

struct DtypeRow {
  const char* name;
  size_t bytes;
};

// In order of the enumerators.
constexpr DtypeRow kDtypes[] = {
    {"invalid", 0}, {"bool", 1},    {"int8", 1},      {"int16", 2},       {"int32", 4},         {"int64", 8},
    {"uint8", 1},   {"uint16", 2},  {"uint32", 4},    {"uint64", 8},      {"float16", 2},       {"bfloat16", 2},
    {"float32", 4}, {"float64", 8}, {"complex64", 8}, {"complex128", 16}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1},
};
static_assert(sizeof kDtypes / sizeof *kDtypes == UHAL_DTYPE_COUNT, "a row for each dtype");

const DtypeRow& row(uhal_dtype dtype) {
  return kDtypes[dtype > UHAL_DTYPE_INVALID && dtype < UHAL_DTYPE_COUNT ? dtype : UHAL_DTYPE_INVALID];
}

}  // namespace

size_t uhal_dtype_size(uhal_dtype dtype) { return row(dtype).bytes; }

const char* uhal_dtype_name(uhal_dtype dtype) { return row(dtype).name; }
