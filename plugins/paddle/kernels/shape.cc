// Transpose, slices, joins and splits: copies between views.
#include <algorithm>
#include <utility>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/slicing.h"

namespace unihal::paddle {
namespace {

void copy_view(const Context& context, const View& x, const View& y) { context.run(UHAL_OP_COPY, {&x}, {&y}); }

void transpose(Context context, Input x, Span<int> order, Output y) {
  const View in = x.view();
  int from[UHAL_MAX_RANK];
  for (int i = 0; i < in.rank; ++i) from[i] = from_front(order[i], in.rank);
  const View out = context.allocate(y, in.dtype);
  copy_view(context, in.permuted(from, in.rank), out);
}

void transpose_grad(Context context, Input dy, Span<int> order, Output dx) {
  const View gradient = dy.view();
  int inverse[UHAL_MAX_RANK];
  for (int i = 0; i < gradient.rank; ++i) inverse[from_front(order[i], gradient.rank)] = i;
  copy_view(context, gradient.permuted(inverse, gradient.rank), context.allocate(dx, gradient.dtype));
}

void concat(Context context, InputList list, Scalar axis, Output y) {
  const View out = context.allocate(y, list[0].uhal());
  const int along = from_front(axis.integer(), out.rank);
  LaunchGroup group(context.stream()->handle);
  int64_t start = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const View part = list[i].view();
    if (part.rank != out.rank || part.elements() == 0) continue;  // an empty tensor of any rank joins nothing
    copy_view(context, part, out.sliced(along, start, part.shape[along]));
    start += part.shape[along];
  }
  context.check(group.end());
}

// Copies consecutive parts of `whole` into the outputs that are wanted.
void split_into(const Context& context, const View& whole, int along, const OutputList& parts, bool with_axis) {
  LaunchGroup group(context.stream()->handle);
  int64_t start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t length = with_axis && parts[i] ? parts[i].dim(along) : 1;
    if (parts[i]) {
      View part = context.allocate(parts[i], whole.dtype);
      if (!with_axis) part = part.unsqueezed(along);
      copy_view(context, whole.sliced(along, start, length), part);
    }
    start += length;
  }
  context.check(group.end());
}

// The forward's inputs may have given up their memory: only their shapes are looked at.
void concat_grad(Context context, InputList list, Input dy, Scalar axis, OutputList dx) {
  const View gradient = dy.view();
  const int along = from_front(axis.integer(), gradient.rank);
  LaunchGroup group(context.stream()->handle);
  int64_t start = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t length = list[i].rank() == gradient.rank ? list[i].dim(along) : 0;
    if (dx[i]) copy_view(context, gradient.sliced(along, start, length), context.allocate(dx[i], gradient.dtype));
    start += length;
  }
  context.check(group.end());
}

void split(Context context, Input x, Integers, Scalar axis, OutputList parts) {
  const View in = x.view();
  split_into(context, in, from_front(axis.integer(), in.rank), parts, true);
}
void split_with_num(Context context, Input x, int, Scalar axis, OutputList parts) {
  const View in = x.view();
  split_into(context, in, from_front(axis.integer(), in.rank), parts, true);
}
void unbind(Context context, Input x, int axis, OutputList parts) {
  const View in = x.view();
  split_into(context, in, from_front(axis, in.rank), parts, false);
}
void stack_grad(Context context, Input dy, int axis, OutputList dx) {
  const View gradient = dy.view();
  split_into(context, gradient, from_front(axis, gradient.rank), dx, false);
}

void unstack(Context context, Input x, int axis, int, OutputList parts) { unbind(context, x, axis, std::move(parts)); }

void stack(Context context, InputList list, int axis, Output y) {
  const View out = context.allocate(y, list[0].uhal());
  const int along = from_front(axis, out.rank);
  LaunchGroup group(context.stream()->handle);
  for (size_t i = 0; i < list.size(); ++i) {
    copy_view(context, list[i].view().unsqueezed(along), out.sliced(along, static_cast<int64_t>(i), 1));
  }
  context.check(group.end());
}

