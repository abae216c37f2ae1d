// Padding, diagonals, windows and shuffles: copies between views, and sums of them.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/paddle/kernels/diagonal.h"
#include "plugins/paddle/kernels/spatial.h"
#include "plugins/paddle/kernels/windows.h"

namespace unihal::paddle {
namespace {

constexpr DtypeSet kUsual = kFloats | kInt32And64 | kComplex;

void copy_if_any(const Context& context, const View& x, const View& y) {
  if (y.elements() > 0) context.run(UHAL_OP_COPY, {&x}, {&y});
}

void add_into(const Context& context, const View& x, const View& y) {
  if (y.elements() > 0) context.map(uhal_map_add, {&y, &x}, {&y});
}

// Where many terms meet in one element of a narrow dtype they are added up in float32.
uhal_dtype sum_dtype(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16 ? static_cast<uhal_dtype>(UHAL_FLOAT32) : dtype;
}

// y in the dtype of sums, from zero; stored at the end.
class Sum {
 public:
  Sum(const Context& context, const View& y) : context_(context), y_(y), sum_(y) {
    if (sum_dtype(y.dtype) != y.dtype) sum_ = wide_.emplace(context, sum_dtype(y.dtype), y);
    fill_zero(context, sum_);
  }
  const View& view() const { return sum_; }
  void store() const {
    if (wide_) copy_or_cast(context_, sum_, y_);
  }

 private:
  const Context& context_;
  View y_, sum_;
  std::optional<Scratch> wide_;
};

// -- pad3d

// Elements of an axis of y that come from consecutive ones of x: `step` is 1, -1 or 0.
struct Run {
  int64_t from, to, length, step;
};

// Which elements x[i] the padded axis consists of, in the order of y. A negative padding cuts.
template <class Source>
std::vector<Run> runs_of(int64_t before, int64_t padded, Source source) {
  std::vector<Run> runs;
  for (int64_t i = 0; i < padded; ++i) {
    const int64_t from = source(i - before);
    if (!runs.empty()) {
      Run& last = runs.back();
      const int64_t step = from - (last.from + (last.length - 1) * last.step);
      if (last.length == 1 && step >= -1 && step <= 1) last.step = step;
      if (step == last.step && step >= -1 && step <= 1) {
        ++last.length;
        continue;
      }
    }
    runs.push_back({from, i, 1, 1});
  }
  return runs;
}

struct AxisPadding {
  int axis;
  int64_t before, after;
};

std::vector<Run> runs_of(const char* mode, const AxisPadding& padding, int64_t size) {
  const int64_t padded = size + padding.before + padding.after;
  if (std::strcmp(mode, "reflect") == 0) {
    return runs_of(padding.before, padded, [size](int64_t i) {
      i = std::max(i, -i);
      return std::min(i, 2 * size - i - 2);
    });
  }
  if (std::strcmp(mode, "replicate") == 0) {
    return runs_of(padding.before, padded, [size](int64_t i) { return std::min(size - 1, std::max<int64_t>(i, 0)); });
  }
  return runs_of(padding.before, padded, [size](int64_t i) { return (i % size + size) % size; });
}

View run_of(const View& x, int axis, const Run& run) {
  View part = x.sliced(axis, run.from, run.length, run.step == 0 ? 1 : run.step);
  if (run.step == 0) part.strides[axis] = 0;
  return part;
}

struct Padding {
  AxisPadding axes[3];  // depth, height, width
  View shape;           // of the result

  Padding(const Context& context, const View& x, const Integers& numbers, Text mode, Text data_format) : shape(x) {
    if (x.rank != 5 || numbers.size() != 6) {
      invalid(context, "x has rank " + std::to_string(x.rank) + " and there are " + std::to_string(numbers.size()) +
                           " paddings, expected 5 and 6");
    }
    const int first = channels_last(data_format) ? 1 : 2;
    const bool reflected = std::strcmp(mode.value, "reflect") == 0;
    const bool constant = std::strcmp(mode.value, "constant") == 0;
    if (!constant && !reflected && std::strcmp(mode.value, "replicate") != 0 &&
        std::strcmp(mode.value, "circular") != 0) {
      invalid(context,
              std::string("the mode \"") + mode.value + "\" is not one of constant, reflect, replicate, circular");
    }
    for (int i = 0; i < 3; ++i) {  // Paddle names the last axis first
      axes[i] = {first + i, numbers[2 * (2 - i)], numbers[2 * (2 - i) + 1]};
      const int64_t size = x.shape[first + i];
      if (reflected && (size <= axes[i].before || size <= axes[i].after)) {
        invalid(context, "an axis of " + std::to_string(size) + " elements is too short to be reflected by " +
                             std::to_string(axes[i].before) + " and " + std::to_string(axes[i].after));
      }
      shape.shape[first + i] = size + axes[i].before + axes[i].after;
      if (!constant && size == 0) invalid(context, "there is nothing that an empty axis could be padded with");
    }
  }

