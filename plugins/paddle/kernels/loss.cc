// Losses.
#include <limits>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

uhal_cross_entropy_attributes attributes_of(const View& logits, bool soft_label, int ignore_index, int axis) {
  auto attributes = cross_entropy_attributes(from_front(axis, logits.rank));
  attributes.has_ignore = !soft_label;
  attributes.ignore_index = ignore_index;
  return attributes;
}

// Labels in the form of the op: sparse ones have the rank of the logits, with length 1 along the classes.
View labels_of(const Context& context, const View& labels, const View& logits, bool soft_label, int axis) {
  if (soft_label) require_same_dtype(context, labels, logits);
  return soft_label || labels.rank == logits.rank ? labels : labels.unsqueezed(axis);
}

// y = 0 where the label is ignore_index.
void clear_ignored(const Context& context, const View& labels, int ignore_index, const View& y) {
  const Scratch ignored(context, labels.dtype, nullptr, 0), keep(context, UHAL_BOOL, labels),
      zero(context, y.dtype, nullptr, 0);
  fill(context, ignored, ignore_index, ignore_index);
  fill_zero(context, zero);
  context.map(uhal_map_not_equal, {&labels, &ignored}, {&keep});
  context.map(uhal_map_select, {&keep, &y, &zero}, {&y});  // not a product: y may be infinite there
}

// Labels address elements along the classes; one outside them is ignore_index, whose loss is cleared.
uhal_index_attributes class_indices(int axis) {
  auto attributes = index_attributes(axis);
  attributes.ignore_out_of_range = 1;
  return attributes;
}

// -sum(label * log(p)) of given probabilities.
void negative_log_likelihood(const Context& context, const View& probabilities, const View& labels, bool soft_label,
                             const uhal_cross_entropy_attributes& attributes, const View& loss) {
  if (soft_label) {
    const Scratch part(context, accumulator(probabilities.dtype), probabilities);
    context.map(uhal_map_x_log_y, {&labels, &probabilities}, {&part});
    sum_to_shape(context, part, loss);
  } else {
    const auto classes = class_indices(attributes.axis);
    context.run(UHAL_OP_GATHER_ELEMENTS, {&probabilities, &labels}, {&loss}, &classes);
    context.map(uhal_map_log, {&loss}, {&loss});
  }
  context.map(uhal_map_negative, {&loss}, {&loss});
  if (!soft_label) clear_ignored(context, labels, static_cast<int>(attributes.ignore_index), loss);
}

// dp = -label / p * dloss
void negative_log_likelihood_grad(const Context& context, const View& probabilities, const View& labels,
                                  bool soft_label, const uhal_cross_entropy_attributes& attributes, const View& dloss,
                                  const View& dp) {
  if (soft_label) {
    const Scratch part(context, accumulator(probabilities.dtype), probabilities);
    context.map(uhal_map_divide, {&labels, &probabilities}, {&part});
    context.map(uhal_map_negative, {&part}, {&part});
    context.map(uhal_map_multiply, {&part, &dloss}, {&dp});
    return;
  }
  const Scratch taken(context, probabilities.dtype, dloss);
  const auto classes = class_indices(attributes.axis);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&probabilities, &labels}, {&taken}, &classes);
  context.map(uhal_map_divide, {&dloss, &taken}, {&taken});
  context.map(uhal_map_negative, {&taken}, {&taken});
  clear_ignored(context, labels, static_cast<int>(attributes.ignore_index), taken);
  fill_zero(context, dp);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&labels, &taken}, {&dp}, &classes);
}

// With use_softmax=False the logits are probabilities.
void cross_entropy(Context context, Input logits, Input label, bool soft_label, bool use_softmax, bool,
                   int ignore_index, int axis, Output softmax, Output loss) {
  const View x = logits.view();
  const auto attributes = attributes_of(x, soft_label, ignore_index, axis);
  const WideIntegers labels(context, labels_of(context, label.view(), x, soft_label, attributes.axis));
  const View probabilities = context.allocate(softmax, x.dtype);
  const View out = context.allocate(loss, x.dtype).reshaped(x.with_axis_one(attributes.axis).shape, x.rank);
  if (use_softmax) {
    context.run(UHAL_OP_CROSS_ENTROPY, {&x, &labels}, {&out, &probabilities}, &attributes);
  } else {
    copy_or_cast(context, x, probabilities);
    negative_log_likelihood(context, x, labels, soft_label, attributes, out);
  }
}

void cross_entropy_grad(Context context, Input label, Input softmax, Input dloss, bool soft_label, bool use_softmax,
                        bool, int ignore_index, int axis, Output dlogits) {
  const View probabilities = softmax.view();
  const auto attributes = attributes_of(probabilities, soft_label, ignore_index, axis);
  const WideIntegers labels(context, labels_of(context, label.view(), probabilities, soft_label, attributes.axis));
  const View gradient = dloss.view().reshaped(probabilities.with_axis_one(attributes.axis).shape, probabilities.rank);
  const View out = context.allocate(dlogits, probabilities.dtype);
  if (use_softmax) {
    context.run(UHAL_OP_CROSS_ENTROPY_BACKWARD, {&probabilities, &labels, &gradient}, {&out}, &attributes);
  } else {
    negative_log_likelihood_grad(context, probabilities, labels, soft_label, attributes, gradient, out);
  }
}

