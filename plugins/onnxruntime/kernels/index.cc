// Ops that address elements by indices, and that sort.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

uhal_index_attributes wrapping(int axis) {
  uhal_index_attributes attributes = index_attributes(axis);
  attributes.negative_wraps = 1;
  return attributes;
}

uhal_reduction scatter_reduction_of(const Description& node) {
  const std::string name = node.text("reduction", "none");
  if (name == "none") return UHAL_REDUCE_NONE;
  if (name == "add") return UHAL_REDUCE_SUM;
  if (name == "mul") return UHAL_REDUCE_PRODUCT;
  if (name == "max") return UHAL_REDUCE_MAXIMUM;
  if (name == "min") return UHAL_REDUCE_MINIMUM;
  node.refuse("reduction " + name);
}

class Gather final : public Kernel {
 public:
  explicit Gather(const Description& node) : axis_(node.integer("axis", 0)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View indices = call.input(1);
    const int axis = axis_of(call, axis_, x.rank);
    Shape shape(x.shape, x.shape + axis);
    shape.insert(shape.end(), indices.shape, indices.shape + indices.rank);
    shape.insert(shape.end(), x.shape + axis + 1, x.shape + x.rank);
    call.require(shape.size() <= UHAL_MAX_RANK, "the result has more than 10 axes");
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const uhal_index_attributes attributes = wrapping(axis);
    call.launch(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
  }

 private:
  const int64_t axis_;
};

class GatherElements final : public Kernel {
 public:
  explicit GatherElements(const Description& node) : axis_(node.integer("axis", 0)) {}
  void run(Call& call) const override {
    View x = call.input(0);
    const View indices = call.input(1);
    const int axis = axis_of(call, axis_, x.rank);
    call.require(indices.rank == x.rank, "the indices have not as many axes as the operand");
    const View y = call.output_like(0, indices);
    if (y.elements() == 0) return;
    for (int i = 0; i < x.rank; ++i) {
      if (i == axis || x.shape[i] == indices.shape[i]) continue;
      call.require(indices.shape[i] <= x.shape[i], "the indices are longer than the operand along another axis");
      x = x.sliced(i, 0, indices.shape[i]);
    }
    const uhal_index_attributes attributes = wrapping(axis);
    call.launch(UHAL_OP_GATHER_ELEMENTS, {&x, &indices}, {&y}, &attributes);
  }

 private:
  const int64_t axis_;
};

class GatherNd final : public Kernel {
 public:
  explicit GatherNd(const Description& node) : batch_(static_cast<int>(node.integer("batch_dims", 0))) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View indices = call.input(1);
    call.require(indices.rank > 0 && batch_ >= 0 && batch_ < indices.rank && batch_ < x.rank, "no such batch axes");
    const int depth = static_cast<int>(indices.shape[indices.rank - 1]);
    call.require(depth >= 1 && batch_ + depth <= x.rank, "the indices address more axes than there are");
    Shape shape(indices.shape, indices.shape + indices.rank - 1);
    shape.insert(shape.end(), x.shape + batch_ + depth, x.shape + x.rank);
    call.require(shape.size() <= UHAL_MAX_RANK, "the result has more than 10 axes");
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const uhal_index_attributes attributes = wrapping(0);
    if (batch_ == 0) return call.launch(UHAL_OP_GATHER_ND, {&x, &indices}, {&y}, &attributes);
    int64_t batches = 1;
    for (int i = 0; i < batch_; ++i) batches *= x.shape[i];
    for (int64_t b = 0; b < batches; ++b) {
      const View part = batch(x, b, batches);
      const View places = batch(indices, b, batches);
      const View to = batch(y, b, batches);
      call.launch(UHAL_OP_GATHER_ND, {&part, &places}, {&to}, &attributes);
    }
  }

