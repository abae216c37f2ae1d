// Elements in other places: flips, rolls, triangles, paddings with an image's own elements.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// -- orders ---------------------------------------------------------------------------------------------------

// (self, dims)
void flip(Call& call) {
  const at::Tensor& self = call.tensor(0);
  c10::DimVector dims = call.integers(1);
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  const at::Tensor& result = call.make_result_like(self);
  if (result.numel() == 0) return;
  View x = view_of(self);
  for (int i = 0; i < x.rank; ++i) {
    if (flipped[static_cast<size_t>(i)]) x = x.sliced(i, x.shape[i] - 1, x.shape[i], -1);
  }
  call.copy(x, view_of(result));
}

// Moves along one axis: what leaves at one end enters at the other.
void roll_axis(Call& call, const View& from, const View& to, int axis, int64_t shift) {
  const int64_t length = from.shape[axis];
  const int64_t start = ((shift % length) + length) % length;
  if (start < length) {
    call.copy(from.sliced(axis, 0, length - start), to.sliced(axis, start, length - start));
  }
  if (start > 0) call.copy(from.sliced(axis, length - start, start), to.sliced(axis, 0, start));
}

// (self, shifts, dims)
void roll(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector shifts = call.integers(1);
  const c10::DimVector dims = call.integers(2);
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  const bool flat = dims.empty() && shifts.size() == 1;
  TORCH_CHECK(flat || shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  if (flat) {
    const at::Tensor from = call.keep(self.reshape({-1}));
    const at::Tensor to = call.keep(result.is_contiguous() ? result.view({-1}) : at::Tensor());
    call.require(to.defined(), "a result that is not contiguous");
    return roll_axis(call, view_of(from), view_of(to), 0, shifts[0]);
  }
  at::Tensor from = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool last = i + 1 == dims.size();
    const at::Tensor to = last ? result : call.scratch(self.sizes(), self.scalar_type());
    if (self.dim() == 0) {
      at::maybe_wrap_dim(dims[i], int64_t{0});
      call.copy(view_of(from), view_of(to));
    } else {
      roll_axis(call, view_of(from), view_of(to), static_cast<int>(at::maybe_wrap_dim(dims[i], self.dim())), shifts[i]);
    }
    from = to;
  }
}

// -- triangles ------------------------------------------------------------------------------------------------

template <bool kUpper>
void triangle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.dim() >= 2, kUpper ? "triu" : "tril", ": input tensor must have at least 2 dimensions");
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = kUpper;
  attributes.diagonal = call.integer(1);
  const View x = view_of(self);
  const View y = view_of(result);
  call.launch(UHAL_OP_TRIANGULAR, {&x}, {&y}, &attributes);
}

void trace(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  call.set_result(0, self.diagonal().sum());
}

// -- paddings with elements of the image -----------------------------------------------------------------------

enum class Border { kReflection, kReplication };

// The place in the input of each place of the padded axis.
at::Tensor places(const at::Tensor& self, Border border, int64_t length, int64_t before, int64_t after) {
  const at::Tensor at = at::arange(-before, length + after, self.options().dtype(at::kLong).requires_grad(false));
  if (border == Border::kReplication) return at.clamp(0, length - 1);
  return (length - 1) - ((length - 1) - at.abs()).abs();
}

c10::DimVector padding_of(const Call& call, int index, int spatial) {
  const c10::DimVector padding = call.integers(index);
  TORCH_CHECK(static_cast<int>(padding.size()) == 2 * spatial, "padding size is expected to be ", 2 * spatial,
              ", but got: ", padding.size());
  return padding;
}

template <int kSpatial, Border kBorder>
c10::DimVector padded_sizes(const at::Tensor& self, const c10::DimVector& padding) {
  bool valid = self.dim() == kSpatial + 1 || self.dim() == kSpatial + 2;
  for (int64_t i = self.dim() == kSpatial + 2 ? 1 : 0; valid && i < self.dim(); ++i) valid = self.size(i) != 0;
  TORCH_CHECK(valid, "Expected ", kSpatial + 1, "D or ", kSpatial + 2,
              "D (batch mode) tensor with possibly 0 batch "
              "size and other non-zero dimensions for input, but got: ",
              self.sizes());
  c10::DimVector sizes(self.sizes());
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t axis = self.dim() - 1 - i;
    const int64_t before = padding[2 * i];
    const int64_t after = padding[2 * i + 1];
    TORCH_CHECK(kBorder == Border::kReplication || (before < self.size(axis) && after < self.size(axis)),
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
                before, ", ", after, ") at dimension ", axis, " of input ", self.sizes());
    sizes[axis] += before + after;
    TORCH_CHECK(sizes[axis] >= 1, "input (", self.sizes(), ") is too small for a padding of ", before, " and ", after,
                " at dimension ", axis);
  }
  return sizes;
}

