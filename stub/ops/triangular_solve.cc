// Triangular systems: b is copied to x, and x is solved where it lies.
#include "csrc/backends/common/attributes.h"
#include "stub/common/staging.h"
#include "stub/ops/copy.h"
#include "stub/ops/dense.h"

namespace unihal::stub {
namespace {

// The number (from 1) of the first 0 on the diagonal, or 0.
template <typename T>
int32_t first_zero(const Matrix2<T>& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    if (a.at(i, i) == T(0)) return static_cast<int32_t>(i + 1);
  }
  return 0;
}

template <typename T>
uhal_status solve(const uhal_op& op, const uhal_triangular_solve_attributes& attributes) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& x = *op.outputs[0];
  if (const uhal_tensor* info = output_of(op, 1)) {
    const uhal_tensor* operands[] = {info, &a};
    const int own[] = {0, 2};
    MatrixBatch(operands, own, 2).for_each(static_cast<double>(rows_of(a)), [&](const Cursor& at) {
      static_cast<int32_t*>(info->data)[at.offset(0)] =
          attributes.unit_diagonal != 0 ? 0 : first_zero(matrix_of<T>(a, at.offset(1)));
    });
  }
  const uhal_tensor* operands[] = {&x, &a};
  const int own[] = {2, 2};
  std::atomic<bool> complete{true};
  const double n = static_cast<double>(rows_of(a));
  MatrixBatch(operands, own, 2).for_each(n * n * static_cast<double>(columns_of(x)) / 4, [&](const Cursor& at) {
    const bool solved =
        solve_triangular(attributes.upper != 0, attributes.unit_diagonal != 0, attributes.conjugate != 0,
                         matrix_of<T>(a, at.offset(1)), matrix_of<T>(x, at.offset(0)));
    if (!solved) complete = false;
  });
  return complete ? UHAL_OK : fail_without_memory();
}

}  // namespace

const char* refuse_triangular_solve(const uhal_op& op) { return refuse_long_sides(op); }

uhal_status run_triangular_solve(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_tensor& b = *op.inputs[1];
  const uhal_tensor& x = *op.outputs[0];
  note_implementation(host(), "%s", lapack_description());
  const auto attributes =
      attributes_or(op, uhal_triangular_solve_attributes{sizeof(uhal_triangular_solve_attributes), 0, 0, 0, 0});
  if (x.data != b.data && element_count(x) > 0) copy_views(b, x);
  return with_number_type(x.dtype, [&](auto number) { return solve<decltype(number)>(op, attributes); });
}

}  // namespace unihal::stub
