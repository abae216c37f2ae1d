#include <algorithm>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/quotient.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kTaps = 3;       // of a window, along both axes
constexpr int64_t kPixels = 4;     // of a tile
constexpr int64_t kProducts = 36;  // per channel and tile
constexpr int64_t kNumberBytes = sizeof(float);
constexpr int64_t kVector = 4;  // numbers that products read at a time

// What the transformed images of a slice may take: small enough that a large cache holds most of it between the steps.
constexpr int64_t kSliceBytes = int64_t{64} << 20;

// The gradient of a filter:
//
// What its 36 sums per filter and channel may take.
constexpr int64_t kMostSums = int64_t{256} << 20;

// Each tap has to sum so many products. A rounding error in a tile reaches all taps, however small their own sums are:
// with normal numbers the error is 2.8 to 3.5 times that of adding one product after the other (root mean square, in
// float) where there are 512 or more, but 10 times where there are 16.
constexpr int64_t kFewestTerms = 512;

// The cost is compared with that of the products that gather the source (convolution_gemm.cc), in multiplications: what
// a step writes and the next one reads counts as those that a GPU does in the time. For the layers of ResNet-50 and 32
// images, of 3.7 G multiplications each:
//
//   channels   image     multiplications   images' numbers   sums'     cost
//   64         56 x 56   0.92 G            110 MiB           0.6 MiB   0.75
//   128        28 x 28   0.92 G             55 MiB             2 MiB   0.51
//   256        14 x 14   1.21 G             36 MiB             9 MiB   0.53
//   512        7 x 7     1.21 G             18 MiB            36 MiB   0.57
//
// The share below leaves out the first, where gathering is as fast as cuDNN on an H100, and images so few that the sums
// outweigh them. There the others rose from 0.52, 0.41 and 0.36 of cuDNN's rate to 0.93, 0.76 and 0.62. On a CPU (PoCL
// on two cores), what it takes was done in 0.5 to 0.85 of the time, and the first as fast.
constexpr double kWorthwhile = 2.0 / 3;

enum class WinogradStep : int32_t { kFilter, kSource, kResult, kResultGradient, kFilterGradient };

// The address of an element of an operand.
void* address(const ConvolutionOperand& operand, int64_t offset) {
  return static_cast<char*>(operand.data) + offset * dtype_size(operand.dtype);
}

// The same convolution with the taps in the order of the pixels that they meet: the gradient of the input meets them
// in the opposite one.
Convolution with_rising_taps(const Convolution& given) {
  Convolution c = given;
  for (int i = 1; i < kSpatial; ++i) {
    if (c.step[i] > 0) continue;
    c.first[i] += (c.window[i] - 1) * c.step[i];
    c.filter.data = address(c.filter, (c.window[i] - 1) * c.filter.strides[2 + i]);
    c.filter.strides[2 + i] = -c.filter.strides[2 + i];
    c.step[i] = 1;
  }
  return c;
}

// Numbers of images or filters after their transform: 36 matrices of channels x tiles.
struct Transformed {
  char* data;
  int64_t channel_stride, tile_stride, matrix_stride;

  int64_t bytes() const { return aligned_bytes(kProducts * matrix_stride * kNumberBytes); }
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
  const int64_t pitch = quotient_up(channels_innermost ? channels : tiles, kVector) * kVector;
  return {data, channels_innermost ? 1 : pitch, channels_innermost ? pitch : 1,
          pitch * (channels_innermost ? tiles : channels)};
}

int64_t tile_count(const Convolution& c) {
  return c.images * quotient_up(c.output[1], kPixels) * quotient_up(c.output[2], kPixels);
}

// What is transformed at a time: some images, or some lines of one.
struct SliceSize {
  int64_t images, lines;
};

SliceSize slice_size(const Convolution& c) {
  const int64_t tile_lines = quotient_up(c.output[1], kPixels);
  const int64_t line_bytes = kProducts * kNumberBytes * (c.channels + c.rows) * quotient_up(c.output[2], kPixels);
  const int64_t lines = std::max(kSliceBytes / line_bytes, int64_t{1});
  return {std::clamp(lines / tile_lines, int64_t{1}, c.images), std::min(lines, tile_lines) * kPixels};
}

