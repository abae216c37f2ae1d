// The different numbers of a tensor, or the different slices along an axis.
#include <optional>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/true_places.h"

namespace unihal::paddle {
namespace {

void count_up(const Context& context, const View& y) {
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.integer_step = 1;
  context.run(UHAL_OP_IOTA, {}, {&y}, &attributes);
}

void take(const Context& context, const View& x, const View& at, const View& y) {
  const auto attributes = index_attributes(0);
  if (y.elements() > 0) context.run(UHAL_OP_GATHER, {&x, &at}, {&y}, &attributes);
}

// What is told apart, as rows: the elements, or the slices along an axis.
class Rows {
 public:
  Rows(const Context& context, const View& x, Span<int> axes) {
    if (axes.size() == 0) {
      whole_ = flat(x);
      rows_ = whole_.reshaped({x.elements(), 1});
      return;
    }
    axis_ = from_front(axes[0], x.rank);
    whole_ = axis_ == 0 ? x : x.transposed(0, axis_);
    const int64_t count = x.shape[axis_];
    const int64_t dims[] = {count, count == 0 ? 0 : x.elements() / count};
    if (axis_ == 0) {
      rows_ = x.reshaped(dims, 2);
      return;
    }
    dense_.emplace(context, x.dtype, dims, 2);
    copy_or_cast(context, whole_, dense_->reshaped(whole_.shape, whole_.rank));
    rows_ = *dense_;
  }
  const View& view() const { return rows_; }
  int64_t count() const { return rows_.shape[0]; }

  // Gives the output the chosen rows, at the axis where they were.
  void store(const Context& context, const View& from, const View& at, Output y) const {
    View shape = whole_;
    shape.shape[0] = at.shape[0];
    const View chosen_shape = axis_ > 0 ? shape.transposed(0, axis_) : shape;
    const View out = context.allocate(y, from.dtype, chosen_shape.shape, chosen_shape.rank);
    if (out.elements() == 0) return;
    if (axis_ <= 0) {
      const int64_t dims[] = {at.shape[0], from.shape[1]};
      return take(context, from, at, out.reshaped(dims, 2));
    }
    const int64_t dims[] = {at.shape[0], from.shape[1]};
    const Scratch chosen(context, from.dtype, dims, 2);
    take(context, from, at, chosen);
    copy_or_cast(context, chosen.reshaped(shape.shape, shape.rank), out.transposed(0, axis_));
  }

 private:
  std::optional<Scratch> dense_;
  View whole_, rows_;
  int axis_ = -1;
};

// Rows of which each that differs from the one before begins a group. The host waits for the number of groups.
class Groups {
 public:
  Groups(const Context& context, const View& rows)
      : begins_(context, UHAL_BOOL, rows.shape, 1), starts_(context, mark(context, rows)), count_(rows.shape[0]) {}

  const View& starts(const Context& context) {
    starts_.view(context);
    const int64_t dims[] = {starts_.count()};
    places_ = starts_.view(context).reshaped(dims, 1);
    return places_;
  }
  // The group of each row.
  void number(const Context& context, const View& y) const {
    if (y.elements() == 0) return;
    copy_or_cast(context, begins_, y);
    uhal_scan_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.reduction = UHAL_REDUCE_SUM;
    context.run(UHAL_OP_SCAN, {&y}, {&y}, &attributes);
    context.map(uhal_map_scale, {&y}, {&y}, {1, -1});
  }
  // How many rows each group has.
  void sizes(const Context& context, const View& starts, const View& y) const {
    const int64_t groups = starts.shape[0];
    if (groups == 0) return;
    fill(context, y.sliced(0, groups - 1, 1), static_cast<double>(count_), count_);
    if (groups > 1) copy_or_cast(context, starts.sliced(0, 1, groups - 1), y.sliced(0, 0, groups - 1));
    context.map(uhal_map_subtract, {&y, &starts}, {&y});
  }

