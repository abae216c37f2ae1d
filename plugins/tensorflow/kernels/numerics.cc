// What kinds of numbers a tensor has: checks for infinity and NaN, summaries, histograms, and cross products.
#include <algorithm>
#include <cmath>

#include "plugins/common/chain.h"
#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/kernels/partition.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

constexpr double kInfinity = HUGE_VAL;

// Writes to `count` how many elements of `x` are function(element, limit) to; with a NaN for `limit`, how many are NaN.
void count_where(Context& context, const View& x, uhal_map_function function, double limit, const View& count) {
  const View found = context.temporary_vector(UHAL_INT64, x.elements());
  const View scalar = context.temporary(x.dtype, nullptr, 0);
  if (!context.ok()) return;
  if (x.elements() == 0) {
    context.zero(count);
    return;
  }
  if (std::isnan(limit)) {
    context.map(uhal_map_is_nan, {&x}, {&found});
  } else {
    context.fill(scalar, limit, static_cast<int64_t>(std::isinf(limit) ? 0 : limit));
    context.map(function, {&x, &scalar}, {&found});
  }
  const uhal_reduce_attributes sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.launch(UHAL_OP_REDUCE, {&found}, {&count}, &sum);
}

// CheckNumerics(tensor): the tensor itself, or an error. Version 2 tells the signs of infinities.
template <bool kSigns>
class CheckNumerics : public Kernel {
 public:
  explicit CheckNumerics(Construction& construction) : Kernel(construction), message_(construction.text("message")) {}
  void compute(Context& context) const override {
    const View x = context.flat_input(0);
    const Shape shape = context.dims(0);
    if (!context.ok()) return;
    const View counts = context.temporary_vector(UHAL_INT64, 3);
    if (!context.ok()) return;
    count_where(context, x, uhal_map_equal, -kInfinity, counts.sliced(0, 0, 1));
    count_where(context, x, uhal_map_equal, kInfinity, counts.sliced(0, 1, 1));
    count_where(context, x, uhal_map_equal, NAN, counts.sliced(0, 2, 1));
    const Shape found = read_numbers(context, counts);
    if (!context.ok()) return;
    std::vector<std::string> kinds;
    if (kSigns) {
      if (found[0] > 0) kinds.push_back("-Inf");
      if (found[1] > 0) kinds.push_back("+Inf");
    } else if (found[0] + found[1] > 0) {
      kinds.push_back("Inf");
    }
    if (found[2] > 0) kinds.push_back("NaN");
    if (kinds.empty()) return context.share(0, 0, to_tensorflow(x.dtype), shape);
    std::string text = kinds[0];
    for (size_t i = 1; i < kinds.size(); ++i) {
      text += i + 1 < kinds.size() ? ", " : kinds.size() > 2 ? ", and " : " and ";
      text += kinds[i];
    }
    context.fail_invalid(message_ + " : Tensor had " + text + " values");
  }

 private:
  std::string message_;
};