 private:
  // What of a dense view belongs to one batch.
  View batch(const View& view, int64_t number, int64_t batches) const {
    const int64_t elements = view.elements() / batches;
    return View(static_cast<char*>(view.data) + number * elements * static_cast<int64_t>(uhal_dtype_size(view.dtype)),
                view.dtype, view.shape + batch_, view.rank - batch_);
  }

  const int batch_;
};

class ScatterElements final : public Kernel {
 public:
  explicit ScatterElements(const Description& node)
      : axis_(node.integer("axis", 0)), reduction_(scatter_reduction_of(node)) {
    node.require(reduction_ == UHAL_REDUCE_NONE || contains(kNumbers, node.input_dtype(0)),
                 "a reduction of this dtype");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View indices = call.input(1);
    const View updates = call.input(2);
    const int axis = axis_of(call, axis_, x.rank);
    call.require(indices.rank == x.rank, "the indices have not as many axes as the operand");
    View y = call.output_like(0, x);
    call.copy(x, y);
    if (indices.elements() == 0) return;
    for (int i = 0; i < x.rank; ++i) {
      if (i == axis || y.shape[i] == indices.shape[i]) continue;
      call.require(indices.shape[i] <= y.shape[i], "the indices are longer than the operand along another axis");
      y = y.sliced(i, 0, indices.shape[i]);
    }
    uhal_index_attributes attributes = wrapping(axis);
    attributes.reduction = reduction_;
    call.launch(UHAL_OP_SCATTER_ELEMENTS, {&indices, &updates}, {&y}, &attributes);
  }

 private:
  const int64_t axis_;
  const uhal_reduction reduction_;
};

class ScatterNd final : public Kernel {
 public:
  explicit ScatterNd(const Description& node) : reduction_(scatter_reduction_of(node)) {
    node.require(reduction_ == UHAL_REDUCE_NONE || contains(kNumbers, node.input_dtype(0)),
                 "a reduction of this dtype");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View indices = call.input(1);
    const View updates = call.input(2);
    const View y = call.output_like(0, x);
    call.copy(x, y);
    if (indices.elements() == 0) return;
    uhal_index_attributes attributes = wrapping(0);
    attributes.reduction = reduction_;
    call.launch(UHAL_OP_SCATTER_ND, {&indices, &updates}, {&y}, &attributes);
  }

 private:
  const uhal_reduction reduction_;
};

// past_cache, update, write_indices (host) -> the cache with the update written behind each batch's index.
class TensorScatter final : public Kernel {
 public:
  explicit TensorScatter(const Description& node)
      : axis_(node.integer("axis", -2)), wraps_(node.text("mode", "linear") == "circular") {}
  void run(Call& call) const override {
    const View past = call.input(0), update = call.input(1);
    const int axis = axis_of(call, axis_, past.rank);
    call.require(axis > 0 && update.rank == past.rank && update.shape[0] == past.shape[0],
                 "the update does not fit the cache, or the batch is the axis to be written along");
    const int64_t batches = past.shape[0], room = past.shape[axis], length = update.shape[axis];
    const Shape begins = call.has(2) ? call.integers(2) : Shape(static_cast<size_t>(batches), 0);
    call.require(static_cast<int64_t>(begins.size()) == batches, "there is not an index for each batch");
    call.require(length <= room, "the update is longer than the cache");
    const View y = call.output_like(0, past);
    call.copy(past, y);
    if (update.elements() == 0) return;
    for (int64_t b = 0; b < batches; ++b) {
      int64_t begin = begins[static_cast<size_t>(b)];
      call.require(begin >= 0 && (wraps_ || begin + length <= room), "an index is outside of the cache");
      begin %= room;
      const int64_t first = std::min(length, room - begin);
      const View from = update.sliced(0, b, 1), to = y.sliced(0, b, 1);
      write(call, from.sliced(axis, 0, first), to.sliced(axis, begin, first));
      if (first < length) write(call, from.sliced(axis, first, length - first), to.sliced(axis, 0, length - first));
    }
  }

 private:
  static void write(Call& call, const View& from, const View& to) { call.launch(UHAL_OP_COPY, {&from}, {&to}); }

