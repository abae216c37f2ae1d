// Matrix factorizations, and systems solved by them. Results take the strides that PyTorch's meta functions name
// (columns side by side), which are views like any other.
#include <ATen/Functions.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/triangular_solve_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

at::Tensor resolved(Call& call, const at::Tensor& tensor) { return call.keep(tensor.resolve_conj().resolve_neg()); }

// -- triangles --------------------------------------------------------------------------------------------------

struct Triangle {
  bool upper;
  bool unit = false;
  bool conjugate = false;  // its elements are conjugated first
};

// x with a @ x = b; x may be b.
void solve_triangle(Call& call, const at::Tensor& a, const at::Tensor& b, const at::Tensor& x,
                    const Triangle& triangle) {
  if (x.numel() == 0) return;
  uhal_triangular_solve_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = triangle.upper;
  attributes.unit_diagonal = triangle.unit;
  attributes.conjugate = triangle.conjugate;
  const View left = view_of(a), right = view_of(b), solution = view_of(x);
  call.launch(UHAL_OP_TRIANGULAR_SOLVE, {&left, &right}, {&solution}, &attributes);
}

// (self, B, *, upper, left, unitriangular)
void solve_triangular(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& other = call.tensor(1);
  const bool left = call.boolean(3);
  at::native::checkInputsSolver(self, other, left, "linalg.solve_triangular");
  const auto [b, a] = at::native::_linalg_broadcast_batch_dims(resolved(call, other), resolved(call, self), nullptr);
  const at::Tensor result = empty(b.sizes(), b.scalar_type());
  Triangle triangle = {call.boolean(2), call.boolean(4)};
  if (left) {
    solve_triangle(call, a, b, result, triangle);
  } else {
    triangle.upper = !triangle.upper;
    solve_triangle(call, a.mT(), b.mT(), result.mT(), triangle);
  }
  call.set_result(0, result);
}

// (self, A, upper, transpose, unitriangular)
void solve_triangular_with_copy(Call& call) {
  Structured<at::meta::structured_triangular_solve>(call).infer();
  const auto [b, a] = at::native::_linalg_broadcast_batch_dims(call.tensor(0), call.tensor(1), "triangular_solve");
  at::Tensor copy = call.result(1);
  copy.copy_(a);
  const bool transposed = call.boolean(3);
  const Triangle triangle = {call.boolean(2) != transposed, call.boolean(4), false};
  solve_triangle(call, transposed ? copy.mT() : copy, b, call.result(0), triangle);
}

// -- Cholesky ---------------------------------------------------------------------------------------------------

void factor_cholesky(Call& call, const at::Tensor& a, const at::Tensor& l, const at::Tensor& status, bool upper) {
  uhal_triangle_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper;
  const View x = view_of(a), y = view_of(l), info = view_of(status);
  call.launch(UHAL_OP_CHOLESKY, {&x}, {&y, &info}, &attributes);
}

// (self, *, upper, check_errors)
void cholesky_with_status(Call& call) {
  Structured<at::meta::structured_linalg_cholesky_ex>(call).infer();
  const at::Tensor& self = call.tensor(0);
  factor_cholesky(call, self, call.result(0), call.result(1), call.boolean(1));
  if (call.boolean(2)) at::_linalg_check_errors(call.result(1), "linalg.cholesky_ex", self.dim() == 2);
}

// (self, upper)
void cholesky(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return call.set_result(0, empty(self.sizes(), self.scalar_type()));
  at::native::squareCheckInputs(self, "cholesky");
  at::native::checkFloatingOrComplex(self, "cholesky", false);
  const at::Tensor status = status_of(call, self);
  const at::Tensor result = empty(self.sizes(), self.scalar_type());
  factor_cholesky(call, self, result, status, call.boolean(1));
  at::_linalg_check_errors(status, "cholesky", self.dim() == 2);
  call.set_result(0, result);
}

