// LU factorization with partial pivoting, in a copy by columns.
#include <numeric>

#include "stub/common/staging.h"
#include "stub/ops/dense.h"

namespace unihal::stub {
namespace {

enum { kLu, kPivots, kPermutation, kInfo, kA, kOperands };

// The order of the rows after all exchanges.
void permute(const int32_t* pivots, int64_t steps, int64_t rows, int32_t* order) {
  std::iota(order, order + rows, 0);
  for (int64_t i = 0; i < steps; ++i) std::swap(order[i], order[pivots[i]]);
}

template <typename T>
uhal_status factorize(const uhal_op& op) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor* operands[] = {op.outputs[0], op.outputs[1], output_of(op, 2), output_of(op, 3), &a};
  const int own[] = {2, 1, 1, 0, 2};
  const int64_t m = rows_of(a), n = columns_of(a), steps = std::min(m, n);
  std::atomic<bool> complete{true};
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(steps);
  MatrixBatch(operands, own, kOperands).for_each(work / 8, [&](const Cursor& at) {
    ScratchFrame frame;
    const auto result = matrix_of<T>(*operands[kLu], at.offset(kLu));
    const bool in_place = m * n > 0 && result.in_columns();  // there it is factorized
    T* const data = in_place ? result.data : frame.take<T>(static_cast<size_t>(m * n));
    int32_t* const pivots = frame.take<int32_t>(static_cast<size_t>(steps));
    int32_t* const order = frame.take<int32_t>(static_cast<size_t>(m));
    if (data == nullptr || pivots == nullptr || order == nullptr) {
      complete = false;
      return;
    }
    const Matrix2<T> columns = in_place ? result : columns_at(data, m, n);
    copy_matrix(matrix_of<T>(a, at.offset(kA)), columns);
    const int32_t info = steps > 0 ? factorize_lu(columns, pivots) : 0;
    if (!in_place) copy_matrix(columns, result);
    const auto given = vector_of<int32_t>(*operands[kPivots], at.offset(kPivots));
    for (int64_t i = 0; i < steps; ++i) given[i] = pivots[i];
    if (operands[kPermutation] != nullptr) {
      permute(pivots, steps, m, order);
      const auto permutation = vector_of<int32_t>(*operands[kPermutation], at.offset(kPermutation));
      for (int64_t i = 0; i < m; ++i) permutation[i] = order[i];
    }
    if (operands[kInfo] != nullptr) static_cast<int32_t*>(operands[kInfo]->data)[at.offset(kInfo)] = info;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_lu(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_lu(const Launch& launch) {
  note_implementation(host(), "%s", lapack_description());
  return with_number_type(launch.op.inputs[0]->dtype,
                          [&](auto number) { return factorize<decltype(number)>(launch.op); });
}

}  // namespace unihal::stub