// Eager mode makes views of these itself; graphs call a kernel.
void copy_elements(const Context& context, Input x, Output y) {
  const View in = x.view();
  copy_view(context, flat(in), flat(context.allocate(y, in.dtype)));
}
void reshape(Context context, Input x, Integers, Output y) { copy_elements(context, x, y); }
void flatten(Context context, Input x, int, int, Output y) { copy_elements(context, x, y); }
void reshape_grad(Context context, Input, Input dy, Output dx) { copy_elements(context, dy, dx); }
void squeeze_grad(Context context, Input, Input dy, Integers, Output dx) { copy_elements(context, dy, dx); }

// y (possibly without some axes of length 1) seen in the shape of a slice
View in_shape_of(const View& y, const View& slice) { return y.reshaped(slice.shape, slice.rank); }

// Graphs may give the bounds as tensors, so the output has no shape before the kernel runs. `dropped` axes, of length
// 1, are not in it.
template <class Axes>
View allocate_slice(const Context& context, Output y, const View& part, const Axes& dropped) {
  int64_t dims[UHAL_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < part.rank; ++i) {
    const bool drop =
        std::any_of(dropped.begin(), dropped.end(), [&](int64_t a) { return from_front(a, part.rank) == i; });
    if (!drop) dims[rank++] = part.shape[i];
  }
  return in_shape_of(context.allocate(y, part.dtype, dims, rank), part);
}

void slice(Context context, Input x, Span<int64_t> axes, Integers starts, Integers ends, Span<int64_t>,
           Span<int64_t> dropped, Output y) {
  const View part = sliced(context, x.view(), axes, starts, ends, nullptr);
  copy_view(context, part, allocate_slice(context, y, part, dropped));
}

void slice_grad(Context context, Input, Input dy, Span<int64_t> axes, Integers starts, Integers ends, Span<int64_t>,
                Span<int64_t>, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  const View part = sliced(context, out, axes, starts, ends, nullptr);
  copy_view(context, in_shape_of(gradient, part), part);
}

void strided_slice(Context context, Input x, Span<int> axes, Integers starts, Integers ends, Integers steps, Output y) {
  const View part = sliced(context, x.view(), axes, starts, ends, &steps);
  copy_view(context, part, context.allocate(y, part.dtype, part.shape, part.rank));
}

void strided_slice_grad(Context context, Input, Input dy, Span<int> axes, Integers starts, Integers ends,
                        Integers steps, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  fill_zero(context, out);
  const View part = sliced(context, out, axes, starts, ends, &steps);
  copy_view(context, in_shape_of(gradient, part), part);
}

// Whether x has another length than y and than 1 along an axis; before y's memory is asked for, which may be huge.
void check_expands(const Context& context, const Tensor& x, const Tensor& y) {
  const int more = y.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i) {
    if (more >= 0 && (x.dim(i) == 1 || x.dim(i) == y.dim(i + more))) continue;
    invalid(context, "axis " + std::to_string(i) + " of length " + std::to_string(x.dim(i)) +
                         " cannot be expanded to " + (more < 0 ? "a lower rank" : std::to_string(y.dim(i + more))));
  }
}

// Programs of the old intermediate representation call kernels of their own for some ops.
void strided_slice_raw(Context context, Input x, Span<int> axes, Integers starts, Integers ends, Integers steps,
                       Span<int>, Span<int> dropped, Output y) {
  const View part = sliced(context, x.view(), axes, starts, ends, &steps);
  copy_view(context, part, allocate_slice(context, y, part, dropped));
}
void strided_slice_raw_grad(Context context, Input x, Input dy, Span<int> axes, Integers starts, Integers ends,
                            Integers steps, Span<int>, Span<int>, Output dx) {
  strided_slice_grad(context, x, dy, axes, std::move(starts), std::move(ends), std::move(steps), dx);
}
void reshape_with_xshape(Context context, Input x, Integers, Output y, Output) { copy_elements(context, x, y); }

void expand(Context context, Input x, Integers, Output y) {
  check_expands(context, x, y);
  const View in = x.view();
  copy_view(context, in, context.allocate(y, in.dtype));
}

