// QR factorization by Householder's reflections, in a copy by columns.
#include "stub/common/staging.h"
#include "stub/ops/dense.h"

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

template <typename T>
uhal_status factorize(const uhal_op& op) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& r = *op.outputs[0];
  const uhal_tensor* q = output_of(op, 1);
  const uhal_tensor* operands[] = {&r, q, &a};
  const int own[] = {2, 2, 2};
  const int64_t m = rows_of(a), n = columns_of(a), steps = std::min(m, n);
  const int64_t q_columns = q != nullptr ? columns_of(*q) : 0;
  const int32_t work_size = steps > 0 ? qr_work_size<T>(m, n, q_columns) : 0;
  std::atomic<bool> complete{true};
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(steps);
  MatrixBatch(operands, own, 3).for_each(work / 4, [&](const Cursor& at) {
    if (steps == 0) {
      if (q != nullptr) fill_identity(matrix_of<T>(*q, at.offset(1)));
      return;
    }
    ScratchFrame frame;
    T* const data = frame.take<T>(static_cast<size_t>(m * std::max(n, q_columns)));
    const QrWork<T> workspace = {frame.take<T>(static_cast<size_t>(steps)),
                                 frame.take<T>(static_cast<size_t>(work_size)), work_size};
    if (data == nullptr || workspace.tau == nullptr || workspace.work == nullptr) {
      complete = false;
      return;
    }
    const Matrix2<T> columns = columns_at(data, m, n);
    copy_matrix(matrix_of<T>(a, at.offset(2)), columns);
    factorize_qr(columns, workspace);
    store_r(columns, matrix_of<T>(r, at.offset(0)));
    if (q == nullptr) return;
    const Matrix2<T> orthonormal = columns_at(data, m, q_columns);
    form_q(orthonormal, steps, workspace);
    copy_matrix(orthonormal, matrix_of<T>(*q, at.offset(1)));
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_qr(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_qr(const Launch& launch) {
  note_implementation(host(), "%s", lapack_description());
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return factorize<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
