// LU factorization with partial pivoting, in a copy by columns.
#include <numeric>

#include "stub/common/staging.h"
#include "stub/ops/dense.h"
#include "stub/ops/lanes.h"

namespace unihal::stub {
namespace {

enum { kLu, kPivots, kPermutation, kInfo, kA, kOperands };

// The order of the rows after all exchanges.
void permute(const int32_t* pivots, int64_t steps, int64_t rows, int32_t* order) {
  std::iota(order, order + rows, 0);
  for (int64_t i = 0; i < steps; ++i) std::swap(order[i], order[pivots[i]]);
}

// The operands of an op, of which the last two outputs may be absent.
struct Operands {
  const uhal_tensor* views[kOperands];
  int64_t m, n, steps;

  explicit Operands(const uhal_op& op)
      : views{op.outputs[0], op.outputs[1], output_of(op, 2), output_of(op, 3), op.inputs[0]},
        m(rows_of(*views[kA])),
        n(columns_of(*views[kA])),
        steps(std::min(m, n)) {}

  // Writes what belongs to the factors of one matrix. `order` has room for m numbers.
  void store(const Cursor& at, const int32_t* pivots, int32_t info, int32_t* order) const {
    const auto given = vector_of<int32_t>(*views[kPivots], at.offset(kPivots));
    for (int64_t i = 0; i < steps; ++i) given[i] = pivots[i];
    if (views[kPermutation] != nullptr) {
      permute(pivots, steps, m, order);
      const auto permutation = vector_of<int32_t>(*views[kPermutation], at.offset(kPermutation));
      for (int64_t i = 0; i < m; ++i) permutation[i] = order[i];
    }
    if (views[kInfo] != nullptr) static_cast<int32_t*>(views[kInfo]->data)[at.offset(kInfo)] = info;
  }
};

// One matrix by itself. False: no memory.
template <typename T>
bool factorize_one(const Operands& operands, const Cursor& at) {
  const int64_t m = operands.m, n = operands.n;
  ScratchFrame frame;
  const auto result = matrix_of<T>(*operands.views[kLu], at.offset(kLu));
  const bool in_place = m * n > 0 && result.in_columns();  // there it is factorized
  T* const data = in_place ? result.data : frame.take<T>(static_cast<size_t>(m * n));
  int32_t* const pivots = frame.take<int32_t>(static_cast<size_t>(operands.steps));
  int32_t* const order = frame.take<int32_t>(static_cast<size_t>(m));
  if (data == nullptr || pivots == nullptr || order == nullptr) return false;
  const Matrix2<T> columns = in_place ? result : columns_at(data, m, n);
  copy_matrix(matrix_of<T>(*operands.views[kA], at.offset(kA)), columns);
  const int32_t info = operands.steps > 0 ? factorize_lu(columns, pivots) : 0;
  if (!in_place) copy_matrix(columns, result);
  operands.store(at, pivots, info, order);
  return true;
}

// At most as many small ones as there are lanes. False: no memory.
template <typename T>
bool factorize_group(const Operands& operands, const Cursor& first, int64_t count) {
  constexpr int64_t kCount = kLanes<T>;
  const int64_t m = operands.m, n = operands.n, steps = operands.steps;
  if (!fits_lanes<T>(m, n, count)) {
    Cursor at = first;
    for (int64_t i = 0; i < count; ++i, at.advance(1)) {
      if (!factorize_one<T>(operands, at)) return false;
    }
    return true;
  }
  ScratchFrame frame;
  T* const lanes = frame.take<T>(static_cast<size_t>(m * n * kCount));
  int32_t* const pivots = frame.take<int32_t>(static_cast<size_t>(steps * kCount));
  int32_t* const order = frame.take<int32_t>(static_cast<size_t>(m));
  if (lanes == nullptr || pivots == nullptr || order == nullptr) return false;
  Matrix2<T> matrices[kCount];
  Cursor from = first, to = first;
  for (int64_t lane = 0; lane < kCount; ++lane) {  // lanes without a matrix have the last one's
    if (lane > 0 && lane < count) from.advance(1);
    matrices[lane] = matrix_of<T>(*operands.views[kA], from.offset(kA));
  }
  load_lanes(matrices, lanes);
  int32_t info[kCount];
  bool finite[kCount];
  factorize_lu_in_lanes(m, n, lanes, pivots, info);
  find_finite_lanes(m * n, lanes, finite);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (lane > 0) to.advance(1);
    if (!finite[lane]) {
      if (!factorize_one<T>(operands, to)) return false;
      continue;
    }
    const auto result = matrix_of<T>(*operands.views[kLu], to.offset(kLu));
    const int32_t* const own = pivots + lane * steps;
    store_lane(lanes, lane, m, result);
    exchange_rows(result, own);
    operands.store(to, own, info[lane], order);
  }
  return true;
}

template <typename T>
uhal_status factorize(const uhal_op& op) {
  const Operands operands(op);
  const int own[] = {2, 1, 1, 0, 2};
  const MatrixBatch batch(operands.views, own, kOperands);
  std::atomic<bool> complete{true};
  const double work =
      static_cast<double>(operands.m) * static_cast<double>(operands.n) * static_cast<double>(operands.steps);
  if constexpr (kLanes<T> > 0) {
    if (fits_lanes<T>(operands.m, operands.n, batch.count())) {
      note_implementation(host(), "built-in kernels, %d matrices at a time", static_cast<int>(kLanes<T>));
      batch.for_each_group(kLanes<T>, work / 16, [&](const Cursor& at, int64_t count) {
        if (!factorize_group<T>(operands, at, count)) complete = false;
      });
      return complete ? UHAL_OK : fail_without_memory();
    }
  }
  note_implementation(host(), "%s", lapack_description());
  batch.for_each(work / 8, [&](const Cursor& at) {
    if (!factorize_one<T>(operands, at)) complete = false;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_lu(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_lu(const Launch& launch) {
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return factorize<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
