#include <algorithm>

#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kTaps = 3;       // of a window, along both axes
constexpr int64_t kPixels = 4;     // of a tile
constexpr int64_t kProducts = 36;  // per channel and tile
constexpr int64_t kAlignment = 256;

// What the transformed images of a slice may take: small enough that a large cache holds most of it between the steps.
constexpr int64_t kSliceBytes = int64_t{64} << 20;

enum Step { kFilter, kSource, kResult };

int64_t quotient_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
int64_t aligned(int64_t bytes) { return quotient_up(bytes, kAlignment) * kAlignment; }

// The same convolution with the taps in the order of the pixels that they meet: the gradient of the input meets them
// in the opposite one.
Convolution with_rising_taps(const Convolution& given) {
  Convolution c = given;
  for (int i = 1; i < kSpatial; ++i) {
    if (c.step[i] > 0) continue;
    c.first[i] += (c.window[i] - 1) * c.step[i];
    c.filter.data =
        static_cast<char*>(c.filter.data) + (c.window[i] - 1) * c.filter.strides[2 + i] * dtype_size(c.filter.dtype);
    c.filter.strides[2 + i] = -c.filter.strides[2 + i];
    c.step[i] = 1;
  }
  return c;
}

// Numbers of images or filters after their transform: 36 matrices of channels x tiles.
struct Transformed {
  char* data;
  int64_t channel_stride, tile_stride, matrix_stride;

  ConvolutionOperand operand() const {
    ConvolutionOperand operand;
    operand.data = data;
    operand.strides[1] = channel_stride;
    operand.strides[1 + kSpatial] = tile_stride;
    operand.group_stride = matrix_stride;
    return operand;
  }
};

Transformed transformed(char* data, int64_t channels, int64_t tiles, bool channels_innermost) {
  return {data, channels_innermost ? 1 : tiles, channels_innermost ? channels : 1, channels * tiles};
}

// A kernel of winograd.cl on an operand of a convolution, whose channels lie along axis 1 of its strides (filters: rows
// along axis 0).
uhal_status transform(Queue& queue, const Convolution& c, Step step, const Transformed& numbers) {
  const bool is_source = step == kSource;
  const ConvolutionOperand& operand = step == kFilter ? c.filter : is_source ? c.source : c.result;
  const int64_t tiles[2] = {quotient_up(c.output[1], kPixels), quotient_up(c.output[2], kPixels)};
  const int64_t channels = is_source ? c.channels : c.rows;
  const int64_t all_tiles = step == kFilter ? c.channels : c.images * tiles[0] * tiles[1];
  const bool wide = needs_wide_index(c) || !fits_32_bits(kProducts * channels * all_tiles);

  Members members;
  members.add(channels).add(tiles, 2).add(all_tiles);
  members.add(is_source ? c.input + 1 : c.output + 1, 2);
  for (int i = 1; i < kSpatial; ++i) members.add(is_source ? c.first[i] : 0);
  members.add(operand.strides, 2).add(operand.strides + 3, 2).add(c.bias.strides[0]);
  members.add(numbers.channel_stride).add(numbers.tile_stride).add(numbers.matrix_stride);
  members.add(numbers.channel_stride == 1);

  KernelSpec spec(sources::winograd, "winograd");
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide).define("STEP", step);
  if (step == kFilter) spec.dtype("FILTER", operand.dtype);
  if (step == kSource) spec.dtype("SOURCE", operand.dtype);
  if (step == kResult) {
    spec.dtype("RESULT", operand.dtype).dtype("BIAS", c.bias.dtype).define("HAS_BIAS", c.bias.data != nullptr);
    define_activation(spec, c.activation);
  }
  Arguments arguments;
  arguments.pointer(operand.data).pointer(numbers.data).pointer(c.bias.data);
  members.append(arguments, wide);
  return queue.run(spec, arguments, linear_grid(channels * all_tiles, std::min(256, queue.traits().max_group_size)));
}

