// Layer norm and RMS norm: rows of adjacent elements, each normalized by its own statistics. RMS norm is layer norm
// with a mean of 0, and hands out the inverse root instead of the variance.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "stub/common/activation.h"
#include "stub/common/converted_rows.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/norm.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Work per element, in the units of parallel_for.
constexpr int64_t kWork = 4;
// Rows whose contributions to the gradients of scale and bias are summed together: fixed pieces, so that the result
// does not depend on the number of threads.
constexpr int64_t kPieces = 32;

// As stub/vector/reduce.cc adds: short runs in T over many lanes, which are then added up in double.
constexpr int64_t kLanes = 64;
constexpr int64_t kRun = 16 * kLanes;

// The sum of enter(x[i]).
template <typename T, typename Enter>
UNIHAL_INLINE double sum_in_lanes(int64_t count, const T* x, const Enter& enter) {
  double sum = 0;
  while (count >= kLanes) {
    const int64_t length = (count < kRun ? count : kRun) / kLanes * kLanes;
    T lanes[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = enter(x[j]);
    for (int64_t i = kLanes; i < length; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += enter(x[i + j]);
    }
    for (int64_t width = kLanes / 2; width >= 8; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
    }
    for (int64_t j = 0; j < 8; ++j) sum += static_cast<double>(lanes[j]);
    x += length;
    count -= length;
  }
  for (int64_t j = 0; j < count; ++j) sum += static_cast<double>(enter(x[j]));
  return sum;
}

template <typename T>
UNIHAL_VECTORIZED double sum_of(int64_t count, const T* x) {
  return sum_in_lanes(count, x, [](T value) UNIHAL_INLINE_LAMBDA { return value; });
}

template <typename T>
UNIHAL_VECTORIZED double sum_of_squares(int64_t count, const T* x, T mean) {
  return sum_in_lanes(count, x, [mean](T value) UNIHAL_INLINE_LAMBDA { return (value - mean) * (value - mean); });
}

template <typename T>
UNIHAL_VECTORIZED void normalize(int64_t count, const T* x, T mean, T inverse, const T* scale, const T* bias, T* y) {
  if (scale != nullptr && bias != nullptr) {
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  } else if (scale != nullptr) {
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
  } else if (bias != nullptr) {
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse + bias[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse;
  }
}

// The sums that one row's gradient needs, of g = dy * scale: {sum of g, sum of g * normalized x}.
struct RowSums {
  double first, second;
};

template <typename T>
UNIHAL_VECTORIZED RowSums row_sums(int64_t count, const T* x, const T* dy, T mean, T inverse, const T* scale) {
  double first = 0;
  double second = 0;
  if (scale != nullptr) {
#pragma omp simd reduction(+ : first, second)
    for (int64_t i = 0; i < count; ++i) {
      const T gradient = dy[i] * scale[i];
      first += static_cast<double>(gradient);
      second += static_cast<double>(gradient * ((x[i] - mean) * inverse));
    }
  } else {
#pragma omp simd reduction(+ : first, second)
    for (int64_t i = 0; i < count; ++i) {
      first += static_cast<double>(dy[i]);
      second += static_cast<double>(dy[i] * ((x[i] - mean) * inverse));
    }
  }
  return {first, second};
}

// dx = inverse * (g - first - normalized x * second), the means of row_sums.
template <typename T>
UNIHAL_VECTORIZED void row_gradient(int64_t count, const T* x, const T* dy, T mean, T inverse, const T* scale, T first,
                                    T second, T* dx) {
  if (scale != nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      dx[i] = inverse * (dy[i] * scale[i] - first - (x[i] - mean) * inverse * second);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) dx[i] = inverse * (dy[i] - first - (x[i] - mean) * inverse * second);
  }
}

template <typename T>
UNIHAL_VECTORIZED void add_parameter_gradients(int64_t count, const T* x, const T* dy, T mean, T inverse,
                                               double* __restrict dscale, double* __restrict dbias) {
  for (int64_t i = 0; i < count; ++i) {
    dscale[i] += static_cast<double>(dy[i] * ((x[i] - mean) * inverse));
    dbias[i] += static_cast<double>(dy[i]);
  }
}

struct Rows {
  int64_t rows, count;
};

// Room for a converted row of each operand that is not of type T; false without memory.
template <typename T, int kOperands>
bool take_rooms(ScratchFrame& frame, int64_t count, const ConvertedRows<T>* const (&rows)[kOperands],
                T* (&rooms)[kOperands]) {
  for (int i = 0; i < kOperands; ++i) {
    if (!rows[i]->converts()) continue;
    rooms[i] = frame.take<T>(static_cast<size_t>(count));
    if (rooms[i] == nullptr) return false;
  }
  return true;
}

Rows rows_of(const uhal_tensor& x, int axis) {
  if (axis < 0) axis += x.rank;
  Rows result = {1, 1};
  for (int i = 0; i < x.rank; ++i) (i < axis ? result.rows : result.count) *= x.shape[i];
  return result;
}

}  // namespace

