#include "csrc/kernels/ops/convolution.h"

#include <algorithm>
#include <numeric>

#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {
namespace {

// The operand of a view of images or filters; its second axis has `channels` per group, its first `rows` if groups are
// side by side along that one.
ConvolutionOperand operand_of(const uhal_tensor& view) {
  ConvolutionOperand operand;
  operand.data = view.data;
  operand.dtype = view.dtype;
  operand.strides[0] = view.strides[0];
  operand.strides[1] = view.strides[1];
  const int missing = 2 + kSpatial - view.rank;
  for (int i = 2; i < view.rank; ++i) operand.strides[missing + i] = view.strides[i];
  return operand;
}

uhal_status set_to_zero(Queue& queue, const uhal_tensor* view) {
  uhal_op fill = {};
  fill.struct_size = sizeof fill;
  fill.kind = UHAL_OP_FILL;
  fill.output_count = 1;
  fill.outputs = &view;
  return run_generate(queue, fill);
}

// The gradient of the bias: the sum of dy over all axes but that of the channels.
uhal_status sum_per_channel(Queue& queue, const uhal_tensor& dy, const uhal_tensor* dbias, Compute compute) {
  if (dbias == nullptr || dbias->shape[0] == 0) return UHAL_OK;
  if (element_count(dy) == 0) return set_to_zero(queue, dbias);
  uhal_tensor sums = *dbias;
  sums.rank = dy.rank;
  for (int i = 0; i < dy.rank; ++i) {
    sums.shape[i] = i == 1 ? dbias->shape[0] : 1;
    sums.strides[i] = i == 1 ? dbias->strides[0] : 0;
  }
  return run_reduction(queue, {dy, sums, UHAL_STEP_SUM, UHAL_FINISH_NOTHING, compute});
}

}  // namespace

Pass pass_of(const uhal_op& op) {
  switch (op.kind) {
    case UHAL_OP_CONVOLUTION:
      return Pass::kForward;
    case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
      return Pass::kBackwardData;
    default:
      return Pass::kBackwardFilter;
  }
}

Convolution convolution_of(const ConvolutionOperands& operands, const uhal_convolution_attributes& attributes,
                           bool transposed) {
  const uhal_tensor& x = *operands.x;
  const uhal_tensor& w = *operands.w;
  const uhal_tensor& y = *operands.y;
  Convolution c;
  c.images = x.shape[0];
  c.groups = attributes.groups;
  c.channels = w.shape[1];
  c.rows = w.shape[0] / c.groups;
  const int missing = 2 + kSpatial - x.rank;
  for (int i = 0; i < kSpatial; ++i) {
    const int axis = i - missing;
    c.input[i] = axis < 0 ? 1 : x.shape[2 + axis];
    c.window[i] = axis < 0 ? 1 : w.shape[2 + axis];
    c.output[i] = axis < 0 ? 1 : y.shape[2 + axis];
    c.stride[i] = axis < 0 ? 1 : attributes.stride[axis];
    c.step[i] = axis < 0 ? 1 : attributes.dilation[axis];
    c.first[i] = axis < 0 ? 0 : -attributes.pad_before[axis];
  }
  c.source = operand_of(x);
  c.filter = operand_of(w);
  c.result = operand_of(y);
  c.source.group_stride = c.channels * x.strides[1];
  c.filter.group_stride = c.rows * w.strides[0];
  c.result.group_stride = c.rows * y.strides[1];
  if (operands.bias != nullptr) {
    c.bias.data = operands.bias->data;
    c.bias.dtype = operands.bias->dtype;
    c.bias.strides[0] = operands.bias->strides[0];
  }
  c.activation = attributes.activation;
  const bool multiplies_float32 = c.source.dtype == UHAL_FLOAT32 && c.filter.dtype == UHAL_FLOAT32;
  if (multiplies_float32 && y.dtype == UHAL_FLOAT32) c.math_mode = attributes.math_mode;
  for (const uhal_tensor* view : {operands.x, operands.w, operands.y, operands.bias}) {
    if (view != nullptr && view->dtype == UHAL_FLOAT64) c.compute = Compute::kDouble;
  }
  if (is_integer_convolution(operands) && !is_exact_in_float32(operands)) c.compute = Compute::kDouble;
  if (transposed) {
    std::swap(c.source, c.result);
    std::swap(c.channels, c.rows);
    std::swap(c.filter.strides[0], c.filter.strides[1]);
    std::swap(c.input, c.output);
    c.activation = UHAL_ACTIVATION_NONE;
  }
  return c;
}

Convolution convolution_of(const DeviceTraits& traits, const uhal_op& op, bool transposed) {
  Convolution c = convolution_of(convolution_operands(op), convolution_attributes(op), transposed);
  if (!traits.has_tf32) c.math_mode = UHAL_MATH_STRICT;
  return c;
}

bool channels_last(const ConvolutionOperand& image, int64_t channels) {
  return channels > 1 && std::abs(image.strides[1]) < std::abs(image.strides[1 + kSpatial]);
}