// The 36 products as a convolution of 36 groups whose pixels are the tiles.
Convolution products_of(const Convolution& c, const Transformed& filter, const Transformed& source,
                        const Transformed& result, int64_t tiles) {
  Convolution products;
  products.images = 1;
  products.groups = kProducts;
  products.channels = c.channels;
  products.rows = c.rows;
  for (int i = 0; i < kSpatial; ++i) {
    products.input[i] = products.output[i] = i == kSpatial - 1 ? tiles : 1;
    products.window[i] = products.stride[i] = products.step[i] = 1;
    products.first[i] = 0;
  }
  products.source = source.operand();
  products.result = result.operand();
  products.filter.data = filter.data;
  products.filter.strides[0] = filter.channel_stride;
  products.filter.strides[1] = filter.tile_stride;
  products.filter.group_stride = filter.matrix_stride;
  return products;
}

}  // namespace

bool takes_winograd(const DeviceTraits& traits, const Convolution& c) {
  if (!takes_gemm(traits) || c.compute != Compute::kFloat || c.groups != 1 || c.window[0] != 1) return false;
  for (int i = 0; i < kSpatial; ++i) {
    if (c.stride[i] != 1 || (i > 0 && (c.window[i] != kTaps || std::abs(c.step[i]) != 1))) return false;
    if (i == 0 && (c.first[0] != 0 || c.output[0] != 1 || c.input[0] != 1)) return false;
  }
  return true;
}

bool suits_winograd(const DeviceTraits& traits, const Convolution& c) {
  // It saves 3/4 of the products, in proportion to channels * rows, and moves more memory, in proportion to
  // channels + rows.
  return takes_winograd(traits, c) && suits_gemm(traits, c) && c.channels * c.rows >= 24 * (c.channels + c.rows);
}

uhal_status convolve_by_winograd(Queue& queue, const Convolution& given) {
  Convolution c = with_rising_taps(given);
  const bool last = channels_last(c.source, c.channels);
  const int64_t image_tiles = quotient_up(c.output[1], kPixels) * quotient_up(c.output[2], kPixels);
  const int64_t number_bytes = kProducts * compute_bytes(c.compute);
  const int64_t image_bytes = number_bytes * (c.channels + c.rows) * image_tiles;
  const int64_t slice = std::clamp(kSliceBytes / image_bytes, int64_t{1}, c.images);
  const int64_t filter_bytes = aligned(number_bytes * c.channels * c.rows);
  const int64_t source_bytes = aligned(number_bytes * c.channels * image_tiles * slice);
  const int64_t result_bytes = number_bytes * c.rows * image_tiles * slice;
  void* workspace;
  uhal_status status = queue.workspace(static_cast<size_t>(filter_bytes + source_bytes + result_bytes), &workspace);
  if (status != UHAL_OK) return status;
  char* const base = static_cast<char*>(workspace);
  const Transformed filter = transformed(base, c.rows, c.channels, true);
  status = transform(queue, c, kFilter, filter);

  const int64_t images = c.images;
  for (int64_t done = 0; done < images && status == UHAL_OK; done += slice) {
    c.images = std::min(slice, images - done);
    const int64_t tiles = image_tiles * c.images;
    const Transformed source = transformed(base + filter_bytes, c.channels, tiles, last);
    const Transformed result = transformed(base + filter_bytes + source_bytes, c.rows, tiles, last);
    status = transform(queue, c, kSource, source);
    if (status == UHAL_OK) {
      status = convolve_by_gemm(queue, products_of(c, filter, source, result, tiles), Splitting::kNever);
    }
    if (status == UHAL_OK) status = transform(queue, c, kResult, result);
    c.source.data = static_cast<char*>(c.source.data) + slice * c.source.strides[0] * dtype_size(c.source.dtype);
    c.result.data = static_cast<char*>(c.result.data) + slice * c.result.strides[0] * dtype_size(c.result.dtype);
  }
  return status;
}

}  // namespace unihal::kernels
