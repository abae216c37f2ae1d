#include <algorithm>

#include "csrc/backends/common/quotient.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int32_t kGatherGroup = 256;
constexpr int64_t kLocalMemory = 32768;
constexpr int64_t kMostWorkspace = int64_t{128} << 20;
constexpr int64_t kResident = 2;       // work-groups that a compute unit holds at a time
constexpr int64_t kShortestSlice = 8;  // tiles: below, the start and end of a work-group outweigh its work
constexpr int64_t kMostWaves = 8;

// Groups with fewer rows than this leave most of a tile empty; a single group with this few, too.
constexpr int64_t kFewRowsOfGroup = 16;
constexpr int64_t kFewRowsOfOneGroup = 4;

enum class Maker : uint8_t { kGroup, kCpu };  // convolution_gemm.cl, convolution_block.cl

struct GatherTile {
  int32_t rows, columns, depth;
  double speed;  // of a full tile, relative to the largest
  Compute compute;
  Maker maker;
};

// kConvolutionAlgorithms has them by number.
constexpr GatherTile kGatherTiles[] = {
    {128, 128, 8, 1, Compute::kFloat, Maker::kGroup},   {64, 128, 8, 0.85, Compute::kFloat, Maker::kGroup},
    {128, 64, 8, 0.85, Compute::kFloat, Maker::kGroup}, {64, 64, 16, 0.65, Compute::kFloat, Maker::kGroup},
    {64, 64, 8, 1, Compute::kDouble, Maker::kGroup},    {128, 32, 64, 1, Compute::kFloat, Maker::kCpu},
    {64, 32, 32, 1, Compute::kDouble, Maker::kCpu}};
static_assert(std::size(kGatherTiles) == kConvolutionTileCount);

bool fits(const GatherTile& tile, const DeviceTraits& traits, Compute compute) {
  return tile.compute == compute && (tile.maker == Maker::kCpu) == traits.is_cpu;
}

// Whether a work-item of convolution_gemm.cl takes no more than its share: half of the registers for the sums, and of
// local memory two buffers and the places (five 32-bit numbers) of columns and terms.
bool keeps_to(const GatherTile& tile, const ItemShare& share) {
  const int64_t operands = 2 * tile.depth * (tile.rows + 4 + tile.columns + 4);
  const int64_t places = 5 * (tile.columns + 3 * tile.depth + 1);
  return 2 * tile.rows * tile.columns <= share.registers * kGatherGroup &&
         4 * (operands + places) <= int64_t{share.local_memory} * kGatherGroup;
}

// Whether a tile is considered where none is chosen. No tile of float64 keeps to a share: devices that have one are
// slow at it.
bool is_default(const GatherTile& tile, const DeviceTraits& traits) {
  const bool has_share = traits.item_share.registers != 0 && tile.compute == Compute::kFloat;
  return !has_share || keeps_to(tile, traits.item_share);
}

// A product of convolution_gemm.cl.
struct Product {
  const Convolution& convolution;
  int64_t columns[kWalkMembers];
  int64_t terms[kWalkMembers];
  const ConvolutionOperand* a;
  const ConvolutionOperand* result;
  int64_t a_row_stride, result_row_stride;
  bool a_along_terms, source_along_terms, result_along_rows;
  bool has_bias;

  int64_t rows() const { return convolution.rows; }
  int64_t column_count() const { return columns[0]; }
  int64_t term_count() const { return terms[0]; }
  int64_t sums() const { return rows() * column_count() * convolution.groups; }
};

// How a product is cut.
struct GatherPlan {
  GatherTile tile;
  int64_t row_tiles, column_tiles;
  int64_t slices, slice;  // the terms of a slice

  int64_t tiles(const Product& product) const { return row_tiles * column_tiles * product.convolution.groups; }
};

// The number of slices, at most `most`, in which `tiles` tiles of so many steps end soonest: work-groups run in waves
// that fill the device, and what slices leave (`bytes` each) is written and read again. Only as many slices as fill a
// number of waves can be the best.
int64_t best_slices(const DeviceTraits& traits, int64_t tiles, const GatherTile& tile, int64_t steps, int64_t bytes,
                    int64_t most) {
  const int64_t slots = traits.compute_units * (traits.is_cpu ? 1 : kResident);
  const double products = static_cast<double>(slots) * tile.rows * tile.columns * tile.depth;  // of a step of all slots
  int64_t best = 1;
  double least = 0;
  for (int64_t full_waves = 1; full_waves <= kMostWaves; ++full_waves) {
    const int64_t slices = std::clamp(full_waves * slots / tiles, int64_t{1}, std::max<int64_t>(most, 1));
    const int64_t waves = quotient_up(tiles * slices, slots);
    const double traffic = slices == 1 ? 0 : 2.0 * static_cast<double>(slices * bytes) * kProductsPerByte;
    const double cost = static_cast<double>(waves * quotient_up(steps, slices)) * products + traffic;
    if (full_waves == 1 || cost < least) {
      least = cost;
      best = slices;
    }
  }
  return best;
}

