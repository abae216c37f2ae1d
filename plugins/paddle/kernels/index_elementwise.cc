// What x[i, :, j] and x[i, :, j] = value become in eager mode. Paddle describes where the elements lie as for a loop
// over the result: shape and strides of the result in x's memory (0 along the axes that come from the indices), and for
// each index the size and the stride (in bytes) of the axis that it stands for. So no axis of x is named, and x may be
// any view; fallback.cc makes Paddle hand it over as it is.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// What Paddle says of the places.
struct IndexedPlaces {
  Span<int64_t> shape;         // of the result
  Span<int64_t> strides;       // elements
  Span<int64_t> axes;          // the size of each indexed axis; then, for each index, -1 and its shape in the result
  Span<int64_t> axis_strides;  // bytes
  int64_t offset;              // bytes
};

// The number of elements of memory that a view reaches, from its first on.
int64_t reach(const View& view) {
  int64_t last = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return 0;
    last += (view.shape[i] - 1) * view.strides[i];
  }
  return last + 1;
}

// A tensor in dense memory: these kernels get views of any strides, as x, as indices and as values alike.
class DenseOperand : public View {
 public:
  DenseOperand(const Context& context, const Tensor& x) : View(x.strided_view()) {
    if (is_dense(*this)) {
      static_cast<View&>(*this) = View(data, dtype, shape, rank);
      return;
    }
    const View strided = *this;
    copy_.emplace(context, dtype, View(nullptr, dtype, shape, rank));
    copy_or_cast(context, strided, *copy_);
    static_cast<View&>(*this) = *copy_;
  }

 private:
  std::optional<Scratch> copy_;
};

// Paddle gives outputs of kernels that take strides the strides of an operand.
View allocate_dense(const Context& context, Output y, uhal_dtype dtype) {
  const View shape = y.layout(), dense(nullptr, dtype, shape.shape, shape.rank);
  phi.PD_TensorSetStrides(y.handle, dense.rank, dense.strides, IgnoredStatus());
  return context.allocate(y, dtype);
}

// The indices, and how memory and result are seen so that the indexed axes come first.
class Lookup {
 public:
  Lookup(const Context& context, const InputList& indices, const IndexedPlaces& places) : places_(places) {
    const int rank = places.shape.size(), count = static_cast<int>(indices.size());
    View each[UHAL_MAX_RANK];
    std::optional<DenseOperand> dense[UHAL_MAX_RANK];
    int64_t broadcast[UHAL_MAX_RANK];
    std::fill_n(broadcast, rank, 1);
    for (int k = 0; k < count; ++k) {
      // "-1, shape" for each index, behind the sizes of the axes.
      const int64_t* shape = places.axes.data + count + k * (rank + 1) + 1;
      dense[k].emplace(context, indices[static_cast<size_t>(k)]);
      each[k] = dense[k]->reshaped(shape, rank);
      for (int i = 0; i < rank; ++i) broadcast[i] = std::max(broadcast[i], each[k].shape[i]);
      for (int i = 0; i < rank; ++i) broadcast[i] = each[k].shape[i] == 0 ? 0 : broadcast[i];
    }
    for (bool indexed : {true, false}) {
      for (int i = 0; i < rank; ++i) {
        const bool from_index = places.strides[i] == 0 && places.shape[i] == broadcast[i];
        if (from_index == indexed) order_[position_++] = i;
        index_axes_ += indexed && from_index ? 1 : 0;
      }
    }
    stack(context, each, count, broadcast);
  }

  // Memory that is laid out as x, from x's first element on: the indexed axes, then the others.
  View memory(const View& first) const {
    const int count = places_.axis_strides.size(), rest = position_ - index_axes_;
    const auto item = static_cast<int64_t>(uhal_dtype_size(first.dtype));
    View view(static_cast<char*>(first.data) + places_.offset, first.dtype, nullptr, 0);
    view.rank = count + rest;
    for (int k = 0; k < count; ++k) {
      view.shape[k] = places_.axes[k];
      view.strides[k] = places_.axis_strides[k] / item;
    }
    for (int i = 0; i < rest; ++i) {
      view.shape[count + i] = places_.shape[order_[index_axes_ + i]];
      view.strides[count + i] = places_.strides[order_[index_axes_ + i]];
    }
    return view;
  }
  // A tensor that broadcasts to the result, in the same order of axes.
  View result(const View& y) const {
    View view = y;
    while (view.rank > position_ && view.shape[0] == 1) {
      --view.rank;
      std::copy_n(view.shape + 1, view.rank, view.shape);
      std::copy_n(view.strides + 1, view.rank, view.strides);
    }
    view = with_rank(view, position_).permuted(order_, position_);
    for (int i = 0; i < position_; ++i) {
      if (view.shape[i] == 1) view.strides[i] = 0;
      view.shape[i] = places_.shape[order_[i]];
    }
    return view;
  }
  const View& indices() const { return *stacked_; }
  bool empty() const {
    return std::any_of(places_.shape.begin(), places_.shape.end(), [](int64_t n) { return n == 0; });
  }