  // The common part of x and of y, which may be cut.
  std::pair<View, View> inside(View x, View y) const {
    for (const AxisPadding& axis : axes) {
      const int64_t cut = std::max<int64_t>(0, -axis.before), start = std::max<int64_t>(0, axis.before);
      const int64_t length = x.shape[axis.axis] - cut - std::max<int64_t>(0, -axis.after);
      x = x.sliced(axis.axis, length > 0 ? cut : 0, std::max<int64_t>(length, 0));
      y = y.sliced(axis.axis, length > 0 ? start : 0, std::max<int64_t>(length, 0));
    }
    return {x, y};
  }
};

// Until Paddle 3.2 the value is float32.
template <class Number>
void pad3d(Context context, Input x, Integers paddings, Text mode, Number value, Text data_format, Output y) {
  const View in = x.view();
  const Padding padding(context, in, paddings, mode, data_format);
  const View out = context.allocate(y, in.dtype, padding.shape.shape, 5);
  if (std::strcmp(mode.value, "constant") == 0) {
    fill(context, out, static_cast<double>(value), static_cast<int64_t>(value));
    const auto [from, to] = padding.inside(in, out);
    return copy_if_any(context, from, to);
  }
  // An axis at a time; the last writes the output.
  View from = in, shape = in;
  std::optional<Scratch> parts[2];
  for (int i = 0; i < 3; ++i) {
    const AxisPadding& axis = padding.axes[i];
    shape.shape[axis.axis] = padding.shape.shape[axis.axis];
    const View to = i == 2 ? out : static_cast<const View&>(parts[i].emplace(context, in.dtype, shape));
    for (const Run& run : runs_of(mode.value, axis, in.shape[axis.axis])) {
      copy_if_any(context, run_of(from, axis.axis, run), to.sliced(axis.axis, run.to, run.length));
    }
    from = to;
  }
}

// Each element of dx has the sum of what was made from it.
template <class Number>
void pad3d_grad(Context context, Input x, Input dy, Integers paddings, Text mode, Number, Text data_format, Output dx) {
  const View gradient = dy.view();
  const Padding padding(context, x.shape_only(), paddings, mode, data_format);
  const View out = context.allocate(dx, gradient.dtype);
  if (std::strcmp(mode.value, "constant") == 0) {
    fill_zero(context, out);
    const auto [to, from] = padding.inside(out, gradient);
    return copy_if_any(context, from, to);
  }
  View from = gradient, shape = gradient;
  std::optional<Scratch> parts[2];
  for (int i = 2; i >= 0; --i) {
    const int axis = padding.axes[i].axis;
    shape.shape[axis] = out.shape[axis];
    const View target =
        i == 0 ? out : static_cast<const View&>(parts[i - 1].emplace(context, sum_dtype(out.dtype), shape));
    const Sum sum(context, target);
    for (const Run& run : runs_of(mode.value, padding.axes[i], out.shape[axis])) {
      const View part = from.sliced(axis, run.to, run.length);
      if (run.step != 0) {
        add_into(context, part, run_of(sum.view(), axis, run));
        continue;
      }
      const View element = sum.view().sliced(axis, run.from, 1);
      const Scratch total(context, element.dtype, element);
      sum_to_shape(context, part, total);
      add_into(context, total, element);
    }
    sum.store();
    from = target;
  }
}

// -- broadcasting

void broadcast_tensors(Context context, InputList x, OutputList y) {
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i]) copy_if_any(context, x[i].view(), context.allocate(y[i], x[i].uhal()));
  }
}
void broadcast_tensors_grad(Context context, InputList, InputList dy, OutputList dx) {
  for (size_t i = 0; i < dx.size(); ++i) {
    if (dx[i]) sum_to_shape(context, dy[i].view(), context.allocate(dx[i], dy[i].uhal()));
  }
}

// Vector i, or a scalar, lies along axis i.
View along_axis(const View& x, size_t axis, size_t rank) {
  int64_t dims[UHAL_MAX_RANK];
  std::fill_n(dims, rank, 1);
  dims[axis] = x.elements();
  return x.reshaped(dims, static_cast<int>(rank));
}
void require_rank(const Context& context, size_t rank) {
  if (rank > UHAL_MAX_RANK) unsupported(context, "rank " + std::to_string(rank));
}
void meshgrid(Context context, InputList x, OutputList y) {
  require_rank(context, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i].rank() > 1) invalid(context, "an operand has rank " + std::to_string(x[i].rank()) + ", expected 0 or 1");
  }
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i]) copy_if_any(context, along_axis(x[i].view(), i, x.size()), context.allocate(y[i], x[i].uhal()));
  }
}
void meshgrid_grad(Context context, InputList x, InputList dy, OutputList dx) {
  require_rank(context, x.size());
  for (size_t i = 0; i < dx.size(); ++i) {
    if (!dx[i]) continue;
    const View out = context.allocate(dx[i], dy[i].uhal());
    sum_to_shape(context, dy[i].view(), along_axis(out, i, x.size()));
  }
}