GatherPlan plan_with(const DeviceTraits& traits, const Product& product, const GatherTile& tile, Splitting splitting) {
  GatherPlan plan;
  plan.tile = tile;
  plan.row_tiles = quotient_up(product.rows(), tile.rows);
  plan.column_tiles = quotient_up(product.column_count(), tile.columns);
  const int64_t bytes = product.sums() * compute_bytes(product.convolution.compute);
  const int64_t steps = std::max<int64_t>(1, quotient_up(product.term_count(), tile.depth));
  const int64_t most = splitting == Splitting::kNever ? 1 : std::min(steps / kShortestSlice, kMostWorkspace / bytes);
  const int64_t slices = best_slices(traits, plan.tiles(product), tile, steps, bytes, most);
  plan.slice = quotient_up(steps, slices) * tile.depth;
  plan.slices = std::max<int64_t>(1, quotient_up(product.term_count(), plan.slice));
  return plan;
}

// With the tile that wastes least: of its own surface, of its speed, of the device's compute units.
GatherPlan fastest_plan(const DeviceTraits& traits, const Product& product, Splitting splitting) {
  GatherPlan best = {};
  double least = 0;
  for (const GatherTile& tile : kGatherTiles) {
    if (!fits(tile, traits, product.convolution.compute) || !is_default(tile, traits)) continue;
    const GatherPlan plan = plan_with(traits, product, tile, splitting);
    const auto groups = static_cast<double>(plan.tiles(product));
    const double busy = std::min(1.0, groups * static_cast<double>(plan.slices) / traits.compute_units);
    const double cost = groups * tile.rows * tile.columns / tile.speed / busy;
    if (least == 0 || cost < least) {
      least = cost;
      best = plan;
    }
  }
  return best;
}

// How many of the last axes must be checked for taps that meet pixels outside the source: 0, 2 or 3.
int checked_axes(const Convolution& c) {
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t last = c.first[i] + (c.output[i] - 1) * c.stride[i];
    const int64_t reach = (c.window[i] - 1) * c.step[i];
    const bool leaves = std::min(c.first[i], c.first[i] + reach) < 0 || std::max(last, last + reach) >= c.input[i];
    if (leaves) return i == 0 ? 3 : 2;
  }
  return 0;
}

void define_finish(KernelSpec& spec, const Product& product) {
  const Convolution& c = product.convolution;
  spec.define("HAS_BIAS", product.has_bias).dtype("BIAS", c.bias.dtype).dtype("RESULT", product.result->dtype);
  define_activation(spec, c.activation);
}

uhal_status join(Queue& queue, const Product& product, const GatherPlan& plan, bool wide, const void* partial) {
  const Convolution& c = product.convolution;
  KernelSpec spec(sources::convolution_join, "convolution_join");
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide);
  define_finish(spec, product);
  Members members;
  members.add(product.columns, kWalkMembers).add(product.rows());
  members.add(product.result_row_stride).add(product.result->group_stride).add(c.bias.strides[0]);
  members.add(product.result_along_rows ? 1 : product.column_count());
  members.add(product.result_along_rows ? product.rows() : 1);
  members.add(product.sums()).add(plan.slices);
  Arguments arguments;
  arguments.pointer(partial).pointer(c.bias.data).pointer(product.result->data);
  members.append(arguments, wide);
  return queue.run(spec, arguments, linear_grid(product.sums(), kGatherGroup));
}

