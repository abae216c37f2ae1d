// Rows that are sorted into parts, put together again, told apart or turned around. Where an output's size depends on
// data, the host waits for numbers.
#include "plugins/tensorflow/kernels/partition.h"

#include <algorithm>
#include <numeric>

#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {}  // namespace

void count_up(Context& context, const View& view) {
  uhal_iota_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.integer_step = 1;
  attributes.step = 1;
  context.launch(UHAL_OP_IOTA, {}, {&view}, &attributes);
}

uhal_segment_attributes segment_attributes(uhal_reduction reduction) {
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = reduction;
  attributes.ignore_out_of_range = 1;
  return attributes;
}

void count_segments(Context& context, const View& ids, const View& counts) {
  View ones = context.temporary_vector(UHAL_INT64, 1);
  if (!context.ok() || !context.fill(ones, 1, 1)) return;
  ones.shape[0] = ids.elements();
  ones.strides[0] = 0;
  const uhal_segment_attributes attributes = segment_attributes(UHAL_REDUCE_SUM);
  context.launch(UHAL_OP_SEGMENT_REDUCE, {&ones, &ids}, {&counts}, &attributes);
}

namespace {

// Equal numbers beside each other. Indices are int32 where they fit.
struct SortedGroups {
  int64_t count = 0;
  View places;  // where the sorted elements were
  View rank;    // of the sorted elements: the number of their group
  View starts;  // of each group: its first element's place among the sorted ones
  View values;  // of each group
  View first;   // of each group: where its first element was
};

// Waits for the stream once. NaNs are all different.
SortedGroups sort_groups(Context& context, const View& numbers, uhal_dtype rank_dtype) {
  const int64_t count = numbers.elements();
  SortedGroups groups;
  const uhal_dtype index = count < INT32_MAX ? UHAL_INT32 : UHAL_INT64;
  const View sorted = context.temporary_vector(numbers.dtype, count);
  const View begins = context.temporary_vector(UHAL_BOOL, count);
  groups.places = context.temporary_vector(index, count);
  groups.rank = context.temporary_vector(rank_dtype, count);
  if (!context.ok()) return groups;
  const uhal_axis_attributes ascending = axis_attributes(0, false);
  context.launch(UHAL_OP_SORT, {&numbers}, {&sorted, &groups.places}, &ascending);
  // True where a group begins; the first, which has number 0, not yet.
  const View head = begins.sliced(0, 0, 1);
  context.zero(head);
  if (count > 1) {
    const View left = sorted.sliced(0, 0, count - 1), right = sorted.sliced(0, 1, count - 1);
    const View rest = begins.sliced(0, 1, count - 1);
    context.map(uhal_map_not_equal, {&left, &right}, {&rest});
  }
  uhal_scan_attributes scan = {};
  scan.struct_size = sizeof scan;
  scan.reduction = UHAL_REDUCE_SUM;
  context.launch(UHAL_OP_SCAN, {&begins}, {&groups.rank}, &scan);
  groups.count = read_number(context, groups.rank.sliced(0, count - 1, 1)) + 1;
  if (!context.ok()) return groups;
  const View found = context.temporary_vector(UHAL_INT64, 1);
  groups.starts = context.temporary_vector(index, groups.count);
  groups.values = context.temporary_vector(numbers.dtype, groups.count);
  groups.first = context.temporary_vector(index, groups.count);
  if (!context.ok() || !context.fill(head, 1, 1)) return groups;
  context.launch(UHAL_OP_NONZERO, {&begins}, {&found, &groups.starts});
  const uhal_index_attributes gather = index_attributes(0);
  context.launch(UHAL_OP_GATHER, {&sorted, &groups.starts}, {&groups.values}, &gather);
  context.launch(UHAL_OP_GATHER, {&groups.places, &groups.starts}, {&groups.first}, &gather);
  return groups;
}

}  // namespace

