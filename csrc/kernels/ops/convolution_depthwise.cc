// Depthwise convolutions by kernels of their own (source/depthwise*.cl): of two axes, each channel by one small window
// without dilation. What else there is convolution_direct.cc runs.
#include <algorithm>
#include <cstdint>

#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/teams.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kVertical = kSpatial - 2, kHorizontal = kSpatial - 1;  // the axes that there are

// A kernel is compiled for its window and its stride, and keeps them in registers.
constexpr int64_t kLongestWindow = 7;
constexpr int64_t kLargestStride = 2;

// Numbers of float that a work-item keeps of its tile, of source, sums and filter; of double half as many.
constexpr int64_t kMostNumbers = 112;

// Bytes of the filter in local memory.
constexpr int64_t kWeightBytes = 16384;

// Work-items of a group that all kernels find enough.
constexpr int32_t kLeastGroup = 64;

// Work-items for each unit of the device, among which a gradient of the filter is divided; half as many of long sums.
constexpr int64_t kItemsOfUnit = 1024;
constexpr int64_t kFewTaps = 9;

// What each of them takes at least, so that its sums are worth joining: tiles, or strips of lines.
constexpr int64_t kLeastTiles = 2;
constexpr int64_t kLeastStrips = 2;

// Parts of a sum that one work-item adds up.
constexpr int64_t kPartsOfItem = 8;

// A strip of a line, of pixels.
constexpr int64_t kStrip = 32;

// Channels that a work-item has at most, where they are last; of a gradient of the filter.
constexpr int64_t kWidestChannelUnit = 8;
constexpr int64_t kSumsUnit = 4;

// Units of channels of a work-group: neighbours, so that what they read is some lines of memory.
constexpr int64_t kMostLanes = 16;

// Work-items that join their sums of a gradient of planes: a warp of NVIDIA's does so without a barrier.
constexpr int32_t kTeam = 32;

// Pixels of a line in no units that a work-item has: neighbours take neighbours, so that they read whole lines of
// memory; a gradient of the filter adds up more of them.
constexpr int64_t kNarrowTile = 1;
constexpr int64_t kNarrowSumsTile = 2;

constexpr int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceiling(-a, b); }

bool is_planes(const ConvolutionOperand& image, const int64_t* lengths) {
  return lengths[kHorizontal] == 1 || image.strides[2 + kHorizontal] == 1;
}

// What a kernel reads at once: so many elements, at most, that are 16 bytes.
int64_t widest_unit(uhal_dtype dtype) { return dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16 ? 8 : 4; }

// The largest unit that an image lies in: `length` of them along the axis whose neighbours are neighbours in memory,
// which is `dense`: 1 (channels) or 2 + an axis.
int64_t unit_of(const Convolution& c, const ConvolutionOperand& image, const int64_t* lengths, int dense) {
  const auto fits = [&](int64_t unit) {
    const int64_t bytes = unit * dtype_size(image.dtype);
    bool is_aligned = reinterpret_cast<uintptr_t>(image.data) % static_cast<uintptr_t>(bytes) == 0;
    is_aligned &= c.images == 1 || image.strides[0] % unit == 0;
    for (int axis : {kVertical, kHorizontal}) {
      if (dense != 2 + axis) is_aligned &= lengths[axis] == 1 || image.strides[2 + axis] % unit == 0;
    }
    if (dense != 1) is_aligned &= c.groups == 1 || image.group_stride % unit == 0;
    return is_aligned && (dense == 1 ? c.groups : lengths[kHorizontal]) % unit == 0;
  };
  for (int64_t unit = widest_unit(image.dtype); unit > 1; unit /= 2) {
    if (unit >= 4 && fits(unit)) return unit;
  }
  return 1;
}

