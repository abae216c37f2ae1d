// Fourier transforms.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/zeros_like.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// PyTorch's numbers of normalizations: none, by the root of the length, by the length.
uhal_fft_normalization normalization_of(int64_t number) {
  constexpr uhal_fft_normalization kOurs[] = {UHAL_FFT_UNSCALED, UHAL_FFT_ORTHONORMAL, UHAL_FFT_BY_LENGTH};
  TORCH_CHECK(number >= 0 && number < 3, "Unsupported FFT normalization ", number);
  return kOurs[number];
}

void transform(Call& call, const at::Tensor& from, const at::Tensor& to, at::IntArrayRef axes, bool forward,
               int64_t normalization) {
  if (to.numel() == 0) return;
  uhal_fft_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.direction = forward ? UHAL_FFT_FORWARD : UHAL_FFT_INVERSE;
  attributes.normalization = normalization_of(normalization);
  attributes.axis_count = static_cast<int32_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) attributes.axes[i] = static_cast<int32_t>(axes[i]);
  const View x = view_of(from);
  const View y = view_of(to);
  call.launch(UHAL_OP_FFT, {&x}, {&y}, &attributes);
}

// Complex to complex along any number of axes, UHAL_FFT_MAX_AXES at a time.
void transform_complex(Call& call, at::Tensor from, const at::Tensor& to, at::IntArrayRef axes, bool forward,
                       int64_t normalization) {
  while (axes.size() > UHAL_FFT_MAX_AXES) {
    const at::Tensor between = call.scratch(to.sizes(), to.scalar_type());
    transform(call, from, between, axes.slice(axes.size() - UHAL_FFT_MAX_AXES), forward, normalization);
    axes = axes.slice(0, axes.size() - UHAL_FFT_MAX_AXES);
    from = between;
  }
  transform(call, from, to, axes, forward, normalization);
}

c10::DimVector axes_of(const Call& call, const at::Tensor& self) {
  c10::DimVector axes = call.integers(1);
  at::maybe_wrap_dims(axes, self.dim());
  return axes;
}

// (self, dim, normalization, forward)
void complex_to_complex(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector axes = axes_of(call, self);
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (axes.empty()) {
    if (!self.is_same(result) && result.numel() != 0) call.copy(view_of(self), view_of(result));
    return;
  }
  // PyTorch transforms what it has put into out= once more in its place.
  const at::Tensor from = self.is_alias_of(result) ? call.keep(self.clone()) : self;
  transform_complex(call, from, result, axes, call.boolean(3), call.integer(2));
}

// (self, dim, normalization, onesided)
void real_to_complex(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector axes = axes_of(call, self);
  TORCH_CHECK(!axes.empty(), "_fft_r2c: at least one dimension is needed");
  const at::ScalarType dtype = c10::toComplexType(self.scalar_type());
  if (!call.boolean(3)) {
    const at::Tensor& result = call.make_result(0, self.sizes(), dtype);
    const at::Tensor wide = call.keep(self.to(dtype));
    return transform_complex(call, wide, result, axes, true, call.integer(2));
  }
  c10::DimVector sizes(self.sizes());
  sizes[axes.back()] = sizes[axes.back()] / 2 + 1;
  const at::Tensor& result = call.make_result(0, sizes, dtype);
  if (axes.size() <= UHAL_FFT_MAX_AXES) return transform(call, self, result, axes, true, call.integer(2));
  const at::Tensor between = call.scratch(sizes, dtype);
  transform(call, self, between, {axes.back()}, true, call.integer(2));
  transform_complex(call, between, result, at::IntArrayRef(axes).slice(0, axes.size() - 1), true, call.integer(2));
}

// (self, dim, normalization, last_dim_size)
void complex_to_real(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector axes = axes_of(call, self);
  TORCH_CHECK(!axes.empty(), "_fft_c2r: at least one dimension is needed");
  c10::DimVector sizes(self.sizes());
  sizes[axes.back()] = call.integer(3);
  const at::Tensor& result = call.make_result(0, sizes, c10::toRealValueType(self.scalar_type()));
  if (axes.size() <= UHAL_FFT_MAX_AXES) return transform(call, self, result, axes, false, call.integer(2));
  const at::Tensor between = call.scratch(self.sizes(), self.scalar_type());
  transform_complex(call, self, between, at::IntArrayRef(axes).slice(0, axes.size() - 1), false, call.integer(2));
  transform(call, between, result, {axes.back()}, false, call.integer(2));
}

constexpr Kernel kFftKernels[] = {
    {"_fft_c2c", kComplex, complex_to_complex},
    {"_fft_r2c", kWideFloats, real_to_complex},
    {"_fft_c2r", kComplex, complex_to_real},
};

}  // namespace

void register_fft() { register_kernels(kFftKernels); }

}  // namespace unihal::pytorch
