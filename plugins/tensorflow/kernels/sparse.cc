// Sparse tensors: places (n, rank) and values (n).
#include <algorithm>
#include <numeric>

#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/kernels/partition.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// SparseToDense(places, shape, values, default value): places are a matrix, a vector or a scalar, values one or as
// many. A shape of int32 is in host memory. The host looks at all places, as on TensorFlow's GPUs.
class SparseToDense : public Kernel {
 public:
  explicit SparseToDense(Construction& construction)
      : Kernel(construction), in_order_(construction.boolean("validate_indices")) {}
  void compute(Context& context) const override {
    const View given = context.input(0);
    const View lengths = context.input(1);
    const View values = context.input(2);
    const View otherwise = context.input(3);
    if (!context.ok()) return;
    if (lengths.rank != 1) return context.fail_invalid("output_shape must be a vector, got shape " + to_text(lengths));
    const Shape shape = lengths.dtype == UHAL_INT32 ? context.host_vector(1) : read_numbers(context, lengths);
    if (!context.ok()) return;
    const int64_t count = given.rank > 0 ? given.shape[0] : 1;
    const int64_t depth = given.rank > 1 ? given.shape[1] : 1;
    if (given.rank > 2 || depth != static_cast<int64_t>(shape.size())) {
      return context.fail_invalid("output_shape has incorrect number of elements: " + std::to_string(shape.size()) +
                                  " should be: " + std::to_string(depth) + "; sparse_indices has shape " +
                                  to_text(given));
    }
    if (values.rank > 1 || (values.rank == 1 && values.shape[0] != count) || otherwise.rank != 0) {
      return context.fail_invalid("sparse_values has incorrect shape " + to_text(values) + ", should be [] or [" +
                                  std::to_string(count) + "], and default_value should be a scalar");
    }
    const HostNumbers numbers(context, given);
    if (!context.ok() || !check_places(context, numbers, shape)) return;
    const View output = context.output(0, values.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    context.copy(otherwise, output);
    if (count == 0) return;
    const int64_t length[] = {count};
    View updates = values;
    if (values.rank == 0) {
      updates = context.temporary(values.dtype, length, 1);
      if (!context.ok() || !context.copy(values, updates)) return;
    }
    const View places = given.reshaped({count, depth});
    const uhal_index_attributes attributes = lenient_index_attributes(0);
    context.launch(UHAL_OP_SCATTER_ND, {&places, &updates}, {&output}, &attributes);
  }

 private:
  // The element of the first place that is outside the shape, or does not come after the one before if that is asked
  // for; the number of elements if there is none. `depth` is a constant for matrices, which are most.
  size_t first_fault(size_t depth, const HostNumbers& numbers, const Shape& shape, bool* inside) const {
    uint64_t before = 0;  // in row-major order, from 1 on
    for (size_t at = 0; at < numbers.size(); at += depth) {
      uint64_t number = 0;
      *inside = true;
      for (size_t axis = 0; axis < depth; ++axis) {
        const auto index = static_cast<uint64_t>(numbers[at + axis]), length = static_cast<uint64_t>(shape[axis]);
        *inside &= index < length;
        number = number * length + index;
      }
      if (!*inside || (in_order_ && number + 1 <= before)) return at;
      before = number + 1;
    }
    return numbers.size();
  }

  bool check_places(Context& context, const HostNumbers& numbers, const Shape& shape) const {
    const size_t depth = shape.size();
    if (depth == 0) return true;
    bool inside = true;
    const size_t at =
        depth == 2 ? first_fault(2, numbers, shape, &inside) : first_fault(depth, numbers, shape, &inside);
    if (at == numbers.size()) return true;
    const int64_t *const place = numbers.begin() + at, *const end = place + depth;
    std::string text = "indices[" + std::to_string(at / depth) + "] = " + to_text(Shape(place, end));
    if (!inside) {
      text += " is out of bounds: need 0 <= index < " + to_text(shape);
    } else if (std::equal(place, end, place - depth)) {
      text += " is repeated";
    } else {
      text +=
          " is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a "
          "correctly ordered copy.\n\n";
    }
    context.fail_invalid(text);
    return false;
  }

  bool in_order_;
};

// Whether these are the parts of a sparse tensor; the context has failed if not.
bool check_sparse(Context& context, const View& places, const View& values, const Shape& shape) {
  if (!context.ok()) return false;
  if (places.rank != 2 || values.rank != 1 || places.shape[0] != values.shape[0] ||
      places.shape[1] != static_cast<int64_t>(shape.size())) {
    context.fail_invalid("Input indices should be a matrix, values a vector and the shape a vector of one rank, got " +
                         to_text(places) + ", " + to_text(values) + " and " + to_text(shape));
  }
  return context.ok();
}

// The number of each place in row-major order.
View linear(Context& context, const View& places, const Shape& shape) {
  const View result = context.temporary_vector(UHAL_INT64, places.shape[0]);
  if (!context.ok() || !context.zero(result)) return result;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const View part = column_of(places, static_cast<int64_t>(axis));
    context.map(uhal_map_scale, {&result}, {&result}, {static_cast<double>(shape[axis]), 0});
    context.map(uhal_map_add, {&result, &part}, {&result});
  }
  return result;
}