 private:
  // Coordinates of each indexed element, side by side.
  void stack(const Context& context, const View* each, int count, const int64_t* broadcast) {
    int64_t dims[UHAL_MAX_RANK + 1];
    for (int i = 0; i < index_axes_; ++i) dims[i] = broadcast[order_[i]];
    dims[index_axes_] = count;
    stacked_.emplace(context, UHAL_INT64, dims, index_axes_ + 1);
    for (int k = 0; k < count; ++k) {
      View from = each[k].permuted(order_, position_), to = *stacked_;
      from.rank = index_axes_;  // the others have length 1
      to = to.sliced(index_axes_, k, 1);
      to.rank = index_axes_;
      if (to.elements() > 0) copy_or_cast(context, from, to);
    }
  }

  IndexedPlaces places_;
  int order_[UHAL_MAX_RANK] = {};
  int position_ = 0, index_axes_ = 0;
  std::optional<Scratch> stacked_;
};

// memory at the places -> y
void look_up(const Context& context, const Lookup& lookup, const View& memory, const View& y) {
  if (lookup.empty()) return;
  const View from = lookup.memory(memory), to = lookup.result(y);
  const auto attributes = wrapping(0);
  context.run(UHAL_OP_GATHER_ND, {&from, &lookup.indices()}, {&to}, &attributes);
}

// value, broadcast -> memory at the places
void put_at(const Context& context, const Lookup& lookup, const View& value, const View& memory,
            uhal_reduction reduction = UHAL_REDUCE_NONE) {
  if (lookup.empty()) return;
  const View from = lookup.result(value), to = lookup.memory(memory);
  const auto attributes = wrapping(0, reduction);
  context.run(UHAL_OP_SCATTER_ND, {&lookup.indices(), &from}, {&to}, &attributes);
}

// Numbers may be put where a mask is true: then the only index is that mask, and Paddle gives its strides (bytes).
bool is_mask(const InputList& indices) { return indices.size() == 1 && indices[0].uhal() == UHAL_BOOL; }

void put_where(const Context& context, const View& mask, const IndexedPlaces& places, const View& number,
               const View& first) {
  View target = first, chosen = mask;
  target.data = static_cast<char*>(first.data) + places.offset;
  target.rank = chosen.rank = places.shape.size();
  std::copy(places.shape.begin(), places.shape.end(), target.shape);
  std::copy(places.strides.begin(), places.strides.end(), target.strides);
  std::copy(places.shape.begin(), places.shape.end(), chosen.shape);
  std::copy(places.axis_strides.begin(), places.axis_strides.end(), chosen.strides);
  if (target.elements() > 0) context.map(uhal_map_select, {&chosen, &number, &target}, {&target});
}

// Memory that is laid out as x, for a dense tensor of x's shape: that tensor itself if x is dense.
class LaidOutAs {
 public:
  LaidOutAs(const Context& context, const View& x, const View& dense)
      : context_(context), dense_(dense), memory_(dense) {
    if (is_dense(x)) return;
    const int64_t count = reach(x);
    own_.emplace(context, dense.dtype, &count, 1);
    memory_ = x;
    memory_.dtype = dense.dtype;
    memory_.data = own_->data;
  }
  const View& memory() const { return memory_; }
  void load() const {
    if (own_) copy_or_cast(context_, dense_, memory_);
  }
  void store() const {
    if (own_) copy_or_cast(context_, memory_, dense_);
  }

 private:
  const Context& context_;
  View dense_, memory_;
  std::optional<Scratch> own_;
};

void get(Context context, Input x, InputList indices, Span<int64_t> shape, Span<int64_t> strides, Span<int64_t> axes,
         Span<int64_t> axis_strides, int64_t offset, bool, bool, Output y) {
  const View in = x.strided_view();
  const View out = allocate_dense(context, y, in.dtype);
  look_up(context, Lookup(context, indices, {shape, strides, axes, axis_strides, offset}), in, out);
}

// Until Paddle 3.1 with one flag.
void get_by_one(Context context, Input x, InputList indices, Span<int64_t> shape, Span<int64_t> strides,
                Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, bool flag, Output y) {
  get(context, x, std::move(indices), shape, strides, axes, axis_strides, offset, flag, flag, y);
}

// Updates of one place add up.
void get_grad(Context context, Input x, InputList indices, Input dy, Span<int64_t> shape, Span<int64_t> strides,
              Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, bool, bool, Output dx) {
  const DenseOperand gradient(context, dy);
  const View out = allocate_dense(context, dx, gradient.dtype);
  const LaidOutAs target(context, x.layout(), out);
  fill_zero(context, out);
  target.load();
  put_at(context, Lookup(context, indices, {shape, strides, axes, axis_strides, offset}), gradient, target.memory(),
         UHAL_REDUCE_SUM);
  target.store();
}
void get_grad_by_one(Context context, Input x, InputList indices, Input dy, Span<int64_t> shape, Span<int64_t> strides,
                     Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, bool flag, Output dx) {
  get_grad(context, x, std::move(indices), dy, shape, strides, axes, axis_strides, offset, flag, flag, dx);
}

