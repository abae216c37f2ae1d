// Gradients of factorizations and of what follows from them. Where there is a choice (the signs of singular vectors,
// the phases of eigenvectors), they are of a loss that does not depend on it.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

// a's columns, or its rows, multiplied by the vector s.
void scale_columns(const Context& context, const View& a, const View& s, const View& y) {
  const View factors = s.unsqueezed(s.rank - 1);
  context.map(uhal_map_multiply, {&a, &factors}, {&y});
}
void scale_rows(const Context& context, const View& a, const View& s, const View& y) {
  const View factors = s.unsqueezed(s.rank);
  context.map(uhal_map_multiply, {&a, &factors}, {&y});
}

// A view of a's last two axes as (rows, columns) of its beginning.
View corner(const View& a, int64_t rows, int64_t columns) {
  return a.sliced(a.rank - 2, 0, rows).sliced(a.rank - 1, 0, columns);
}

// Dense memory of a's leading axes and a matrix.
class MatricesLike : public Scratch {
 public:
  MatricesLike(const Context& context, const View& like, int64_t rows, int64_t columns)
      : MatricesLike(context, like, std::array<int64_t, 2>{rows, columns}) {}

 private:
  MatricesLike(const Context& context, const View& like, std::array<int64_t, 2> last)
      : Scratch(context, like.dtype, shape_of(like, last).data(), like.rank) {}
  static std::array<int64_t, UHAL_MAX_RANK> shape_of(const View& like, std::array<int64_t, 2> last) {
    std::array<int64_t, UHAL_MAX_RANK> dims = {};
    std::copy_n(like.shape, like.rank, dims.begin());
    dims[like.rank - 2] = last[0];
    dims[like.rank - 1] = last[1];
    return dims;
  }
};

// A gradient that Paddle hands over, or zeros where it hands over none since nothing was made of that result.
class GradientOrZeros : public View {
 public:
  GradientOrZeros(const Context& context, Input given, const View& like, uhal_dtype dtype) : View(given.view()) {
    if (this->dtype != UHAL_DTYPE_INVALID) return;
    zeros_.emplace(context, dtype, like);
    fill_zero(context, *zeros_);
    static_cast<View&>(*this) = *zeros_;
  }

 private:
  std::optional<Scratch> zeros_;
};

void add_to(const Context& context, const View& y, const View& x) { context.map(uhal_map_add, {&y, &x}, {&y}); }
void subtract_from(const Context& context, const View& y, const View& x) {
  context.map(uhal_map_subtract, {&y, &x}, {&y});
}

// -- solutions

// Of a x = b: db = a^-H dx, da = -db x^H.
void solve_grad(Context context, Input x, Input y, Input out, Input dout, Output dx, Output dy) {
  const View a = x.view(), b = y.view();
  const View columns = columns_of(a, b);
  const bool vector = columns.rank != b.rank;
  const View result = vector ? out.view().unsqueezed(out.rank()) : out.view();
  const View gradient = vector ? dout.view().unsqueezed(dout.rank()) : dout.view();
  const Scratch db(context, a.dtype, gradient);
  if (gradient.elements() > 0) {
    const Adjoint turned(context, a);
    const Factors factors(context, turned);
    factors.solve(gradient, db);
  }
  if (dy) {
    const View target = context.allocate(dy, b.dtype);
    sum_to_shape(context, db, vector ? target.unsqueezed(target.rank) : target);
  }
  if (!dx) return;
  const View target = context.allocate(dx, a.dtype);
  const int64_t n = a.shape[a.rank - 1];
  const MatricesLike da(context, gradient, n, n);
  if (gradient.elements() == 0) return fill_zero(context, target);
  multiply(context, db, Adjoint(context, result), -1, da);
  sum_to_shape(context, da, target);
}