// SparseReshape(places, shape, new shape), the shapes in host memory.
class SparseReshape : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View places = context.input(0);
    const Shape shape = context.host_vector(1);
    Shape wanted = context.host_vector(2);
    if (!context.ok()) return;
    if (places.rank != 2 || places.shape[1] != static_cast<int64_t>(shape.size())) {
      return context.fail_invalid("Input tensor rank must match input shape length, got " + to_text(places) + " and " +
                                  to_text(shape));
    }
    if (!context.check_shape(UHAL_UINT8, shape)) return;
    const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    int64_t known = 1;
    int64_t unknown = -1;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == -1 && unknown < 0) {
        unknown = static_cast<int64_t>(i);
      } else if (wanted[i] < 0 || __builtin_mul_overflow(known, wanted[i], &known)) {
        return context.fail_invalid("only one output dimension may be -1, and none less, got " + to_text(wanted));
      }
    }
    if (unknown >= 0 && (known == 0 || elements % known != 0)) {
      return context.fail_invalid("Cannot infer the missing dimension of " + to_text(wanted) + " for a tensor with " +
                                  std::to_string(elements) + " elements");
    }
    if (unknown >= 0) wanted[static_cast<size_t>(unknown)] = elements / known;
    if (std::accumulate(wanted.begin(), wanted.end(), int64_t{1}, std::multiplies<>()) != elements) {
      return context.fail_invalid("Input to reshape is a tensor with " + std::to_string(elements) +
                                  " dense values, but the requested shape has " + to_text(wanted));
    }
    const View output = context.output(0, UHAL_INT64, Shape{places.shape[0], static_cast<int64_t>(wanted.size())});
    const View host = context.output(1, UHAL_INT64, Shape{static_cast<int64_t>(wanted.size())});
    if (!context.ok()) return;
    std::copy(wanted.begin(), wanted.end(), static_cast<int64_t*>(host.data));
    if (output.elements() == 0) return;
    const View rest = linear(context, places, shape);
    const View length = context.temporary(UHAL_INT64, nullptr, 0);
    for (size_t axis = wanted.size(); context.ok() && axis-- > 0;) {
      const View part = column_of(output, static_cast<int64_t>(axis));
      if (axis == 0) {  // beyond its end, too, as on the CPU
        context.copy(rest, part);
        break;
      }
      context.fill(length, 0, std::max<int64_t>(wanted[axis], 1));
      context.map(uhal_map_floor_mod, {&rest, &length}, {&part});
      context.map(uhal_map_floor_divide, {&rest, &length}, {&rest});
    }
  }
};

