// Convolutions with a window of one pixel are matrix products of the tensors as they lie; with a stride, of every so
// many pixels of the larger images, which are first moved together.
#include <algorithm>

#include "csrc/backends/common/quotient.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/views.h"

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

// A convolution of one pixel with a stride, without it: where the images with all pixels are, those that take part lie
// one after the other, in the images' order of axes.
struct Subsampled {
  Convolution dense;
  ConvolutionOperand sparse;  // the same pixels as they lie among the others
  bool of_result;             // of the gradient of the input
  int64_t channels;           // of all groups
  size_t bytes;               // of the pixels together

  // `data`: the pixels together, or NULL to ask for the rest.
  static bool find(const Convolution& convolution, Pass pass, void* data, Subsampled* found);

  uhal_tensor together() const { return view(of_result ? dense.result : dense.source); }
  uhal_tensor among_others() const { return view(sparse); }

 private:
  uhal_tensor view(const ConvolutionOperand& operand) const {
    uhal_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    tensor.data = operand.data;
    tensor.dtype = operand.dtype;
    tensor.rank = 2 + kSpatial;
    tensor.shape[0] = dense.images;
    tensor.shape[1] = channels;
    for (int i = 0; i < kSpatial; ++i) tensor.shape[2 + i] = dense.output[i];
    std::copy_n(operand.strides, 2 + kSpatial, tensor.strides);
    return tensor;
  }
};

bool Subsampled::find(const Convolution& c, Pass pass, void* data, Subsampled* found) {
  bool has_stride = false;
  for (int i = 0; i < kSpatial; ++i) {
    if (c.window[i] != 1 || c.first[i] != 0) return false;
    has_stride |= c.stride[i] != 1;
  }
  if (!has_stride) return false;
  const bool of_result = pass == Pass::kBackwardData;
  found->of_result = of_result;
  found->dense = of_result ? phase_of(c, kNoRemainders) : c;
  Convolution& dense = found->dense;
  ConvolutionOperand& pixels = of_result ? dense.result : dense.source;
  for (int i = 0; i < kSpatial; ++i) {
    if (!of_result) pixels.strides[2 + i] *= c.stride[i];
    dense.stride[i] = 1;
    dense.step[i] = 1;
    dense.input[i] = dense.output[i];
  }
  found->channels = (of_result ? c.rows : c.channels) * c.groups;
  found->sparse = pixels;
  const bool last = kernels::channels_last(pixels, found->channels);
  int64_t stride = 1;
  const auto lay = [&](int axis, int64_t length) {
    pixels.strides[axis] = stride;
    stride *= length;
  };
  if (last) lay(1, found->channels);
  for (int i = kSpatial - 1; i >= 0; --i) lay(2 + i, dense.output[i]);
  if (!last) lay(1, found->channels);
  lay(0, dense.images);
  pixels.group_stride = pixels.strides[1] * (of_result ? c.rows : c.channels);
  pixels.data = data;
  found->bytes = aligned_bytes(static_cast<size_t>(stride * dtype_size(pixels.dtype)));
  return true;
}

bool find_product(const Subsampled& subsampled, Pass pass, MatmulProblem* product) {
  return pass == Pass::kBackwardFilter ? pointwise_filter_product(subsampled.dense, product)
                                       : pointwise_product(subsampled.dense, product);
}

}  // namespace

bool subsampled_product(const Convolution& convolution, Pass pass, MatmulProblem* product) {
  Subsampled subsampled;
  return Subsampled::find(convolution, pass, nullptr, &subsampled) && find_product(subsampled, pass, product);
}

uhal_status convolve_subsampled(Queue& queue, const Convolution& convolution, Pass pass) {
  Subsampled subsampled;
  MatmulProblem product;
  Subsampled::find(convolution, pass, nullptr, &subsampled);
  find_product(subsampled, pass, &product);
  const size_t workspace_bytes = Gemm(queue.traits(), product).workspace_bytes();
  void* block;
  uhal_status status = queue.workspace(subsampled.bytes + workspace_bytes, &block);
  if (status != UHAL_OK) return status;
  Subsampled::find(convolution, pass, block, &subsampled);
  find_product(subsampled, pass, &product);
  if (!subsampled.of_result) status = copy_views(queue, subsampled.among_others(), subsampled.together());
  if (status != UHAL_OK) return status;
  note_implementation("subsampled");
  status = Gemm(queue.traits(), product).run(queue, static_cast<char*>(block) + subsampled.bytes);
  if (status != UHAL_OK || !subsampled.of_result) return status;
  // The other pixels meet no tap.
  uhal_tensor all = subsampled.among_others();
  int64_t every[2 + kSpatial] = {1, 1};
  for (int i = 0; i < kSpatial; ++i) {
    all.shape[2 + i] = convolution.output[i];
    all.strides[2 + i] = convolution.result.strides[2 + i];
    every[2 + i] = convolution.stride[i];
  }
  return spread_view(queue, subsampled.together(), all, every);
}

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
