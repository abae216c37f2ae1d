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

}  // namespace unihal::paddle
