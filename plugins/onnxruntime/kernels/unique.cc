// Unique: what there is more than once, once.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// x -> the numbers of x, or its parts along an axis, each once; where each is first; which one each of x's is; how
// often each is there. Sorted, or in the order of x.
class Unique final : public Kernel {
 public:
  explicit Unique(const Description& node)
      : sorted_(node.integer("sorted", 1) != 0), axis_(node.integer("axis", kFlat)) {}

  void run(Call& call) const override {
    View x = call.input(0);
    if (axis_ == kFlat) x = x.reshaped({x.elements()});
    const int axis = axis_ == kFlat ? 0 : axis_of(call, axis_, x.rank);
    const int64_t count = x.shape[axis];
    if (x.elements() == 0) {
      call.require(count == 0, "parts without elements");
      give_nothing(call, x);
      return;
    }
    const View rows = rows_of(call, x, axis);
    const View order = sorted_order(call, rows);
    // Where the sorted parts change, another group begins.
    const View starts_group = changes(call, gathered(call, rows, order, 0));
    const int64_t groups = count_nonzero(call, starts_group);
    const View number = call.scratch(Shape(), UHAL_INT64), starts = call.scratch(Shape{groups}, UHAL_INT64);
    call.launch(UHAL_OP_NONZERO, {&starts_group}, {&number, &starts});
    const View ones = call.scratch(Shape{count}, UHAL_INT64);
    View group_of = call.scratch(Shape{count}, UHAL_INT64);
    call.cast(starts_group, ones);
    uhal_scan_attributes scan = {};
    scan.struct_size = sizeof scan;
    scan.reduction = UHAL_REDUCE_SUM;
    call.launch(UHAL_OP_SCAN, {&ones}, {&group_of}, &scan);
    call.map(uhal_map_scale, {&group_of}, {&group_of}, {1, -1});
    View lengths = lengths_of(call, starts, count);
    View first = gathered(call, order, starts, 0);  // of equals the sort has the first first
    if (!sorted_) {
      const View ordered = call.scratch_like(first, UHAL_INT64), from = call.scratch_like(first, UHAL_INT64);
      const uhal_axis_attributes ascending = axis_attributes(0, false);
      call.launch(UHAL_OP_SORT, {&first}, {&ordered, &from}, &ascending);
      first = ordered;
      lengths = gathered(call, lengths, from, 0);
      group_of = gathered(call, inverse_of(call, from), group_of, 0);
    }
    Shape shape = shape_of(x);
    shape[static_cast<size_t>(axis)] = groups;
    const View y = call.output(0, shape);
    const uhal_index_attributes along = index_attributes(axis);
    call.launch(UHAL_OP_GATHER, {&x, &first}, {&y}, &along);
    View output;
    if (call.wants(1, {groups}, &output)) call.copy(first, output);
    if (call.wants(2, {count}, &output)) {
      const uhal_index_attributes flat = index_attributes(0);
      call.launch(UHAL_OP_SCATTER_ELEMENTS, {&order, &group_of}, {&output}, &flat);
    }
    if (call.wants(3, {groups}, &output)) call.copy(lengths, output);
  }

 private:
  static constexpr int64_t kFlat = INT64_MIN;  // no axis: of all elements

  static void give_nothing(Call& call, const View& x) {
    View output;
    call.output_like(0, x);
    for (int i = 1; i < 4; ++i) call.wants(i, {0}, &output);
  }

  // (n, elements of each), dense.
  static View rows_of(Call& call, const View& x, int axis) {
    const int64_t count = x.shape[axis], width = x.elements() / count;
    if (axis == 0) return x.reshaped({count, width});
    Shape shape = {count};
    int order[UHAL_MAX_RANK] = {axis};
    for (int i = 0, next = 1; i < x.rank; ++i) {
      if (i == axis) continue;
      order[next++] = i;
      shape.push_back(x.shape[i]);
    }
    const View turned = x.permuted(order, x.rank), dense = call.scratch(shape, x.dtype);
    call.launch(UHAL_OP_COPY, {&turned}, {&dense});
    return dense.reshaped({count, width});
  }