template <typename T>
uhal_status layer_norm(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const uhal_norm_attributes attributes = norm_attributes(op);
  const bool centered = op.kind == UHAL_OP_LAYER_NORM;
  const AxisOrder order = row_major(op.inputs[0]->rank);
  const Rows shape = rows_of(*op.inputs[0], attributes.axis);
  Staging staging(launch);
  const ConvertedRows<T> x(staging.input(0, order), shape.count);
  const AxisOrder own = row_major(input_of(op, 1) != nullptr ? input_of(op, 1)->rank : 0);
  const T* scale = data_of<const T>(staging.input(1, dtype, &own));
  const AxisOrder own_bias = row_major(centered && input_of(op, 2) != nullptr ? input_of(op, 2)->rank : 0);
  const T* bias = centered ? data_of<const T>(staging.input(2, dtype, &own_bias)) : nullptr;
  const ConvertedRows<T> y(staging.output(0, order), shape.count);
  T* mean = centered ? data_of<T>(staging.output(1, dtype, &order)) : nullptr;
  T* variance = centered ? data_of<T>(staging.output(2, dtype, &order)) : nullptr;
  T* inverse_rms = centered ? nullptr : data_of<T>(staging.output(1, dtype, &order));
  if (staging.status() != UHAL_OK) return staging.status();

  const double divisor = static_cast<double>(std::max<int64_t>(1, shape.count));
  std::atomic<bool> exhausted{false};
  parallel_for(shape.rows, shape.count * kWork, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    const ConvertedRows<T>* const operands[] = {&x, &y};
    T* rooms[2] = {};
    if (!take_rooms(frame, shape.count, operands, rooms)) return exhausted.store(true, std::memory_order_relaxed);
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = x.read(row, rooms[0]);
      T* const to = y.place(row, rooms[1]);
      const T center = centered ? static_cast<T>(sum_of(shape.count, from) / divisor) : T(0);
      const double spread = sum_of_squares(shape.count, from, center) / divisor;
      const T inverse = static_cast<T>(1 / std::sqrt(spread + attributes.epsilon));
      normalize(shape.count, from, center, inverse, scale, bias, to);
      if (attributes.activation != UHAL_ACTIVATION_NONE) {
        for (int64_t i = 0; i < shape.count; ++i) to[i] = activate(attributes.activation, to[i]);
      }
      y.finish(row, to);
      if (mean != nullptr) mean[row] = center;
      if (variance != nullptr) variance[row] = static_cast<T>(spread);
      if (inverse_rms != nullptr) inverse_rms[row] = inverse;
    }
  });
  return exhausted.load() ? staging.fail_without_memory() : staging.finish();
}

