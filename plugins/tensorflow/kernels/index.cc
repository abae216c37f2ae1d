// Gather, scatter, one-hot and segment reductions.
#include "plugins/tensorflow/kernels/index.h"

#include <algorithm>

#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/kernels/partition.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// "1,2": the indices of an element of a tensor.
std::string place_text(int64_t element, const int64_t* dims, int rank) {
  std::string text;
  for (int axis = rank - 1; axis >= 0; --axis) {
    text = std::to_string(element % dims[axis]) + (text.empty() ? "" : "," + text);
    element /= dims[axis];
  }
  return text;
}

// Fails the context for the first number outside that is an error; false if none is outside.
bool fail_for_outside(Context& context, const View& view, const Shape& lengths, Indices indices, const char* name) {
  const HostNumbers numbers(context, view);
  bool found = !context.ok();
  const size_t depth = indices == Indices::kPlaces ? lengths.size() : 1;
  for (size_t at = 0; at < numbers.size() && context.ok(); at += depth) {
    bool inside = true;
    for (size_t c = 0; c < depth; ++c) inside &= numbers[at + c] >= 0 && numbers[at + c] < lengths[c];
    if (inside) continue;
    found = true;
    if (indices == Indices::kSegments && numbers[at] < 0) continue;
    const int rank = view.rank - (indices == Indices::kPlaces ? 1 : 0);
    std::string text = name + ("[" + place_text(static_cast<int64_t>(at / depth), view.shape, rank)) + "] = ";
    if (indices == Indices::kPlaces) {
      text += "[";
      for (size_t c = 0; c < depth; ++c) text += (c > 0 ? ", " : "") + std::to_string(numbers[at + c]);
      text += "] does not index into shape " + to_text(lengths);
    } else {
      text += std::to_string(numbers[at]) + (indices == Indices::kRows ? " is not in [0, " : " is out of range [0, ") +
              std::to_string(lengths[0]) + ")";
    }
    context.fail_invalid(text);
  }
  return found;
}

}  // namespace

uhal_index_attributes program_index_attributes(Context& context, int axis) {
  uhal_index_attributes attributes = index_attributes(axis);
  attributes.ignore_out_of_range = context.computes_at_once() ? 0 : 1;
  return attributes;
}

uhal_segment_attributes program_segment_attributes(Context& context, uhal_reduction reduction) {
  uhal_segment_attributes attributes = segment_attributes(reduction);
  attributes.ignore_out_of_range = context.computes_at_once() ? 0 : 1;
  return attributes;
}

bool refuse_outside(Context& context, const View& numbers, const Shape& lengths, Indices indices, const char* name) {
  std::string met;
  if (!context.met_outside(&met)) return context.ok();
  // Or those of an op beside this one, on the same stream.
  if (!fail_for_outside(context, numbers, lengths, indices, name)) context.fail_invalid(met);
  return context.ok();
}

bool refuse_any_outside(Context& context, const View& numbers, const Shape& lengths, Indices indices,
                        const char* name) {
  if (context.computes_at_once()) fail_for_outside(context, numbers, lengths, indices, name);
  return context.ok();
}

bool refuse_unsorted(Context& context, const View& ids, int64_t segments) {
  if (!context.computes_at_once()) return context.ok();
  const HostNumbers numbers(context, ids);
  if (numbers.size() == 0) return context.ok();
  int64_t descents = 0;
  for (size_t i = 1; i < numbers.size(); ++i) descents += numbers[i] < numbers[i - 1] ? 1 : 0;
  if (descents > 0) {
    context.fail_invalid("segment ids are not increasing");
  } else if (numbers[0] < 0 || numbers[numbers.size() - 1] >= segments) {
    const int64_t wrong = numbers[0] < 0 ? numbers[0] : numbers[numbers.size() - 1];
    context.fail_invalid("Segment id " + std::to_string(wrong) + " out of range [0, " + std::to_string(segments) +
                         "), possibly because 'segment_ids' input is not sorted.");
  }
  return context.ok();
}

uhal_index_attributes lenient_index_attributes(int axis) {
  uhal_index_attributes attributes = index_attributes(axis);
  attributes.ignore_out_of_range = 1;
  return attributes;
}