Groups group_equals(Context& context, const View& numbers) {
  const int64_t count = numbers.elements();
  Groups groups;
  groups.of_element = context.temporary_vector(UHAL_INT64, count);
  if (!context.ok() || count == 0) return groups;
  const SortedGroups sorted = sort_groups(context, numbers, UHAL_INT64);
  if (!context.ok()) return groups;
  const uhal_index_attributes scatter = index_attributes(0);
  context.launch(UHAL_OP_SCATTER, {&sorted.places, &sorted.rank}, {&groups.of_element}, &scatter);
  groups.count = sorted.count;
  groups.values = sorted.values;
  return groups;
}

namespace {

// DynamicPartition(data, partitions): the rows of each part, in their order.
class DynamicPartition : public Kernel {
 public:
  explicit DynamicPartition(Construction& construction)
      : Kernel(construction), parts_(construction.integer("num_partitions")) {}
  void compute(Context& context) const override {
    const View data = context.input(0);
    const View partitions = context.input(1);
    if (!context.ok()) return;
    if (partitions.rank > data.rank || !std::equal(partitions.shape, partitions.shape + partitions.rank, data.shape)) {
      return context.fail_invalid("data.shape must start with partitions.shape, got data.shape = " + to_text(data) +
                                  ", partitions.shape = " + to_text(partitions));
    }
    const int64_t rows = partitions.elements();
    Shape shape = {rows};
    shape.insert(shape.end(), data.shape + partitions.rank, data.shape + data.rank);
    Shape sizes(static_cast<size_t>(parts_));
    View places;
    if (rows > 0) {
      const View flat = partitions.reshaped({rows});
      const View counts = context.temporary_vector(UHAL_INT64, parts_);
      const View sorted = context.temporary_vector(partitions.dtype, rows);
      places = context.temporary_vector(UHAL_INT64, rows);
      if (!context.ok()) return;
      count_segments(context, flat, counts);
      const uhal_axis_attributes ascending = axis_attributes(0, false);
      context.launch(UHAL_OP_SORT, {&flat}, {&sorted, &places}, &ascending);
      sizes = read_numbers(context, counts);
      if (!context.ok()) return;
      if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != rows) {
        return context.fail_invalid("partitions must be in [0, " + std::to_string(parts_) + ")");
      }
    }
    const View whole = data.reshaped(shape);
    int64_t begin = 0;
    for (int i = 0; context.ok() && i < parts_; ++i) {
      shape[0] = sizes[static_cast<size_t>(i)];
      const View output = context.output(i, data.dtype, shape);
      if (context.ok() && output.elements() > 0) {
        const View chosen = places.sliced(0, begin, shape[0]);
        const uhal_index_attributes attributes = index_attributes(0);
        context.launch(UHAL_OP_GATHER, {&whole, &chosen}, {&output}, &attributes);
      }
      begin += shape[0];
    }
  }

 private:
  int64_t parts_;
};