// The slice that begins there; the first one is the largest.
Convolution slice_at(const Convolution& c, const SliceSize& size, int64_t image, int64_t line) {
  Convolution slice = c;
  slice.images = std::min(size.images, c.images - image);
  slice.output[1] = std::min(size.lines, c.output[1] - line);
  slice.first[1] += line;
  slice.source.data = address(c.source, image * c.source.strides[0]);
  slice.result.data = address(c.result, image * c.result.strides[0] + line * c.result.strides[3]);
  return slice;
}

// Calls body(const Convolution& slice) for each until one fails.
template <class Body>
uhal_status for_each_slice(const Convolution& c, const SliceSize& size, const Body& body) {
  for (int64_t image = 0; image < c.images; image += size.images) {
    for (int64_t line = 0; line < c.output[1]; line += size.lines) {
      const uhal_status status = body(slice_at(c, size, image, line));
      if (status != UHAL_OK) return status;
    }
  }
  return UHAL_OK;
}

// A kernel of winograd.cl on an operand of a convolution, whose channels lie along axis 1 of its strides (filters: rows
// along axis 0).
uhal_status transform(Queue& queue, const Convolution& c, WinogradStep step, const Transformed& numbers) {
  const bool is_source = step == WinogradStep::kSource;
  const bool is_filter = step == WinogradStep::kFilter || step == WinogradStep::kFilterGradient;
  const ConvolutionOperand& operand = is_filter ? c.filter : is_source ? c.source : c.result;
  const void* const bias = step == WinogradStep::kResult ? c.bias.data : nullptr;
  const int64_t tiles[2] = {quotient_up(c.output[1], kPixels), quotient_up(c.output[2], kPixels)};
  const int64_t channels = is_source ? c.channels : c.rows;
  const int64_t all_tiles = is_filter ? c.channels : tile_count(c);
  const bool wide = needs_wide_index(c) || !fits_32_bits(kProducts * numbers.matrix_stride);

  Members members;
  members.add(channels).add(tiles, 2).add(all_tiles);
  members.add(is_source ? c.input + 1 : c.output + 1, 2);
  for (int i = 1; i < kSpatial; ++i) members.add(is_source ? c.first[i] : 0);
  members.add(operand.strides, 2).add(operand.strides + 3, 2).add(c.bias.strides[0]);
  members.add(numbers.channel_stride).add(numbers.tile_stride).add(numbers.matrix_stride);
  members.add(numbers.channel_stride == 1);

  KernelSpec spec(sources::winograd, "winograd");
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide).define("STEP", static_cast<int32_t>(step));
  spec.dtype(is_filter ? "FILTER" : step == WinogradStep::kResult ? "RESULT" : "IMAGE", operand.dtype);
  if (step == WinogradStep::kResult) {
    spec.dtype("BIAS", c.bias.dtype).define("HAS_BIAS", bias != nullptr);
    define_activation(spec, c.activation);
  }
  Arguments arguments;
  arguments.pointer(operand.data).pointer(numbers.data).pointer(bias);
  members.append(arguments, wide);
  return queue.run(spec, arguments, linear_grid(channels * all_tiles, std::min(256, queue.traits().max_group_size)));
}

