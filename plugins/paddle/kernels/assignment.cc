// Writing into parts of a tensor: slices, masks, indices, diagonals. In place the output has the input's memory; else
// it begins as a copy.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/diagonal.h"
#include "plugins/paddle/kernels/slicing.h"
#include "plugins/paddle/kernels/true_places.h"

namespace unihal::paddle {
namespace {

// The output, holding x.
View started_from(const Context& context, Input x, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  copy_or_cast(context, in, out);
  return out;
}

// Without leading axes of length 1 beyond `rank`.
View without_leading(const View& view, int rank) {
  View result = view;
  while (result.rank > rank && result.shape[0] == 1) {
    --result.rank;
    std::copy_n(result.shape + 1, result.rank, result.shape);
    std::copy_n(result.strides + 1, result.rank, result.strides);
  }
  return result;
}

// -- x[1:3, ::2] = value
// -----------------------------------------------------------------------------------------------

struct Slice {
  const Integers &starts, &ends, &steps;
  const Span<int64_t>&axes, &dropped, &added;  // Paddle's decrease_axes and none_axes
};

// The elements that a slice names, in the shape that a value for it has.
View part_of(const Context& context, const View& x, const Slice& slice) {
  const View part = sliced(context, x, slice.axes, slice.starts, slice.ends, &slice.steps);
  View result = part;
  result.rank = 0;
  const auto add_axis = [&result] { result = result.unsqueezed(result.rank); };
  const int64_t* new_axis = slice.added.begin();
  for (int i = 0; i < part.rank; ++i) {
    for (; new_axis != slice.added.end() && *new_axis <= i; ++new_axis) add_axis();
    const bool dropped = std::any_of(slice.dropped.begin(), slice.dropped.end(),
                                     [&](int64_t axis) { return from_front(axis, part.rank) == i; });
    if (dropped) continue;
    result.shape[result.rank] = part.shape[i];
    result.strides[result.rank++] = part.strides[i];
  }
  for (; new_axis != slice.added.end(); ++new_axis) add_axis();
  return result;
}

void write_part(const Context& context, const View& value, const View& part) {
  if (part.elements() > 0) copy_or_cast(context, without_leading(value, part.rank), part);
}

void set_value(Context context, Input x, Integers starts, Integers ends, Integers steps, Span<int64_t> axes,
               Span<int64_t> dropped, Span<int64_t> added, Span<int64_t> shape, Scalars values, Output y) {
  const View part = part_of(context, started_from(context, x, y), {starts, ends, steps, axes, dropped, added});
  if (values.size() == 1) return fill(context, part, values[0]);
  const bool complex = is_complex(part.dtype), whole = !complex && !is_floating(part.dtype);
  const size_t size = complex ? 2 * sizeof(double) : sizeof(double);
  std::vector<char> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const double parts[] = {values[i].number(), values[i].imaginary()};
    const int64_t integer = whole ? values[i].integer() : 0;
    std::memcpy(bytes.data() + i * size, whole ? static_cast<const void*>(&integer) : parts, size);
  }
  const Scratch value(context, complex ? UHAL_COMPLEX128 : whole ? UHAL_INT64 : UHAL_FLOAT64, shape.data, shape.size());
  upload(context, std::move(bytes), value);
  write_part(context, value, part);
}

void set_value_with_tensor(Context context, Input x, Input value, Integers starts, Integers ends, Integers steps,
                           Span<int64_t> axes, Span<int64_t> dropped, Span<int64_t> added, Output y) {
  const View part = part_of(context, started_from(context, x, y), {starts, ends, steps, axes, dropped, added});
  write_part(context, value.view(), part);
}

void set_value_with_scalar_grad(Context context, Input dy, Integers starts, Integers ends, Integers steps,
                                Span<int64_t> axes, Span<int64_t> dropped, Span<int64_t> added, Output dx) {
  const View part = part_of(context, started_from(context, dy, dx), {starts, ends, steps, axes, dropped, added});
  if (part.elements() > 0) fill_zero(context, part);
}

void set_value_grad(Context context, Input dy, Integers starts, Integers ends, Integers steps, Span<int64_t> axes,
                    Span<int64_t> dropped, Span<int64_t> added, Output dx, Output dvalue) {
  const Slice slice = {starts, ends, steps, axes, dropped, added};
  if (dvalue) {
    const View part = part_of(context, dy.view(), slice), out = context.allocate(dvalue, dy.uhal());
    sum_to_shape(context, part, without_leading(out, part.rank));
  }
  if (dx) {
    const View part = part_of(context, started_from(context, dy, dx), slice);
    if (part.elements() > 0) fill_zero(context, part);
  }
}

// -- x[mask] = value
// ---------------------------------------------------------------------------------------------------

void masked_fill(Context context, Input x, Input mask, Input value, Output y) {
  const View in = x.view(), chosen = mask.view(), v = value.view(), out = context.allocate(y, in.dtype);
  context.map(uhal_map_select, {&chosen, &v, &in}, {&out});
}

void masked_fill_grad(Context context, Input, Input mask, Input, Input dy, Output dx, Output dvalue) {
  const View chosen = mask.view(), gradient = dy.view();
  const Scratch zero(context, gradient.dtype, nullptr, 0), part(context, gradient.dtype, gradient);
  fill_zero(context, zero);
  if (dx) {
    context.map(uhal_map_select, {&chosen, &zero, &gradient}, {&part});
    sum_to_shape(context, part, context.allocate(dx, gradient.dtype));
  }
  if (dvalue) {
    context.map(uhal_map_select, {&chosen, &gradient, &zero}, {&part});
    sum_to_shape(context, part, context.allocate(dvalue, gradient.dtype));
  }
}

// -- x[indices] = value
// ------------------------------------------------------------------------------------------------

// Indices of the first axes, broadcast to one shape and side by side: (shape, count). Masks stand for as many as they
// have axes.
class JointIndices {
 public:
  JointIndices(const Context& context, const InputList& indices) {
    std::deque<TruePlaces> masks;
    std::vector<View> each;
    for (size_t i = 0; i < indices.size(); ++i) {
      const View index = indices[i].view();
      if (index.dtype != UHAL_BOOL) {
        each.push_back(index);
        continue;
      }
      const View& places = masks.emplace_back(context, index).view(context);
      for (int axis = 0; axis < index.rank; ++axis) {
        each.push_back(places.sliced(1, axis, 1));
        each.back().rank = 1;
      }
    }
    stack(context, each);
  }
  const View& view() const { return *stacked_; }
  // Of the result of x[indices].
  View updates_like(const View& x) const {
    const int rank = stacked_->rank - 1, count = static_cast<int>(stacked_->shape[rank]);
    View result = x;
    result.rank = rank + x.rank - count;
    std::copy_n(stacked_->shape, rank, result.shape);
    std::copy_n(x.shape + count, x.rank - count, result.shape + rank);
    return View(nullptr, x.dtype, result.shape, result.rank);
  }

