// The different numbers of a tensor, or the different slices along an axis.
#include <optional>
#include <vector>

#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

// What is told apart, as rows: the elements, or the slices along an axis.
class ComparedRows {
 public:
  ComparedRows(const Context& context, const View& x, Span<int> axes) {
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

void store_integers(const Context& context, const View& from, Dtype dtype, Output y) {
  copy_or_cast(context, from, context.allocate(y, to_uhal(dtype), from.shape, 1));
}

void unique(Context context, Input x, bool with_index, bool with_inverse, bool with_counts, Span<int> axes, Dtype dtype,
            Output y, Output index, Output inverse, Output counts) {
  const ComparedRows rows(context, x.view(), axes);
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
  const ComparedRows rows(context, x.view(), axes);
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
