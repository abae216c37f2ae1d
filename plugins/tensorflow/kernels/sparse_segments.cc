// Reductions of segments of rows that indices name.
#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/kernels/partition.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

enum class Combiner { kSum, kMean, kSqrt };

// Of each count its reciprocal or that of its square root; 1 of a count of 0.
View scale_of(Context& context, const View& counts, uhal_dtype dtype, Combiner combiner) {
  const View scale = context.temporary_vector(dtype, counts.elements());
  const View one = context.temporary(UHAL_INT64, nullptr, 0);
  if (!context.ok() || !context.fill(one, 1, 1)) return scale;
  context.map(uhal_map_maximum, {&counts, &one}, {&counts});
  context.cast(counts, scale);
  context.map(combiner == Combiner::kSqrt ? uhal_map_rsqrt : uhal_map_reciprocal, {&scale}, {&scale});
  return scale;
}

// float32 for the types below it.
uhal_dtype wide(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32; }

bool check_segments(Context& context, const char* op, const View& data, const View& indices, const View& ids) {
  if (!context.ok()) return false;
  if (indices.rank != 1 || ids.rank != 1 || indices.shape[0] != ids.shape[0]) {
    context.fail_invalid("segment_ids and indices should have same size, got " + to_text(ids) + " and " +
                         to_text(indices));
  } else if (data.rank < 1) {
    context.fail_invalid(std::string(op) + ": Shape must be at least rank 1");
  }
  return context.ok();
}

// SparseSegment*(data, indices, segment_ids, [num_segments])
template <Combiner kCombiner>
class SparseSegment : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View data = context.input(0);
    const View indices = context.input(1);
    const View ids = context.input(2);
    if (!check_segments(context, op(), data, indices, ids)) return;
    const int64_t count = ids.elements();
    int64_t segments = 0;
    if (context.input_count() > 3) {
      segments = context.host_scalar(3);
      if (context.ok() && segments < 0) return context.fail_invalid("segment ids must be >= 0");
    } else if (count > 0) {
      segments = read_number(context, ids.sliced(0, count - 1, 1)) + 1;
      if (context.ok() && segments <= 0) return context.fail_invalid("segment ids must be >= 0");
      if (segments > INT32_MAX) {
        return context.fail_invalid("Last segment id must be < kintmax, got " + std::to_string(segments - 1) +
                                    " limit " + std::to_string(INT32_MAX));
      }
    }
    if (!context.ok()) return;
    if (segments == 0 && count > 0) return context.fail_invalid("segment ids must be < num_segments");
    if (!refuse_unsorted(context, ids, segments)) return;
    Shape shape = shape_of(data);
    shape[0] = segments;
    const View output = context.output(0, data.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (count == 0) {
      context.zero(output);
      return;
    }
    const uhal_segment_attributes attributes =
        program_segment_attributes(context, kCombiner == Combiner::kMean ? UHAL_REDUCE_MEAN : UHAL_REDUCE_SUM);
    if (kCombiner != Combiner::kSqrt) {
      context.launch(UHAL_OP_SEGMENT_REDUCE, {&data, &ids, &indices}, {&output}, &attributes);
      refuse_outside(context, indices, {data.shape[0]}, Indices::kRows);
      return;
    }
    const View counts = context.temporary_vector(UHAL_INT64, segments);
    if (!context.ok()) return;
    context.launch(UHAL_OP_SEGMENT_REDUCE, {&data, &ids, &indices}, {&output, &counts}, &attributes);
    if (!refuse_outside(context, indices, {data.shape[0]}, Indices::kRows)) return;
    View scale = scale_of(context, counts, wide(data.dtype), kCombiner);
    while (scale.rank < output.rank) scale = scale.unsqueezed(scale.rank);
    context.map(uhal_map_multiply, {&output, &scale}, {&output});
  }
};