// What of a sparse tensor lies in [start, start + size), as outputs `first` (places from there on), first + stride
// (values) and first + 2 * stride (the shape, in host memory); how many there are.
int64_t write_slice(Context& context, const View& places, const View& values, const Shape& start, const Shape& size,
                    int first, int stride) {
  const auto rank = static_cast<int64_t>(start.size());
  const int64_t rows = values.elements();
  int64_t count = 0;
  View kept;
  if (rows > 0) {
    const View mask = context.temporary_vector(UHAL_BOOL, rows);
    const View inside = context.temporary_vector(UHAL_BOOL, rows);
    const View limit = context.temporary(UHAL_INT64, nullptr, 0);
    const View total = context.temporary_vector(UHAL_INT64, 1);
    if (!context.ok() || !context.fill(mask, 1, 1)) return 0;
    for (int64_t axis = 0; axis < rank; ++axis) {
      const View part = column_of(places, axis);
      const size_t i = static_cast<size_t>(axis);
      context.fill(limit, 0, start[i]);
      context.map(uhal_map_greater_equal, {&part, &limit}, {&inside});
      context.map(uhal_map_logical_and, {&mask, &inside}, {&mask});
      context.fill(limit, 0, start[i] + size[i]);
      context.map(uhal_map_less, {&part, &limit}, {&inside});
      context.map(uhal_map_logical_and, {&mask, &inside}, {&mask});
    }
    context.launch(UHAL_OP_NONZERO, {&mask}, {&total});
    count = read_number(context, total);
    kept = context.temporary_vector(UHAL_INT64, count);
    if (!context.ok()) return 0;
    if (count > 0) context.launch(UHAL_OP_NONZERO, {&mask}, {&total, &kept});
  }
  const View output = context.output(first, UHAL_INT64, Shape{count, rank});
  const View chosen = context.output(first + stride, values.dtype, Shape{count});
  const View host = context.output(first + 2 * stride, UHAL_INT64, Shape{rank});
  if (!context.ok()) return 0;
  std::copy(size.begin(), size.end(), static_cast<int64_t*>(host.data));
  if (count == 0) return 0;
  const uhal_index_attributes index = index_attributes(0);
  context.launch(UHAL_OP_GATHER, {&values, &kept}, {&chosen}, &index);
  context.launch(UHAL_OP_GATHER, {&places, &kept}, {&output}, &index);
  for (int64_t axis = 0; axis < rank; ++axis) {
    const View part = column_of(output, axis);
    const auto begin = static_cast<double>(-start[static_cast<size_t>(axis)]);
    if (begin != 0) context.map(uhal_map_scale, {&part}, {&part}, {1, begin});
  }
  return count;
}

// SparseSlice(places, values, shape, start, size), the last three in host memory.
class SparseSlice : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View places = context.input(0);
    const View values = context.input(1);
    const Shape shape = context.host_vector(2);
    const Shape start = context.host_vector(3);
    const Shape size = context.host_vector(4);
    if (!check_sparse(context, places, values, shape)) return;
    if (start.size() != shape.size() || size.size() != shape.size()) {
      return context.fail_invalid("start and size must have an entry for each axis of shape " + to_text(shape) +
                                  ", got " + to_text(start) + " and " + to_text(size));
    }
    Shape result(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) {
        return context.fail_invalid("Expected shape dimensions to be non-negative, got " + std::to_string(shape[i]));
      }
      if (start[i] < 0 || size[i] < 0) {
        return context.fail_invalid("start and size must not be negative, got " + to_text(start) + " and " +
                                    to_text(size));
      }
      result[i] = std::max<int64_t>(std::min(size[i], shape[i] - std::min(start[i], shape[i])), 0);
    }
    write_slice(context, places, values, start, result, 0, 1);
  }
};

// SparseSplit(axis, places, values, shape): as equal parts as there can be, the first ones the longer; axis and shape
// in host memory.
class SparseSplit : public Kernel {
 public:
  explicit SparseSplit(Construction& construction) : Kernel(construction), parts_(construction.integer("num_split")) {}
  void compute(Context& context) const override {
    const int64_t given = context.host_integer(0, 1);
    const View places = context.input(1);
    const View values = context.input(2);
    const Shape shape = context.host_vector(3);
    if (!check_sparse(context, places, values, shape) || !context.check_shape(UHAL_UINT8, shape)) return;
    if (!context.dims(0).empty()) {
      return context.fail_invalid("Input axis should be a scalar but received shape " + to_text(context.dims(0)));
    }
    const auto rank = static_cast<int64_t>(shape.size());
    if (given < -rank || given >= rank) {
      return context.fail_invalid("Input split_dim should be between [" + std::to_string(-rank) + ", " +
                                  std::to_string(rank) + "), got " + std::to_string(given));
    }
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    if (parts_ < 1 || parts_ > shape[axis]) {
      return context.fail_invalid("Input num_split should be between 1 and the splitting dimension size (" +
                                  std::to_string(shape[axis]) + "), got " + std::to_string(parts_));
    }
    Shape start(shape.size(), 0);
    Shape size = shape;
    int64_t found = 0;
    for (int64_t i = 0; context.ok() && i < parts_; ++i) {
      size[axis] = shape[axis] / parts_ + (i < shape[axis] % parts_ ? 1 : 0);
      found += write_slice(context, places, values, start, size, static_cast<int>(i), static_cast<int>(parts_));
      start[axis] += size[axis];
    }
    if (context.ok() && found != values.elements()) {
      context.fail_invalid(std::to_string(values.elements() - found) + " of " + std::to_string(values.elements()) +
                           " sparse indices are out of bounds of shape " + to_text(shape));
    }
  }