// value -> memory, as the indices say
void put(const Context& context, const InputList& indices, const IndexedPlaces& places, const View& value,
         const View& memory) {
  if (!is_mask(indices)) return put_at(context, Lookup(context, indices, places), value, memory);
  if (value.elements() != 1) unsupported(context, "a tensor of several values at a mask");
  put_where(context, DenseOperand(context, indices[0]), places, value.reshaped(nullptr, 0), memory);
}

// In place the output is x, with x's layout; else a dense copy.
void put_into(const Context& context, Input x, const InputList& indices, const View& value, const IndexedPlaces& places,
              Output y) {
  const View in = x.strided_view();
  const View there = Tensor{y.handle}.is_allocated() ? Tensor{y.handle}.strided_view() : View();
  if (there.data == in.data && in.data != nullptr) return put(context, indices, places, value, in);
  const View out = allocate_dense(context, y, in.dtype);
  copy_or_cast(context, in, out);
  const LaidOutAs target(context, in, out);
  target.load();
  put(context, indices, places, value, target.memory());
  target.store();
}

void put_number(Context context, Input x, InputList indices, Scalar value, Span<int64_t> shape, Span<int64_t> strides,
                Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, Output y) {
  const Scratch number(context, x.uhal(), nullptr, 0);
  fill(context, number, value);
  put_into(context, x, indices, number, {shape, strides, axes, axis_strides, offset}, y);
}

void put_tensor(Context context, Input x, InputList indices, Input value, Span<int64_t> shape, Span<int64_t> strides,
                Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, Output y) {
  const DenseOperand given(context, value);
  View values = given;
  std::optional<Scratch> converted;
  if (values.dtype != x.uhal()) {
    converted.emplace(context, x.uhal(), values);
    copy_or_cast(context, values, *converted);
    values = *converted;
  }
  put_into(context, x, indices, values, {shape, strides, axes, axis_strides, offset}, y);
}

// dx = dy, with zero where the value was put
void put_grad_of_x(const Context& context, const View& x, const InputList& indices, const IndexedPlaces& places,
                   const View& dy, Output dx) {
  const View out = allocate_dense(context, dx, dy.dtype);
  copy_or_cast(context, dy, out);
  const LaidOutAs target(context, x, out);
  target.load();
  const Scratch zero(context, dy.dtype, nullptr, 0);
  fill_zero(context, zero);
  put(context, indices, places, zero, target.memory());
  target.store();
}

void put_number_grad(Context context, Input x, InputList indices, Input dy, Span<int64_t> shape, Span<int64_t> strides,
                     Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, Output dx) {
  put_grad_of_x(context, x.layout(), indices, {shape, strides, axes, axis_strides, offset}, DenseOperand(context, dy),
                dx);
}

void put_tensor_grad(Context context, Input x, InputList indices, Input value, Input dy, Span<int64_t> shape,
                     Span<int64_t> strides, Span<int64_t> axes, Span<int64_t> axis_strides, int64_t offset, Output dx,
                     Output dvalue) {
  const IndexedPlaces places = {shape, strides, axes, axis_strides, offset};
  const DenseOperand gradient(context, dy);
  const View layout = x.layout();
  if (dx) put_grad_of_x(context, layout, indices, places, gradient, dx);
  if (!dvalue) return;
  if (is_mask(indices)) unsupported(context, "the gradient of a tensor of values at a mask");
  const Lookup lookup(context, indices, places);
  const LaidOutAs source(context, layout, gradient);
  source.load();
  const Scratch at_places(context, gradient.dtype, shape.data, shape.size());
  look_up(context, lookup, source.memory(), at_places);
  const View out = allocate_dense(context, dvalue, value.uhal());
  sum_to_shape(context, at_places, out);
}

}  // namespace

KernelTable index_elementwise_kernels() {
  return {
      UNIHAL_KERNEL("index_elementwise_get", kEvery, get),
      UNIHAL_KERNEL("index_elementwise_get", kEvery, get_by_one),
      UNIHAL_KERNEL("index_elementwise_get_grad", kFloats | kComplex, get_grad),
      UNIHAL_KERNEL("index_elementwise_get_grad", kFloats | kComplex, get_grad_by_one),
      UNIHAL_KERNEL("index_elementwise_put", kEvery, put_number),
      UNIHAL_KERNEL("index_elementwise_put_grad", kFloats | kComplex, put_number_grad),
      UNIHAL_KERNEL("index_elementwise_put_with_tensor", kEvery, put_tensor),
      UNIHAL_KERNEL("index_elementwise_put_with_tensor_grad", kFloats | kComplex, put_tensor_grad),
  };
}

}  // namespace unihal::paddle