// One axis of a tile, in the words of prelude/depthwise_tile.h.
struct TileAxis {
  int64_t window, stride;
  int64_t rest = 0;   // REST
  int64_t count = 1;  // pixels of the result: ROWS or COLUMNS
  int64_t first = 0;  // the first pixel of the source that the first tile meets
  bool transposed;

  TileAxis(const Convolution& c, int axis, bool is_transposed)
      : window(c.window[axis]), stride(c.stride[axis]), first(c.first[axis]), transposed(is_transposed) {
    if (!transposed) return;
    rest = -first - floor_of(-first, stride) * stride;
    first = floor_of(-first, stride) - back();
  }

  int64_t back() const { return (window - 1 - rest) / stride; }
  int64_t extent() const {
    return transposed ? (count - 1 + rest) / stride + back() + 1 : (count - 1) * stride + window;
  }
  int64_t step() const { return transposed ? count / stride : count * stride; }
  bool is_whole() const { return !transposed || count % stride == 0; }
};

struct DepthwiseTile {
  TileAxis y, x;
  DepthwiseTile(const Convolution& c, bool transposed) : y(c, kVertical, transposed), x(c, kHorizontal, transposed) {}

  void define_columns(KernelSpec& spec) const {
    spec.define("TRANSPOSED", x.transposed).define("WINDOW_X", x.window).define("STRIDE_X", x.stride);
    spec.define("REST_X", x.rest).define("COLUMNS", x.count);
  }
  void define_rows(KernelSpec& spec) const {
    spec.define("WINDOW_Y", y.window).define("STRIDE_Y", y.stride).define("REST_Y", y.rest).define("ROWS", y.count);
  }
};

int64_t most_numbers(const Convolution& c) { return c.compute == Compute::kFloat ? kMostNumbers : kMostNumbers / 2; }

// The tile of planes whose lines are written, or as a gradient read, in units of `unit`: of so many pixels, or `narrow`
// ones.
DepthwiseTile tile_of_planes(const Convolution& c, bool transposed, int64_t unit, const int64_t* lengths,
                             int64_t narrow) {
  DepthwiseTile tile(c, transposed);
  const int64_t least = unit > 1 ? unit : narrow;
  tile.x.count = std::min(least, power_of_two_from(lengths[kHorizontal]));
  if (transposed) tile.x.count *= tile.x.stride;
  for (int64_t rows : {4, 2, 1}) {
    if (transposed && rows > 2) continue;
    tile.y.count = rows;
    const int64_t numbers = tile.y.extent() * tile.x.extent() + rows * tile.x.count + tile.y.window * tile.x.window;
    if (rows == 1 || (numbers <= most_numbers(c) && rows / 2 < lengths[kVertical])) break;
  }
  if (!tile.y.is_whole()) tile.y.count = tile.y.stride;
  return tile;
}

// Units of the source's lines that begin where the tiles have units, and how far a tile begins before one.
int64_t source_unit(const Convolution& c, const DepthwiseTile& tile, int64_t* lead) {
  int64_t unit = unit_of(c, c.source, c.input, 2 + kHorizontal);
  while (unit > 1 && (tile.x.step() % unit != 0 || tile.x.extent() < unit)) unit = unit == 8 ? 4 : 1;
  *lead = ((-tile.x.first) % unit + unit) % unit;
  return unit;
}

// The tile of pixels whose channels are last, of which a work-item has a unit of at most `most`: four, where its
// numbers are too many of more.
DepthwiseTile tile_of_channels(const Convolution& c, bool transposed, int64_t most, int64_t* unit) {
  DepthwiseTile tile(c, transposed);
  *unit = std::min({most, unit_of(c, c.source, c.input, 1), unit_of(c, c.result, c.output, 1)});
  for (int64_t columns : {4, 2, 1}) {
    tile.x.count = columns * (transposed ? tile.x.stride : 1);
    const auto fits = [&] { return (tile.x.extent() + tile.x.count + tile.x.window) * *unit <= most_numbers(c); };
    // Of short windows fewer pixels of more channels are faster.
    const bool keeps_unit = columns > 1 && !transposed && tile.x.window <= 3;
    if (*unit == 8 && !fits() && !keeps_unit) *unit = 4;
    if (fits()) break;
  }
  return tile;
}

