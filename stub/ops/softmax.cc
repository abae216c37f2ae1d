#include "stub/ops/softmax_rows.h"

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"

namespace unihal::stub {
namespace {

// Work per element, in the units of parallel_for: an exponential and a few passes.
constexpr int64_t kWork = 8;

uhal_softmax_attributes attributes_of(const uhal_op& op) {
  uhal_softmax_attributes defaults = {};
  defaults.axis = -1;
  return attributes_or(op, defaults);
}

template <typename T>
void softmax_forward_row(bool logarithm, int64_t count, const T* x, T* y) {
  if (!logarithm) {
    softmax_row(count, x, y);
    return;
  }
  const T largest = row_maximum(count, x);
  // y may be x, which is still needed: the exponentials go elsewhere, a piece at a time.
  constexpr int64_t kPiece = 1024;
  T piece[kPiece];
  T sum = 0;
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t length = std::min(kPiece, count - i);
    row_subtract(length, x + i, largest, piece);
    exponentiate(length, piece);
    sum += row_sum(length, piece);
  }
  row_subtract(count, x, LogSum<T>{largest, std::log(sum)}, y);
}

template <typename T>
UNIHAL_VECTORIZED void multiply_by_difference(int64_t count, const T* y, const T* dy, T offset, T* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] * (dy[i] - offset);
}

template <typename T>
UNIHAL_VECTORIZED void subtract_scaled(int64_t count, const T* dy, T factor, T* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] - factor * dx[i];
}

template <typename T>
void softmax_backward_row(bool logarithm, int64_t count, const T* y, const T* dy, T* dx) {
  if (logarithm) {
    std::copy_n(y, count, dx);
    exponentiate(count, dx);
    subtract_scaled(count, dy, row_sum(count, dy), dx);
  } else {
    multiply_by_difference(count, y, dy, row_dot(count, y, dy), dx);
  }
}

template <typename T>
uhal_status softmax(const Launch& launch, uhal_dtype dtype) {
  const uhal_softmax_attributes attributes = attributes_of(launch.op);
  const uhal_tensor& first = *launch.op.inputs[0];
  const AxisOrder order = order_with_axis_last(first, attributes.axis);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const uhal_tensor* gradient = staging.input(1, dtype, &order);
  const uhal_tensor* y = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();

  const int64_t count = first.rank == 0 ? 1 : first.shape[order.axes[order.rank - 1]];
  const bool logarithm = attributes.logarithm != 0;
  parallel_for(element_count(first) / count, count * kWork, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * count; i < end * count; i += count) {
      const T* x_row = static_cast<const T*>(x->data) + i;
      T* y_row = static_cast<T*>(y->data) + i;
      if (gradient == nullptr) {
        softmax_forward_row(logarithm, count, x_row, y_row);
      } else {
        softmax_backward_row(logarithm, count, x_row, static_cast<const T*>(gradient->data) + i, y_row);
      }
    }
  });
  return staging.finish();
}

}  // namespace

const char* refuse_softmax(const uhal_op& op) {
  for (const uhal_tensor* view : {input_of(op, 0), input_of(op, 1), output_of(op, 0)}) {
    if (view != nullptr && !is_floating(view->dtype)) {
      return "softmax takes floating point only: cast the operands first";
    }
  }
  return nullptr;
}

uhal_status run_softmax(const Launch& launch) {
  const uhal_op& op = launch.op;
  if (element_count(*op.inputs[0]) == 0) return UHAL_OK;
  const uhal_dtype dtype = arithmetic_dtype(op);
  return dtype == UHAL_FLOAT64 ? softmax<double>(launch, dtype) : softmax<float>(launch, dtype);
}

}  // namespace unihal::stub