 private:
  int64_t parts_;
};

// Rows of places and values in row-major order.
void reorder(Context& context, const View& places, const View& values, const Shape& shape, const View& sorted_places,
             const View& sorted_values) {
  const View numbers = linear(context, places, shape);
  const View sorted = context.temporary_vector(UHAL_INT64, values.elements());
  const View order = context.temporary_vector(UHAL_INT64, values.elements());
  if (!context.ok()) return;
  const uhal_axis_attributes ascending = axis_attributes(0, false);
  context.launch(UHAL_OP_SORT, {&numbers}, {&sorted, &order}, &ascending);
  const uhal_index_attributes index = index_attributes(0);
  context.launch(UHAL_OP_GATHER, {&places, &order}, {&sorted_places}, &index);
  context.launch(UHAL_OP_GATHER, {&values, &order}, {&sorted_values}, &index);
}

// SparseReorder(places, values, shape)
class SparseReorder : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View places = context.input(0);
    const View values = context.input(1);
    const Shape shape = context.host_vector(2);
    if (!check_sparse(context, places, values, shape) || !context.check_shape(UHAL_UINT8, shape)) return;
    const View sorted_places = context.output_like(0, places);
    const View sorted_values = context.output_like(1, values);
    if (context.ok() && values.elements() > 0) {
      reorder(context, places, values, shape, sorted_places, sorted_values);
    }
  }
};

// SparseConcat(places..., values..., shapes...), the shapes in host memory.
class SparseConcat : public Kernel {
 public:
  explicit SparseConcat(Construction& construction) : Kernel(construction), axis_(construction.integer("concat_dim")) {}
  void compute(Context& context) const override {
    const int count = context.input_count() / 3;
    Shape shape;
    int64_t rows = 0;
    size_t axis = 0;
    Shape begins;
    for (int i = 0; i < count; ++i) {
      const View places = context.input(i);
      const View values = context.input(count + i);
      const Shape own = context.host_vector(2 * count + i);
      if (!check_sparse(context, places, values, own)) return;
      const auto rank = static_cast<int64_t>(own.size());
      if (axis_ < -rank || axis_ >= rank) {
        return context.fail_invalid("Concat dimension must be in range [" + std::to_string(-rank) + ", " +
                                    std::to_string(rank) + "), got " + std::to_string(axis_));
      }
      axis = static_cast<size_t>(axis_ < 0 ? axis_ + rank : axis_);
      begins.push_back(i == 0 ? 0 : shape[axis]);
      Shape expected = i == 0 ? own : shape;
      if (own.size() == expected.size()) expected[axis] = own[axis];
      if (own != expected) {
        return context.fail_invalid("Concat shapes must match but for the axis: expected " + to_text(expected) +
                                    ", got " + to_text(own) + " for shape " + std::to_string(i));
      }
      if (i == 0) {
        shape = own;
      } else if (__builtin_add_overflow(shape[axis], own[axis], &shape[axis])) {
        return context.fail_invalid("Concat shapes are too large");
      }
      rows += values.elements();
    }
    if (!context.check_shape(UHAL_UINT8, shape)) return;
    const auto rank = static_cast<int64_t>(shape.size());
    const uhal_dtype dtype = context.input(count).dtype;
    const View places = context.output(0, UHAL_INT64, Shape{rows, rank});
    const View values = context.output(1, dtype, Shape{rows});
    const View host = context.output(2, UHAL_INT64, Shape{rank});
    if (!context.ok()) return;
    std::copy(shape.begin(), shape.end(), static_cast<int64_t*>(host.data));
    if (rows == 0) return;
    const View all_places = context.temporary_like(places);
    const View all_values = context.temporary_like(values);
    int64_t row = 0;
    for (int i = 0; context.ok() && i < count; ++i) {
      const View part = context.input(count + i);
      const int64_t length = part.elements();
      if (length == 0) continue;
      const View to = all_places.sliced(0, row, length);
      context.copy(context.input(i), to);
      context.copy(part, all_values.sliced(0, row, length));
      const View moved = column_of(to, static_cast<int64_t>(axis));
      context.map(uhal_map_scale, {&moved}, {&moved}, {1, static_cast<double>(begins[static_cast<size_t>(i)])});
      row += length;
    }
    if (context.ok()) reorder(context, all_places, all_values, shape, places, values);
  }

