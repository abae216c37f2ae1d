// Losses.
#include <limits>
#include <string>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

uhal_cross_entropy_attributes cross_entropy_attributes_of(const View& logits, bool soft_label, int ignore_index,
                                                          int axis) {
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
  const auto attributes = cross_entropy_attributes_of(x, soft_label, ignore_index, axis);
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
  const auto attributes = cross_entropy_attributes_of(probabilities, soft_label, ignore_index, axis);
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

// Weights of one element may have an axis where the logits have none.
View of_rank_of(const View& weights, const View& logits) {
  return logits.rank == 0 && weights.elements() == 1 ? weights.reshaped(nullptr, 0) : weights;
}

// The last steps of a chain whose second input is the label: `value`, or 0 where the label is ignore_index. Not a
// product: the value may be infinite there. The 0 is made of a label that is a number then.
void clear_ignored(Chain& chain, int ignore_index, int value) {
  const int kept = chain.step(uhal_map_scale, {1}, {1, -static_cast<double>(ignore_index)});
  const int zero = chain.step(uhal_map_scale, {1}, {0, 0});
  chain.step(uhal_map_select, {kept, value, zero});
}

// (1 - label) * x - w * log(sigmoid(x)). Paddle's Python makes the weight w of an element from its label and the weight
// of positive examples; the operand called pos_weight is w.
void sigmoid_cross_entropy(Context context, Input x, Input label, OptionalInput pos_weight, bool normalize,
                           int ignore_index, Output y) {
  const View logits = x.view(), labels = label.view(),
             weights = pos_weight ? of_rank_of(pos_weight.view(), logits) : View();
  require_same_dtype(context, logits, labels);
  const View out = context.allocate(y, logits.dtype);
  Chain chain(pos_weight ? 3 : 2);
  int logarithm = chain.step(uhal_map_log_sigmoid, {0});
  if (pos_weight) logarithm = chain.step(uhal_map_multiply, {logarithm, 2});
  const int rest = chain.step(uhal_map_subtract, {0, chain.step(uhal_map_multiply, {0, 1})});
  clear_ignored(chain, ignore_index, chain.step(uhal_map_subtract, {rest, logarithm}));
  if (pos_weight) {
    context.run(UHAL_OP_MAP_CHAIN, {&logits, &labels, &weights}, {&out}, chain.program());
  } else {
    context.run(UHAL_OP_MAP_CHAIN, {&logits, &labels}, {&out}, chain.program());
  }
  if (normalize) divide_by_count(context, labels, ignore_index, out);
}

// (1 - label - w * sigmoid(-x)) * dy
void sigmoid_cross_entropy_grad(Context context, Input x, Input label, OptionalInput pos_weight, Input dy,
                                bool normalize, int ignore_index, Output dx) {
  const View logits = x.view(), labels = label.view(), gradient = dy.view(),
             weights = pos_weight ? of_rank_of(pos_weight.view(), logits) : View();
  const View out = context.allocate(dx, logits.dtype);
  Chain chain(pos_weight ? 4 : 3);
  int slope;
  if (pos_weight) {
    const int share = chain.step(uhal_map_sigmoid, {chain.step(uhal_map_negative, {0})});
    const int sum = chain.step(uhal_map_add, {chain.step(uhal_map_multiply, {share, 3}), 1});
    slope = chain.step(uhal_map_scale, {sum}, {-1, 1});
  } else {  // sigmoid(x) - label, the same with fewer roundings
    slope = chain.step(uhal_map_subtract, {chain.step(uhal_map_sigmoid, {0}), 1});
  }
  clear_ignored(chain, ignore_index, chain.step(uhal_map_multiply, {slope, 2}));
  if (pos_weight) {
    context.run(UHAL_OP_MAP_CHAIN, {&logits, &labels, &gradient, &weights}, {&out}, chain.program());
  } else {
    context.run(UHAL_OP_MAP_CHAIN, {&logits, &labels, &gradient}, {&out}, chain.program());
  }
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

// The loss of each element in `part`, reduced into y as Paddle names it. `batch` divides what "batchmean" says.
void reduce_loss(const Context& context, const View& part, Text reduction, int64_t batch, const View& y) {
  const std::string name = reduction.value;
  if (name == "none") return copy_or_cast(context, part, y);
  const auto attributes = reduce_attributes(name == "mean" ? UHAL_REDUCE_MEAN : UHAL_REDUCE_SUM);
  const View all = flat(part);
  const Scratch total(context, accumulator(part.dtype), flat(y));
  context.run(UHAL_OP_REDUCE, {&all}, {&total}, &attributes);
  if (name != "batchmean" || batch <= 1) return copy_or_cast(context, total, flat(y));
  const View out = flat(y);
  context.map(uhal_map_scale, {&total}, {&out}, {1 / static_cast<double>(batch), 0});
}

// label * (log(label) - x), 0 where the label is not positive; of logarithms exp(label) * (label - x)
void kldiv_loss(Context context, Input x, Input label, Text reduction, bool log_target, Output y) {
  const View in = x.view(), labels = label.view(), out = context.allocate(y, in.dtype);
  require_same_dtype(context, in, labels);
  if (in.elements() == 0) return fill(context, out, std::numeric_limits<double>::quiet_NaN(), 0);
  const Scratch part(context, accumulator(in.dtype), in), rest(context, part.dtype, in);
  if (log_target) {
    context.map(uhal_map_subtract, {&labels, &in}, {&part});
    context.map(uhal_map_exp, {&labels}, {&rest});
    context.map(uhal_map_multiply, {&part, &rest}, {&part});
  } else {
    const Scratch zero(context, in.dtype, nullptr, 0), nothing(context, UHAL_BOOL, in);
    fill_zero(context, zero);
    context.map(uhal_map_log, {&labels}, {&part});
    context.map(uhal_map_subtract, {&part, &in}, {&part});
    context.map(uhal_map_multiply, {&part, &labels}, {&part});
    context.map(uhal_map_less_equal, {&labels, &zero}, {&nothing});
    context.map(uhal_map_select, {&nothing, &zero, &part}, {&part});
  }
  reduce_loss(context, part, reduction, in.rank == 0 ? 1 : in.shape[0], out);
}
void kldiv_loss_grad(Context context, Input, Input label, Input dy, Text reduction, bool log_target, Output dx) {
  const View labels = label.view(), out = context.allocate(dx, labels.dtype);
  if (out.elements() == 0) return;
  const std::string name = reduction.value;
  const View gradient = name == "none" ? dy.view() : dy.view().reshaped(nullptr, 0);
  const Scratch part(context, accumulator(out.dtype), out);
  if (log_target) {
    context.map(uhal_map_exp, {&labels}, {&part});
    context.map(uhal_map_multiply, {&part, &gradient}, {&part});
  } else {
    const Scratch zero(context, labels.dtype, nullptr, 0), nothing(context, UHAL_BOOL, labels);
    fill_zero(context, zero);
    context.map(uhal_map_multiply, {&labels, &gradient}, {&part});
    context.map(uhal_map_less_equal, {&labels, &zero}, {&nothing});
    context.map(uhal_map_select, {&nothing, &zero, &part}, {&part});
  }
  const int64_t divisor = name == "mean" ? out.elements() : name == "batchmean" && out.rank > 0 ? out.shape[0] : 1;
  context.map(uhal_map_scale, {&part}, {&out}, {-1 / static_cast<double>(divisor), 0});
}

// (1 - epsilon) * label + epsilon * prior, by default of equal classes
void label_smooth(Context context, Input label, OptionalInput prior, float epsilon, Output y) {
  const View labels = label.view(), out = context.allocate(y, labels.dtype);
  if (out.elements() == 0) return;
  const double share = static_cast<double>(epsilon);
  const int64_t classes = labels.rank == 0 ? 1 : labels.shape[labels.rank - 1];
  if (!prior) {
    return context.map(uhal_map_scale, {&labels}, {&out}, {1 - share, share / static_cast<double>(classes)});
  }
  const View given = flat(prior.view());
  require_same_dtype(context, labels, given);
  if (given.elements() != classes) {
    invalid(context,
            "the prior has " + std::to_string(given.elements()) + " elements, expected " + std::to_string(classes));
  }
  const Scratch part(context, accumulator(labels.dtype), given), rest(context, part.dtype, labels);
  context.map(uhal_map_scale, {&given}, {&part}, {share, 0});
  context.map(uhal_map_scale, {&labels}, {&rest}, {1 - share, 0});
  context.map(uhal_map_add, {&rest, &part}, {&out});
}
void label_smooth_grad(Context context, Input dy, float epsilon, Output dx) {
  const View gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  if (out.elements() > 0) context.map(uhal_map_scale, {&gradient}, {&out}, {1 - static_cast<double>(epsilon), 0});
}

// With r = label - x: r^2 / 2, beyond delta delta * (|r| - delta / 2)
void huber_loss(Context context, Input x, Input label, float delta, Output y, Output residual) {
  const View in = x.view(), labels = label.view();
  const View out = context.allocate(y, in.dtype), r = context.allocate(residual, in.dtype);
  if (out.elements() == 0) return;
  const double limit = static_cast<double>(delta);
  context.map(uhal_map_subtract, {&labels, &in}, {&r});
  const Scratch size(context, accumulator(in.dtype), r), part(context, size.dtype, r),
      bound(context, in.dtype, nullptr, 0);
  const Scratch near(context, UHAL_BOOL, r);
  fill(context, bound, limit, 0);
  context.map(uhal_map_absolute, {&r}, {&size});
  context.map(uhal_map_less_equal, {&size, &bound}, {&near});
  context.map(uhal_map_scale, {&size}, {&size}, {limit, -0.5 * limit * limit});
  context.map(uhal_map_square, {&r}, {&part});
  context.map(uhal_map_scale, {&part}, {&part}, {0.5, 0});
  context.map(uhal_map_select, {&near, &part, &size}, {&out});
}
// The residual within [-delta, delta], to the label; its negative to x
void huber_loss_grad(Context context, Input residual, Input dy, float delta, Output dx, Output dlabel) {
  const View r = residual.view(), gradient = dy.view();
  const View first = dx ? context.allocate(dx, r.dtype) : View(),
             second = dlabel ? context.allocate(dlabel, r.dtype) : View();
  if (r.elements() == 0) return;
  const double limit = static_cast<double>(delta);
  // Beyond the limits, as NaN is, the sign counts, and what is not positive is negative.
  const Scratch part(context, accumulator(r.dtype), r), near(context, UHAL_BOOL, r), above(context, UHAL_BOOL, r);
  const Scratch number(context, r.dtype, nullptr, 0), opposite(context, r.dtype, nullptr, 0);
  fill_zero(context, number);
  context.map(uhal_map_greater, {&r, &number}, {&above});
  fill(context, number, limit, 0);
  fill(context, opposite, -limit, 0);
  context.map(uhal_map_absolute, {&r}, {&part});
  context.map(uhal_map_less_equal, {&part, &number}, {&near});
  context.map(uhal_map_select, {&above, &number, &opposite}, {&part});
  context.map(uhal_map_select, {&near, &r, &part}, {&part});
  context.map(uhal_map_multiply, {&part, &gradient}, {&part});
  if (dlabel) copy_or_cast(context, part, second);
  if (dx) context.map(uhal_map_negative, {&part}, {&first});
}

// -log-likelihood: x (samples, classes, places) holds logarithms of probabilities.
struct ClassifiedPlaces {
  View x;       // (samples, classes, places)
  View labels;  // (samples, 1, places)

  ClassifiedPlaces(const Context& context, const View& given, const View& given_labels)
      : x(given.rank == 4 ? given.reshaped({given.shape[0], given.shape[1], given.shape[2] * given.shape[3]})
                          : given.unsqueezed(given.rank)) {
    if (given.rank != 2 && given.rank != 4) {
      invalid(context, "x has rank " + std::to_string(given.rank) + ", expected 2 or 4");
    }
    labels = given_labels.reshaped({x.shape[0], 1, x.shape[2]});
    if (labels.elements() != given_labels.elements()) invalid(context, "x and label have shapes that do not match");
  }
};

// The labels, or class 0 for one that is ignored; and the weight of each place, 0 where it is.
class WeightedPlaces {
 public:
  WeightedPlaces(const Context& context, const View& labels, OptionalInput weight, int64_t ignore_index,
                 uhal_dtype dtype)
      : classes(context, labels.dtype, labels), weights(context, dtype, labels), kept(context, UHAL_BOOL, labels) {
    const Scratch ignored(context, labels.dtype, nullptr, 0), no_class(context, labels.dtype, nullptr, 0),
        zero(context, dtype, nullptr, 0);
    fill(context, ignored, 0, ignore_index);
    fill_zero(context, no_class);
    fill_zero(context, zero);
    context.map(uhal_map_not_equal, {&labels, &ignored}, {&kept});
    context.map(uhal_map_select, {&kept, &labels, &no_class}, {&classes});
    if (weight) {
      const Scratch wide(context, dtype, weight.view());
      copy_or_cast(context, weight.view(), wide);
      const auto at = index_attributes(0);
      context.run(UHAL_OP_GATHER, {&wide, &classes}, {&weights}, &at);
    } else {
      fill(context, weights, 1, 1);
    }
    context.map(uhal_map_select, {&kept, &weights, &zero}, {&weights});
  }
  const Scratch classes, weights, kept;
};

void nll_loss(Context context, Input x, Input label, OptionalInput weight, int64_t ignore_index, Text reduction,
              Output y, Output total_weight) {
  const ClassifiedPlaces at(context, x.view(), label.view());
  if (weight) require_same_dtype(context, at.x, weight.view());
  const uhal_dtype dtype = accumulator(at.x.dtype);
  const View out = context.allocate(y, at.x.dtype), total = context.allocate(total_weight, at.x.dtype);
  const std::string name = reduction.value;
  fill_zero(context, total);
  if (at.labels.elements() == 0) {
    if (out.elements() > 0) fill(context, out, name == "mean" ? std::numeric_limits<double>::quiet_NaN() : 0, 0);
    return;
  }
  const WeightedPlaces places(context, at.labels, weight, ignore_index, dtype);
  const Scratch taken(context, at.x.dtype, at.labels), loss(context, dtype, at.labels),
      zero(context, dtype, nullptr, 0);
  fill_zero(context, zero);
  const auto classes = index_attributes(1);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&at.x, &places.classes}, {&taken}, &classes);
  context.map(uhal_map_multiply, {&taken, &places.weights}, {&loss});
  context.map(uhal_map_negative, {&loss}, {&loss});
  context.map(uhal_map_select, {&places.kept, &loss, &zero}, {&loss});
  if (name == "none") return copy_or_cast(context, flat(loss), flat(out));
  const int64_t one[] = {1};
  const Scratch sum(context, dtype, one, 1), weights(context, dtype, one, 1);
  sum_to_shape(context, flat(loss), sum);
  sum_to_shape(context, flat(places.weights), weights);
  if (name == "mean") context.map(uhal_map_divide_no_nan, {&sum, &weights}, {&sum});
  copy_or_cast(context, sum, flat(out));
  copy_or_cast(context, weights, flat(total));
}