template <typename T>
uhal_status layer_norm_backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const uhal_norm_attributes attributes = norm_attributes(op);
  const bool centered = op.kind == UHAL_OP_LAYER_NORM_BACKWARD;
  const AxisOrder order = row_major(op.inputs[0]->rank);
  const Rows shape = rows_of(*op.inputs[0], attributes.axis);
  const int own_rank =
      op.inputs[0]->rank - (attributes.axis < 0 ? attributes.axis + op.inputs[0]->rank : attributes.axis);
  const AxisOrder own = row_major(own_rank);
  Staging staging(launch);
  const ConvertedRows<T> x(staging.input(0, order), shape.count);
  const ConvertedRows<T> dy(staging.input(1, order), shape.count);
  const T* scale = data_of<const T>(staging.input(2, dtype, &own));
  const T* mean = centered ? data_of<const T>(staging.input(3, dtype, &order)) : nullptr;
  const T* variance = centered ? data_of<const T>(staging.input(4, dtype, &order)) : nullptr;
  const T* inverse_rms = centered ? nullptr : data_of<const T>(staging.input(3, dtype, &order));
  const ConvertedRows<T> dx(staging.output(0, order), shape.count);
  T* dscale = data_of<T>(staging.output(1, dtype, &own));
  T* dbias = centered ? data_of<T>(staging.output(2, dtype, &own)) : nullptr;
  if (staging.status() != UHAL_OK) return staging.status();

  const int64_t pieces = std::min(kPieces, shape.rows);
  const bool parameters = dscale != nullptr || dbias != nullptr;
  double* partial = parameters ? staging.take<double>(static_cast<size_t>(pieces * 2 * shape.count)) : nullptr;
  if (staging.status() != UHAL_OK) return staging.status();
  const double divisor = static_cast<double>(std::max<int64_t>(1, shape.count));
  std::atomic<bool> exhausted{false};
  parallel_for(
      pieces, shape.rows * shape.count * kWork / std::max<int64_t>(1, pieces), [&](int64_t begin, int64_t end) {
        ScratchFrame frame;
        const ConvertedRows<T>* const operands[] = {&x, &dy, &dx};
        T* rooms[3] = {};
        if (!take_rooms(frame, shape.count, operands, rooms)) return exhausted.store(true, std::memory_order_relaxed);
        for (int64_t piece = begin; piece < end; ++piece) {
          double* scale_sums = parameters ? partial + piece * 2 * shape.count : nullptr;
          if (parameters) std::fill_n(scale_sums, 2 * shape.count, 0.0);
          for (int64_t row = shape.rows * piece / pieces; row < shape.rows * (piece + 1) / pieces; ++row) {
            const T* const x_row = x.read(row, rooms[0]);
            const T* const dy_row = dy.read(row, rooms[1]);
            T* const dx_row = dx.place(row, rooms[2]);
            const T center = centered ? mean[row] : T(0);
            const T inverse =
                centered ? static_cast<T>(1 / std::sqrt(static_cast<double>(variance[row]) + attributes.epsilon))
                         : inverse_rms[row];
            const RowSums sums = row_sums(shape.count, x_row, dy_row, center, inverse, scale);
            row_gradient(shape.count, x_row, dy_row, center, inverse, scale,
                         centered ? static_cast<T>(sums.first / divisor) : T(0), static_cast<T>(sums.second / divisor),
                         dx_row);
            dx.finish(row, dx_row);
            if (parameters) {
              add_parameter_gradients(shape.count, x_row, dy_row, center, inverse, scale_sums,
                                      scale_sums + shape.count);
            }
          }
        }
      });
  if (exhausted.load()) return staging.fail_without_memory();
  if (parameters) {
    for (int64_t i = 0; i < shape.count; ++i) {
      double scale_sum = 0;
      double bias_sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        scale_sum += partial[piece * 2 * shape.count + i];
        bias_sum += partial[(piece * 2 + 1) * shape.count + i];
      }
      if (dscale != nullptr) dscale[i] = static_cast<T>(scale_sum);
      if (dbias != nullptr) dbias[i] = static_cast<T>(bias_sum);
    }
  }
  return staging.finish();
}

template uhal_status layer_norm<float>(const Launch&, uhal_dtype);
template uhal_status layer_norm<double>(const Launch&, uhal_dtype);
template uhal_status layer_norm_backward<float>(const Launch&, uhal_dtype);
template uhal_status layer_norm_backward<double>(const Launch&, uhal_dtype);

}  // namespace unihal::stub