// Units of channels that a work-group has side by side, how many such blocks there are, and in how many slots its
// work-items have so many each.
struct Block {
  int64_t lanes, slots, blocks;

  // `lines`: work-items that share a unit's pixels.
  Block(int64_t units, int64_t most_lanes, int64_t lines, int32_t group) {
    most_lanes = std::max<int64_t>(1, std::min({most_lanes, group / lines, units}));
    blocks = ceiling(units, most_lanes);
    lanes = ceiling(units, blocks);
    slots = group / (lanes * lines);
  }
};

// A work-group's tiles: so many lines of so many, and how many such blocks an image has. Those that read least.
struct Slots {
  int64_t y = 1, x = 1;
  int64_t blocks_y = 0, blocks_x = 0;

  Slots(const Convolution& c, const DepthwiseTile& tile, int64_t slots) {
    int64_t least = INT64_MAX;
    const int64_t tiles_x = ceiling(c.output[kHorizontal], tile.x.count);
    for (int64_t along = 1; along <= slots; along *= 2) {
      const int64_t lines = std::min(slots / along, c.output[kVertical]);
      const int64_t down = ceiling(c.output[kVertical], lines), across = ceiling(tiles_x, along);
      TileAxis height = tile.y, width = tile.x;
      height.count = lines;
      width.count *= along;
      const int64_t cost = down * across * (height.extent() * width.extent() + slots * tile.x.count);
      if (cost >= least) continue;
      least = cost;
      *this = Slots(lines, along, down, across);
    }
  }

 private:
  Slots(int64_t lines, int64_t along, int64_t down, int64_t across)
      : y(lines), x(along), blocks_y(down), blocks_x(across) {}
};

void add_image(Members& members, const ConvolutionOperand& image) {
  members.add(image.strides[0])
      .add(image.group_stride)
      .add(image.strides[2 + kVertical])
      .add(image.strides[2 + kHorizontal]);
}

uhal_status convolve_channels(Queue& queue, const Convolution& c, bool transposed) {
  const bool wide = needs_wide_index(c);
  const int32_t group = team_group_size(queue.traits());
  int64_t unit;
  const DepthwiseTile tile = tile_of_channels(c, transposed, kWidestChannelUnit, &unit);
  const int64_t weights = kWeightBytes / compute_bytes(c.compute);
  const Block block(c.groups / unit, std::min(kMostLanes, weights / (c.taps() * unit)), 1, group);
  const Slots slots(c, tile, block.slots);

  Members members;
  members.add(0).add(c.groups).add(c.input + kVertical, 2).add(c.output + kVertical, 2);
  members.add(tile.y.first).add(tile.x.first).add(slots.blocks_y).add(slots.blocks_x);
  add_image(members, c.source);
  add_image(members, c.result);
  members.add(c.filter.group_stride).add(c.filter.strides + 2 + kVertical, 2).add(c.bias.strides[0]);
  members.add(-c.first[kVertical]).add(block.lanes).add(slots.y).add(slots.x);
  members.add(std::abs(c.filter.group_stride) < std::abs(c.filter.strides[2 + kHorizontal]));

  KernelSpec spec(sources::depthwise, "depthwise_channels");
  define_operands(spec, c, wide);
  spec.define("CHANNELS_LAST", 1).define("UHAL_GROUP", group);
  tile.define_columns(spec);
  spec.define("WINDOW_Y", tile.y.window).define("STRIDE_Y", tile.y.stride);
  spec.define("UNIT", unit).define("WEIGHTS", weights);
  Arguments arguments = operand_pointers(c);
  members.append(arguments, wide);
  Grid grid;
  grid.groups[0] = c.images * slots.blocks_y * slots.blocks_x;
  grid.groups[1] = block.blocks;
  grid.group_size[0] = group;
  return queue.run(spec, arguments, grid);
}

