// Reductions along axes.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

struct ReduceForm {
  uhal_reduction reduction;
  int axes_since = 18;     // the opset in which axes became an input
  bool takes_log = false;  // of the result
};

class Reduce final : public Kernel {
 public:
  Reduce(const Description& node, const void* data)
      : reduction_(*static_cast<const ReduceForm*>(data)),
        attribute_(axes_attribute(node, reduction_.axes_since)),
        keeps_(node.integer("keepdims", 1) != 0),
        empty_is_none_(node.integer("noop_with_empty_axes", 0) != 0) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const Shape axes = given_axes(call, attribute_, 1).value_or(Shape());
    std::vector<bool> goes(static_cast<size_t>(x.rank), axes.empty() && !empty_is_none_);
    for (const int64_t axis : axes) goes[static_cast<size_t>(axis_of(call, axis, x.rank))] = true;
    Shape kept = shape_of(x), shape;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (goes[i]) kept[i] = 1;
      if (!goes[i] || keeps_) shape.push_back(kept[i]);
    }
    const View y = call.output(0, shape);
    const View to = y.reshaped(kept);
    if (to.elements() == 0) return;
    uhal_reduce_attributes attributes = reduce_attributes(reduction_.reduction);
    const bool is_bool = x.dtype == UHAL_BOOL;
    if (is_bool) attributes.reduction = reduction_.reduction == UHAL_REDUCE_MAXIMUM ? UHAL_REDUCE_ANY : UHAL_REDUCE_ALL;
    call.launch(UHAL_OP_REDUCE, {&x}, {&to}, &attributes);
    if (reduction_.takes_log) call.map(uhal_map_log, {&to}, {&to});
  }

 private:
  const ReduceForm& reduction_;
  const std::optional<Shape> attribute_;
  const bool keeps_, empty_is_none_;
};

constexpr ReduceForm kReduceSum{UHAL_REDUCE_SUM, 13};
constexpr ReduceForm kReduceMean{UHAL_REDUCE_MEAN};
constexpr ReduceForm kReduceMax{UHAL_REDUCE_MAXIMUM};
constexpr ReduceForm kReduceMin{UHAL_REDUCE_MINIMUM};
constexpr ReduceForm kReduceProd{UHAL_REDUCE_PRODUCT};
constexpr ReduceForm kReduceL1{UHAL_REDUCE_L1_NORM};
constexpr ReduceForm kReduceL2{UHAL_REDUCE_L2_NORM};
constexpr ReduceForm kReduceSumSquare{UHAL_REDUCE_SUM_OF_SQUARES};
constexpr ReduceForm kReduceLogSumExp{UHAL_REDUCE_LOG_SUM_EXP};
constexpr ReduceForm kReduceLogSum{UHAL_REDUCE_SUM, 18, true};

class ArgReduce final : public Kernel {
 public:
  ArgReduce(const Description& node, const void* data)
      : largest_(*static_cast<const bool*>(data)),
        axis_(node.integer("axis", 0)),
        keeps_(node.integer("keepdims", 1) != 0),
        takes_last_(node.integer("select_last_index", 0) != 0) {}
  void run(Call& call) const override {
    View x = call.input(0);
    const int axis = axis_of(call, axis_, x.rank);
    Shape kept = shape_of(x), shape;
    kept[static_cast<size_t>(axis)] = 1;
    for (int i = 0; i < x.rank; ++i) {
      if (i != axis || keeps_) shape.push_back(kept[static_cast<size_t>(i)]);
    }
    const int64_t length = x.shape[axis];
    call.require(length > 0, "the axis has no elements");
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    const View to = y.reshaped(kept);
    const uhal_axis_attributes attributes = axis_attributes(axis, largest_);
    if (takes_last_) x = x.sliced(axis, length - 1, length, -1);  // the first from behind
    call.launch(UHAL_OP_ARG_REDUCE, {&x}, {&to}, &attributes);
    if (takes_last_) call.map(uhal_map_scale, {&to}, {&to}, {-1, static_cast<double>(length - 1)});
  }

 private:
  const bool largest_;
  const int64_t axis_;
  const bool keeps_, takes_last_;
};

constexpr bool kLargest = true;
constexpr bool kSmallest = false;

#define REDUCE(op, types, function) \
  {.name = op,                      \
   .first = 1,                      \
   .last = kNewestOpset,            \
   .dtypes = types,                 \
   .make = make<Reduce>,            \
   .host_inputs = host({1}),        \
   .data = &function}

const Op kReduceOps[] = {
    REDUCE("ReduceSum", kNumbers, kReduceSum),
    REDUCE("ReduceMean", kNumbers, kReduceMean),
    REDUCE("ReduceMax", kReal, kReduceMax),
    REDUCE("ReduceMin", kReal, kReduceMin),
    REDUCE("ReduceProd", kNumbers, kReduceProd),
    REDUCE("ReduceL1", kNumbers, kReduceL1),
    REDUCE("ReduceL2", kFloats, kReduceL2),
    REDUCE("ReduceSumSquare", kNumbers, kReduceSumSquare),
    REDUCE("ReduceLogSumExp", kFloats, kReduceLogSumExp),
    REDUCE("ReduceLogSum", kFloats, kReduceLogSum),
    {.name = "ArgMax",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<ArgReduce>,
     .data = &kLargest},
    {.name = "ArgMin",
     .first = 1,
     .last = kNewestOpset,
     .dtypes = kNumbers,
     .make = make<ArgReduce>,
     .data = &kSmallest},
};

#undef REDUCE

}  // namespace

Table reduce_ops() { return table(kReduceOps); }

}  // namespace unihal::onnxruntime
