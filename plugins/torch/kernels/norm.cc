// Normalizations. PyTorch keeps 1 / sqrt(variance + epsilon), unihal the variance: its inverse square has epsilon in
// it.
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

at::ScalarType statistics_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// A scale, bias or statistic in the precision that unihal keeps them in; undefined stays so.
at::Tensor wide(Call& call, const at::Tensor& tensor, at::ScalarType dtype) {
  if (!tensor.defined() || tensor.scalar_type() == dtype) return tensor;
  return call.keep(tensor.to(dtype));
}

// Parameters are of x's dtype; beside float16 and bfloat16 they may be float32, as on PyTorch's CPU.
void check_dtypes(const at::Tensor& x, std::initializer_list<at::Tensor> parameters) {
  const bool is_wide = x.scalar_type() == at::kDouble || x.scalar_type() == at::kFloat;
  for (const at::Tensor& parameter : parameters) {
    TORCH_CHECK(!parameter.defined() || !is_wide || parameter.scalar_type() == x.scalar_type(),
                "mixed dtype: expected a parameter of ", x.scalar_type(), ", but got ", parameter.scalar_type());
  }
}

const uhal_tensor* or_null(const at::Tensor& tensor, View& view) {
  if (!tensor.defined()) return nullptr;
  view = view_of(tensor);
  return &view;
}

// variance -> 1 / sqrt(variance + epsilon)
void invert(Call& call, const View& variance, const View& to, double epsilon) {
  Chain chain(1);
  chain.step(uhal_map_rsqrt, {chain.step(uhal_map_add_then_scale, {0}, {1, epsilon})});
  call.launch(UHAL_OP_MAP_CHAIN, {&variance}, {&to}, chain.program());
}

// 1 / sqrt(variance + epsilon) -> variance + epsilon, for which epsilon is 0 then
at::Tensor variance_of(Call& call, const at::Tensor& inverse, at::ScalarType dtype) {
  const at::Tensor variance = call.scratch(inverse.sizes(), dtype);
  const View from = view_of(inverse);
  const View to = view_of(variance);
  if (inverse.numel() != 0) call.map(uhal_map_power_scalar, {&from}, {&to}, {-2});
  return variance;
}

// -- batch norm -------------------------------------------------------------------------------------------------