// DebugNumericSummaryV2(input): numbers about a tensor; which, attribute "tensor_debug_mode" says.
class DebugNumericSummary : public Kernel {
 public:
  explicit DebugNumericSummary(Construction& construction)
      : Kernel(construction),
        mode_(construction.integer("tensor_debug_mode")),
        id_(construction.integer("tensor_id")),
        type_(construction.type("T")),
        dtype_(construction.dtype("output_dtype")) {
    if (mode_ == kReduceInfinityAndNan && !contains(kFloats, construction.dtype("T"))) {
      construction.refuse("a summary of infinities of a dtype that has none");
    }
  }
  void compute(Context& context) const override {
    const View x = context.flat_input(0);
    const Shape dims = context.dims(0);
    if (!context.ok()) return;
    const auto elements = static_cast<double>(x.elements());
    const auto rank = static_cast<double>(dims.size());
    const auto id = static_cast<double>(id_);
    switch (mode_) {
      case kCurtHealth:
        return write(context, x, {id}, {kNotFinite}, false);
      case kConciseHealth:
        return write(context, x, {id, elements}, {kNegativeInfinity, kPositiveInfinity, kNan}, false);
      case kFullHealth:
        return write(context, x, {id, -1, static_cast<double>(type_), rank, elements},
                     {kNegativeInfinity, kPositiveInfinity, kNan, kNegative, kZero, kPositive}, false);
      case kShape: {
        std::vector<double> values = {id, static_cast<double>(type_), rank, elements};
        const size_t shown = 6;
        for (size_t i = dims.size() > shown ? dims.size() - shown : 0; i < dims.size(); ++i) {
          values.push_back(static_cast<double>(dims[i]));
        }
        values.resize(4 + shown, 0);
        return write(context, x, values, {}, false);
      }
      case kReduceInfinityAndNan:
        return write(context, x, {}, {kNegativeInfinity, kPositiveInfinity, kNan}, true);
      default:
        context.fail(TF_UNIMPLEMENTED,
                     "tensor_debug_mode " + std::to_string(mode_) + " is not known; expected 2, 3, 4, 5 or 8");
    }
  }

 private:
  enum Mode { kCurtHealth = 2, kConciseHealth = 3, kFullHealth = 4, kShape = 5, kReduceInfinityAndNan = 8 };
  enum Count { kNegativeInfinity, kPositiveInfinity, kNan, kNotFinite, kNegative, kZero, kPositive };

  void count(Context& context, const View& x, Count what, const View& slot) const {
    const bool floating = contains(kFloats, x.dtype);
    const View other = context.temporary_vector(UHAL_INT64, 1);
    if (!context.ok()) return;
    if (!floating && what <= kNotFinite) {
      context.zero(slot);
      return;
    }
    switch (what) {
      case kNegativeInfinity:
        return count_where(context, x, uhal_map_equal, -kInfinity, slot);
      case kPositiveInfinity:
        return count_where(context, x, uhal_map_equal, kInfinity, slot);
      case kNan:
        return count_where(context, x, uhal_map_equal, NAN, slot);
      case kNotFinite:
        count_where(context, x, uhal_map_equal, NAN, slot);
        for (double infinity : {-kInfinity, kInfinity}) {
          count_where(context, x, uhal_map_equal, infinity, other);
          context.map(uhal_map_add, {&slot, &other}, {&slot});
        }
        return flag(context, slot);
      case kZero:
        return count_where(context, x, uhal_map_equal, 0, slot);
      default:
        // Infinities are counted apart.
        count_where(context, x, what == kNegative ? uhal_map_less : uhal_map_greater, 0, slot);
        if (!floating) return;
        count_where(context, x, uhal_map_equal, what == kNegative ? -kInfinity : kInfinity, other);
        context.map(uhal_map_subtract, {&slot, &other}, {&slot});
    }
  }

  // 1 where a count is not 0.
  static void flag(Context& context, const View& slot) {
    const View zero = context.temporary_vector(UHAL_INT64, 1);
    if (context.ok() && context.zero(zero)) context.map(uhal_map_not_equal, {&slot, &zero}, {&slot});
  }

  void write(Context& context, const View& x, const std::vector<double>& values, std::initializer_list<Count> counts,
             bool infinities_as_values) const {
    const auto known = static_cast<int64_t>(values.size());
    const View output = context.output(0, dtype_, Shape{known + static_cast<int64_t>(counts.size())});
    const View found = context.temporary_vector(UHAL_INT64, static_cast<int64_t>(counts.size()));
    for (int64_t i = 0; context.ok() && i < known; ++i)
      context.fill(output.sliced(0, i, 1), values[static_cast<size_t>(i)], 0);
    int64_t i = 0;
    for (Count what : counts) {
      if (!context.ok()) return;
      const View slot = found.sliced(0, i, 1);
      const View to = output.sliced(0, known + i++, 1);
      count(context, x, what, slot);
      if (!infinities_as_values) {
        context.cast(slot, to);
        continue;
      }
      const View value = context.temporary_vector(dtype_, 1);
      const View zero = context.temporary_vector(dtype_, 1);
      if (!context.ok()) return;
      context.fill(value, what == kNan ? NAN : what == kPositiveInfinity ? kInfinity : -kInfinity, 0);
      context.zero(zero);
      context.map(uhal_map_select, {&slot, &value, &zero}, {&to});
    }
  }

