// Losses.
#include <ATen/core/Reduction.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {

void reduce_loss(Call& call, const at::Tensor& losses, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return call.set_result(0, at::mean(losses));
  if (reduction == at::Reduction::Sum) return call.set_result(0, at::sum(losses));
  call.set_result(0, losses);
}

namespace {

// An iterator over operands that broadcast, for a new tensor.
at::TensorIterator broadcast(const at::Tensor& out, std::initializer_list<at::Tensor> inputs) {
  at::TensorIteratorConfig config;
  configure(config);
  config.cast_common_dtype_to_outputs(true).add_owned_output(out);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build();
}

// What a mean divides the gradient by.
double share(const at::Tensor& input, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(input.numel()) : 1.0;
}

// A loss of two operands (self, target, reduction, ...) by a program of them.
void loss(Call& call, Chain& chain) {
  at::TensorIterator iterator = broadcast({}, {call.tensor(0), call.tensor(1)});
  launch_chain(call, iterator, chain);
  reduce_loss(call, iterator.output(), call.integer(2));
}

// Its gradient (grad_output, self, target, reduction, ...) by a program of these three.
void loss_backward(Call& call, Chain& chain) {
  at::TensorIterator iterator = broadcast(call.result(), {call.tensor(0), call.tensor(1), call.tensor(2)});
  if (!call.result().defined()) call.set_result(0, iterator.output());
  launch_chain(call, iterator, chain);
}

void mean_squared_error(Call& call) {
  Chain chain(2);
  chain.step(uhal_map_squared_difference, {0, 1});
  loss(call, chain);
}

void mean_squared_error_backward(Call& call) {
  Chain chain(3);
  const int scaled = chain.step(uhal_map_scale, {chain.step(uhal_map_subtract, {1, 2})},
                                {2 * share(call.tensor(1), call.integer(3)), 0});
  chain.step(uhal_map_multiply, {0, scaled});
  loss_backward(call, chain);
}

// A parabola up to `limit`, a line beyond, times `factor`: c (a - c / 2) of a = |x - y| and c = min(a, limit).
void parabola_and_line(Call& call, double limit, double factor) {
  Chain chain(2);
  const int size = chain.step(uhal_map_absolute, {chain.step(uhal_map_subtract, {0, 1})});
  const int cut = chain.step(uhal_map_clip, {size}, {0, limit});
  const int rest = chain.step(uhal_map_add, {size, chain.step(uhal_map_scale, {cut}, {-0.5, 0})});
  chain.step(uhal_map_scale, {chain.step(uhal_map_multiply, {cut, rest})}, {factor, 0});
  loss(call, chain);
}

void parabola_and_line_backward(Call& call, double limit, double factor) {
  Chain chain(3);
  const int cut = chain.step(uhal_map_clip, {chain.step(uhal_map_subtract, {1, 2})}, {-limit, limit});
  const int scaled = chain.step(uhal_map_scale, {cut}, {factor * share(call.tensor(1), call.integer(3)), 0});
  chain.step(uhal_map_multiply, {0, scaled});
  loss_backward(call, chain);
}

void smooth_l1(Call& call) {
  const double beta = call.real(3);
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  if (beta == 0) return reduce_loss(call, at::abs(at::sub(call.tensor(0), call.tensor(1))), call.integer(2));
  parabola_and_line(call, beta, 1 / beta);
}

void smooth_l1_backward(Call& call) {
  const double beta = call.real(4);
  if (beta != 0) return parabola_and_line_backward(call, beta, 1 / beta);
  Chain chain(3);
  const int sign = chain.step(uhal_map_sign, {chain.step(uhal_map_subtract, {1, 2})});
  const int scaled = chain.step(uhal_map_scale, {sign}, {share(call.tensor(1), call.integer(3)), 0});
  chain.step(uhal_map_multiply, {0, scaled});
  loss_backward(call, chain);
}

void huber(Call& call) {
  TORCH_CHECK(call.real(3) > 0, "huber_loss does not support non-positive values for delta.");
  parabola_and_line(call, call.real(3), 1);
}
void huber_backward(Call& call) { parabola_and_line_backward(call, call.real(4), 1); }

// (self, target, weight, reduction): -(t max(log x, -100) + (1 - t) max(log(1 - x), -100))
void binary_cross_entropy(Call& call) {
  TORCH_CHECK(call.tensor(0).sizes() == call.tensor(1).sizes(), "Using a target size (", call.tensor(1).sizes(),
              ") that is different to the input size (", call.tensor(0).sizes(), ") is deprecated");
  refuse_unless(call.tensor(0).eq(call.tensor(0).clamp(0, 1)), "all elements of input should be between 0 and 1");
  at::TensorIterator iterator = broadcast({}, {call.tensor(0), call.tensor(1)});
  Chain chain(2);
  const int log_x = chain.step(uhal_map_clip, {chain.step(uhal_map_log, {0})}, {-100, HUGE_VAL});
  const int rest = chain.step(uhal_map_log1p, {chain.step(uhal_map_negative, {0})});
  const int log_rest = chain.step(uhal_map_clip, {rest}, {-100, HUGE_VAL});
  const int other = chain.step(uhal_map_add_then_scale, {1}, {1, -1});  // t - 1
  const int first = chain.step(uhal_map_multiply, {other, log_rest});
  chain.step(uhal_map_subtract, {first, chain.step(uhal_map_multiply, {1, log_x})});
  launch_chain(call, iterator, chain);
  at::Tensor losses = iterator.output();
  if (!call.is_none(2)) losses = losses * call.tensor(2);
  reduce_loss(call, losses, call.integer(3));
}

// (grad_output, self, target, weight, reduction): g (x - t) / max(x (1 - x), 1e-12)
void binary_cross_entropy_backward(Call& call) {
  at::TensorIterator iterator = broadcast(call.result(), {call.tensor(0), call.tensor(1), call.tensor(2)});
  if (!call.result().defined()) call.set_result(0, iterator.output());
  Chain chain(3);
  const int rest = chain.step(uhal_map_add_then_scale, {1}, {-1, -1});  // 1 - x
  const int below = chain.step(uhal_map_clip, {chain.step(uhal_map_multiply, {rest, 1})}, {1e-12, HUGE_VAL});
  const int above = chain.step(uhal_map_multiply, {0, chain.step(uhal_map_subtract, {1, 2})});
  chain.step(uhal_map_scale, {chain.step(uhal_map_divide, {above, below})},
             {share(call.tensor(1), call.integer(4)), 0});
  launch_chain(call, iterator, chain);
  if (!call.is_none(3)) {
    at::Tensor result = call.result();
    result.mul_(call.tensor(3));
  }
}

// -- negative log likelihood ------------------------------------------------------------------------------------

// The class of each row as an operand of gather along axis 1, and the weight of each row: 0 where it is ignored.
struct Labels {
  at::Tensor classes;
  at::Tensor weights;
};

Labels labels_of(Call& call, const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight,
                 int64_t ignored) {
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected scalar type Long but found ", target.scalar_type());
  const int axis = self.dim() == 1 ? 0 : 1;
  const at::Tensor given = call.keep(target.scalar_type() == at::kLong ? target : target.to(at::kLong));
  Labels labels;
  labels.classes = call.keep(at::empty_like(given, at::MemoryFormat::Contiguous));
  labels.weights = call.keep(at::empty(given.sizes(), self.options()));
  const View t = view_of(given);
  const View classes = view_of(labels.classes);
  const View weights = view_of(labels.weights);
  const View label = call.constant(ignored, at::kLong);
  Chain chain(2);  // is it another class; and that class, or 0
  const int valid = chain.step(uhal_map_not_equal, {0, 1});
  const int chosen = chain.step(uhal_map_multiply, {0, valid});
  call.launch(UHAL_OP_MAP_CHAIN, {&t, &label}, {&weights, &classes}, chain.program({valid, chosen}));
  if (weight.defined()) {
    const at::Tensor picked = call.keep(at::empty_like(labels.weights));
    const View w = view_of(weight);
    const View p = view_of(picked);
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&w, &classes}, {&p}, &attributes);
    call.map(uhal_map_multiply, {&weights, &p}, {&weights});
  }
  labels.classes = call.keep(labels.classes.unsqueeze(axis));
  return labels;
}