void reduce_as(Context context, Input x, Input, Output y) {
  const View in = x.view(), out = context.allocate(y, y.uhal());  // integers become int64
  const int extra = std::max(out.rank - in.rank, 0);
  for (int axis = 0; axis < extra; ++axis) {
    if (out.shape[axis] != 1) {
      raise(UHAL_INVALID_ARGUMENT, "(unihal) reduce_as: the target has more axes than x, of other lengths than 1");
    }
  }
  sum_to_shape(context, in, out.reshaped(out.shape + extra, out.rank - extra));
}
void reduce_as_grad(Context context, Input, Input, Input dy, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  const int extra = std::max(gradient.rank - out.rank, 0);
  copy_if_any(context, gradient.reshaped(gradient.shape + extra, gradient.rank - extra), out);
}

// Each element, or row, `repeats` times.
View with_repeats(const View& y, int axis, int64_t repeats) {
  std::vector<int64_t> dims(y.shape, y.shape + y.rank);
  dims[axis] = repeats == 0 ? 0 : dims[axis] / repeats;
  dims.insert(dims.begin() + axis + 1, repeats);
  return y.reshaped(dims);
}
void repeat_interleave_by_number(Context context, Input x, int repeats, int axis, int64_t, Output y) {
  const View in = x.rank() == 0 ? flat(x.view()) : x.view();
  const int along = from_front(axis, in.rank);
  if (repeats < 0) invalid(context, "an element is to be repeated " + std::to_string(repeats) + " times");
  require_rank(context, in.rank + 1);
  const View out = context.allocate(y, in.dtype);
  copy_if_any(context, in.unsqueezed(along + 1), with_repeats(out, along, repeats));
}
void repeat_interleave_by_number_grad(Context context, Input x, Input dy, int repeats, int axis, int64_t, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  const View to = out.rank == 0 ? flat(out) : out;
  const int along = from_front(axis, to.rank);
  require_rank(context, x.rank() + 1);
  sum_to_shape(context, with_repeats(gradient, along, repeats), to.unsqueezed(along + 1));
}

// Until Paddle 3.1 without the size of the result.
void repeat_interleave_unsized(Context context, Input x, int repeats, int axis, Output y) {
  repeat_interleave_by_number(context, x, repeats, axis, 0, y);
}
void repeat_interleave_grad_unsized(Context context, Input x, Input dy, int repeats, int axis, Output dx) {
  repeat_interleave_by_number_grad(context, x, dy, repeats, axis, 0, dx);
}

// The index along an axis that each of the results comes from: where the sum of repeats passes its number. The results
// are as many as that sum, which the host has to know.
class RepeatedIndices {
 public:
  RepeatedIndices(const Context& context, const View& repeats, int64_t length) {
    if (repeats.rank != 1 || repeats.shape[0] != length) {
      invalid(context, "there are " + std::to_string(repeats.elements()) + " repeats for an axis of length " +
                           std::to_string(length));
    }
    int64_t count = 0;
    const Scratch sums(context, UHAL_INT64, repeats);
    if (length > 0) {
      const Scratch wide(context, UHAL_INT64, repeats), least(context, UHAL_INT64, kOne, 1);
      copy_or_cast(context, repeats, wide);
      const auto minimum = reduce_attributes(UHAL_REDUCE_MINIMUM);
      context.run(UHAL_OP_REDUCE, {&wide}, {&least}, &minimum);
      const double smallest = read_number(context, least);
      if (smallest < 0) invalid(context, "an element is to be repeated " + std::to_string(smallest) + " times");
      uhal_scan_attributes scan = {};
      scan.struct_size = sizeof scan;
      scan.reduction = UHAL_REDUCE_SUM;
      context.run(UHAL_OP_SCAN, {&wide}, {&sums}, &scan);
      count = static_cast<int64_t>(read_number(context, sums.sliced(0, length - 1, 1)));
    }
    indices_.emplace(context, UHAL_INT64, &count, 1);
    if (count == 0) return;
    const Scratch numbers(context, UHAL_INT64, &count, 1);
    count_up(context, numbers);
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    search.right = 1;
    context.run(UHAL_OP_SEARCH_SORTED, {&sums, &numbers}, {&*indices_}, &search);
  }

  const View& view() const { return *indices_; }

 private:
  static constexpr int64_t kOne[] = {1};
  std::optional<Scratch> indices_;
};