  int64_t mode_;
  int64_t id_;
  TF_DataType type_;
  uhal_dtype dtype_;
};

// HistogramFixedWidth(values, range, bins): bins in host memory, and the range where it is int32.
class HistogramFixedWidth : public Kernel {
 public:
  explicit HistogramFixedWidth(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("dtype")) {}
  void compute(Context& context) const override {
    const View values = context.flat_input(0);
    const Shape range_shape = context.dims(1);
    const View range = context.flat_input(1);
    const int64_t bins = context.host_scalar(2);
    if (!context.ok()) return;
    if (bins <= 0) {
      return context.fail_invalid("nbins should be a positive number, but got '" + std::to_string(bins) + "'");
    }
    if (range_shape != Shape{2}) {
      return context.fail_invalid("value_range should be a vector of 2 elements, got shape " + to_text(range_shape));
    }
    double low, high;
    if (range.dtype == UHAL_INT32) {
      low = static_cast<const int32_t*>(range.data)[0];
      high = static_cast<const int32_t*>(range.data)[1];
    } else {
      const std::vector<double> ends = read_reals(context, {range});
      if (!context.ok()) return;
      low = ends[0];
      high = ends[1];
    }
    if (!(low < high)) {
      return context.fail_invalid("value_range should satisfy value_range[0] < value_range[1], but got '[" +
                                  std::to_string(low) + ", " + std::to_string(high) + "]'");
    }
    const View output = context.output(0, dtype_, Shape{bins});
    const int64_t count = values.elements();
    const View ids = context.temporary_vector(UHAL_INT32, count);
    const View step = context.temporary(UHAL_FLOAT64, nullptr, 0);
    const View counts = context.temporary_vector(UHAL_INT64, bins + 1);
    if (!context.ok()) return;
    if (count == 0) {
      context.zero(output);
      return;
    }
    context.fill(step, (high - low) / static_cast<double>(bins), 0);
    // In float64, as on the CPU. The high end lies behind the last bin, which has it.
    Chain place(2);
    const int within = place.step(uhal_map_clip, {0}, {low, high});
    const int distance = place.step(uhal_map_add_then_scale, {within}, {1, -low});
    place.step(uhal_map_divide, {distance, 1});
    context.launch(UHAL_OP_MAP_CHAIN, {&values, &step}, {&ids}, place.program());
    count_segments(context, ids, counts);
    const View inside = counts.sliced(0, 0, bins), last = counts.sliced(0, bins - 1, 1);
    const View behind = counts.sliced(0, bins, 1);
    context.map(uhal_map_add, {&last, &behind}, {&last});
    context.cast(inside, output);
  }

 private:
  uhal_dtype dtype_;
};

// Cross(a, b): vectors of three along the last axis.
class Cross : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kNone; }
  void compute(Context& context) const override {
    const View a = context.input(0);
    const View b = context.input(1);
    if (!context.ok()) return;
    if (shape_of(a) != shape_of(b)) {
      return context.fail_invalid("Both inputs must be of same shape: " + to_text(a) + " vs. " + to_text(b));
    }
    if (a.rank < 1 || a.shape[a.rank - 1] != 3) {
      return context.fail(TF_FAILED_PRECONDITION,
                          "Cross-products are only defined for 3-element vectors, got shape " + to_text(a));
    }
    const View output = context.output_like(0, a);
    if (!context.ok() || output.elements() == 0) return;
    const int axis = a.rank - 1;
    Shape shape = shape_of(a);
    shape.back() = 1;
    const View product = context.temporary(a.dtype, shape.data(), a.rank);
    for (int64_t i = 0; context.ok() && i < 3; ++i) {
      const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
      const View to = output.sliced(axis, i, 1);
      const View aj = a.sliced(axis, j, 1), ak = a.sliced(axis, k, 1);
      const View bj = b.sliced(axis, j, 1), bk = b.sliced(axis, k, 1);
      context.map(uhal_map_multiply, {&ak, &bj}, {&product});
      context.map(uhal_map_multiply, {&aj, &bk}, {&to});
      context.map(uhal_map_subtract, {&to, &product}, {&to});
    }
  }
};

