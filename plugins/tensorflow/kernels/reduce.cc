// Reductions, arg-reductions, scans and top-k.
#include <algorithm>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

template <uhal_reduction kReduction>
class Reduce : public Kernel {
 public:
  explicit Reduce(Construction& construction) : Kernel(construction), keep_axes_(construction.boolean("keep_dims")) {}

  // Neighbouring axes that are all reduced, or all kept, are one: that holds any rank.
  void compute(Context& context) const override {
    const Shape dims = context.dims(0);
    View input = context.flat_input(0);
    const Shape axes = context.host_integers(1);
    if (!context.ok()) return;
    std::vector<bool> reduced(dims.size());
    for (int64_t given : axes) {
      const auto axis = static_cast<size_t>(checked_axis(context, given, static_cast<int>(dims.size())));
      if (!context.ok()) return;
      if (reduced[axis]) {
        return context.fail_invalid(std::string(op()) + ": Axes contains duplicate dimension: " + std::to_string(axis));
      }
      reduced[axis] = true;
    }
    Shape shape, from, to;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!reduced[i] || keep_axes_) shape.push_back(reduced[i] ? 1 : dims[i]);
      if (i == 0 || reduced[i] != reduced[i - 1]) {
        from.push_back(dims[i]);
        to.push_back(reduced[i] ? 1 : dims[i]);
      } else {
        from.back() *= dims[i];
        if (!reduced[i]) to.back() *= dims[i];
      }
    }
    const View output = context.flat_output(0, input.dtype, shape);
    if (kReduction == UHAL_REDUCE_MEAN && input.elements() == 0 && contains(kComplex, input.dtype)) {
      if (context.ok() && output.elements() > 0) context.zero(output);  // as TensorFlow's CPU; of real numbers NaN
      return;
    }
    const uhal_reduce_attributes attributes = reduce_attributes(kReduction);
    // Where axes to reduce and to keep take turns too often, the last of them are reduced first.
    while (context.ok() && from.size() > UHAL_MAX_RANK) {
      const auto split = static_cast<std::ptrdiff_t>(from.size()) - (UHAL_MAX_RANK - 1);
      Shape part = {1};
      for (auto i = from.begin(); i != from.begin() + split; ++i) part[0] *= *i;
      Shape sums = part;
      part.insert(part.end(), from.begin() + split, from.end());
      sums.insert(sums.end(), to.begin() + split, to.end());
      const View target = context.temporary(input.dtype, sums.data(), UHAL_MAX_RANK);
      const View source = input.reshaped(part);
      context.launch(UHAL_OP_REDUCE, {&source}, {&target}, &attributes);
      input = target;
      from.resize(static_cast<size_t>(split));
      to.resize(static_cast<size_t>(split));
      from.push_back(1);  // what is kept of them
      for (size_t i = 1; i < sums.size(); ++i) from.back() *= sums[i];
      to.push_back(from.back());
    }
    const View source = input.reshaped(from);
    const View target = output.reshaped(to);
    context.launch(UHAL_OP_REDUCE, {&source}, {&target}, &attributes);
  }

 private:
  bool keep_axes_;
};

// L2Loss: half the sum of squares of all elements.
class L2Loss : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const View flat = input.reshaped({input.elements()});
    const View output = context.output(0, input.dtype, Shape{});
    const View sum = output.reshaped({1});
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
    context.launch(UHAL_OP_REDUCE, {&flat}, {&sum}, &attributes);
    context.map(uhal_map_scale, {&output}, {&output}, {0.5, 0});
  }
};

template <bool kLargest>
class ArgReduce : public Kernel {
 public:
  explicit ArgReduce(Construction& construction)
      : Kernel(construction), output_dtype_(construction.dtype("output_type")) {}

  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t given = context.host_scalar(1);
    if (!context.ok()) return;
    const int axis = checked_axis(context, given, input.rank);
    if (!context.ok()) return;
    if (input.shape[axis] == 0) {
      return context.fail_invalid(std::string(op()) + ": axis " + std::to_string(axis) + " of shape " + to_text(input) +
                                  " has no elements");
    }
    Shape shape = shape_of(input);
    shape.erase(shape.begin() + axis);
    const View output = context.output(0, output_dtype_, shape);
    if (!context.ok()) return;
    // The ABI's indices are int32 and int64.
    const bool direct = contains(kIndices, output_dtype_);
    const View indices = direct ? output : context.temporary(UHAL_INT64, output.shape, output.rank);
    if (!context.ok()) return;
    const View target = indices.unsqueezed(axis);
    const uhal_axis_attributes attributes = axis_attributes(axis, kLargest);
    context.launch(UHAL_OP_ARG_REDUCE, {&input}, {&target}, &attributes);
    if (!direct) context.cast(indices, output);
  }

 private:
  uhal_dtype output_dtype_;
};

