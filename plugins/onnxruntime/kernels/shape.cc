// Ops that give the same elements another shape, and ops that compute shapes.
#include <cmath>
#include <cstring>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

std::optional<Shape> axes_attribute(const Description& node, int since, const char* name) {
  return node.version() < since ? node.integers(name) : std::nullopt;
}

std::optional<Shape> given_axes(const Call& call, const std::optional<Shape>& attribute, int input) {
  if (attribute) return attribute;
  if (!call.has(input)) return {};
  return call.integers(input);
}

namespace {

// Gives input 0 with a shape as output 0; without a copy where ONNX Runtime put them in one place.
void give(Call& call, const Shape& shape) {
  const View x = call.input(0);
  if (elements_of(shape) != x.elements()) {
    call.fail(std::to_string(x.elements()) + " elements do not make a shape of " + std::to_string(elements_of(shape)));
  }
  const View y = call.output(0, shape);
  call.copy(x.reshaped(shape), y);
}

class Reshape final : public Kernel {
 public:
  explicit Reshape(const Description& node)
      : attribute_(axes_attribute(node, 5, "shape")), keeps_zeros_(node.integer("allowzero", 0) != 0) {}
  void run(Call& call) const override {
    const Shape from = call.shape(0);
    Shape shape = given_axes(call, attribute_, 1).value_or(Shape());
    int64_t known = 1;
    int unknown = -1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0 && !keeps_zeros_) {
        call.require(i < from.size(), "a length of 0 stands for an axis that the operand has not");
        shape[i] = from[i];
      }
      if (shape[i] == -1) {
        call.require(unknown < 0, "more than one length is -1");
        unknown = static_cast<int>(i);
      } else {
        call.require(shape[i] >= 0, "a length is negative");
        known *= shape[i];
      }
    }
    if (unknown >= 0) {
      call.require(known != 0 && elements_of(from) % known == 0, "the length of -1 does not come out whole");
      shape[static_cast<size_t>(unknown)] = elements_of(from) / known;
    }
    give(call, shape);
  }

 private:
  const std::optional<Shape> attribute_;
  const bool keeps_zeros_;
};

class Flatten final : public Kernel {
 public:
  explicit Flatten(const Description& node) : axis_(node.integer("axis", 1)) {}
  void run(Call& call) const override {
    const Shape from = call.shape(0);
    const int64_t rank = static_cast<int64_t>(from.size());
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    call.require(axis >= 0 && axis <= rank, "there is no such axis");
    int64_t rows = 1;
    for (int64_t i = 0; i < axis; ++i) rows *= from[static_cast<size_t>(i)];
    int64_t columns = 1;
    for (int64_t i = axis; i < rank; ++i) columns *= from[static_cast<size_t>(i)];
    give(call, {rows, columns});
  }

 private:
  const int64_t axis_;
};

class Squeeze final : public Kernel {
 public:
  explicit Squeeze(const Description& node) : attribute_(axes_attribute(node, 13)) {}
  void run(Call& call) const override {
    const Shape from = call.shape(0);
    const std::optional<Shape> axes = given_axes(call, attribute_, 1);
    std::vector<bool> goes(from.size(), false);
    for (size_t i = 0; i < from.size() && !axes; ++i) goes[i] = from[i] == 1;
    for (const int64_t axis : axes.value_or(Shape())) {
      const size_t i = static_cast<size_t>(axis_of(call, axis, static_cast<int>(from.size())));
      call.require(from[i] == 1, "an axis to be taken away has not the length 1");
      goes[i] = true;
    }
    Shape shape;
    for (size_t i = 0; i < from.size(); ++i) {
      if (!goes[i]) shape.push_back(from[i]);
    }
    give(call, shape);
  }

 private:
  const std::optional<Shape> attribute_;
};

class Unsqueeze final : public Kernel {
 public:
  explicit Unsqueeze(const Description& node) : attribute_(axes_attribute(node, 13)) {}
  void run(Call& call) const override {
    const Shape from = call.shape(0);
    const Shape axes = given_axes(call, attribute_, 1).value_or(Shape());
    const size_t rank = from.size() + axes.size();
    call.require(rank <= UHAL_MAX_RANK, "the result has more than 10 axes");
    std::vector<bool> is_new(rank, false);
    for (const int64_t axis : axes) {
      const size_t i = static_cast<size_t>(axis_of(call, axis, static_cast<int>(rank)));
      call.require(!is_new[i], "an axis is named twice");
      is_new[i] = true;
    }
    Shape shape;
    auto next = from.begin();
    for (size_t i = 0; i < rank; ++i) shape.push_back(is_new[i] ? 1 : *next++);
    give(call, shape);
  }