  const int64_t axis_;
  const bool wraps_;
};

class OneHot final : public Kernel {
 public:
  explicit OneHot(const Description& node) : axis_(node.integer("axis", -1)) {
    node.require(contains(kReal, node.input_dtype(2)), "values of this dtype");
  }
  void run(Call& call) const override {
    const View indices = call.input(0);
    const double depth = call.scalar(1);
    call.require(depth >= 0 && depth < 2e9, "the depth is no number of classes");
    const View values = call.input(2);
    call.require(values.elements() == 2, "values are not the two of off and on");
    call.require(indices.rank < UHAL_MAX_RANK, "the result has more than 10 axes");
    const int axis = axis_of(call, axis_, indices.rank + 1);
    Shape shape = shape_of(indices);
    shape.insert(shape.begin() + axis, static_cast<int64_t>(depth));
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    // From -depth to -1 a class counts from the end; what lies outside is none.
    const View whole = call.as(indices, UHAL_INT64);
    const View wrapped = call.scratch_like(indices, UHAL_INT64);
    const View is_negative = call.scratch_like(indices, UHAL_BOOL);
    const View zero = call.constant(0, UHAL_INT64);
    call.map(uhal_map_less, {&whole, &zero}, {&is_negative});
    call.map(uhal_map_scale, {&whole}, {&wrapped}, {1, depth});
    call.map(uhal_map_select, {&is_negative, &wrapped, &whole}, {&wrapped});
    const View mask = call.scratch(shape, UHAL_BOOL);
    const uhal_index_attributes attributes = index_attributes(axis);
    call.launch(UHAL_OP_ONE_HOT, {&wrapped}, {&mask}, &attributes);
    const View off = values.reshaped({2}).sliced(0, 0, 1);
    const View on = values.reshaped({2}).sliced(0, 1, 1);
    call.map(uhal_map_select, {&mask, &on, &off}, {&y});
  }

 private:
  const int64_t axis_;
};

class CumSum final : public Kernel {
 public:
  CumSum(const Description& node, const void* data)
      : reduction_(*static_cast<const uhal_reduction*>(data)),
        exclusive_(node.integer("exclusive", 0) != 0),
        reverse_(node.integer("reverse", 0) != 0) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    uhal_scan_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.axis = axis_of(call, call.integers(1).at(0), x.rank);
    attributes.reduction = reduction_;
    attributes.exclusive = exclusive_ ? 1 : 0;
    attributes.reverse = reverse_ ? 1 : 0;
    call.launch(UHAL_OP_SCAN, {&x}, {&y}, &attributes);
  }

 private:
  const uhal_reduction reduction_;
  const bool exclusive_, reverse_;
};

constexpr uhal_reduction kCumSum = UHAL_REDUCE_SUM;
constexpr uhal_reduction kCumProd = UHAL_REDUCE_PRODUCT;

class TopK final : public Kernel {
 public:
  explicit TopK(const Description& node)
      : axis_(node.integer("axis", -1)),
        largest_(node.integer("largest", 1) != 0),
        count_(node.version() < 10 ? node.integer("k", 0) : -1) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const int axis = axis_of(call, axis_, x.rank);
    const int64_t count = count_ >= 0 ? count_ : call.integers(1).at(0);
    call.require(count >= 0 && count <= x.shape[axis], "k is more than the axis has");
    Shape shape = shape_of(x);
    shape[static_cast<size_t>(axis)] = count;
    const View values = call.output(0, shape);
    const View indices = call.output(1, shape);
    if (values.elements() == 0) return;
    const uhal_axis_attributes attributes = axis_attributes(axis, largest_);
    call.launch(UHAL_OP_TOP_K, {&x}, {&values, &indices}, &attributes);
  }

 private:
  const int64_t axis_;
  const bool largest_;
  const int64_t count_;
};

}  // namespace