uhal_status convolve_planes(Queue& queue, const Convolution& c, bool transposed) {
  const bool wide = needs_wide_index(c);
  const int64_t unit = unit_of(c, c.result, c.output, 2 + kHorizontal);
  const DepthwiseTile tile = tile_of_planes(c, transposed, unit, c.output, kNarrowTile);
  int64_t lead;
  const int64_t read = source_unit(c, tile, &lead);
  const int64_t tiles_y = ceiling(c.output[kVertical], tile.y.count),
                tiles_x = ceiling(c.output[kHorizontal], tile.x.count);
  const int64_t count = c.images * c.groups * tiles_y * tiles_x;

  Members members;
  members.add(count).add(c.groups).add(c.input + kVertical, 2).add(c.output + kVertical, 2);
  members.add(tile.y.first).add(tile.x.first).add(tiles_y).add(tiles_x);
  add_image(members, c.source);
  add_image(members, c.result);
  members.add(c.filter.group_stride).add(c.filter.strides + 2 + kVertical, 2).add(c.bias.strides[0]);
  for (int i = 0; i < 5; ++i) members.add(0);  // for channels that are last

  KernelSpec spec(sources::depthwise, "depthwise_planes");
  define_operands(spec, c, wide);
  spec.define("CHANNELS_LAST", 0);
  tile.define_columns(spec);
  tile.define_rows(spec);
  spec.define("UNIT", read).define("LEAD", lead).define("RESULT_UNIT", unit);
  Arguments arguments = operand_pointers(c);
  members.append(arguments, wide);
  return queue.run(spec, arguments, linear_grid(count, std::min(256, queue.traits().max_group_size)));
}

// Where the sums of a gradient of the filter go: the filter itself, or parts of them in the workspace.
class Sums {
 public:
  Sums(const Convolution& c, int64_t parts) : c_(c), parts_(parts) {
    dtype_ = parts > 1 ? compute_dtype(c.compute) : c.filter.dtype;
  }

  uhal_status take(Queue& queue) {
    data_ = c_.filter.data;
    if (parts_ == 1) return UHAL_OK;
    const int64_t bytes = parts_ * c_.groups * c_.taps() * dtype_size(dtype_);
    return queue.workspace(static_cast<size_t>(bytes), &data_);
  }

  uhal_dtype dtype() const { return dtype_; }
  void* data() const { return data_; }

  // result_part to parts of the struct in depthwise_filter.cl.
  void add(Members& members) const {
    if (parts_ == 1) {
      members.add(0).add(c_.filter.group_stride).add(c_.filter.strides + 2 + kVertical, 2);
    } else {
      members.add(c_.groups * c_.taps()).add(1).add(c_.groups * c_.window[kHorizontal]).add(c_.groups);
    }
    members.add(parts_);
  }

  uhal_status join(Queue& queue, bool wide) const {
    if (parts_ == 1) return UHAL_OK;
    Teams teams(queue.traits());
    // Neighbouring teams have neighbouring sums.
    teams.lanes = static_cast<int32_t>(
        std::min<int64_t>(std::max(1, teams.group / 8), power_of_two_from(ceiling(parts_, kPartsOfItem))));
    teams.adjacent = false;
    Members members;
    members.add(parts_).add(c_.groups).add(c_.window + kVertical, 2);
    members.add(c_.filter.group_stride).add(c_.filter.strides + 2 + kVertical, 2);
    KernelSpec spec(sources::depthwise_join, "depthwise_join");
    spec.compute(c_.compute).define("UHAL_WIDE_INDEX", wide).dtype("RESULT", c_.filter.dtype);
    teams.define(spec);
    Arguments arguments;
    arguments.pointer(data_).pointer(c_.filter.data);
    members.append(arguments, wide);
    teams.append(arguments);
    return queue.run(spec, arguments, teams.grid(c_.groups * c_.taps()));
  }

