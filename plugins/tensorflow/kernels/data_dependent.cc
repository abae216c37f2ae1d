// Positions in a mask, segments, counts, searches and a sparse product. Where an output's size depends on data, the
// host waits for one number.
//
// Ids outside their segments are left out and no error, as in index.cc.
#include <algorithm>
#include <string>

#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/kernels/partition.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// Where(condition) -> coordinates (count, rank). They are counted first: the largest case has as many rows as the
// condition has elements.
class Where : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    View mask = context.input(0);
    const int64_t one[] = {1};
    if (!context.ok()) return;
    if (mask.rank == 0) return context.fail_invalid("WhereOp : Unhandled input dimensions: 0");
    if (contains(kComplex, mask.dtype)) {
      const View complex = mask;
      mask = context.temporary(UHAL_BOOL, complex.shape, complex.rank);
      if (!context.ok() || !context.map(uhal_map_logical_or, {&complex, &complex}, {&mask})) return;
    }
    const View count = context.temporary(UHAL_INT64, one, 1);
    if (!context.ok() || !context.launch(UHAL_OP_NONZERO, {&mask}, {&count})) return;
    const int64_t rows = read_number(context, count);
    if (!context.ok()) return;
    const View output = context.output(0, UHAL_INT64, Shape{rows, mask.rank});
    if (!context.ok() || output.elements() == 0) return;
    context.launch(UHAL_OP_NONZERO, {&mask}, {&count, &output});
  }
};

// Complex numbers as real ones, with one more axis: 0 their real parts, 1 their imaginary ones.
View parts_of(const View& complex) {
  View parts = complex;
  parts.dtype = complex.dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : UHAL_FLOAT32;
  for (int axis = 0; axis < parts.rank; ++axis) parts.strides[axis] *= 2;
  parts.shape[parts.rank] = 2;
  parts.strides[parts.rank++] = 1;
  return parts;
}

// Segment*(data, segment_ids): as many segments as the last id says.
template <uhal_reduction kReduction>
class Segment : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View data = context.input(0);
    const View ids = context.input(1);
    if (!context.ok()) return;
    if (ids.rank != 1 || data.rank < 1 || ids.shape[0] != data.shape[0]) {
      return context.fail_invalid(std::string(op()) +
                                  ": segment_ids should be a vector of the length of data's first " +
                                  "axis, got shapes " + to_text(ids) + " and " + to_text(data));
    }
    Shape shape = shape_of(data);
    shape[0] = 0;
    if (ids.shape[0] > 0) {
      View last = ids.sliced(0, ids.shape[0] - 1, 1);
      shape[0] = read_number(context, last) + 1;
    }
    if (!context.ok()) return;
    if (shape[0] < 0) return context.fail_invalid(std::string(op()) + ": segment ids must be >= 0");
    if (!refuse_unsorted(context, ids, shape[0])) return;
    const View output = context.output(0, data.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (contains(kComplex, data.dtype)) return reduce_complex(context, data, ids, output);
    reduce(context, data, ids, output);
  }

 private:
  // Sums and means of complex numbers are those of their parts.
  static void reduce_complex(Context& context, const View& data, const View& ids, const View& output) {
    if (kReduction == UHAL_REDUCE_PRODUCT) {
      uhal_index_attributes attributes = lenient_index_attributes(0);
      attributes.reduction = kReduction;
      context.fill(output, 1, 1);
      context.launch(UHAL_OP_SCATTER, {&ids, &data}, {&output}, &attributes);
      return;
    }
    const int64_t rows = data.shape[0], segments = output.shape[0];
    reduce(context, parts_of(data.reshaped({rows, data.elements() / rows})), ids,
           parts_of(output.reshaped({segments, output.elements() / segments})));
  }

  static void reduce(Context& context, const View& data, const View& ids, const View& output) {
    uhal_segment_attributes attributes = segment_attributes(kReduction);
    attributes.form = UHAL_SEGMENT_SORTED;
    attributes.empty = kReduction == UHAL_REDUCE_PRODUCT ? 1 : 0;
    attributes.integer_empty = kReduction == UHAL_REDUCE_PRODUCT ? 1 : 0;
    context.launch(UHAL_OP_SEGMENT_REDUCE, {&data, &ids}, {&output}, &attributes);
  }
};