// SparseSegment*Grad(gradient, indices, segment_ids, rows of the data) -> gradient of the data. Of version 2 only the
// rows that are named, and which these are, ascending.
template <Combiner kCombiner, bool kSparse>
class SparseSegmentGrad : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View gradient = context.input(0);
    const View indices = context.input(1);
    const View ids = context.input(2);
    int64_t rows = context.host_scalar(3);
    if (!check_segments(context, op(), gradient, indices, ids)) return;
    if (rows < 0)
      return context.fail_invalid(std::string(op()) + ": rows must not be negative, got " + std::to_string(rows));
    if (ids.elements() > 0 && gradient.shape[0] == 0) return context.fail_invalid("Invalid number of segments");
    if (rows > 0 && (!refuse_any_outside(context, indices, {rows}, Indices::kRows) ||
                     !refuse_any_outside(context, ids, {gradient.shape[0]}, Indices::kRows, "segment_ids"))) {
      return;
    }
    View targets = indices;
    Groups groups;
    if (kSparse && rows > 0) {
      groups = group_equals(context, indices);
      targets = groups.of_element;
      rows = groups.count;
    }
    Shape shape = shape_of(gradient);
    shape[0] = rows;
    const View output = context.output(0, gradient.dtype, shape);
    if (kSparse) {
      const View unique = context.output(1, indices.dtype, Shape{rows});
      if (context.ok() && rows > 0) context.copy(groups.values, unique);
    }
    if (!context.ok() || output.elements() == 0) return;
    if (ids.elements() == 0) {
      context.zero(output);
      return;
    }
    const uhal_segment_attributes attributes = segment_attributes(UHAL_REDUCE_SUM);
    if (kCombiner == Combiner::kSum) {
      context.launch(UHAL_OP_SEGMENT_REDUCE, {&gradient, &targets, &ids}, {&output}, &attributes);
      return;
    }
    const View counts = context.temporary_vector(UHAL_INT64, gradient.shape[0]);
    const View weights = context.temporary_vector(gradient.dtype, ids.elements());
    if (!context.ok()) return;
    count_segments(context, ids, counts);
    const View scale = scale_of(context, counts, gradient.dtype, kCombiner);
    const uhal_index_attributes index = lenient_index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&scale, &ids}, {&weights}, &index);
    context.launch(UHAL_OP_SEGMENT_REDUCE, {&gradient, &targets, &ids, &weights}, {&output}, &attributes);
  }
};

template <class K>
void add_segments(Registrar& registrar, const char* op, DtypeSet dtypes, std::initializer_list<const char*> host) {
  registrar.add<K>(op, {{"T", dtypes}, {"Tidx", kIndices}, {"Tsegmentids", kIndices}}, host);
}

}  // namespace

void register_sparse_segments(Registrar& registrar) {
  const char* const count = "num_segments";
  add_segments<SparseSegment<Combiner::kSum>>(registrar, "SparseSegmentSum", kNumbers, {});
  add_segments<SparseSegment<Combiner::kSum>>(registrar, "SparseSegmentSumWithNumSegments", kNumbers, {count});
  add_segments<SparseSegment<Combiner::kMean>>(registrar, "SparseSegmentMean", kFloats, {});
  add_segments<SparseSegment<Combiner::kMean>>(registrar, "SparseSegmentMeanWithNumSegments", kFloats, {count});
  add_segments<SparseSegment<Combiner::kSqrt>>(registrar, "SparseSegmentSqrtN", kFloats, {});
  add_segments<SparseSegment<Combiner::kSqrt>>(registrar, "SparseSegmentSqrtNWithNumSegments", kFloats, {count});
  const char* const rows = "output_dim0";
  add_segments<SparseSegmentGrad<Combiner::kSum, false>>(registrar, "SparseSegmentSumGrad", kFloats, {rows});
  add_segments<SparseSegmentGrad<Combiner::kMean, false>>(registrar, "SparseSegmentMeanGrad", kFloats, {rows});
  add_segments<SparseSegmentGrad<Combiner::kSqrt, false>>(registrar, "SparseSegmentSqrtNGrad", kFloats, {rows});
  const char* const dense = "dense_output_dim0";
  add_segments<SparseSegmentGrad<Combiner::kSum, true>>(registrar, "SparseSegmentSumGradV2", kFloats, {dense});
  add_segments<SparseSegmentGrad<Combiner::kMean, true>>(registrar, "SparseSegmentMeanGradV2", kFloats, {dense});
  add_segments<SparseSegmentGrad<Combiner::kSqrt, true>>(registrar, "SparseSegmentSqrtNGradV2", kFloats, {dense});
}

}  // namespace unihal::tensorflow