int64_t count_nonzero(Call& call, const View& x) {
  const View count = call.scratch(Shape(), UHAL_INT64);
  call.launch(UHAL_OP_NONZERO, {&x}, {&count});
  int64_t number = 0;
  check(uhal_copy(call.stream(), &number, count.data, sizeof number, UHAL_COPY_DEVICE_TO_HOST));
  check(uhal_stream_synchronize(call.stream()));
  return number;
}

namespace {

class NonZero final : public Kernel {
 public:
  explicit NonZero(const Description&) {}
  void run(Call& call) const override {
    View x = call.input(0);
    if (x.rank == 0) x = x.unsqueezed(0);
    const int64_t number = x.elements() == 0 ? 0 : count_nonzero(call, x);
    const View y = call.output(0, {x.rank, number});
    if (y.elements() == 0) return;
    const View count = call.scratch(Shape(), UHAL_INT64);
    const View rows = y.transposed();
    call.launch(UHAL_OP_NONZERO, {&x}, {&count, &rows});
  }
};

class Compress final : public Kernel {
 public:
  explicit Compress(const Description& node) : axis_(node.integer("axis", kFlat)) {}
  void run(Call& call) const override {
    View x = call.input(0);
    if (axis_ == kFlat) x = x.reshaped({x.elements()});
    const int axis = axis_ == kFlat ? 0 : axis_of(call, axis_, x.rank);
    View condition = call.input(1);
    call.require(condition.rank == 1, "the condition has not one axis");
    if (condition.shape[0] > x.shape[axis]) condition = condition.sliced(0, 0, x.shape[axis]);
    const int64_t number = condition.elements() == 0 ? 0 : count_nonzero(call, condition);
    Shape shape = shape_of(x);
    shape[static_cast<size_t>(axis)] = number;
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    if (x.rank == 1) {
      x = x.sliced(0, 0, condition.shape[0]);
      return call.launch(UHAL_OP_COMPACT, {&x, &condition}, {&y});
    }
    const View count = call.scratch(Shape(), UHAL_INT64);
    const View places = call.scratch(Shape{number}, UHAL_INT64);
    call.launch(UHAL_OP_NONZERO, {&condition}, {&count, &places});
    const uhal_index_attributes attributes = index_attributes(axis);
    call.launch(UHAL_OP_GATHER, {&x, &places}, {&y}, &attributes);
  }

 private:
  static constexpr int64_t kFlat = INT64_MIN;  // no axis: of all elements
  const int64_t axis_;
};

#define INDEX(op, from, type) {.name = op, .first = from, .last = kNewestOpset, .dtypes = kStored, .make = make<type>}

const Op kIndexOps[] = {
    INDEX("Gather", 1, Gather),
    INDEX("GatherElements", 11, GatherElements),
    INDEX("GatherND", 11, GatherNd),
    {.name = "GatherND", .first = 1, .last = 1, .dtypes = kStored, .make = make<GatherNd>, .domain = kMicrosoft},
    INDEX("Scatter", 9, ScatterElements),
    INDEX("ScatterElements", 11, ScatterElements),
    INDEX("ScatterND", 11, ScatterNd),
    {.name = "TensorScatter",
     .first = 24,
     .last = kNewestOpset,
     .dtypes = kStored,
     .make = make<TensorScatter>,
     .reuse = Reuse::kInPlace,
     .host_inputs = host({2})},
    INDEX("NonZero", 9, NonZero),
    INDEX("Compress", 9, Compress),
    {.name = "OneHot",
     .first = 9,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<OneHot>,
     .host_inputs = host({1})},
    {.name = "CumSum",
     .first = 11,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<CumSum>,
     .host_inputs = host({1}),
     .data = &kCumSum},
    {.name = "CumProd",
     .first = 26,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<CumSum>,
     .host_inputs = host({1}),
     .data = &kCumProd},
    {.name = "TopK",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<TopK>,
     .host_inputs = host({1})},
};

#undef INDEX

}  // namespace

Table index_ops() { return table(kIndexOps); }

}  // namespace unihal::onnxruntime