bool needs_wide_index(const Convolution& c) {
  // Offsets are also worked out where taps lie outside the source, and where a window begins.
  int64_t source = std::abs(c.source.strides[0]) * c.images + std::abs(c.source.strides[1]) * c.channels * c.groups;
  int64_t filter = std::abs(c.filter.strides[0]) * c.rows + std::abs(c.filter.strides[1]) * c.channels +
                   std::abs(c.filter.group_stride) * c.groups;
  int64_t result = std::abs(c.result.strides[0]) * c.images + std::abs(c.result.strides[1]) * c.rows * c.groups;
  bool wide = false;
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t reach =
        std::abs(c.first[i]) + std::max(c.input[i], c.output[i] * c.stride[i]) + c.window[i] * std::abs(c.step[i]);
    wide |= !fits_32_bits(reach);
    source += std::abs(c.source.strides[2 + i]) * reach;
    filter += std::abs(c.filter.strides[2 + i]) * c.window[i];
    result += std::abs(c.result.strides[2 + i]) * c.output[i];
  }
  return wide || !fits_32_bits(source) || !fits_32_bits(filter) || !fits_32_bits(result) ||
         !fits_32_bits(c.pixels() * c.rows * c.groups) || !fits_32_bits(c.rows * c.channels * c.taps() * c.groups) ||
         !fits_32_bits(std::abs(c.bias.strides[0]) * c.rows * c.groups);
}

int64_t phase_count(const Convolution& transposed) {
  int64_t count = 1;
  for (int i = 0; i < kSpatial; ++i) {
    count *= std::min(transposed.stride[i], transposed.output[i]);
    if (count > kMostPhases) return count;
  }
  return count;
}

Convolution phase_of(const Convolution& transposed, const int64_t remainders[kSpatial]) {
  Convolution phase = transposed;
  int64_t filter_offset = 0;
  int64_t result_offset = 0;
  for (int i = 0; i < kSpatial; ++i) {
    // Pixel remainder + stride * j takes tap t from the pixel (remainder + stride * j + pad - t * dilation) / stride.
    const int64_t stride = transposed.stride[i];
    const int64_t dilation = transposed.step[i];
    const int64_t divisor = std::gcd(stride, dilation);
    const int64_t every = stride / divisor;  // the distance of taps for which that is whole
    int64_t reach = remainders[i] - transposed.first[i];
    int64_t tap = 0;
    while (tap < std::min(every, transposed.window[i]) && reach % stride != 0) {
      ++tap;
      reach -= dilation;
    }
    const bool found = tap < transposed.window[i] && reach % stride == 0;
    phase.window[i] = found ? (transposed.window[i] - tap + every - 1) / every : 0;
    phase.output[i] = (transposed.output[i] - remainders[i] + stride - 1) / stride;
    phase.first[i] = reach / stride;
    phase.stride[i] = 1;
    phase.step[i] = -(dilation / divisor);
    if (found) filter_offset += tap * transposed.filter.strides[2 + i];
    result_offset += remainders[i] * transposed.result.strides[2 + i];
    phase.filter.strides[2 + i] *= every;
    phase.result.strides[2 + i] *= stride;
  }
  phase.filter.data = static_cast<char*>(phase.filter.data) + filter_offset * dtype_size(phase.filter.dtype);
  phase.result.data = static_cast<char*>(phase.result.data) + result_offset * dtype_size(phase.result.dtype);
  return phase;
}

const char* refuse_convolution(const DeviceTraits& traits, const uhal_op& op) {
  if (const char* reason = refuse_convolution_operands(op)) return reason;
  const ConvolutionOperands operands = convolution_operands(op);
  if (!is_integer_convolution(operands) || is_exact_in_float32(operands) || traits.has_float64) return nullptr;
  return "convolution of integers whose sums float32 does not have needs float64, which the device has not";
}

uhal_status run_convolution(Queue& queue, const uhal_op& op) {
  const ConvolutionOperands operands = convolution_operands(op);
  const Pass pass = pass_of(op);
  uhal_status status = UHAL_OK;
  if (element_count(*op.outputs[0]) != 0) {
    const bool is_sum_of_nothing =
        element_count(*operands.x) == 0 || element_count(*operands.w) == 0 || element_count(*operands.y) == 0;
    if (is_sum_of_nothing && pass != Pass::kForward) {  // that one still adds the bias
      status = set_to_zero(queue, op.outputs[0]);
    } else {
      const TuningChoice choice = chosen_algorithm(queue.traits(), op);
      status = convolve(queue, convolution_of(queue.traits(), op, pass == Pass::kBackwardData), pass, choice);
    }
  }
  if (pass != Pass::kBackwardFilter || status != UHAL_OK) return status;
  return sum_per_channel(queue, *operands.y, operands.bias, floating_compute(op));
}

}  // namespace unihal::kernels
