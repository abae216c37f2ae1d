// Windows over images: columns of them, and the pools whose windows are dilated, random or turned around.
#include <ATen/native/Pool.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>

#include <limits>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

struct Axis {
  int64_t window, stride, padding, dilation;
};

// How one axis of each is spread; what is not given is that of the first.
c10::DimVector spread(const Call& call, int index, int spatial) {
  c10::DimVector numbers = call.integers(index);
  if (numbers.size() == 1) numbers.resize(static_cast<size_t>(spatial), numbers[0]);
  return numbers;
}

std::vector<Axis> axes_of(const Call& call, int spatial, int window, int stride, int padding, int dilation) {
  const c10::DimVector windows = spread(call, window, spatial), paddings = spread(call, padding, spatial),
                       dilations = spread(call, dilation, spatial);
  c10::DimVector strides = spread(call, stride, spatial);
  if (strides.empty()) strides = windows;
  std::vector<Axis> axes;
  for (int i = 0; i < spatial; ++i) axes.push_back({windows[i], strides[i], paddings[i], dilations[i]});
  return axes;
}

// x padded so that all windows lie in it, and seen as (leading axes..., outputs..., window...), without copying it
// again.
at::Tensor windows_of(const at::Tensor& x, const std::vector<Axis>& axes, at::IntArrayRef outputs,
                      const at::Scalar& padding) {
  const int64_t spatial = static_cast<int64_t>(axes.size()), leading = x.dim() - spatial;
  c10::DimVector pads;
  for (int64_t i = spatial - 1; i >= 0; --i) {
    const Axis& axis = axes[i];
    const int64_t reach = (outputs[i] - 1) * axis.stride + axis.dilation * (axis.window - 1) + 1;
    pads.push_back(axis.padding);
    pads.push_back(std::max<int64_t>(0, reach - x.size(leading + i) - axis.padding));
  }
  const at::Tensor padded = at::constant_pad_nd(x, pads, padding).contiguous();
  c10::DimVector sizes(padded.sizes().slice(0, static_cast<size_t>(leading)));
  c10::DimVector strides(padded.strides().slice(0, static_cast<size_t>(leading)));
  for (int64_t i = 0; i < spatial; ++i) {
    sizes.push_back(outputs[i]);
    strides.push_back(padded.stride(leading + i) * axes[i].stride);
  }
  for (int64_t i = 0; i < spatial; ++i) {
    sizes.push_back(axes[i].window);
    strides.push_back(padded.stride(leading + i) * axes[i].dilation);
  }
  return padded.as_strided(sizes, strides);
}

// -- columns ------------------------------------------------------------------------------------------------------

c10::DimVector column_outputs(at::IntArrayRef sizes, const std::vector<Axis>& axes) {
  c10::DimVector outputs;
  for (size_t i = 0; i < 2; ++i) {
    const Axis& axis = axes[i];
    outputs.push_back((sizes[i] + 2 * axis.padding - axis.dilation * (axis.window - 1) - 1) / axis.stride + 1);
  }
  return outputs;
}

// (self, kernel_size, dilation, padding, stride)
void image_to_columns(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<Axis> axes = axes_of(call, 2, 1, 4, 3, 2);
  TORCH_CHECK(call.integers(1).size() == 2 && call.integers(2).size() == 2 && call.integers(3).size() == 2 &&
                  call.integers(4).size() == 2,
              "im2col: It is expected that kernel_size, dilation, padding and stride equal to 2 numbers");
  at::native::im2col_shape_check(self, at::Tensor(), axes[0].window, axes[1].window, axes[0].dilation, axes[1].dilation,
                                 axes[0].padding, axes[1].padding, axes[0].stride, axes[1].stride);
  const at::Tensor x = self.dim() == 3 ? self.unsqueeze(0) : self;
  const c10::DimVector outputs = column_outputs(x.sizes().slice(2), axes);
  const at::Tensor columns =
      windows_of(x, axes, outputs, 0)
          .permute({0, 1, 4, 5, 2, 3})
          .reshape({x.size(0), x.size(1) * axes[0].window * axes[1].window, outputs[0] * outputs[1]});
  call.set_result(0, self.dim() == 3 ? columns.squeeze(0) : columns);
}

