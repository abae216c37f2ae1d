// MatrixSolveLs: least squares.
#include <algorithm>
#include <limits>
#include <string>

#include "plugins/tensorflow/kernels/matrices.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

bool multiply(Context& context, const View& a, const View& b, const View& y) {
  const auto attributes = matmul_attributes(UHAL_MATH_STRICT);
  return context.launch(UHAL_OP_MATMUL, {&a, &b}, {&y}, &attributes);
}

// MatrixSolveLs(matrix (..., m, n), rhs (..., m, k), l2_regularizer) -> x (..., n, k). Fast: by the normal equations,
// of which the regularizer is a part. Else of least norm, by the singular values; the regularizer is not looked at.
class MatrixSolveLs : public Kernel {
 public:
  explicit MatrixSolveLs(Construction& construction) : Kernel(construction), fast_(construction.boolean("fast")) {}
  void compute(Context& context) const override {
    const View matrix = context.input(0);
    const View rhs = context.input(1);
    const std::vector<double> given = read_scalars(context, 2, 1);
    if (!check_systems(context, matrix, rhs)) return;
    const double regularizer = given[0];
    const int64_t m = matrix.shape[matrix.rank - 2], n = matrix.shape[matrix.rank - 1];
    if (rhs.shape[rhs.rank - 2] != m) return context.fail_invalid("Input matrix and rhs are incompatible.");
    if (!(regularizer >= 0)) return context.fail_invalid("l2_regularizer must be >= 0.");
    const View output = context.output(0, matrix.dtype, batches_and(matrix, {n, rhs.shape[rhs.rank - 1]}));
    if (!context.ok() || output.elements() == 0) return;
    if (m == 0) {
      context.zero(output);
    } else if (fast_) {
      solve_normal_equations(context, matrix, rhs, regularizer, output);
    } else {
      solve_by_values(context, matrix, rhs, output);
    }
  }

 private:
  // x = (a^H a + r)^-1 a^H b of tall matrices, x = a^H (a a^H + r)^-1 b of wide ones.
  static void solve_normal_equations(Context& context, const View& a, const View& b, double regularizer,
                                     const View& x) {
    const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = b.shape[b.rank - 1], side = std::min(m, n);
    const bool tall = m >= n;
    const View turned = adjoint_of(context, a, true);
    const View square = context.temporary(a.dtype, batches_and(a, {side, side}));
    const View right = tall ? context.temporary(a.dtype, batches_and(a, {side, k})) : b;
    const View half = context.temporary(a.dtype, batches_and(a, {side, k}));
    const View solved = tall ? x : context.temporary(a.dtype, batches_and(a, {side, k}));
    Info info(context, square);
    if (!context.ok() || !multiply(context, tall ? turned : a, tall ? a : turned, square)) return;
    View diagonal = square;
    diagonal.rank -= 1;
    diagonal.strides[diagonal.rank - 1] += square.strides[square.rank - 1];
    if (regularizer > 0) context.map(uhal_map_scale, {&diagonal}, {&diagonal}, {1, regularizer});
    if (tall && !multiply(context, turned, b, right)) return;
    context.launch(UHAL_OP_CHOLESKY, {&square}, {&square, &info.view()});
    solve_triangle(context, square, right, half, false, false);
    solve_triangle(context, square.transposed(), half, solved, true, false, true);
    if (!tall) multiply(context, turned, solved, x);
    info.check(
        "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger l2_regularizer "
        "> 0.");
  }

  // x = v diag(1 / s) u^H b of the singular values that are above rounding errors of the largest.
  static void solve_by_values(Context& context, const View& a, const View& b, const View& x) {
    const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
    const uhal_dtype real = real_of(a.dtype);
    const View u = context.temporary(a.dtype, batches_and(a, {m, k}));
    const View vh = context.temporary(a.dtype, batches_and(a, {k, n}));
    const View values = context.temporary(real, batches_and(a, {k}));
    const View factors = context.temporary(real, batches_and(a, {k}));
    const View limit = context.temporary(real, batches_and(a, {1}));
    const View counts = context.temporary(UHAL_BOOL, batches_and(a, {k}));
    const View zero = context.temporary(real, nullptr, 0);
    const View inner = context.temporary(a.dtype, batches_and(a, {k, b.shape[b.rank - 1]}));
    Info info(context, a);
    if (!context.ok() || !context.launch(UHAL_OP_SVD, {&a}, {&values, &u, &vh, &info.view()})) return;
    const double epsilon = real == UHAL_FLOAT64 ? std::numeric_limits<double>::epsilon()
                                                : static_cast<double>(std::numeric_limits<float>::epsilon());
    const View largest = values.sliced(values.rank - 1, 0, 1);
    context.map(uhal_map_scale, {&largest}, {&limit}, {epsilon * static_cast<double>(std::max(m, n)), 0});
    context.map(uhal_map_greater, {&values, &limit}, {&counts});
    context.map(uhal_map_reciprocal, {&values}, {&factors});
    context.zero(zero);
    context.map(uhal_map_select, {&counts, &factors, &zero}, {&factors});
    if (!context.ok() || !multiply(context, adjoint_of(context, u, true), b, inner)) return;
    const View column = factors.unsqueezed(factors.rank);
    context.map(uhal_map_multiply, {&inner, &column}, {&inner});
    multiply(context, adjoint_of(context, vh, true), inner, x);
    info.check("The singular values of a matrix were not found: it has infinity or NaN.");
  }

  bool fast_;
};

}  // namespace

void register_least_squares(Registrar& registrar) { registrar.add<MatrixSolveLs>("MatrixSolveLs", {{"T", kMatrices}}); }

}  // namespace unihal::tensorflow