// Where the shape of `like` was not known when a graph was built, the output has none yet.
template <class Number>
void expand_as(Context context, Input x, OptionalInput like, Span<Number>, Output y) {
  check_expands(context, x, like ? Tensor{like.handle} : Tensor{y.handle});
  const View in = x.view();
  if (!like) return copy_view(context, in, context.allocate(y, in.dtype));
  int64_t dims[UHAL_MAX_RANK];
  const int rank = like.rank();
  if (rank > UHAL_MAX_RANK) unsupported(context, "rank " + std::to_string(rank));
  for (int i = 0; i < rank; ++i) dims[i] = like.dim(i);
  copy_view(context, in, context.allocate(y, in.dtype, dims, rank));
}

void expand_grad(Context context, Input, Input dy, Integers, Output dx) {
  const View gradient = dy.view();
  sum_to_shape(context, gradient, context.allocate(dx, gradient.dtype));
}

template <class Number>
void expand_as_grad(Context context, Input, Input dy, Span<Number>, Output dx) {
  const View gradient = dy.view();
  sum_to_shape(context, gradient, context.allocate(dx, gradient.dtype));
}

// x of shape (a, b) repeated (m, n) times is a copy of x, seen as (1, a, 1, b), to (m, a, n, b).
void tile_views(const View& small, const View& large, View* of_small, View* of_large) {
  const View padded = with_rank(small, large.rank);
  int64_t small_dims[2 * UHAL_MAX_RANK], large_dims[2 * UHAL_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < large.rank; ++i) {
    const int64_t repeats = padded.shape[i] == 0 ? 0 : large.shape[i] / padded.shape[i];
    if (repeats != 1) {
      small_dims[rank] = 1;
      large_dims[rank++] = repeats;
    }
    small_dims[rank] = large_dims[rank] = padded.shape[i];
    ++rank;
  }
  *of_small = small.reshaped(small_dims, rank);
  *of_large = large.reshaped(large_dims, rank);
}

void tile(Context context, Input x, Integers repeats, Output y) {
  for (int64_t times : repeats) {
    if (times < 0) invalid(context, "an axis is to be repeated " + std::to_string(times) + " times");
  }
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (out.elements() == 0) return;
  View from, to;
  tile_views(in, out, &from, &to);
  copy_view(context, from, to);
}

void tile_grad(Context context, Input, Input dy, Integers, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  if (out.elements() == 0) return;
  View to, from;
  tile_views(out, gradient, &to, &from);
  sum_to_shape(context, from, to);
}

void flip(Context context, Input x, Span<int> axes, Output y) {
  View in = x.view();
  bool flipped[UHAL_MAX_RANK] = {};  // an axis that is named twice is flipped once
  for (int axis : axes) {
    const int i = from_front(axis, in.rank);
    if (in.shape[i] > 0 && !std::exchange(flipped[i], true)) in = in.sliced(i, in.shape[i] - 1, in.shape[i], -1);
  }
  copy_view(context, in, context.allocate(y, in.dtype));
}

// The part of y that holds x when `paddings` has two numbers per axis.
View inside(View y, Span<int> paddings) {
  for (int i = 0; i < y.rank; ++i) {
    y = y.sliced(i, paddings[2 * i], y.shape[i] - paddings[2 * i] - paddings[2 * i + 1]);
  }
  return y;
}

void pad(Context context, Input x, Span<int> paddings, Scalar value, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  fill(context, out, value);
  copy_view(context, in, inside(out, paddings));
}

void pad_grad(Context context, Input dy, Span<int> paddings, Scalar, Output dx) {
  const View gradient = dy.view();
  copy_view(context, inside(gradient, paddings), context.allocate(dx, gradient.dtype));
}

// Two copies per axis: the end to the front, and the rest behind it.
void roll_axis(const Context& context, const View& x, const View& y, int axis, int64_t shift) {
  const int64_t size = x.shape[axis];
  const int64_t moved = size == 0 ? 0 : ((shift % size) + size) % size;
  copy_view(context, x.sliced(axis, size - moved, moved), y.sliced(axis, 0, moved));
  copy_view(context, x.sliced(axis, 0, size - moved), y.sliced(axis, moved, size - moved));
}