// x: the right-hand sides, y: the factor. Of (l l^H) x = b: db = (l l^H)^-1 dx; with c = db x^H, dl = -(c + c^H) l, and
// of an upper factor du = -u (c + c^H).
void cholesky_solve_grad(Context context, Input x, Input y, Input out, Input dout, bool upper, Output dx, Output dy) {
  const View factor = y.view(), result = out.view(), gradient = dout.view();
  const View turned = factor.transposed();
  const bool conjugate = is_complex(factor.dtype);
  const Scratch half(context, gradient.dtype, gradient), db(context, gradient.dtype, gradient);
  solve_triangle(context, upper ? turned : factor, gradient, half, {false, false, conjugate && upper});
  solve_triangle(context, upper ? factor : turned, half, db, {true, false, conjugate && !upper});
  if (dx) sum_to_shape(context, db, context.allocate(dx, x.uhal()));
  if (!dy) return;
  const View target = context.allocate(dy, factor.dtype);
  if (gradient.elements() == 0) return fill_zero(context, target);
  const int64_t n = factor.shape[factor.rank - 1];
  const MatricesLike common(context, gradient, n, n), both(context, gradient, n, n);
  multiply(context, db, Adjoint(context, result), 1, common);
  context.map(uhal_map_add, {&common, &static_cast<const View&>(Adjoint(context, common))}, {&both});
  if (upper) {
    multiply(context, factor, both, -1, common);
  } else {
    multiply(context, both, factor, -1, common);
  }
  keep_triangle(context, common, upper);
  sum_to_shape(context, common, target);
}

// -- determinants and powers

// scale (...) times the inverse of a^H; zeros where a matrix is singular.
void scaled_inverse(const Context& context, const View& a, const View& scale, const View& target) {
  const Adjoint turned(context, a);
  const Factors factors(context, turned);
  if (factors.info.is_bad()) return fill_zero(context, target);  // as Paddle has it
  const int64_t n = a.shape[a.rank - 1], dims[] = {n, n};
  const Scratch identity(context, a.dtype, dims, 2), inverted(context, a.dtype, a);
  fill_zero(context, identity);
  fill(context, diagonal_of(identity), 1, 1);
  factors.solve(identity, inverted);
  const View factor = scale.unsqueezed(scale.rank).unsqueezed(scale.rank + 1);
  context.map(uhal_map_multiply, {&inverted, &factor}, {&target});
}

void determinant_grad(Context context, Input x, Input out, Input dout, Output dx) {
  const View a = x.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  View result = out.view(), gradient = dout.view();
  result.rank = gradient.rank = a.rank - 2;  // of one matrix Paddle has had an axis
  const Scratch scale(context, a.dtype, a.shape, a.rank - 2);
  context.map(is_complex(a.dtype) ? uhal_map_multiply_conjugate : uhal_map_multiply, {&gradient, &result}, {&scale});
  scaled_inverse(context, a, scale, target);
}

// With s_0 = dy and s_i+1 = x^H s_i + dy (x^H)^i, of y = x^n: dx = s_(n-1).
void power_gradient(const Context& context, const View& x, const View& dy, int64_t n, const View& target) {
  const Adjoint turned(context, x);
  const Scratch power(context, x.dtype, x), next(context, x.dtype, x), part(context, x.dtype, x);
  copy_or_cast(context, dy, target);
  for (int64_t i = 1; i < n; ++i) {
    // power = (x^H)^i
    if (i == 1) {
      copy_or_cast(context, turned, power);
    } else {
      multiply(context, power, turned, 1, next);
      copy_or_cast(context, next, power);
    }
    multiply(context, turned, target, 1, part);
    multiply(context, dy, power, 1, target);
    add_to(context, target, part);
  }
}

void matrix_power_grad(Context context, Input x, Input, Input dout, int n, Output dx) {
  const View a = x.view(), gradient = dout.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  if (n == 0) return fill_zero(context, target);
  if (n > 0) return power_gradient(context, a, gradient, n, target);
  const Scratch inverted(context, a.dtype, a), dinverted(context, a.dtype, a), half(context, a.dtype, a);
  inverse_of(context, a, inverted);
  power_gradient(context, inverted, gradient, -int64_t{n}, dinverted);
  const Adjoint turned(context, inverted);
  multiply(context, turned, dinverted, -1, half);
  multiply(context, half, turned, 1, target);
}

