// Rules of solutions, factorizations and eigenvalues of matrices.
#include <algorithm>

#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

// Matrices in a dtype that can be factorized.
uhal_status check_matrices(const OpView& op, const uhal_tensor& a) {
  UHAL_EXPECT(expect_rank(op, &a, 2, UHAL_MAX_RANK, "(..., rows, columns)"));
  return expect_dtype(op, &a, a.dtype == UHAL_FLOAT32 || a.dtype == UHAL_FLOAT64 || is_complex(a.dtype),
                      "float32, float64, complex64 or complex128; cast it first");
}

uhal_status check_square(const OpView& op, const uhal_tensor& a) {
  UHAL_EXPECT(check_matrices(op, a));
  Shape square(a);
  square.dims[a.rank - 1] = a.shape[a.rank - 2];
  return expect_shape(op, &a, square, "square matrices");
}

// The leading axes of a view, then others.
Shape batches_and(const uhal_tensor& a, std::initializer_list<int64_t> others) {
  Shape shape(a);
  shape.rank -= 2;
  for (int64_t length : others) shape.push(length);
  return shape;
}

uhal_status check_numbers(const OpView& op, const uhal_tensor* numbers, const Shape& shape, const char* meaning) {
  if (numbers == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_dtype(op, numbers, numbers->dtype == UHAL_INT32, "int32"));
  return expect_shape(op, numbers, shape, meaning);
}

uhal_status check_info(const OpView& op, const uhal_tensor* info, const uhal_tensor& a) {
  return check_numbers(op, info, batches_and(a, {}), "a number for each matrix");
}

uhal_dtype real_of(uhal_dtype dtype) {
  return dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : dtype;
}

uhal_dtype complex_of(uhal_dtype dtype) { return real_of(dtype) == UHAL_FLOAT64 ? UHAL_COMPLEX128 : UHAL_COMPLEX64; }

uhal_status check_dtype(const OpView& op, const uhal_tensor* operand, uhal_dtype dtype, const char* meaning) {
  return operand == nullptr ? UHAL_OK : expect_dtype(op, operand, operand->dtype == dtype, meaning);
}

}  // namespace

uhal_status check_triangular_solve(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_triangular_solve_attributes>();
  const uhal_tensor& a = *op.input(0);
  const uhal_tensor& b = *op.input(1);
  const uhal_tensor& x = *op.output(0);
  UHAL_EXPECT(expect_attribute(op, "upper", attributes.upper, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "unit_diagonal", attributes.unit_diagonal, 0, 1));
  UHAL_EXPECT(expect_attribute(op, "conjugate", attributes.conjugate, 0, 1));
  UHAL_EXPECT(check_square(op, a));
  UHAL_EXPECT(expect_same_dtype(op, &b, &a));
  UHAL_EXPECT(expect_same_dtype(op, &x, &a));
  UHAL_EXPECT(expect_rank(op, &b, 2, UHAL_MAX_RANK, "(..., n, k)"));
  UHAL_EXPECT(expect_rank(op, &x, 2, UHAL_MAX_RANK, "(..., n, k)"));
  const int64_t n = a.shape[a.rank - 1], k = b.shape[b.rank - 1];
  UHAL_EXPECT(expect_shape(op, &b, batches_and(b, {n, k}), "as many rows as a"));
  UHAL_EXPECT(expect_shape(op, &x, batches_and(x, {n, k}), "the matrices of b"));
  UHAL_EXPECT(expect_broadcast(op, &a, batches_and(x, {n, n})));
  UHAL_EXPECT(expect_broadcast(op, &b, Shape(x)));
  return check_info(op, op.output(1), a);
}

uhal_status check_cholesky(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  UHAL_EXPECT(expect_attribute(op, "upper", op.attributes_as<uhal_triangle_attributes>().upper, 0, 1));
  UHAL_EXPECT(check_square(op, a));
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), &a));
  UHAL_EXPECT(expect_same_shape(op, op.output(0), &a));
  return check_info(op, op.output(1), a);
}

