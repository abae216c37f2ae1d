// Weighted sums of neighbours along an axis: the operands as blocks (outer, along the axis, inner).
#include <algorithm>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/weighted_rows.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

template <typename T>
struct Problem {
  int64_t outer, x_length, y_length, inner, taps;
  const int32_t* first;
  const T* weights;
};

// The taps of an element of y that lie inside x: numbers `begin` to `end` - 1.
struct Inside {
  int64_t begin, end;
};

template <typename T>
UNIHAL_INLINE Inside inside_of(const Problem<T>& p, int64_t i) {
  const int64_t first = p.first[i];
  return {std::max(int64_t{0}, -first), std::min(p.taps, p.x_length - first)};
}

// The elements of y at one place of the axis. `inner` is a constant where it is small.
template <typename T>
UNIHAL_INLINE void add_taps(const Problem<T>& p, int64_t i, int64_t inner, const T* x, T* y) {
  const Inside inside = inside_of(p, i);
  for (int64_t c = 0; c < inner; ++c) y[c] = 0;
  for (int64_t t = inside.begin; t < inside.end; ++t) {
    const T weight = p.weights[i * p.taps + t];
    if (weight == 0) continue;
    const T* from = x + (p.first[i] + t) * inner;
    for (int64_t c = 0; c < inner; ++c) y[c] += weight * from[c];
  }
}

// The same of many elements.
template <typename T>
UNIHAL_INLINE void sum_taps(const Problem<T>& p, int64_t i, const T* x, T* y) {
  constexpr int64_t kTogether = 16;
  const Inside inside = inside_of(p, i);
  const T* rows[kTogether];
  T weights[kTogether];
  int64_t count = 0;
  if (inside.end - inside.begin > kTogether) return add_taps(p, i, p.inner, x, y);
  for (int64_t t = inside.begin; t < inside.end; ++t) {
    rows[count] = x + (p.first[i] + t) * p.inner;
    weights[count] = p.weights[i * p.taps + t];
    count += weights[count] != 0 ? 1 : 0;
  }
  sum_rows(p.inner, count, rows, weights, y);
}

// Places `begin` to `end` - 1 of all blocks.
template <typename T>
UNIHAL_VECTORIZED void resample_places(const Problem<T>& p, int64_t begin, int64_t end, const T* x, T* y) {
  for (int64_t place = begin; place < end; ++place) {
    const int64_t block = place / p.y_length, i = place % p.y_length;
    const T* from = x + block * p.x_length * p.inner;
    T* to = y + place * p.inner;
    switch (p.inner) {
      case 1:
        add_taps(p, i, 1, from, to);
        break;
      case 3:
        add_taps(p, i, 3, from, to);
        break;
      case 4:
        add_taps(p, i, 4, from, to);
        break;
      default:
        sum_taps(p, i, from, to);
    }
  }
}

// Blocks that are worked on side by side, each with a vector of its own: what a tap weighs is looked up once for all.
constexpr int64_t kLines = 8;

// The same of kLines blocks from `block` on, of three or four elements at each place. Three are computed as four: what
// is read and written beyond them must be there, and is written again later.
template <typename T, int64_t kInner>
UNIHAL_VECTORIZED void resample_lines(const Problem<T>& p, int64_t block, const T* x, T* y) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  const int64_t x_step = p.x_length * kInner, y_step = p.y_length * kInner;
  x += block * x_step;
  y += block * y_step;
  for (int64_t i = 0; i < p.y_length; ++i, y += kInner) {
    const Inside inside = inside_of(p, i);
    if (kInner == 3 && (i + 1 == p.y_length || p.first[i] + inside.end >= p.x_length)) {
      for (int64_t line = 0; line < kLines; ++line) add_taps(p, i, kInner, x + line * x_step, y + line * y_step);
      continue;
    }
    Four sums[kLines] = {};
    for (int64_t t = inside.begin; t < inside.end; ++t) {
      const T weight = p.weights[i * p.taps + t];
      if (weight == 0) continue;
      const T* from = x + (p.first[i] + t) * kInner;
      for (int64_t line = 0; line < kLines; ++line) {
        sums[line] += weight * *reinterpret_cast<const Four*>(from + line * x_step);
      }
    }
    for (int64_t line = 0; line < kLines; ++line) *reinterpret_cast<Four*>(y + line * y_step) = sums[line];
  }
}