void roll_by(const Context& context, Input x, const Integers& shifts, const Span<int64_t>& axes, int sign, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (axes.size() == 0) return roll_axis(context, flat(in), flat(out), 0, sign * shifts[0]);
  // Alternates between scratch and output so that the last axis writes the output.
  const Scratch scratch(context, in.dtype, in);
  View from = in;
  for (int i = 0; i < axes.size(); ++i) {
    const View to = (axes.size() - 1 - i) % 2 == 0 ? out : scratch;
    roll_axis(context, from, to, from_front(axes[i], in.rank), sign * shifts[i]);
    from = to;
  }
}

void roll(Context context, Input x, Integers shifts, Span<int64_t> axes, Output y) {
  roll_by(context, x, shifts, axes, 1, y);
}
void roll_grad(Context context, Input, Input dy, Integers shifts, Span<int64_t> axes, Output dx) {
  roll_by(context, dy, shifts, axes, -1, dx);
}

}  // namespace

KernelTable shape_kernels() {
  return {
      UNIHAL_KERNEL("transpose", kEvery, transpose),
      UNIHAL_KERNEL("transpose_grad", kEvery, transpose_grad),
      UNIHAL_KERNEL("reshape", kEvery, reshape),
      UNIHAL_KERNEL("reshape_grad", kEvery, reshape_grad),
      UNIHAL_KERNEL("flatten", kEvery, flatten),
      UNIHAL_KERNEL("flatten_grad", kEvery, reshape_grad),
      UNIHAL_KERNEL("squeeze", kEvery, reshape),
      UNIHAL_KERNEL("squeeze_grad", kEvery, squeeze_grad),
      UNIHAL_KERNEL("unsqueeze", kEvery, reshape),
      UNIHAL_KERNEL("unsqueeze_grad", kEvery, reshape_grad),
      UNIHAL_KERNEL("concat", kEvery, concat),
      UNIHAL_KERNEL("concat_grad", kEvery, concat_grad),
      UNIHAL_KERNEL("split", kEvery, split),
      UNIHAL_KERNEL("split_with_num", kEvery, split_with_num),
      UNIHAL_KERNEL("stack", kEvery, stack),
      UNIHAL_KERNEL("stack_grad", kEvery, stack_grad),
      UNIHAL_KERNEL("unbind", kEvery, unbind),
      UNIHAL_KERNEL("unstack", kEvery, unstack),
      UNIHAL_KERNEL("unstack_grad", kEvery, stack),
      UNIHAL_KERNEL("slice", kEvery, slice),
      UNIHAL_KERNEL("slice_grad", kEvery, slice_grad),
      UNIHAL_KERNEL("strided_slice", kEvery, strided_slice),
      UNIHAL_KERNEL("strided_slice_grad", kEvery, strided_slice_grad),
      UNIHAL_KERNEL("strided_slice_raw", kEvery, strided_slice_raw),
      UNIHAL_KERNEL("strided_slice_raw_grad", kEvery, strided_slice_raw_grad),
      UNIHAL_KERNEL("squeeze_with_xshape", kEvery, reshape_with_xshape),
      UNIHAL_KERNEL("unsqueeze_with_xshape", kEvery, reshape_with_xshape),
      UNIHAL_KERNEL("expand", kEvery, expand),
      UNIHAL_KERNEL("expand_as", kEvery, expand_as<int64_t>),
      UNIHAL_KERNEL("expand_as", kEvery, expand_as<int>),
      UNIHAL_KERNEL("expand_grad", kNumbers | kComplex, expand_grad),
      UNIHAL_KERNEL("expand_as_grad", kNumbers | kComplex, expand_as_grad<int64_t>),
      UNIHAL_KERNEL("expand_as_grad", kNumbers | kComplex, expand_as_grad<int>),
      UNIHAL_KERNEL("tile", kEvery, tile),
      UNIHAL_KERNEL("tile_grad", kNumbers | kComplex, tile_grad),
      UNIHAL_KERNEL("flip", kEvery, flip),
      UNIHAL_KERNEL("pad", kEvery, pad),
      UNIHAL_KERNEL("pad_grad", kEvery, pad_grad),
      UNIHAL_KERNEL("roll", kEvery, roll),
      UNIHAL_KERNEL("roll_grad", kEvery, roll_grad),
  };
}

}  // namespace unihal::paddle