void repeat_interleave_by_tensor(Context context, Input x, Input repeats, int axis, int64_t, Output y) {
  const View in = x.rank() == 0 ? flat(x.view()) : x.view();
  const int along = from_front(axis, in.rank);
  const RepeatedIndices indices(context, repeats.view(), in.shape[along]);
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) dims[i] = i == along ? indices.view().shape[0] : in.shape[i];
  const View out = context.allocate(y, in.dtype, dims, in.rank);
  if (out.elements() == 0) return;
  const auto attributes = index_attributes(along);
  context.run(UHAL_OP_GATHER, {&in, &indices.view()}, {&out}, &attributes);
}
void repeat_interleave_by_tensor_grad(Context context, Input, Input repeats, Input dy, int axis, int64_t, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  const View to = out.rank == 0 ? flat(out) : out;
  const int along = from_front(axis, to.rank);
  fill_zero(context, to);
  const RepeatedIndices indices(context, repeats.view(), to.shape[along]);
  if (gradient.elements() == 0) return;
  auto attributes = index_attributes(along);
  attributes.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SCATTER, {&indices.view(), &gradient}, {&to}, &attributes);
}
void repeat_interleave_by_tensor_unsized(Context context, Input x, Input repeats, int axis, Output y) {
  repeat_interleave_by_tensor(context, x, repeats, axis, 0, y);
}
void repeat_interleave_by_tensor_grad_unsized(Context context, Input x, Input repeats, Input dy, int axis, Output dx) {
  repeat_interleave_by_tensor_grad(context, x, repeats, dy, axis, 0, dx);
}

// -- diagonals

// A vector becomes a matrix with it as diagonal, of a matrix the diagonal is taken.
void diag(Context context, Input x, int offset, float padding, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (in.rank == 2) return copy_if_any(context, diagonal_of(in, offset, 0, 1), out);
  fill(context, out, static_cast<double>(padding), static_cast<int64_t>(padding));
  copy_if_any(context, flat(in), diagonal_of(out, offset, 0, 1));
}
void diag_grad(Context context, Input x, Input dy, int offset, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  if (x.rank() < 2) return copy_if_any(context, diagonal_of(gradient, offset, 0, 1), flat(out));
  fill_zero(context, out);
  copy_if_any(context, gradient, diagonal_of(out, offset, 0, 1));
}

void diagonal(Context context, Input x, int offset, int first, int second, Output y) {
  const View in = x.view();
  copy_if_any(context, diagonal_of(in, offset, first, second), context.allocate(y, in.dtype));
}
void diagonal_grad(Context context, Input, Input dy, int offset, int first, int second, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  copy_if_any(context, gradient, diagonal_of(out, offset, first, second));
}
void diag_embed(Context context, Input x, int offset, int first, int second, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  fill_zero(context, out);
  copy_if_any(context, in, diagonal_of(out, offset, first, second));
}

void trace(Context context, Input x, int offset, int first, int second, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const View diagonal = diagonal_of(in, offset, first, second);
  if (diagonal.elements() == 0) return fill_zero(context, out);
  const View sum = out.unsqueezed(out.rank);
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&diagonal}, {&sum}, &attributes);
}
void trace_grad(Context context, Input, Input dy, int offset, int first, int second, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  copy_if_any(context, gradient.unsqueezed(gradient.rank), diagonal_of(out, offset, first, second));
}

// -- shuffles of channels and pixels

// (n, c * r * r, h, w), or channels last, seen in the order of pixels (n, c, h, r, w, r).
View pixels_in_channels(const View& x, int64_t r, bool last) {
  if (last) {
    const View parts = x.reshaped({x.shape[0], x.shape[1], x.shape[2], x.shape[3] / (r * r), r, r});
    return parts.permuted({0, 3, 1, 4, 2, 5});
  }
  const View parts = x.reshaped({x.shape[0], x.shape[1] / (r * r), r, r, x.shape[2], x.shape[3]});
  return parts.permuted({0, 1, 4, 2, 5, 3});
}
// (n, c, h * r, w * r), or channels last, in the same order.
View pixels_in_place(const View& x, int64_t r, bool last) {
  if (last) {
    const View parts = x.reshaped({x.shape[0], x.shape[1] / r, r, x.shape[2] / r, r, x.shape[3]});
    return parts.permuted({0, 5, 1, 2, 3, 4});
  }
  return x.reshaped({x.shape[0], x.shape[1], x.shape[2] / r, r, x.shape[3] / r, r});
}

void require_image(const Context& context, const View& x, int factor) {
  if (x.rank != 4 || factor < 1) {
    invalid(context, "x has rank " + std::to_string(x.rank) + " and the factor is " + std::to_string(factor) +
                         ", expected 4 and a positive number");
  }
}
void gather_pixels(Context context, Input x, int factor, Text data_format, Output y) {
  const bool last = channels_last(data_format);
  const View in = x.view(), out = context.allocate(y, in.dtype);
  require_image(context, in, factor);
  copy_if_any(context, pixels_in_channels(in, factor, last), pixels_in_place(out, factor, last));
}
void scatter_pixels(Context context, Input x, int factor, Text data_format, Output y) {
  const bool last = channels_last(data_format);
  const View in = x.view(), out = context.allocate(y, in.dtype);
  require_image(context, in, factor);
  copy_if_any(context, pixels_in_place(in, factor, last), pixels_in_channels(out, factor, last));
}