// The same of one element at each place: the sums of several blocks do not wait for one another.
template <typename T>
UNIHAL_VECTORIZED void resample_single_lines(const Problem<T>& p, int64_t block, const T* x, T* y) {
  x += block * p.x_length;
  y += block * p.y_length;
  for (int64_t i = 0; i < p.y_length; ++i, ++y) {
    const Inside inside = inside_of(p, i);
    T sums[kLines] = {};
    for (int64_t t = inside.begin; t < inside.end; ++t) {
      const T weight = p.weights[i * p.taps + t];
      if (weight == 0) continue;
      const T* const from = x + p.first[i] + t;
#pragma GCC unroll 8
      for (int64_t line = 0; line < kLines; ++line) sums[line] += weight * from[line * p.x_length];
    }
#pragma GCC unroll 8
    for (int64_t line = 0; line < kLines; ++line) y[line * p.y_length] = sums[line];
  }
}

// Blocks of one, three or four elements at each place: kLines by kLines, and what is left.
template <typename T>
void resample_blocks(const Problem<T>& p, int64_t begin, int64_t end, const T* x, T* y) {
  for (; begin + kLines <= end; begin += kLines) {
    if (p.inner == 1) {
      resample_single_lines(p, begin, x, y);
    } else {
      p.inner == 3 ? resample_lines<T, 3>(p, begin, x, y) : resample_lines<T, 4>(p, begin, x, y);
    }
  }
  resample_places(p, begin * p.y_length, end * p.y_length, x, y);
}

template <typename T>
uhal_status resample(const Launch& launch, uhal_dtype dtype) {
  const uhal_op& op = launch.op;
  const int rank = op.inputs[0]->rank;
  const int axis = attributes_or(op, uhal_axis_attributes{sizeof(uhal_axis_attributes), 0, 0}).axis;
  const AxisOrder order = memory_order(*op.outputs[0]), table = row_major(2), list = row_major(1);
  Staging staging(launch);
  const uhal_tensor* x = staging.input(0, dtype, &order);
  const uhal_tensor* first = staging.input(1, UHAL_INT32, &list);
  const uhal_tensor* weights = staging.input(2, dtype, &table);
  const uhal_tensor* y = staging.output(0, dtype, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  Problem<T> p = {1,
                  x->shape[axis],
                  y->shape[axis],
                  1,
                  weights->shape[1],
                  data_of<const int32_t>(first),
                  data_of<const T>(weights)};
  bool before = true;
  for (int i = 0; i < rank; ++i) {
    if (order.axes[i] == axis) {
      before = false;
    } else {
      (before ? p.outer : p.inner) *= y->shape[order.axes[i]];
    }
  }
  const T* const from = data_of<const T>(x);
  T* const to = data_of<T>(y);
  const int64_t work = p.inner * std::max<int64_t>(p.taps, 1);
  if (p.inner == 1 || p.inner == 3 || p.inner == 4) {
    parallel_for(p.outer, p.y_length * work,
                 [&](int64_t begin, int64_t end) { resample_blocks(p, begin, end, from, to); });
  } else {
    parallel_for(p.outer * p.y_length, work,
                 [&](int64_t begin, int64_t end) { resample_places(p, begin, end, from, to); });
  }
  return staging.finish();
}

}  // namespace

const char* refuse_resample(const uhal_op& op) {
  for (const uhal_tensor* view : {op.inputs[0], op.inputs[2], op.outputs[0]}) {
    if (!is_floating(view->dtype)) return "resampling takes floating point only: cast the operands first";
  }
  return nullptr;
}

uhal_status run_resample(const Launch& launch) {
  const uhal_op& op = launch.op;
  if (element_count(*op.outputs[0]) == 0) return UHAL_OK;
  const bool wide = op.inputs[0]->dtype == UHAL_FLOAT64 || op.inputs[2]->dtype == UHAL_FLOAT64 ||
                    op.outputs[0]->dtype == UHAL_FLOAT64;
  return wide ? resample<double>(launch, UHAL_FLOAT64) : resample<float>(launch, UHAL_FLOAT32);
}

}  // namespace unihal::stub
