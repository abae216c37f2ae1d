// Data movement between int32 tensors in host memory.
//
// TensorFlow keeps int32 tensors in host memory: they are shapes and counters. Slicing or joining those on the
// device would cost two transfers, so kernels that only move data do it in place.
#pragma once

#include "plugins/common/view.h"

namespace unihal::tensorflow {

// to[...] = from[...], where `from` broadcasts to `to`. Both are int32.
inline void copy_int32_on_host(const View& from, const View& to) {
  const int last = to.rank - 1;
  const int offset = to.rank - from.rank;
  const auto step = [&](int axis) {
    return axis >= offset && from.shape[axis - offset] != 1 ? from.strides[axis - offset] : 0;
  };
  const int64_t count = to.elements();
  const int64_t length = to.rank > 0 ? to.shape[last] : 1;  // of a row, the last axis
  const int64_t read_step = to.rank > 0 ? step(last) : 0;
  const int64_t write_step = to.rank > 0 ? to.strides[last] : 0;
  int64_t index[UHAL_MAX_RANK] = {};
  for (int64_t n = 0; n < count; n += length) {
    const auto* source = static_cast<const int32_t*>(from.data);
    auto* target = static_cast<int32_t*>(to.data);
    for (int i = 0; i < last; ++i) {
      source += index[i] * step(i);
      target += index[i] * to.strides[i];
    }
    for (int64_t i = 0; i < length; ++i) target[i * write_step] = source[i * read_step];
    for (int i = last - 1; i >= 0 && ++index[i] == to.shape[i]; --i) index[i] = 0;
  }
}

}  // namespace unihal::tensorflow
