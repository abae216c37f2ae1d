// The families of kernels, each a table of ops.
#pragma once

#include "plugins/onnxruntime/call.h"

namespace unihal::onnxruntime {

Table transfer_ops();
Table elementwise_ops();
Table matmul_ops();
Table convolution_ops();

template <size_t kCount>
Table table(const Op (&rows)[kCount]) {
  return {rows, kCount};
}

}  // namespace unihal::onnxruntime
