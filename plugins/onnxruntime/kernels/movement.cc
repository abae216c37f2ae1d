// Ops that move elements: each is copies between views.
#include <numeric>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

class Transpose final : public Kernel {
 public:
  explicit Transpose(const Description& node) : order_(node.integers("perm")) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    int order[UHAL_MAX_RANK];
    for (int i = 0; i < x.rank; ++i) order[i] = x.rank - 1 - i;
    if (order_) {
      call.require(order_->size() == static_cast<size_t>(x.rank), "perm has not an entry for each axis");
      for (int i = 0; i < x.rank; ++i) order[i] = axis_of(call, (*order_)[static_cast<size_t>(i)], x.rank);
    }
    const View from = x.permuted(order, x.rank);
    call.copy(from, call.output_like(0, from));
  }

 private:
  const std::optional<Shape> order_;
};

class Concat final : public Kernel {
 public:
  explicit Concat(const Description& node) : axis_(node.integer("axis", 1)) {}
  void run(Call& call) const override {
    Shape shape = call.shape(0);
    const size_t axis = static_cast<size_t>(axis_of(call, axis_, static_cast<int>(shape.size())));
    for (int i = 1; i < call.input_count(); ++i) {
      const Shape other = call.shape(i);
      call.require(other.size() == shape.size(), "the operands have not one number of axes");
      for (size_t a = 0; a < shape.size(); ++a) {
        call.require(a == axis || other[a] == shape[a], "the operands differ along another axis");
      }
      shape[axis] += other[axis];
    }
    const View y = call.output(0, shape);
    LaunchGroup group(call.stream());
    int64_t at = 0;
    for (int i = 0; i < call.input_count(); ++i) {
      const View x = call.input(i);
      const int64_t length = x.shape[axis];
      const View part = y.sliced(static_cast<int>(axis), at, length);
      if (x.elements() != 0) call.launch(UHAL_OP_COPY, {&x}, {&part});
      at += length;
    }
    check(group.end());
  }

 private:
  const int64_t axis_;
};

class Split final : public Kernel {
 public:
  explicit Split(const Description& node)
      : axis_(node.integer("axis", 0)), attribute_(axes_attribute(node, 13, "split")) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const int axis = axis_of(call, axis_, x.rank);
    const int64_t length = x.shape[axis];
    const int64_t count = call.output_count();
    Shape lengths;
    if (const auto given = given_axes(call, attribute_, 1)) {
      lengths = *given;
    } else {
      const int64_t each = (length + count - 1) / count;
      for (int64_t i = 0; i < count; ++i) lengths.push_back(std::max<int64_t>(0, std::min(each, length - i * each)));
    }
    call.require(lengths.size() == static_cast<size_t>(count) &&
                     std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) == length,
                 "the parts are not as many as the outputs, or do not add up to the axis");
    LaunchGroup group(call.stream());
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const View part = x.sliced(axis, at, lengths[static_cast<size_t>(i)]);
      View y;
      if (call.wants(static_cast<int>(i), shape_of(part), &y) && y.elements() != 0)
        call.launch(UHAL_OP_COPY, {&part}, {&y});
      at += lengths[static_cast<size_t>(i)];
    }
    check(group.end());
  }

 private:
  const int64_t axis_;
  const std::optional<Shape> attribute_;
};

class Slice final : public Kernel {
 public:
  explicit Slice(const Description& node)
      : starts_(axes_attribute(node, 10, "starts")),
        ends_(axes_attribute(node, 10, "ends")),
        axes_(axes_attribute(node, 10)) {}
  void run(Call& call) const override {
    View x = call.input(0);
    const Shape starts = given_axes(call, starts_, 1).value_or(Shape());
    const Shape ends = given_axes(call, ends_, 2).value_or(Shape());
    Shape axes = given_axes(call, axes_, 3).value_or(Shape());
    Shape steps = starts_ ? Shape() : given_axes(call, {}, 4).value_or(Shape());
    for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    steps.resize(starts.size(), 1);
    call.require(ends.size() == starts.size() && axes.size() == starts.size(),
                 "starts, ends and axes are not of one length");
    for (size_t i = 0; i < starts.size(); ++i) {
      const int axis = axis_of(call, axes[i], x.rank);
      const int64_t length = x.shape[axis];
      const int64_t step = steps[i];
      call.require(step != 0, "a step of 0");
      const int64_t least = step > 0 ? 0 : -1;
      const int64_t most = step > 0 ? length : length - 1;
      // What counts from the end, and what lies before the beginning even so.
      const auto cut = [&](int64_t at, int64_t first) {
        if (at < 0) at = at < -length ? -1 : at + length;
        return std::min(std::max(at, first), most);
      };
      const int64_t start = cut(starts[i], 0);
      const int64_t end = cut(ends[i], least);
      const int64_t count = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0)
                                     : (start > end ? (start - end - 1) / -step + 1 : 0);
      x = x.sliced(axis, count == 0 ? 0 : start, count, step);
    }
    const View y = call.output_like(0, x);
    if (y.elements() != 0) call.launch(UHAL_OP_COPY, {&x}, {&y});
  }

 private:
  const std::optional<Shape> starts_, ends_, axes_;
};