// The 36 products as a convolution of 36 groups whose pixels are the tiles.
Convolution products_of(const Convolution& c, const Transformed& filter, const Transformed& source,
                        const Transformed& result) {
  Convolution products;
  products.images = 1;
  products.groups = kProducts;
  products.channels = c.channels;
  products.rows = c.rows;
  for (int i = 0; i < kSpatial; ++i) {
    products.input[i] = products.output[i] = i == kSpatial - 1 ? tile_count(c) : 1;
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

// The 36 products of the gradient of the filter, rows x channels; `adds`: to what is there.
MatmulProblem filter_products(const Convolution& c, const Transformed& gradient, const Transformed& source,
                              const Transformed& sums, bool adds) {
  MatmulProblem products;
  products.m = c.rows;
  products.n = c.channels;
  products.k = tile_count(c);
  products.batch_rank = 1;
  products.batch[0] = kProducts;
  const auto set = [&](int number, const Transformed& numbers, int64_t row_stride, int64_t column_stride) {
    MatmulOperand& operand = products.operands[number];
    operand.data = numbers.data;
    operand.dtype = UHAL_FLOAT32;
    operand.row_stride = row_stride;
    operand.column_stride = column_stride;
    operand.batch_strides[0] = numbers.matrix_stride;
  };
  set(kMatmulA, gradient, gradient.channel_stride, gradient.tile_stride);
  set(kMatmulB, source, source.tile_stride, source.channel_stride);
  set(kMatmulD, sums, sums.channel_stride, sums.tile_stride);
  if (adds) {
    products.operands[kMatmulC] = products.operands[kMatmulD];
    products.beta = 1;
  }
  return products;
}

// Windows of 3 x 3 on images of two axes, stride and dilation 1, in float.
bool has_its_geometry(const Convolution& c) {
  // Its sums of integers are no integers.
  if (c.compute != Compute::kFloat || is_integer(c.result.dtype) || c.groups != 1 || c.window[0] != 1) return false;
  for (int i = 0; i < kSpatial; ++i) {
    if (c.stride[i] != 1 || (i > 0 && (c.window[i] != kTaps || std::abs(c.step[i]) != 1))) return false;
    if (i == 0 && (c.first[0] != 0 || c.output[0] != 1 || c.input[0] != 1)) return false;
  }
  return true;
}

// The number of products that the gradient of a tap sums: of the tap that meets fewest pixels inside the source.
int64_t fewest_terms(const Convolution& c) {
  int64_t terms = c.images;
  for (int i = 1; i < kSpatial; ++i) {
    int64_t fewest = c.output[i];
    for (int64_t tap = 0; tap < c.window[i]; ++tap) {
      const int64_t at = c.first[i] + tap * c.step[i];  // what the first pixel meets
      const int64_t begin = std::max<int64_t>(0, -at);
      const int64_t end = std::min(c.output[i], c.input[i] - at);
      fewest = std::min(fewest, std::max<int64_t>(0, end - begin));
    }
    terms *= fewest;
  }
  return terms;
}

}  // namespace

bool takes_winograd(const DeviceTraits& traits, const Convolution& c) {
  return takes_gemm(traits) && has_its_geometry(c);
}

bool suits_winograd(const DeviceTraits& traits, const Convolution& c) {
  // It saves 3/4 of the products, in proportion to channels * rows, and moves more memory, in proportion to
  // channels + rows.
  return takes_winograd(traits, c) && suits_gemm(traits, c) && c.channels * c.rows >= 24 * (c.channels + c.rows);
}

uhal_status convolve_by_winograd(Queue& queue, const Convolution& given) {
  const Convolution c = with_rising_taps(given);
  const bool last = channels_last(c.source, c.channels);
  const SliceSize size = slice_size(c);
  const int64_t most_tiles = tile_count(slice_at(c, size, 0, 0));
  const int64_t source_bytes = transformed(nullptr, c.channels, most_tiles, last).bytes();
  const int64_t result_bytes = transformed(nullptr, c.rows, most_tiles, last).bytes();
  Transformed filter = transformed(nullptr, c.rows, c.channels, true);
  void* workspace;
  uhal_status status = queue.workspace(static_cast<size_t>(filter.bytes() + source_bytes + result_bytes), &workspace);
  if (status != UHAL_OK) return status;
  note_implementation("winograd");
  filter.data = static_cast<char*>(workspace);
  char* const source_data = filter.data + filter.bytes();

  status = transform(queue, c, WinogradStep::kFilter, filter);
  if (status != UHAL_OK) return status;
  return for_each_slice(c, size, [&](const Convolution& slice) {
    const Transformed source = transformed(source_data, c.channels, tile_count(slice), last);
    const Transformed result = transformed(source_data + source_bytes, c.rows, tile_count(slice), last);
    uhal_status done = transform(queue, slice, WinogradStep::kSource, source);
    if (done == UHAL_OK) {
      done = convolve_by_gemm(queue, products_of(slice, filter, source, result), Splitting::kNever);
    }
    return done == UHAL_OK ? transform(queue, slice, WinogradStep::kResult, result) : done;
  });
}

bool takes_winograd_filter(const Convolution& c) {
  return has_its_geometry(c) && fewest_terms(c) >= kFewestTerms &&
         transformed(nullptr, c.rows, c.channels, true).bytes() <= kMostSums;
}

bool suits_winograd_filter(const Convolution& c) {
  if (!takes_winograd_filter(c)) return false;
  const auto filters = static_cast<double>(c.channels * c.rows);
  const auto pixels = static_cast<double>(c.pixels());
  const auto tiles = static_cast<double>(tile_count(c));
  // Images and sums are written after a step and read by the next.
  const double bytes = 2 * kProducts * kNumberBytes * (tiles * static_cast<double>(c.channels + c.rows) + filters);
  const double cost = kProducts * tiles * filters + kProductsPerByte * bytes;
  return cost <= kWorthwhile * kTaps * kTaps * pixels * filters;
}

uhal_status filter_gradient_by_winograd(Queue& queue, const Convolution& c) {
  const bool source_last = channels_last(c.source, c.channels);
  const bool gradient_last = channels_last(c.result, c.rows);
  const bool rows_last = std::abs(c.filter.strides[0]) < std::abs(c.filter.strides[1]);
  const SliceSize size = slice_size(c);
  const int64_t most_tiles = tile_count(slice_at(c, size, 0, 0));
  const int64_t source_bytes = transformed(nullptr, c.channels, most_tiles, source_last).bytes();
  const int64_t gradient_bytes = transformed(nullptr, c.rows, most_tiles, gradient_last).bytes();
  Transformed sums = transformed(nullptr, c.rows, c.channels, rows_last);
  char* source_data = nullptr;
  char* gradient_data = nullptr;
  const auto source_of = [&](const Convolution& slice) {
    return transformed(source_data, c.channels, tile_count(slice), source_last);
  };
  const auto gradient_of = [&](const Convolution& slice) {
    return transformed(gradient_data, c.rows, tile_count(slice), gradient_last);
  };
  // What a product needs depends on its size, not on where its operands lie or whether it adds.
  size_t product_bytes = 0;
  for_each_slice(c, size, [&](const Convolution& slice) {
    const Gemm gemm(queue.traits(), filter_products(slice, gradient_of(slice), source_of(slice), sums, false));
    product_bytes = std::max(product_bytes, gemm.workspace_bytes());
    return UHAL_OK;
  });
  void* workspace;
  const auto bytes = static_cast<size_t>(sums.bytes() + source_bytes + gradient_bytes) + product_bytes;
  uhal_status status = queue.workspace(bytes, &workspace);
  if (status != UHAL_OK) return status;
  note_implementation("winograd");
  sums.data = static_cast<char*>(workspace);
  source_data = sums.data + sums.bytes();
  gradient_data = source_data + source_bytes;

  bool is_first = true;
  status = for_each_slice(c, size, [&](const Convolution& slice) {
    const Transformed source = source_of(slice);
    const Transformed gradient = gradient_of(slice);
    uhal_status done = transform(queue, slice, WinogradStep::kSource, source);
    if (done == UHAL_OK) done = transform(queue, slice, WinogradStep::kResultGradient, gradient);
    if (done != UHAL_OK) return done;
    const Gemm gemm(queue.traits(), filter_products(slice, gradient, source, sums, !is_first));
    is_first = false;
    return gemm.run(queue, gemm.workspace_bytes() != 0 ? gradient_data + gradient_bytes : nullptr);
  });
  return status == UHAL_OK ? transform(queue, c, WinogradStep::kFilterGradient, sums) : status;
}

}  // namespace unihal::kernels