 private:
  const Convolution& c_;
  int64_t parts_;
  uhal_dtype dtype_;
  void* data_ = nullptr;
};

void add_problem(Members& members, const Convolution& c, const DepthwiseTile& tile, int64_t count, int64_t tiles_y,
                 int64_t tiles_x, const Sums& sums) {
  members.add(count).add(c.groups).add(c.input + kVertical, 2).add(c.output + kVertical, 2);
  members.add(tile.y.first).add(tile.x.first).add(tiles_y).add(tiles_x);
  add_image(members, c.source);
  add_image(members, c.result);
  sums.add(members);
}

KernelSpec filter_spec(const Convolution& c, const char* entry, bool wide, bool last, const Sums& sums) {
  KernelSpec spec(sources::depthwise_filter, entry);
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide).define("CHANNELS_LAST", last);
  spec.dtype("GRADIENT", c.result.dtype).dtype("SOURCE", c.source.dtype).dtype("RESULT", sums.dtype());
  return spec;
}

uhal_status filter_gradient_of_channels(Queue& queue, const Convolution& c) {
  const bool wide = needs_wide_index(c);
  const int32_t group = team_group_size(queue.traits());
  int64_t unit;
  const DepthwiseTile tile = tile_of_channels(c, false, kSumsUnit, &unit);
  const Block block(c.groups / unit, kMostLanes, c.window[kVertical], group);
  const int64_t strips_x = ceiling(c.output[kHorizontal], kStrip);
  const int64_t strip = ceiling(ceiling(c.output[kHorizontal], strips_x), tile.x.count) * tile.x.count;
  const int64_t count = c.images * c.output[kVertical] * strips_x;
  const int64_t items = queue.traits().compute_units * kItemsOfUnit / 2;
  const int64_t parts = std::clamp<int64_t>(items / (block.blocks * group), 1,
                                            std::max<int64_t>(1, count / (block.slots * kLeastStrips)));
  Sums sums(c, parts);
  const uhal_status status = sums.take(queue);
  if (status != UHAL_OK) return status;

  Members members;
  add_problem(members, c, tile, count, c.output[kVertical], strips_x, sums);
  members.add(c.window[kVertical]).add(c.stride[kVertical]).add(block.lanes).add(block.slots).add(strip);
  KernelSpec spec = filter_spec(c, "depthwise_filter_of_channels", wide, true, sums);
  tile.define_columns(spec);
  spec.define("UNIT", unit).define("UHAL_GROUP", group);
  Arguments arguments;
  arguments.pointer(c.result.data).pointer(c.source.data).pointer(sums.data());
  members.append(arguments, wide);
  Grid grid;
  grid.groups[0] = parts;
  grid.groups[1] = block.blocks;
  grid.group_size[0] = group;
  const uhal_status run = queue.run(spec, arguments, grid);
  return run == UHAL_OK ? sums.join(queue, wide) : run;
}

