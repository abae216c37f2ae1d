// UHAL_OP_COPY and UHAL_OP_CAST between strided views.

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/complex_parts.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/views.h"
#include "csrc/tables/elementwise.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kTo = 0;
constexpr int kFrom = 1;

constexpr int64_t kTile = 32;        // source/copy.cl
constexpr int64_t kShortest = 16;    // rows or columns for which half of a tile may stay empty
constexpr int64_t kWidestUnit = 16;  // bytes
constexpr int64_t kShortestRun = 256;
constexpr int64_t kLongestJoined = int64_t{4} << 20;  // bytes: more takes much longer than a launch
constexpr int kBlockAxes = 3;                         // source/copy.cl
constexpr int64_t kLargestBlock = 16;  // with more zeros than that a work-item writes for long, and there are few

// The block of y that `spread` writes for an element of x: strides in elements.
struct Spread {
  int axes = 0;
  int64_t lengths[kBlockAxes] = {1, 1, 1};
  int64_t strides[kBlockAxes] = {};
};

// Makes one element of several where both sides hold them side by side; returns the element's size.
int64_t widen(Space& space, int64_t size, const void* to, const void* from, Spread* spread = nullptr) {
  const int last = space.rank - 1;
  if (space.strides[kTo][last] != 1 || space.strides[kFrom][last] != 1) return size;
  const uintptr_t addresses = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  for (int64_t unit = kWidestUnit; unit > size; unit /= 2) {
    const int64_t factor = unit / size;
    bool fits = addresses % static_cast<uintptr_t>(unit) == 0 && space.shape[last] % factor == 0;
    for (int i = 0; fits && i < last; ++i) {
      fits = space.strides[kTo][i] % factor == 0 && space.strides[kFrom][i] % factor == 0;
    }
    for (int i = 0; fits && spread != nullptr && i < spread->axes; ++i) fits = spread->strides[i] % factor == 0;
    if (!fits) continue;
    for (int i = 0; spread != nullptr && i < spread->axes; ++i) spread->strides[i] /= factor;
    space.shape[last] /= factor;
    space.count /= factor;
    for (int i = 0; i < last; ++i) {
      space.strides[kTo][i] /= factor;
      space.strides[kFrom][i] /= factor;
    }
    return unit;
  }
  return size;
}

// The axis along which `from` is adjacent while `to` is adjacent along the last one; -1 if there is no such pair.
int transposed_axis(const Space& space) {
  const int last = space.rank - 1;
  if (space.strides[kTo][last] != 1 || std::abs(space.strides[kFrom][last]) < 2) return -1;
  if (space.shape[last] < kShortest) return -1;
  for (int i = last - 1; i >= 0; --i) {
    if (space.strides[kFrom][i] == 1 && space.shape[i] >= kShortest) return i;
  }
  return -1;
}

uhal_status copy_transposed(Queue& queue, const Space& space, int axis, int64_t size, void* to, const void* from) {
  const int last = space.rank - 1;
  Space others;
  others.operands = 2;
  for (int i = 0; i < last; ++i) {
    if (i == axis) continue;
    others.shape[others.rank] = space.shape[i];
    others.count *= space.shape[i];
    for (int k = 0; k < 2; ++k) others.strides[k][others.rank] = space.strides[k][i];
    ++others.rank;
  }
  LayoutKind kind = layout_kind(others);
  kind.wide |= layout_kind(space).wide;
  const int32_t group = queue.traits().max_group_size >= 256 ? 256 : static_cast<int32_t>(kTile);
  KernelSpec spec(sources::copy, "transpose");
  spec.define("UHAL_SIZE", size).define("UHAL_TRANSPOSE", 1).define("UHAL_GROUP", group);
  kind.define(spec);
  const int64_t rows = space.shape[axis];
  const int64_t columns = space.shape[last];
  const int64_t row_tiles = (rows + kTile - 1) / kTile;
  const int64_t column_tiles = (columns + kTile - 1) / kTile;
  Arguments arguments;
  arguments.pointer(to).pointer(from);
  append_layout(arguments, others, kind);
  for (const int64_t value :
       {rows, columns, space.strides[kTo][axis], space.strides[kFrom][last], row_tiles, column_tiles}) {
    append_index(arguments, value, kind.wide);
  }
  Grid grid;
  grid.groups[0] = row_tiles * column_tiles * others.count;
  grid.group_size[0] = group;
  return queue.run(spec, arguments, grid);
}

// Whether what lies side by side on both sides is long enough to be moved in pieces of 16 bytes, wherever it begins.
bool has_long_runs(const Space& space, int64_t unit) {
  const int last = space.rank - 1;
  return last > 0 && unit < kWidestUnit && space.strides[kTo][last] == 1 && space.strides[kFrom][last] == 1 &&
         space.shape[last] * unit >= kShortestRun;
}