// The inverse of the matrix whose factor is given: (self, upper)
void cholesky_inverse(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::native::squareCheckInputs(self, "cholesky_inverse");
  const bool upper = call.boolean(1);
  // As LAPACK counts: the number of the first zero on a diagonal, or 0.
  const at::Tensor is_zero = self.diagonal(0, -2, -1).eq(0).to(at::kInt);
  if (is_zero.numel() != 0) {
    const at::Tensor status = at::amax(is_zero, -1) * (at::argmax(is_zero, -1).to(at::kInt) + 1);
    at::_linalg_check_errors(status, "cholesky_inverse", self.dim() == 2);
  }
  const at::Tensor one = call.keep(at::eye(self.size(-1), self.options()));
  const at::Tensor inverse = call.scratch(self.sizes(), self.scalar_type());
  solve_triangle(call, self, one.expand(self.sizes()), inverse, {upper});
  call.set_result(0, upper ? at::matmul(inverse, inverse.mH()) : at::matmul(inverse.mH(), inverse));
}

// (self, A, upper): A is the factor
void cholesky_solve(Call& call) {
  const at::Tensor& factor = call.tensor(1);
  const bool upper = call.boolean(2);
  const at::Tensor result = empty(call.tensor(0).sizes(), call.tensor(0).scalar_type());
  const Triangle adjoint = {!upper, false, true};
  solve_triangle(call, upper ? factor.mT() : factor, call.tensor(0), result, upper ? adjoint : Triangle{upper});
  solve_triangle(call, upper ? factor : factor.mT(), result, result, upper ? Triangle{upper} : adjoint);
  call.set_result(0, result);
}

// -- LU ---------------------------------------------------------------------------------------------------------

// pivots: PyTorch's, which count from 1. The permutation (..., m; int32) and the status are optional.
void factor_lu(Call& call, const at::Tensor& a, const at::Tensor& lu, const at::Tensor& pivots,
               const at::Tensor& permutation, const at::Tensor& status) {
  if (a.numel() == 0) {
    if (status.defined() && status.numel() != 0) call.fill(view_of(status), 0);
    if (permutation.defined() && permutation.numel() != 0) {
      at::Tensor order = permutation;
      order.copy_(at::arange(a.size(-2), permutation.options()).expand(permutation.sizes()));
    }
    return;
  }
  const View x = view_of(a), y = view_of(lu), p = view_of(pivots);
  View order, info;
  if (permutation.defined()) order = view_of(permutation);
  if (status.defined()) info = view_of(status);
  call.launch(UHAL_OP_LU, {&x}, {&y, &p, permutation.defined() ? &order : nullptr, status.defined() ? &info : nullptr});
  call.map(uhal_map_scale, {&p}, {&p}, {1, 1});
}

// The order in which pivots put the rows, and the inverse of it, int64. What each exchange makes of the others is a
// loop over a few numbers: the host runs it.
std::pair<at::Tensor, at::Tensor> orders_of(Call& call, const at::Tensor& pivots, int64_t rows) {
  const at::Tensor host = pivots.to(at::kCPU).contiguous();
  const int64_t steps = host.size(-1);
  c10::DimVector sizes(pivots.sizes());
  sizes.back() = rows;
  const at::Tensor order = at::empty(sizes, at::TensorOptions(at::kLong));
  const at::Tensor inverse = at::empty_like(order);
  const int32_t* pivot = host.const_data_ptr<int32_t>();
  int64_t* places = order.mutable_data_ptr<int64_t>();
  int64_t* inverses = inverse.mutable_data_ptr<int64_t>();
  const int64_t count = rows == 0 ? 0 : order.numel() / rows;
  for (int64_t batch = 0; batch < count; ++batch, pivot += steps, places += rows, inverses += rows) {
    for (int64_t i = 0; i < rows; ++i) places[i] = i;
    for (int64_t i = 0; i < steps; ++i) {
      TORCH_CHECK(pivot[i] >= 1 && pivot[i] <= rows, "pivots passed to lu_unpack must be between 1 and LU.size(-2) ",
                  "inclusive. Did you properly pass the result of lu_factor?");
      std::swap(places[i], places[pivot[i] - 1]);
    }
    for (int64_t i = 0; i < rows; ++i) inverses[places[i]] = i;
  }
  return {call.keep(order.to(pivots.device())), call.keep(inverse.to(pivots.device()))};
}

