// Pooling.
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// Without a batch's axis, one of length 1.
View batched(const at::Tensor& tensor, int spatial) {
  const View view = view_of(tensor);
  return view.rank == spatial + 1 ? view.unsqueezed(0) : view;
}

uhal_pool_attributes attributes_of(const Call& call, uhal_pool_mode mode, int first, int spatial) {
  uhal_pool_attributes attributes = pool_attributes(mode);
  const auto spread = [&](int index, const c10::DimVector& missing) {
    c10::DimVector numbers = call.integers(index);
    if (numbers.empty()) numbers = missing;
    if (numbers.size() == 1) numbers.resize(static_cast<size_t>(spatial), numbers[0]);
    return numbers;
  };
  const c10::DimVector window = spread(first, {});
  const c10::DimVector stride = spread(first + 1, window);
  const c10::DimVector padding = spread(first + 2, {});
  for (int i = 0; i < spatial; ++i) {
    attributes.window[i] = window[i];
    attributes.stride[i] = stride[i];
    attributes.pad_before[i] = attributes.pad_after[i] = padding[i];
  }
  return attributes;
}

bool is_dense(const Call& call, int dilation) {
  const c10::DimVector numbers = call.integers(dilation);
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t number) { return number == 1; });
}

// (self, kernel_size, stride, padding, dilation, ceil_mode)
void max_pool(Call& call) {
  Structured<at::meta::structured_max_pool2d_with_indices>(call).infer();
  if (call.result(0).numel() == 0) return;
  if (!is_dense(call, 4)) {
    at::Tensor result = call.result(0), places = call.result(1);
    const auto [values, numbers] =
        dilated_max_pool(call, 2, result.sizes().slice(static_cast<size_t>(result.dim() - 2)));
    result.copy_(values);
    places.copy_(numbers);
    return;
  }
  const uhal_pool_attributes attributes = attributes_of(call, UHAL_POOL_MAXIMUM, 1, 2);
  const View x = batched(call.tensor(0), 2);
  const View y = batched(call.result(0), 2);
  const View indices = batched(call.result(1), 2);
  call.launch(UHAL_OP_POOL, {&x}, {&y, &indices}, &attributes);
}

// Elements of x at flat spatial indices.
View pixels(Call& call, const at::Tensor& tensor, int spatial) {
  const at::Tensor flat = call.keep(tensor.flatten(-spatial));
  const View view = view_of(flat);
  return view.rank == 2 ? view.unsqueezed(0) : view;
}

// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
void max_pool_backward(Call& call) {
  Structured<at::meta::structured_max_pool2d_with_indices_backward>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  if (!is_dense(call, 5)) {
    result.copy_(scatter_to_pixels(call.tensor(0), call.tensor(7), result.sizes(), 2, /*adds=*/true));
    return;
  }
  const View dx = batched(result, 2);
  if (call.tensor(0).numel() == 0) return call.fill(dx, 0);
  // The maxima again, of their places: the gradient needs them.
  const at::Tensor maxima = call.scratch(call.tensor(0).sizes(), call.tensor(1).scalar_type());
  const View x = pixels(call, call.tensor(1), 2);
  const View indices = pixels(call, call.tensor(7), 2);
  const View found = pixels(call, maxima, 2);
  const uhal_index_attributes along = index_attributes(2);
  call.launch(UHAL_OP_GATHER_ELEMENTS, {&x, &indices}, {&found}, &along);
  const View dy = batched(call.tensor(0), 2);
  const View input = batched(call.tensor(1), 2);
  const View y = batched(maxima, 2);
  const uhal_pool_attributes attributes = attributes_of(call, UHAL_POOL_MAXIMUM, 2, 2);
  call.launch(UHAL_OP_POOL_BACKWARD, {&dy, &input, &y}, {&dx}, &attributes);
}

// Whether a window reaches beyond the padding, where PyTorch counts otherwise than unihal.
bool reaches_beyond(const uhal_pool_attributes& attributes, const View& x, const View& y, int spatial) {
  for (int i = 0; i < spatial; ++i) {
    const int64_t end = (y.shape[2 + i] - 1) * attributes.stride[i] + attributes.window[i] - attributes.pad_before[i];
    if (end > x.shape[2 + i] + attributes.pad_after[i]) return true;
  }
  return false;
}

