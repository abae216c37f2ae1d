// Elements of host memory by cudaDataType's numbers, which hipDataType shares.
#pragma once

#include <cstdint>
#include <cstring>

#include "csrc/backends/common/float_bits.h"

namespace on_host {

enum Type { kFloat = 0, kDouble = 1, kHalf = 2, kInt8 = 3, kInt32 = 10, kBfloat16 = 14 };

inline double read(const void* data, int64_t at, int type) {
  switch (type) {
    case kDouble:
      return static_cast<const double*>(data)[at];
    case kHalf:
      return unihal::float16_to_float(static_cast<const uint16_t*>(data)[at]);
    case kBfloat16:
      return unihal::bfloat16_to_float(static_cast<const uint16_t*>(data)[at]);
    case kInt8:
      return static_cast<const int8_t*>(data)[at];
    case kInt32:
      return static_cast<const int32_t*>(data)[at];
    default:
      return static_cast<const float*>(data)[at];
  }
}

inline void write(void* data, int64_t at, int type, double value) {
  switch (type) {
    case kDouble:
      static_cast<double*>(data)[at] = value;
      break;
    case kHalf:
      static_cast<uint16_t*>(data)[at] = unihal::float_to_float16(static_cast<float>(value));
      break;
    case kBfloat16:
      static_cast<uint16_t*>(data)[at] = unihal::float_to_bfloat16(static_cast<float>(value));
      break;
    case kInt32:
      static_cast<int32_t*>(data)[at] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

}  // namespace on_host
