// Convolutions with a window of one pixel are matrix products of the tensors as they lie.
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"

namespace unihal::kernels {
namespace {

// Of a product for each image: with fewer, too much of its last tile is empty, and convolution_gemm joins the images.
constexpr int64_t kFewestPixels = 512;

// The pixels of images as one axis, or nothing.
struct PixelAxis {
  int64_t length;          // of an image, or of all
  int64_t source, result;  // strides
  bool all_images;
};

bool pixel_axis(const Convolution& c, PixelAxis* axis) {
  *axis = {1, 0, 0, false};
  for (int i = kSpatial - 1; i >= 0; --i) {
    if (c.window[i] != 1 || c.stride[i] != 1 || c.first[i] != 0 || c.input[i] != c.output[i]) return false;
    if (c.output[i] == 1) continue;
    const int64_t source = c.source.strides[2 + i];
    const int64_t result = c.result.strides[2 + i];
    if (axis->length == 1) {
      axis->source = source;
      axis->result = result;
    } else if (source != axis->source * axis->length || result != axis->result * axis->length) {
      return false;
    }
    axis->length *= c.output[i];
  }
  if (c.images == 1 || (axis->length > 1 && c.source.strides[0] == axis->source * axis->length &&
                        c.result.strides[0] == axis->result * axis->length)) {
    axis->length *= c.images;
    axis->all_images = true;
  }
  return true;
}

void set(MatmulOperand& operand, const ConvolutionOperand& from, int64_t row_stride, int64_t column_stride) {
  operand.data = from.data;
  operand.dtype = from.dtype;
  operand.row_stride = row_stride;
  operand.column_stride = column_stride;
}

}  // namespace

uhal_status run_gemm(Queue& queue, const MatmulProblem& problem) {
  const Gemm gemm(queue.traits(), problem);
  void* workspace = nullptr;
  if (gemm.workspace_bytes() != 0) {
    const uhal_status status = queue.workspace(gemm.workspace_bytes(), &workspace);
    if (status != UHAL_OK) return status;
  }
  note_implementation("pointwise");
  return gemm.run(queue, workspace);
}

bool pointwise_product(const Convolution& c, MatmulProblem* problem) {
  PixelAxis pixels;
  if (!pixel_axis(c, &pixels)) return false;
  *problem = {};
  problem->m = c.rows;
  problem->n = pixels.length;
  problem->k = c.channels;
  problem->activation = c.activation;
  problem->math_mode = c.math_mode;
  MatmulOperand* operands = problem->operands;
  set(operands[kMatmulA], c.filter, c.filter.strides[0], c.filter.strides[1]);
  set(operands[kMatmulB], c.source, c.source.strides[1], pixels.source);
  set(operands[kMatmulD], c.result, c.result.strides[1], pixels.result);
  if (c.bias.data != nullptr) {
    set(operands[kMatmulC], c.bias, c.bias.strides[0], 0);
    problem->beta = 1;
  }
  const auto add_batch = [&](int64_t length, int64_t a, int64_t b, int64_t bias, int64_t d) {
    const int axis = problem->batch_rank++;
    problem->batch[axis] = length;
    operands[kMatmulA].batch_strides[axis] = a;
    operands[kMatmulB].batch_strides[axis] = b;
    operands[kMatmulC].batch_strides[axis] = bias;
    operands[kMatmulD].batch_strides[axis] = d;
  };
  if (!pixels.all_images) add_batch(c.images, 0, c.source.strides[0], 0, c.result.strides[0]);
  if (c.groups > 1) {
    add_batch(c.groups, c.filter.group_stride, c.source.group_stride, c.rows * c.bias.strides[0],
              c.result.group_stride);
  }
  return true;
}

bool suits_pointwise(const Convolution& c, const MatmulProblem& product) {
  return product.n == c.pixels() || product.n >= kFewestPixels;
}

bool pointwise_filter_product(const Convolution& c, MatmulProblem* problem) {
  PixelAxis pixels;
  // The type of the bias' gradient is no operand's of the product.
  if (c.bias.dtype == UHAL_FLOAT64 || c.groups != 1 || !pixel_axis(c, &pixels) || !pixels.all_images) return false;
  *problem = {};
  problem->m = c.rows;
  problem->n = c.channels;
  problem->k = pixels.length;
  problem->math_mode = c.math_mode;
  set(problem->operands[kMatmulA], c.result, c.result.strides[1], pixels.result);
  set(problem->operands[kMatmulB], c.source, pixels.source, c.source.strides[1]);
  set(problem->operands[kMatmulD], c.filter, c.filter.strides[0], c.filter.strides[1]);
  return true;
}

}  // namespace unihal::kernels