// DynamicStitch(indices..., data...): rows of data where their indices say; later ones win. What no index names is 0.
class DynamicStitch : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const int count = context.input_count() / 2;
    const View extremes = context.temporary_vector(UHAL_INT64, 2 * count);  // the largest ones, then the least
    if (!context.ok() || !context.fill(extremes.sliced(0, 0, count), 0, -1)) return;
    if (!context.zero(extremes.sliced(0, count, count))) return;
    Shape rest;
    for (int i = 0; i < count; ++i) {
      const View indices = context.input(i);
      const View data = context.input(count + i);
      if (!context.ok()) return;
      if (indices.rank > data.rank || !std::equal(indices.shape, indices.shape + indices.rank, data.shape)) {
        return context.fail_invalid("data[" + std::to_string(i) + "].shape = " + to_text(data) +
                                    " does not start with indices[" + std::to_string(i) +
                                    "].shape = " + to_text(indices));
      }
      const Shape own(data.shape + indices.rank, data.shape + data.rank);
      if (i > 0 && own != rest) {
        return context.fail_invalid("Need data[0].shape[" + std::to_string(context.dims(0).size()) + ":] = data[" +
                                    std::to_string(i) + "].shape[" + std::to_string(indices.rank) + ":], got " +
                                    to_text(rest) + " and " + to_text(own));
      }
      rest = own;
      if (indices.elements() == 0) continue;
      const View flat = indices.reshaped({indices.elements()});
      const View largest = extremes.sliced(0, i, 1), least = extremes.sliced(0, count + i, 1);
      const uhal_reduce_attributes maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM);
      const uhal_reduce_attributes minimum = reduce_attributes(UHAL_REDUCE_MINIMUM);
      context.launch(UHAL_OP_REDUCE, {&flat}, {&largest}, &maximum);
      context.launch(UHAL_OP_REDUCE, {&flat}, {&least}, &minimum);
    }
    const Shape found = read_numbers(context, extremes);
    if (!context.ok()) return;
    for (int i = 0; i < count; ++i) {
      if (found[static_cast<size_t>(count + i)] < 0) {
        return context.fail_invalid("indices[" + std::to_string(i) + "] is out of range");
      }
    }
    Shape shape = {*std::max_element(found.begin(), found.begin() + count) + 1};
    shape.insert(shape.end(), rest.begin(), rest.end());
    const View output = context.output(0, context.input(count).dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    context.zero(output);
    const uhal_index_attributes attributes = lenient_index_attributes(0);
    for (int i = 0; context.ok() && i < count; ++i) {
      const View indices = context.input(i);
      if (indices.elements() == 0) continue;
      shape[0] = indices.elements();
      const View flat = indices.reshaped({shape[0]});
      const View rows = context.input(count + i).reshaped(shape);
      context.launch(UHAL_OP_SCATTER, {&flat, &rows}, {&output}, &attributes);
    }
  }
};

// Unique, UniqueV2 and the forms WithCounts (x, axis of version 2) -> the different numbers in the order of their first
// places, of each element its number's number, and how often each comes.
template <bool kCounts>
class Unique : public Kernel {
 public:
  explicit Unique(Construction& construction)
      : Kernel(construction), index_dtype_(construction.dtype("out_idx")), has_axis_(construction.has("Taxis")) {}
  void compute(Context& context) const override {
    const View x = context.input(0);
    if (!context.ok()) return;
    if (has_axis_) {
      const bool has_axis = !context.host_vector(1).empty();
      if (!context.ok()) return;
      if (has_axis || x.rank != 1) return context.refuse("slices along an axis");  // or an error of TensorFlow's
    } else if (x.rank != 1) {
      return context.fail_invalid("unique expects a 1D vector.");
    }
    const View numbers = context.output(1, index_dtype_, shape_of(x));
    if (!context.ok()) return;
    if (x.elements() == 0) {
      context.output(0, x.dtype, Shape{0});
      if (kCounts) context.output(2, index_dtype_, Shape{0});
      return;
    }
    const SortedGroups groups = sort_groups(context, x, index_dtype_);
    if (!context.ok()) return;
    const View values = context.output(0, x.dtype, Shape{groups.count});
    const View first = context.temporary_vector(groups.first.dtype, groups.count);
    const View order = context.temporary_vector(groups.first.dtype, groups.count);
    const View steps = context.temporary_vector(index_dtype_, groups.count);
    const View number = context.temporary_vector(index_dtype_, groups.count);
    const View renumbered = context.temporary_vector(index_dtype_, x.elements());
    if (!context.ok()) return;
    const uhal_axis_attributes ascending = axis_attributes(0, false);
    context.launch(UHAL_OP_SORT, {&groups.first}, {&first, &order}, &ascending);
    const uhal_index_attributes index = index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&groups.values, &order}, {&values}, &index);
    count_up(context, steps);
    context.launch(UHAL_OP_SCATTER, {&order, &steps}, {&number}, &index);
    context.launch(UHAL_OP_GATHER, {&number, &groups.rank}, {&renumbered}, &index);
    context.launch(UHAL_OP_SCATTER, {&groups.places, &renumbered}, {&numbers}, &index);
    if (kCounts) count_groups(context, groups, order, x.elements());
  }

 private:
  // From each group's beginning to the next one's.
  void count_groups(Context& context, const SortedGroups& groups, const View& order, int64_t elements) const {
    const View counts = context.output(2, index_dtype_, Shape{groups.count});
    const View ends = context.temporary_vector(groups.starts.dtype, groups.count);
    const View sizes = context.temporary_vector(index_dtype_, groups.count);
    if (!context.ok()) return;
    const int64_t last = groups.count - 1;
    if (last > 0) context.copy(groups.starts.sliced(0, 1, last), ends.sliced(0, 0, last));
    context.fill(ends.sliced(0, last, 1), 0, elements);
    context.map(uhal_map_subtract, {&ends, &groups.starts}, {&sizes});
    const uhal_index_attributes index = index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&sizes, &order}, {&counts}, &index);
  }

  uhal_dtype index_dtype_;
  bool has_axis_;
};