// Rows of b in another order.
at::Tensor reordered(const at::Tensor& b, const at::Tensor& order) {
  c10::DimVector sizes(b.sizes());
  return b.gather(-2, order.to(at::kLong).unsqueeze(-1).expand(sizes));
}

// P with A = P L U: rows of A in `order` are L U.
at::Tensor permutation_matrix(const at::Tensor& order, at::ScalarType dtype) {
  if (order.numel() == 0) {
    c10::DimVector sizes(order.sizes());
    sizes.push_back(order.size(-1));
    return at::empty(sizes, order.options().dtype(dtype));
  }
  return at::one_hot(order.to(at::kLong), order.size(-1)).mT().to(dtype);
}

struct Factors {
  at::Tensor lu, order, inverse;
};

// What to solve with a factored A: A, or A^T, of elements as they are or conjugated.
at::Tensor solve_factored(Call& call, const Factors& factors, const at::Tensor& b, bool transposed, bool conjugate) {
  if (!transposed) {
    const at::Tensor x = call.keep(reordered(b, factors.order));
    solve_triangle(call, factors.lu, x, x, {false, true, conjugate});
    solve_triangle(call, factors.lu, x, x, {true, false, conjugate});
    return x;
  }
  const at::Tensor x = call.keep(b.clone(at::MemoryFormat::Contiguous));
  solve_triangle(call, factors.lu.mT(), x, x, {false, false, conjugate});
  solve_triangle(call, factors.lu.mT(), x, x, {true, true, conjugate});
  return reordered(x, factors.inverse);
}

// X of A X = B, or X A = B; of A^H with `adjoint`.
at::Tensor solve_system(Call& call, const Factors& factors, const at::Tensor& b, bool left, bool adjoint) {
  if (left) return solve_factored(call, factors, b, adjoint, adjoint);
  return solve_factored(call, factors, b.mT(), !adjoint, adjoint).mT();
}

// (A, *, pivot, check_errors)
void lu_factor_with_status(Call& call) {
  call.require(call.boolean(1), "no pivots");
  Structured<at::meta::structured_linalg_lu_factor_ex>(call).infer();
  factor_lu(call, call.tensor(0), call.result(0), call.result(1), {}, call.result(2));
  if (call.boolean(2)) at::_linalg_check_errors(call.result(2), "torch.linalg.lu_factor_ex", call.tensor(0).dim() == 2);
}

// L and U are cut out of what a factorization gives.
void unpack(const at::Tensor& lu, at::Tensor l, at::Tensor u) {
  const int64_t inner = std::min(lu.size(-1), lu.size(-2));
  l.copy_(lu.narrow(-1, 0, inner).tril(-1));
  l.diagonal(0, -2, -1).fill_(1);
  u.copy_(lu.narrow(-2, 0, inner).triu());
}

// (A, *, pivot)
void lu(Call& call) {
  call.require(call.boolean(1), "no pivots");
  Structured<at::meta::structured_linalg_lu>(call).infer();
  const at::Tensor& self = call.tensor(0);
  c10::DimVector rows = batch_of(self), steps = rows;
  rows.push_back(self.size(-2));
  steps.push_back(std::min(self.size(-1), self.size(-2)));
  const at::Tensor factors = call.scratch(self.sizes(), self.scalar_type());
  const at::Tensor order = call.scratch(rows, at::kInt);
  factor_lu(call, self, factors, call.scratch(steps, at::kInt), order, {});
  at::Tensor p = call.result(0);
  p.copy_(permutation_matrix(order, self.scalar_type()));
  unpack(factors, call.result(1), call.result(2));
}