void nll_loss_grad(Context context, Input x, Input label, OptionalInput weight, Input total_weight, Input dy,
                   int64_t ignore_index, Text reduction, Output dx) {
  const View in = context.allocate(dx, x.uhal());
  const ClassifiedPlaces at(context, in, label.view());
  fill_zero(context, in);
  if (at.labels.elements() == 0) return;
  const uhal_dtype dtype = accumulator(in.dtype);
  const std::string name = reduction.value;
  const WeightedPlaces places(context, at.labels, weight, ignore_index, dtype);
  const View gradient = name == "none" ? dy.view().reshaped(at.labels.shape, 3) : dy.view().reshaped(nullptr, 0);
  const Scratch part(context, dtype, at.labels), stored(context, in.dtype, at.labels), zero(context, dtype, nullptr, 0);
  fill_zero(context, zero);
  context.map(uhal_map_multiply, {&places.weights, &gradient}, {&part});
  if (name == "mean") {
    const View total = total_weight.view().reshaped(nullptr, 0);
    context.map(uhal_map_divide, {&part, &total}, {&part});
  }
  context.map(uhal_map_negative, {&part}, {&part});
  context.map(uhal_map_select, {&places.kept, &part, &zero}, {&stored});
  const auto classes = index_attributes(1);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&places.classes, &stored}, {&at.x}, &classes);
}

}  // namespace