uhal_status copy_runs(Queue& queue, const Space& space, int64_t unit, void* to, const void* from) {
  const int last = space.rank - 1;
  Space others = space;
  --others.rank;
  others.count /= space.shape[last];
  const int64_t bytes = space.shape[last] * unit;
  const int64_t pieces = bytes / kWidestUnit + 2;  // one more for each end
  LayoutKind kind = layout_kind(others);
  kind.wide |= layout_kind(space).wide || !fits_32_bits(bytes) || !fits_32_bits(others.count * pieces);
  KernelSpec spec(sources::copy, "runs");
  spec.define("UHAL_SIZE", unit).define("UHAL_RUNS", 1);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(to).pointer(from);
  append_layout(arguments, others, kind);
  for (const int64_t value : {bytes, pieces, others.count * pieces}) append_index(arguments, value, kind.wide);
  for (const void* address : {static_cast<const void*>(to), from}) {
    arguments.int32(static_cast<int32_t>(reinterpret_cast<uintptr_t>(address) % kWidestUnit));
  }
  return queue.run(spec, arguments, linear_grid(others.count * pieces, std::min(256, queue.traits().max_group_size)));
}

// The struct Members of source/copy.cl.
struct JoinedMembers {
  uint64_t to[kMostJoinedCopies] = {};
  uint64_t from[kMostJoinedCopies] = {};
  int32_t count[kMostJoinedCopies] = {};
  int32_t columns[kMostJoinedCopies] = {};
  int32_t to_pitch[kMostJoinedCopies] = {};
  int32_t from_pitch[kMostJoinedCopies] = {};
  int32_t first[kMostJoinedCopies] = {};
};
static_assert(sizeof(JoinedMembers) + 32 <= Arguments::kMaxBytes);

uhal_status copy_strided(Queue& queue, Space& space, int64_t size, void* to, const void* from) {
  const int64_t unit = widen(space, size, to, from);
  if (has_long_runs(space, unit)) return copy_runs(queue, space, unit, to, from);
  const LayoutKind kind = layout_kind(space);
  KernelSpec spec(sources::copy, "strided");
  spec.define("UHAL_SIZE", unit);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(to).pointer(from);
  append_layout(arguments, space, kind);
  append_index(arguments, space.count, kind.wide);
  return queue.run(spec, arguments, linear_grid(space.count, std::min(256, queue.traits().max_group_size)));
}

bool same_view(const uhal_tensor& x, const uhal_tensor& y) {
  if (x.data != y.data || x.rank != y.rank) return false;
  for (int i = 0; i < x.rank; ++i) {
    if (x.shape[i] != y.shape[i] || (x.shape[i] > 1 && x.strides[i] != y.strides[i])) return false;
  }
  return true;
}

// The map `identity`: in the type that it computes with, which holds all values of either dtype that the other could
// tell apart, a value is rounded once.
MapChain identity(const uhal_tensor& x, const uhal_tensor& y) {
  MapChain chain;
  const int from = chain.input(x);
  chain.output(chain.step(uhal_map_identity, {from}), y);
  return chain;
}

uhal_status cast_real(Queue& queue, const uhal_tensor& x, const uhal_tensor& y, MapPlan* kept = nullptr) {
  return run_map_chain(queue, identity(x, y), kept);
}

bool is_real_cast(const uhal_tensor& x, const uhal_tensor& y) {
  return x.dtype != y.dtype && !is_complex(x.dtype) && !is_complex(y.dtype);
}

}  // namespace

bool needs_halves(const uhal_tensor& view) {
  return dtype_size(view.dtype) == kWidestUnit && reinterpret_cast<uintptr_t>(view.data) % kWidestUnit != 0;
}

uhal_tensor half(const uhal_tensor& view, int index) { return part(view, index != 0); }

uhal_status copy_views(Queue& queue, const uhal_tensor& x, const uhal_tensor& y) {
  const uhal_tensor* views[] = {&y, &x};
  Space space = make_space(views, 2);
  const int64_t size = dtype_size(y.dtype);
  if (space.count == 0 || same_view(x, y)) return UHAL_OK;
  if (space.dense(kTo) && space.dense(kFrom)) {
    return queue.copy(y.data, x.data, static_cast<size_t>(space.count * size));
  }
  if (needs_halves(x) || needs_halves(y)) {
    const uhal_status status = copy_views(queue, half(x, 0), half(y, 0));
    return status != UHAL_OK ? status : copy_views(queue, half(x, 1), half(y, 1));
  }
  // A group of the kernel has a work-item for each column of a tile, at least.
  const int axis = queue.traits().max_group_size >= kTile ? transposed_axis(space) : -1;
  return axis >= 0 ? copy_transposed(queue, space, axis, size, y.data, x.data)
                   : copy_strided(queue, space, size, y.data, x.data);
}

bool as_row_copy(const uhal_tensor& x, const uhal_tensor& y, RowCopy* copy) {
  const uhal_tensor* views[] = {&y, &x};
  Space space = make_space(views, 2);
  const int64_t size = dtype_size(y.dtype);
  if (space.count == 0 || space.count * size > kLongestJoined || space.rank > 2 || same_view(x, y)) return false;
  if (needs_halves(x) || needs_halves(y)) return false;
  const int last = space.rank - 1;
  if (space.strides[kTo][last] != 1 || space.strides[kFrom][last] != 1) return false;
  copy->unit = widen(space, size, y.data, x.data);
  if (has_long_runs(space, copy->unit)) return false;
  const bool has_rows = last > 0;
  copy->to = y.data;
  copy->from = x.data;
  copy->rows = has_rows ? space.shape[0] : 1;
  copy->columns = space.shape[last];
  copy->to_pitch = has_rows ? space.strides[kTo][0] : 0;
  copy->from_pitch = has_rows ? space.strides[kFrom][0] : 0;
  return copy->to_pitch >= 0 && copy->from_pitch >= 0 && fits_32_bits(copy->to_pitch) && fits_32_bits(copy->from_pitch);
}