class Expand final : public Kernel {
 public:
  explicit Expand(const Description&) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output(0, broadcast(call, shape_of(x), call.integers(1)));
    if (y.elements() != 0) call.launch(UHAL_OP_COPY, {&x}, {&y});
  }
};

class Tile final : public Kernel {
 public:
  explicit Tile(const Description&) {}
  void run(Call& call) const override {
    View x = call.input(0);
    const Shape repeats = call.integers(1);
    call.require(repeats.size() == static_cast<size_t>(x.rank), "repeats has not an entry for each axis");
    Shape shape = shape_of(x);
    for (size_t i = 0; i < shape.size(); ++i) {
      call.require(repeats[i] >= 0, "a number of repeats is negative");
      shape[i] *= repeats[i];
    }
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    // One axis after the other, each as (before, repeats, length and what follows).
    int last = -1;
    for (int i = 0; i < x.rank; ++i) {
      if (repeats[static_cast<size_t>(i)] != 1) last = i;
    }
    if (last < 0) return call.copy(x, y);
    for (int i = 0; i <= last; ++i) {
      const int64_t times = repeats[static_cast<size_t>(i)];
      if (times == 1) continue;
      Shape next = shape_of(x);
      next[static_cast<size_t>(i)] *= times;
      const View to = i == last ? y : call.scratch(next, x.dtype);
      int64_t before = 1, inner = 1;
      for (int a = 0; a < x.rank; ++a) (a < i ? before : inner) *= x.shape[a];
      View from = x.reshaped({before, 1, inner});
      const View wide = to.reshaped({before, times, inner});
      call.launch(UHAL_OP_COPY, {&from}, {&wide});
      x = to;
    }
  }
};

class DepthToSpace final : public Kernel {
 public:
  explicit DepthToSpace(const Description& node)
      : block_(node.integer("blocksize", 1)), columns_first_(node.text("mode", "DCR") == "CRD") {}
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank == 4 && block_ > 0 && x.shape[1] % (block_ * block_) == 0,
                 "the channels are no multiple of the block");
    const int64_t n = x.shape[0], c = x.shape[1] / (block_ * block_), h = x.shape[2], w = x.shape[3];
    const View y = call.output(0, {n, c, h * block_, w * block_});
    if (y.elements() == 0) return;
    const View from = columns_first_ ? x.reshaped({n, c, block_, block_, h, w}).permuted({0, 1, 4, 2, 5, 3})
                                     : x.reshaped({n, block_, block_, c, h, w}).permuted({0, 3, 4, 1, 5, 2});
    const View to = y.reshaped({n, c, h, block_, w, block_});
    call.launch(UHAL_OP_COPY, {&from}, {&to});
  }

 private:
  const int64_t block_;
  const bool columns_first_;
};

class SpaceToDepth final : public Kernel {
 public:
  explicit SpaceToDepth(const Description& node)
      : block_(node.integer("blocksize", 1)), channels_first_(node.text("mode", "DCR") == "CRD") {}
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank == 4 && block_ > 0 && x.shape[2] % block_ == 0 && x.shape[3] % block_ == 0,
                 "the image is no multiple of the block");
    const int64_t n = x.shape[0], c = x.shape[1], h = x.shape[2] / block_, w = x.shape[3] / block_;
    const View y = call.output(0, {n, c * block_ * block_, h, w});
    if (y.elements() == 0) return;
    const View split = x.reshaped({n, c, h, block_, w, block_});
    const View from = channels_first_ ? split.permuted({0, 1, 3, 5, 2, 4}) : split.permuted({0, 3, 5, 1, 2, 4});
    const View to =
        channels_first_ ? y.reshaped({n, c, block_, block_, h, w}) : y.reshaped({n, block_, block_, c, h, w});
    call.launch(UHAL_OP_COPY, {&from}, {&to});
  }

 private:
  const int64_t block_;
  const bool channels_first_;
};