 private:
  const View& mark(const Context& context, const View& rows) {
    const int64_t count = rows.shape[0];
    fill(context, begins_, 1, 1);
    if (count < 2) return begins_;
    const View after = rows.sliced(0, 1, count - 1), before = rows.sliced(0, 0, count - 1);
    const Scratch differs(context, UHAL_BOOL, after);
    context.map(uhal_map_not_equal, {&after, &before}, {&differs});
    const View target = begins_.sliced(0, 1, count - 1).unsqueezed(1);
    const auto any = reduce_attributes(UHAL_REDUCE_ANY);
    context.run(UHAL_OP_REDUCE, {&differs}, {&target}, &any);
    return begins_;
  }

  Scratch begins_;
  TruePlaces starts_;
  View places_;
  int64_t count_;
};

void store_integers(const Context& context, const View& from, Dtype dtype, Output y) {
  copy_or_cast(context, from, context.allocate(y, to_uhal(dtype), from.shape, 1));
}

// Sorts whole rows: by the last column first, since sorting keeps the order of equals.
void sort_rows(const Context& context, const View& rows, const View& order) {
  count_up(context, order);
  if (rows.shape[0] < 2) return;
  const Scratch column(context, rows.dtype, order), sorted(context, rows.dtype, order);
  const Scratch moves(context, UHAL_INT64, order), moved(context, UHAL_INT64, order);
  const auto ascending = axis_attributes(0, false);
  for (int64_t i = rows.shape[1] - 1; i >= 0; --i) {
    View one = rows.sliced(1, i, 1);
    one.rank = 1;
    take(context, one, order, column);
    context.run(UHAL_OP_SORT, {&column}, {&sorted, &moves}, &ascending);
    take(context, order, moves, moved);
    copy_or_cast(context, moved, order);
  }
}

void unique(Context context, Input x, bool with_index, bool with_inverse, bool with_counts, Span<int> axes, Dtype dtype,
            Output y, Output index, Output inverse, Output counts) {
  const Rows rows(context, x.view(), axes);
  const int64_t count[] = {rows.count()};
  const Scratch order(context, UHAL_INT64, count, 1), sorted(context, rows.view().dtype, rows.view());
  sort_rows(context, rows.view(), order);
  take(context, rows.view(), order, sorted);
  Groups groups(context, sorted);
  const View starts = groups.starts(context);
  rows.store(context, sorted, starts, y);
  if (with_index) {
    const Scratch first(context, UHAL_INT64, starts);
    take(context, order, starts, first);
    store_integers(context, first, dtype, index);
  }
  if (with_inverse) {
    const Scratch number(context, UHAL_INT64, order), turned(context, UHAL_INT64, order);
    groups.number(context, number);
    const auto attributes = index_attributes(0);
    if (order.elements() > 0) context.run(UHAL_OP_SCATTER, {&order, &number}, {&turned}, &attributes);
    store_integers(context, turned, dtype, inverse);
  }
  if (with_counts) {
    const Scratch sizes(context, UHAL_INT64, starts);
    groups.sizes(context, starts, sizes);
    store_integers(context, sizes, dtype, counts);
  }
}

void unique_consecutive(Context context, Input x, bool with_inverse, bool with_counts, Span<int> axes, Dtype dtype,
                        Output y, Output inverse, Output counts) {
  const Rows rows(context, x.view(), axes);
  Groups groups(context, rows.view());
  const View starts = groups.starts(context);
  rows.store(context, rows.view(), starts, y);
  if (with_inverse) {
    const int64_t count[] = {rows.count()};
    const Scratch number(context, UHAL_INT64, count, 1);
    groups.number(context, number);
    store_integers(context, number, dtype, inverse);
  }
  if (with_counts) {
    const Scratch sizes(context, UHAL_INT64, starts);
    groups.sizes(context, starts, sizes);
    store_integers(context, sizes, dtype, counts);
  }
}

}  // namespace

KernelTable unique_kernels() {
  return {
      UNIHAL_KERNEL("unique", kWideFloats | kIntegers, unique),
      UNIHAL_KERNEL("unique_consecutive", kWideFloats | kInt32And64, unique_consecutive),
  };
}

}  // namespace unihal::paddle