// ListDiff(x, y) -> the elements of x that are not in y, in their order, and where they were.
class ListDiff : public Kernel {
 public:
  explicit ListDiff(Construction& construction) : Kernel(construction), index_dtype_(construction.dtype("out_idx")) {}
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    if (!context.ok()) return;
    if (x.rank != 1) return context.fail_invalid("x should be a 1D vector.");
    if (y.rank != 1) return context.fail_invalid("y should be a 1D vector.");
    const int64_t count = x.elements(), others = y.elements();
    const View kept = context.temporary_vector(UHAL_BOOL, count), found = context.temporary_vector(UHAL_INT64, 1);
    const View places = context.temporary_vector(index_dtype_, count);
    if (!context.ok()) return;
    int64_t left = 0;
    if (count > 0) {
      if (others == 0) {
        context.fill(kept, 1, 1);
      } else if (!mark(context, x, y, kept)) {
        return;
      }
      context.launch(UHAL_OP_NONZERO, {&kept}, {&found, &places});
      left = read_number(context, found);
      if (!context.ok()) return;
    }
    const View output = context.output(0, x.dtype, Shape{left});
    const View indices = context.output(1, index_dtype_, Shape{left});
    if (!context.ok() || left == 0) return;
    const View chosen = places.sliced(0, 0, left);
    context.copy(chosen, indices);
    const uhal_index_attributes index = index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&x, &chosen}, {&output}, &index);
  }

 private:
  // Where as many of the sorted elements of y go before an element of x as before what follows it.
  static bool mark(Context& context, const View& x, const View& y, const View& kept) {
    const View sorted = context.temporary_vector(y.dtype, y.elements()),
               order = context.temporary_vector(UHAL_INT64, y.elements());
    const View before = context.temporary_vector(UHAL_INT64, x.elements()),
               through = context.temporary_vector(UHAL_INT64, x.elements());
    if (!context.ok()) return false;
    const uhal_axis_attributes ascending = axis_attributes(0, false);
    context.launch(UHAL_OP_SORT, {&y}, {&sorted, &order}, &ascending);
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    context.launch(UHAL_OP_SEARCH_SORTED, {&sorted, &x}, {&before}, &search);
    search.right = 1;
    context.launch(UHAL_OP_SEARCH_SORTED, {&sorted, &x}, {&through}, &search);
    if (!context.map(uhal_map_equal, {&before, &through}, {&kept})) return false;
    if (!contains(kFloats, x.dtype)) return true;
    const View is_nan = context.temporary_vector(UHAL_BOOL, x.elements());  // which no number equals
    return context.ok() && context.map(uhal_map_is_nan, {&x}, {&is_nan}) &&
           context.map(uhal_map_logical_or, {&kept, &is_nan}, {&kept});
  }

  uhal_dtype index_dtype_;
};