 private:
  void stack(const Context& context, const std::vector<View>& each) {
    int rank = 0;
    for (const View& index : each) rank = std::max(rank, static_cast<int>(index.rank));
    int64_t dims[UHAL_MAX_RANK];
    std::fill_n(dims, rank, 1);
    for (const View& index : each) {
      for (int i = 0; i < index.rank; ++i) {
        int64_t& common = dims[rank - index.rank + i];
        if (index.shape[i] != 1) common = index.shape[i];
      }
    }
    dims[rank] = static_cast<int64_t>(each.size());
    stacked_.emplace(context, UHAL_INT64, dims, rank + 1);
    for (size_t k = 0; k < each.size(); ++k) {
      View to = stacked_->sliced(rank, static_cast<int64_t>(k), 1);
      to.rank = rank;
      if (to.elements() > 0) copy_or_cast(context, each[k], to);
    }
  }
  std::optional<Scratch> stacked_;
};

// `value` seen in another shape that it broadcasts to.
View broadcast_to(const View& value, const View& like) {
  View result = with_rank(without_leading(value, like.rank), like.rank);
  for (int i = 0; i < like.rank; ++i) {
    if (result.shape[i] == 1) result.strides[i] = 0;
    if (result.shape[i] == 1) result.shape[i] = like.shape[i];
  }
  return result;
}

void put_at_indices(const Context& context, const JointIndices& at, const View& value, const View& y, bool accumulate) {
  const View updates = broadcast_to(value, at.updates_like(y));
  if (updates.elements() == 0) return;
  const auto attributes = wrapping(0, accumulate ? UHAL_REDUCE_SUM : UHAL_REDUCE_NONE);
  context.run(UHAL_OP_SCATTER_ND, {&at.view(), &updates}, {&y}, &attributes);
}

void index_put(Context context, Input x, InputList indices, Input value, bool accumulate, Output y) {
  const View out = started_from(context, x, y);
  put_at_indices(context, JointIndices(context, indices), value.view(), out, accumulate);
}

void index_put_grad(Context context, Input x, InputList indices, Input value, Input dy, bool accumulate, Output dx,
                    Output dvalue) {
  const View gradient = dy.view();
  const JointIndices at(context, indices);
  if (dvalue) {
    const View out = context.allocate(dvalue, value.uhal());
    const View like = at.updates_like(x.layout());
    const Scratch part(context, gradient.dtype, like);
    if (part.elements() > 0) {
      const auto attributes = wrapping(0, UHAL_REDUCE_NONE);
      context.run(UHAL_OP_GATHER_ND, {&gradient, &at.view()}, {&part}, &attributes);
    }
    sum_to_shape(context, part, without_leading(out, part.rank));
  }
  if (!dx) return;
  const View out = started_from(context, dy, dx);
  if (accumulate) return;
  const Scratch zero(context, gradient.dtype, nullptr, 0);
  fill_zero(context, zero);
  put_at_indices(context, at, zero, out, false);
}

// y = x, plus what is added to rows along an axis
void index_add(Context context, Input x, Input indices, Input added, int axis, Output y) {
  const View out = started_from(context, x, y), at = indices.view(), values = added.view();
  const auto attributes = wrapping(from_front(axis, out.rank), UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER, {&at, &values}, {&out}, &attributes);
}

void index_add_grad(Context context, Input indices, Input, Input dy, int axis, Output dx, Output dadded) {
  const View gradient = dy.view(), at = indices.view();
  if (dx) started_from(context, dy, dx);
  if (!dadded) return;
  const View out = context.allocate(dadded, gradient.dtype);
  const auto attributes = wrapping(from_front(axis, gradient.rank), UHAL_REDUCE_NONE);
  context.run(UHAL_OP_GATHER, {&gradient, &at}, {&out}, &attributes);
}

// -- Along an axis
// -----------------------------------------------------------------------------------------------------

struct Reduction {
  const char* names[2];
  uhal_reduction reduction;
  double neutral;  // what an element begins with that does not count itself
  bool lowest;     // or: the lowest or highest number
};
constexpr Reduction kReductions[] = {
    {{"assign", "assign"}, UHAL_REDUCE_NONE, 0, false},   {{"add", "sum"}, UHAL_REDUCE_SUM, 0, false},
    {{"mul", "multiply"}, UHAL_REDUCE_PRODUCT, 1, false}, {{"amax", "max"}, UHAL_REDUCE_MAXIMUM, 0, true},
    {{"amin", "min"}, UHAL_REDUCE_MINIMUM, 0, true},      {{"mean", "mean"}, UHAL_REDUCE_MEAN, 0, false},
};

const Reduction* find_reduction(const char* name) {
  for (const Reduction& row : kReductions) {
    if (std::strcmp(name, row.names[0]) == 0 || std::strcmp(name, row.names[1]) == 0) return &row;
  }
  return nullptr;
}

// y (the shape of what is updated) = how many updates of each place `marks` (the shape of `at`; bool or numbers)
// counts, and `before`.
void count_updates(const Context& context, const View& at, int along, const View& marks, int64_t before,
                   const View& y) {
  const Scratch numbers(context, y.dtype, at);
  copy_or_cast(context, marks, numbers);
  fill(context, y, static_cast<double>(before), before);
  const auto sum = wrapping(along, UHAL_REDUCE_SUM);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &numbers}, {&y}, &sum);
}