uhal_status check_lu(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  UHAL_EXPECT(check_matrices(op, a));
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1];
  UHAL_EXPECT(expect_same_dtype(op, op.output(0), &a));
  UHAL_EXPECT(expect_same_shape(op, op.output(0), &a));
  UHAL_EXPECT(check_numbers(op, op.output(1), batches_and(a, {std::min(m, n)}), "a pivot for each step"));
  UHAL_EXPECT(check_numbers(op, op.output(2), batches_and(a, {m}), "the place of each row"));
  return check_info(op, op.output(3), a);
}

uhal_status check_qr(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  const uhal_tensor& r = *op.output(0);
  const uhal_tensor* q = op.output(1);
  UHAL_EXPECT(check_matrices(op, a));
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1];
  UHAL_EXPECT(expect_same_dtype(op, &r, &a));
  UHAL_EXPECT(expect_same_dtype(op, q, &a));
  UHAL_EXPECT(expect_rank(op, &r, a.rank, a.rank, "the rank of a"));
  const int64_t k = r.shape[r.rank - 2] == m ? m : std::min(m, n);
  UHAL_EXPECT(expect_shape(op, &r, batches_and(a, {k, n}), "as many rows as the smaller side of a, or as a"));
  return expect_shape(op, q, batches_and(a, {m, k}), "a's rows, and a column for each row of r");
}

uhal_status check_eigen_symmetric(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  UHAL_EXPECT(expect_attribute(op, "upper", op.attributes_as<uhal_triangle_attributes>().upper, 0, 1));
  UHAL_EXPECT(check_square(op, a));
  UHAL_EXPECT(check_dtype(op, op.output(0), real_of(a.dtype), "real numbers of a's precision"));
  UHAL_EXPECT(expect_shape(op, op.output(0), batches_and(a, {a.shape[a.rank - 1]}), "a value for each row of a"));
  UHAL_EXPECT(expect_same_dtype(op, op.output(1), &a));
  UHAL_EXPECT(expect_same_shape(op, op.output(1), &a));
  return check_info(op, op.output(2), a);
}

uhal_status check_svd(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  const uhal_tensor* u = op.output(1);
  const uhal_tensor* vh = op.output(2);
  UHAL_EXPECT(check_matrices(op, a));
  const int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1], k = std::min(m, n);
  UHAL_EXPECT(check_dtype(op, op.output(0), real_of(a.dtype), "real numbers of a's precision"));
  UHAL_EXPECT(expect_shape(op, op.output(0), batches_and(a, {k}), "as many values as the smaller side of a"));
  UHAL_EXPECT(check_info(op, op.output(3), a));
  if (u != nullptr) UHAL_EXPECT(expect_present(op, vh, "vh", "where u is given"));
  if (vh != nullptr) UHAL_EXPECT(expect_present(op, u, "u", "where vh is given"));
  if (u == nullptr) return UHAL_OK;
  UHAL_EXPECT(expect_same_dtype(op, u, &a));
  UHAL_EXPECT(expect_same_dtype(op, vh, &a));
  UHAL_EXPECT(expect_rank(op, u, a.rank, a.rank, "the rank of a"));
  UHAL_EXPECT(expect_rank(op, vh, a.rank, a.rank, "the rank of a"));
  const bool whole = u->shape[u->rank - 1] == m && vh->shape[vh->rank - 2] == n;
  UHAL_EXPECT(expect_shape(op, u, batches_and(a, {m, whole ? m : k}), "the smaller side of a columns, or m"));
  return expect_shape(op, vh, batches_and(a, {whole ? n : k, n}), "the smaller side of a rows, or n; as u has");
}

uhal_status check_eigen(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  UHAL_EXPECT(check_square(op, a));
  const uhal_dtype dtype = complex_of(a.dtype);
  UHAL_EXPECT(check_dtype(op, op.output(0), dtype, "complex numbers of a's precision"));
  UHAL_EXPECT(expect_shape(op, op.output(0), batches_and(a, {a.shape[a.rank - 1]}), "a value for each row of a"));
  UHAL_EXPECT(check_dtype(op, op.output(1), dtype, "complex numbers of a's precision"));
  UHAL_EXPECT(expect_same_shape(op, op.output(1), &a));
  return check_info(op, op.output(2), a);
}

}  // namespace unihal::core
