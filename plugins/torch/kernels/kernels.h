// The families of kernels, one file each, and what they share.
#pragma once

#include <limits>

#include "plugins/common/chain.h"
#include "plugins/torch/call.h"

namespace unihal::pytorch {

void register_activation();
void register_antialias();
void register_arithmetic();
void register_attention();
void register_composed();
void register_convolution();
void register_decomposition();
void register_distance();
void register_distribution();
void register_elementwise();
void register_factorization();
void register_fft();
void register_groups();
void register_index();
void register_loss();
void register_low_precision();
void register_matmul();
void register_movement();
void register_norm();
void register_optimizer();
void register_pool();
void register_random();
void register_recurrent();
void register_reduce();
void register_resample();
void register_search();
void register_sets();
void register_softmax();
void register_special();
void register_window();

// How exactly float32 is multiplied: what torch.set_float32_matmul_precision says.
uhal_math_mode math_mode();

// How PyTorch's binary ops set up an iterator: broadcasting, promotion, numbers on the host, checks of overlap.
void configure(at::TensorIteratorConfig& config);

// Launches a function on an iterator's operands: its inputs in the order `order`, or as they come.
void launch_map(Call& call, at::TensorIteratorBase& iterator, uhal_map_function function, const int* order = nullptr,
                std::initializer_list<double> parameters = {});

// Refuses values as the CPU does, with an error of the same class: waits for the device until it is known that `holds`
// is true everywhere. For checks that are rare, or of ops that wait anyway; an index out of range is found by the
// kernels, and is an error of the stream.
void refuse_unless(const at::Tensor& holds, const char* message);

// The result that other ops made, for a call whose own result has a dtype that it can be cast to; others are refused.
void set_cast_result(Call& call, const at::Tensor& tensor);

// The elements of a tensor, in row-major order, where a mask of the same shape is not 0; waits for their number.
at::Tensor selected(Call& call, const at::Tensor& self, const at::Tensor& mask);

// A number as a dtype has it; refuses one outside the dtype, as the CPU does where an op takes a number.
at::Scalar number_of(at::ScalarType dtype, const at::Scalar& number);

// A number rounded to a floating dtype: infinity outside it, as where the CPU converts tensors.
inline double rounded(at::ScalarType dtype, double number) {
  switch (dtype) {
    case at::kHalf:
      return static_cast<c10::Half>(static_cast<float>(number));
    case at::kBFloat16:
      return static_cast<c10::BFloat16>(static_cast<float>(number));
    case at::kFloat:
      return static_cast<float>(number);
    default:
      return number;
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A number as a tensor without axes, of a tensor's dtype and device.
inline at::Tensor number_like(const at::Tensor& tensor, double value) {
  return at::full({}, rounded(tensor.scalar_type(), value), tensor.options());
}

// The tensor, or its integers as numbers of PyTorch's default dtype.
inline at::Tensor floating(const at::Tensor& self) {
  return !c10::isIntegralType(self.scalar_type(), true) ? self
                                                        : self.to(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

// A view with an axis of 1 where the tensor has none.
inline View at_least_a_vector(const at::Tensor& tensor) {
  const View view = view_of(tensor);
  return view.rank == 0 ? view.unsqueezed(0) : view;
}

// Of matrices: the axes before the last two, and scratch for a whole number (the ABI's status) of each matrix.
inline c10::DimVector batch_of(const at::Tensor& matrices) {
  return c10::DimVector(matrices.sizes().slice(0, static_cast<size_t>(matrices.dim() - 2)));
}
inline at::Tensor status_of(Call& call, const at::Tensor& matrices) {
  return call.scratch(batch_of(matrices), at::kInt);
}

// Launches a program on an iterator's inputs, for its one output. `takes_wide`: a second input of one number is taken
// as float32 beside numbers of two bytes, and not rounded to their dtype.
void launch_chain(Call& call, at::TensorIteratorBase& iterator, Chain& chain, bool takes_wide = false);

// The maxima of dilated windows and their places in an image, of a pool's arguments (self, kernel_size, stride,
// padding, dilation, ...): window.cc.
std::pair<at::Tensor, at::Tensor> dilated_max_pool(Call& call, int spatial, at::IntArrayRef outputs);
// Values at the numbered pixels of an image of zeros, whose last `spatial` axes are the pixels; several of one pixel
// are summed, or the last one is taken.
at::Tensor scatter_to_pixels(const at::Tensor& values, const at::Tensor& pixels, at::IntArrayRef image, int64_t spatial,
                             bool adds);

// A loss by PyTorch's number of a reduction (none, mean, sum) is the call's result.
void reduce_loss(Call& call, const at::Tensor& losses, int64_t reduction);

}  // namespace unihal::pytorch