void likelihood(Call& call, const at::Tensor& self, const at::Tensor& result, const at::Tensor& total) {
  const int64_t reduction = call.integer(3);
  const int axis = self.dim() == 1 ? 0 : 1;
  const at::Tensor& target = call.tensor(1);
  if (target.numel() == 0) {
    total.zero_();
    if (reduction == at::Reduction::Mean) result.fill_(std::numeric_limits<double>::quiet_NaN());
    if (reduction == at::Reduction::Sum) result.zero_();
    return;
  }
  const Labels labels = labels_of(call, self, target, call.optional_tensor(2), call.integer(4));
  const at::Tensor picked = call.keep(at::empty_like(labels.weights));
  const View x = view_of(self);
  const View classes = view_of(labels.classes);
  const View into = view_of(picked).unsqueezed(axis);
  const uhal_index_attributes attributes = index_attributes(axis);
  call.launch(UHAL_OP_GATHER_ELEMENTS, {&x, &classes}, {&into}, &attributes);
  const bool is_reduced = reduction != at::Reduction::None;
  const at::Tensor losses = is_reduced ? picked : result;
  const View p = view_of(picked), w = view_of(labels.weights), l = view_of(losses);
  Chain chain(2);  // what is ignored is 0, also where the logarithm is infinite
  const int product = chain.step(uhal_map_multiply_no_nan, {0, 1});
  chain.step(uhal_map_negative, {product});
  call.launch(UHAL_OP_MAP_CHAIN, {&p, &w}, {&l}, chain.program());
  at::Tensor sum = total;
  if (!is_reduced) {
    sum.zero_();
    return;
  }
  sum.copy_(at::sum(labels.weights));
  at::Tensor into_result = result;
  into_result.copy_(at::sum(losses));
  if (reduction == at::Reduction::Mean) into_result.div_(total);
}

