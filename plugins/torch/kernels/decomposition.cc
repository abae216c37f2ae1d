// Orthogonal and spectral decompositions, least squares, and what is made of them.
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_eigh_meta.h>
#include <ATen/ops/_linalg_svd_meta.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/linalg_qr_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

c10::DimVector with(c10::DimVector batch, std::initializer_list<int64_t> sizes) {
  batch.append(sizes.begin(), sizes.end());
  return batch;
}

// A copy of an operand whose memory a result has, since no factorization works in place.
const at::Tensor& apart(Call& call, const at::Tensor& a, std::initializer_list<int> results) {
  for (const int i : results) {
    if (call.result(i).defined() && a.is_alias_of(call.result(i))) return call.keep(a.clone());
  }
  return a;
}

// -- QR and reflectors --------------------------------------------------------------------------------------------

void factor_qr(Call& call, const at::Tensor& a, const at::Tensor& q, const at::Tensor& r) {
  if (a.numel() == 0) {
    if (q.defined() && q.numel() != 0) {
      at::Tensor one = q;
      one.zero_().diagonal(0, -2, -1).fill_(1);
    }
    return;
  }
  const View x = view_of(a), triangle = view_of(r);
  View orthogonal;
  if (q.defined()) orthogonal = view_of(q);
  call.launch(UHAL_OP_QR, {&x}, {&triangle, q.defined() ? &orthogonal : nullptr});
}

// (A, mode) -> Q, R
void qr(Call& call) {
  Structured<at::meta::structured_linalg_qr>(call).infer();
  const bool with_q = call.argument(1).toStringView() != "r";
  factor_qr(call, apart(call, call.tensor(0), {0, 1}), with_q ? call.result(0) : at::Tensor(), call.result(1));
}

// The product of reflectors H1 H2 ... Hk, or of their adjoints, times c; Hi = 1 - tau[i] v v^H, v column i of
// `reflectors` below its diagonal, with a one on it. The product is 1 - V M^-1 V^H, M being upper triangular with 1 /
// tau on its diagonal and V^H V above it (Joffrain et al., Accumulating Householder transformations, revisited, ACM
// TOMS 32, 2006). Where tau is 0 a reflector is 1, whose column is 0 here.
at::Tensor reflect(const at::Tensor& reflectors, const at::Tensor& tau, const at::Tensor& c, bool adjoint,
                   bool is_identity = false) {
  const int64_t count = tau.size(-1);
  const at::Tensor is_one = tau.eq(0);
  at::Tensor v = reflectors.narrow(-1, 0, count).tril(-1);
  v.diagonal(0, -2, -1).fill_(1);
  v.masked_fill_(is_one.unsqueeze(-2), 0);
  const at::Tensor adjoint_v = v.mH();
  at::Tensor m = at::matmul(adjoint_v, v).triu(1);
  m.diagonal(0, -2, -1).copy_(tau.masked_fill(is_one, 1).reciprocal());
  const at::Tensor product = is_identity ? adjoint_v.narrow(-1, 0, c.size(-1)) : at::matmul(adjoint_v, c);
  const at::Tensor inner = at::linalg_solve_triangular(adjoint ? m.mH() : m, product, !adjoint);
  return c - at::matmul(v, inner);
}

// a = l u in a's place, without exchanged rows, by halves. A pivot below 1/2 is none: what it stands for is 0, and
// becomes 1 here, which no other pivot of reflectors_of() is.
void eliminate(const at::Tensor& a) {
  const int64_t size = a.size(-1), half = size / 2, rest = size - half;
  if (size == 1) {
    at::Tensor(a).masked_fill_(a.abs().lt(0.5), 1);
    return;
  }
  const auto block = [&a](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    return a.narrow(-2, row, rows).narrow(-1, column, columns);
  };
  const at::Tensor first = block(0, half, 0, half);
  at::Tensor right = block(0, half, half, rest), below = block(half, rest, 0, half),
             last = block(half, rest, half, rest);
  eliminate(first);
  right.copy_(at::linalg_solve_triangular(first, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true));
  below.copy_(at::linalg_solve_triangular(first, below, /*upper=*/true, /*left=*/false));
  last.sub_(at::matmul(below, right));
  eliminate(last);
}