bool joins_copies(const DeviceTraits& traits) {
  return traits.takes_addresses && traits.max_parameters >= static_cast<int64_t>(sizeof(JoinedMembers)) + 32;
}

uhal_status run_joined_copies(Queue& queue, const RowCopy* copies, int count) {
  constexpr int32_t kGroup = 256;
  JoinedMembers members;
  int64_t items = 0;
  for (int i = 0; i < count; ++i) {
    const RowCopy& copy = copies[i];
    members.to[i] = reinterpret_cast<uintptr_t>(copy.to);
    members.from[i] = reinterpret_cast<uintptr_t>(copy.from);
    members.count[i] = static_cast<int32_t>(copy.rows * copy.columns);
    members.columns[i] = static_cast<int32_t>(copy.columns);
    members.to_pitch[i] = static_cast<int32_t>(copy.to_pitch);
    members.from_pitch[i] = static_cast<int32_t>(copy.from_pitch);
    members.first[i] = static_cast<int32_t>(items);
    // Each begins a work-group, whose items then read one member.
    items += (copy.rows * copy.columns + kGroup - 1) / kGroup * kGroup;
  }
  KernelSpec spec(sources::copy, "joined");
  spec.define("UHAL_SIZE", copies[0].unit).define("UHAL_JOINED", 1).define("UHAL_MEMBERS", kMostJoinedCopies);
  spec.define("UHAL_WIDE_INDEX", 0).define("UHAL_RANK", 1);
  Arguments arguments;
  arguments.value_of(members).int32(count);
  return queue.run(spec, arguments, linear_grid(items, std::min(kGroup, queue.traits().max_group_size), INT64_MAX));
}

uhal_status spread_view(Queue& queue, const uhal_tensor& x, const uhal_tensor& y, const int64_t* every) {
  uhal_tensor taken = y;  // what x goes to
  Spread spread;
  bool fits = true;  // whole blocks, and small ones
  int64_t block = 1;
  for (int i = 0; i < y.rank; ++i) {
    if (every[i] == 1) continue;
    taken.shape[i] = x.shape[i];
    taken.strides[i] *= every[i];
    fits = fits && y.shape[i] % every[i] == 0 && spread.axes < kBlockAxes && every[i] <= kLargestBlock / block;
    if (!fits) continue;
    block *= every[i];
    spread.lengths[spread.axes] = every[i];
    spread.strides[spread.axes++] = y.strides[i];
  }
  if (!fits || needs_halves(x) || needs_halves(y)) {
    const uhal_status status = fill_view(queue, 0, 0, y);
    return status == UHAL_OK ? copy_views(queue, x, taken) : status;
  }
  const uhal_tensor* const all = &y;
  LayoutKind kind = layout_kind(make_space(&all, 1));
  const uhal_tensor* views[] = {&taken, &x};
  Space space = make_space(views, 2);
  if (space.count == 0) return UHAL_OK;
  const int64_t unit = widen(space, dtype_size(y.dtype), y.data, x.data, &spread);
  kind = widest(kind, layout_kind(space));
  KernelSpec spec(sources::copy, "spread");
  spec.define("UHAL_SIZE", unit).define("UHAL_SPREAD", 1);
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(y.data).pointer(x.data).bytes(ElementBytes{}.bytes, static_cast<size_t>(unit));
  append_layout(arguments, space, kind);
  for (const int64_t value : spread.lengths) append_index(arguments, value, kind.wide);
  for (const int64_t value : spread.strides) append_index(arguments, value, kind.wide);
  append_index(arguments, space.count, kind.wide);
  return queue.run(spec, arguments, linear_grid(space.count, std::min(256, queue.traits().max_group_size)));
}

uhal_status cast_views(Queue& queue, const uhal_tensor& x, const uhal_tensor& y) {
  if (x.dtype == y.dtype) return copy_views(queue, x, y);
  if (is_real_cast(x, y)) return cast_real(queue, x, y);
  const uhal_tensor real = is_complex(x.dtype) ? part(x, false) : x;
  if (!is_complex(y.dtype)) return cast_views(queue, real, y);
  const uhal_status status = cast_views(queue, real, part(y, false));
  if (status != UHAL_OK) return status;
  return is_complex(x.dtype) ? cast_views(queue, part(x, true), part(y, true)) : fill_view(queue, 0, 0, part(y, true));
}

const char* refuse_copy(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_copy(Queue& queue, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  return is_real_cast(x, y) ? cast_real(queue, x, y, queue.map_plans().make_room(op)) : cast_views(queue, x, y);
}

}  // namespace unihal::kernels