// The channels, as (rows, columns), transposed.
void transpose_channels(const Context& context, Input x, int64_t rows, int64_t columns, bool last, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  const int64_t* n = in.shape;
  const View from =
      last ? in.reshaped({n[0] * n[1] * n[2], rows, columns, 1}) : in.reshaped({n[0], rows, columns, n[2] * n[3]});
  const View to =
      last ? out.reshaped({n[0] * n[1] * n[2], columns, rows, 1}) : out.reshaped({n[0], columns, rows, n[2] * n[3]});
  copy_if_any(context, from.permuted({0, 2, 1, 3}), to);
}
void channel_shuffle(Context context, Input x, int groups, Text data_format, Output y) {
  require_image(context, x.shape_only(), groups);
  const bool last = channels_last(data_format);
  transpose_channels(context, x, groups, x.dim(last ? 3 : 1) / groups, last, y);
}
void channel_shuffle_grad(Context context, Input dy, int groups, Text data_format, Output dx) {
  require_image(context, dy.shape_only(), groups);
  const bool last = channels_last(data_format);
  transpose_channels(context, dy, dy.dim(last ? 3 : 1) / groups, groups, last, dx);
}

// Of the frames of a video (n * t, c, h, w) some channels come from the frame before, some from the one behind.
// `direction` is -1 for the gradient.
void shift_frames(const Context& context, Input x, int frames, float ratio, Text data_format, int direction, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (in.rank != 4 || frames < 1) invalid(context, "expected a tensor of rank 4 and at least one frame");
  const int channel = channels_last(data_format) ? 4 : 2;
  const int64_t* n = in.shape;
  const View from = in.reshaped({n[0] / frames, frames, n[1], n[2], n[3]});
  const View to = out.reshaped({n[0] / frames, frames, n[1], n[2], n[3]});
  const auto channels = static_cast<float>(from.shape[channel]);
  // In float, as Paddle computes them: a product may be just below a whole number.
  const auto first = static_cast<int64_t>(static_cast<int>(channels * ratio));
  const auto second = static_cast<int64_t>(static_cast<int>(channels * 2 * ratio));
  const struct {
    int64_t begin, end;
    int shift;
  } parts[] = {{0, first, direction}, {first, second, -direction}, {second, from.shape[channel], 0}};
  for (const auto& part : parts) {
    const View a = from.sliced(channel, part.begin, part.end - part.begin);
    const View b = to.sliced(channel, part.begin, part.end - part.begin);
    const int64_t kept = frames - (part.shift != 0), start = part.shift > 0 ? 1 : 0, source = part.shift < 0 ? 1 : 0;
    copy_if_any(context, a.sliced(1, source, kept), b.sliced(1, start, kept));
    if (part.shift != 0 && b.elements() > 0) fill_zero(context, b.sliced(1, part.shift > 0 ? 0 : kept, 1));
  }
}
void temporal_shift(Context context, Input x, int frames, float ratio, Text data_format, Output y) {
  shift_frames(context, x, frames, ratio, data_format, 1, y);
}
void temporal_shift_grad(Context context, Input dy, int frames, float ratio, Text data_format, Output dx) {
  shift_frames(context, dy, frames, ratio, data_format, -1, dx);
}

// -- windows of images

// Columns (n, c, window height, window width, rows, columns) of images (n, c, height, width).
struct ImageWindows {
  int64_t window[2], step[2], dilation[2], before[2], after[2], count[2];

  ImageWindows(const Context& context, const int64_t* size, Span<int> kernel, Span<int> strides, Span<int> paddings,
               Span<int> dilations) {
    if (kernel.size() != 2 || strides.size() != 2 || paddings.size() != 4 || dilations.size() != 2) {
      invalid(context, "expected two numbers for the window, steps and dilations, and four paddings");
    }
    for (int i = 0; i < 2; ++i) {
      window[i] = kernel[i];
      step[i] = strides[i];
      dilation[i] = dilations[i];
      before[i] = paddings[i];
      after[i] = paddings[i + 2];
      const int64_t reach = (window[i] - 1) * dilation[i] + 1, padded = size[i] + before[i] + after[i];
      if (window[i] < 1 || step[i] < 1 || dilation[i] < 1 || before[i] < 0 || after[i] < 0 || reach > padded) {
        invalid(context, "windows, steps and dilations must be positive, and a window must fit into the padded image");
      }
      count[i] = (padded - reach) / step[i] + 1;
    }
  }
  int64_t elements() const { return window[0] * window[1]; }
  int64_t places() const { return count[0] * count[1]; }