void gather(Context& context, const View& params, const View& indices, int axis, int batch_dimensions) {
  Shape shape(params.shape, params.shape + axis);
  shape.insert(shape.end(), indices.shape + batch_dimensions, indices.shape + indices.rank);
  shape.insert(shape.end(), params.shape + axis + 1, params.shape + params.rank);
  const View output = context.output(0, params.dtype, shape);
  if (!context.ok() || output.elements() == 0) return;
  uhal_index_attributes attributes = program_index_attributes(context, axis);
  attributes.batch_dimensions = batch_dimensions;
  context.launch(UHAL_OP_GATHER, {&params, &indices}, {&output}, &attributes);
  refuse_outside(context, indices, {params.shape[axis]}, Indices::kRows);
}

void gather_nd(Context& context, const View& params, const View& indices) {
  const int64_t depth = indices.rank > 0 ? indices.shape[indices.rank - 1] : -1;
  if (depth < 0 || depth > params.rank) {
    return context.fail_invalid("GatherNd: the last axis of indices " + to_text(indices) +
                                " must not exceed the rank of params " + to_text(params));
  }
  Shape shape(indices.shape, indices.shape + indices.rank - 1);
  const bool asks = std::find(shape.begin(), shape.end(), 0) == shape.end();
  if (asks && params.elements() == 0) {
    return context.fail_invalid("GatherNd: Requested more than 0 entries, but params is empty.  Params shape: " +
                                to_text(params));
  }
  shape.insert(shape.end(), params.shape + depth, params.shape + params.rank);
  const View output = context.output(0, params.dtype, shape);
  if (!context.ok() || output.elements() == 0) return;
  if (depth == 0) {
    context.copy(params, output);
    return;
  }
  const uhal_index_attributes attributes = program_index_attributes(context, 0);
  context.launch(UHAL_OP_GATHER_ND, {&params, &indices}, {&output}, &attributes);
  refuse_outside(context, indices, Shape(params.shape, params.shape + depth), Indices::kPlaces);
}

bool scatter_nd_fits(Context& context, const View& indices, const View& updates, const View& target) {
  const int64_t depth = indices.rank > 0 ? indices.shape[indices.rank - 1] : -1;
  Shape expected;
  if (depth >= 0 && depth <= target.rank) {
    expected.assign(indices.shape, indices.shape + indices.rank - 1);
    expected.insert(expected.end(), target.shape + depth, target.shape + target.rank);
  }
  if (depth < 0 || depth > target.rank || expected != shape_of(updates)) {
    context.fail_invalid("indices " + to_text(indices) + " and updates " + to_text(updates) +
                         " do not fit a tensor of shape " + to_text(target));
    return false;
  }
  if (target.elements() == 0 && (indices.elements() > 0 || updates.elements() > 0)) {
    context.fail_invalid("Indices and updates specified for empty output tensor " + to_text(target));
  }
  return context.ok();
}

bool scatter_nd(Context& context, const View& indices, const View& updates, Scatter scatter, const View& target) {
  if (!scatter_nd_fits(context, indices, updates, target)) return false;
  if (updates.elements() == 0) return true;
  View values = updates;
  if (scatter.negate) {
    values = context.temporary_like(updates);
    context.map(uhal_map_negative, {&updates}, {&values});
  }
  uhal_index_attributes attributes = program_index_attributes(context, 0);
  attributes.reduction = scatter.reduction;
  context.launch(UHAL_OP_SCATTER_ND, {&indices, &values}, {&target}, &attributes);
  const int64_t depth = indices.shape[indices.rank - 1];
  return refuse_outside(context, indices, Shape(target.shape, target.shape + depth), Indices::kPlaces);
}

namespace {

// Gather(params, indices); GatherV2(params, indices, axis).
template <bool kHasAxis>
class Gather : public Kernel {
 public:
  explicit Gather(Construction& construction)
      : Kernel(construction),
        batch_dimensions_(construction.has("batch_dims") ? construction.integer("batch_dims") : 0) {}

  void compute(Context& context) const override {
    const View params = context.input(0);
    const View indices = context.input(1);
    const int64_t given = kHasAxis ? context.host_scalar(2) : 0;
    if (!context.ok()) return;
    const int axis = checked_axis(context, given, params.rank);
    const int64_t batch = batch_dimensions_ < 0 ? batch_dimensions_ + indices.rank : batch_dimensions_;
    if (!context.ok()) return;
    if (batch < 0 || batch > indices.rank || batch > axis ||
        !std::equal(params.shape, params.shape + batch, indices.shape)) {
      return context.fail_invalid(std::string(op()) + ": batch_dims " + std::to_string(batch_dimensions_) +
                                  " does not fit params " + to_text(params) + ", indices " + to_text(indices) +
                                  " and axis " + std::to_string(axis));
    }
    gather(context, params, indices, axis, static_cast<int>(batch));
  }