// -- eigenvalues and singular values

// y := x divided by e, 0 on the diagonal, with e_ij = values_j - values_i.
void divide_by_differences(const Context& context, const View& x, const View& values, const View& y) {
  const View columns = values.unsqueezed(values.rank - 1), rows = values.unsqueezed(values.rank);
  const Scratch differences(context, values.dtype, x);
  context.map(uhal_map_subtract, {&columns, &rows}, {&differences});
  fill(context, diagonal_of(differences), 1, 1);
  context.map(uhal_map_divide, {&x, &differences}, {&y});
  fill_zero(context, diagonal_of(y));
}

// Of a = v diag(w) v^H: da = v (v^H dv / e + diag(dw)) v^H, of which the Hermitian part, as a is.
void eigh_grad(Context context, Input values, Input vectors, Input dvalues, Input dvectors, Output dx) {
  const View w = values.view(), v = vectors.view();
  const GradientOrZeros dw(context, dvalues, w, w.dtype), dv(context, dvectors, v, v.dtype);
  // Of programs of the old representation Paddle infers the shape of the values.
  const View target = context.allocate(dx, v.dtype, v.shape, v.rank);
  if (target.elements() == 0) return;
  const Adjoint turned(context, v);
  const Scratch inner(context, v.dtype, v), half(context, v.dtype, v);
  multiply(context, turned, dv, 1, inner);
  divide_by_differences(context, inner, w, inner);
  copy_or_cast(context, dw, diagonal_of(inner));
  multiply(context, v, inner, 1, half);
  multiply(context, half, turned, 0.5, inner);
  context.map(uhal_map_add, {&inner, &static_cast<const View&>(Adjoint(context, inner))}, {&target});
}

void eigvalsh_grad(Context context, Input vectors, Input dvalues, Text, bool, Output dx) {
  const View v = vectors.view();
  const View target = context.allocate(dx, v.dtype);
  if (target.elements() == 0) return;
  const Scratch scaled(context, v.dtype, v);
  scale_columns(context, v, dvalues.view(), scaled);
  multiply(context, scaled, Adjoint(context, v), 1, target);
}

// Of a v = v diag(w), with columns v of norm 1: da = v^-H (r / e + diag(dw)) v^H with r = v^H dv - v^H v Re(diag(v^H
// dv)) and e_ij = conj(w_j - w_i).
void eig_grad(Context context, Input values, Input vectors, OptionalInput dvalues, OptionalInput dvectors, Output dx) {
  const View w = values.view(), v = vectors.view();
  const View target = context.allocate(dx, v.dtype, v.shape, v.rank);
  if (target.elements() == 0) return;
  const Adjoint turned(context, v);
  const Scratch inner(context, v.dtype, v), half(context, v.dtype, v);
  fill_zero(context, inner);
  if (dvectors) {
    const Scratch lengths(context, real_of(v.dtype), w), conjugated(context, w.dtype, w), along(context, v.dtype, v);
    multiply(context, turned, dvectors.view(), 1, inner);
    const View diagonal = diagonal_of(inner);
    context.map(uhal_map_real, {&diagonal}, {&lengths});
    scale_columns(context, v, lengths, half);
    multiply(context, turned, half, 1, along);
    subtract_from(context, inner, along);
    context.map(uhal_map_conjugate, {&w}, {&conjugated});
    divide_by_differences(context, inner, conjugated, inner);
  }
  if (dvalues) copy_or_cast(context, dvalues.view(), diagonal_of(inner));
  multiply(context, inner, turned, 1, half);
  const Factors factors(context, turned);
  factors.solve(half, target);
}

// Paddle 3.0 to 3.2, whose CPU refuses a gradient of the values or of the vectors alone
void eig_grad_of_both(Context context, Input values, Input vectors, Input dvalues, Input dvectors, Output dx) {
  eig_grad(context, values, vectors, OptionalInput{dvalues}, OptionalInput{dvectors}, dx);
}