KernelTable loss_kernels() {
  return {
      UNIHAL_KERNEL("cross_entropy_with_softmax", kFloats, cross_entropy),
      UNIHAL_KERNEL("cross_entropy_with_softmax_grad", kFloats, cross_entropy_grad),
      UNIHAL_KERNEL("huber_loss", kFloats, huber_loss),
      UNIHAL_KERNEL("huber_loss_grad", kFloats, huber_loss_grad),
      UNIHAL_KERNEL("kldiv_loss", kFloats, kldiv_loss),
      UNIHAL_KERNEL("kldiv_loss_grad", kFloats, kldiv_loss_grad),
      UNIHAL_KERNEL("label_smooth", kFloats, label_smooth),
      UNIHAL_KERNEL("label_smooth_grad", kFloats, label_smooth_grad),
      UNIHAL_KERNEL("nll_loss", kFloats, nll_loss),
      UNIHAL_KERNEL("nll_loss_grad", kFloats, nll_loss_grad),
      UNIHAL_KERNEL("bce_loss", kFloats, bce_loss),
      UNIHAL_KERNEL("bce_loss_grad", kFloats, bce_loss_grad),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits", kFloats, sigmoid_cross_entropy),
      UNIHAL_KERNEL("sigmoid_cross_entropy_with_logits_grad", kFloats, sigmoid_cross_entropy_grad),
  };
}

}  // namespace unihal::paddle
