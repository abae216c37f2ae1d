// Steps of optimizers with fused=True, and those with foreach=True that python/unihal_torch/optimizers.py brings here.
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// What the gradients are divided by, and whether the step is left out, as torch.amp.GradScaler says. The scaled
// gradients are replaced, as PyTorch's own fused steps do.
bool unscale(std::vector<at::Tensor>& gradients, const at::Tensor& scale, const at::Tensor& found_infinity) {
  if (found_infinity.defined() && found_infinity.item<float>() != 0) return false;
  if (scale.defined()) {
    for (at::Tensor& gradient : gradients) gradient.div_(scale);
  }
  return true;
}

// The gradient with its sign and the decay that is added to it.
at::Tensor prepared(Call& call, const at::Tensor& gradient, const at::Tensor& parameter, double decay, bool maximize) {
  if (decay == 0 && !maximize) return gradient;
  const at::Tensor result = call.scratch(gradient.sizes(), gradient.scalar_type());
  const View g = view_of(gradient), p = view_of(parameter), to = view_of(result);
  Chain chain(2);
  const int sign = chain.step(uhal_map_scale, {0}, {maximize ? -1.0 : 1.0, 0});
  chain.step(uhal_map_add, {sign, chain.step(uhal_map_scale, {1}, {decay, 0})});
  call.launch(UHAL_OP_MAP_CHAIN, {&g, &p}, {&to}, chain.program());
  return result;
}

View learning_rate(Call& call, int index) {
  if (!call.argument(index).isTensor()) return call.constant(call.scalar(index), at::kFloat);
  const at::Tensor& rate = call.tensor(index);
  if (rate.device().is_cpu()) return call.constant(rate.item(), at::kFloat);
  return view_of(rate);
}

// -- lists of numbers, as Adam's counts of steps are ------------------------------------------------------------

// Numbers that lie one behind the other in one storage, as one tensor: python/unihal_torch/optimizers.py puts them so.
// Undefined for others.
at::Tensor in_a_row(const std::vector<at::Tensor>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool follows = numbers[i].numel() == 1 && numbers[i].is_alias_of(numbers[0]) &&
                         numbers[i].scalar_type() == numbers[0].scalar_type() &&
                         numbers[i].storage_offset() == numbers[0].storage_offset() + static_cast<int64_t>(i);
    if (!follows) return {};
  }
  return numbers[0].as_strided({static_cast<int64_t>(numbers.size())}, {1}, numbers[0].storage_offset());
}

// (self[], scalar)
void add_to_each(Call& call) {
  std::vector<at::Tensor> list = call.tensors(0);
  TORCH_CHECK(!list.empty(), "Tensor list must have at least one tensor.");
  at::Tensor row = in_a_row(list);
  if (row.defined()) {
    row.add_(call.scalar(1));
    return;
  }
  for (at::Tensor& tensor : list) tensor.add_(call.scalar(1));
}

// (self[], other[], *, alpha)
void subtract_from_each(Call& call) {
  std::vector<at::Tensor> list = call.tensors(0);
  const std::vector<at::Tensor> others = call.tensors(1);
  TORCH_CHECK(!list.empty(), "Tensor list must have at least one tensor.");
  TORCH_CHECK(list.size() == others.size(), "Tensor lists must have the same number of tensors, got ", list.size(),
              " and ", others.size());
  bool is_same = others[0].numel() == 1;
  for (const at::Tensor& other : others) is_same = is_same && other.is_same(others[0]);
  at::Tensor row = is_same ? in_a_row(list) : at::Tensor();
  if (row.defined()) {
    row.sub_(others[0].reshape({}), call.scalar(2));
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) list[i].sub_(others[i], call.scalar(2));
}

// -- steps -------------------------------------------------------------------------------------------------------

// Powers of Adam's betas, by the number of steps.
class Powers {
 public:
  Powers(Call& call, double beta1, double beta2, const std::vector<at::Tensor>& steps)
      : call_(call), betas_{beta1, beta2}, steps_(steps) {
    for (const at::Tensor& count : steps) on_device_ = on_device_ && !count.device().is_cpu();
  }

  // Those of a parameter. Counts of steps lie on the device, where they are taken all together, or on the host, where
  // they are the same for most parameters.
  void at(size_t i, at::ScalarType dtype) {
    if (on_device_) {
      at::Tensor& all = of_all_[dtype == at::kDouble ? 1 : 0];
      if (!all.defined()) all = computed(dtype);
      for (int j = 0; j < 2; ++j) views[j] = view_of(all.select(0, j).select(0, static_cast<int64_t>(i)));
      return;
    }
    const double count = steps_[i].item<double>();
    if (count == count_ && dtype == dtype_) return;
    for (int j = 0; j < 2; ++j) views[j] = call_.constant(std::pow(betas_[j], count), dtype);
    count_ = count;
    dtype_ = dtype;
  }

