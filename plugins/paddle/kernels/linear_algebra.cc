// Factorizations of matrices, and what follows from them. Where Paddle's CPU raises an error for a matrix (one that is
// singular, or not positive definite), the host waits for one number.
#include <algorithm>
#include <string>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

// -- triangular systems and Cholesky

void triangular_solve(Context context, Input x, Input y, bool upper, bool transpose, bool unit, Output out) {
  const View given = x.view();
  require_matrices(context, given, true);
  const View a = transpose ? given.transposed() : given;
  solve_triangle(context, a, y.view(), context.allocate(out, given.dtype), {upper != transpose, unit, false});
}

void triangular_solve_grad(Context context, Input x, Input, Input out, Input dout, bool upper, bool transpose,
                           bool unit, Output dx, Output dy) {
  const View given = x.view(), result = out.view(), gradient = dout.view();
  // Of op(a) x = b: db = op(a)^-H dx, d op(a) = -db x^H.
  const View a = transpose ? given : given.transposed();
  const Scratch db(context, gradient.dtype, gradient);
  solve_triangle(context, a, gradient, db, {upper == transpose, unit, is_complex(given.dtype)});
  if (dy) sum_to_shape(context, db, context.allocate(dy, given.dtype));
  if (!dx) return;
  const View target = context.allocate(dx, given.dtype);
  if (target.elements() == 0) return;
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(gradient.shape, gradient.rank, dims);
  dims[gradient.rank - 1] = dims[gradient.rank - 2];
  const Scratch da(context, given.dtype, dims, gradient.rank);
  if (gradient.elements() == 0) {
    fill_zero(context, da);
  } else {
    multiply(context, db, Adjoint(context, result), -1, transpose ? da.transposed() : static_cast<const View&>(da));
  }
  keep_triangle(context, da, upper, !unit ? 0 : upper ? 1 : -1);
  sum_to_shape(context, da, target);
}

void cholesky(Context context, Input x, bool upper, Output out) {
  const View a = x.view();
  require_matrices(context, a, true);
  const View l = context.allocate(out, a.dtype);
  if (l.elements() == 0) return;
  const Info info(context, a);
  uhal_triangle_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  context.run(UHAL_OP_CHOLESKY, {&a}, {&l, &info}, &attributes);
  if (!info.is_bad()) return;
  // Of matrices with NaN the factors are NaN, as on Paddle's CPU.
  const Scratch are_equal(context, UHAL_BOOL, a), known(context, UHAL_BOOL, a.shape, a.rank - 1);
  const Scratch all_known(context, UHAL_BOOL, info);
  context.map(uhal_map_equal, {&a, &a}, {&are_equal});
  reduce_last(context, UHAL_REDUCE_MINIMUM, are_equal, known);
  reduce_last(context, UHAL_REDUCE_MINIMUM, known, all_known);
  context.map(uhal_map_multiply, {&info, &all_known}, {&info});
  if (info.is_bad()) invalid(context, "a matrix is not positive definite, so that it has no Cholesky factor");
}

// With p = the lower triangle of l^H dl, its diagonal halved: da is the Hermitian part of l^-H p l^-1 (Murray,
// Differentiation of the Cholesky decomposition, 2016).
void cholesky_grad(Context context, Input out, Input dout, bool upper, Output dx) {
  const View given = out.view(), gradient = dout.view();
  const View target = context.allocate(dx, given.dtype);
  if (target.elements() == 0) return;
  const Adjoint turned(context, given), turned_gradient(context, gradient);
  const View& l = upper ? static_cast<const View&>(turned) : given;
  const View& dl = upper ? static_cast<const View&>(turned_gradient) : gradient;
  const View& l_adjoint = upper ? given : static_cast<const View&>(turned);
  const Scratch p(context, given.dtype, given), s(context, given.dtype, given);
  multiply(context, l_adjoint, dl, 1, p);
  keep_triangle(context, p, false);
  const View diagonal = diagonal_of(p);
  context.map(uhal_map_scale, {&diagonal}, {&diagonal}, {0.5, 0});
  solve_triangle(context, l_adjoint, p, p, {true, false, false});
  // s l = p is l^T s^T = p^T.
  solve_triangle(context, l.transposed(), p.transposed(), s.transposed(), {true, false, false});
  context.map(uhal_map_add, {&s, &static_cast<const View&>(Adjoint(context, s))}, {&target});
  context.map(uhal_map_scale, {&target}, {&target}, {0.5, 0});
}

// x: the right-hand sides, y: the factor.
void cholesky_solve(Context context, Input x, Input y, bool upper, Output out) {
  const View b = x.view(), factor = y.view();
  require_matrices(context, factor, true);
  const View target = context.allocate(out, b.dtype);
  if (target.elements() == 0) return;
  const View turned = factor.transposed();
  const bool conjugate = is_complex(factor.dtype);
  const Scratch half(context, b.dtype, target);
  solve_triangle(context, upper ? turned : factor, b, half, {false, false, conjugate && upper});
  solve_triangle(context, upper ? factor : turned, half, target, {true, false, conjugate && !upper});
}

// -- LU, and what follows from it

