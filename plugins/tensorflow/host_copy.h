// Data movement between int32 tensors in host memory.
//
// TensorFlow keeps int32 tensors in host memory: they are shapes and counters. Slicing or joining those on the
// device would cost two transfers, so kernels that only move data do it in place.
#pragma once

#include "plugins/common/view.h"

namespace unihal::tensorflow {

// to[...] = from[...], where `from` broadcasts to `to`. Both are int32.
inline void copy_int32_on_host(const View& from, const View& to) {
  const int64_t count = to.elements();
  int64_t index[UHAL_MAX_RANK] = {};
  const auto* source = static_cast<const int32_t*>(from.data);
  auto* target = static_cast<int32_t*>(to.data);
  const int offset = to.rank - from.rank;
  for (int64_t n = 0; n < count; ++n) {
    int64_t read = 0;
    int64_t write = 0;
    for (int i = 0; i < to.rank; ++i) {
      write += index[i] * to.strides[i];
      if (i >= offset && from.shape[i - offset] != 1) read += index[i] * from.strides[i - offset];
    }
    target[write] = source[read];
    for (int i = to.rank - 1; i >= 0 && ++index[i] == to.shape[i]; --i) index[i] = 0;
  }
}

}  // namespace unihal::tensorflow