// inner += (p - p^H) / e, of p = a^H b, with its columns, or its rows, times s. Adds nothing to the diagonal.
void add_rotation(const Context& context, const View& a, const View& b, const View& squares, const View& s,
                  bool columns, const View& inner) {
  const Scratch p(context, inner.dtype, inner), skew(context, inner.dtype, inner);
  multiply(context, Adjoint(context, a), b, 1, p);
  const Adjoint turned(context, p);
  context.map(uhal_map_subtract, {&p, &static_cast<const View&>(turned)}, {&skew});
  divide_by_differences(context, skew, squares, skew);
  if (columns) {
    scale_columns(context, skew, s, skew);
  } else {
    scale_rows(context, skew, s, skew);
  }
  add_to(context, inner, skew);
}

// What phases do that the two sides of complex vectors share: the diagonal of inner += i Im(diag(u^H du)) / s.
void add_phases(const Context& context, const View& u, const View& du, const View& s, const View& inner) {
  const Scratch p(context, inner.dtype, inner), turned(context, inner.dtype, s), phases(context, inner.dtype, s);
  multiply(context, Adjoint(context, u), du, 1, p);
  const View diagonal = diagonal_of(p), sum = diagonal_of(inner);
  context.map(uhal_map_conjugate, {&diagonal}, {&turned});
  context.map(uhal_map_subtract, {&diagonal, &turned}, {&phases});  // twice the imaginary part
  context.map(uhal_map_scale, {&phases}, {&phases}, {0.5, 0});
  context.map(uhal_map_divide, {&phases, &s}, {&phases});
  add_to(context, sum, phases);
}

// product = (d - u (u^H d)) diag(1 / s) v^H: what of d stands outside of the space of u's columns.
void find_outside(const Context& context, const View& u, const View& d, const View& s, const View& vh,
                  const View& product) {
  const int64_t k = s.shape[s.rank - 1];
  const MatricesLike inside(context, u, k, k), part(context, u, u.shape[u.rank - 2], k);
  multiply(context, Adjoint(context, u), d, 1, inside);
  multiply(context, u, inside, 1, part);
  context.map(uhal_map_subtract, {&d, &part}, {&part});
  const View divisors = s.unsqueezed(s.rank - 1);
  context.map(uhal_map_divide, {&part, &divisors}, {&part});
  multiply(context, part, vh, 1, product);
}

// Of a = u diag(s) v^H: da = u ((skew(u^H du) / e) s + s (skew(v^H dv) / e) + diag(ds)) v^H, with e of the squares of
// s, and what du and dv have outside of u's and v's columns.
void svd_grad(Context context, Input x, Input u, Input vh, Input s, OptionalInput du, OptionalInput dvh,
              OptionalInput ds, bool, Output dx) {
  const View a = x.view(), values = s.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  const View left = corner(u.view(), m, k), right = corner(vh.view(), k, n);
  const Scratch squares(context, values.dtype, values);
  const MatricesLike inner(context, a, k, k), half(context, a, m, k);
  context.map(uhal_map_square, {&values}, {&squares});
  fill_zero(context, inner);
  const View dleft = du ? corner(du.view(), m, k) : View(), dright = dvh ? corner(dvh.view(), k, n) : View();
  if (du) add_rotation(context, left, dleft, squares, values, true, inner);
  if (dvh) {
    add_rotation(context, Adjoint(context, right), Adjoint(context, dright), squares, values, false, inner);
  }
  if (du && dvh && is_complex(a.dtype)) add_phases(context, left, dleft, values, inner);
  if (ds) {
    const View gradient = ds.view();
    add_to(context, diagonal_of(inner), gradient);
  }
  multiply(context, left, inner, 1, half);
  multiply(context, half, right, 1, target);
  if (du && m > k) {
    const MatricesLike outside(context, a, m, n);
    find_outside(context, left, dleft, values, right, outside);
    add_to(context, target, outside);
  }
  if (dvh && n > k) {
    const MatricesLike outside(context, a, n, m);
    find_outside(context, Adjoint(context, right), Adjoint(context, dright), values, Adjoint(context, left), outside);
    add_to(context, target, Adjoint(context, outside));
  }
}