template <uhal_reduction kReduction>
class Scan : public Kernel {
 public:
  explicit Scan(Construction& construction) : Kernel(construction) {
    attributes_ = {};
    attributes_.struct_size = sizeof attributes_;
    attributes_.reduction = kReduction;
    attributes_.exclusive = construction.boolean("exclusive");
    attributes_.reverse = construction.boolean("reverse");
  }

  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t given = context.host_scalar(1);
    if (!context.ok()) return;
    uhal_scan_attributes attributes = attributes_;
    attributes.axis = checked_axis(context, given, input.rank);
    const View output = context.output_like(0, input);
    context.launch(UHAL_OP_SCAN, {&input}, {&output}, &attributes);
  }

 private:
  uhal_scan_attributes attributes_;
};

// TopKV2 along the last axis.
class TopK : public Kernel {
 public:
  explicit TopK(Construction& construction)
      : Kernel(construction),
        index_dtype_(construction.has("index_type") ? construction.dtype("index_type") : UHAL_INT32) {}

  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t k = context.host_scalar(1);
    if (!context.ok()) return;
    if (k < 0) return context.fail_invalid(std::string(op()) + ": k must not be negative, got " + std::to_string(k));
    if (input.rank == 0 || k > input.shape[input.rank - 1]) {
      return context.fail_invalid(std::string(op()) + ": input must have at least k = " + std::to_string(k) +
                                  " columns, got shape " + to_text(input));
    }
    Shape shape = shape_of(input);
    shape.back() = k;
    const View values = context.output(0, input.dtype, shape);
    const View indices = context.output(1, index_dtype_, shape);
    const uhal_axis_attributes attributes = axis_attributes(input.rank - 1, true);
    context.launch(UHAL_OP_TOP_K, {&input}, {&values, &indices}, &attributes);
  }

 private:
  uhal_dtype index_dtype_;
};

// ApproxTopK(input): the exact answer, which is one of those allowed.
class ApproxTopK : public Kernel {
 public:
  explicit ApproxTopK(Construction& construction)
      : Kernel(construction),
        k_(construction.integer("k")),
        axis_(construction.integer("reduction_dimension")),
        largest_(construction.boolean("is_max_k")) {
    if (!construction.boolean("aggregate_to_topk")) construction.refuse("aggregate_to_topk=False");
  }
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const int axis = checked_axis(context, axis_, input.rank);
    if (!context.ok()) return;
    if (k_ < 0 || k_ > input.shape[axis]) {
      return context.fail_invalid("input must have at least k(=" + std::to_string(k_) + ") elements along axis " +
                                  std::to_string(axis) + ", got shape " + to_text(input));
    }
    Shape shape = shape_of(input);
    shape[static_cast<size_t>(axis)] = k_;
    const View values = context.output(0, input.dtype, shape);
    const View indices = context.output(1, UHAL_INT32, shape);
    if (!context.ok() || values.elements() == 0) return;
    const uhal_axis_attributes attributes = axis_attributes(axis, largest_);
    context.launch(UHAL_OP_TOP_K, {&input}, {&values, &indices}, &attributes);
  }

 private:
  int64_t k_;
  int64_t axis_;
  bool largest_;
};

// NthElement(input, n): the element that would be at place n of the sorted last axis.
class NthElement : public Kernel {
 public:
  explicit NthElement(Construction& construction) : Kernel(construction), reverse_(construction.boolean("reverse")) {}

  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t n = context.host_scalar(1);
    if (!context.ok()) return;
    if (n < 0) return context.fail_invalid("NthElement: n must not be negative, got " + std::to_string(n));
    if (input.rank == 0 || n >= input.shape[input.rank - 1]) {
      return context.fail_invalid("NthElement: input must have more than n = " + std::to_string(n) +
                                  " columns, got shape " + to_text(input));
    }
    Shape shape = shape_of(input);
    shape.pop_back();
    const View values = context.output(0, input.dtype, shape);
    if (!context.ok() || values.elements() == 0) return;
    shape.push_back(n + 1);
    const View first = context.temporary(input.dtype, shape.data(), input.rank);
    const View places = context.temporary(UHAL_INT32, shape.data(), input.rank);
    const uhal_axis_attributes attributes = axis_attributes(input.rank - 1, reverse_);
    context.launch(UHAL_OP_TOP_K, {&input}, {&first, &places}, &attributes);
    context.copy(first.sliced(input.rank - 1, n, 1), values.unsqueezed(input.rank - 1));
  }

 private:
  bool reverse_;
};

// InTopK(predictions, targets), InTopKV2(predictions, targets, k): whether fewer than k predictions of a row are larger
// than that of its target. Nobody can say so of a row with a number that is not finite, or of a target that is no
// class.
class InTopK : public Kernel {
 public:
  explicit InTopK(Construction& construction)
      : Kernel(construction),
        k_(construction.has("k") ? construction.integer("k") : 0),
        has_k_(construction.has("k")) {}

