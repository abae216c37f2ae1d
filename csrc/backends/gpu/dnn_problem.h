// A convolution as cuDNN and MIOpen are told of it: always the forward one, whatever is computed of it.
#pragma once

#include <array>
#include <cstdint>

#include "csrc/kernels/ops/convolution.h"

namespace unihal::gpu {

constexpr int kDnnSpatial = 3;
constexpr int kDnnAxes = 2 + kDnnSpatial;

enum { kDnnX, kDnnW, kDnnY, kDnnOperands };

// Lengths by axis: images (of w: outputs), channels (of w: those of a group), then `spatial` axes. Strides in elements,
// without gaps.
struct DnnTensor {
  void* data = nullptr;
  int lengths[kDnnAxes] = {};
  int strides[kDnnAxes] = {};
};

// What all operands of most problems are aligned to, in bytes.
constexpr int kDnnAlignment = 16;

struct DnnProblem {
  kernels::Pass pass = kernels::Pass::kForward;
  uhal_dtype dtype = UHAL_FLOAT32;
  uhal_math_mode math_mode = UHAL_MATH_STRICT;
  bool channels_last = false;  // of all three
  bool is_aligned = false;     // all data, to kDnnAlignment
  int spatial = 2;             // 2 or 3
  int groups = 1;
  int padding[kDnnSpatial] = {};
  int stride[kDnnSpatial] = {};
  int dilation[kDnnSpatial] = {};
  DnnTensor operands[kDnnOperands];

  int axes() const { return 2 + spatial; }
  int64_t operand_bytes() const;  // of all three
};

// False for what the libraries are not told: mixed dtypes, layouts with gaps or in several orders, padding that differs
// at the two ends, more than 2^31 elements.
bool make_dnn_problem(const kernels::ConvolutionTask& task, DnnProblem* result);

// All that a library's choice of an algorithm depends on; the last word is 0.
using DnnKey = std::array<int64_t, 32>;
DnnKey key_of(const DnnProblem& problem);

struct DnnKeyHash {
  size_t operator()(const DnnKey& key) const;
};

}  // namespace unihal::gpu