 private:
  int64_t axis_;
};

// SparseSliceGrad(gradient of the slice's values, places, start, the slice's places) -> gradient of the values. Both
// lists of places are in row-major order; start is in host memory.
class SparseSliceGrad : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View gradient = context.input(0);
    const View places = context.input(1);
    const Shape start = context.host_vector(2);
    const View chosen = context.input(3);
    if (!context.ok()) return;
    const auto rank = static_cast<int64_t>(start.size());
    if (gradient.rank != 1 || places.rank != 2 || chosen.rank != 2 || places.shape[1] != rank ||
        chosen.shape[1] != rank || chosen.shape[0] != gradient.shape[0]) {
      return context.fail_invalid("Input indices and slice indices should be matrices of " + std::to_string(rank) +
                                  " columns and the gradient a vector, got " + to_text(places) + ", " +
                                  to_text(chosen) + " and " + to_text(gradient));
    }
    if (chosen.shape[0] > places.shape[0]) {
      return context.fail_invalid("# rows of output_indices should be not greater than of input_indices, got " +
                                  std::to_string(chosen.shape[0]) + " and " + std::to_string(places.shape[0]));
    }
    const View output = context.output(0, gradient.dtype, Shape{places.shape[0]});
    if (!context.ok() || output.elements() == 0 || !context.zero(output) || gradient.elements() == 0) return;
    // Lengths of axes that hold all places.
    const int64_t one_row[] = {1, rank};
    const View largest = context.temporary(UHAL_INT64, one_row, 2);
    if (!context.ok()) return;
    const uhal_reduce_attributes maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM);
    context.launch(UHAL_OP_REDUCE, {&places}, {&largest}, &maximum);
    Shape shape = read_numbers(context, largest);
    const View moved = context.temporary_like(chosen);
    if (!context.ok()) return;
    for (int64_t& length : shape) ++length;
    for (int64_t axis = 0; axis < rank; ++axis) {
      const View from = column_of(chosen, axis), to = column_of(moved, axis);
      context.map(uhal_map_scale, {&from}, {&to}, {1, static_cast<double>(start[static_cast<size_t>(axis)])});
    }
    const View numbers = linear(context, places, shape);
    const View wanted = linear(context, moved, shape);
    const View found = context.temporary_vector(UHAL_INT64, gradient.elements());
    if (!context.ok()) return;
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    context.launch(UHAL_OP_SEARCH_SORTED, {&numbers, &wanted}, {&found}, &search);
    // What was not found goes nowhere.
    const View there = context.temporary_like(wanted), nowhere = context.temporary(UHAL_INT64, nullptr, 0);
    const View same = context.temporary(UHAL_BOOL, wanted.shape, 1);
    if (!context.ok() || !context.fill(nowhere, -1, -1)) return;
    const uhal_index_attributes index = lenient_index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&numbers, &found}, {&there}, &index);
    context.map(uhal_map_equal, {&there, &wanted}, {&same});
    context.map(uhal_map_select, {&same, &found, &nowhere}, {&found});
    if (context.computes_at_once() && !check_found(context, found, moved, shape)) return;
    context.launch(UHAL_OP_SCATTER, {&found, &gradient}, {&output}, &index);
  }

 private:
  // Whether each wanted place is where it was found: those outside `shape` are numbered as others inside.
  static bool check_found(Context& context, const View& found, const View& wanted, const Shape& shape) {
    const HostNumbers numbers(context, found), places(context, wanted);
    int64_t used = 0;
    for (size_t i = 0; i < numbers.size() && context.ok(); ++i) {
      bool inside = numbers[i] >= 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t index = places[i * shape.size() + axis];
        inside &= index >= 0 && index < shape[axis];
      }
      used += inside ? 1 : 0;
    }
    if (context.ok() && used < found.elements()) {
      context.fail(TF_INTERNAL, "Elements of backprop_val_grad aren't all propagated. Num elements:" +
                                    std::to_string(found.elements()) + ", used: " + std::to_string(used));
    }
    return context.ok();
  }
};