uhal_status multiply(Queue& queue, const Product& product, Splitting splitting, int32_t tile) {
  const Convolution& c = product.convolution;
  const GatherPlan plan = tile == kFastestTile ? fastest_plan(queue.traits(), product, splitting)
                                               : plan_with(queue.traits(), product, kGatherTiles[tile], splitting);
  const bool split = plan.slices > 1;
  const bool wide =
      needs_wide_index(c) || !fits_32_bits(plan.slices * product.sums()) || !fits_32_bits(plan.slices * plan.slice);
  void* partial = nullptr;
  if (split) {
    const int64_t bytes = plan.slices * product.sums() * compute_bytes(c.compute);
    const uhal_status status = queue.workspace(static_cast<size_t>(bytes), &partial);
    if (status != UHAL_OK) return status;
  }
  const bool is_cpu = queue.traits().is_cpu;
  KernelSpec spec = is_cpu ? KernelSpec(sources::convolution_block, "convolution_block")
                           : KernelSpec(sources::convolution_gemm, "convolution_gemm");
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide);
  spec.define("ROWS", plan.tile.rows).define("COLUMNS", plan.tile.columns).define("DEPTH", plan.tile.depth);
  spec.define("CHECKED_AXES", checked_axes(c)).define("SPLIT", split);
  spec.dtype("A", product.a->dtype).dtype("SOURCE", c.source.dtype);
  if (!is_cpu) {
    spec.define("A_ALONG_TERMS", product.a_along_terms).define("SOURCE_ALONG_TERMS", product.source_along_terms);
    spec.define("RESULT_ALONG_ROWS", product.result_along_rows);
    const bool is_compact = !wide && c.compute == Compute::kFloat && keeps_to(plan.tile, queue.traits().item_share);
    spec.define("COMPACT", is_compact);
  }
  if (!split) define_finish(spec, product);

  Members members;
  members.add(product.columns, kWalkMembers).add(product.terms, kWalkMembers).add(c.input, kSpatial);
  members.add(product.rows()).add(c.groups);
  members.add(product.a_row_stride).add(product.result_row_stride).add(c.bias.strides[0]);
  members.add(product.a->group_stride).add(c.source.group_stride).add(product.result->group_stride);
  members.add(plan.row_tiles).add(plan.column_tiles).add(plan.slice);
  members.add(product.result_along_rows ? 1 : product.column_count());
  members.add(product.result_along_rows ? product.rows() : 1);
  members.add(product.sums());
  Arguments arguments;
  arguments.pointer(product.a->data).pointer(c.source.data).pointer(c.bias.data);
  arguments.pointer(split ? partial : product.result->data);
  members.append(arguments, wide);
  Grid grid;
  grid.groups[0] = plan.tiles(product) * plan.slices;
  grid.group_size[0] = is_cpu ? 1 : kGatherGroup;
  note_implementation("%s %dx%dx%d", spec.entry(), plan.tile.rows, plan.tile.columns, plan.tile.depth);
  const uhal_status status = queue.run(spec, arguments, grid);
  return split && status == UHAL_OK ? join(queue, product, plan, wide, partial) : status;
}

}  // namespace

bool takes_gemm(const DeviceTraits& traits) {
  return traits.max_group_size >= kGatherGroup && traits.local_memory >= kLocalMemory;
}

bool takes_tile(const DeviceTraits& traits, const Convolution& c, int32_t tile) {
  return takes_gemm(traits) && fits(kGatherTiles[tile], traits, c.compute);
}

bool suits_gemm(const DeviceTraits& traits, const Convolution& c) {
  return takes_gemm(traits) && c.rows > (c.groups > 1 ? kFewRowsOfGroup : kFewRowsOfOneGroup);
}

uhal_status convolve_by_gemm(Queue& queue, const Convolution& c, Splitting splitting, int32_t tile) {
  const bool source_last = channels_last(c.source, c.channels * c.groups);
  // Of a filter, the elements of a row or those of a column lie side by side.
  const bool filter_rows_last = std::abs(c.filter.strides[0]) < std::abs(c.filter.strides[1]);
  const bool filter_channels_last = std::abs(c.filter.strides[1]) < std::abs(c.filter.strides[1 + kSpatial]);
  Product product = {c};
  walk_pixels(c, product.columns);
  walk_taps(c, source_last || filter_channels_last, product.terms);
  product.a = &c.filter;
  product.result = &c.result;
  product.a_row_stride = c.filter.strides[0];
  product.result_row_stride = c.result.strides[1];
  product.a_along_terms = !filter_rows_last;
  product.source_along_terms = source_last;
  product.result_along_rows = channels_last(c.result, c.rows * c.groups);
  product.has_bias = c.bias.data != nullptr;
  return multiply(queue, product, splitting, tile);
}

uhal_status filter_gradient_by_gemm(Queue& queue, const Convolution& c, int32_t tile) {
  const bool source_last = channels_last(c.source, c.channels * c.groups);
  Product product = {c};
  walk_taps(c, source_last, product.columns);
  walk_pixels(c, product.terms);
  product.a = &c.result;
  product.result = &c.filter;
  product.a_row_stride = c.result.strides[1];
  product.result_row_stride = c.filter.strides[0];
  product.a_along_terms = !channels_last(c.result, c.rows * c.groups);
  product.source_along_terms = !source_last;
  product.result_along_rows = std::abs(c.filter.strides[0]) < std::abs(c.filter.strides[1]);
  product.has_bias = false;
  return multiply(queue, product, Splitting::kAllowed, tile);
}

}  // namespace unihal::kernels
