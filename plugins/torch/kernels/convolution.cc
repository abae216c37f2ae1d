// Convolutions. PyTorch leaves those of a device that is not built in to `convolution_overrideable`.
#include "plugins/torch/fallback.h"
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// The arguments after input and weight, the same in the convolution and its gradient.
struct Geometry {
  uhal_convolution_attributes attributes;
  c10::DimVector padding;
  c10::DimVector output_padding;
  bool transposed;
  int spatial;
};

Geometry geometry_of(Call& call, int first, const at::Tensor& input) {
  Geometry geometry;
  geometry.attributes = convolution_attributes(math_mode());
  geometry.spatial = static_cast<int>(input.dim()) - 2;
  call.require(geometry.spatial >= 1 && geometry.spatial <= UHAL_MAX_SPATIAL, "this number of spatial axes");
  const auto spread = [&](int index) {
    c10::DimVector numbers = call.integers(index);
    if (numbers.size() == 1) numbers.resize(static_cast<size_t>(geometry.spatial), numbers[0]);
    return numbers;
  };
  const c10::DimVector stride = spread(first);
  geometry.padding = spread(first + 1);
  const c10::DimVector dilation = spread(first + 2);
  geometry.transposed = call.boolean(first + 3);
  geometry.output_padding = spread(first + 4);
  for (int i = 0; i < geometry.spatial; ++i) {
    geometry.attributes.stride[i] = stride[i];
    geometry.attributes.dilation[i] = dilation[i];
    geometry.attributes.pad_before[i] = geometry.attributes.pad_after[i] = geometry.padding[i];
  }
  geometry.attributes.groups = call.integer(first + 5);
  return geometry;
}

// A transposed convolution's larger side, without what output_padding adds beyond the padding: nothing reaches it.
View reached(Geometry& geometry, View view) {
  for (int i = 0; i < geometry.spatial; ++i) {
    const int64_t within = std::min(geometry.output_padding[i], geometry.padding[i]);
    geometry.attributes.pad_after[i] = geometry.padding[i] - within;
    view.shape[2 + i] -= geometry.output_padding[i] - within;
  }
  return view;
}

at::MemoryFormat format_of(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat last = input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  if (input.dim() < 4) return at::MemoryFormat::Contiguous;
  return input.suggest_memory_format() == last || weight.suggest_memory_format() == last ? last
                                                                                         : at::MemoryFormat::Contiguous;
}

c10::IntArrayRef checked(const c10::DimVector& sizes) {
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "Given these sizes the output size is too small: ", c10::IntArrayRef(sizes));
  }
  return sizes;
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
void convolution(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  const at::Tensor bias = call.optional_tensor(2);
  Geometry geometry = geometry_of(call, 3, input);
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  const uhal_convolution_attributes& attributes = geometry.attributes;
  c10::DimVector sizes{input.size(0), geometry.transposed ? weight.size(1) * attributes.groups : weight.size(0)};
  for (int i = 0; i < geometry.spatial; ++i) {
    const int64_t kernel = attributes.dilation[i] * (weight.size(2 + i) - 1) + 1;
    if (geometry.transposed) {
      TORCH_CHECK(geometry.output_padding[i] < std::max(attributes.stride[i], attributes.dilation[i]),
                  "output padding must be smaller than either stride or dilation, but got output_padding: ",
                  geometry.output_padding[i], " stride: ", attributes.stride[i], " dilation: ", attributes.dilation[i]);
      sizes.push_back((input.size(2 + i) - 1) * attributes.stride[i] - 2 * geometry.padding[i] + kernel +
                      geometry.output_padding[i]);
      TORCH_CHECK(sizes.back() > 0, "Given input size per channel: ", input.sizes().slice(2),
                  ". Calculated output size per channel: ", sizes.back(), ". Output size is too small");
    } else {
      sizes.push_back((input.size(2 + i) + 2 * geometry.padding[i] - kernel) / attributes.stride[i] + 1);
    }
  }
  const at::Tensor result = empty(checked(sizes), input.scalar_type(), format_of(input, weight));
  call.set_result(0, result);
  if (result.numel() == 0) return;
  const View y = view_of(result);
  const View b = bias.defined() ? view_of(bias) : View();
  if (input.numel() == 0) {
    call.fill(y, 0);
    if (bias.defined()) call.copy(view_of(bias.reshape({1, -1}).expand({1, sizes[1]})), y);
    return;
  }
  const View x = view_of(input);
  const View w = view_of(weight);
  if (!geometry.transposed) {
    return call.launch(UHAL_OP_CONVOLUTION, {&x, &w, bias.defined() ? &b : nullptr}, {&y}, &attributes);
  }
  const View within = reached(geometry, y);
  if (within.elements() != y.elements()) call.fill(y, 0);
  call.launch(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&x, &w}, {&within}, &attributes);
  if (!bias.defined()) return;
  View spread = b;
  for (int i = 0; i < geometry.spatial; ++i) spread = spread.unsqueezed(spread.rank);
  call.map(uhal_map_add, {&y, &spread}, {&y});
}

