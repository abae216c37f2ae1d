// Rows in order, and groups of equal ones.
#pragma once

#include <optional>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/true_places.h"

namespace unihal::paddle {

// y = x[at], along the first axis.
inline void take(const Context& context, const View& x, const View& at, const View& y) {
  const auto attributes = index_attributes(0);
  if (y.elements() > 0) context.run(UHAL_OP_GATHER, {&x, &at}, {&y}, &attributes);
}

// y[i] = x[0] + ... + x[i]; y may be x.
inline void sum_up(const Context& context, const View& x, const View& y) {
  uhal_scan_attributes scan = {};
  scan.struct_size = sizeof scan;
  scan.reduction = UHAL_REDUCE_SUM;
  if (x.elements() > 0) context.run(UHAL_OP_SCAN, {&x}, {&y}, &scan);
}

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
    sum_up(context, y, y);
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

// Sorts whole rows: by the last column first, since sorting keeps the order of equals.
inline void sort_rows(const Context& context, const View& rows, const View& order) {
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

// Numbers of a list's elements, equal ones of equal elements, in the order in which they come. The first `own` ones
// have numbers of their own even where they are equal; those that come behind and equal several get the last one's.
class NewNumbers {
 public:
  NewNumbers(const Context& context, const View& list, int64_t own = 0)
      : numbers(context, UHAL_INT64, {list.elements()}), has_number_(context, UHAL_BOOL, {list.elements()}) {
    const int64_t count = list.elements();
    if (count == 0) return;
    const Scratch order(context, UHAL_INT64, {count}), sorted(context, list.dtype, {count}),
        group(context, UHAL_INT64, {count}), so_far(context, UHAL_INT64, {count});
    const View elements = flat(list);
    const auto ascending = axis_attributes(0, false);
    context.run(UHAL_OP_SORT, {&elements}, {&sorted, &order}, &ascending);
    Groups groups(context, sorted.reshaped({count, 1}));
    const View starts = groups.starts(context);
    const Scratch first(context, UHAL_INT64, starts), of_group(context, UHAL_INT64, starts);
    const auto along = index_attributes(0);
    groups.number(context, so_far);
    context.run(UHAL_OP_SCATTER, {&order, &so_far}, {&group}, &along);
    // Sorting keeps the order of equals, so that the first of a group came first.
    take(context, order, starts, first);
    const Constant yes(context, UHAL_BOOL, 1);
    View ones = yes.reshaped({1});
    ones.shape[0] = first.elements();
    ones.strides[0] = 0;
    fill_zero(context, has_number_);
    context.run(UHAL_OP_SCATTER, {&first, &ones}, {&has_number_}, &along);
    if (own > 0) fill(context, has_number_.sliced(0, 0, own), 1, 1);
    copy_or_cast(context, has_number_, so_far);
    sum_up(context, so_far, so_far);
    context.map(uhal_map_scale, {&so_far}, {&so_far}, {1, -1});
    take(context, so_far, first, of_group);
    if (own > 0) {
      const Scratch places(context, UHAL_INT64, {own});
      count_up(context, places);
      const View groups_of_own = group.sliced(0, 0, own);
      context.run(UHAL_OP_SCATTER, {&groups_of_own, &places}, {&of_group}, &along);
    }
    take(context, of_group, group, numbers);
  }

  // The elements in the order of their numbers.
  void write_elements(const Context& context, const View& list, uhal_dtype dtype, Output y) const {
    TruePlaces places(context, has_number_);
    const int64_t count = places.count();
    const View out = context.allocate(y, dtype, &count, 1);
    if (count == 0) return;
    const Scratch chosen(context, list.dtype, {count});
    take(context, flat(list), places.view(context).reshaped({count}), chosen);
    copy_or_cast(context, chosen, out);
  }

  const Scratch numbers;  // int64

 private:
  const Scratch has_number_;
};

}  // namespace unihal::paddle