  static View gathered(Call& call, const View& x, const View& indices, int axis) {
    Shape shape = shape_of(x);
    shape[static_cast<size_t>(axis)] = indices.shape[0];
    const View y = call.scratch(shape, x.dtype);
    const uhal_index_attributes attributes = index_attributes(axis);
    call.launch(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
    return y;
  }

  static View numbers(Call& call, int64_t count) {
    const View result = call.scratch(Shape{count}, UHAL_INT64);
    uhal_iota_attributes iota = {};
    iota.struct_size = sizeof iota;
    iota.integer_step = 1;
    call.launch(UHAL_OP_IOTA, {}, {&result}, &iota);
    return result;
  }

  // The order of rows: sorts that keep the order of equals, by one column after the other, the first last.
  static View sorted_order(Call& call, const View& rows) {
    View order;
    const uhal_axis_attributes ascending = axis_attributes(0, false);
    for (int64_t column = rows.shape[1] - 1; column >= 0; --column) {
      View keys = rows.sliced(1, column, 1);
      keys.rank = 1;
      if (order.dtype != UHAL_DTYPE_INVALID) keys = gathered(call, keys, order, 0);
      const View values = call.scratch(Shape{rows.shape[0]}, rows.dtype);
      const View places = call.scratch(Shape{rows.shape[0]}, UHAL_INT64);
      call.launch(UHAL_OP_SORT, {&keys}, {&values, &places}, &ascending);
      order = order.dtype == UHAL_DTYPE_INVALID ? places : gathered(call, order, places, 0);
    }
    return order;
  }

  // Whether each row differs from the one before it; the first does.
  static View changes(Call& call, const View& rows) {
    const int64_t count = rows.shape[0], width = rows.shape[1];
    const View result = call.scratch(Shape{count}, UHAL_BOOL);
    call.fill(result, 1);
    if (count == 1) return result;
    const View later = rows.sliced(0, 1, count - 1), earlier = rows.sliced(0, 0, count - 1);
    const View rest = result.sliced(0, 1, count - 1).unsqueezed(1);
    if (width == 1) {
      call.map(uhal_map_not_equal, {&later, &earlier}, {&rest});
      return result;
    }
    const View differs = call.scratch(Shape{count - 1, width}, UHAL_BOOL);
    call.map(uhal_map_not_equal, {&later, &earlier}, {&differs});
    const uhal_reduce_attributes any = reduce_attributes(UHAL_REDUCE_MAXIMUM);
    call.launch(UHAL_OP_REDUCE, {&differs}, {&rest}, &any);
    return result;
  }

  // The distances between where groups begin, the last to the end.
  static View lengths_of(Call& call, const View& starts, int64_t count) {
    const int64_t groups = starts.shape[0];
    const View ends = call.scratch_like(starts, UHAL_INT64), lengths = call.scratch_like(starts, UHAL_INT64);
    call.fill_integer(ends, count);
    if (groups > 1) {
      const View next = starts.sliced(0, 1, groups - 1), to = ends.sliced(0, 0, groups - 1);
      call.launch(UHAL_OP_COPY, {&next}, {&to});
    }
    call.map(uhal_map_subtract, {&ends, &starts}, {&lengths});
    return lengths;
  }

  static View inverse_of(Call& call, const View& order) {
    const View result = call.scratch_like(order, UHAL_INT64), count = numbers(call, order.shape[0]);
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_SCATTER_ELEMENTS, {&order, &count}, {&result}, &attributes);
    return result;
  }

  const bool sorted_;
  const int64_t axis_;
};

const Op kUniqueOps[] = {
    {.name = "Unique", .first = 11, .last = kNewestOpset, .dtypes = kNumbers, .make = make<Unique>},
};

}  // namespace

Table unique_ops() { return table(kUniqueOps); }

}  // namespace unihal::onnxruntime