  View views[2];

 private:
  at::Tensor computed(at::ScalarType dtype) {
    at::Tensor counts = in_a_row(steps_);
    if (!counts.defined()) {
      std::vector<at::Tensor> flat;
      for (const at::Tensor& count : steps_) flat.push_back(count.reshape({1}));
      counts = call_.keep(at::cat(flat));
    }
    const at::Tensor powers = call_.scratch({2, counts.size(0)}, dtype);
    const View from = view_of(counts), first = view_of(powers.select(0, 0)), second = view_of(powers.select(0, 1));
    Chain chain(1);
    int results[2];
    for (int j = 0; j < 2; ++j) {
      results[j] = chain.step(uhal_map_exp, {chain.step(uhal_map_scale, {0}, {std::log(betas_[j]), 0})});
    }
    call_.launch(UHAL_OP_MAP_CHAIN, {&from}, {&first, &second}, chain.program({results[0], results[1]}));
    return powers;
  }

  Call& call_;
  const double betas_[2];
  const std::vector<at::Tensor>& steps_;
  bool on_device_ = true;
  at::Tensor of_all_[2];  // in float32 and in float64
  double count_ = -1;     // what the views are of, if it lay on the host
  at::ScalarType dtype_ = at::kFloat;
};

// (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay, eps, amsgrad,
// maximize, grad_scale, found_inf)
template <bool kDecoupled>
void adam(Call& call) {
  const std::vector<at::Tensor> parameters = call.tensors(0);
  std::vector<at::Tensor> gradients = call.tensors(1);
  const std::vector<at::Tensor> first = call.tensors(2), second = call.tensors(3), largest = call.tensors(4),
                                steps = call.tensors(5);
  const double beta1 = call.real(7), beta2 = call.real(8), decay = call.real(9), epsilon = call.real(10);
  const bool amsgrad = call.boolean(11), maximize = call.boolean(12);
  if (!unscale(gradients, call.optional_tensor(13), call.optional_tensor(14))) return;
  const View rate = learning_rate(call, 6);
  Powers powers(call, beta1, beta2, steps);
  LaunchGroup group(call.stream());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    const at::Tensor gradient = prepared(call, gradients[i], parameters[i], kDecoupled ? 0 : decay, maximize);
    const at::ScalarType wide = parameters[i].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    powers.at(i, wide);
    const View p = view_of(parameters[i]), g = view_of(gradient), m = view_of(first[i]), v = view_of(second[i]);
    const std::initializer_list<double> numbers = {beta1, beta2, epsilon, kDecoupled ? decay : 0, 1};
    if (amsgrad) {
      const View l = view_of(largest[i]);
      call.map(uhal_map_adam_amsgrad, {&p, &g, &m, &v, &rate, &powers.views[0], &powers.views[1], &l}, {&p, &m, &v, &l},
               numbers);
    } else {
      call.map(uhal_map_adam, {&p, &g, &m, &v, &rate, &powers.views[0], &powers.views[1]}, {&p, &m, &v}, numbers);
    }
  }
  check(group.end());
}

// (self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
// grad_scale, found_inf)
void sgd(Call& call) {
  const std::vector<at::Tensor> parameters = call.tensors(0);
  std::vector<at::Tensor> gradients = call.tensors(1);
  const std::vector<at::Tensor> buffers = call.tensors(2);
  const double decay = call.real(3), momentum = call.real(4), dampening = call.real(6);
  const bool nesterov = call.boolean(7), maximize = call.boolean(8), is_first = call.boolean(9);
  if (!unscale(gradients, call.optional_tensor(10), call.optional_tensor(11))) return;
  const View rate = learning_rate(call, 5);
  LaunchGroup group(call.stream());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    const View p = view_of(parameters[i]), g = view_of(gradients[i]);
    if (momentum == 0) {
      const at::Tensor gradient = prepared(call, gradients[i], parameters[i], decay, maximize);
      const View from = view_of(gradient);
      call.map(uhal_map_sgd, {&p, &from, &rate}, {&p});
      continue;
    }
    const View buffer = view_of(buffers[i]);
    Chain chain(4);  // parameter, gradient, buffer, rate
    const int sign = chain.step(uhal_map_scale, {1}, {maximize ? -1.0 : 1.0, 0});
    const int gradient = chain.step(uhal_map_add, {sign, chain.step(uhal_map_scale, {0}, {decay, 0})});
    int moved = gradient;
    if (!is_first) {
      const int kept = chain.step(uhal_map_scale, {2}, {momentum, 0});
      moved = chain.step(uhal_map_add, {kept, chain.step(uhal_map_scale, {gradient}, {1 - dampening, 0})});
    }
    int direction = moved;
    if (nesterov) direction = chain.step(uhal_map_add, {gradient, chain.step(uhal_map_scale, {moved}, {momentum, 0})});
    const int next = chain.step(uhal_map_subtract, {0, chain.step(uhal_map_multiply, {direction, 3})});
    call.launch(UHAL_OP_MAP_CHAIN, {&p, &g, &buffer, &rate}, {&p, &buffer}, chain.program({next, moved}));
  }
  check(group.end());
}