  void compute(Context& context) const override {
    const View predictions = context.input(0), targets = context.input(1);
    const int64_t k = has_k_ ? k_ : context.host_scalar(2);
    if (!context.ok()) return;
    if (predictions.rank != 2 || targets.rank != 1 || targets.shape[0] != predictions.shape[0]) {
      return context.fail_invalid(std::string(op()) + ": predictions of shape " + to_text(predictions) +
                                  " and targets of shape " + to_text(targets) +
                                  " are not a matrix and a class for each of its rows");
    }
    const int64_t rows = predictions.shape[0], classes = predictions.shape[1];
    const View result = context.output(0, UHAL_BOOL, Shape{rows});
    if (!context.ok() || rows == 0) return;
    if (classes == 0) {
      context.zero(result);
      return;
    }
    const int64_t column_dims[] = {rows, 1};
    const auto column = [&](uhal_dtype dtype) { return context.temporary(dtype, column_dims, 2); };
    const View bound = column(UHAL_FLOAT32), known = column(UHAL_BOOL), part = column(UHAL_BOOL);
    const View count = column(UHAL_INT64), scalar = context.temporary(targets.dtype, column_dims, 0);
    const View at = targets.reshaped({rows, 1});
    const View marks = context.temporary(UHAL_BOOL, predictions.shape, 2);
    uhal_index_attributes picked = index_attributes(1);
    picked.ignore_out_of_range = 1;
    context.launch(UHAL_OP_GATHER_ELEMENTS, {&predictions, &at}, {&bound}, &picked);
    context.map(uhal_map_is_finite, {&predictions}, {&marks});
    const uhal_reduce_attributes all = reduce_attributes(UHAL_REDUCE_ALL), sum = reduce_attributes(UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_REDUCE, {&marks}, {&known}, &all);
    context.fill(scalar, 0, 0);
    context.map(uhal_map_greater_equal, {&at, &scalar}, {&part});
    context.map(uhal_map_logical_and, {&known, &part}, {&known});
    context.fill(scalar, static_cast<double>(classes), classes);
    context.map(uhal_map_less, {&at, &scalar}, {&part});
    context.map(uhal_map_logical_and, {&known, &part}, {&known});
    context.map(uhal_map_greater, {&predictions, &bound}, {&marks});
    context.launch(UHAL_OP_REDUCE, {&marks}, {&count}, &sum);
    context.fill(scalar, static_cast<double>(k), k);
    context.map(uhal_map_less, {&count, &scalar}, {&part});
    const View target = result.unsqueezed(1);
    context.map(uhal_map_logical_and, {&known, &part}, {&target});
  }

 private:
  int64_t k_;
  bool has_k_;
};

}  // namespace

void register_reduce(Registrar& registrar) {
  constexpr const char* kAxes = "reduction_indices";
  registrar.add<Reduce<UHAL_REDUCE_SUM>>("Sum", {{"T", kNumbers | kComplex}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_MEAN>>("Mean", {{"T", kFloats | kComplex}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_PRODUCT>>("Prod", {{"T", kNumbers | kComplex}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_MAXIMUM>>("Max", {{"T", without_int32(kNumbers)}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_MINIMUM>>("Min", {{"T", without_int32(kNumbers)}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_L2_NORM>>("EuclideanNorm", {{"T", kFloats}}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_ALL>>("All", {}, {kAxes});
  registrar.add<Reduce<UHAL_REDUCE_ANY>>("Any", {}, {kAxes});
  registrar.add<L2Loss>("L2Loss", {{"T", kFloats}});
  registrar.add<ArgReduce<true>>("ArgMax", {{"T", kReal}}, {"dimension"});
  registrar.add<ArgReduce<false>>("ArgMin", {{"T", kReal}}, {"dimension"});
  registrar.add<Scan<UHAL_REDUCE_SUM>>("Cumsum", {{"T", kNumbers | kComplex}}, {"axis"});
  registrar.add<Scan<UHAL_REDUCE_PRODUCT>>("Cumprod", {{"T", kNumbers | kComplex}}, {"axis"});
  registrar.add<ApproxTopK>("ApproxTopK", {{"T", kReducedFloats | only(UHAL_FLOAT32)}});
  registrar.add<Scan<UHAL_REDUCE_LOG_SUM_EXP>>("CumulativeLogsumexp", {{"T", kFloats}}, {"axis"});
  registrar.add<TopK>("TopKV2", {{"T", kNumbers}}, {"k"});
  registrar.add<NthElement>("NthElement", {{"T", kNumbers}}, {"n"});
  registrar.add<InTopK>("InTopK", {{"T", kIndices}});
  registrar.add<InTopK>("InTopKV2", {{"T", kIndices}}, {"k"});
}

}  // namespace unihal::tensorflow