void batch_norm(Call& call, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& running_mean,
                const at::Tensor& running_variance, bool training, double momentum, double epsilon) {
  const at::Tensor& input = call.tensor(0);
  TORCH_CHECK(input.dim() >= 2, "batch norm needs a batch and channels, got ", input.sizes());
  check_dtypes(input, {weight, bias, running_mean, running_variance});
  const int64_t channels = input.size(1);
  const at::ScalarType dtype = statistics_dtype(input);
  const at::Tensor result = empty(input.sizes(), input.scalar_type(), input.suggest_memory_format());
  call.set_result(0, result);
  const at::ScalarType given =
      weight.defined() && weight.scalar_type() != input.scalar_type() ? dtype : input.scalar_type();
  const at::Tensor saved_mean = empty({training ? channels : 0}, given);
  const at::Tensor saved_inverse = empty({training ? channels : 0}, given);
  call.set_result(1, saved_mean);
  call.set_result(2, saved_inverse);
  TORCH_CHECK(training || (running_mean.defined() && running_variance.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  if (input.numel() == 0) return;
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.inference = !training;
  attributes.momentum = 1 - momentum;
  attributes.unbiased_running = 1;
  View scale, shift, mean_before, variance_before;
  const at::Tensor wide_weight = wide(call, weight, dtype), wide_bias = wide(call, bias, dtype);
  const at::Tensor wide_mean = wide(call, running_mean, dtype), wide_variance = wide(call, running_variance, dtype);
  const uhal_tensor* const s = or_null(wide_weight, scale);
  const uhal_tensor* const b = or_null(wide_bias, shift);
  const uhal_tensor* const m = or_null(wide_mean, mean_before);
  const uhal_tensor* const v = or_null(wide_variance, variance_before);
  const View x = view_of(input);
  const View y = view_of(result);
  if (!training) return call.launch(UHAL_OP_BATCH_NORM, {&x, s, b, m, v}, {&y}, &attributes);
  const View mean = view_of(given == dtype ? saved_mean : call.scratch({channels}, dtype));
  const View variance = view_of(given == dtype ? saved_inverse : call.scratch({channels}, dtype));
  call.launch(UHAL_OP_BATCH_NORM, {&x, s, b, m, v}, {&y, &mean, &variance, m, v}, &attributes);
  invert(call, variance, view_of(saved_inverse), epsilon);
  if (given != dtype) call.cast(mean, view_of(saved_mean));
  if (running_mean.defined() && !wide_mean.is_same(running_mean)) running_mean.copy_(wide_mean);
  if (running_variance.defined() && !wide_variance.is_same(running_variance)) running_variance.copy_(wide_variance);
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps)
void batch_norm_with_statistics(Call& call) {
  batch_norm(call, call.optional_tensor(1), call.optional_tensor(2), call.optional_tensor(3), call.optional_tensor(4),
             call.boolean(5), call.real(6), call.real(7));
}

// (input, weight, bias, training, momentum, eps)
void batch_norm_without_statistics(Call& call) {
  batch_norm(call, call.optional_tensor(1), call.optional_tensor(2), {}, {}, call.boolean(3), call.real(4),
             call.real(5));
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
void batch_norm_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const bool training = call.boolean(7);
  const double epsilon = call.real(8);
  const auto wanted = call.argument(9).toBoolList();
  const int64_t channels = input.size(1);
  const at::ScalarType dtype = statistics_dtype(input);
  const at::Tensor weight = call.optional_tensor(2);
  const at::ScalarType parameter = weight.defined() ? weight.scalar_type() : dtype;
  const at::Tensor result = empty(input.sizes(), input.scalar_type(), input.suggest_memory_format());
  const at::Tensor dweight = wanted[1] ? empty({channels}, dtype) : at::Tensor();
  const at::Tensor dbias = wanted[2] ? empty({channels}, dtype) : at::Tensor();
  if (input.numel() == 0) {
    if (wanted[1]) dweight.zero_();
    if (wanted[2]) dbias.zero_();
  } else {
    at::Tensor mean, variance;
    if (training) {
      mean = wide(call, call.tensor(5), dtype);
      variance = variance_of(call, call.tensor(6), dtype);
    } else {
      mean = wide(call, call.tensor(3), dtype);
      variance = wide(call, call.tensor(4), dtype);
    }
    uhal_norm_attributes attributes = norm_attributes(training ? 0 : epsilon);
    attributes.inference = !training;
    View scale, ds, db;
    const at::Tensor wide_weight = wide(call, weight, dtype);
    const uhal_tensor* const s = or_null(wide_weight, scale);
    const View x = view_of(input), dy = view_of(gradient), m = view_of(mean), v = view_of(variance),
               dx = view_of(result);
    call.launch(UHAL_OP_BATCH_NORM_BACKWARD, {&x, &dy, s, &m, &v}, {&dx, or_null(dweight, ds), or_null(dbias, db)},
                &attributes);
  }
  if (wanted[0]) call.set_result(0, result);
  if (wanted[1]) call.set_result(1, dweight.to(parameter));
  if (wanted[2]) call.set_result(2, dbias.to(parameter));
}

// -- layer norm -------------------------------------------------------------------------------------------------

// The axes from `axis` on are normalized: the number of the first, and the shape of the statistics.
int normalized_axis(const at::Tensor& input, at::IntArrayRef shape, c10::DimVector& statistics) {
  const int64_t axis = input.dim() - static_cast<int64_t>(shape.size());
  TORCH_CHECK(axis >= 0 && input.sizes().slice(static_cast<size_t>(axis)) == shape, "Given normalized_shape=", shape,
              ", expected input with shape [*, ...], but got input of size", input.sizes());
  statistics = c10::DimVector(input.sizes());
  for (size_t i = static_cast<size_t>(axis); i < statistics.size(); ++i) statistics[i] = 1;
  return static_cast<int>(axis);
}

// (input, normalized_shape, weight, bias, eps)
void layer_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const double epsilon = call.real(4);
  c10::DimVector statistics;
  const c10::DimVector shape = call.integers(1);
  const at::Tensor weight = call.optional_tensor(2), bias = call.optional_tensor(3);
  check_dtypes(call.tensor(0), {weight, bias});
  TORCH_CHECK(!weight.defined() || weight.sizes() == at::IntArrayRef(shape),
              "Expected weight to be of same shape as "
              "normalized_shape, but got weight of shape ",
              weight.sizes(), " and normalized_shape = ", at::IntArrayRef(shape));
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.axis = normalized_axis(input, shape, statistics);
  const at::ScalarType dtype = statistics_dtype(input);
  const at::ScalarType given =
      weight.defined() && weight.scalar_type() != input.scalar_type() ? dtype : input.scalar_type();
  const at::Tensor& result = call.make_result(0, input.sizes(), input.scalar_type());
  const at::Tensor& saved_mean = call.make_result(1, statistics, given);
  const at::Tensor& saved_inverse = call.make_result(2, statistics, given);
  if (input.numel() == 0) return;
  View scale, shift;
  const at::Tensor wide_weight = wide(call, weight, dtype), wide_bias = wide(call, bias, dtype);
  const uhal_tensor* const s = or_null(wide_weight, scale);
  const uhal_tensor* const b = or_null(wide_bias, shift);
  const at::Tensor mean = given == dtype ? saved_mean : call.scratch(statistics, dtype);
  const at::Tensor variance = given == dtype ? saved_inverse : call.scratch(statistics, dtype);
  const View x = view_of(input), y = view_of(result), m = view_of(mean), v = view_of(variance);
  call.launch(UHAL_OP_LAYER_NORM, {&x, s, b}, {&y, &m, &v}, &attributes);
  invert(call, v, view_of(saved_inverse), epsilon);
  if (given != dtype) call.cast(m, view_of(saved_mean));
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
void layer_norm_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const c10::DimVector shape = call.integers(2);
  const at::Tensor weight = call.optional_tensor(5), bias = call.optional_tensor(6);
  const auto wanted = call.argument(7).toBoolList();
  c10::DimVector statistics;
  uhal_norm_attributes attributes = norm_attributes(0);
  attributes.axis = normalized_axis(input, shape, statistics);
  const at::ScalarType dtype = statistics_dtype(input);
  const at::Tensor result = empty(input.sizes(), input.scalar_type());
  const at::Tensor dweight = wanted[1] ? empty(shape, dtype) : at::Tensor();
  const at::Tensor dbias = wanted[2] ? empty(shape, dtype) : at::Tensor();
  if (input.numel() == 0) {
    if (wanted[1]) dweight.zero_();
    if (wanted[2]) dbias.zero_();
  } else {
    const at::Tensor mean = wide(call, call.keep(call.tensor(3).reshape(statistics)), dtype);
    const at::Tensor variance = variance_of(call, call.keep(call.tensor(4).reshape(statistics)), dtype);
    const at::Tensor wide_weight = wide(call, weight, dtype);
    View scale, ds, db;
    const uhal_tensor* const s = or_null(wide_weight, scale);
    const View x = view_of(input), dy = view_of(gradient), m = view_of(mean), v = view_of(variance),
               dx = view_of(result);
    call.launch(UHAL_OP_LAYER_NORM_BACKWARD, {&x, &dy, s, &m, &v}, {&dx, or_null(dweight, ds), or_null(dbias, db)},
                &attributes);
  }
  if (wanted[0]) call.set_result(0, result);
  if (wanted[1]) call.set_result(1, weight.defined() ? dweight.to(weight.scalar_type()) : dweight);
  if (wanted[2]) call.set_result(2, bias.defined() ? dbias.to(bias.scalar_type()) : dbias);
}

// -- group norm -------------------------------------------------------------------------------------------------

// (input, weight, bias, N, C, HxW, group, eps)
void group_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor weight = call.optional_tensor(1), bias = call.optional_tensor(2);
  check_dtypes(call.tensor(0), {weight, bias});
  const int64_t batch = call.integer(3), channels = call.integer(4), groups = call.integer(6);
  const double epsilon = call.real(7);
  TORCH_CHECK(groups > 0 && channels % groups == 0,
              "Expected number of channels in input to be divisible by num_groups");
  const at::ScalarType dtype = statistics_dtype(input);
  const at::ScalarType given =
      weight.defined() && weight.scalar_type() != input.scalar_type() ? dtype : input.scalar_type();
  const at::Tensor result = empty(input.sizes(), input.scalar_type(), input.suggest_memory_format());
  call.set_result(0, result);
  const at::Tensor& saved_mean = call.make_result(1, {batch, groups}, given);
  const at::Tensor& saved_inverse = call.make_result(2, {batch, groups}, given);
  if (input.numel() == 0) return;
  uhal_norm_attributes attributes = norm_attributes(epsilon);
  attributes.groups = groups;
  View scale, shift;
  const at::Tensor wide_weight = wide(call, weight, dtype), wide_bias = wide(call, bias, dtype);
  const uhal_tensor* const s = or_null(wide_weight, scale);
  const uhal_tensor* const b = or_null(wide_bias, shift);
  const at::Tensor mean = given == dtype ? saved_mean : call.scratch({batch, groups}, dtype);
  const at::Tensor variance = given == dtype ? saved_inverse : call.scratch({batch, groups}, dtype);
  const View x = view_of(input), y = view_of(result), m = view_of(mean), v = view_of(variance);
  call.launch(UHAL_OP_GROUP_NORM, {&x, s, b}, {&y, &m, &v}, &attributes);
  invert(call, v, view_of(saved_inverse), epsilon);
  if (given != dtype) call.cast(m, view_of(saved_mean));
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
void group_norm_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const at::Tensor weight = call.optional_tensor(4);
  const int64_t channels = call.integer(6);
  const auto wanted = call.argument(9).toBoolList();
  const at::ScalarType dtype = statistics_dtype(input);
  const at::Tensor result = empty(input.sizes(), input.scalar_type(), input.suggest_memory_format());
  const at::Tensor dweight = wanted[1] ? empty({channels}, dtype) : at::Tensor();
  const at::Tensor dbias = wanted[2] ? empty({channels}, dtype) : at::Tensor();
  if (input.numel() == 0) {
    if (wanted[1]) dweight.zero_();
    if (wanted[2]) dbias.zero_();
  } else {
    uhal_norm_attributes attributes = norm_attributes(0);
    attributes.groups = call.integer(8);
    const at::Tensor mean = wide(call, call.tensor(2), dtype);
    const at::Tensor variance = variance_of(call, call.tensor(3), dtype);
    const at::Tensor wide_weight = wide(call, weight, dtype);
    View scale, ds, db;
    const uhal_tensor* const s = or_null(wide_weight, scale);
    const View x = view_of(input), dy = view_of(gradient), m = view_of(mean), v = view_of(variance),
               dx = view_of(result);
    call.launch(UHAL_OP_GROUP_NORM_BACKWARD, {&x, &dy, s, &m, &v}, {&dx, or_null(dweight, ds), or_null(dbias, db)},
                &attributes);
  }
  if (wanted[0]) call.set_result(0, result);
  const at::ScalarType parameter = weight.defined() ? weight.scalar_type() : input.scalar_type();
  if (wanted[1]) call.set_result(1, dweight.to(parameter));
  if (wanted[2]) call.set_result(2, dbias.to(parameter));
}