// SparseFillEmptyRows(places, values, shape, default value), and RaggedFillEmptyRows(rows of values, values, number of
// rows, default value): a row without values gets one.
template <bool kRagged>
class FillEmptyRows : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View places = context.input(0);
    const View values = context.input(1);
    const Shape shape = kRagged ? Shape{context.host_scalar(2)} : context.host_vector(2);
    const View otherwise = context.input(3);
    if (!context.ok()) return;
    if (places.rank != (kRagged ? 1 : 2) || values.rank != 1 || places.shape[0] != values.shape[0] ||
        (!kRagged && (shape.empty() || places.shape[1] != static_cast<int64_t>(shape.size()))) || shape[0] < 0 ||
        otherwise.rank != 0) {
      return context.fail_invalid(std::string(op()) + ": places " + to_text(places) + ", values " + to_text(values) +
                                  ", shape " + to_text(shape) + " and default value " + to_text(otherwise) +
                                  " do not belong together");
    }
    const int64_t rows = shape[0];
    const int64_t count = values.elements();
    if (rows == 0 && count != 0) {
      return context.fail_invalid("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = " +
                                  std::to_string(count));
    }
    const View numbers = kRagged ? places : column_of(places, 0);
    const View counts = context.temporary_vector(UHAL_INT64, rows);
    const View starts = context.temporary_vector(UHAL_INT64, rows);
    const View total = context.temporary_vector(UHAL_INT64, 3);  // and the least and the largest row
    const View empty = context.output(2, UHAL_BOOL, Shape{rows});
    const View map = context.output(3, UHAL_INT64, Shape{count});
    if (!context.ok()) return;
    int64_t length = 0;
    if (rows > 0) {
      if (count > 0) {
        count_segments(context, numbers, counts);
      } else {
        context.zero(counts);
      }
      const View one = context.temporary(UHAL_INT64, nullptr, 0);
      if (!context.ok()) return;
      context.fill(one, 1, 1);
      context.map(uhal_map_logical_not, {&counts}, {&empty});
      context.map(uhal_map_maximum, {&counts, &one}, {&counts});
      uhal_scan_attributes scan = {};
      scan.struct_size = sizeof scan;
      scan.reduction = UHAL_REDUCE_SUM;
      scan.exclusive = 1;
      context.launch(UHAL_OP_SCAN, {&counts}, {&starts}, &scan);
      context.zero(total);
      const auto put = [&](uhal_reduction reduction, const View& from, int64_t slot) {
        const uhal_reduce_attributes attributes = reduce_attributes(reduction);
        const View to = total.sliced(0, slot, 1);
        context.launch(UHAL_OP_REDUCE, {&from}, {&to}, &attributes);
      };
      put(UHAL_REDUCE_SUM, counts, 0);
      if (count > 0) put(UHAL_REDUCE_MINIMUM, numbers, 1);
      if (count > 0) put(UHAL_REDUCE_MAXIMUM, numbers, 2);
      const Shape found = read_numbers(context, total);
      if (!context.ok()) return;
      if (found[1] < 0 || found[2] >= rows) return fail_outside(context, numbers, rows);
      length = found[0];
    }
    Shape target = {length};
    if (!kRagged) target.push_back(static_cast<int64_t>(shape.size()));
    const View new_places = context.output(0, UHAL_INT64, target);
    const View new_values = context.output(1, values.dtype, Shape{length});
    if (!context.ok() || length == 0) return;
    const uhal_index_attributes index = lenient_index_attributes(0);
    const View row = context.temporary_vector(UHAL_INT64, rows);
    if (!context.ok()) return;
    count_up(context, row);
    context.copy(otherwise, new_values);
    context.zero(new_places);
    const View first = kRagged ? new_places : column_of(new_places, 0);
    context.launch(UHAL_OP_SCATTER, {&starts, &row}, {&first}, &index);
    if (count == 0) return;
    const View turn = occurrences(context, numbers);
    context.launch(UHAL_OP_GATHER, {&starts, &numbers}, {&map}, &index);
    context.map(uhal_map_add, {&map, &turn}, {&map});
    context.launch(UHAL_OP_SCATTER, {&map, &places}, {&new_places}, &index);
    context.launch(UHAL_OP_SCATTER, {&map, &values}, {&new_values}, &index);
  }

 private:
  // Names the first row that does not exist.
  static void fail_outside(Context& context, const View& numbers, int64_t rows) {
    const View dense = context.temporary_vector(UHAL_INT64, numbers.elements());
    if (!context.ok() || !context.copy(numbers, dense)) return;
    const HostNumbers all(context, dense);
    const auto is_outside = [rows](int64_t row) { return row < 0 || row >= rows; };
    const int64_t* const row = std::find_if(all.begin(), all.end(), is_outside);
    if (row == all.end()) return;  // the copy failed
    const std::string place = std::to_string(row - all.begin()) + (kRagged ? "" : ", 0");
    context.fail_invalid("indices(" + place + ") is invalid: " + std::to_string(*row) +
                         (*row < 0 ? " < 0" : " >= " + std::to_string(rows)));
  }
};

