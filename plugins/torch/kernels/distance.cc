// Distances of vectors, norms by them, losses of margins, and the loss of alignments.
#include <ATen/core/Reduction.h>
#include <ATen/ops/renorm_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// -- distances ----------------------------------------------------------------------------------------------------

// The norm along the last axis, of no elements too.
at::Tensor norm_of(const at::Tensor& differences, double p) {
  if (differences.size(-1) == 0) {
    return at::zeros(differences.sizes().slice(0, static_cast<size_t>(differences.dim() - 1)), differences.options());
  }
  return at::linalg_vector_norm(differences, p, {-1});
}

// The slope of that norm by each difference, times a gradient; 0 where the norm has none.
at::Tensor slope_of(const at::Tensor& differences, const at::Tensor& gradient, const at::Tensor& norm, double p) {
  const at::Tensor g = gradient.unsqueeze(-1), size = norm.unsqueeze(-1);
  if (p == 0) return at::zeros_like(differences);
  if (p == 1) return differences.sign() * g;
  if (std::isinf(p)) return differences.sign() * differences.abs().eq(size).to(g.scalar_type()) * g;
  const at::Tensor direction = p == 2 ? differences : differences.sign() * differences.abs().pow(p - 1);
  const at::Tensor slope = direction * (g / size.pow(p - 1));
  const at::Tensor has_none = size.eq(0).logical_or(p < 1 ? differences.eq(0) : size.eq(0));
  return slope.masked_fill(has_none, 0);
}

// (x1 (..., P, M), x2 (..., R, M), p, compute_mode)
void distances(Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& y = call.tensor(1);
  const double p = call.real(2);
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = call.integer_or(3, 0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  // As PyTorch: by a product of matrices where these are large, or on demand.
  const bool is_large = x.size(-2) > 25 || y.size(-2) > 25;
  if (p == 2 && (mode == 1 || (mode == 0 && is_large)) && x.size(-1) != 0 && x.numel() != 0 && y.numel() != 0) {
    return call.set_result(0, at::_euclidean_dist(x, y));
  }
  call.set_result(0, norm_of(x.unsqueeze(-2) - y.unsqueeze(-3), p));
}

// (grad, x1, x2, p, cdist): by x1
void distances_backward(Call& call) {
  const at::Tensor& x = call.tensor(1);
  const at::Tensor& y = call.tensor(2);
  const at::Tensor slope =
      slope_of(x.unsqueeze(-2) - y.unsqueeze(-3), call.tensor(0), call.tensor(4), call.real(3)).sum(-2);
  call.set_result(0, slope.expand(at::infer_size(slope.sizes(), x.sizes())).contiguous());
}

// The numbers of the two of each pair, in PyTorch's order.
std::pair<at::Tensor, at::Tensor> pairs_of(const at::Tensor& self) {
  const at::Tensor both = at::ones({self.size(0), self.size(0)}, self.options().dtype(at::kBool)).triu(1).nonzero();
  return {both.select(1, 0), both.select(1, 1)};
}

// (self (n, M), p)
void pairwise_distances(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.size(0) < 2) return call.set_result(0, at::empty({0}, self.options()));
  const auto [first, second] = pairs_of(self);
  call.set_result(0, norm_of(self.index_select(0, first) - self.index_select(0, second), call.real(1)));
}

// (grad, self, p, pdist)
void pairwise_distances_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor none = at::zeros(self.sizes(), self.options());
  if (self.size(0) < 2 || self.numel() == 0) return call.set_result(0, none);
  const auto [first, second] = pairs_of(self);
  const at::Tensor slope = slope_of(self.index_select(0, first) - self.index_select(0, second), call.tensor(0),
                                    call.tensor(3), call.real(2));
  call.set_result(0, none.index_add(0, first, slope).index_add(0, second, slope.neg()));
}

// -- norms --------------------------------------------------------------------------------------------------------

// (self, p, dim, keepdim)
void norm(Call& call) {
  const at::Scalar p = call.is_none(1) ? at::Scalar(2) : call.scalar(1);
  call.set_result(0, at::linalg_vector_norm(call.tensor(0), p, call.integers(2), call.boolean(3)));
}

// (self, p, dim, keepdim, *, dtype)
void norm_in_dtype(Call& call) {
  const at::Scalar p = call.is_none(1) ? at::Scalar(2) : call.scalar(1);
  call.set_result(0, at::linalg_vector_norm(call.tensor(0), p, call.integers(2), call.boolean(3), call.dtype(4)));
}