// (LU_data, LU_pivots, unpack_data, unpack_pivots)
void lu_unpack(Call& call) {
  Structured<at::meta::structured_lu_unpack>(call).infer();
  const at::Tensor& data = call.tensor(0);
  if (call.boolean(2)) unpack(data, call.result(1), call.result(2));
  if (!call.boolean(3)) return;
  at::Tensor p = call.result(0);
  p.copy_(permutation_matrix(orders_of(call, call.tensor(1), data.size(-2)).first, data.scalar_type()));
}

// (LU, pivots, B, *, left, adjoint)
void lu_solve(Call& call) {
  Structured<at::meta::structured_linalg_lu_solve>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  const auto [order, inverse] = orders_of(call, call.tensor(1), call.tensor(0).size(-2));
  c10::DimVector batch(result.sizes().slice(0, static_cast<size_t>(result.dim() - 2)));
  c10::DimVector rows = batch;
  rows.push_back(order.size(-1));
  const Factors factors = {call.tensor(0), order.expand(rows), inverse.expand(rows)};
  result.copy_(solve_system(call, factors, call.tensor(2).expand(result.sizes()), call.boolean(3), call.boolean(4)));
}

// Some of PyTorch's ops factor the transpose of a dense real matrix, which is what its memory is by columns, and their
// gradients solve with what they gave; which ops do is another in each version. They are asked, once each.
enum class Factored { kSolve, kDeterminant };

bool is_transpose_factored(Factored op) {
  const auto ask = [](Factored which) {
    const at::Tensor a = at::tensor({2.0, 1.0, 0.0, 3.0}).view({2, 2});  // of which one triangle is U already
    const at::Tensor lu = which == Factored::kSolve ? std::get<1>(at::_linalg_solve_ex(a, at::ones({2}, a.options())))
                                                    : std::get<1>(at::_linalg_det(a));
    return lu[1][0].item<double>() != 0;
  };
  static const bool answers[] = {ask(Factored::kSolve), ask(Factored::kDeterminant)};
  return answers[static_cast<int>(op)];
}

bool is_factored_transposed(const at::Tensor& a, Factored op) {
  return a.is_contiguous() && !a.is_complex() && is_transpose_factored(op);
}

// Factors A into results `first` (LU) and `first` + 1 (pivots), and gives what solves by it.
Factors factor_into(Call& call, const at::Tensor& a, int first, const at::Tensor& status, Factored op) {
  const at::Tensor from = is_factored_transposed(a, op) ? a.mT() : a;
  c10::DimVector rows = batch_of(a);
  rows.push_back(a.size(-1));
  const at::Tensor order = call.scratch(rows, at::kInt);
  factor_lu(call, from, call.result(first), call.result(first + 1), order, status);
  return {call.result(first), order, {}};
}

// (A, B, *, left, check_errors) -> result, LU, pivots, info
void solve_with_status(Call& call) {
  Structured<at::meta::structured__linalg_solve_ex>(call).infer();
  const at::Tensor& a = call.tensor(0);
  const bool left = call.boolean(2);
  Factors factors = factor_into(call, a, 1, call.result(3), Factored::kSolve);
  if (call.boolean(3)) at::_linalg_check_errors(call.result(3), "torch.linalg.solve_ex", a.dim() == 2);
  at::Tensor result = call.result(0);
  if (result.numel() == 0) return;
  factors.inverse = factors.order.argsort(-1, false);
  const bool is_vector = at::native::linalg_solve_is_vector_rhs(a, call.tensor(1));
  at::Tensor target = is_vector ? result.unsqueeze(-1) : result;
  const at::Tensor b = is_vector ? call.tensor(1).unsqueeze(-1) : call.tensor(1);
  c10::DimVector rows(target.sizes().slice(0, static_cast<size_t>(target.dim() - 2)));
  rows.push_back(a.size(-1));
  factors.order = factors.order.expand(rows);
  factors.inverse = factors.inverse.expand(rows);
  target.copy_(
      solve_system(call, factors, b.expand(target.sizes()), left, is_factored_transposed(a, Factored::kSolve)));
}

