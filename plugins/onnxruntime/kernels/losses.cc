// Losses of classes.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

enum class LossReduction { kNone, kSum, kMean };

LossReduction loss_reduction_of(const Description& node) {
  const std::string name = node.text("reduction", "mean");
  if (name == "none") return LossReduction::kNone;
  if (name == "sum") return LossReduction::kSum;
  if (name == "mean") return LossReduction::kMean;
  node.refuse("reduction " + name);
}

// Output 0 of a loss: of each class number of `targets` (N, spatial...) minus the logarithm (N, C, spatial...) of its
// class, times the class's weight. What has the number `ignored` counts as 0, also in the mean, which is weighted.
struct ClassLoss {
  explicit ClassLoss(const Description& node)
      : reduction(loss_reduction_of(node)),
        ignores(node.integer("ignore_index", INT64_MIN) != INT64_MIN),
        ignored(node.integer("ignore_index", INT64_MIN)) {}

  void run(Call& call, const View& logarithms, int weight_input) const {
    const View targets = call.input(1);
    call.require(logarithms.rank >= 2 && targets.rank == logarithms.rank - 1, "the targets have not an axis less");
    for (int i = 0; i < targets.rank; ++i) {
      call.require(targets.shape[i] == logarithms.shape[i == 0 ? 0 : i + 1], "the targets do not fit");
    }
    const Shape shape = shape_of(targets);
    const View y = call.output(0, reduction == LossReduction::kNone ? shape : Shape());
    const bool keeps_all = reduction == LossReduction::kNone;
    if (targets.elements() == 0) {
      if (!keeps_all) call.fill(y, reduction == LossReduction::kSum ? 0 : NAN);
      return;
    }
    View classes = targets, counted;
    if (ignores) {
      // A number that is no class must not be looked up.
      const View number = call.scratch(Shape(), targets.dtype), zero = call.scratch(Shape(), targets.dtype);
      call.fill_integer(number, ignored);
      call.fill_integer(zero, 0);
      counted = call.scratch(shape, UHAL_BOOL);
      call.map(uhal_map_not_equal, {&targets, &number}, {&counted});
      classes = call.scratch(shape, targets.dtype);
      call.map(uhal_map_select, {&counted, &targets, &zero}, {&classes});
    }
    const View losses = keeps_all ? y : call.scratch(shape, y.dtype);
    const View places = classes.unsqueezed(1), found = losses.unsqueezed(1);
    const uhal_index_attributes attributes = index_attributes(1);
    call.launch(UHAL_OP_GATHER_ELEMENTS, {&logarithms, &places}, {&found}, &attributes);
    call.map(uhal_map_negative, {&losses}, {&losses});
    View weights;
    if (call.has(weight_input)) {
      const View table = call.input(weight_input);
      call.require(table.rank == 1 && table.shape[0] == logarithms.shape[1], "there is not a weight for each class");
      weights = call.scratch(shape, y.dtype);
      const uhal_index_attributes of_table = index_attributes(0);
      call.launch(UHAL_OP_GATHER, {&table, &classes}, {&weights}, &of_table);
    }
    if (ignores) {
      const View zero = call.constant(0, y.dtype);
      call.map(uhal_map_select, {&counted, &losses, &zero}, {&losses});
      if (weights.dtype == UHAL_DTYPE_INVALID) {
        weights = call.scratch(shape, y.dtype);
        call.cast(counted, weights);
      } else {
        call.map(uhal_map_select, {&counted, &weights, &zero}, {&weights});
      }
    }
    if (weights.dtype != UHAL_DTYPE_INVALID) call.map(uhal_map_multiply, {&losses, &weights}, {&losses});
    if (keeps_all) return;
    const Shape ones(shape.size(), 1);
    const bool divides = reduction == LossReduction::kMean && weights.dtype != UHAL_DTYPE_INVALID;
    uhal_reduce_attributes sum =
        reduce_attributes(reduction == LossReduction::kSum || divides ? UHAL_REDUCE_SUM : UHAL_REDUCE_MEAN);
    const View total = y.reshaped(ones);
    call.launch(UHAL_OP_REDUCE, {&losses}, {&total}, &sum);
    if (!divides) return;
    const View weight = call.scratch(ones, y.dtype);
    call.launch(UHAL_OP_REDUCE, {&weights}, {&weight}, &sum);
    call.map(uhal_map_divide, {&total, &weight}, {&total});
  }

  const LossReduction reduction;
  const bool ignores;
  const int64_t ignored;
};

class NegativeLogLikelihoodLoss final : public Kernel {
 public:
  explicit NegativeLogLikelihoodLoss(const Description& node) : loss_(node) {}
  void run(Call& call) const override { loss_.run(call, call.input(0), 2); }

 private:
  const ClassLoss loss_;
};

// Output 1 is the logarithm of the softmax over the classes.
class SoftmaxCrossEntropyLoss final : public Kernel {
 public:
  explicit SoftmaxCrossEntropyLoss(const Description& node) : loss_(node) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    call.require(x.rank >= 2, "the scores have no axis of classes");
    View logarithms;
    if (!call.wants(1, shape_of(x), &logarithms)) logarithms = call.scratch_like(x, x.dtype);
    if (x.elements() != 0) {
      const uhal_softmax_attributes attributes = softmax_attributes(1, true);
      call.launch(UHAL_OP_SOFTMAX, {&x}, {&logarithms}, &attributes);
    }
    loss_.run(call, logarithms, 2);
  }

 private:
  const ClassLoss loss_;
};

const Op kLossOps[] = {
    {.name = "NegativeLogLikelihoodLoss",
     .first = 12,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<NegativeLogLikelihoodLoss>},
    {.name = "SoftmaxCrossEntropyLoss",
     .first = 12,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<SoftmaxCrossEntropyLoss>},
};

}  // namespace

Table loss_ops() { return table(kLossOps); }

}  // namespace unihal::onnxruntime