// Bucketize(input): of each number how many of the boundaries are not above it. Integers are compared in float32, as on
// the CPU.
class Bucketize : public Kernel {
 public:
  explicit Bucketize(Construction& construction) : Kernel(construction), boundaries_(construction.reals("boundaries")) {
    if (!std::is_sorted(boundaries_.begin(), boundaries_.end())) {
      construction.fail(TF_INVALID_ARGUMENT, "Expected sorted boundaries");
    }
  }
  void compute(Context& context) const override {
    const View input = context.flat_input(0);
    const Shape shape = context.dims(0);
    if (!context.ok()) return;
    const View output = context.flat_output(0, UHAL_INT32, shape);
    if (!context.ok() || output.elements() == 0) return;
    const auto count = static_cast<int64_t>(boundaries_.size());
    if (count == 0) {
      context.zero(output);
      return;
    }
    const uhal_dtype dtype = input.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
    const View limits = context.temporary_vector(UHAL_FLOAT32, count);
    const View wide = context.temporary_vector(dtype, count);
    const View values = context.temporary_vector(dtype, input.elements());
    if (!context.ok()) return;
    // The kernel outlives the copy, which the host waits for.
    uhal_status status = uhal_copy(context.stream(), limits.data, boundaries_.data(),
                                   boundaries_.size() * sizeof(float), UHAL_COPY_HOST_TO_DEVICE);
    if (status == UHAL_OK) status = uhal_stream_synchronize(context.stream());
    if (!context.check(status)) return;
    context.cast(limits, wide);
    context.cast(input, values);
    uhal_search_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.right = 1;
    context.launch(UHAL_OP_SEARCH_SORTED, {&wide, &values}, {&output}, &attributes);
  }

 private:
  std::vector<float> boundaries_;
};

// IsTensorFloat32Enabled()
class TensorFloat32 : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View output = context.output(0, UHAL_BOOL, Shape{});
    if (context.ok()) *static_cast<bool*>(output.data) = math_mode() == UHAL_MATH_ALLOW_TF32;
  }
};

}  // namespace

void register_numerics(Registrar& registrar) {
  registrar.add<CheckNumerics<false>>("CheckNumerics", {{"T", kFloats}});
  registrar.add<CheckNumerics<true>>("CheckNumericsV2", {{"T", kFloats}});
  registrar.add<DebugNumericSummary>("DebugNumericSummaryV2",
                                     {{"T", kReal}, {"output_dtype", only(UHAL_FLOAT32) | only(UHAL_FLOAT64)}});
  const DtypeSet wide = only(UHAL_INT64) | only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
  registrar.add<HistogramFixedWidth>("HistogramFixedWidth", {{"T", wide}, {"dtype", kIndices}}, {"nbins"});
  registrar.add<HistogramFixedWidth>("HistogramFixedWidth", {{"T", kInt32}, {"dtype", kIndices}},
                                     {"value_range", "nbins"});
  registrar.add<Bucketize>("Bucketize", {{"T", wide | kInt32}});
  registrar.add<TensorFloat32>("IsTensorFloat32Enabled", {}, {"enabled"});
  registrar.add<Cross>("Cross", {{"T", kNumbers}});
}

}  // namespace unihal::tensorflow