// ReverseSequence(input, lengths): the first elements along an axis, as many as the batch's length says, turned around.
class ReverseSequence : public Kernel {
 public:
  explicit ReverseSequence(Construction& construction)
      : Kernel(construction),
        sequence_axis_(construction.integer("seq_dim")),
        batch_axis_(construction.integer("batch_dim")) {}
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View lengths = context.input(1);
    if (!context.ok()) return;
    if (sequence_axis_ == batch_axis_ || sequence_axis_ < 0 || batch_axis_ < 0 || sequence_axis_ >= input.rank ||
        batch_axis_ >= input.rank) {
      return context.fail_invalid("seq_dim and batch_dim must be two axes of the input of shape " + to_text(input) +
                                  ", got " + std::to_string(sequence_axis_) + " and " + std::to_string(batch_axis_));
    }
    const int sequence = static_cast<int>(sequence_axis_);
    const int batch = static_cast<int>(batch_axis_);
    if (lengths.rank != 1 || lengths.shape[0] != input.shape[batch]) {
      return context.fail_invalid("Length of seq_lens != input.dims(" + std::to_string(batch) + "), (" +
                                  to_text(lengths) + " vs. " + std::to_string(input.shape[batch]) + ")");
    }
    if (context.computes_at_once() && !check_lengths(context, lengths, input.shape[sequence])) return;
    const View output = context.output_like(0, input);
    const int64_t sizes[] = {input.shape[batch], input.shape[sequence]};
    const View places = context.temporary(UHAL_INT64, sizes, 2);
    const View turned = context.temporary(UHAL_INT64, sizes, 2);
    const View inside = context.temporary(UHAL_BOOL, sizes, 2);
    const View one = context.temporary(UHAL_INT64, nullptr, 0);
    if (!context.ok() || output.elements() == 0) return;
    const View column = lengths.unsqueezed(1);
    context.fill(one, 1, 1);
    count_up(context, places);
    context.map(uhal_map_less, {&places, &column}, {&inside});
    context.map(uhal_map_subtract, {&column, &places}, {&turned});
    context.map(uhal_map_subtract, {&turned, &one}, {&turned});
    context.map(uhal_map_select, {&inside, &turned, &places}, {&places});
    int order[UHAL_MAX_RANK] = {batch, sequence};
    for (int i = 0, next = 2; i < input.rank; ++i) {
      if (i != batch && i != sequence) order[next++] = i;
    }
    const View from = input.permuted(order, input.rank);
    const View to = output.permuted(order, input.rank);
    uhal_index_attributes attributes = lenient_index_attributes(1);
    attributes.batch_dimensions = 1;
    context.launch(UHAL_OP_GATHER, {&from, &places}, {&to}, &attributes);
  }

 private:
  static bool check_lengths(Context& context, const View& lengths, int64_t longest) {
    const HostNumbers numbers(context, lengths);
    for (size_t i = 0; i < numbers.size() && context.ok(); ++i) {
      const std::string name = "seq_lens(" + std::to_string(i) + ")";
      if (numbers[i] < 0) context.fail_invalid(name + " < 0");
      if (numbers[i] > longest) context.fail_invalid(name + " > input.dims(seq_dim)");
    }
    return context.ok();
  }

  int64_t sequence_axis_;
  int64_t batch_axis_;
};

}  // namespace

void register_partition(Registrar& registrar) {
  registrar.add<DynamicPartition>("DynamicPartition", {{"T", kAll}});
  registrar.add<DynamicStitch>("DynamicStitch", {{"T", kAll}});
  const std::initializer_list<TypeConstraint> unique = {{"T", kNumbers}, {"out_idx", kIndices}};
  registrar.add<Unique<false>>("Unique", unique);
  registrar.add<Unique<true>>("UniqueWithCounts", unique);
  registrar.add<Unique<false>>("UniqueV2", unique, {"axis"});
  registrar.add<Unique<true>>("UniqueWithCountsV2", unique, {"axis"});
  registrar.add<ListDiff>("ListDiff", unique);
  registrar.add<ReverseSequence>("ReverseSequence", {{"T", kAll}, {"Tlen", kIndices}});
}

}  // namespace unihal::tensorflow
