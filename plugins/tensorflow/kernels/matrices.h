// What kernels of matrices share.
#pragma once

#include <initializer_list>
#include <string>

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

constexpr DtypeSet kMatrices = only(UHAL_FLOAT32) | only(UHAL_FLOAT64) | kComplex;

inline uhal_dtype real_of(uhal_dtype dtype) {
  return dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : dtype;
}

// The leading axes, and then others.
inline Shape batches_and(const View& a, std::initializer_list<int64_t> others) {
  Shape shape(a.shape, a.shape + a.rank - 2);
  shape.insert(shape.end(), others);
  return shape;
}

// Whether an input has matrices, which are square where that is asked for; the context has failed if not.
inline bool check_matrices(Context& context, const View& a, int number, bool square) {
  if (!context.ok()) return false;
  if (a.rank < 2) {
    context.fail_invalid("Input tensor " + std::to_string(number) + " must have rank >= 2, got " +
                         std::to_string(a.rank));
  } else if (square && a.shape[a.rank - 1] != a.shape[a.rank - 2]) {
    context.fail_invalid("Input matrix must be square.");
  }
  return context.ok();
}

// Whether there is a right hand side for each matrix, with its leading axes; the context has failed if not.
inline bool check_systems(Context& context, const View& matrix, const View& rhs) {
  if (!context.ok()) return false;
  if (matrix.rank != rhs.rank) {
    context.fail_invalid("All input tensors must have the same rank.");
    return false;
  }
  if (!check_matrices(context, matrix, 0, false)) return false;
  for (int i = 0; i + 2 < matrix.rank; ++i) {
    if (matrix.shape[i] != rhs.shape[i]) {
      context.fail_invalid("All input tensors must have the same outer dimensions.");
      return false;
    }
  }
  return true;
}

// An op's info, and whether any matrix has one that is not 0.
class Info {
 public:
  Info(Context& context, const View& a) : context_(context) {
    const Shape shape = batches_and(a, {});
    view_ = context.temporary(UHAL_INT32, shape.data(), static_cast<int>(shape.size()));
  }
  const View& view() const { return view_; }

  // Waits for the stream; fails the context with `message` if a matrix is bad.
  bool check(const char* message) {
    const int64_t count = view_.elements();
    if (!context_.ok() || count == 0) return context_.ok();
    const int64_t ones[UHAL_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const View largest = context_.temporary(UHAL_INT32, ones, 1);
    uhal_reduce_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.reduction = UHAL_REDUCE_MAXIMUM;
    const View numbers = view_.reshaped({count});
    if (!context_.ok() || !context_.launch(UHAL_OP_REDUCE, {&numbers}, {&largest}, &attributes)) return false;
    int32_t found = 0;
    uhal_status status = uhal_copy(context_.stream(), &found, largest.data, sizeof found, UHAL_COPY_DEVICE_TO_HOST);
    if (status == UHAL_OK) status = uhal_stream_synchronize(context_.stream());
    if (context_.check(status) && found != 0) context_.fail_invalid(message);
    return context_.ok();
  }

 private:
  Context& context_;
  View view_;
};

inline bool solve_triangle(Context& context, const View& a, const View& b, const View& x, bool upper,
                           bool unit_diagonal, bool conjugate = false) {
  uhal_triangular_solve_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  attributes.unit_diagonal = unit_diagonal;
  attributes.conjugate = conjugate;
  return context.launch(UHAL_OP_TRIANGULAR_SOLVE, {&a, &b}, {&x}, &attributes);
}

// The matrix, or its conjugated transpose.
inline View adjoint_of(Context& context, const View& a, bool adjoint) {
  if (!adjoint) return a;
  const View turned = a.transposed();
  if (real_of(a.dtype) == a.dtype) return turned;
  const View conjugated = context.temporary_like(turned);
  if (context.ok()) context.map(uhal_map_conjugate, {&turned}, {&conjugated});
  return conjugated;
}

}  // namespace unihal::tensorflow
