// Cholesky's factorization: a is copied to l, and l is factorized where it lies.
#include "csrc/backends/common/attributes.h"
#include "stub/common/staging.h"
#include "stub/ops/copy.h"
#include "stub/ops/dense.h"

namespace unihal::stub {
namespace {

template <typename T>
uhal_status factorize(const uhal_op& op, bool upper) {
  const uhal_tensor& l = *op.outputs[0];
  const uhal_tensor* info = output_of(op, 1);
  const uhal_tensor* operands[] = {&l, info};
  const int own[] = {2, 0};
  std::atomic<bool> complete{true};
  const double n = static_cast<double>(rows_of(l));
  MatrixBatch(operands, own, 2).for_each(n * n * n / 12, [&](const Cursor& at) {
    const Matrix2<T> matrix = matrix_of<T>(l, at.offset(0));
    int32_t failed = 0;
    if (matrix.rows > 0 && !factorize_cholesky(upper, matrix, &failed)) complete = false;
    // Behind a pivot that is NaN all is NaN already.
    if (failed != 0 && !std::isnan(std::real(matrix.at(failed - 1, failed - 1)))) {
      fill_matrix(matrix, T(not_a_number<T>()));
    }
    fill_below(upper ? matrix : matrix.transposed(), T(0));
    if (info != nullptr) static_cast<int32_t*>(info->data)[at.offset(1)] = failed;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_cholesky(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_cholesky(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& l = *op.outputs[0];
  note_implementation(host(), "%s", lapack_description());
  const bool upper = attributes_or(op, uhal_triangle_attributes{sizeof(uhal_triangle_attributes), 0, 0}).upper != 0;
  if (l.data != a.data && element_count(l) > 0) copy_views(a, l);
  return with_number_type(l.dtype, [&](auto number) { return factorize<decltype(number)>(op, upper); });
}

}  // namespace unihal::stub