// (self, output_size, kernel_size, dilation, padding, stride): columns are summed where windows overlap
void columns_to_image(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector sizes = call.integers(1);
  const std::vector<Axis> axes = axes_of(call, 2, 2, 5, 4, 3);
  TORCH_CHECK(sizes.size() == 2, "It is expected output_size equals to 2, but got size ", sizes.size());
  at::native::col2im_shape_check(self, at::Tensor(), sizes[0], sizes[1], axes[0].window, axes[1].window,
                                 axes[0].dilation, axes[1].dilation, axes[0].padding, axes[1].padding, axes[0].stride,
                                 axes[1].stride);
  const at::Tensor x = self.dim() == 2 ? self.unsqueeze(0) : self;
  const c10::DimVector outputs = column_outputs(sizes, axes);
  const int64_t channels = x.size(1) / (axes[0].window * axes[1].window);
  const at::Tensor columns = x.reshape({x.size(0), channels, axes[0].window, axes[1].window, outputs[0], outputs[1]});
  at::Tensor image =
      at::zeros({x.size(0), channels, sizes[0] + 2 * axes[0].padding, sizes[1] + 2 * axes[1].padding}, x.options());
  const auto places = [&](const at::Tensor& from, int64_t dim, int64_t window, int64_t output, const Axis& axis) {
    const int64_t first = window * axis.dilation;
    return from.slice(dim, first, first + (output - 1) * axis.stride + 1, axis.stride);
  };
  for (int64_t row = 0; row < axes[0].window; ++row) {
    const at::Tensor rows = places(image, 2, row, outputs[0], axes[0]);
    for (int64_t column = 0; column < axes[1].window; ++column) {
      places(rows, 3, column, outputs[1], axes[1]).add_(columns.select(2, row).select(2, column));
    }
  }
  const at::Tensor inside =
      image.narrow(2, axes[0].padding, sizes[0]).narrow(3, axes[1].padding, sizes[1]).contiguous();
  call.set_result(0, self.dim() == 2 ? inside.squeeze(0) : inside);
}

// -- maxima -------------------------------------------------------------------------------------------------------

// The largest element of each window, and where it is in an image: windows (leading..., outputs..., window...) of x and
// of the numbers of an image's pixels, which are below 0 outside of it. Of elements that are all as little as what is
// outside it is the first one in the image.
std::pair<at::Tensor, at::Tensor> maxima(const at::Tensor& values, const at::Tensor& pixels, int64_t spatial) {
  const at::Tensor x = values.flatten(-spatial);
  const at::Tensor best = x.argmax(-1, /*keepdim=*/true);
  const at::Tensor numbers = pixels.flatten(-spatial);
  const at::Tensor places = numbers.expand(x.sizes()).gather(-1, best).squeeze(-1);
  const at::Tensor first = numbers.masked_fill(numbers.lt(0), std::numeric_limits<int64_t>::max()).amin(-1);
  return {x.gather(-1, best).squeeze(-1), at::where(places.lt(0), first, places)};
}

// The numbers of the pixels of an image with x's last axes.
at::Tensor pixel_numbers(const at::Tensor& x, int64_t spatial) {
  const at::IntArrayRef sizes = x.sizes().slice(static_cast<size_t>(x.dim() - spatial));
  return at::arange(c10::multiply_integers(sizes), x.options().dtype(at::kLong)).view(sizes);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> dilated_max_pool(Call& call, int spatial, at::IntArrayRef outputs) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<Axis> axes = axes_of(call, spatial, 1, 2, 3, 4);
  const double least = -std::numeric_limits<double>::infinity();
  const at::Tensor values = windows_of(self, axes, outputs, least);
  return maxima(values, windows_of(pixel_numbers(self, spatial), axes, outputs, -1), spatial);
}

at::Tensor scatter_to_pixels(const at::Tensor& values, const at::Tensor& pixels, at::IntArrayRef image, int64_t spatial,
                             bool adds) {
  const size_t leading = image.size() - static_cast<size_t>(spatial);
  std::vector<int64_t> flat(image.begin(), image.begin() + leading);
  flat.push_back(c10::multiply_integers(image.slice(leading)));
  const at::Tensor none = at::zeros(flat, values.options());
  const at::Tensor from = values.flatten(-spatial), places = pixels.flatten(-spatial);
  if (from.numel() == 0) return none.view(image);
  return (adds ? none.scatter_add(-1, places, from) : none.scatter(-1, places, from)).view(image);
}