// LowerBound, UpperBound(sorted_inputs (batch, n), values (batch, m)).
template <int32_t kRight>
class Bound : public Kernel {
 public:
  explicit Bound(Construction& construction) : Kernel(construction), out_type_(construction.dtype("out_type")) {}
  void compute(Context& context) const override {
    const View sorted = context.input(0);
    const View values = context.input(1);
    if (!context.ok()) return;
    if (sorted.rank != 2 || values.rank != 2 || sorted.shape[0] != values.shape[0]) {
      return context.fail_invalid(std::string(op()) +
                                  ": sorted_inputs and values must be matrices of as many rows, got " +
                                  to_text(sorted) + " and " + to_text(values));
    }
    const View output = context.output(0, out_type_, values.shape, values.rank);
    if (!context.ok() || output.elements() == 0) return;
    uhal_search_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.right = kRight;
    context.launch(UHAL_OP_SEARCH_SORTED, {&sorted, &values}, {&output}, &attributes);
  }

 private:
  uhal_dtype out_type_;
};

// Bincount and DenseBincount(input, size, weights): counts, or sums of weights, of the numbers below size. A matrix is
// counted row by row; with `binary_output` a count is 0 or 1.
class Bincount : public Kernel {
 public:
  explicit Bincount(Construction& construction)
      : Kernel(construction),
        by_rows_(construction.has("binary_output")),
        binary_(by_rows_ && construction.boolean("binary_output")) {}
  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t size = context.host_scalar(1);
    const View weights = context.input(2);
    if (!context.ok()) return;
    if (size < 0) {
      return context.fail_invalid(std::string(op()) + ": size must be non-negative, got " + std::to_string(size));
    }
    if (by_rows_ && input.rank > 2) {
      return context.fail_invalid(std::string(op()) + ": input must be at most rank 2, got shape " + to_text(input));
    }
    const int64_t elements = input.elements();
    const bool fits = by_rows_ ? shape_of(weights) == shape_of(input) : weights.elements() == elements;
    if (weights.elements() != 0 && !fits) {
      return context.fail_invalid(std::string(op()) + ": weights must be of the shape of the numbers, or empty, got " +
                                  to_text(weights) + " and " + to_text(input));
    }
    const bool rows = by_rows_ && input.rank == 2;
    const View output = context.output(0, weights.dtype, rows ? Shape{input.shape[0], size} : Shape{size});
    if (!context.ok() || output.elements() == 0) return;
    if (elements == 0) {
      context.zero(output);
      return;
    }
    const View flat = output.reshaped({output.elements()});
    const View ids = rows ? ids_of_rows(context, input, size) : input.reshaped({elements});
    const uhal_segment_attributes attributes = program_segment_attributes(context, UHAL_REDUCE_SUM);
    if (!binary_ && weights.elements() != 0) {
      const View values = weights.reshaped({elements});
      if (context.ok()) context.launch(UHAL_OP_SEGMENT_REDUCE, {&values, &ids}, {&flat}, &attributes);
      return refuse_negative(context, input, size);
    }
    // Whole numbers are counted faster, and without rounding.
    const int64_t one[] = {1};
    View ones = context.temporary(UHAL_INT64, one, 1);
    const View counts = context.temporary(UHAL_INT64, flat.shape, 1);
    if (!context.ok() || !context.fill(ones, 1, 1)) return;
    ones.shape[0] = elements;
    ones.strides[0] = 0;
    if (!context.launch(UHAL_OP_SEGMENT_REDUCE, {&ones, &ids}, {&counts}, &attributes)) return;
    refuse_negative(context, input, size);
    const View limit = ones.sliced(0, 0, 1);
    if (binary_) context.map(uhal_map_minimum, {&counts, &limit}, {&counts});
    context.cast(counts, flat);
  }

 private:
  // Numbers of `size` or more are not counted, those below 0 are an error where they are met.
  static void refuse_negative(Context& context, const View& input, int64_t size) {
    std::string met;
    if (!context.met_outside(&met)) return;
    const HostNumbers numbers(context, input);
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    if (context.ok() && *least < 0) context.fail_invalid("Input arr must be non-negative!");
    if (context.ok() && *most < size) context.fail_invalid(met);  // of an op beside this one, on the same stream
  }

  // Of element (row, column): row * size + number; -1 for a number that is none of 0 to size - 1.
  static View ids_of_rows(Context& context, const View& input, int64_t size) {
    const View ids = context.temporary(UHAL_INT64, input.shape, 2);
    const View starts = context.temporary(UHAL_INT64, input.shape, 1);
    const View inside = context.temporary(UHAL_BOOL, input.shape, 2);
    const View above = context.temporary(UHAL_BOOL, input.shape, 2);
    const int64_t three[] = {3};
    const View limits = context.temporary(UHAL_INT64, three, 1);
    if (!context.ok()) return ids;
    uhal_iota_attributes count = {};
    count.struct_size = sizeof count;
    count.integer_step = size;
    context.launch(UHAL_OP_IOTA, {}, {&starts}, &count);
    const View zero = limits.sliced(0, 0, 1), top = limits.sliced(0, 1, 1), none = limits.sliced(0, 2, 1);
    context.fill(zero, 0, 0);
    context.fill(top, 0, size);
    context.fill(none, 0, -1);
    const View column = starts.unsqueezed(1);
    context.map(uhal_map_less, {&input, &top}, {&inside});
    context.map(uhal_map_greater_equal, {&input, &zero}, {&above});
    context.map(uhal_map_logical_and, {&inside, &above}, {&inside});
    context.map(uhal_map_add, {&input, &column}, {&ids});
    context.map(uhal_map_select, {&inside, &ids, &none}, {&ids});
    return ids.reshaped({input.elements()});
  }

  bool by_rows_;
  bool binary_;
};