 private:
  const std::optional<Shape> attribute_;
};

class Identity final : public Kernel {
 public:
  explicit Identity(const Description&) {}
  void run(Call& call) const override { give(call, call.shape(0)); }
};

class ShapeOf final : public Kernel {
 public:
  explicit ShapeOf(const Description& node)
      : start_(node.integer("start", 0)), end_(node.integer("end", UHAL_MAX_RANK)) {}
  void run(Call& call) const override {
    const Shape shape = call.shape(0);
    const int64_t rank = static_cast<int64_t>(shape.size());
    const auto cut = [rank](int64_t at) { return std::min(std::max<int64_t>(at < 0 ? at + rank : at, 0), rank); };
    const int64_t start = cut(start_);
    const int64_t count = std::max<int64_t>(0, cut(end_) - start);
    const View y = call.output(0, {count});
    if (count != 0) std::memcpy(y.data, shape.data() + start, static_cast<size_t>(count) * sizeof(int64_t));
  }

 private:
  const int64_t start_, end_;
};

class Size final : public Kernel {
 public:
  explicit Size(const Description&) {}
  void run(Call& call) const override {
    const int64_t count = elements_of(call.shape(0));
    *static_cast<int64_t*>(call.output(0, Shape()).data) = count;
  }
};

class ConstantOfShape final : public Kernel {
 public:
  explicit ConstantOfShape(const Description& node) : value_(node.tensor("value")) {
    if (!value_) return;
    node.require(value_->bytes.size() == uhal_dtype_size(value_->dtype), "a value that is not one number");
  }
  void run(Call& call) const override {
    const View y = call.output(0, call.integers(0));
    if (y.elements() == 0) return;
    if (!value_) return call.fill(y, 0);
    check(uhal_memory_fill(call.stream(), y.data, value_->bytes.data(), value_->bytes.size(),
                           value_->bytes.size() * static_cast<size_t>(y.elements())));
  }

 private:
  const std::optional<HostTensor> value_;
};

class Range final : public Kernel {
 public:
  explicit Range(const Description&) {}
  void run(Call& call) const override {
    const View start = call.input(0);
    uhal_iota_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    int64_t count = 0;
    if (start.dtype == UHAL_INT64 || start.dtype == UHAL_INT32) {
      const int64_t from = call.integers(0)[0], to = call.integers(1)[0], step = call.integers(2)[0];
      call.require(step != 0, "a step of 0");
      count = step > 0 ? (to > from ? (to - from - 1) / step + 1 : 0) : (to < from ? (from - to - 1) / -step + 1 : 0);
      attributes.integer_start = from;
      attributes.integer_step = step;
    } else {
      attributes.start = call.scalar(0);
      attributes.step = call.scalar(2);
      call.require(attributes.step != 0, "a step of 0");
      const double steps = std::ceil((call.scalar(1) - attributes.start) / attributes.step);
      call.require(steps < 1e12, "there is no end to the range");
      count = steps > 0 ? static_cast<int64_t>(steps) : 0;
      attributes.integer_start = static_cast<int64_t>(attributes.start);
      attributes.integer_step = static_cast<int64_t>(attributes.step);
    }
    const View y = call.output(0, {count});
    if (count != 0) call.launch(UHAL_OP_IOTA, {}, {&y}, &attributes);
  }
};

#define ALIAS(op, from, type, inputs) \
  {.name = op,                        \
   .first = from,                     \
   .last = kNewestOpset,              \
   .dtypes = kStored,                 \
   .make = make<type>,                \
   .reuse = Reuse::kAlias,            \
   .host_inputs = inputs}

const Op kShapeOps[] = {
    ALIAS("Reshape", 1, Reshape, host({1})),
    ALIAS("Flatten", 1, Flatten, 0),
    ALIAS("Squeeze", 1, Squeeze, host({1})),
    ALIAS("Unsqueeze", 1, Unsqueeze, host({1})),
    ALIAS("Identity", 1, Identity, 0),
    {.name = "Shape", .first = 1, .last = kNewestOpset, .dtypes = kStored, .make = make<ShapeOf>, .host_output = true},
    {.name = "Size", .first = 1, .last = kNewestOpset, .dtypes = kStored, .make = make<Size>, .host_output = true},
    {.name = "ConstantOfShape",
     .first = 9,
     .last = kNewestOpset,
     .dtypes = only(UHAL_INT64),
     .make = make<ConstantOfShape>,
     .host_inputs = host({0})},
    {.name = "Range",
     .first = 11,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<Range>,
     .host_inputs = host({0, 1, 2})},
};

#undef ALIAS

}  // namespace

Table shape_ops() { return table(kShapeOps); }

}  // namespace unihal::onnxruntime