// (where each value went, gradient of the filled values) -> gradients of the values and of the default value
class FillEmptyRowsGrad : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View map = context.input(0);
    const View gradient = context.input(1);
    if (!context.ok()) return;
    if (map.rank != 1 || gradient.rank != 1) {
      return context.fail_invalid("reverse_index_map and grad_values must be vectors, got " + to_text(map) + " and " +
                                  to_text(gradient));
    }
    if (!refuse_any_outside(context, map, {gradient.shape[0]}, Indices::kRows, "reverse_index_map")) return;
    const View values = context.output(0, gradient.dtype, shape_of(map));
    const View otherwise = context.output(1, gradient.dtype, Shape{});
    const int64_t count = gradient.elements();
    const View rest = context.temporary_vector(gradient.dtype, count);
    if (!context.ok()) return;
    if (count == 0) {
      context.zero(otherwise);
      context.zero(values);
      return;
    }
    const uhal_index_attributes index = lenient_index_attributes(0);
    context.copy(gradient, rest);
    if (map.elements() > 0) {
      context.launch(UHAL_OP_GATHER, {&gradient, &map}, {&values}, &index);
      const View nothing = context.temporary_vector(gradient.dtype, map.elements());
      if (!context.ok() || !context.zero(nothing)) return;
      context.launch(UHAL_OP_SCATTER, {&map, &nothing}, {&rest}, &index);
    }
    const uhal_reduce_attributes sum = reduce_attributes(UHAL_REDUCE_SUM);
    const View one = otherwise.reshaped({1});
    context.launch(UHAL_OP_REDUCE, {&rest}, {&one}, &sum);
  }
};

}  // namespace

void register_sparse(Registrar& registrar) {
  registrar.add<SparseToDense>("SparseToDense", {{"T", kAll}, {"Tindices", only(UHAL_INT64)}});
  registrar.add<SparseToDense>("SparseToDense", {{"T", kAll}, {"Tindices", kInt32}}, {"output_shape"});
  registrar.add<SparseReorder>("SparseReorder", {{"T", kAll}}, {"input_shape"});
  registrar.add<SparseReshape>("SparseReshape", {}, {"input_shape", "new_shape", "output_shape"});
  registrar.add<SparseConcat>("SparseConcat", {{"T", kAll}}, {"shapes", "output_shape"});
  registrar.add<SparseSplit>("SparseSplit", {{"T", kAll}}, {"split_dim", "shape", "output_shape"});
  registrar.add<SparseSliceGrad>("SparseSliceGrad", {{"T", kNumbers | kComplex}}, {"input_start"});
  registrar.add<SparseSlice>("SparseSlice", {{"T", kAll}}, {"shape", "start", "size", "output_shape"});
  registrar.add<FillEmptyRows<false>>("SparseFillEmptyRows", {{"T", kAll}}, {"dense_shape"});
  registrar.add<FillEmptyRows<true>>("RaggedFillEmptyRows", {{"T", kAll}}, {"nrows"});
  registrar.add<FillEmptyRowsGrad>("SparseFillEmptyRowsGrad", {{"T", kNumbers | kComplex}});
  registrar.add<FillEmptyRowsGrad>("RaggedFillEmptyRowsGrad", {{"T", kNumbers | kComplex}});
}

}  // namespace unihal::tensorflow