void lu(Context context, Input x, bool pivot, Output out, Output pivots, Output infos) {
  if (!pivot) unsupported(context, "a factorization without pivots");
  const View a = x.view();
  require_matrices(context, a, false);
  const View factors = context.allocate(out, a.dtype);
  const View steps = context.allocate(pivots, UHAL_INT32), bad = context.allocate(infos, UHAL_INT32);
  View numbers = bad;
  numbers.rank = a.rank - 2;  // Paddle has an axis more than none
  if (a.elements() == 0) return fill_zero(context, bad);
  context.run(UHAL_OP_LU, {&a}, {&factors, &steps, nullptr, &numbers});
  context.map(uhal_map_scale, {&steps}, {&steps}, {1, 1});  // Paddle counts from 1
}

// Refuses matrices that are singular, or, real, have NaN for their first pivot: Paddle's CPU looks for the least pivot,
// and comparisons pass over NaN behind the first one. Waits for the stream.
void require_regular(const Context& context, const Factors& factors) {
  const View& lu = factors.lu;
  if (!is_complex(lu.dtype)) {
    View first = lu;
    first.rank -= 2;
    Chain chain(2);
    chain.step(uhal_map_maximum, {chain.step(uhal_map_is_nan, {0}), 1});
    context.run(UHAL_OP_MAP_CHAIN, {&first, &factors.info}, {&factors.info}, chain.program());
  }
  factors.info.require_regular();
}

void invert(const Context& context, const View& a, const View& target) {
  const Factors factors(context, a);
  const Scratch identity(context, a.dtype, &a.shape[a.rank - 2], 2);
  fill_zero(context, identity);
  fill(context, diagonal_of(identity), 1, 1);
  factors.solve(identity, target);
  require_regular(context, factors);
}

void inverse(Context context, Input x, Output out) {
  const View a = x.view();
  require_matrices(context, a, true);
  const View target = context.allocate(out, a.dtype);
  if (target.elements() > 0) invert(context, a, target);
}

// Of y = a^-1: da = -y^H dy y^H.
void inverse_grad(Context context, Input out, Input dout, Output dx) {
  const View y = out.view(), dy = dout.view();
  const View target = context.allocate(dx, y.dtype);
  if (target.elements() == 0) return;
  const Adjoint turned(context, y);
  const Scratch half(context, y.dtype, y);
  multiply(context, turned, dy, -1, half);
  multiply(context, half, turned, 1, target);
}

void solve(Context context, Input x, Input y, Output out) {
  const View a = x.view(), b = y.view();
  require_matrices(context, a, true);
  const View columns = columns_of(a, b);
  // Of a batch of vectors Paddle infers another shape than its own kernel gives.
  const View target =
      columns.rank == b.rank ? context.allocate(out, a.dtype) : context.allocate(out, a.dtype, a.shape, a.rank - 1);
  if (target.elements() == 0) return;
  const Factors factors(context, a);
  factors.solve(columns, columns.rank != b.rank ? target.unsqueezed(target.rank) : target);
  require_regular(context, factors);
}

void determinant(Context context, Input x, Output out) {
  const View a = x.view();
  require_matrices(context, a, true);
  const View target = context.allocate(out, a.dtype);
  if (target.elements() == 0) return;
  if (a.elements() == 0) return fill(context, target, 1, 1);  // the product of nothing
  const Factors factors(context, a);
  const View diagonal = diagonal_of(factors.lu);
  // -1 for each exchange of rows: 1 - 2 (pivots != place).
  const Scratch places(context, UHAL_INT32, &a.shape[a.rank - 1], 1);
  const Scratch exchanged(context, UHAL_BOOL, factors.pivots), terms(context, a.dtype, factors.pivots);
  const Scratch signs(context, real_of(a.dtype), factors.pivots);
  count_up(context, places);
  context.map(uhal_map_not_equal, {&factors.pivots, &places}, {&exchanged});
  context.map(uhal_map_scale, {&exchanged}, {&signs}, {-2, 1});
  context.map(uhal_map_multiply, {&diagonal, &signs}, {&terms});
  reduce_last(context, UHAL_REDUCE_PRODUCT, terms, target);
}

void matrix_power(Context context, Input x, int exponent, Output out) {
  const View a = x.view();
  require_matrices(context, a, true);
  const View target = context.allocate(out, a.dtype);
  if (target.elements() == 0) return;
  if (exponent == 0) {
    fill_zero(context, target);
    return fill(context, diagonal_of(target), 1, 1);
  }
  const Scratch first(context, a.dtype, a), second(context, a.dtype, a), product(context, a.dtype, a);
  View square = first, next = second;
  if (exponent > 0) {
    copy_or_cast(context, a, square);
  } else {
    invert(context, a, square);
  }
  bool started = false;
  for (int64_t rest = exponent < 0 ? -int64_t{exponent} : exponent;; rest /= 2) {
    if (rest % 2 == 1) {
      if (started) {
        multiply(context, target, square, 1, product);
        copy_or_cast(context, product, target);
      } else {
        copy_or_cast(context, square, target);
      }
      started = true;
    }
    if (rest <= 1) return;
    multiply(context, square, square, 1, next);
    std::swap(square, next);
  }
}