// (self, target, weight, reduction, ignore_index)
void nll(Call& call) {
  Structured<at::meta::structured_nll_loss_forward>(call).infer();
  likelihood(call, call.tensor(0), call.result(0), call.result(1));
}

void nll_of_images(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  const bool is_reduced = call.integer(3) != at::Reduction::None;
  const at::Tensor& result = call.make_result(0, is_reduced ? at::IntArrayRef() : target.sizes(), self.scalar_type());
  const at::Tensor& total = call.make_result(1, {}, self.scalar_type());
  likelihood(call, self, result, total);
}

// (grad_output, self, target, weight, reduction, ignore_index, total_weight)
void likelihood_backward(Call& call, const at::Tensor& self, const at::Tensor& result) {
  const int64_t reduction = call.integer(4);
  const int axis = self.dim() == 1 ? 0 : 1;
  const at::Tensor& target = call.tensor(2);
  if (result.numel() == 0) return;
  const View dx = view_of(result);
  call.fill(dx, 0);
  if (target.numel() == 0) return;
  const Labels labels = labels_of(call, self, target, call.optional_tensor(3), call.integer(5));
  at::Tensor updates = at::mul(labels.weights, call.tensor(0)).neg_();
  if (reduction == at::Reduction::Mean) updates.div_(call.tensor(6));
  // Ignored rows stay 0, even if all are and the mean is over nothing.
  updates.masked_fill_(at::eq(target, call.integer(5)), 0);
  call.keep(updates);
  const View u = view_of(updates).unsqueezed(axis);
  const View classes = view_of(labels.classes);
  const uhal_index_attributes attributes = index_attributes(axis);
  call.launch(UHAL_OP_SCATTER_ELEMENTS, {&classes, &u}, {&dx}, &attributes);
}

void nll_backward(Call& call) {
  Structured<at::meta::structured_nll_loss_backward>(call).infer();
  likelihood_backward(call, call.tensor(1), call.result());
}

void nll_of_images_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  likelihood_backward(call, self, call.make_result(0, self.sizes(), self.scalar_type()));
}

constexpr Kernel kLossKernels[] = {
    {"mse_loss", kFloats, mean_squared_error},
    {"mse_loss_backward", kFloats, mean_squared_error_backward},
    {"smooth_l1_loss", kFloats, smooth_l1},
    {"smooth_l1_loss_backward", kFloats, smooth_l1_backward},
    {"huber_loss", kFloats, huber},
    {"huber_loss_backward", kFloats, huber_backward},
    {"binary_cross_entropy", kFloats, binary_cross_entropy},
    {"binary_cross_entropy_backward", kFloats, binary_cross_entropy_backward},
    {"nll_loss_forward", kFloats, nll},
    {"nll_loss_backward", kFloats, nll_backward},
    {"nll_loss2d_forward", kFloats, nll_of_images},
    {"nll_loss2d_backward", kFloats, nll_of_images_backward},
};

}  // namespace

void register_loss() { register_kernels(kLossKernels); }

}  // namespace unihal::pytorch