uhal_status filter_gradient_of_planes(Queue& queue, const Convolution& c) {
  const bool wide = needs_wide_index(c);
  const int64_t unit = unit_of(c, c.result, c.output, 2 + kHorizontal);
  const DepthwiseTile tile = tile_of_planes(c, false, unit, c.output, kNarrowSumsTile);
  int64_t lead;
  const int64_t read = source_unit(c, tile, &lead);
  const int64_t tiles_y = ceiling(c.output[kVertical], tile.y.count),
                tiles_x = ceiling(c.output[kHorizontal], tile.x.count);
  const int64_t count = c.images * tiles_y * tiles_x;
  Teams teams(queue.traits());
  // Of a channel: as many as there is work for, and no more than its share of the device.
  const int64_t all = queue.traits().compute_units * kItemsOfUnit / (c.taps() > kFewTaps ? 2 : 1);
  const int64_t items = std::min(ceiling(all, c.groups), ceiling(count, kLeastTiles));
  teams.lanes = static_cast<int32_t>(std::min<int64_t>({teams.group, kTeam, power_of_two_from(items)}));
  const int64_t parts = std::max<int64_t>(1, items / teams.lanes);
  Sums sums(c, parts);
  const uhal_status status = sums.take(queue);
  if (status != UHAL_OK) return status;

  Members members;
  add_problem(members, c, tile, count, tiles_y, tiles_x, sums);
  for (int i = 0; i < 5; ++i) members.add(0);  // for channels that are last
  KernelSpec spec = filter_spec(c, "depthwise_filter_of_planes", wide, false, sums);
  tile.define_columns(spec);
  tile.define_rows(spec);
  spec.define("UNIT", read).define("LEAD", lead).define("GRADIENT_UNIT", unit);
  teams.define(spec);
  Arguments arguments;
  arguments.pointer(c.result.data).pointer(c.source.data).pointer(sums.data());
  members.append(arguments, wide);
  teams.append(arguments);
  const uhal_status run = queue.run(spec, arguments, teams.grid(c.groups * parts));
  return run == UHAL_OK ? sums.join(queue, wide) : run;
}

bool are_planes(const Convolution& c) { return is_planes(c.source, c.input) && is_planes(c.result, c.output); }

bool are_channels_last(const Convolution& c) {
  return c.groups > 1 && c.source.group_stride == 1 && c.result.group_stride == 1;
}

}  // namespace

bool takes_depthwise(const DeviceTraits& traits, const Convolution& c, Pass pass) {
  if (c.channels != 1 || c.rows != 1 || c.taps() == 0) return false;
  if (traits.max_group_size < kLeastGroup || traits.local_memory < kWeightBytes) return false;
  for (int i = 0; i < kVertical; ++i) {
    if (c.input[i] != 1 || c.output[i] != 1 || c.window[i] != 1 || c.first[i] != 0) return false;
  }
  for (int i : {kVertical, kHorizontal}) {
    // Of a source without pixels none can be read in another's place.
    if (c.input[i] == 0 || c.window[i] > kLongestWindow || c.stride[i] > kLargestStride) return false;
    if (c.window[i] > 1 && c.step[i] != 1) return false;
    // A window that skips pixels has none of the remainders' taps.
    if (pass == Pass::kBackwardData && c.window[i] < c.stride[i]) return false;
  }
  return are_planes(c) || are_channels_last(c);
}

bool suits_depthwise(const DeviceTraits& traits, const Convolution& c, Pass pass) {
  return !traits.is_cpu && takes_depthwise(traits, c, pass);
}

uhal_status convolve_depthwise(Queue& queue, const Convolution& convolution, Pass pass) {
  Convolution c = convolution;
  bool transposed = pass == Pass::kBackwardData;
  if (transposed && c.stride[kVertical] == 1 && c.stride[kHorizontal] == 1) {
    // Without a stride the gradient is a convolution by the filter back to front.
    int64_t taps = 0;
    for (int i : {kVertical, kHorizontal}) {
      c.first[i] = -(c.first[i] + c.window[i] - 1);
      taps += (c.window[i] - 1) * c.filter.strides[2 + i];
      c.filter.strides[2 + i] = -c.filter.strides[2 + i];
    }
    c.filter.data = static_cast<char*>(c.filter.data) + taps * dtype_size(c.filter.dtype);
    transposed = false;
  }
  note_implementation("depthwise");
  const bool last = !are_planes(c);
  if (pass == Pass::kBackwardFilter) {
    return last ? filter_gradient_of_channels(queue, c) : filter_gradient_of_planes(queue, c);
  }
  return last ? convolve_channels(queue, c, transposed) : convolve_planes(queue, c, transposed);
}

}  // namespace unihal::kernels