// What divides the sum of each place, for its mean: the number of its updates, and of itself if that counts; 1 of
// places that have none.
class Divisors : public Scratch {
 public:
  Divisors(const Context& context, const View& at, int along, const View& like, bool include_self)
      : Scratch(context, UHAL_INT32, like) {
    const Scratch one(context, UHAL_BOOL, nullptr, 0);
    fill(context, one, 1, 1);
    View ones = at;
    ones.data = one.data;
    ones.dtype = UHAL_BOOL;
    std::fill_n(ones.strides, ones.rank, 0);
    count_updates(context, at, along, ones, include_self ? 1 : 0, *this);
    if (!include_self) context.map(uhal_map_maximum, {this, &one}, {this});
  }
};

void put_along_axis(Context context, Input x, Input indices, Input values, int axis, Text reduce, bool include_self,
                    Output y) {
  const Reduction* row = find_reduction(reduce.value);
  if (row == nullptr) unsupported(context, std::string("reduce='") + reduce.value + "'");
  const View out = started_from(context, x, y), at = indices.view();
  const int along = from_front(axis, out.rank);
  const View updates = broadcast_to(values.view(), at);
  if (updates.elements() == 0) return;
  if (!include_self && row->reduction != UHAL_REDUCE_NONE) {
    // The places begin with their first update where that has no effect on the result, else with the neutral number.
    const Scratch first(context, out.dtype, at);
    if (row->lowest) {
      copy_or_cast(context, updates, first);
    } else {
      fill(context, first, row->neutral, static_cast<int64_t>(row->neutral));
    }
    const auto overwrite = wrapping(along, UHAL_REDUCE_NONE);
    context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &first}, {&out}, &overwrite);
  }
  const bool mean = row->reduction == UHAL_REDUCE_MEAN;
  const auto attributes = wrapping(along, mean ? UHAL_REDUCE_SUM : row->reduction);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &updates}, {&out}, &attributes);
  if (!mean) return;
  const Divisors divisors(context, at, along, out, include_self);
  // Of integers the floor, as Paddle's CPU.
  context.map(is_floating(out.dtype) ? uhal_map_divide : uhal_map_floor_divide, {&out, &divisors}, {&out});
}