// (A, *, check_errors) -> inverse, info
void inverse_with_status(Call& call) {
  Structured<at::meta::structured_linalg_inv_ex>(call).infer();
  const at::Tensor& a = call.tensor(0);
  at::Tensor result = call.result(0);
  c10::DimVector rows = batch_of(a);
  rows.push_back(a.size(-1));
  const Factors factors = {call.scratch(a.sizes(), a.scalar_type()), call.scratch(rows, at::kInt), {}};
  factor_lu(call, a, factors.lu, call.scratch(rows, at::kInt), factors.order, call.result(1));
  if (call.boolean(1)) at::_linalg_check_errors(call.result(1), "linalg.inv_ex", a.dim() == 2);
  if (result.numel() == 0) return;
  const at::Tensor one = at::eye(a.size(-1), a.options()).expand(a.sizes());
  result.copy_(solve_factored(call, factors, one, false, false));
}

// 1, or -1 after an odd number of exchanges.
at::Tensor sign_of(const at::Tensor& pivots, at::ScalarType dtype) {
  const at::Tensor places = at::arange(1, pivots.size(-1) + 1, pivots.options());
  return pivots.ne(places).sum(-1).bitwise_and(1).mul(-2).add(1).to(dtype);
}

// (A) -> result, LU, pivots
void determinant(Call& call) {
  Structured<at::meta::structured__linalg_det>(call).infer();
  const at::Tensor& a = call.tensor(0);
  factor_into(call, a, 1, {}, Factored::kDeterminant);
  at::Tensor result = call.result(0);
  result.copy_(call.result(1).diagonal(0, -2, -1).prod(-1).mul_(sign_of(call.result(2), a.scalar_type())));
}

// (A) -> sign, logabsdet, LU, pivots
void sign_and_log_of_determinant(Call& call) {
  Structured<at::meta::structured__linalg_slogdet>(call).infer();
  const at::Tensor& a = call.tensor(0);
  factor_into(call, a, 2, {}, Factored::kDeterminant);
  const at::Tensor diagonal = call.result(2).diagonal(0, -2, -1);
  at::Tensor sign = call.result(0), logarithm = call.result(1);
  sign.copy_(diagonal.sgn().prod(-1).mul_(sign_of(call.result(3), a.scalar_type())));
  logarithm.copy_(diagonal.abs().log().sum(-1));
}

constexpr Kernel kFactorizationKernels[] = {
    {"linalg_solve_triangular", kFactored, solve_triangular},
    {"triangular_solve", kFactored, solve_triangular_with_copy},
    {"linalg_cholesky_ex", kFactored, cholesky_with_status},
    {"cholesky", kFactored, cholesky},
    {"cholesky_inverse", kFactored, cholesky_inverse},
    {"_cholesky_solve_helper", kFactored, cholesky_solve},
    {"linalg_lu_factor_ex", kFactored, lu_factor_with_status},
    {"linalg_lu", kFactored, lu},
    {"lu_unpack", kFactored, lu_unpack},
    {"linalg_lu_solve", kFactored, lu_solve},
    {"_linalg_solve_ex", kFactored, solve_with_status},
    {"linalg_inv_ex", kFactored, inverse_with_status},
    {"_linalg_det", kFactored, determinant},
    {"_linalg_slogdet", kFactored, sign_and_log_of_determinant},
};

}  // namespace

void register_factorization() { register_kernels(kFactorizationKernels); }

}  // namespace unihal::pytorch