// (self, padding)
template <int kSpatial, Border kBorder>
void pad(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::DimVector padding = padding_of(call, 1, kSpatial);
  padded_sizes<kSpatial, kBorder>(self, padding);
  at::Tensor result = self;
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t axis = self.dim() - 1 - i;
    if (padding[2 * i] == 0 && padding[2 * i + 1] == 0 && i + 1 < kSpatial) continue;
    result = result.index_select(axis, places(self, kBorder, self.size(axis), padding[2 * i], padding[2 * i + 1]));
  }
  call.set_result(0, result.contiguous(self.suggest_memory_format()));
}

// (grad_output, self, padding)
template <int kSpatial, Border kBorder>
void pad_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const c10::DimVector padding = padding_of(call, 2, kSpatial);
  const c10::DimVector sizes = padded_sizes<kSpatial, kBorder>(self, padding);
  at::Tensor gradient = call.tensor(0);
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef(sizes), "grad_output has the sizes ", gradient.sizes(),
              ", expected: ", at::IntArrayRef(sizes));
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t axis = self.dim() - 1 - i;
    c10::DimVector smaller(gradient.sizes());
    smaller[axis] = self.size(axis);
    gradient =
        at::zeros(smaller, gradient.options())
            .index_add(axis, places(self, kBorder, self.size(axis), padding[2 * i], padding[2 * i + 1]), gradient);
  }
  call.set_result(0, gradient);
}

// -- elements by number ------------------------------------------------------------------------------------------

// (self, index)
void take(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(1);
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  const at::Tensor& result = call.make_result(0, index.sizes(), self.scalar_type());
  if (result.numel() == 0) return;
  const View x = view_of(call.keep(self.reshape({-1})));
  const View indices = view_of(index);
  const View y = view_of(result);
  uhal_index_attributes attributes = index_attributes(0);
  attributes.negative_wraps = 1;
  call.launch(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
}

// (self, index, source, accumulate), in place
void put(Call& call) {
  at::Tensor self = call.tensor(0);
  const at::Tensor& index = call.tensor(1);
  const at::Tensor& source = call.tensor(2);
  TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "put_(): self and source expected to have the same dtype, ",
              "but got self.dtype = ", self.scalar_type(), " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(index.numel() == source.numel(), "put_(): Expected source and index to have the same number of ",
              "elements, but got source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  if (index.numel() == 0) return;
  at::Tensor flat = call.keep(self.is_contiguous() ? self.view({-1}) : self.contiguous().view({-1}));
  const View indices = view_of(call.keep(index.reshape({-1})));
  const View updates = view_of(call.keep(source.reshape({-1})));
  const View y = view_of(flat);
  uhal_index_attributes attributes = index_attributes(0);
  attributes.negative_wraps = 1;
  if (call.boolean(3)) attributes.reduction = UHAL_REDUCE_SUM;
  call.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
  if (!self.is_contiguous()) self.copy_(flat.view(self.sizes()));
}

#define PADS(name, border)                                                                                             \
  {name "_pad1d", kAll, pad<1, border>}, {name "_pad2d", kAll, pad<2, border>}, {name "_pad3d", kAll, pad<3, border>}, \
      {name "_pad1d_backward", kFloats | kComplex, pad_backward<1, border>},                                           \
      {name "_pad2d_backward", kFloats | kComplex, pad_backward<2, border>}, {                                         \
    name "_pad3d_backward", kFloats | kComplex, pad_backward<3, border>                                                \
  }

constexpr Kernel kMovementKernels[] = {
    {"flip", kAll, flip},
    {"roll", kAll, roll},
    {"tril", kAll, triangle<false>},
    {"triu", kAll, triangle<true>},
    {"trace", kAll, trace},
    {"take", kAll, take},
    {"put_", kAll, put},
    PADS("reflection", Border::kReflection),
    PADS("replication", Border::kReplication),
};

}  // namespace

void register_movement() { register_kernels(kMovementKernels); }

}  // namespace unihal::pytorch