// y /= the number of labels that are not ignored, which counts as 1e-5 if there is none (Paddle's rule).
void divide_by_count(const Context& context, const View& labels, int ignore_index, const View& y) {
  const uhal_dtype dtype = accumulator(y.dtype);
  const Scratch counted(context, dtype, labels), count(context, dtype, nullptr, 0), least(context, dtype, nullptr, 0);
  fill(context, counted, 1, 1);
  clear_ignored(context, labels, ignore_index, counted);
  sum_to_shape(context, counted, count);
  fill(context, least, 1e-5, 0);
  context.map(uhal_map_maximum, {&count, &least}, {&count});
  context.map(uhal_map_divide, {&y, &count}, {&y});
}

// (1 - label) * x - w * log(sigmoid(x)). Paddle's Python makes the weight w of an element from its label and the weight
// of positive examples; the operand called pos_weight is w.
void sigmoid_cross_entropy(Context context, Input x, Input label, OptionalInput pos_weight, bool normalize,
                           int ignore_index, Output y) {
  const View logits = x.view(), labels = label.view();
  require_same_dtype(context, logits, labels);
  const View out = context.allocate(y, logits.dtype);
  const Scratch part(context, accumulator(logits.dtype), logits), logarithm(context, part.dtype, logits);
  context.map(uhal_map_log_sigmoid, {&logits}, {&logarithm});
  if (pos_weight) {
    const View weights = pos_weight.view();
    context.map(uhal_map_multiply, {&logarithm, &weights}, {&logarithm});
  }
  context.map(uhal_map_multiply, {&logits, &labels}, {&part});
  context.map(uhal_map_subtract, {&logits, &part}, {&part});
  context.map(uhal_map_subtract, {&part, &logarithm}, {&out});
  clear_ignored(context, labels, ignore_index, out);
  if (normalize) divide_by_count(context, labels, ignore_index, out);
}

// (1 - label - w * sigmoid(-x)) * dy
void sigmoid_cross_entropy_grad(Context context, Input x, Input label, OptionalInput pos_weight, Input dy,
                                bool normalize, int ignore_index, Output dx) {
  const View logits = x.view(), labels = label.view(), gradient = dy.view();
  const Scratch part(context, accumulator(logits.dtype), logits);
  if (pos_weight) {
    const View weights = pos_weight.view();
    context.map(uhal_map_negative, {&logits}, {&part});
    context.map(uhal_map_sigmoid, {&part}, {&part});
    context.map(uhal_map_multiply, {&part, &weights}, {&part});
    context.map(uhal_map_add, {&part, &labels}, {&part});
    context.map(uhal_map_scale, {&part}, {&part}, {-1, 1});
  } else {  // sigmoid(x) - label, the same with fewer roundings
    context.map(uhal_map_sigmoid, {&logits}, {&part});
    context.map(uhal_map_subtract, {&part, &labels}, {&part});
  }
  const View out = context.allocate(dx, logits.dtype);
  context.map(uhal_map_multiply, {&part, &gradient}, {&out});
  clear_ignored(context, labels, ignore_index, out);
  if (normalize) divide_by_count(context, labels, ignore_index, out);
}

// -(label * log(x) + (1 - label) * log(1 - x)), of logarithms that are at least -100
void bce_loss(Context context, Input x, Input label, Output y) {
  const View in = x.view(), labels = label.view();
  require_same_dtype(context, in, labels);
  const View out = context.allocate(y, in.dtype);
  const double least = -100, most = std::numeric_limits<double>::infinity();
  const Scratch yes(context, accumulator(in.dtype), in), no(context, yes.dtype, in), rest(context, yes.dtype, in);
  context.map(uhal_map_log, {&in}, {&yes});
  context.map(uhal_map_clip, {&yes}, {&yes}, {least, most});
  context.map(uhal_map_multiply, {&labels, &yes}, {&yes});
  context.map(uhal_map_scale, {&in}, {&no}, {-1, 1});
  context.map(uhal_map_log, {&no}, {&no});
  context.map(uhal_map_clip, {&no}, {&no}, {least, most});
  context.map(uhal_map_scale, {&labels}, {&rest}, {1, -1});
  context.map(uhal_map_multiply, {&rest, &no}, {&no});
  context.map(uhal_map_subtract, {&no, &yes}, {&out});
}

// (x - label) / max(x * (1 - x), 1e-12) * dy
void bce_loss_grad(Context context, Input x, Input label, Input dy, Output dx) {
  const View in = x.view(), labels = label.view(), gradient = dy.view();
  const View out = context.allocate(dx, in.dtype);
  const Scratch rest(context, accumulator(in.dtype), in), difference(context, rest.dtype, in);
  context.map(uhal_map_scale, {&in}, {&rest}, {-1, 1});
  context.map(uhal_map_multiply, {&rest, &in}, {&rest});
  context.map(uhal_map_clip, {&rest}, {&rest}, {1e-12, std::numeric_limits<double>::infinity()});
  context.map(uhal_map_subtract, {&in, &labels}, {&difference});
  context.map(uhal_map_divide, {&difference, &rest}, {&difference});
  context.map(uhal_map_multiply, {&difference, &gradient}, {&out});
}

}  // namespace

KernelTable loss_kernels() {
  return {
      UNIHAL_KERNEL("cross_entropy_with_softmax", kFloats, cross_entropy),
      UNIHAL_KERNEL("cross_entropy_with_softmax_grad", kFloats, cross_entropy_grad),
      UNIHAL_KERNEL("bce_loss", kFloats, bce_loss),
      UNIHAL_KERNEL("bce_loss_grad", kFloats, bce_loss_grad),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits", kFloats, sigmoid_cross_entropy),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits_grad", kFloats, sigmoid_cross_entropy_grad),
  };
}

}  // namespace unihal::paddle