// Zeroes what belongs to updates of which another one of the same place, the last, took the place. `like` has the shape
// of what was updated.
void drop_overwritten(const Context& context, const View& at, int along, const View& like, const View& gradients) {
  const Scratch numbers(context, UHAL_INT64, at), winners(context, UHAL_INT64, at), by_place(context, UHAL_INT64, like);
  const Scratch kept(context, UHAL_BOOL, at);
  count_up(context, flat(numbers));
  const auto attributes = wrapping(along, UHAL_REDUCE_NONE);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &numbers}, {&by_place}, &attributes);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&by_place, &at}, {&winners}, &attributes);
  context.map(uhal_map_equal, {&numbers, &winners}, {&kept});
  context.map(uhal_map_multiply, {&gradients, &kept}, {&gradients});
}

// What each update, and what was there, has of the gradient: (the result's, in its shape) times factors of their own.
// Of a product dy y / value; of a mean dy / its terms; of an extreme dy / how many are equal to it, to each of these.
// What was there counts as one of these in any case, as on Paddle's CPU.
struct Shares {
  const View& gradient;
  const View& at;
  int along;
  Scratch shares;  // in the result's shape

  Shares(const Context& context, const View& dy, const View& indices, int axis)
      : gradient(dy), at(indices), along(axis), shares(context, dy.dtype, dy) {}