// The index of the element that padding takes at `i` of an axis of `length`, which may lie outside.
int64_t padded_index(int64_t i, int64_t length, const std::string& mode) {
  if (mode == "edge") return std::min(std::max<int64_t>(i, 0), length - 1);
  if (mode == "wrap") return ((i % length) + length) % length;
  if (length == 1) return 0;
  const int64_t period = 2 * (length - 1);
  const int64_t at = ((i % period) + period) % period;
  return at < length ? at : period - at;
}

class Pad final : public Kernel {
 public:
  explicit Pad(const Description& node)
      : mode_(node.text("mode", "constant")),
        by_attributes_(node.version() < 11),
        pads_(node.integers(node.version() < 2 ? "paddings" : "pads")),
        value_(node.real("value", 0)) {
    node.require(mode_ == "constant" || mode_ == "edge" || mode_ == "reflect" || mode_ == "wrap", "an unknown mode");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const Shape given = by_attributes_ ? pads_.value_or(Shape()) : call.integers(1);
    Shape axes = by_attributes_ || !call.has(3) ? Shape() : call.integers(3);
    if (by_attributes_ || !call.has(3)) {
      for (int i = 0; i < x.rank; ++i) axes.push_back(i);
    }
    call.require(given.size() == 2 * axes.size(), "pads has not two entries for each axis");
    Shape before(static_cast<size_t>(x.rank), 0), shape = shape_of(x);
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = static_cast<size_t>(axis_of(call, axes[i], x.rank));
      before[axis] = given[i];
      shape[axis] += given[i] + given[axes.size() + i];
      call.require(shape[axis] >= 0, "the padding takes more than an axis has");
    }
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    mode_ == "constant" ? constant(call, x, y, before) : mirrored(call, x, y, before);
  }

 private:
  void constant(Call& call, const View& x, const View& y, const Shape& before) const {
    if (by_attributes_ || !call.has(2)) {
      call.fill(y, by_attributes_ ? value_ : 0);
    } else {
      const View value = call.input(2);
      call.require(value.elements() == 1, "the value is not one number");
      const size_t bytes = uhal_dtype_size(value.dtype);
      check(uhal_memory_fill(call.stream(), y.data, value.data, bytes, bytes * static_cast<size_t>(y.elements())));
    }
    View from = x, to = y;
    for (int i = 0; i < x.rank; ++i) {
      const int64_t begin = before[static_cast<size_t>(i)];
      const int64_t first = std::max<int64_t>(0, -begin);
      const int64_t length = std::min(x.shape[i] - first, y.shape[i] - std::max<int64_t>(0, begin));
      if (length <= 0) return;
      from = from.sliced(i, first, length);
      to = to.sliced(i, std::max<int64_t>(0, begin), length);
    }
    call.launch(UHAL_OP_COPY, {&from}, {&to});
  }

  void mirrored(Call& call, const View& x, const View& y, const Shape& before) const {
    View from = x;
    int last = -1;
    for (int i = 0; i < x.rank; ++i) {
      if (x.shape[i] != y.shape[i] || before[static_cast<size_t>(i)] != 0) last = i;
    }
    if (last < 0) return call.copy(x, y);
    for (int i = 0; i <= last; ++i) {
      const int64_t begin = before[static_cast<size_t>(i)];
      if (x.shape[i] == y.shape[i] && begin == 0) continue;
      call.require(x.shape[i] > 0, "an axis without elements cannot be padded this way");
      Shape indices(static_cast<size_t>(y.shape[i]));
      for (size_t k = 0; k < indices.size(); ++k) {
        indices[k] = padded_index(static_cast<int64_t>(k) - begin, x.shape[i], mode_);
      }
      const View on_device = call.upload(indices.data(), {y.shape[i]}, UHAL_INT64);
      Shape next = shape_of(from);
      next[static_cast<size_t>(i)] = y.shape[i];
      const View to = i == last ? y : call.scratch(next, x.dtype);
      const uhal_index_attributes attributes = index_attributes(i);
      call.launch(UHAL_OP_GATHER, {&from, &on_device}, {&to}, &attributes);
      from = to;
    }
  }

  const std::string mode_;
  const bool by_attributes_;
  const std::optional<Shape> pads_;
  const double value_;
};

class Trilu final : public Kernel {
 public:
  explicit Trilu(const Description& node) : upper_(node.integer("upper", 1) != 0) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    uhal_triangular_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.upper = upper_ ? 1 : 0;
    attributes.diagonal = call.has(1) ? call.integers(1)[0] : 0;
    if (y.elements() != 0) call.launch(UHAL_OP_TRIANGULAR, {&x}, {&y}, &attributes);
  }

 private:
  const bool upper_;
};

