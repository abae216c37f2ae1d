// Convolutions and maxima over windows of sparse tensors: of images (..., channels) whose pixels are elements.
//
// An element and a place of the window are a pair, which adds to one pixel of the result, or to none. Of all pairs the
// number of that pixel in the result is Paddle's "rulebook" here: (places of the window, elements), with the number
// after the last for none. What is combined per place is a dense product, and rows that are added up.
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/matrices.h"
#include "plugins/paddle/kernels/sparse_places.h"

namespace unihal::paddle {
namespace {

int64_t product_of_lengths(const Dims& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

// The axes between images and channels.
struct Window {
  Dims size, padding, dilation, stride, out;

  Window(const Context& context, const Dims& dims, Dims sizes, const Span<int>& paddings, const Span<int>& dilations,
         const Span<int>& strides, bool same_places)
      : size(std::move(sizes)) {
    const size_t axes = dims.size() - 2;
    for (const Span<int>* numbers : {&paddings, &dilations, &strides}) {
      if (static_cast<size_t>(numbers->size()) < axes) invalid(context, "paddings, dilations or strides are too few");
    }
    for (size_t i = 0; i < axes; ++i) {
      padding.push_back(same_places ? size[i] / 2 : paddings[i]);
      dilation.push_back(dilations[i]);
      stride.push_back(same_places ? 1 : strides[i]);
      if (stride[i] < 1 || dilation[i] < 1) invalid(context, "a stride or a dilation is less than 1");
      const int64_t room = dims[i + 1] + 2 * padding[i] - dilation[i] * (size[i] - 1) - 1;
      out.push_back(same_places ? dims[i + 1] : room < 0 ? 0 : room / stride[i] + 1);
    }
  }
  int64_t places() const { return product_of_lengths(size); }

  // Per place of the window, how far its pixel is from the first of the window along an axis.
  void write_offsets(const Context& context, size_t axis, const View& y) const {
    std::vector<int64_t> offsets;
    int64_t inner = 1;
    for (size_t i = axis + 1; i < size.size(); ++i) inner *= size[i];
    for (int64_t k = 0; k < places(); ++k) {
      offsets.push_back(padding[axis] - dilation[axis] * (k / inner % size[axis]));
    }
    const auto* bytes = reinterpret_cast<const char*>(offsets.data());
    upload(context, std::vector<char>(bytes, bytes + offsets.size() * sizeof(int64_t)), y);
  }
};

void require_images(const Context& context, const CooTensor& x) {
  const auto rank = static_cast<int64_t>(x.dims().size());
  if (x.indices().dim(0) != rank - 1 || x.values().rank() != 2) {
    unsupported(context, "a tensor whose last axis alone is not dense (make it with to_sparse_coo(" +
                             std::to_string(rank - 1) + "))");
  }
}

// Which pixel of the result each pair adds to, as a number in row-major order; `none` for none.
class Targets : public Scratch {
 public:
  Targets(const Context& context, const Coordinates& rows, const Window& window, int64_t images)
      : Scratch(context, UHAL_INT64, {window.places(), rows.shape[0]}), none_(images * product_of_lengths(window.out)) {
    const Dims dims = {shape[0], shape[1]};
    const Scratch valid(context, UHAL_BOOL, dims), part(context, UHAL_BOOL, dims), at(context, UHAL_INT64, dims),
        rest(context, UHAL_INT64, dims), offsets(context, UHAL_INT64, {shape[0], 1});
    const Constant zero(context, 0);
    fill(context, valid, 1, 1);
    copy_or_cast(context, rows.column(0), *this);
    for (size_t axis = 0; axis < window.size.size(); ++axis) {
      const View column = rows.column(static_cast<int64_t>(axis) + 1);
      const Constant stride(context, window.stride[axis]), length(context, window.out[axis]);
      window.write_offsets(context, axis, offsets);
      context.map(uhal_map_add, {&column, &offsets}, {&at});
      context.map(uhal_map_floor_mod, {&at, &stride}, {&rest});
      context.map(uhal_map_equal, {&rest, &zero}, {&part});
      context.map(uhal_map_logical_and, {&valid, &part}, {&valid});
      context.map(uhal_map_floor_divide, {&at, &stride}, {&at});
      context.map(uhal_map_greater_equal, {&at, &zero}, {&part});
      context.map(uhal_map_logical_and, {&valid, &part}, {&valid});
      context.map(uhal_map_less, {&at, &length}, {&part});
      context.map(uhal_map_logical_and, {&valid, &part}, {&valid});
      context.map(uhal_map_multiply, {this, &length}, {this});
      context.map(uhal_map_add, {this, &at}, {this});
    }
    const Constant nothing(context, none_);
    context.map(uhal_map_select, {&valid, this, &nothing}, {this});
  }
  int64_t none() const { return none_; }

 private:
  int64_t none_;
};

void search_sorted(const Context& context, const View& sorted, const View& values, const View& y) {
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  context.run(UHAL_OP_SEARCH_SORTED, {&sorted, &values}, {&y}, &attributes);
}

// Column i of y (count, axes) = the coordinate along axis i of pixels with these numbers.
void write_coordinates(const Context& context, const View& numbers, const Dims& lengths, const View& y) {
  if (numbers.shape[0] == 0) return;
  const Scratch rest(context, UHAL_INT64, numbers), part(context, UHAL_INT64, numbers);
  copy_or_cast(context, numbers, rest);
  for (size_t i = lengths.size(); i-- > 0;) {
    const Constant length(context, std::max<int64_t>(lengths[i], 1));
    View column = y.sliced(1, static_cast<int64_t>(i), 1);
    column.rank = 1;
    context.map(uhal_map_floor_mod, {&rest, &length}, {&part});
    copy_or_cast(context, part, column);
    context.map(uhal_map_floor_divide, {&rest, &length}, {&rest});
  }
}

// The rulebook, and the places of the result, which y gets. Returns how many those are.
int64_t write_rules(const Context& context, const CooTensor& x, const Window& window, bool same_places,
                    int64_t channels, Output rulebook, Output counter, const CooTensor& y) {
  const Dims dims = x.dims();
  const int64_t count = x.values().dim(0), places = window.places();
  Dims result = {dims[0]};
  result.insert(result.end(), window.out.begin(), window.out.end());
  const Dims pixels = result;
  result.push_back(channels);
  if (counter) fill_zero(context, allocate(context, counter, UHAL_INT32, {1}));
  const View rules = allocate(context, rulebook, UHAL_INT32, {places, count});
  const uhal_dtype dtype = x.indices().uhal();
  if (count == 0 && !same_places) {
    allocate(context, y.indices(), dtype, {static_cast<int64_t>(pixels.size()), 0});
    y.set(y.indices(), y.values(), result, true);
    return 0;
  }
  const Coordinates rows(context, x);
  if (same_places) {
    const View in = x.indices().view();
    copy(context, in, allocate(context, y.indices(), in.dtype, dims_of(in)));
    y.set(y.indices(), y.values(), result, x.is_coalesced());
    if (count == 0) return 0;
  }
  const Targets targets(context, rows, window, dims[0]);
  const Constant none(context, targets.none());
  // All numbers of pixels that have an element, in order, and behind them that of none.
  const int64_t listed = same_places ? count : targets.elements();
  const Scratch all(context, UHAL_INT64, {listed + 1, 1}), sorted(context, UHAL_INT64, {listed + 1, 1}),
      order(context, UHAL_INT64, {listed + 1});
  copy_or_cast(context, none, all.sliced(0, listed, 1));
  const View first = all.sliced(0, 0, listed);
  if (same_places) {
    View own = first;
    own.rank = 1;
    copy_or_cast(context, rows.column(0), own);
    for (size_t axis = 0; axis < window.out.size(); ++axis) {
      const Constant length(context, window.out[axis]);
      const View column = rows.column(static_cast<int64_t>(axis) + 1);
      context.map(uhal_map_multiply, {&own, &length}, {&own});
      context.map(uhal_map_add, {&own, &column}, {&own});
    }
  } else {
    copy_or_cast(context, targets.reshaped({listed, 1}), first);
  }
  sort_rows(context, all, order);
  take(context, all, order, sorted);
  if (same_places) {
    // Where the number is found the element that had it; the others are none.
    const Scratch at(context, UHAL_INT64, {places, count}), found(context, UHAL_INT64, {places, count});
    const Scratch equal(context, UHAL_BOOL, {places, count});
    const View numbers = sorted.reshaped({count + 1});
    search_sorted(context, numbers, targets, at);
    take(context, numbers, at, found);
    context.map(uhal_map_equal, {&found, &targets}, {&equal});
    take(context, order, at, found);
    const Constant last(context, count);
    context.map(uhal_map_select, {&equal, &found, &last}, {&found});
    copy_or_cast(context, found, rules);
    return count;
  }
  Groups groups(context, sorted);
  const View starts = groups.starts(context);
  const int64_t kept = starts.shape[0] - 1;
  const Scratch numbers(context, UHAL_INT64, {kept + 1});
  take(context, sorted.reshaped({listed + 1}), starts, numbers);
  search_sorted(context, numbers, targets, rules);
  const auto axes = static_cast<int64_t>(pixels.size());
  write_coordinates(context, numbers.sliced(0, 0, kept), pixels,
                    rows_of(allocate(context, y.indices(), dtype, {axes, kept})));
  y.set(y.indices(), y.values(), result, true);
  return kept;
}

View rules_of(const View& rulebook, int64_t place) {
  return rulebook.sliced(0, place, 1).reshaped({rulebook.shape[1]});
}

// x with a row of zeros behind it, for the pairs that add to none.
class Padded : public Scratch {
 public:
  Padded(const Context& context, const View& x) : Scratch(context, x.dtype, {x.shape[0] + 1, x.shape[1]}) {
    fill_zero(context, *this);
    copy(context, x, sliced(0, 0, x.shape[0]));
  }
};

void conv3d_coo(Context context, CooInput x, Input kernel, Span<int> paddings, Span<int> dilations, Span<int> strides,
                int groups, bool same_places, Text, CooOutput y, Output rulebook, Output counter) {
  require_images(context, x);
  const View weights = kernel.view(), in = x.values().view();
  const Dims dims = x.dims();
  require_same_dtype(context, in, weights);
  if (groups != 1) unsupported(context, "a convolution in groups");
  if (weights.rank != static_cast<int>(dims.size()) || weights.shape[weights.rank - 2] != in.shape[1]) {
    invalid(context, "the kernel is not (window..., channels, filters)");
  }
  const int64_t channels = in.shape[1], filters = weights.shape[weights.rank - 1], count = in.shape[0];
  const Window window(context, dims, Dims(weights.shape, weights.shape + weights.rank - 2), paddings, dilations,
                      strides, same_places);
  const int64_t kept = write_rules(context, x, window, same_places, filters, rulebook, counter, y);
  const View out = allocate(context, y.values(), in.dtype, {kept, filters});
  if (out.elements() == 0) return;
  const View rules = rulebook.view(), matrices = weights.reshaped({window.places(), channels, filters});
  const Scratch sums(context, in.dtype, {kept + 1, filters}), part(context, in.dtype, {count, filters});
  fill_zero(context, sums);
  auto add = index_attributes(0);
  add.reduction = UHAL_REDUCE_SUM;
  for (int64_t place = 0; place < window.places(); ++place) {
    multiply(context, in, matrices.sliced(0, place, 1).reshaped({channels, filters}), 1, part);
    const View at = rules_of(rules, place);
    context.run(UHAL_OP_SCATTER, {&at, &part}, {&sums}, &add);
  }
  copy_or_cast(context, sums.sliced(0, 0, kept), out);
}

void conv3d_coo_grad(Context context, CooInput x, Input kernel, CooInput, Input rulebook, Input, CooInput dy, Span<int>,
                     Span<int>, Span<int>, int, bool, Text, CooOutput dx, Output dkernel) {
  const View weights = kernel.view(), in = x.values().view(), rules = rulebook.view();
  const int64_t channels = in.shape[1], filters = weights.shape[weights.rank - 1], count = in.shape[0];
  const int64_t places = rules.shape[0];
  View of_x, of_weights;
  if (dx) {
    of_x = values_like(context, x, dx, in.dtype);
    fill_zero(context, of_x);
    share_places(x, dx);
  }
  if (dkernel) {
    of_weights = allocate(context, dkernel, weights.dtype, dims_of(weights));
    fill_zero(context, of_weights);
  }
  if (in.elements() == 0 || weights.elements() == 0) return;
  const Padded gradient(context, dy.values().view());
  const Scratch rows(context, in.dtype, {count, filters}), part(context, in.dtype, {count, channels});
  for (int64_t place = 0; place < places; ++place) {
    const auto matrix = [&](const View& all) {
      return all.reshaped({places, channels, filters}).sliced(0, place, 1).reshaped({channels, filters});
    };
    take(context, gradient, rules_of(rules, place), rows);
    if (dkernel) multiply(context, in.transposed(), rows, 1, matrix(of_weights));
    if (!dx) continue;
    multiply(context, rows, matrix(weights).transposed(), 1, part);
    context.map(uhal_map_add, {&of_x, &part}, {&of_x});
  }
}

// The largest of the elements that there are.
void maxpool_coo(Context context, CooInput x, Span<int> sizes, Span<int> paddings, Span<int> dilations,
                 Span<int> strides, CooOutput y, Output rulebook, Output counter) {
  require_images(context, x);
  const View in = x.values().view();
  const Dims dims = x.dims();
  if (static_cast<size_t>(sizes.size()) + 2 != dims.size()) {
    invalid(context, "kernel_sizes has not a number for each axis");
  }
  const Window window(context, dims, Dims(sizes.begin(), sizes.end()), paddings, dilations, strides, false);
  const int64_t kept = write_rules(context, x, window, false, dims.back(), rulebook, counter, y);
  const View out = allocate(context, y.values(), in.dtype, {kept, in.shape[1]});
  if (out.elements() == 0) return;
  const View rules = rulebook.view();
  const Scratch largest(context, in.dtype, {kept + 1, in.shape[1]}), elements(context, UHAL_INT32, {rules.elements()}),
      one(context, UHAL_INT32, {rules.shape[1]});
  count_up(context, one);
  copy_or_cast(context, one, elements.reshaped({rules.shape[0], rules.shape[1]}));
  const View at = rules.reshaped({rules.elements()});
  auto maximum = summed();
  maximum.reduction = UHAL_REDUCE_MAXIMUM;
  context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &at, &elements}, {&largest}, &maximum);
  copy_or_cast(context, largest.sliced(0, 0, kept), out);
}

// Each element that equals a maximum has its gradient, as on the CPU.
void maxpool_coo_grad(Context context, CooInput x, Input rulebook, Input, CooInput y, CooInput dy, Span<int>,
                      CooOutput dx) {
  const View in = x.values().view(), rules = rulebook.view(), out = values_like(context, x, dx, in.dtype);
  share_places(x, dx);
  fill_zero(context, out);
  if (out.elements() == 0) return;
  const Padded largest(context, y.values().view()), gradient(context, dy.values().view());
  const Scratch value(context, in.dtype, in), share(context, in.dtype, in), equal(context, UHAL_BOOL, in);
  for (int64_t place = 0; place < rules.shape[0]; ++place) {
    const View at = rules_of(rules, place);
    take(context, largest, at, value);
    take(context, gradient, at, share);
    context.map(uhal_map_equal, {&in, &value}, {&equal});
    context.map(uhal_map_multiply, {&share, &equal}, {&share});
    context.map(uhal_map_add, {&out, &share}, {&out});
  }
}

}  // namespace

KernelTable sparse_convolution_kernels() {
  return {
      UNIHAL_KERNEL("conv3d_coo", kWideFloats, conv3d_coo),
      UNIHAL_KERNEL("conv3d_coo_grad", kWideFloats, conv3d_coo_grad),
      UNIHAL_KERNEL("maxpool_coo", kWideFloats, maxpool_coo),
      UNIHAL_KERNEL("maxpool_coo_grad", kWideFloats, maxpool_coo_grad),
  };
}

}  // namespace unihal::paddle