void svdvals_grad(Context context, Input x, Input ds, Output dx) {
  const View a = x.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  const MatricesLike left(context, a, m, k), right(context, a, k, n);
  const View gradient = ds.view();
  const Scratch values(context, a.dtype, gradient);
  const Info info(context, a);
  context.run(UHAL_OP_SVD, {&a}, {&values, &left, &right, &info});
  info.require_converged("singular values", UHAL_INVALID_ARGUMENT);
  scale_columns(context, left, gradient, left);
  multiply(context, left, right, 1, target);
}

// -- QR and LU

// y = b r^-H, r upper triangular.
void divide_by_adjoint(const Context& context, const View& b, const View& r, const View& y) {
  const Adjoint turned(context, b);
  const Scratch solved(context, b.dtype, turned);
  solve_triangle(context, r, turned, solved, {true, false, false});
  copy_or_cast(context, Adjoint(context, solved), y);
}

// Of square or tall a = q r: da = (dq + q copyltu(r dr^H - dq^H q)) r^-H, with copyltu(p) = the lower triangle and
// below the diagonal its conjugated transpose (Walter and Lehmann, 2018).
void tall_qr_gradient(const Context& context, const View& q, const View& r, const View& dq, const View& dr,
                      const View& y) {
  const int64_t n = r.shape[r.rank - 1];
  const MatricesLike p(context, q, n, n), other(context, q, n, n), below(context, q, n, n);
  const Scratch sum(context, q.dtype, q);
  multiply(context, r, Adjoint(context, dr), 1, p);
  multiply(context, Adjoint(context, dq), q, 1, other);
  subtract_from(context, p, other);
  keep_triangle(context, p, false);
  copy_or_cast(context, p, below);
  keep_triangle(context, below, false, -1);
  if (is_complex(p.dtype)) {  // the diagonal counts for both triangles
    const View diagonal = diagonal_of(p);
    context.map(uhal_map_real, {&diagonal}, {&diagonal});
  }
  add_to(context, p, Adjoint(context, below));
  multiply(context, q, p, 1, sum);
  add_to(context, sum, dq);
  divide_by_adjoint(context, sum, r, y);
}

void qr_grad(Context context, Input x, Input q, Input r, Input dq, Input dr, Text mode, Output dx) {
  const View a = x.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  const std::string how = mode.value;
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1];
  if (how == "r") invalid(context, "the mode r has no gradient, since there is no q; use reduced");
  if (how == "complete" && m > n) unsupported(context, "the gradient of complete factors of tall matrices");
  const View columns = q.view(), triangle = r.view();
  const GradientOrZeros dcolumns(context, dq, columns, a.dtype), dtriangle(context, dr, triangle, a.dtype);
  if (m >= n) return tall_qr_gradient(context, columns, triangle, dcolumns, dtriangle, target);
  // a = (b, c) = q (u, v): what c adds to the gradient of q, and then that of b = q u.
  const View u = corner(triangle, m, m), du = corner(dtriangle, m, m);
  const View dv = dtriangle.sliced(a.rank - 1, m, n - m), c = a.sliced(a.rank - 1, m, n - m);
  const Scratch sum(context, a.dtype, columns);
  multiply(context, c, Adjoint(context, dv), 1, sum);
  add_to(context, sum, dcolumns);
  tall_qr_gradient(context, columns, u, sum, du, corner(target, m, m));
  multiply(context, columns, dv, 1, target.sliced(a.rank - 1, m, n - m));
}

