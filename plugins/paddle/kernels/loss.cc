// Losses.
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

uhal_cross_entropy_attributes attributes_of(const View& logits, bool soft_label, int ignore_index, int axis) {
  auto attributes = cross_entropy_attributes(from_front(axis, logits.rank));
  attributes.has_ignore = !soft_label;
  attributes.ignore_index = ignore_index;
  return attributes;
}

// Sparse labels in the form of the op: the rank of the logits, with length 1 along the classes.
View labels_of(const View& labels, const View& logits, bool soft_label, int axis) {
  if (soft_label || labels.rank == logits.rank) return labels;
  return labels.unsqueezed(axis);
}

void require_softmax(const Context& context, bool use_softmax) {
  if (!use_softmax) unsupported(context, "use_softmax=False (probabilities in place of logits)");
}

void cross_entropy(Context context, Input logits, Input label, bool soft_label, bool use_softmax, bool,
                   int ignore_index, int axis, Output softmax, Output loss) {
  require_softmax(context, use_softmax);
  const View x = logits.view();
  const auto attributes = attributes_of(x, soft_label, ignore_index, axis);
  const View labels = labels_of(label.view(), x, soft_label, attributes.axis);
  const View probabilities = context.allocate(softmax, x.dtype);
  const View out = context.allocate(loss, x.dtype).reshaped(x.with_axis_one(attributes.axis).shape, x.rank);
  context.run(UHAL_OP_CROSS_ENTROPY, {&x, &labels}, {&out, &probabilities}, &attributes);
}

void cross_entropy_grad(Context context, Input label, Input softmax, Input dloss, bool soft_label, bool use_softmax,
                        bool, int ignore_index, int axis, Output dlogits) {
  require_softmax(context, use_softmax);
  const View probabilities = softmax.view();
  const auto attributes = attributes_of(probabilities, soft_label, ignore_index, axis);
  const View labels = labels_of(label.view(), probabilities, soft_label, attributes.axis);
  const View gradient = dloss.view().reshaped(probabilities.with_axis_one(attributes.axis).shape, probabilities.rank);
  const View out = context.allocate(dlogits, probabilities.dtype);
  context.run(UHAL_OP_CROSS_ENTROPY_BACKWARD, {&probabilities, &labels, &gradient}, {&out}, &attributes);
}

}  // namespace

KernelTable loss_kernels() {
  return {
      UNIHAL_KERNEL("cross_entropy_with_softmax", kFloats, cross_entropy),
      UNIHAL_KERNEL("cross_entropy_with_softmax_grad", kFloats, cross_entropy_grad),
  };
}

}  // namespace unihal::paddle