  // The images with their padding: (n, c, height, width).
  std::vector<int64_t> padded(const View& images) const {
    return {images.shape[0], images.shape[1], images.shape[2] + before[0] + after[0],
            images.shape[3] + before[1] + after[1]};
  }
  View inside(const View& padded, const View& images) const {
    return padded.sliced(2, before[0], images.shape[2]).sliced(3, before[1], images.shape[3]);
  }
  // (n, c, window height, window width, rows, columns)
  View of(const View& padded) const {
    const View tall = windows(padded, 2, window[0], count[0], step[0], dilation[0]);
    return windows(tall, 4, window[1], count[1], step[1], dilation[1]).permuted({0, 1, 2, 4, 3, 5});
  }
  View columns(const View& dense, const View& images) const {
    return dense.reshaped({images.shape[0], images.shape[1], window[0], window[1], count[0], count[1]});
  }
};

void require_columns(const Context& context, const View& columns, const View& images, const ImageWindows& at) {
  if (columns.rank != 3 || columns.shape[0] != images.shape[0] || columns.shape[1] != images.shape[1] * at.elements() ||
      columns.shape[2] != at.places()) {
    invalid(context, "the columns do not have the shape that windows of the image give");
  }
}

void images_to_columns(const Context& context, const View& images, const ImageWindows& at, const View& columns) {
  if (columns.elements() == 0) return;
  const auto dims = at.padded(images);
  const Scratch padded(context, images.dtype, dims.data(), 4);
  fill_zero(context, padded);
  copy_if_any(context, images, at.inside(padded, images));
  copy_if_any(context, at.of(padded), at.columns(columns, images));
}

void columns_to_images(const Context& context, const View& columns, const ImageWindows& at, const View& images) {
  if (images.elements() == 0) return;
  const auto dims = at.padded(images);
  const Scratch padded(context, sum_dtype(images.dtype), dims.data(), 4);
  fill_zero(context, padded);
  if (columns.elements() > 0) {
    // One element of the windows at a time: those do not overlap.
    const View from = at.columns(columns, images), to = at.of(padded);
    for (int64_t i = 0; i < at.window[0]; ++i) {
      for (int64_t j = 0; j < at.window[1]; ++j) {
        add_into(context, from.sliced(2, i, 1).sliced(3, j, 1), to.sliced(2, i, 1).sliced(3, j, 1));
      }
    }
  }
  copy_or_cast(context, at.inside(padded, images), images);
}

void unfold(Context context, Input x, Span<int> kernel, Span<int> strides, Span<int> paddings, Span<int> dilations,
            Output y) {
  const View in = x.view();
  if (in.rank != 4) invalid(context, "expected images of rank 4");
  const ImageWindows at(context, in.shape + 2, kernel, strides, paddings, dilations);
  const int64_t dims[] = {in.shape[0], in.shape[1] * at.elements(), at.places()};
  images_to_columns(context, in, at, context.allocate(y, in.dtype, dims, 3));
}
void unfold_grad(Context context, Input x, Input dy, Span<int> kernel, Span<int> strides, Span<int> paddings,
                 Span<int> dilations, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  const ImageWindows at(context, out.shape + 2, kernel, strides, paddings, dilations);
  require_columns(context, gradient, x.shape_only(), at);
  columns_to_images(context, gradient, at, out);
}
void fold(Context context, Input x, Span<int> sizes, Span<int> kernel, Span<int> strides, Span<int> paddings,
          Span<int> dilations, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (out.rank != 4) invalid(context, "expected columns of rank 3");
  static_cast<void>(sizes);  // Paddle gave y its shape by them
  const ImageWindows at(context, out.shape + 2, kernel, strides, paddings, dilations);
  require_columns(context, in, out, at);
  columns_to_images(context, in, at, out);
}
void fold_grad(Context context, Input, Input dy, Span<int>, Span<int> kernel, Span<int> strides, Span<int> paddings,
               Span<int> dilations, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  const ImageWindows at(context, gradient.shape + 2, kernel, strides, paddings, dilations);
  require_columns(context, out, gradient, at);
  images_to_columns(context, gradient, at, out);
}

// -- windows of signals

// Frames of a signal, as (outer, length, frames, inner): Paddle has them as the last two axes, or as the first two with
// the number of frames in front.
struct Frames {
  View signal, frames;

  Frames(const Context& context, const View& signal_, const View& frames_, int hop, bool in_front) {
    if (hop < 1 || frames_.rank != signal_.rank + 1) invalid(context, "expected a positive hop_length");
    const int64_t count = in_front ? frames_.shape[0] : frames_.shape[frames_.rank - 1];
    const int64_t length = in_front ? frames_.shape[1] : frames_.shape[frames_.rank - 2];
    const int64_t size = in_front ? signal_.shape[0] : signal_.shape[signal_.rank - 1];
    const int64_t others = others_of(signal_, in_front);
    if (count > 0 && (count - 1) * hop + length > size) invalid(context, "the frames reach beyond the signal");
    if (in_front) {
      signal = signal_.reshaped({1, size, others});
      frames = frames_.reshaped({1, count, length, others}).permuted({0, 2, 1, 3});
    } else {
      signal = signal_.reshaped({others, size, 1});
      frames = frames_.reshaped({others, length, count, 1});
    }
  }