// Of square p^T a = l u: da = p l^-H (below(l^H dl) + upper(du u^H)) u^-H.
void lu_grad(Context context, Input x, Input, Input, Input dout, bool, Output dx) {
  const View a = x.view(), gradient = dout.view();
  const View target = context.allocate(dx, a.dtype);
  if (target.elements() == 0) return;
  if (a.shape[a.rank - 1] != a.shape[a.rank - 2]) unsupported(context, "the gradient for matrices that are not square");
  const Factors factors(context, a);
  const Scratch l(context, a.dtype, a), u(context, a.dtype, a), dl(context, a.dtype, a), du(context, a.dtype, a),
      lower(context, a.dtype, a), upper(context, a.dtype, a);
  copy_or_cast(context, factors.lu, l);
  keep_triangle(context, l, false, -1);
  fill(context, diagonal_of(l), 1, 1);
  copy_or_cast(context, factors.lu, u);
  keep_triangle(context, u, true);
  copy_or_cast(context, gradient, dl);
  keep_triangle(context, dl, false, -1);
  copy_or_cast(context, gradient, du);
  keep_triangle(context, du, true);
  const Adjoint l_adjoint(context, l);
  multiply(context, l_adjoint, dl, 1, lower);
  keep_triangle(context, lower, false, -1);
  multiply(context, du, Adjoint(context, u), 1, upper);
  keep_triangle(context, upper, true);
  add_to(context, lower, upper);
  solve_triangle(context, l_adjoint, lower, upper, {true, true, false});
  divide_by_adjoint(context, upper, u, lower);
  // Row i belongs to row order[i] of a.
  View places = factors.order().unsqueezed(factors.order().rank);
  places.shape[places.rank - 1] = a.shape[a.rank - 1];
  places.strides[places.rank - 1] = 0;
  const auto rows = index_attributes(a.rank - 2);
  fill_zero(context, target);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&places, &lower}, {&target}, &rows);
}

void lu_unpack_grad(Context context, Input x, Input, Input l, Input u, Input, Input dl, Input du, bool data, bool,
                    Output dx) {
  const uhal_dtype dtype = x.uhal();
  const GradientOrZeros lower(context, dl, l.shape_only(), dtype), upper(context, du, u.shape_only(), dtype);
  const View target = context.allocate(dx, dtype);
  fill_zero(context, target);
  if (!data || target.elements() == 0) return;
  const int64_t m = lower.shape[lower.rank - 2], k = lower.shape[lower.rank - 1], n = upper.shape[upper.rank - 1];
  const Scratch below(context, lower.dtype, lower), above(context, upper.dtype, upper);
  copy_or_cast(context, lower, below);
  keep_triangle(context, below, false, -1);
  copy_or_cast(context, upper, above);
  keep_triangle(context, above, true);
  add_to(context, corner(target, m, k), below);
  add_to(context, corner(target, k, n), above);
}

}  // namespace

KernelTable linear_algebra_gradient_kernels() {
  return {
      UNIHAL_KERNEL("cholesky_solve_grad", kMatrices, cholesky_solve_grad),
      UNIHAL_KERNEL("determinant_grad", kMatrices, determinant_grad),
      UNIHAL_KERNEL("eig_grad", kComplex, eig_grad),
      UNIHAL_KERNEL("eig_grad", kComplex, eig_grad_of_both),
      UNIHAL_KERNEL("eigh_grad", kMatrices, eigh_grad),
      UNIHAL_KERNEL("eigvalsh_grad", kMatrices, eigvalsh_grad),
      UNIHAL_KERNEL("lu_grad", kMatrices, lu_grad),
      UNIHAL_KERNEL("lu_unpack_grad", kMatrices, lu_unpack_grad),
      UNIHAL_KERNEL("matrix_power_grad", kMatrices, matrix_power_grad),
      UNIHAL_KERNEL("qr_grad", kMatrices, qr_grad),
      UNIHAL_KERNEL("solve_grad", kMatrices, solve_grad),
      UNIHAL_KERNEL("svd_grad", kMatrices, svd_grad),
      UNIHAL_KERNEL("svdvals_grad", kWideFloats, svdvals_grad),
  };
}

}  // namespace unihal::paddle