// (self) -> a, tau: R on and above a's diagonal, reflectors below it, from q and r: q is the first columns of
// 1 - V T V^H, so that q - 1 = V (-T V1^H), a unit lower triangle times an upper one with -tau on its diagonal (Ballard
// et al., Reconstructing Householder vectors from tall-skinny QR, IPDPS 2014). A tau is 0 or at least 1.
void reflectors_of(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  const int64_t m = self.size(-2), n = self.size(-1), count = std::min(m, n);
  at::Tensor a = empty(self.sizes(), self.scalar_type());
  at::Tensor tau = empty(with(batch_of(self), {count}), self.scalar_type());
  if (self.numel() != 0) {
    at::Tensor v = call.scratch(with(batch_of(self), {m, count}), self.scalar_type());
    const at::Tensor r = call.scratch(with(batch_of(self), {count, n}), self.scalar_type());
    factor_qr(call, self, v, r);
    v.diagonal(0, -2, -1).sub_(1);
    const at::Tensor top = v.narrow(-2, 0, count);
    eliminate(top);
    if (m > count) {
      at::Tensor below = v.narrow(-2, count, m - count);
      below.copy_(at::linalg_solve_triangular(top, below, /*upper=*/true, /*left=*/false));
    }
    const at::Tensor pivots = top.diagonal(0, -2, -1);
    tau.copy_(pivots.neg().masked_fill(pivots.eq(1), 0));
    a.zero_();
    a.narrow(-1, 0, count).copy_(v.tril(-1));
    a.narrow(-2, 0, count).add_(r);
  }
  call.set_result(0, a);
  call.set_result(1, tau);
}

// (input, tau): the first columns of the product
void householder_product(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& tau = call.tensor(1);
  TORCH_CHECK(self.dim() >= 2, "torch.linalg.householder_product: input must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-2) >= self.size(-1),
              "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(self.size(-1) >= tau.size(-1),
              "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(self.dim() - tau.dim() == 1,
              "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim "
              "equal to ",
              tau.dim(), " and input.ndim is equal to ", self.dim());
  TORCH_CHECK(batch_of(self) == tau.sizes().slice(0, static_cast<size_t>(tau.dim() - 1)),
              "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2]");
  TORCH_CHECK(self.scalar_type() == tau.scalar_type(), "torch.linalg.householder_product: tau dtype ",
              tau.scalar_type(), " does not match input dtype ", self.scalar_type());
  at::Tensor one = at::zeros(self.sizes(), self.options());
  one.diagonal(0, -2, -1).fill_(1);
  call.set_result(0, reflect(self, tau, one, false, true));
}