  void of_updates(const Context& context, const View& from, const View& y) const {
    const auto attributes = wrapping(along, UHAL_REDUCE_NONE);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&from, &at}, {&y}, &attributes);
  }

  // dx = own where a place was updated (nullptr: 0), else dy.
  void write_own(const Context& context, const View* own, const View& dx) const {
    const Scratch touched(context, UHAL_BOOL, gradient), yes(context, UHAL_BOOL, at),
        zero(context, dx.dtype, nullptr, 0);
    fill_zero(context, touched);
    fill_zero(context, zero);
    fill(context, yes, 1, 1);
    const auto attributes = wrapping(along, UHAL_REDUCE_NONE);
    context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &yes}, {&touched}, &attributes);
    context.map(uhal_map_select, {&touched, own != nullptr ? own : static_cast<const View*>(&zero), &gradient}, {&dx});
  }
};

void put_by_reduction_grad(const Context& context, const Reduction& row, const View& x, const View& values,
                           const View& y, const View& gradient, const View& at, int along, bool include_self, Output dx,
                           Output dvalues) {
  const Shares of(context, gradient, at, along);
  const Scratch part(context, gradient.dtype, at), own(context, gradient.dtype, gradient);
  const bool product = row.reduction == UHAL_REDUCE_PRODUCT;
  if (row.reduction == UHAL_REDUCE_MEAN) {
    const Divisors divisors(context, at, along, gradient, include_self);
    context.map(uhal_map_divide, {&gradient, &divisors}, {&of.shares});
    of.of_updates(context, of.shares, part);
    copy_or_cast(context, of.shares, own);
  } else if (product) {
    context.map(uhal_map_multiply, {&gradient, &y}, {&of.shares});
    of.of_updates(context, of.shares, part);
    context.map(uhal_map_divide, {&part, &values}, {&part});
    if (include_self) context.map(uhal_map_divide, {&of.shares, &x}, {&own});
  } else {
    const Scratch results(context, y.dtype, at), equal(context, UHAL_BOOL, at), own_equal(context, UHAL_BOOL, gradient),
        counts(context, UHAL_INT32, gradient);
    of.of_updates(context, y, results);
    context.map(uhal_map_equal, {&values, &results}, {&equal});
    context.map(uhal_map_equal, {&x, &y}, {&own_equal});
    count_updates(context, at, along, equal, 0, counts);
    context.map(uhal_map_add, {&counts, &own_equal}, {&counts});
    context.map(uhal_map_divide_no_nan, {&gradient, &counts}, {&of.shares});
    of.of_updates(context, of.shares, part);
    context.map(uhal_map_multiply, {&part, &equal}, {&part});
    context.map(uhal_map_multiply, {&of.shares, &own_equal}, {&own});
  }
  if (dvalues) sum_to_shape(context, part, context.allocate(dvalues, gradient.dtype));
  if (dx) of.write_own(context, include_self ? &own : nullptr, context.allocate(dx, gradient.dtype));
}

void put_along_axis_grad(Context context, Input x, Input indices, Input values, Input y, Input dy, int axis,
                         Text reduce, bool include_self, Output dx, Output dvalues) {
  const Reduction* row = find_reduction(reduce.value);
  if (row == nullptr) unsupported(context, std::string("the gradient of reduce='") + reduce.value + "'");
  const View gradient = dy.view(), at = indices.view();
  const int along = from_front(axis, gradient.rank);
  if (row->reduction != UHAL_REDUCE_NONE && row->reduction != UHAL_REDUCE_SUM && at.elements() > 0) {
    return put_by_reduction_grad(context, *row, x.view(), broadcast_to(values.view(), at), y.view(), gradient, at,
                                 along, include_self, dx, dvalues);
  }
  if (dvalues) {
    const View out = context.allocate(dvalues, gradient.dtype);
    const Scratch part(context, gradient.dtype, at);
    const auto attributes = wrapping(along, UHAL_REDUCE_NONE);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&gradient, &at}, {&part}, &attributes);
    if (row->reduction == UHAL_REDUCE_NONE) drop_overwritten(context, at, along, gradient, part);
    sum_to_shape(context, part, out);
  }
  if (!dx) return;
  const View out = started_from(context, dy, dx);
  if (row->reduction == UHAL_REDUCE_SUM && include_self) return;
  const Scratch zeros(context, gradient.dtype, at);
  fill_zero(context, zeros);
  const auto attributes = wrapping(along, UHAL_REDUCE_NONE);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &zeros}, {&out}, &attributes);
}