// -- torch.amp.GradScaler ---------------------------------------------------------------------------------------

// (self[], found_inf, inv_scale): each gradient times inv_scale; found_inf is 1 if one was not finite.
void unscale_and_check(Call& call) {
  const at::Tensor& found = call.tensor(1);
  const at::Tensor& factor = call.tensor(2);
  TORCH_CHECK(found.numel() == 1 && factor.numel() == 1, "found_inf and inv_scale must be tensors of one element");
  TORCH_CHECK(found.scalar_type() == at::kFloat && factor.scalar_type() == at::kFloat,
              "found_inf and inv_scale must be float tensors");
  View flag = view_of(found);
  View by = view_of(factor);
  flag.rank = by.rank = 0;
  for (const at::Tensor& gradient : call.tensors(0)) {
    if (gradient.numel() == 0) continue;
    const View g = view_of(gradient);
    const at::Tensor wrong = call.scratch(gradient.sizes(), at::kBool);
    const View w = view_of(wrong);
    Chain chain(2);
    const int finite = chain.step(uhal_map_is_finite, {0});
    const int missing = chain.step(uhal_map_logical_not, {finite});
    const int scaled = chain.step(uhal_map_multiply, {0, 1});
    call.launch(UHAL_OP_MAP_CHAIN, {&g, &by}, {&g, &w}, chain.program({scaled, missing}));
    const at::Tensor any = call.scratch({}, at::kFloat);
    const View a = view_of(any);
    View reduced = a;
    reduced.rank = w.rank;
    for (int i = 0; i < w.rank; ++i) reduced.shape[i] = reduced.strides[i] = 1;
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_ANY);
    call.launch(UHAL_OP_REDUCE, {&w}, {&reduced}, &attributes);
    call.map(uhal_map_maximum, {&flag, &a}, {&flag});
  }
}

// (self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval): the scale, smaller
// after a gradient that was not finite, larger after an interval without one.
void update_scale(Call& call) {
  at::Tensor scale = call.tensor(0);
  at::Tensor tracker = call.tensor(1);
  const at::Tensor found = call.tensor(2).reshape(scale.sizes()).ne(0);
  const at::Tensor count = tracker.reshape(scale.sizes()).add(1);
  const at::Tensor is_full = count.eq(call.scalar(5));
  const at::Tensor grown = scale.mul(call.scalar(3));
  const at::Tensor kept = at::where(is_full.logical_and(grown.isfinite()), grown, scale);
  scale.copy_(at::where(found, scale.mul(call.scalar(4)), kept));
  tracker.copy_(count.masked_fill(found.logical_or(is_full), 0).reshape(tracker.sizes()));
}

constexpr Kernel kOptimizerKernels[] = {
    {"_foreach_add_.Scalar", kAll, add_to_each},
    {"_foreach_sub_.List", kAll, subtract_from_each},
    {"_amp_foreach_non_finite_check_and_unscale_", kFloats, unscale_and_check},
    {"_amp_update_scale_", kFloats, update_scale},
    {"_fused_adam_", kFloats, adam<false>},
    {"_fused_adam_.tensor_lr", kFloats, adam<false>},
    {"_fused_adamw_", kFloats, adam<true>},
    {"_fused_adamw_.tensor_lr", kFloats, adam<true>},
    {"_fused_sgd_", kFloats, sgd},
    {"_fused_sgd_.tensor_lr", kFloats, sgd},
};

}  // namespace

void register_optimizer() { register_kernels(kOptimizerKernels); }

}  // namespace unihal::pytorch