 private:
  int64_t batch_dimensions_;
};

class GatherNd : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View params = context.input(0);
    const View indices = context.input(1);
    if (context.ok()) gather_nd(context, params, indices);
  }
};

// ScatterNd(indices, updates, shape): sums into zeros.
class ScatterNd : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View indices = context.input(0);
    const View updates = context.input(1);
    const Shape shape = context.host_vector(2);
    if (!context.ok() || !context.check_shape(updates.dtype, shape)) return;
    if (shape.size() <= UHAL_MAX_RANK &&
        !scatter_nd_fits(context, indices, updates, View(nullptr, updates.dtype, shape))) {
      return;
    }
    const View output = context.output(0, updates.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    context.zero(output);
    scatter_nd(context, indices, updates, {UHAL_REDUCE_SUM, false}, output);
  }
};

// TensorScatter*(tensor, indices, updates).
template <uhal_reduction kReduction, bool kNegate = false>
class TensorScatter : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View tensor = context.input(0);
    const View indices = context.input(1);
    const View updates = context.input(2);
    if (!context.ok() || !scatter_nd_fits(context, indices, updates, tensor)) return;
    const int candidate = 0;
    const View output = context.forwarded_output(0, tensor.dtype, tensor.shape, tensor.rank, &candidate, 1);
    if (!context.ok() || output.elements() == 0) return;
    if (output.data != tensor.data) context.copy(tensor, output);
    scatter_nd(context, indices, updates, {kReduction, kNegate}, output);
  }
};

// UnsortedSegment*(data, segment_ids, num_segments): segment_ids' shape is a prefix of data's.
template <uhal_reduction kReduction>
class UnsortedSegment : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View data = context.input(0);
    const View ids = context.input(1);
    const int64_t count = context.host_scalar(2);
    if (!context.ok()) return;
    if (count < 0) {
      return context.fail_invalid(std::string(op()) + ": num_segments must not be negative, got " +
                                  std::to_string(count));
    }
    if (ids.rank > data.rank || !std::equal(ids.shape, ids.shape + ids.rank, data.shape)) {
      return context.fail_invalid(std::string(op()) + ": data.shape = " + to_text(data) +
                                  " does not start with segment_ids.shape = " + to_text(ids));
    }
    Shape shape = {count};
    shape.insert(shape.end(), data.shape + ids.rank, data.shape + data.rank);
    if (count == 0 && !refuse_any_outside(context, ids, {count}, Indices::kSegments, "segment_ids")) return;
    const View output = context.output(0, data.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    fill_neutral(context, output);
    if (data.elements() == 0) return;
    shape[0] = ids.elements();
    const View rows = data.reshaped(shape);
    const View flat_ids = ids.reshaped({ids.elements()});
    uhal_index_attributes attributes = program_index_attributes(context, 0);
    attributes.reduction = kReduction;
    context.launch(UHAL_OP_SCATTER, {&flat_ids, &rows}, {&output}, &attributes);
    refuse_outside(context, ids, {count}, Indices::kSegments, "segment_ids");
  }

 private:
  // What a segment without rows holds.
  static void fill_neutral(Context& context, const View& output) {
    const Limits limits = limits_of(output.dtype);
    switch (kReduction) {
      case UHAL_REDUCE_PRODUCT:
        context.fill(output, 1, 1);
        break;
      case UHAL_REDUCE_MAXIMUM:
        context.fill(output, limits.lowest, limits.integer_lowest);
        break;
      case UHAL_REDUCE_MINIMUM:
        context.fill(output, limits.highest, limits.integer_highest);
        break;
      default:
        context.zero(output);
    }
  }
};