namespace {

// (self, kernel_size, stride, padding, dilation, ceil_mode)
void max_pool3d(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const bool ceil = call.boolean(5);
  constexpr const char* kNames[] = {"kernel_size", "stride", "padding", "dilation"};
  for (int i = 0; i < 4; ++i) {
    const size_t count = call.integers(1 + i).size();
    TORCH_CHECK(count == 1 || count == 3 || (i == 1 && count == 0), "max_pool3d: ", kNames[i],
                " must be a single int, or a tuple of three ints");
  }
  const std::vector<Axis> axes = axes_of(call, 3, 1, 2, 3, 4);
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "max_pool3d_with_indices: expected a 4D or 5D tensor, but got ",
              self.sizes());
  for (int64_t i = 1; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) > 0,
                "max_pool3d_with_indices: Expected input's non-batch dimensions to have positive length,",
                " but input has a shape of ", self.sizes(), " and non-batch dimension ", i, " has length zero!");
  }
  c10::DimVector sizes(self.sizes());
  c10::DimVector outputs;
  bool is_dense = true;
  for (int i = 0; i < 3; ++i) {
    const Axis& axis = axes[i];
    TORCH_CHECK(axis.window > 0 && axis.stride > 0 && axis.dilation > 0,
                "max_pool3d: kernel size, stride and dilation should be greater than zero");
    const int64_t at = self.dim() - 3 + i;
    outputs.push_back(at::native::pooling_output_shape<int64_t>(self.size(at), axis.window, axis.padding, axis.stride,
                                                                axis.dilation, ceil));
    TORCH_CHECK(outputs.back() >= 1, "max_pool3d: input ", self.sizes(), " is too small: the output would have ",
                outputs.back(), " elements along an axis");
    sizes[at] = outputs.back();
    is_dense &= axis.dilation == 1;
  }
  if (!is_dense) {
    const auto [values, places] = dilated_max_pool(call, 3, outputs);
    call.set_result(0, values);
    return call.set_result(1, places);
  }
  const at::MemoryFormat format = self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  const at::Tensor result = empty(sizes, self.scalar_type(), format);
  const at::Tensor places = empty(sizes, at::kLong, format);
  call.set_result(0, result);
  call.set_result(1, places);
  if (result.numel() == 0) return;
  uhal_pool_attributes attributes = pool_attributes(UHAL_POOL_MAXIMUM);
  for (int i = 0; i < 3; ++i) {
    attributes.window[i] = axes[i].window;
    attributes.stride[i] = axes[i].stride;
    attributes.pad_before[i] = attributes.pad_after[i] = axes[i].padding;
  }
  const auto batched = [](const at::Tensor& tensor) {
    const View view = view_of(tensor);
    return view.rank == 4 ? view.unsqueezed(0) : view;
  };
  const View x = batched(self), y = batched(result), indices = batched(places);
  call.launch(UHAL_OP_POOL, {&x}, {&y, &indices}, &attributes);
}

// (grad_output, self, ..., indices last)
void max_pool3d_backward(Call& call) {
  const at::Tensor result = scatter_to_pixels(call.tensor(0), call.tensor(7), call.tensor(1).sizes(), 3, true);
  call.set_result(0, result.contiguous(call.tensor(1).dim() == 5 ? call.tensor(1).suggest_memory_format()
                                                                 : at::MemoryFormat::Contiguous));
}

// (self, indices, output_size, ...): the inverse of a pool
template <int kSpatial>
void max_unpool(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  const c10::DimVector outputs = call.integers(2);
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(outputs.size() == kSpatial, "There should be exactly ", kSpatial, " elements in output_size, but got ",
              outputs.size());
  TORCH_CHECK(self.dim() == kSpatial + 1 || self.dim() == kSpatial + 2, "Input to max_unpooling", kSpatial,
              "d should be a ", kSpatial + 1, "d or ", kSpatial + 2, "d Tensor, but got a tensor with ", self.dim(),
              " dims.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be: ", self.sizes(),
              " but got: ", indices.sizes());
  c10::DimVector image(self.sizes());
  for (int i = 0; i < kSpatial; ++i) image[image.size() - kSpatial + i] = outputs[i];
  call.set_result(0, scatter_to_pixels(self, indices, image, kSpatial, false));
}

