#include "csrc/backends/common/complex_matmul.h"

#include <utility>

#include "csrc/backends/common/matmul_problem.h"
#include "csrc/backends/common/quotient.h"

namespace unihal {
namespace {

void swap_rows_and_columns(uhal_tensor& view) {
  if (view.rank < 2) {  // a c of one axis is a row: now a column
    view.shape[1] = 1;
    view.strides[1] = 0;
    if (view.rank == 0) {
      view.shape[0] = 1;
      view.strides[0] = 0;
    }
    view.rank = 2;
    return;
  }
  std::swap(view.shape[view.rank - 2], view.shape[view.rank - 1]);
  std::swap(view.strides[view.rank - 2], view.strides[view.rank - 1]);
}

bool is_column_major(const uhal_tensor& d) {
  const int64_t row = d.strides[d.rank - 2];
  const int64_t column = d.strides[d.rank - 1];
  return d.shape[d.rank - 1] > 1 && column != 1 && (d.shape[d.rank - 2] == 1 || row == 1);
}

// Gives a view the strides of a row-major block of its shape, and returns its elements.
int64_t pack(uhal_tensor& view) {
  int64_t count = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = count;
    count *= view.shape[i];
  }
  return count;
}

// Whether rows of a complex view can be read as rows of pairs.
bool has_rows_of_pairs(const uhal_tensor& view, uhal_dtype dtype) {
  return view.dtype == dtype && view.rank > 0 && (view.shape[view.rank - 1] == 1 || view.strides[view.rank - 1] == 1);
}

// The rows of a complex view as real rows of twice the length.
uhal_tensor with_joined_pairs(const uhal_tensor& view) {
  uhal_tensor result = part(view, false);
  result.shape[view.rank - 1] *= 2;
  result.strides[view.rank - 1] = 1;
  return result;
}

uhal_dtype dtype_of(const uhal_op& op) {
  bool doubled = false;
  for (int i = 0; i < op.input_count + 1; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[0];
    doubled |= view != nullptr && (view->dtype == UHAL_COMPLEX128 || view->dtype == UHAL_FLOAT64);
  }
  return doubled ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
}

}  // namespace

bool is_complex_matmul(const uhal_op& op) {
  for (int i = 0; i < op.input_count + 1; ++i) {
    const uhal_tensor* view = i < op.input_count ? op.inputs[i] : op.outputs[0];
    if (view != nullptr && is_complex(view->dtype)) return true;
  }
  return false;
}

ComplexMatmul::ComplexMatmul(const uhal_op& op) : attributes_(matmul_attributes(op)) {
  const uhal_dtype dtype = dtype_of(op);
  const uhal_tensor* c = op.input_count > 2 ? op.inputs[2] : nullptr;
  has_c_ = c != nullptr && attributes_.beta != 0;
  a_.given = *op.inputs[0];
  b_ = *op.inputs[1];
  if (has_c_) c_.given = *c;
  d_.given = *op.outputs[0];
  if (is_column_major(d_.given)) {
    std::swap(a_.given, b_);
    for (uhal_tensor* view : {&a_.given, &b_, &c_.given, &d_.given}) {
      if (view != &c_.given || has_c_) swap_rows_and_columns(*view);
    }
  }
  const auto place = [&](Operand& operand, bool in_place, const uhal_tensor& shape) {
    operand.copied = !in_place;
    operand.used = operand.given;
    if (in_place) return;
    operand.used = shape;
    operand.used.dtype = dtype;
    operand.offset = bytes_;
    const auto size = static_cast<size_t>(pack(operand.used) * dtype_size(dtype));
    bytes_ += aligned_bytes(size);
  };
  const int64_t n = d_.given.shape[d_.given.rank - 1];
  place(a_, has_rows_of_pairs(a_.given, dtype), a_.given);
  place(d_, has_rows_of_pairs(d_.given, dtype), d_.given);
  if (has_c_) {
    const bool is_whole = c_.given.rank > 0 && c_.given.shape[c_.given.rank - 1] == n;
    place(c_, is_whole && has_rows_of_pairs(c_.given, dtype), d_.given);
  }

  // Two rows of n complex numbers for each row of b.
  even_ = b_;
  even_.dtype = dtype;
  even_.shape[b_.rank - 2] *= 2;
  const int64_t count = pack(even_);
  even_.shape[b_.rank - 2] /= 2;
  even_.strides[b_.rank - 2] *= 2;
  odd_ = even_;
  b_offset_ = bytes_;
  bytes_ += static_cast<size_t>(count * dtype_size(dtype));
}

void ComplexMatmul::use(void* memory) {
  char* const block = static_cast<char*>(memory);
  for (Operand* operand : {&a_, &c_, &d_}) {
    if (operand->copied) operand->used.data = block + operand->offset;
  }
  even_.data = block + b_offset_;
  const int64_t n = even_.shape[even_.rank - 1];
  odd_.data = static_cast<char*>(even_.data) + n * dtype_size(even_.dtype);
  real_[0] = with_joined_pairs(a_.used);
  real_[1] = with_joined_pairs(even_);
  real_[1].shape[real_[1].rank - 2] *= 2;
  real_[1].strides[real_[1].rank - 2] /= 2;
  if (has_c_) real_[2] = with_joined_pairs(c_.used);
  real_[3] = with_joined_pairs(d_.used);
  for (int i = 0; i < 3; ++i) inputs_[i] = &real_[i];
  outputs_[0] = &real_[3];
  product_ = {};
  product_.struct_size = sizeof product_;
  product_.kind = UHAL_OP_MATMUL;
  product_.input_count = has_c_ ? 3 : 2;
  product_.output_count = 1;
  product_.inputs = inputs_;
  product_.outputs = outputs_;
  product_.attributes = &attributes_;
}

}  // namespace unihal