// -- Diagonals
// ---------------------------------------------------------------------------------------------------------

// The diagonal of a matrix, or of a tensor whose axes are equally long; with `wrap` it begins anew below a tall
// matrix's last row.
std::vector<View> diagonals(const View& x, int64_t offset, bool wrap) {
  int64_t stride = 0;
  for (int i = 0; i < x.rank; ++i) stride += x.strides[i];
  const int64_t width = x.shape[1], elements = x.elements();
  const int64_t limit = wrap ? elements : std::min(elements, width * width);
  std::vector<View> parts;
  const View all = flat(x);
  for (int64_t block = 0; block * stride < limit; block += width) {
    // Element block + k lies in column k + offset of its row.
    const int64_t first = std::max<int64_t>(0, -offset), last = std::min(width, width - offset);
    const int64_t begin = (block + first) * stride + offset;
    int64_t count = last - first;
    count = std::min(count, (limit - (block + first) * stride + stride - 1) / stride);
    while (count > 0 && begin + (count - 1) * stride >= elements) --count;
    if (count <= 0) continue;
    parts.push_back(all.sliced(0, begin, count));
    parts.back().strides[0] = stride;
    if (x.rank > 2) break;
  }
  return parts;
}

void fill_diagonal(Context context, Input x, float value, int offset, bool wrap, Output y) {
  const View out = started_from(context, x, y);
  for (const View& part : diagonals(out, offset, wrap)) {
    fill(context, part, static_cast<double>(value), static_cast<int64_t>(value));
  }
}

void fill_diagonal_grad(Context context, Input dy, float, int offset, bool wrap, Output dx) {
  const View out = started_from(context, dy, dx);
  for (const View& part : diagonals(out, offset, wrap)) fill_zero(context, part);
}

void fill_diagonal_tensor(Context context, Input x, Input value, int64_t offset, int first, int second, Output y) {
  const View part = diagonal_of(started_from(context, x, y), offset, first, second);
  write_part(context, value.view(), part);
}

void fill_diagonal_tensor_grad(Context context, Input dy, int64_t offset, int first, int second, Output dx) {
  const View part = diagonal_of(started_from(context, dy, dx), offset, first, second);
  if (part.elements() > 0) fill_zero(context, part);
}

}  // namespace

KernelTable assignment_kernels() {
  return {
      UNIHAL_KERNEL("set_value", kEvery, set_value),
      UNIHAL_KERNEL("set_value_with_tensor", kEvery, set_value_with_tensor),
      UNIHAL_KERNEL("set_value_grad", kNumbers | kComplex, set_value_grad),
      UNIHAL_KERNEL("set_value_with_scalar_grad", kNumbers | kComplex, set_value_with_scalar_grad),
      UNIHAL_KERNEL("masked_fill", kEvery, masked_fill),
      UNIHAL_KERNEL("masked_fill_grad", kNumbers | kComplex, masked_fill_grad),
      UNIHAL_KERNEL("index_put", kEvery, index_put),
      UNIHAL_KERNEL("index_put_grad", kFloats | kComplex, index_put_grad),
      UNIHAL_KERNEL("index_add", kNumbers, index_add),
      UNIHAL_KERNEL("index_add_grad", kNumbers, index_add_grad),
      UNIHAL_KERNEL("put_along_axis", kNumbers, put_along_axis),
      UNIHAL_KERNEL("put_along_axis_grad", kFloats, put_along_axis_grad),
      UNIHAL_KERNEL("fill_diagonal", kReal, fill_diagonal),
      UNIHAL_KERNEL("fill_diagonal_grad", kNumbers, fill_diagonal_grad),
      UNIHAL_KERNEL("fill_diagonal_tensor", kEvery, fill_diagonal_tensor),
      UNIHAL_KERNEL("fill_diagonal_tensor_grad", kNumbers | kComplex, fill_diagonal_tensor_grad),
  };
}

}  // namespace unihal::paddle
