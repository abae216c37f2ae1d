// Softmax and cross-entropy.
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

template <bool kLogarithm>
class Softmax : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View logits = context.input(0);
    if (!context.ok()) return;
    if (logits.rank < 1) return context.fail_invalid(std::string(op()) + ": logits must have rank 1 or more");
    const int candidate = 0;
    const View output = context.forwarded_output(0, logits.dtype, logits.shape, logits.rank, &candidate, 1);
    const uhal_softmax_attributes attributes = softmax_attributes(-1, kLogarithm);
    context.launch(UHAL_OP_SOFTMAX, {&logits}, {&output}, &attributes);
  }
};

// (features [batch, classes], labels) -> (loss [batch], gradient of the features). Dense labels have the features'
// shape and may broadcast; sparse ones have shape [batch].
template <bool kSparse>
class CrossEntropy : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    View features = context.input(0);
    View labels = context.input(1);
    if (!context.ok()) return;
    Shape joint = shape_of(features);
    const bool match = kSparse ? features.rank == 2 && labels.rank == 1 && labels.shape[0] == features.shape[0]
                               : broadcast_shape(features, labels, &joint) && joint.size() == 2;
    if (!match) {
      return context.fail_invalid(std::string(op()) + ": logits and labels do not fit: " + to_text(features) + " and " +
                                  to_text(labels));
    }
    if (kSparse && features.shape[1] == 0) {
      return context.fail_invalid(std::string(op()) + ": Must have at least one class, but got logits shape " +
                                  to_text(features));
    }
    const View gradient = context.output(1, features.dtype, joint);
    const View loss = context.output(0, features.dtype, {joint[0]}).unsqueezed(1);
    if (!context.ok()) return;
    if (gradient.elements() == 0) {
      context.zero(loss);
      return;
    }
    if (kSparse) {
      labels = labels.unsqueezed(1);
    } else {
      features = broadcast(context, features, joint);
      labels = broadcast(context, labels, joint);
    }
    const uhal_cross_entropy_attributes attributes = cross_entropy_attributes(-1);
    context.launch(UHAL_OP_CROSS_ENTROPY, {&features, &labels}, {&loss, nullptr, &gradient}, &attributes);
    std::string met;
    if (kSparse && context.met_outside(&met)) fail_for_labels(context, labels, features.shape[1], met);
  }

 private:
  // The CPU's words for a label that is outside, or those of an op beside this one, on the same stream.
  static void fail_for_labels(Context& context, const View& labels, int64_t classes, const std::string& others) {
    const HostNumbers numbers(context, labels);
    std::string all;
    int64_t wrong = 0;
    for (const int64_t label : numbers) {
      all += " " + std::to_string(label);
      if (label < 0 || label >= classes) wrong = label;
    }
    if (wrong >= 0 && wrong < classes) return context.fail_invalid(others);
    context.fail_invalid("Received a label value of " + std::to_string(wrong) +
                         " which is outside the valid range of [0, " + std::to_string(classes) +
                         ").  Label values:" + all);
  }
  static View broadcast(Context& context, const View& view, const Shape& shape) {
    if (shape_of(view) == shape) return view;
    const View wide = context.temporary(view.dtype, shape.data(), static_cast<int>(shape.size()));
    context.copy(view, wide);
    return wide;
  }
};

}  // namespace

void register_softmax(Registrar& registrar) {
  registrar.add<Softmax<false>>("Softmax", {{"T", kFloats}});
  registrar.add<Softmax<true>>("LogSoftmax", {{"T", kFloats}});
  registrar.add<CrossEntropy<false>>("SoftmaxCrossEntropyWithLogits", {{"T", kFloats}});
  registrar.add<CrossEntropy<true>>("SparseSoftmaxCrossEntropyWithLogits", {{"T", kFloats}});
}

}  // namespace unihal::tensorflow
