// QR factorization by Householder's reflections, in a copy by columns.
#include "stub/common/staging.h"
#include "stub/ops/dense.h"
#include "stub/ops/lanes.h"

namespace unihal::stub {
namespace {

// r (k x n) of a's triangle, zeros below.
template <typename T>
void store_r(const Matrix2<T>& columns, const Matrix2<T>& r) {
  Matrix2<T> upper = columns, target = r;
  upper.rows = target.rows = std::min(columns.rows, r.rows);
  copy_matrix(upper, target);
  fill_below(r, T(0));
}

enum { kR, kQ, kA, kOperands };

// q may be absent.
struct Operands {
  const uhal_tensor* views[kOperands];
  int64_t m, n, steps, q_columns;

  explicit Operands(const uhal_op& op)
      : views{op.outputs[0], output_of(op, 1), op.inputs[0]},
        m(rows_of(*views[kA])),
        n(columns_of(*views[kA])),
        steps(std::min(m, n)),
        q_columns(views[kQ] != nullptr ? columns_of(*views[kQ]) : 0) {}
};

// One matrix by itself. False: no memory.
template <typename T>
bool factorize_one(const Operands& operands, int32_t work_size, const Cursor& at) {
  const int64_t m = operands.m, n = operands.n, q_columns = operands.q_columns, steps = operands.steps;
  const uhal_tensor* q = operands.views[kQ];
  if (steps == 0) {
    if (q != nullptr) fill_identity(matrix_of<T>(*q, at.offset(kQ)));
    return true;
  }
  ScratchFrame frame;
  T* const data = frame.take<T>(static_cast<size_t>(m * std::max(n, q_columns)));
  const QrWork<T> workspace = {frame.take<T>(static_cast<size_t>(steps)), frame.take<T>(static_cast<size_t>(work_size)),
                               work_size, qr_takes_panels<T>(m, n)};
  if (data == nullptr || workspace.tau == nullptr || workspace.work == nullptr) return false;
  const Matrix2<T> columns = columns_at(data, m, n);
  copy_matrix(matrix_of<T>(*operands.views[kA], at.offset(kA)), columns);
  factorize_qr(columns, workspace);
  store_r(columns, matrix_of<T>(*operands.views[kR], at.offset(kR)));
  if (q == nullptr) return true;
  const Matrix2<T> orthonormal = columns_at(data, m, q_columns);
  form_q(orthonormal, steps, workspace);
  copy_matrix(orthonormal, matrix_of<T>(*q, at.offset(kQ)));
  return true;
}

// At most as many small ones as there are lanes. False: no memory.
template <typename T>
bool factorize_group(const Operands& operands, int32_t work_size, const Cursor& first, int64_t count) {
  constexpr int64_t kCount = kLanes<T>;
  const int64_t m = operands.m, n = operands.n, steps = operands.steps;
  const uhal_tensor* q = operands.views[kQ];
  if (!fits_lanes<T>(m, std::max(n, operands.q_columns), count)) {
    Cursor at = first;
    for (int64_t i = 0; i < count; ++i, at.advance(1)) {
      if (!factorize_one<T>(operands, work_size, at)) return false;
    }
    return true;
  }
  ScratchFrame frame;
  T* const lanes = frame.take<T>(static_cast<size_t>(m * std::max(n, operands.q_columns) * kCount));
  T* const tau = frame.take<T>(static_cast<size_t>(steps * kCount));
  if (lanes == nullptr || tau == nullptr) return false;
  Matrix2<T> matrices[kCount];
  Cursor from = first, r_to = first, q_to = first;
  for (int64_t lane = 0; lane < kCount; ++lane) {  // lanes without a matrix have the last one's
    if (lane > 0 && lane < count) from.advance(1);
    matrices[lane] = matrix_of<T>(*operands.views[kA], from.offset(kA));
  }
  load_lanes(matrices, lanes);
  bool finite[kCount], sure[kCount];
  factorize_qr_in_lanes(m, n, lanes, tau, sure);
  find_finite_lanes(m * n, lanes, finite);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (lane > 0) r_to.advance(1);
    sure[lane] = sure[lane] && finite[lane];
    if (!sure[lane]) {
      if (!factorize_one<T>(operands, work_size, r_to)) return false;
      continue;
    }
    const auto r = matrix_of<T>(*operands.views[kR], r_to.offset(kR));
    Matrix2<T> upper = r;
    upper.rows = steps;
    store_lane(lanes, lane, m, upper);
    fill_below(r, T(0));
  }
  if (q == nullptr) return true;
  form_q_in_lanes(m, operands.q_columns, steps, lanes, tau);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (lane > 0) q_to.advance(1);
    if (sure[lane]) store_lane(lanes, lane, m, matrix_of<T>(*q, q_to.offset(kQ)));
  }
  return true;
}

template <typename T>
uhal_status factorize(const uhal_op& op) {
  const Operands operands(op);
  const int own[] = {2, 2, 2};
  const MatrixBatch batch(operands.views, own, kOperands);
  const int32_t work_size = operands.steps > 0 ? qr_work_size<T>(operands.m, operands.n, operands.q_columns) : 0;
  std::atomic<bool> complete{true};
  const double work =
      static_cast<double>(operands.m) * static_cast<double>(operands.n) * static_cast<double>(operands.steps);
  if constexpr (kLanes<T> > 0) {
    if (fits_lanes<T>(operands.m, std::max(operands.n, operands.q_columns), batch.count())) {
      note_implementation(host(), "built-in kernels, %d matrices at a time", static_cast<int>(kLanes<T>));
      batch.for_each_group(kLanes<T>, work / 8, [&](const Cursor& at, int64_t count) {
        if (!factorize_group<T>(operands, work_size, at, count)) complete = false;
      });
      return complete ? UHAL_OK : fail_without_memory();
    }
  }
  note_implementation(host(), "%s", lapack_description());
  batch.for_each(work / 4, [&](const Cursor& at) {
    if (!factorize_one<T>(operands, work_size, at)) complete = false;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_qr(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_qr(const Launch& launch) {
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return factorize<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