// What an average that unihal divides by the window's size is to be multiplied by, where PyTorch divides by another
// number: that of the caller's, or what of the window lies inside the padding. Undefined if it is 1.
at::Tensor correction(Call& call, const uhal_pool_attributes& attributes, const View& x, const View& y, int spatial,
                      int divisor) {
  double window = 1;
  for (int i = 0; i < spatial; ++i) window *= static_cast<double>(attributes.window[i]);
  const at::TensorOptions options = at::TensorOptions(at::kDouble);
  if (!call.is_none(divisor)) return at::scalar_tensor(window / call.real(divisor), options);
  if (!reaches_beyond(attributes, x, y, spatial)) return {};
  at::Tensor result = at::scalar_tensor(1, options);
  for (int i = 0; i < spatial; ++i) {
    std::vector<double> factors;
    for (int64_t place = 0; place < y.shape[2 + i]; ++place) {
      const int64_t start = place * attributes.stride[i] - attributes.pad_before[i];
      const int64_t end = std::min(start + attributes.window[i], x.shape[2 + i] + attributes.pad_after[i]);
      factors.push_back(static_cast<double>(attributes.window[i]) / static_cast<double>(end - start));
    }
    c10::DimVector sizes(static_cast<size_t>(spatial), 1);
    sizes[i] = y.shape[2 + i];
    result = result * at::tensor(factors, options).view(sizes);
  }
  return result;
}

at::Tensor factor_like(const at::Tensor& tensor, const at::Tensor& factor) {
  return factor.to(tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).to(tensor.device());
}

// (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <class Meta, int kSpatial>
void average_pool(Call& call) {
  Structured<Meta>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  const bool includes = call.boolean(5) || !call.is_none(6);
  const uhal_pool_attributes attributes = attributes_of(
      call, includes ? UHAL_POOL_AVERAGE_INCLUDE_PADDING : UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 1, kSpatial);
  const View x = batched(call.tensor(0), kSpatial);
  const View y = batched(result, kSpatial);
  const at::Tensor factor = includes ? correction(call, attributes, x, y, kSpatial, 6) : at::Tensor();
  call.launch(UHAL_OP_POOL, {&x}, {&y}, &attributes);
  if (factor.defined()) result.mul_(factor_like(result, factor));
}

// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <class Meta, int kSpatial>
void average_pool_backward(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result().numel() == 0) return;
  const bool includes = call.boolean(6) || !call.is_none(7);
  const uhal_pool_attributes attributes = attributes_of(
      call, includes ? UHAL_POOL_AVERAGE_INCLUDE_PADDING : UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 2, kSpatial);
  at::Tensor gradient = call.tensor(0);
  const View dx = batched(call.result(), kSpatial);
  const at::Tensor factor =
      includes ? correction(call, attributes, dx, batched(gradient, kSpatial), kSpatial, 7) : at::Tensor();
  if (factor.defined()) gradient = call.keep(gradient * factor_like(gradient, factor));
  const View dy = batched(gradient, kSpatial);
  call.launch(UHAL_OP_POOL_BACKWARD, {&dy}, {&dx}, &attributes);
}

uhal_pool_attributes adaptive(uhal_pool_mode mode) {
  uhal_pool_attributes attributes = pool_attributes(mode);
  attributes.adaptive = 1;
  return attributes;
}

template <int kSpatial>
void adaptive_average_pool(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.dim() == kSpatial + 1 || self.dim() == kSpatial + 2, "adaptive_avg_pool", kSpatial, "d(): Expected ",
              kSpatial + 1, "D or ", kSpatial + 2, "D tensor, but got ", self.sizes());
  const c10::DimVector window = call.integers(1);
  TORCH_CHECK(window.size() == kSpatial, "adaptive_avg_pool: output_size must be ", kSpatial, " numbers");
  for (int64_t i = kSpatial == 3 ? 1 : self.dim() - kSpatial; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) > 0, "adaptive_avg_pool", kSpatial, "d(): Expected input to have non-zero size for ",
                "non-batch dimensions, but input has sizes ", self.sizes(), " with dimension ", i, " being empty");
  }
  c10::DimVector sizes(self.sizes());
  for (int i = 0; i < kSpatial; ++i) sizes[sizes.size() - kSpatial + i] = window[i];
  const at::Tensor result = empty(sizes, self.scalar_type(), self.suggest_memory_format());
  call.set_result(0, result);
  if (result.numel() == 0) return;
  const View x = batched(self, kSpatial);
  const View y = batched(result, kSpatial);
  const uhal_pool_attributes attributes = adaptive(UHAL_POOL_AVERAGE_EXCLUDE_PADDING);
  call.launch(UHAL_OP_POOL, {&x}, {&y}, &attributes);
}