// SparseTensorDenseMatMul(a_indices (n, 2), a_values, a_shape, b).
class SparseTensorDenseMatMul : public Kernel {
 public:
  explicit SparseTensorDenseMatMul(Construction& construction)
      : Kernel(construction),
        adjoint_a_(construction.boolean("adjoint_a")),
        adjoint_b_(construction.boolean("adjoint_b")) {}
  void compute(Context& context) const override {
    const View indices = context.input(0);
    const View values = context.input(1);
    const Shape a = context.host_vector(2);
    const View given = context.input(3);
    if (!context.ok()) return;
    if (indices.rank != 2 || indices.shape[1] != 2 || values.rank != 1 || values.shape[0] != indices.shape[0] ||
        a.size() != 2 || given.rank != 2) {
      return context.fail_invalid(
          "SparseTensorDenseMatMul: expected indices (n, 2), values (n), a shape of two lengths "
          "and a matrix, got " +
          to_text(indices) + ", " + to_text(values) + ", " + to_text(a) + " and " + to_text(given));
    }
    const View b = adjoint_b_ ? given.permuted({1, 0}) : given;
    const int64_t rows = adjoint_a_ ? a[1] : a[0];
    const int64_t inner = adjoint_a_ ? a[0] : a[1];
    if (inner != b.shape[0]) {
      return context.fail_invalid(
          "SparseTensorDenseMatMul: Cannot multiply A and B because inner dimension does not "
          "match: " +
          std::to_string(inner) + " vs. " + std::to_string(b.shape[0]));
    }
    const View output = context.output(0, b.dtype, Shape{rows, b.shape[1]});
    if (!context.ok() || output.elements() == 0) return;
    if (indices.shape[0] == 0) {
      context.zero(output);
      return;
    }
    const View ids = column_of(indices, adjoint_a_ ? 1 : 0);
    const View columns = column_of(indices, adjoint_a_ ? 0 : 1);
    if (contains(kComplex, b.dtype)) {
      multiply_complex(context, b, ids, columns, values, output);
    } else {
      const uhal_segment_attributes attributes = program_segment_attributes(context, UHAL_REDUCE_SUM);
      context.launch(UHAL_OP_SEGMENT_REDUCE, {&b, &ids, &columns, &values}, {&output}, &attributes);
    }
    refuse_outside(context, indices, a, Indices::kPlaces);
  }