// -- windows at random places (Graham 2014) ------------------------------------------------------------------------

// Where windows of an axis begin: (samples..., outputs)
at::Tensor random_starts(const at::Tensor& samples, int64_t length, int64_t output, int64_t window) {
  const at::TensorOptions longs = samples.options().dtype(at::kLong);
  const at::Tensor last = at::full({1}, length - window, longs);
  c10::DimVector sizes(samples.sizes());
  sizes.push_back(1);
  if (output == 1) return last.expand(sizes);
  const double step = static_cast<double>(length - window) / static_cast<double>(output - 1);
  const at::Tensor sample = samples.unsqueeze(-1);
  const at::Tensor numbers = at::arange(output - 1, samples.options());
  const at::Tensor starts = ((numbers + sample) * step).to(at::kLong) - (sample * step).to(at::kLong);
  return at::cat({starts, last.expand(sizes)}, -1);
}

// (self, kernel_size, output_size, random_samples)
template <class Meta, int kSpatial>
void fractional_max_pool(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor self = call.tensor(0).dim() == kSpatial + 1 ? call.tensor(0).unsqueeze(0) : call.tensor(0);
  if (call.result(0).numel() == 0) return;
  const c10::DimVector windows = call.integers(1), outputs = call.integers(2);
  const at::Tensor& samples = call.tensor(3);
  const at::TensorOptions longs = self.options().dtype(at::kLong);
  // The number of each pixel of each window: (N, C, outputs..., window...)
  at::Tensor pixels = at::zeros({}, longs);
  int64_t pitch = 1;
  for (int i = kSpatial - 1; i >= 0; --i) {
    const int64_t length = self.size(2 + i);
    // Of two axes the last one comes first among the samples.
    const at::Tensor sample = samples.select(-1, kSpatial == 2 ? 1 - i : i);
    const at::Tensor places = random_starts(sample, length, outputs[i], windows[i]).unsqueeze(-1) +
                              at::arange(windows[i], longs);  // (N, C, output, window)
    c10::DimVector sizes(static_cast<size_t>(2 + 2 * kSpatial), 1);
    sizes[0] = places.size(0);
    sizes[1] = places.size(1);
    sizes[2 + i] = outputs[i];
    sizes[2 + kSpatial + i] = windows[i];
    pixels = pixels + places.reshape(sizes) * pitch;
    pitch *= length;
  }
  const at::Tensor flat = pixels.flatten(2);
  const at::Tensor values = self.flatten(2).gather(-1, flat).view(pixels.sizes());
  const auto [found, places] = maxima(values, pixels, kSpatial);
  at::Tensor result = call.result(0), indices = call.result(1);
  result.copy_(found.view(result.sizes()));
  indices.copy_(places.view(indices.sizes()));
}

// (grad_output, self, kernel_size, output_size, indices)
template <int kSpatial>
void fractional_max_pool_backward(Call& call) {
  call.set_result(0,
                  scatter_to_pixels(call.tensor(0), call.tensor(4), call.tensor(1).sizes(), kSpatial, /*adds=*/true));
}

constexpr Kernel kWindowKernels[] = {
    {"im2col", kFloats | kComplex | kBool, image_to_columns},
    {"col2im", kFloats | kComplex | kBool, columns_to_image},
    {"max_pool3d_with_indices", kFloats, max_pool3d},
    {"max_pool3d_with_indices_backward", kFloats, max_pool3d_backward},
    {"max_unpool2d", kNumbers, max_unpool<2>},
    {"max_unpool3d", kNumbers, max_unpool<3>},
    {"fractional_max_pool2d", kFloats, fractional_max_pool<at::meta::structured_fractional_max_pool2d, 2>},
    {"fractional_max_pool2d_backward", kFloats, fractional_max_pool_backward<2>},
    {"fractional_max_pool3d", kFloats, fractional_max_pool<at::meta::structured_fractional_max_pool3d, 3>},
    {"fractional_max_pool3d_backward", kFloats, fractional_max_pool_backward<3>},
};

}  // namespace

void register_window() { register_kernels(kWindowKernels); }

}  // namespace unihal::pytorch