// OneHot(indices, depth, on value, off value).
class OneHot : public Kernel {
 public:
  explicit OneHot(Construction& construction) : Kernel(construction), axis_(construction.integer("axis")) {}
  void compute(Context& context) const override {
    View indices = context.input(0);
    const int64_t depth = context.host_scalar(1);
    const View on = context.input(2);
    const View off = context.input(3);
    if (!context.ok()) return;
    if (on.rank != 0 || off.rank != 0 || axis_ < -1) {
      return context.fail_invalid("OneHot: on_value and off_value must be scalars and axis -1 or more, got shapes " +
                                  to_text(on) + " and " + to_text(off) + " and axis " + std::to_string(axis_));
    }
    const int axis = checked_axis(context, axis_, indices.rank + 1);
    if (!context.ok()) return;
    if (depth < 0) return context.fail_invalid("OneHot: depth must be non-negative, got " + std::to_string(depth));
    Shape shape = shape_of(indices);
    shape.insert(shape.begin() + axis, depth);
    const View output = context.output(0, on.dtype, shape);
    const View hot = context.temporary(UHAL_BOOL, shape.data(), static_cast<int>(shape.size()));
    if (!context.ok() || output.elements() == 0) return;
    if (!contains(kIndices, indices.dtype)) {
      const View narrow = indices;
      indices = context.temporary(UHAL_INT32, narrow.shape, narrow.rank);
      if (!context.ok() || !context.cast(narrow, indices)) return;
    }
    const uhal_index_attributes attributes = index_attributes(axis);
    context.launch(UHAL_OP_ONE_HOT, {&indices}, {&hot}, &attributes);
    context.map(uhal_map_select, {&hot, &on, &off}, {&output});
  }

 private:
  int64_t axis_;
};

}  // namespace

View column_of(const View& matrix, int64_t number) {
  View result = matrix.sliced(1, number, 1);
  result.rank = 1;
  return result;
}

void register_index(Registrar& registrar) {
  registrar.add<Gather<true>>("GatherV2", {{"Tparams", kAll}, {"Tindices", kIndices}}, {"axis"});
  registrar.add<Gather<false>>("Gather", {{"Tparams", kAll}, {"Tindices", kIndices}});
  registrar.add<GatherNd>("GatherNd", {{"Tparams", kAll}, {"Tindices", kIndices}});
  registrar.add<ScatterNd>("ScatterNd", {{"T", kAll}, {"Tindices", kIndices}}, {"shape"});
  registrar.add<TensorScatter<UHAL_REDUCE_NONE>>("TensorScatterUpdate", {{"T", kAll}, {"Tindices", kIndices}});
  registrar.add<TensorScatter<UHAL_REDUCE_SUM>>("TensorScatterAdd",
                                                {{"T", kNumbers | kComplex}, {"Tindices", kIndices}});
  registrar.add<TensorScatter<UHAL_REDUCE_SUM, true>>("TensorScatterSub",
                                                      {{"T", kNumbers | kComplex}, {"Tindices", kIndices}});
  registrar.add<TensorScatter<UHAL_REDUCE_SUM>>("ScatterNdNonAliasingAdd", {{"T", kAll}, {"Tindices", kIndices}});
  registrar.add<TensorScatter<UHAL_REDUCE_MAXIMUM>>("TensorScatterMax", {{"T", kNumbers}, {"Tindices", kIndices}});
  registrar.add<TensorScatter<UHAL_REDUCE_MINIMUM>>("TensorScatterMin", {{"T", kNumbers}, {"Tindices", kIndices}});
  const std::initializer_list<TypeConstraint> segment = {{"T", kNumbers}, {"Tindices", kIndices}};
  const std::initializer_list<TypeConstraint> sums = {{"T", kNumbers | kComplex}, {"Tindices", kIndices}};
  registrar.add<UnsortedSegment<UHAL_REDUCE_SUM>>("UnsortedSegmentSum", sums, {"num_segments"});
  registrar.add<UnsortedSegment<UHAL_REDUCE_PRODUCT>>("UnsortedSegmentProd", sums, {"num_segments"});
  registrar.add<UnsortedSegment<UHAL_REDUCE_MAXIMUM>>("UnsortedSegmentMax", segment, {"num_segments"});
  registrar.add<UnsortedSegment<UHAL_REDUCE_MINIMUM>>("UnsortedSegmentMin", segment, {"num_segments"});
  registrar.add<OneHot>("OneHot", {{"T", kAll}, {"TI", kIndices | only(UHAL_UINT8) | only(UHAL_INT8)}}, {"depth"});
}

}  // namespace unihal::tensorflow