 private:
  // The products with the real and with the imaginary parts of a, each of both of b's; adjoints are conjugated.
  void multiply_complex(Context& context, const View& b, const View& ids, const View& columns, const View& values,
                        const View& output) const {
    const View factors = parts_of(values), rows = parts_of(b), sums = parts_of(output);
    const View others = context.temporary_like(sums);
    if (!context.ok()) return;
    View real = factors.sliced(1, 0, 1), imaginary = factors.sliced(1, 1, 1);
    real.rank = imaginary.rank = 1;
    const uhal_segment_attributes attributes = program_segment_attributes(context, UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_SEGMENT_REDUCE, {&rows, &ids, &columns, &real}, {&sums}, &attributes);
    context.launch(UHAL_OP_SEGMENT_REDUCE, {&rows, &ids, &columns, &imaginary}, {&others}, &attributes);
    const View y_real = sums.sliced(2, 0, 1), y_imaginary = sums.sliced(2, 1, 1);
    const View other_real = others.sliced(2, 0, 1), other_imaginary = others.sliced(2, 1, 1);
    context.map(adjoint_a_ == adjoint_b_ ? uhal_map_subtract : uhal_map_add, {&y_real, &other_imaginary}, {&y_real});
    if (adjoint_b_) context.map(uhal_map_negative, {&y_imaginary}, {&y_imaginary});
    context.map(adjoint_a_ ? uhal_map_subtract : uhal_map_add, {&y_imaginary, &other_real}, {&y_imaginary});
  }

  bool adjoint_a_;
  bool adjoint_b_;
};

}  // namespace

void register_data_dependent(Registrar& registrar) {
  registrar.add<Where>("Where", {{"T", kAll}});
  const std::initializer_list<TypeConstraint> segment = {{"T", kNumbers}, {"Tindices", kIndices}};
  const std::initializer_list<TypeConstraint> sums = {{"T", kNumbers | kComplex}, {"Tindices", kIndices}};
  registrar.add<Segment<UHAL_REDUCE_SUM>>("SegmentSum", sums);
  registrar.add<Segment<UHAL_REDUCE_MEAN>>("SegmentMean", sums);
  registrar.add<Segment<UHAL_REDUCE_PRODUCT>>("SegmentProd", sums);
  registrar.add<Segment<UHAL_REDUCE_MAXIMUM>>("SegmentMax", segment);
  registrar.add<Segment<UHAL_REDUCE_MINIMUM>>("SegmentMin", segment);
  const std::initializer_list<TypeConstraint> bound = {{"T", kNumbers}, {"out_type", kIndices}};
  registrar.add<Bound<0>>("LowerBound", bound);
  registrar.add<Bound<1>>("UpperBound", bound);
  const DtypeSet counts = kIndices | only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
  registrar.add<Bincount>("DenseBincount", {{"T", counts}, {"Tidx", kIndices}}, {"size"});
  registrar.add<Bincount>("Bincount", {{"T", counts}}, {"size"});
  registrar.add<SparseTensorDenseMatMul>("SparseTensorDenseMatMul", {{"T", kFloats | kComplex}, {"Tindices", kIndices}},
                                         {"a_shape"});
}

}  // namespace unihal::tensorflow