// (grad_output, self)
template <int kSpatial>
void adaptive_average_pool_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor result = empty(self.sizes(), self.scalar_type(), self.suggest_memory_format());
  call.set_result(0, result);
  if (result.numel() == 0) return;
  const View dy = batched(call.tensor(0), kSpatial);
  const View dx = batched(result, kSpatial);
  const uhal_pool_attributes attributes = adaptive(UHAL_POOL_AVERAGE_EXCLUDE_PADDING);
  call.launch(UHAL_OP_POOL_BACKWARD, {&dy}, {&dx}, &attributes);
}

template <class Meta, int kSpatial>
void adaptive_max_pool(Call& call) {
  Structured<Meta>(call).infer();
  if (call.result(0).numel() == 0) return;
  const View x = batched(call.tensor(0), kSpatial);
  const View y = batched(call.result(0), kSpatial);
  const View indices = batched(call.result(1), kSpatial);
  const uhal_pool_attributes attributes = adaptive(UHAL_POOL_MAXIMUM);
  call.launch(UHAL_OP_POOL, {&x}, {&y, &indices}, &attributes);
}

// (grad_output, self, indices)
void adaptive_max_pool3d_backward(Call& call) {
  Structured<at::meta::structured_adaptive_max_pool3d_backward>(call).infer();
  at::Tensor result = call.result();
  result.copy_(scatter_to_pixels(call.tensor(0), call.tensor(2), result.sizes(), 3, /*adds=*/true));
}

void adaptive_max_pool_backward(Call& call) {
  Structured<at::meta::structured_adaptive_max_pool2d_backward>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  if (!result.is_contiguous()) {
    result.copy_(scatter_to_pixels(call.tensor(0), call.tensor(2), result.sizes(), 2, /*adds=*/true));
    return;
  }
  call.fill(view_of(result), 0);
  const View indices = pixels(call, call.tensor(2), 2);
  const View dy = pixels(call, call.tensor(0), 2);
  if (dy.elements() == 0) return;
  const View dx = pixels(call, result, 2);
  uhal_index_attributes attributes = index_attributes(2);
  attributes.reduction = UHAL_REDUCE_SUM;
  call.launch(UHAL_OP_SCATTER_ELEMENTS, {&indices, &dy}, {&dx}, &attributes);
}

constexpr Kernel kPoolKernels[] = {
    {"max_pool2d_with_indices", kFloats, max_pool},
    {"max_pool2d_with_indices_backward", kFloats, max_pool_backward},
    {"avg_pool2d", kFloats, average_pool<at::meta::structured_avg_pool2d, 2>},
    {"avg_pool2d_backward", kFloats, average_pool_backward<at::meta::structured_avg_pool2d_backward, 2>},
    {"avg_pool3d", kFloats, average_pool<at::meta::structured_avg_pool3d, 3>},
    {"avg_pool3d_backward", kFloats, average_pool_backward<at::meta::structured_avg_pool3d_backward, 3>},
    {"_adaptive_avg_pool2d", kFloats, adaptive_average_pool<2>},
    {"_adaptive_avg_pool2d_backward", kFloats, adaptive_average_pool_backward<2>},
    {"_adaptive_avg_pool3d", kFloats, adaptive_average_pool<3>},
    {"_adaptive_avg_pool3d_backward", kFloats, adaptive_average_pool_backward<3>},
    {"adaptive_max_pool2d", kFloats, adaptive_max_pool<at::meta::structured_adaptive_max_pool2d, 2>},
    {"adaptive_max_pool2d_backward", kFloats, adaptive_max_pool_backward},
    {"adaptive_max_pool3d", kFloats, adaptive_max_pool<at::meta::structured_adaptive_max_pool3d, 3>},
    {"adaptive_max_pool3d_backward", kFloats, adaptive_max_pool3d_backward},
};

}  // namespace

void register_pool() { register_kernels(kPoolKernels); }

}  // namespace unihal::pytorch
