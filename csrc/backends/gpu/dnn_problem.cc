#include "csrc/backends/gpu/dnn_problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/operands.h"

namespace unihal::gpu {
namespace {

using kernels::Convolution;
using kernels::ConvolutionOperand;
using kernels::Pass;

struct Axis {
  int64_t length;
  int64_t stride;
};

// Lays out a tensor without gaps in an order of axes, the slowest first; false if the operand lies otherwise. Axes of
// one element lie anywhere.
bool lay_out(const Axis* axes, int count, bool channels_last, DnnTensor* tensor) {
  int order[kDnnAxes];
  order[0] = 0;
  for (int i = 1; i < count; ++i) order[i] = channels_last ? (i + 1 < count ? i + 1 : 1) : i;
  int64_t stride = 1;
  for (int i = count - 1; i >= 0; --i) {
    const Axis& axis = axes[order[i]];
    if (axis.length < 1 || axis.length * stride > INT32_MAX) return false;
    if (axis.length > 1 && axis.stride != stride) return false;
    tensor->lengths[order[i]] = static_cast<int>(axis.length);
    tensor->strides[order[i]] = static_cast<int>(stride);
    stride *= axis.length;
  }
  return true;
}

bool lay_out(const ConvolutionOperand& operand, int64_t first, int64_t channels, const int64_t* lengths, int spatial,
             bool channels_last, DnnTensor* tensor) {
  Axis axes[kDnnAxes] = {{first, operand.strides[0]}, {channels, operand.strides[1]}};
  const int missing = kDnnSpatial - spatial;
  for (int i = 0; i < spatial; ++i) axes[2 + i] = {lengths[missing + i], operand.strides[2 + missing + i]};
  tensor->data = operand.data;
  return lay_out(axes, 2 + spatial, channels_last, tensor);
}

// The forward convolution that a task is about.
Convolution forward_of(const kernels::ConvolutionTask& task) {
  Convolution c = task.convolution;
  if (task.pass != Pass::kBackwardData) return c;
  std::swap(c.source, c.result);
  std::swap(c.channels, c.rows);
  std::swap(c.filter.strides[0], c.filter.strides[1]);
  std::swap(c.input, c.output);
  return c;
}

bool is_taken(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT32 || dtype == UHAL_FLOAT64 || dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16;
}

}  // namespace

int64_t DnnProblem::operand_bytes() const {
  int64_t elements = 0;
  for (const DnnTensor& tensor : operands) {
    const auto times = [](int64_t product, int length) { return product * length; };
    elements += std::accumulate(tensor.lengths, tensor.lengths + axes(), int64_t{1}, times);
  }
  return elements * dtype_size(dtype);
}

bool make_dnn_problem(const kernels::ConvolutionTask& task, DnnProblem* result) {
  const Convolution c = forward_of(task);
  DnnProblem problem;
  problem.pass = task.pass;
  problem.dtype = c.source.dtype;
  problem.math_mode = c.math_mode;
  const bool is_double = problem.dtype == UHAL_FLOAT64;
  if (!is_taken(problem.dtype) || c.filter.dtype != problem.dtype || c.result.dtype != problem.dtype) return false;
  if ((c.compute == kernels::Compute::kDouble) != is_double) return false;
  const bool is_flat = c.input[0] == 1 && c.output[0] == 1 && c.window[0] == 1 && c.first[0] == 0;
  problem.spatial = is_flat ? 2 : 3;
  problem.groups = static_cast<int>(c.groups);
  if (c.groups > INT32_MAX) return false;
  const int missing = kDnnSpatial - problem.spatial;
  for (int i = 0; i < problem.spatial; ++i) {
    const int axis = missing + i;
    const int64_t padding = -c.first[axis];
    const int64_t reach = (c.window[axis] - 1) * c.step[axis] + 1;
    if (padding < 0 || padding > INT32_MAX || c.stride[axis] > INT32_MAX || reach > INT32_MAX) return false;
    // As many places as with the same padding at both ends.
    const int64_t room = c.input[axis] + 2 * padding - reach;
    if (room < 0 || room / c.stride[axis] + 1 != c.output[axis]) return false;
    problem.padding[i] = static_cast<int>(padding);
    problem.stride[i] = static_cast<int>(c.stride[axis]);
    problem.dilation[i] = static_cast<int>(c.step[axis]);
  }
  for (const bool channels_last : {false, true}) {
    problem.channels_last = channels_last;
    DnnTensor* tensors = problem.operands;
    if (lay_out(c.source, c.images, c.channels * c.groups, c.input, problem.spatial, channels_last, &tensors[kDnnX]) &&
        lay_out(c.filter, c.rows * c.groups, c.channels, c.window, problem.spatial, channels_last, &tensors[kDnnW]) &&
        lay_out(c.result, c.images, c.rows * c.groups, c.output, problem.spatial, channels_last, &tensors[kDnnY])) {
      const auto is_aligned = [](const DnnTensor& tensor) {
        return reinterpret_cast<uintptr_t>(tensor.data) % kDnnAlignment == 0;
      };
      problem.is_aligned = std::all_of(tensors, tensors + kDnnOperands, is_aligned);
      *result = problem;
      return true;
    }
  }
  return false;
}

DnnKey key_of(const DnnProblem& problem) {
  DnnKey key = {static_cast<int64_t>(problem.pass), problem.dtype, problem.math_mode, problem.channels_last,
                problem.groups};
  size_t at = 5;
  for (int i = 0; i < kDnnSpatial; ++i) {
    key[at++] = problem.padding[i];
    key[at++] = problem.stride[i];
    key[at++] = problem.dilation[i];
  }
  for (const DnnTensor& tensor : problem.operands) {
    for (const int length : tensor.lengths) key[at++] = length;
  }
  key[at++] = problem.is_aligned;
  return key;
}

size_t DnnKeyHash::operator()(const DnnKey& key) const {
  uint64_t hash = 0;
  for (const int64_t word : key) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace unihal::gpu