// -- QR, eigenvalues, singular values

void qr(Context context, Input x, Text mode, Output q, Output r) {
  const View a = x.view();
  require_matrices(context, a, false);
  const View triangle = context.allocate(r, a.dtype);
  const bool wants_q = std::string(mode.value) != "r";
  const View columns = wants_q ? context.allocate(q, a.dtype) : View();
  if (triangle.elements() + (wants_q ? columns.elements() : 0) == 0) return;
  context.run(UHAL_OP_QR, {&a}, {&triangle, wants_q ? &columns : nullptr});
}

void find_symmetric(const Context& context, const View& a, Text triangle, const View& values, const View* vectors) {
  require_matrices(context, a, true);
  if (values.elements() == 0) return;
  const Info info(context, a);
  uhal_triangle_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = std::string(triangle.value) == "U";
  context.run(UHAL_OP_EIGEN_SYMMETRIC, {&a}, {&values, vectors, &info}, &attributes);
  info.require_converged("eigenvalues", UHAL_FAILED_PRECONDITION);
}

void eigh(Context context, Input x, Text uplo, Output values, Output vectors) {
  const View a = x.view(), found = context.allocate(values, real_of(a.dtype));
  const View columns = context.allocate(vectors, a.dtype);
  find_symmetric(context, a, uplo, found, &columns);
}

void eigvalsh(Context context, Input x, Text uplo, bool is_test, Output values, Output vectors) {
  const View a = x.view(), found = context.allocate(values, real_of(a.dtype));
  if (is_test || !vectors) return find_symmetric(context, a, uplo, found, nullptr);
  const View columns = context.allocate(vectors, a.dtype);
  find_symmetric(context, a, uplo, found, &columns);
}

void svd(Context context, Input x, bool, Output u, Output s, Output vh) {
  const View a = x.view();
  require_matrices(context, a, false);
  const View left = context.allocate(u, a.dtype), values = context.allocate(s, real_of(a.dtype)),
             right = context.allocate(vh, a.dtype);
  if (left.elements() + right.elements() == 0) return;
  const Info info(context, a);
  context.run(UHAL_OP_SVD, {&a}, {&values, &left, &right, &info});
  info.require_converged("singular values", UHAL_INVALID_ARGUMENT);
}

void svdvals(Context context, Input x, Output s) {
  const View a = x.view();
  require_matrices(context, a, false);
  const View values = context.allocate(s, real_of(a.dtype));
  if (values.elements() == 0) return;
  const Info info(context, a);
  context.run(UHAL_OP_SVD, {&a}, {&values, nullptr, nullptr, &info});
  info.require_converged("singular values", UHAL_INVALID_ARGUMENT);
}

void find_values(const Context& context, const View& a, const View& values, const View* vectors) {
  require_matrices(context, a, true);
  if (values.elements() == 0) return;
  const Info info(context, a);
  context.run(UHAL_OP_EIGEN, {&a}, {&values, vectors, &info});
  info.require_converged("eigenvalues", UHAL_FAILED_PRECONDITION);
}

void eig(Context context, Input x, Output values, Output vectors) {
  const View a = x.view(), found = context.allocate(values, complex_of(a.dtype));
  const View columns = context.allocate(vectors, complex_of(a.dtype));
  find_values(context, a, found, &columns);
}

void eigvals(Context context, Input x, Output values) {
  const View a = x.view();
  find_values(context, a, context.allocate(values, complex_of(a.dtype)), nullptr);
}

}  // namespace

KernelTable linear_algebra_kernels() {
  return {
      UNIHAL_KERNEL("cholesky", kMatrices, cholesky),
      UNIHAL_KERNEL("cholesky_grad", kMatrices, cholesky_grad),
      UNIHAL_KERNEL("cholesky_solve", kMatrices, cholesky_solve),
      UNIHAL_KERNEL("determinant", kMatrices, determinant),
      UNIHAL_KERNEL("eig", kMatrices, eig),
      UNIHAL_KERNEL("eigh", kMatrices, eigh),
      UNIHAL_KERNEL("eigvals", kMatrices, eigvals),
      UNIHAL_KERNEL("eigvalsh", kMatrices, eigvalsh),
      UNIHAL_KERNEL("inverse", kMatrices, inverse),
      UNIHAL_KERNEL("inverse_grad", kMatrices, inverse_grad),
      UNIHAL_KERNEL("lu", kMatrices, lu),
      UNIHAL_KERNEL("matrix_power", kMatrices, matrix_power),
      UNIHAL_KERNEL("qr", kMatrices, qr),
      UNIHAL_KERNEL("solve", kMatrices, solve),
      UNIHAL_KERNEL("svd", kMatrices, svd),
      UNIHAL_KERNEL("svdvals", kMatrices, svdvals),
      UNIHAL_KERNEL("triangular_solve", kMatrices, triangular_solve),
      UNIHAL_KERNEL("triangular_solve_grad", kMatrices, triangular_solve_grad),
  };
}

}  // namespace unihal::paddle