// (self, tau, other, left, transpose)
void multiply_by_reflectors(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& tau = call.tensor(1);
  const at::Tensor& other = call.tensor(2);
  const bool left = call.boolean(3), transpose = call.boolean(4);
  TORCH_CHECK(self.dim() >= 2, "torch.ormqr: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
  TORCH_CHECK(other.size(left ? -2 : -1) >= tau.size(-1), "torch.ormqr: other.shape[", left ? -2 : -1,
              "] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(other.size(left ? -2 : -1) == self.size(-2), "torch.ormqr: other.shape[", left ? -2 : -1,
              "] must be equal to input.shape[-2]");
  TORCH_CHECK(self.dim() - tau.dim() == 1 && self.dim() == other.dim(),
              "torch.ormqr: Expected tau to have one dimension less than input, and other as many as input");
  TORCH_CHECK(tau.size(-1) == std::min(other.size(left ? -2 : -1), self.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[", left ? -2 : -1, "], input.shape[-1])");
  TORCH_CHECK(batch_of(self) == tau.sizes().slice(0, static_cast<size_t>(tau.dim() - 1)),
              "torch.ormqr: Expected batch dimensions of tau to be equal to input.shape[:-2]");
  TORCH_CHECK(batch_of(self) == batch_of(other),
              "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2]");
  TORCH_CHECK(tau.scalar_type() == self.scalar_type() && other.scalar_type() == self.scalar_type(),
              "torch.ormqr: Expected input, tau and other to have the same dtype");
  // C Q is (Q^H C^H)^H.
  call.set_result(0, left ? reflect(self, tau, other, transpose) : reflect(self, tau, other.mH(), !transpose).mH());
}

// -- eigenvalues --------------------------------------------------------------------------------------------------

// (A, UPLO, compute_v) -> eigenvalues, eigenvectors
void eigen_symmetric(Call& call) {
  Structured<at::meta::structured__linalg_eigh>(call).infer();
  const at::Tensor& a = apart(call, call.tensor(0), {0, 1});
  if (a.numel() == 0) return;
  const char triangle = static_cast<char>(std::toupper(call.argument(1).toStringView()[0]));
  uhal_triangle_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = triangle == 'U';
  const at::Tensor status = status_of(call, a);
  const View x = view_of(a), values = view_of(call.result(0)), info = view_of(status);
  View vectors;
  const bool with_vectors = call.boolean(2);
  if (with_vectors) vectors = view_of(call.result(1));
  call.launch(UHAL_OP_EIGEN_SYMMETRIC, {&x}, {&values, with_vectors ? &vectors : nullptr, &info}, &attributes);
  at::_linalg_check_errors(status, "linalg.eigh", a.dim() == 2);
}

std::pair<at::Tensor, at::Tensor> eigen_of(Call& call, const at::Tensor& a, bool with_vectors, const char* name) {
  at::native::squareCheckInputs(a, name);
  TORCH_CHECK(a.isfinite().all().item<bool>(), "torch.", name, ": input tensor should not contain infs or NaNs.");
  const at::ScalarType dtype = c10::toComplexType(a.scalar_type());
  const at::Tensor values = empty(with(batch_of(a), {a.size(-1)}), dtype);
  const at::Tensor vectors = with_vectors ? empty(a.sizes(), dtype) : at::Tensor();
  if (a.numel() == 0) return {values, vectors};
  const at::Tensor status = status_of(call, a);
  const View x = view_of(a), w = view_of(values), info = view_of(status);
  View v;
  if (with_vectors) v = view_of(vectors);
  call.launch(UHAL_OP_EIGEN, {&x}, {&w, with_vectors ? &v : nullptr, &info});
  at::_linalg_check_errors(status, name, a.dim() == 2);
  return {values, vectors};
}

void eigen(Call& call) {
  const auto [values, vectors] = eigen_of(call, call.tensor(0), true, "linalg.eig");
  call.set_result(0, values);
  call.set_result(1, vectors);
}

void eigenvalues(Call& call) { call.set_result(0, eigen_of(call, call.tensor(0), false, "linalg.eigvals").first); }

// (self, *, out)
void eigenvalues_to(Call& call) {
  at::Tensor out = call.tensor(1);
  const at::Tensor values = eigen_of(call, call.tensor(0), false, "linalg.eigvals").first;
  at::native::checkLinalgCompatibleDtype("torch.linalg.eigvals", out.scalar_type(), values.scalar_type(),
                                         "eigenvalues");
  out.resize_(values.sizes()).copy_(values);
  call.set_result(0, out);
}

// -- singular values ----------------------------------------------------------------------------------------------

struct SingularValues {
  at::Tensor u, s, vh;
};

void factor_svd(Call& call, const at::Tensor& a, const SingularValues& results) {
  const at::Tensor status = status_of(call, a);
  const View x = view_of(a), s = view_of(results.s), info = view_of(status);
  View u, vh;
  const bool with_vectors = results.u.defined();
  if (with_vectors) {
    u = view_of(results.u);
    vh = view_of(results.vh);
  }
  call.launch(UHAL_OP_SVD, {&x}, {&s, with_vectors ? &u : nullptr, with_vectors ? &vh : nullptr, &info});
  if (!status.any().item<bool>()) return;
  // Of a matrix with infinities PyTorch's CPU has NaN; one with NaN it refuses.
  const at::Tensor infinite =
      status.ne(0).logical_and(a.isinf().any(-1).any(-1)).logical_and(a.isnan().any(-1).any(-1).logical_not());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  at::Tensor(results.s).masked_fill_(infinite.unsqueeze(-1), nan);
  for (const at::Tensor& vectors : {results.u, results.vh}) {
    if (vectors.defined()) at::Tensor(vectors).masked_fill_(infinite.unsqueeze(-1).unsqueeze(-1), nan);
  }
  at::_linalg_check_errors(status.masked_fill(infinite, 0), "linalg.svd", a.dim() == 2);
}

// (A, full_matrices, compute_uv, *, driver) -> U, S, Vh
void svd(Call& call) {
  TORCH_CHECK(call.is_none(3), "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with ",
              "cuSOLVER backend.");
  Structured<at::meta::structured__linalg_svd>(call).infer();
  const at::Tensor& a = apart(call, call.tensor(0), {0, 1, 2});
  const bool with_vectors = call.boolean(2);
  if (a.numel() == 0) {
    for (const int i : {0, 2}) {
      if (!with_vectors || call.result(i).numel() == 0) continue;
      at::Tensor one = call.result(i);
      one.zero_().diagonal(0, -2, -1).fill_(1);
    }
    return;
  }
  factor_svd(
      call, a,
      {with_vectors ? call.result(0) : at::Tensor(), call.result(1), with_vectors ? call.result(2) : at::Tensor()});
}

// -- least squares ------------------------------------------------------------------------------------------------

// Least squares by QR: of A, or of A^H where A has fewer rows than columns.
struct Orthogonal {
  at::Tensor q, r;
  at::Tensor product;  // q^H b of tall matrices
};

Orthogonal factor_least_squares(Call& call, const at::Tensor& a, const at::Tensor& b) {
  const int64_t m = a.size(-2), n = a.size(-1), inner = std::min(m, n);
  if (m >= n && b.size(-1) <= n / 2 && batch_of(a) == batch_of(b)) {
    // Few columns behind those of A become q^H b without q, where no axis is broadcast.
    const at::Tensor both = call.keep(at::cat({a, b}, -1));
    const int64_t columns = both.size(-1);
    const at::Tensor all = call.scratch(with(batch_of(a), {std::min(m, columns), columns}), a.scalar_type());
    factor_qr(call, both, at::Tensor(), all);
    const at::Tensor top = all.narrow(-2, 0, n);
    return {at::Tensor(), top.narrow(-1, 0, n), top.narrow(-1, n, columns - n)};
  }
  const at::Tensor q = call.scratch(with(batch_of(a), {std::max(m, n), inner}), a.scalar_type());
  const at::Tensor r = call.scratch(with(batch_of(a), {inner, inner}), a.scalar_type());
  factor_qr(call, m >= n ? a : call.keep(a.mH().resolve_conj()), q, r);
  return {q, r, m >= n ? at::matmul(q.mH(), b) : at::Tensor()};
}

// Of matrices of full rank: a solution, or the shortest one.
at::Tensor solve_by_qr(const Orthogonal& a, const at::Tensor& b) {
  if (a.product.defined()) return at::linalg_solve_triangular(a.r, a.product, /*upper=*/true);
  return at::matmul(a.q, at::linalg_solve_triangular(a.r.mH(), b, /*upper=*/false));
}

// Solutions of driver gels that are not finite: those of matrices of zeros are 0, as LAPACK has them, and other
// matrices without full rank, or with NaN, are refused. Gives where matrices are 0, (..., 1, 1).
at::Tensor refuse_without_rank(const at::Tensor& a, const at::Tensor& r, const at::Tensor& b, at::Tensor& solution) {
  const auto has_none = [](const at::Tensor& x) { return x.isnan().logical_not(); };
  refuse_unless(has_none(a), "torch.linalg.lstsq: input should not contain NaNs.");
  refuse_unless(has_none(b), "torch.linalg.lstsq: other should not contain NaNs.");
  const at::Tensor is_nothing = a.eq(0).flatten(-2).all(-1);
  // As LAPACK counts: the number of the first zero on a diagonal, or 0.
  const at::Tensor is_zero =
      r.diagonal(0, -2, -1).eq(0).logical_and(is_nothing.logical_not().unsqueeze(-1)).to(at::kInt);
  const at::Tensor status = at::amax(is_zero, -1) * (at::argmax(is_zero, -1).to(at::kInt) + 1);
  at::_linalg_check_errors(status, "torch.linalg.lstsq", a.dim() == 2);
  const at::Tensor nothing = is_nothing.unsqueeze(-1).unsqueeze(-1);
  solution.masked_fill_(nothing, 0);
  return nothing;
}

// The part of the largest singular value up to which others count as 0, as LAPACK takes rcond.
double limit_of(double rcond, double epsilon, const std::string& driver) {
  if (driver == "gelsd") return rcond <= 0 || rcond >= 1 ? epsilon / 2 : rcond;
  return driver == "gelss" && rcond < 0 ? epsilon : rcond;
}

// Whether all singular values of all r are surely above `limit` times the largest: Frobenius' norms of r and of its
// inverse are at least the largest and the reciprocal of the least one.
bool has_full_rank(const at::Tensor& r, double limit) {
  const at::Tensor one = at::eye(r.size(-1), r.options()).expand(r.sizes());
  const at::Tensor inverse = at::linalg_solve_triangular(r, one, /*upper=*/true);
  const auto norm = [](const at::Tensor& of) { return at::linalg_vector_norm(of, 2, at::IntArrayRef{-2, -1}); };
  return (norm(r) * norm(inverse) * limit).lt(1).all().item<bool>();
}

// (self, b, rcond, *, driver) -> solution, residuals, rank, singular_values
void least_squares(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& other = call.tensor(1);
  TORCH_CHECK(self.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  const int64_t difference = self.dim() - other.dim();
  TORCH_CHECK(difference == 0 || difference == 1, "torch.linalg.lstsq: input.dim() must be greater or equal to ",
              "other.dim() and (input.dim() - other.dim()) <= 1");
  const bool is_vector = at::native::linalg_solve_is_vector_rhs(self, other);
  at::Tensor b = is_vector ? other.unsqueeze(-1) : other;
  TORCH_CHECK(self.size(-2) == b.size(-2), "torch.linalg.lstsq: input.size(-2) should match other.size(",
              is_vector ? -1 : -2, ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "torch.linalg.lstsq: Expected input and other to have the ",
              "same dtype, but got input's dtype ", self.scalar_type(), " and other's dtype ", other.scalar_type());
  if (difference == 1 && !is_vector) {
    // PyTorch has an axis of the matrix count as one of the batch.
    const auto batches = at::infer_size(batch_of(self), other.sizes().slice(0, static_cast<size_t>(other.dim() - 1)));
    b = b.expand(with(c10::DimVector(batches.begin(), batches.end()), {b.size(-2), b.size(-1)}));
  }
  const std::string driver = call.is_none(3) ? "gelsy" : std::string(call.argument(3).toStringView());
  TORCH_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
              "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  const int64_t m = self.size(-2), n = self.size(-1);
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  const at::TensorOptions reals = self.options().dtype(real);
  const c10::DimVector batch = batch_of(self);
  const bool has_rank = driver != "gels";
  const at::Tensor rank = has_rank ? empty(batch, at::kLong) : empty({0}, at::kLong);
  at::Tensor singular = empty({0}, real);
  at::Tensor solution, nothing;
  if (self.numel() == 0 || b.numel() == 0) {
    solution = at::zeros(with(batch, {n, b.size(-1)}), b.options());
    if (has_rank) at::Tensor(rank).zero_();
    if (driver == "gelsd" || driver == "gelss") singular = at::zeros(with(batch, {std::min(m, n)}), reals);
  } else {
    const int64_t inner = std::min(m, n);
    const double epsilon = at::native::_get_epsilon(real);
    const double limit = limit_of(call.real_or(2, epsilon * static_cast<double>(std::max(m, n))), epsilon, driver);
    // By QR without singular values, but for matrices whose rank only these can tell.
    if (!has_rank || driver == "gelsy") {
      const Orthogonal factors = factor_least_squares(call, self, b);
      if (!has_rank || has_full_rank(factors.r, limit)) {
        solution = solve_by_qr(factors, b);
        if (has_rank) at::Tensor(rank).fill_(inner);
        if (!has_rank && !solution.isfinite().all().item<bool>()) {
          nothing = refuse_without_rank(self, factors.r, b, solution);
        }
      }
    }
    if (!solution.defined()) {
      const SingularValues parts = {call.scratch(with(batch, {m, inner}), self.scalar_type()),
                                    empty(with(batch, {inner}), real),
                                    call.scratch(with(batch, {inner, n}), self.scalar_type())};
      factor_svd(call, self, parts);
      const at::Tensor kept = parts.s.gt(parts.s.narrow(-1, 0, 1) * limit);
      at::Tensor(rank).copy_(kept.sum(-1));
      const at::Tensor inverse = at::where(kept, parts.s.reciprocal(), at::zeros({}, reals));
      const at::Tensor along = at::matmul(parts.u.mH(), b) * inverse.unsqueeze(-1);
      solution = at::matmul(parts.vh.mH(), along);
      if (driver != "gelsy") singular = parts.s;
    }
  }
  at::Tensor residuals = empty({0}, real);
  if (m > n && driver != "gelsy" && (!has_rank || rank.eq(n).all().item<bool>())) {
    residuals = (at::matmul(self, solution) - b).abs().square().sum(-2);
    if (nothing.defined()) residuals.masked_fill_(nothing.squeeze(-1), 0);  // LAPACK takes b for 0 then
    if (!has_rank && n == 0) residuals.zero_();
  }
  call.set_result(0, is_vector ? solution.squeeze(-1) : solution);
  call.set_result(1, residuals);
  call.set_result(2, rank);
  call.set_result(3, singular);
}

// -- functions of matrices, products of vectors ---------------------------------------------------------------------

// How often each matrix is halved, by its norm; below 0 is one that is not finite.
std::vector<int> squarings_of(const at::Tensor& norms) {
  const at::Tensor host = norms.to(at::kCPU, at::kDouble).contiguous();
  std::vector<int> squarings(static_cast<size_t>(host.numel()));
  const double* const norm = host.const_data_ptr<double>();
  for (size_t i = 0; i < squarings.size(); ++i) {
    squarings[i] = !std::isfinite(norm[i]) ? -1 : norm[i] > 1 ? static_cast<int>(std::ceil(std::log2(norm[i]))) : 0;
  }
  return squarings;
}

// Scaling and squaring: of A / 2^s, which is small, the series of exp (Higham 2005 has the bound), squared s times.
// Each matrix has its own s, so that others of a batch leave it alone.
void matrix_exponential(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  if (self.numel() == 0) return call.set_result(0, self.clone());
  const at::Tensor one = at::eye(self.size(-1), self.options()).expand(self.sizes());
  constexpr int kTerms = 18;  // 1 / 18! is below double precision
  // The largest sums of a column.
  const std::vector<int> squarings = squarings_of(self.abs().sum(-2).amax(-1));
  const auto [least, most] = std::minmax_element(squarings.begin(), squarings.end());
  at::Tensor scaled, scales;
  if (*least == *most && *least >= 0) {
    scaled = self * std::exp2(-*most);
  } else {
    const at::Tensor host = at::empty(with(batch_of(self), {1, 1}), at::TensorOptions(at::kDouble));
    std::transform(squarings.begin(), squarings.end(), host.mutable_data_ptr<double>(),
                   [](int count) { return count < 0 ? std::numeric_limits<double>::quiet_NaN() : std::exp2(-count); });
    scales = host.to(c10::toRealValueType(self.scalar_type())).to(self.device());
    scaled = self * scales;
  }
  at::Tensor result = one + scaled * (1.0 / kTerms);
  for (int term = kTerms - 1; term > 0; --term) result = one + at::matmul(scaled, result) * (1.0 / term);
  for (int i = 0; i < *most; ++i) {
    const at::Tensor squared = at::matmul(result, result);
    result = i < *least || !scales.defined() ? squared : at::where(scales.lt(std::exp2(-i)), squared, result);
  }
  call.set_result(0, result);
}

// (self, other, *, dim)
void cross(Call& call) {
  Structured<at::meta::structured_linalg_cross>(call).infer();
  at::Tensor result = call.result();
  const at::Tensor a = call.tensor(0).expand(result.sizes()), b = call.tensor(1).expand(result.sizes());
  const int64_t dim = call.integer(2);
  const auto turned = [dim](const at::Tensor& x, int64_t by) { return x.roll({-by}, {dim}); };
  result.copy_(turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1));
}

constexpr Kernel kDecompositionKernels[] = {
    {"linalg_qr", kFactored, qr},
    {"geqrf", kFactored, reflectors_of},
    {"linalg_householder_product", kFactored, householder_product},
    {"ormqr", kFactored, multiply_by_reflectors},
    {"_linalg_eigh", kFactored, eigen_symmetric},
    {"linalg_eig", kFactored, eigen},
    {"_linalg_eigvals", kFactored, eigenvalues},
    {"linalg_eigvals.out", kFactored, eigenvalues_to},
    {"_linalg_svd", kFactored, svd},
    {"linalg_lstsq", kFactored, least_squares},
    {"linalg_matrix_exp", kFloats | kComplex, matrix_exponential},
    {"linalg_cross", kNumbers | kComplex, cross},
};

}  // namespace

void register_decomposition() { register_kernels(kDecompositionKernels); }

}  // namespace unihal::pytorch