// (input, weight, bias, running_mean, running_var, momentum, eps) -> output, save_mean, save_invstd, reserve: PyTorch's
// other name of it in training, which exported programs have. Nothing is reserved.
void batch_norm_with_update(Call& call) {
  const auto [output, mean, inverse] =
      at::native_batch_norm(call.tensor(0), call.optional_tensor(1), call.optional_tensor(2), call.tensor(3),
                            call.tensor(4), /*training=*/true, call.real(5), call.real(6));
  call.set_result(0, output);
  call.set_result(1, mean);
  call.set_result(2, inverse);
  call.set_result(3, empty({0}, at::kByte));
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask, reserve)
void batch_norm_with_update_backward(Call& call) {
  const c10::List<bool> wanted = call.argument(9).toBoolList();
  const auto [dx, dweight, dbias] =
      at::native_batch_norm_backward(call.tensor(0), call.tensor(1), call.optional_tensor(2), call.optional_tensor(3),
                                     call.optional_tensor(4), call.optional_tensor(5), call.optional_tensor(6),
                                     call.boolean(7), call.real(8), {wanted.get(0), wanted.get(1), wanted.get(2)});
  call.set_result(0, dx);
  call.set_result(1, dweight);
  call.set_result(2, dbias);
}

constexpr Kernel kNormKernels[] = {
    {"_batch_norm_with_update", kFloats, batch_norm_with_update},
    {"batch_norm_backward", kFloats, batch_norm_with_update_backward},
    {"native_batch_norm", kFloats, batch_norm_with_statistics},
    {"_native_batch_norm_legit", kFloats, batch_norm_with_statistics},
    {"_native_batch_norm_legit.no_stats", kFloats, batch_norm_without_statistics},
    {"native_batch_norm_backward", kFloats, batch_norm_backward},
    {"native_layer_norm", kFloats, layer_norm},
    {"native_layer_norm_backward", kFloats, layer_norm_backward},
    {"native_group_norm", kFloats, group_norm},
    {"native_group_norm_backward", kFloats, group_norm_backward},
};

}  // namespace

void register_norm() { register_kernels(kNormKernels); }

}  // namespace unihal::pytorch