// (self, p, dim, maxnorm)
void renorm(Call& call) {
  Structured<at::meta::structured_renorm>(call).infer();
  at::Tensor result = call.result();
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const int64_t dim = at::maybe_wrap_dim(call.integer(2), self.dim());
  c10::DimVector others;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i != dim) others.push_back(i);
  }
  const at::Tensor norms = at::linalg_vector_norm(self, call.scalar(1), others, /*keepdim=*/true);
  const double limit = call.real(3);
  result.copy_(self * at::where(norms.gt(limit), limit / (norms + 1e-7), at::ones({}, norms.options())));
}

// -- losses of margins --------------------------------------------------------------------------------------------

struct Margins {
  at::Tensor x;        // (N, C)
  at::Tensor targets;  // (N, 1)
  at::Tensor weights;  // (N, 1), or undefined
  at::Tensor others;   // 1 where the class is not the target
  at::Tensor excess;   // margin - x[target] + x
  double p;
};

// (self, target, p, margin, weight), beginning with argument `first`
Margins margins_of(Call& call, int first) {
  Margins result;
  const at::Tensor& self = call.tensor(first);
  const at::Tensor& target = call.tensor(first + 1);
  result.p = call.real(first + 2);
  TORCH_CHECK(result.p == 1 || result.p == 2, "multi_margin_loss: Invalid p, expected 1 or 2 but got ", result.p);
  const int64_t classes = self.dim() == 0 ? 1 : self.size(-1);
  TORCH_CHECK(self.dim() <= 2 && classes != 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but ", "got: ", self.sizes());
  result.x = self.reshape({-1, classes});
  TORCH_CHECK(target.dim() <= 1 && target.numel() == result.x.size(0), "inconsistent target size, expected ",
              result.x.size(0), " but got ", target.sizes());
  result.targets = target.reshape({-1, 1});
  result.others = at::ones_like(result.x).scatter(1, result.targets, 0);
  const at::Tensor weight = call.optional_tensor(first + 4);
  if (weight.defined()) {
    TORCH_CHECK(weight.dim() <= 1 && weight.numel() == classes, "inconsistent weight size, expected ", classes,
                " but got ", weight.sizes());
    result.weights = weight.reshape({-1}).index_select(0, result.targets.flatten()).unsqueeze(-1);
  }
  result.excess = (result.x - result.x.gather(1, result.targets) + call.real(first + 3)).clamp_min(0);
  return result;
}

// (self, target, p, margin, weight, reduction)
void multi_margin_loss(Call& call) {
  const Margins margins = margins_of(call, 0);
  at::Tensor losses = (margins.p == 1 ? margins.excess : margins.excess.square()) * margins.others;
  if (margins.weights.defined()) losses = losses * margins.weights;
  losses = losses.sum(-1) / static_cast<double>(margins.x.size(1));
  const int64_t reduction = call.integer(5);
  reduce_loss(call, reduction == at::Reduction::None ? losses.reshape(call.tensor(1).sizes()) : losses, reduction);
}

// (grad_output, self, target, p, margin, weight, reduction)
void multi_margin_loss_backward(Call& call) {
  const Margins margins = margins_of(call, 1);
  at::Tensor slope = (margins.p == 1 ? margins.excess.gt(0).to(margins.x.scalar_type()) : margins.excess * 2);
  slope = slope * margins.others;
  if (margins.weights.defined()) slope = slope * margins.weights;
  slope = slope.scatter(1, margins.targets, slope.sum(-1, /*keepdim=*/true).neg());
  double share = 1 / static_cast<double>(margins.x.size(1));
  const bool is_mean = call.integer(6) == at::Reduction::Mean;
  if (is_mean && margins.x.size(0) != 0) share /= static_cast<double>(margins.x.size(0));
  const at::Tensor gradient = call.tensor(0).reshape({-1, 1});
  call.set_result(0, (slope * gradient * share).view(call.tensor(1).sizes()));
}

struct MultiLabels {
  at::Tensor x;          // (N, C)
  at::Tensor places;     // (N, C): the labels of each row, 0 beyond the last one
  at::Tensor is_label;   // whether a place is one
  at::Tensor is_target;  // (N, C), of x's dtype: which classes are
};

// A row of `target` has its labels before the first negative number.
MultiLabels multi_labels_of(Call& call, const at::Tensor& self, const at::Tensor& target) {
  const int64_t classes = self.dim() == 0 ? 1 : self.size(-1);
  TORCH_CHECK(self.dim() <= 2 && classes != 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but ", "got: ", self.sizes());
  TORCH_CHECK(target.numel() == self.numel(), "inconsistent target size: ", target.sizes(),
              " for input of size: ", self.sizes());
  MultiLabels result;
  result.x = self.reshape({-1, classes});
  const at::Tensor numbers = target.reshape({-1, classes});
  call.check_numbers(view_of(call.keep(numbers + 1)), classes + 1);
  result.is_label = numbers.lt(0).cumsum(1).eq(0);
  result.places = numbers.masked_fill(result.is_label.logical_not(), 0);
  const at::Tensor marks = result.is_label.to(result.x.scalar_type());
  result.is_target = at::zeros_like(result.x).scatter_reduce(1, result.places, marks, "amax");
  return result;
}

// 1 - x[label] + x[class] of each label and each class that is none: (N, labels, C), 0 elsewhere and where it is
// negative
at::Tensor excess_of(const MultiLabels& labels) {
  const at::Tensor excess = (1 - labels.x.gather(1, labels.places).unsqueeze(-1) + labels.x.unsqueeze(1)).clamp_min(0);
  return excess * labels.is_label.unsqueeze(-1) * labels.is_target.eq(0).unsqueeze(1);
}

// (self, target, reduction) -> output, is_target
void multilabel_margin_loss(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const MultiLabels labels = multi_labels_of(call, self, call.tensor(1));
  at::Tensor losses = excess_of(labels).sum(at::IntArrayRef({1, 2})) / static_cast<double>(labels.x.size(1));
  if (call.integer(2) == at::Reduction::None && self.dim() < 2) losses = losses.squeeze(0);
  reduce_loss(call, losses, call.integer(2));
  call.set_result(1, labels.is_target.view(self.sizes()));
}

// (grad_output, self, target, reduction, is_target)
void multilabel_margin_loss_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const MultiLabels labels = multi_labels_of(call, self, call.tensor(2));
  const at::Tensor counts = excess_of(labels).gt(0).to(labels.x.scalar_type());
  const at::Tensor slope = counts.sum(1).scatter_add(1, labels.places, counts.sum(2).neg());
  double share = 1 / static_cast<double>(labels.x.size(1));
  if (call.integer(3) == at::Reduction::Mean) share /= static_cast<double>(labels.x.size(0));
  call.set_result(0, (slope * call.tensor(0).reshape({-1, 1}) * share).view(self.sizes()));
}

// -- the loss of alignments ---------------------------------------------------------------------------------------

std::vector<int64_t> lengths_of(const Call& call, int index) {
  const c10::IValue& value = call.argument(index);
  if (!value.isTensor()) {
    const c10::DimVector numbers = call.integers(index);
    return {numbers.begin(), numbers.end()};
  }
  const at::Tensor host = value.toTensor().to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

at::Tensor on_device(const std::vector<int64_t>& numbers, const at::Tensor& like) {
  return at::tensor(numbers, at::TensorOptions(at::kLong)).to(like.device());
}

// (log_probs (T, N, C), targets, input_lengths, target_lengths), beginning with argument `first`. unihal takes the
// softmax of what it gets, and PyTorch takes it as it is: what they differ by, where it is no log_softmax already, is
// added.
void align(Call& call, int first, int64_t blank, bool zero_infinity, const at::Tensor& losses,
           const at::Tensor& gradient) {
  const at::Tensor& inputs = call.tensor(first);
  const at::Tensor& targets = call.tensor(first + 1);
  const std::vector<int64_t> steps = lengths_of(call, first + 2), lengths = lengths_of(call, first + 3);
  TORCH_CHECK(inputs.numel() > 0, "log_probs tensor must not be empty");
  TORCH_CHECK(inputs.dim() == 3, "log_probs has to be (T, N, C), but has ", inputs.dim(), " dimensions");
  const int64_t batch = inputs.size(1);
  TORCH_CHECK(targets.scalar_type() == at::kLong || targets.scalar_type() == at::kInt,
              "Expected tensor for argument #2 'targets' to have scalar type Long or Int");
  TORCH_CHECK(0 <= blank && blank < inputs.size(2), "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(steps.size()) == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == batch, "target_lengths must be of size batch_size");
  int64_t longest = 0, total = 0;
  for (int64_t i = 0; i < batch; ++i) {
    TORCH_CHECK(steps[i] >= 0 && steps[i] <= inputs.size(0), "Expected input_lengths to have value at most ",
                inputs.size(0), ", but got value ", steps[i], " (while checking arguments for ctc_loss)");
    TORCH_CHECK(lengths[i] >= 0, "Expected target_lengths to have value at least 0, but got value ", lengths[i]);
    longest = std::max(longest, lengths[i]);
    total += lengths[i];
  }
  at::Tensor labels = targets;
  if (targets.dim() == 1) {
    // One after the other: each row begins where the one before it ends.
    TORCH_CHECK(targets.size(0) == total, "Expected tensor for argument #2 'targets' to have size ", total,
                " at dimension 0, but got size ", targets.size(0));
    std::vector<int64_t> places;
    int64_t start = 0;
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t j = 0; j < longest; ++j) places.push_back(j < lengths[i] ? start + j : 0);
      start += lengths[i];
    }
    labels = total == 0 ? at::zeros({batch, longest}, targets.options())
                        : targets.index_select(0, on_device(places, targets)).view({batch, longest});
  } else {
    TORCH_CHECK(targets.size(0) == batch && targets.size(1) >= longest, "Expected targets of (", batch, ", at least ",
                longest, "), but got ", targets.sizes());
  }
  uhal_ctc_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.blank = static_cast<int32_t>(blank);
  attributes.zero_infinity = 0;  // which losses are infinite is to be seen
  const View x = view_of(inputs), y = view_of(call.keep(labels));
  const View of_inputs = view_of(call.keep(on_device(steps, inputs)));
  const View of_labels = view_of(call.keep(on_device(lengths, inputs)));
  const View loss = view_of(losses);
  View slope;
  if (gradient.defined()) slope = view_of(gradient);
  call.launch(UHAL_OP_CTC_LOSS, {&x, &y, &of_inputs, &of_labels}, {&loss, gradient.defined() ? &slope : nullptr},
              &attributes);
  const at::Tensor logarithms = inputs.logsumexp(-1);  // (T, N): of what softmax divides by
  const at::Tensor numbers = at::arange(inputs.size(0), inputs.options().dtype(at::kLong)).unsqueeze(-1);
  const at::Tensor is_step = numbers.lt(on_device(steps, inputs));
  const at::Tensor has_path = losses.isinf().logical_not();
  at::Tensor target = losses;
  target.sub_(at::where(is_step.logical_and(has_path), logarithms, at::zeros({}, inputs.options())).sum(0));
  if (zero_infinity) target.masked_fill_(has_path.logical_not(), 0);
  if (!gradient.defined()) return;
  const at::Tensor more = inputs.exp() - (inputs - logarithms.unsqueeze(-1)).exp();
  at::Tensor sum = gradient;
  sum.add_(more.masked_fill(is_step.logical_and(has_path).logical_not().unsqueeze(-1), 0));
  // What an infinite loss changes by is no number.
  if (!zero_infinity) sum.masked_fill_(is_step.logical_and(has_path.logical_not()).unsqueeze(-1), std::nan(""));
}

// (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity) -> loss, and nothing: the gradient needs
// only what the loss got
void ctc_loss(Call& call) {
  const at::Tensor& inputs = call.tensor(0);
  const at::Tensor losses = empty({inputs.size(1)}, inputs.scalar_type());
  align(call, 0, call.integer(4), call.boolean(5), losses, {});
  call.set_result(0, losses);
  call.set_result(1, empty({0}, inputs.scalar_type()));
}

// (grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity)
void ctc_loss_backward(Call& call) {
  const at::Tensor& inputs = call.tensor(1);
  const at::Tensor gradient = empty(inputs.sizes(), inputs.scalar_type());
  align(call, 1, call.integer(7), call.boolean(8), call.scratch({inputs.size(1)}, inputs.scalar_type()), gradient);
  call.set_result(0, gradient * call.tensor(0).unsqueeze(-1));
}

constexpr Kernel kDistanceKernels[] = {
    {"_cdist_forward", kFloats, distances},
    {"_cdist_backward", kFloats, distances_backward},
    {"_pdist_forward", kFloats, pairwise_distances},
    {"_pdist_backward", kFloats, pairwise_distances_backward},
    {"norm.ScalarOpt_dim", kFloats | kComplex, norm},
    {"norm.ScalarOpt_dim_dtype", kFloats | kComplex, norm_in_dtype},
    {"renorm", kFloats | kComplex, renorm},
    {"multi_margin_loss", kFloats, multi_margin_loss},
    {"multi_margin_loss_backward", kFloats, multi_margin_loss_backward},
    {"multilabel_margin_loss_forward", kFloats, multilabel_margin_loss},
    {"multilabel_margin_loss_backward", kFloats, multilabel_margin_loss_backward},
    {"_ctc_loss", kWideFloats, ctc_loss},
    {"_ctc_loss.Tensor", kWideFloats, ctc_loss},
    {"_ctc_loss_backward", kWideFloats, ctc_loss_backward},
    {"_ctc_loss_backward.Tensor", kWideFloats, ctc_loss_backward},
};

}  // namespace

void register_distance() { register_kernels(kDistanceKernels); }

}  // namespace unihal::pytorch