class EyeLike final : public Kernel {
 public:
  explicit EyeLike(const Description& node) : diagonal_(node.integer("k", 0)) {
    node.require(node.output_dtype(0) != UHAL_DTYPE_INVALID, "a dtype that unihal has not");
  }
  void run(Call& call) const override {
    const Shape shape = call.shape(0);
    call.require(shape.size() == 2, "the operand is no matrix");
    const View y = call.output(0, shape);
    call.fill(y, 0);
    const int64_t row = std::max<int64_t>(0, -diagonal_), column = std::max<int64_t>(0, diagonal_);
    const int64_t length = std::min(shape[0] - row, shape[1] - column);
    if (length <= 0) return;
    View ones = y.sliced(0, row, length).sliced(1, column, 1);
    ones.rank = 1;
    ones.strides[0] = shape[1] + 1;
    call.fill(ones, 1);
  }

 private:
  const int64_t diagonal_;
};

// The first elements along an axis in reverse, as many as each batch says; the others as they are.
class ReverseSequence final : public Kernel {
 public:
  explicit ReverseSequence(const Description& node)
      : batch_axis_(node.integer("batch_axis", 1)), time_axis_(node.integer("time_axis", 0)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const Shape lengths = call.integers(1);
    const int batch = axis_of(call, batch_axis_, x.rank), time = axis_of(call, time_axis_, x.rank);
    call.require(batch != time && lengths.size() == static_cast<size_t>(x.shape[batch]),
                 "sequence_lens has not an entry for each batch, or both axes are one");
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const int64_t steps = x.shape[time];
    for (int64_t b = 0; b < x.shape[batch]; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      call.require(length >= 0 && length <= steps, "a sequence is longer than the axis");
      const View from = x.sliced(batch, b, 1), to = y.sliced(batch, b, 1);
      if (length > 0) {
        const View backward = from.sliced(time, length - 1, length, -1), place = to.sliced(time, 0, length);
        call.launch(UHAL_OP_COPY, {&backward}, {&place});
      }
      if (length < steps) {
        const View rest = from.sliced(time, length, steps - length), place = to.sliced(time, length, steps - length);
        call.launch(UHAL_OP_COPY, {&rest}, {&place});
      }
    }
  }

 private:
  const int64_t batch_axis_, time_axis_;
};

// The same bits as another dtype of the same size.
class BitCast final : public Kernel {
 public:
  explicit BitCast(const Description& node) {
    const uhal_dtype to = node.output_dtype(0);
    node.require(to != UHAL_DTYPE_INVALID && uhal_dtype_size(to) == uhal_dtype_size(node.input_dtype(0)),
                 "a dtype of another size");
  }
  void run(Call& call) const override {
    View x = call.input(0);
    const View y = call.output_like(0, x);
    x.dtype = y.dtype;
    call.copy(x, y);
  }
};

#define MOVE(op, from, type, inputs) \
  {.name = op, .first = from, .last = kNewestOpset, .dtypes = kStored, .make = make<type>, .host_inputs = inputs}

const Op kMovementOps[] = {
    MOVE("Transpose", 1, Transpose, 0),
    MOVE("Concat", 4, Concat, 0),
    MOVE("Split", 2, Split, host({1})),
    MOVE("Slice", 1, Slice, host({1, 2, 3, 4})),
    MOVE("Expand", 8, Expand, host({1})),
    MOVE("Tile", 6, Tile, host({1})),
    MOVE("DepthToSpace", 1, DepthToSpace, 0),
    MOVE("SpaceToDepth", 1, SpaceToDepth, 0),
    MOVE("ReverseSequence", 10, ReverseSequence, host({1})),
    MOVE("BitCast", 26, BitCast, 0),
    MOVE("Pad", 1, Pad, host({1, 2, 3})),
    {.name = "Trilu",
     .first = 14,
     .last = kNewestOpset,
     .dtypes = kReal,
     .make = make<Trilu>,
     .host_inputs = host({1})},
    {.name = "Trilu",
     .first = 1,
     .last = 1,
     .dtypes = kReal,
     .make = make<Trilu>,
     .host_inputs = host({1}),
     .domain = kMicrosoft},
    {.name = "EyeLike", .first = 9, .last = kNewestOpset, .dtypes = kReal, .make = make<EyeLike>},
};

#undef MOVE

}  // namespace

Table movement_ops() { return table(kMovementOps); }

}  // namespace unihal::onnxruntime