  static int64_t others_of(const View& signal, bool in_front) {
    int64_t others = 1;
    for (int i = 0; i < signal.rank; ++i) {
      if (i != (in_front ? 0 : signal.rank - 1)) others *= signal.shape[i];
    }
    return others;
  }

  void take(const Context& context, int hop) const {
    if (frames.elements() > 0) copy_if_any(context, windows(signal, 1, frames.shape[1], frames.shape[2], hop), frames);
  }

  // The signal is the sum of its frames.
  void add(const Context& context, int hop) const {
    const Sum sum(context, signal);
    add_windows(context, frames, 1, hop, sum.view());
    sum.store();
  }
};

void frame(Context context, Input x, int, int hop, int axis, Output y) {
  const View in = x.view();
  Frames(context, in, context.allocate(y, in.dtype), hop, axis == 0).take(context, hop);
}
void frame_grad(Context context, Input, Input dy, int, int hop, int axis, Output dx) {
  const View gradient = dy.view();
  Frames(context, context.allocate(dx, gradient.dtype), gradient, hop, axis == 0).add(context, hop);
}
void overlap_add(Context context, Input x, int hop, int axis, Output y) {
  const View in = x.view();
  Frames(context, context.allocate(y, in.dtype), in, hop, axis == 0).add(context, hop);
}
void overlap_add_grad(Context context, Input, Input dy, int hop, int axis, Output dx) {
  const View gradient = dy.view();
  Frames(context, gradient, context.allocate(dx, gradient.dtype), hop, axis == 0).take(context, hop);
}

// -- maxout

// (outer, channels of y, groups, inner)
View channel_groups(const View& x, int axis, int groups) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.rank; ++i) {
    if (i < axis) outer *= x.shape[i];
    if (i > axis) inner *= x.shape[i];
  }
  return x.reshaped({outer, x.shape[axis] / groups, groups, inner});
}
void maxout(Context context, Input x, int groups, int axis, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (out.elements() == 0) return;
  const int along = from_front(axis, in.rank);
  const View from = channel_groups(in, along, groups), to = channel_groups(out, along, 1);
  const auto attributes = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  context.run(UHAL_OP_REDUCE, {&from}, {&to}, &attributes);
}
// The first maximum of a group has its gradient.
void maxout_grad(Context context, Input x, Input, Input dy, int groups, int axis, Output dx) {
  const View in = x.view(), gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  if (gradient.elements() == 0) return;
  const int along = from_front(axis, in.rank);
  const View from = channel_groups(in, along, groups), to = channel_groups(out, along, groups),
             dz = channel_groups(gradient, along, 1);
  const Scratch chosen(context, UHAL_INT64, dz);
  const auto largest = axis_attributes(2, true);
  context.run(UHAL_OP_ARG_REDUCE, {&from}, {&chosen}, &largest);
  const auto attributes = index_attributes(2);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&chosen, &dz}, {&to}, &attributes);
}

// -- elements of rows

void index_sample(Context context, Input x, Input indices, Output y) {
  const View in = x.view(), at = indices.view(), out = context.allocate(y, in.dtype);
  const auto attributes = index_attributes(1);
  if (out.elements() > 0) context.run(UHAL_OP_GATHER_ELEMENTS, {&in, &at}, {&out}, &attributes);
}
void index_sample_grad(Context context, Input, Input indices, Input dy, Output dx) {
  const View at = indices.view(), narrow = dy.view();
  const Sum sum(context, context.allocate(dx, narrow.dtype));
  auto attributes = index_attributes(1);
  attributes.reduction = UHAL_REDUCE_SUM;
  if (narrow.elements() > 0) {
    const Scratch gradient(context, sum.view().dtype, narrow);
    copy_or_cast(context, narrow, gradient);
    context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &gradient}, {&sum.view()}, &attributes);
  }
  sum.store();
}

// -- parts

// The part of x that begins at the offsets and has the shape of `like`.
View cropped(const Context& context, View x, const Integers& offsets, const View& like) {
  if (offsets.size() != x.rank) invalid(context, "expected an offset for each axis");
  for (int i = 0; i < x.rank; ++i) {
    if (offsets[i] < 0 || offsets[i] + like.shape[i] > x.shape[i]) {
      invalid(context, "axis " + std::to_string(i) + " of length " + std::to_string(x.shape[i]) + " has no " +
                           std::to_string(like.shape[i]) + " elements from " + std::to_string(offsets[i]));
    }
    x = x.sliced(i, offsets[i], like.shape[i]);
  }
  return x;
}
void crop(Context context, Input x, Integers shape, Integers offsets, Output y) {
  const View in = x.view();
  if (shape.size() != in.rank || offsets.size() != in.rank) {
    invalid(context, "expected a length and an offset for each axis");
  }
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) {
    dims[i] = shape[i] == -1 ? in.shape[i] - offsets[i] : shape[i];
    if (dims[i] < 0) invalid(context, "a length of " + std::to_string(dims[i]) + "; expected at least 0, or -1");
  }
  const View part = cropped(context, in, offsets, View(nullptr, in.dtype, dims, in.rank));
  copy_if_any(context, part, context.allocate(y, in.dtype, dims, in.rank));
}
void crop_grad(Context context, Input x, Input dy, Integers offsets, Output dx) {
  const View gradient = dy.view(), like = x.shape_only();  // Paddle gives dx the shape of dy
  const View out = context.allocate(dx, gradient.dtype, like.shape, like.rank);
  fill_zero(context, out);
  copy_if_any(context, gradient, cropped(context, out, offsets, gradient));
}

}  // namespace

