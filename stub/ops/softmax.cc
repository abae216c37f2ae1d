#include "stub/ops/softmax_rows.h"

#include <atomic>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/converted_rows.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
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
uhal_status softmax(const Launch& launch) {
  const uhal_softmax_attributes attributes = attributes_of(launch.op);
  const uhal_tensor& first = *launch.op.inputs[0];
  const AxisOrder order = order_with_axis_last(first, attributes.axis);
  const int64_t count = first.rank == 0 ? 1 : first.shape[order.axes[order.rank - 1]];
  Staging staging(launch);
  const ConvertedRows<T> x(staging.input(0, order), count);
  const ConvertedRows<T> gradient(staging.input(1, order), count);
  const ConvertedRows<T> y(staging.output(0, order), count);
  if (staging.status() != UHAL_OK) return staging.status();

  const bool logarithm = attributes.logarithm != 0;
  std::atomic<bool> exhausted{false};
  parallel_for(element_count(first) / count, count * kWork, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* rooms[3] = {};
    const ConvertedRows<T>* const rows[] = {&x, &gradient, &y};
    for (int i = 0; i < 3; ++i) {
      if (!rows[i]->converts()) continue;
      rooms[i] = frame.take<T>(static_cast<size_t>(count));
      if (rooms[i] == nullptr) return exhausted.store(true, std::memory_order_relaxed);
    }
    for (int64_t i = begin; i < end; ++i) {
      const T* const x_row = x.read(i, rooms[0]);
      T* const y_row = y.place(i, rooms[2]);
      if (gradient.is_absent()) {
        softmax_forward_row(logarithm, count, x_row, y_row);
      } else {
        softmax_backward_row(logarithm, count, x_row, gradient.read(i, rooms[1]), y_row);
      }
      y.finish(i, y_row);
    }
  });
  return exhausted.load() ? staging.fail_without_memory() : staging.finish();
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
  return arithmetic_dtype(op) == UHAL_FLOAT64 ? softmax<double>(launch) : softmax<float>(launch);
}

}  // namespace unihal::stub
