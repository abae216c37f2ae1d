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

// Elements whose label is ignore_index get zero.
void clear_ignored(const Context& context, const View& labels, int ignore_index, const View& y) {
  const Scratch ignored(context, labels.dtype, nullptr, 0), keep(context, UHAL_BOOL, labels);
  fill(context, ignored, ignore_index, ignore_index);
  context.map(uhal_map_not_equal, {&labels, &ignored}, {&keep});
  context.map(uhal_map_multiply, {&y, &keep}, {&y});
}

void require_plain(const Context& context, const OptionalInput& weight, bool normalize) {
  if (weight) unsupported(context, "pos_weight");
  if (normalize) unsupported(context, "normalize=True");
}

// (1 - label) * x - log(sigmoid(x))
void sigmoid_cross_entropy(Context context, Input x, Input label, OptionalInput weight, bool normalize,
                           int ignore_index, Output y) {
  require_plain(context, weight, normalize);
  const View logits = x.view(), labels = label.view();
  const View out = context.allocate(y, logits.dtype);
  const Scratch part(context, accumulator(logits.dtype), logits);
  context.map(uhal_map_multiply, {&logits, &labels}, {&part});
  context.map(uhal_map_subtract, {&logits, &part}, {&part});
  const Scratch logarithm(context, part.dtype, logits);
  context.map(uhal_map_log_sigmoid, {&logits}, {&logarithm});
  context.map(uhal_map_subtract, {&part, &logarithm}, {&out});
  clear_ignored(context, labels, ignore_index, out);
}

// (sigmoid(x) - label) * dy
void sigmoid_cross_entropy_grad(Context context, Input x, Input label, OptionalInput weight, Input dy, bool normalize,
                                int ignore_index, Output dx) {
  require_plain(context, weight, normalize);
  const View logits = x.view(), labels = label.view(), gradient = dy.view();
  const Scratch part(context, accumulator(logits.dtype), logits);
  context.map(uhal_map_sigmoid, {&logits}, {&part});
  context.map(uhal_map_subtract, {&part, &labels}, {&part});
  const View out = context.allocate(dx, logits.dtype);
  context.map(uhal_map_multiply, {&part, &gradient}, {&out});
  clear_ignored(context, labels, ignore_index, out);
}

}  // namespace

KernelTable loss_kernels() {
  return {
      UNIHAL_KERNEL("cross_entropy_with_softmax", kFloats, cross_entropy),
      UNIHAL_KERNEL("cross_entropy_with_softmax_grad", kFloats, cross_entropy_grad),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits", kFloats, sigmoid_cross_entropy),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits_grad", kFloats, sigmoid_cross_entropy_grad),
  };
}

}  // namespace unihal::paddle