KernelTable rearrange_kernels() {
  return {
      UNIHAL_KERNEL("pad3d", kUsual, pad3d<double>),
      UNIHAL_KERNEL("pad3d", kUsual, pad3d<float>),
      UNIHAL_KERNEL("pad3d_grad", kFloats | kComplex, pad3d_grad<double>),
      UNIHAL_KERNEL("pad3d_grad", kFloats | kComplex, pad3d_grad<float>),
      UNIHAL_KERNEL("broadcast_tensors", kEvery, broadcast_tensors),
      UNIHAL_KERNEL("broadcast_tensors_grad", kNumbers | kComplex, broadcast_tensors_grad),
      UNIHAL_KERNEL("meshgrid", kUsual, meshgrid),
      UNIHAL_KERNEL("meshgrid_grad", kUsual, meshgrid_grad),
      UNIHAL_KERNEL("reduce_as", kNumbers | kComplex, reduce_as),
      UNIHAL_KERNEL("reduce_as_grad", kNumbers | kComplex, reduce_as_grad),
      UNIHAL_KERNEL("repeat_interleave", kFloats | kInt32And64, repeat_interleave_by_number),
      UNIHAL_KERNEL("repeat_interleave_grad", kFloats | kInt32And64, repeat_interleave_by_number_grad),
      UNIHAL_KERNEL("repeat_interleave", kFloats | kInt32And64, repeat_interleave_unsized),
      UNIHAL_KERNEL("repeat_interleave_grad", kFloats | kInt32And64, repeat_interleave_grad_unsized),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index", kFloats | kInt32And64, repeat_interleave_by_tensor_unsized),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index_grad", kFloats | kInt32And64,
                    repeat_interleave_by_tensor_grad_unsized),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index", kFloats | kInt32And64, repeat_interleave_by_tensor),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index_grad", kFloats | kInt32And64,
                    repeat_interleave_by_tensor_grad),
      UNIHAL_KERNEL("diag", kUsual, diag),
      UNIHAL_KERNEL("diag_grad", kUsual, diag_grad),
      UNIHAL_KERNEL("diagonal", kEvery, diagonal),
      UNIHAL_KERNEL("diagonal_grad", kEvery, diagonal_grad),
      UNIHAL_KERNEL("diag_embed", kFloats | kInt32And64, diag_embed),
      UNIHAL_KERNEL("trace", kUsual, trace),
      UNIHAL_KERNEL("trace_grad", kUsual, trace_grad),
      UNIHAL_KERNEL("pixel_shuffle", kFloats, gather_pixels),
      UNIHAL_KERNEL("pixel_shuffle_grad", kFloats, scatter_pixels),
      UNIHAL_KERNEL("pixel_unshuffle", kFloats, scatter_pixels),
      UNIHAL_KERNEL("pixel_unshuffle_grad", kFloats, gather_pixels),
      UNIHAL_KERNEL("channel_shuffle", kFloats, channel_shuffle),
      UNIHAL_KERNEL("channel_shuffle_grad", kFloats, channel_shuffle_grad),
      UNIHAL_KERNEL("temporal_shift", kFloats, temporal_shift),
      UNIHAL_KERNEL("temporal_shift_grad", kFloats, temporal_shift_grad),
      UNIHAL_KERNEL("unfold", kFloats, unfold),
      UNIHAL_KERNEL("unfold_grad", kFloats, unfold_grad),
      UNIHAL_KERNEL("fold", kFloats | kComplex, fold),
      UNIHAL_KERNEL("fold_grad", kFloats | kComplex, fold_grad),
      UNIHAL_KERNEL("frame", kUsual, frame),
      UNIHAL_KERNEL("frame_grad", kUsual, frame_grad),
      UNIHAL_KERNEL("overlap_add", kUsual, overlap_add),
      UNIHAL_KERNEL("overlap_add_grad", kUsual, overlap_add_grad),
      UNIHAL_KERNEL("maxout", kFloats, maxout),
      UNIHAL_KERNEL("maxout_grad", kFloats, maxout_grad),
      UNIHAL_KERNEL("index_sample", kUsual, index_sample),
      UNIHAL_KERNEL("index_sample_grad", kUsual, index_sample_grad),
      UNIHAL_KERNEL("crop", kFloats, crop),
      UNIHAL_KERNEL("crop_grad", kFloats, crop_grad),
  };
}

}  // namespace unihal::paddle