// (grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask)
void convolution_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const at::Tensor& weight = call.tensor(2);
  Geometry geometry = geometry_of(call, 3, input);
  const auto wanted = call.argument(9).toBoolList();
  const at::MemoryFormat format = format_of(input, weight);
  const bool is_empty = gradient.numel() == 0 || input.numel() == 0;
  const View dy = view_of(gradient);
  const View reached_dy = geometry.transposed ? reached(geometry, dy) : dy;
  const View x = view_of(input);
  const View w = view_of(weight);
  if (wanted[0]) {
    const at::Tensor result = empty(input.sizes(), input.scalar_type(), format);
    call.set_result(0, result);
    const View dx = view_of(result);
    if (result.numel() == 0) {
    } else if (is_empty) {
      call.fill(dx, 0);
    } else if (geometry.transposed) {
      call.launch(UHAL_OP_CONVOLUTION, {&reached_dy, &w}, {&dx}, &geometry.attributes);
    } else {
      call.launch(UHAL_OP_CONVOLUTION_BACKWARD_DATA, {&dy, &w}, {&dx}, &geometry.attributes);
    }
  }
  if (!wanted[1] && !wanted[2]) return;
  const at::Tensor dbias = wanted[2] ? empty({gradient.size(1)}, weight.scalar_type()) : at::Tensor();
  const View db = wanted[2] ? view_of(dbias) : View();
  if (wanted[2]) call.set_result(2, dbias);
  bool has_bias = false;
  if (wanted[1]) {
    const at::Tensor result = empty(weight.sizes(), weight.scalar_type(), format);
    call.set_result(1, result);
    const View dw = view_of(result);
    if (is_empty) {
      call.fill(dw, 0);
    } else if (geometry.transposed) {
      call.launch(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&reached_dy, &x}, {&dw}, &geometry.attributes);
    } else {
      has_bias = wanted[2];
      call.launch(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, {&x, &dy}, {&dw, has_bias ? &db : nullptr},
                  &geometry.attributes);
    }
  }
  if (!wanted[2] || has_bias) return;
  View sum = db.unsqueezed(0);
  for (int i = 0; i < geometry.spatial; ++i) sum = sum.unsqueezed(sum.rank);
  const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
  call.launch(UHAL_OP_REDUCE, {&dy}, {&sum}, &attributes);
}

// PyTorch's CPU has no kernel of these names: what is left to it goes by the name that it has.
const char* dtype_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

void convolution_or_cpu(Call& call) {
  try {
    call.require(call.tensor(0).is_floating_point(), "no kernel for this dtype");
    convolution(call);
  } catch (const Refusal& refusal) {
    record_fallback("convolution", dtype_name(call.tensor(0)), refusal.reason);
    const at::Tensor bias = call.optional_tensor(2);
    const std::optional<at::Tensor> on_host = bias.defined() ? std::optional<at::Tensor>(bias.cpu()) : std::nullopt;
    call.set_result(
        0, at::convolution(call.tensor(0).cpu(), call.tensor(1).cpu(), on_host, call.integers(3), call.integers(4),
                           call.integers(5), call.boolean(6), call.integers(7), call.integer(8))
               .to(call.tensor(0).device()));
  }
}

void convolution_backward_or_cpu(Call& call) {
  try {
    call.require(call.tensor(0).is_floating_point(), "no kernel for this dtype");
    convolution_backward(call);
  } catch (const Refusal& refusal) {
    record_fallback("convolution_backward", dtype_name(call.tensor(0)), refusal.reason);
    const auto wanted = call.argument(9).toBoolList();
    const c10::DimVector bias{call.tensor(0).size(1)};
    const auto results =
        at::convolution_backward(call.tensor(0).cpu(), call.tensor(1).cpu(), call.tensor(2).cpu(),
                                 at::OptionalIntArrayRef(bias), call.integers(3), call.integers(4), call.integers(5),
                                 call.boolean(6), call.integers(7), call.integer(8), {wanted[0], wanted[1], wanted[2]});
    const c10::Device place = call.tensor(0).device();
    if (wanted[0]) call.set_result(0, std::get<0>(results).to(place));
    if (wanted[1]) call.set_result(1, std::get<1>(results).to(place));
    if (wanted[2]) call.set_result(2, std::get<2>(results).to(place));
  }
}

constexpr Kernel kConvolutionKernels[] = {
    {"convolution_overrideable", kStored, convolution_or_cpu},
    {"convolution_backward_overrideable", kStored, convolution_backward_or_cpu},
};

}  // namespace

void register_convolution() { register_kernels(kConvolutionKernels); }

}  // namespace unihal::pytorch
