// Products of sparse matrices with dense operands.
#include "plugins/paddle/kernels/sparse_places.h"

namespace unihal::paddle {
namespace {

// A sparse matrix times dense ones, and what of such products lies at its places.
template <class X>
class Matrix {
 public:
  Matrix(const Context& context, const X& x)
      : context_(context),
        values_(x.values().view()),
        places_(context, x),
        rows_(context, places_, 0),
        columns_(context, places_, 1) {
    if (x.dims().size() != 2) unsupported(context, "a sparse operand that is not a matrix");
  }
  // z = x b, or b with x turned
  void times(const View& b, bool turned, const View& z) const {
    const View &to = turned ? columns_ : rows_, &from = turned ? rows_ : columns_;
    fill_zero(context_, z);
    if (values_.elements() == 0 || z.elements() == 0) return;
    const auto sum = summed();
    context_.run(UHAL_OP_SEGMENT_REDUCE, {&b, &to, &from, &values_}, {&z}, &sum);
  }
  // values = (dz b^T) at x's places
  void products(const View& dz, const View& b, const View& values) const {
    if (values.elements() == 0) return;
    const int64_t shape[] = {values.elements(), b.shape[1]};
    const Scratch left(context_, values.dtype, shape, 2), right(context_, values.dtype, shape, 2);
    take(context_, dz, rows_, left);
    take(context_, b, columns_, right);
    context_.map(uhal_map_multiply, {&left, &right}, {&left});
    const View column = values.reshaped({values.elements(), 1});
    const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
    context_.run(UHAL_OP_REDUCE, {&left}, {&column}, &sum);
  }

 private:
  const Context& context_;
  const View values_;
  const Coordinates places_;
  const Column rows_, columns_;
};

// A vector as a matrix of one column.
View as_column(const View& view) { return view.rank == 1 ? view.unsqueezed(1) : view; }

// The gradients of x b, times a factor.
template <class X, class Y>
void product_gradients(const Context& context, const X& x, const View& b, const View& dz, double factor, const Y& dx,
                       const View* db) {
  const Matrix<X> matrix(context, x);
  if (dx) {
    const View out = values_like(context, x, dx, b.dtype);
    matrix.products(as_column(dz), as_column(b), out);
    if (factor != 1 && out.elements() > 0) context.map(uhal_map_scale, {&out}, {&out}, {factor, 0});
    share_places(x, dx);
  }
  if (db == nullptr) return;
  matrix.times(as_column(dz), true, as_column(*db));
  if (factor != 1 && db->elements() > 0) context.map(uhal_map_scale, {db}, {db}, {factor, 0});
}

void require_rows(const Context& context, const SparseTensor& x, const View& b) {
  if (x.dims().size() != 2 || b.rank < 1 || b.rank > 2 || b.shape[0] != x.dims()[1]) {
    invalid(context, "the sparse operand is no matrix, or the dense one has other rows than it has columns");
  }
}

template <class X>
void sparse_times_dense(Context context, X x, Input y, Output z) {
  const View b = y.view();
  require_rows(context, x, b);
  require_same_dtype(context, x.values().view(), b);
  Dims dims = {x.dims()[0]};
  if (b.rank == 2) dims.push_back(b.shape[1]);
  Matrix<X>(context, x).times(as_column(b), false, as_column(allocate(context, z, b.dtype, dims)));
}
template <class X, class Y>
void product_with_dense_grad(Context context, X x, Input y, Input dz, Y dx, Output dy) {
  const View b = y.view();
  const View out = dy ? context.allocate(dy, b.dtype) : View();
  product_gradients(context, x, b, dz.view(), 1, dx, dy ? &out : nullptr);
}

// z = beta * a + alpha * x y
template <class X>
void add_product(Context context, Input a, X x, Input y, float beta, float alpha, Output z) {
  const View added = a.view(), b = y.view();
  require_rows(context, x, b);
  require_same_dtype(context, added, b);
  const View out = allocate(context, z, b.dtype, {x.dims()[0], b.shape[1]});
  const Scratch scaled(context, b.dtype, added);
  if (dims_of(added) != dims_of(out)) invalid(context, "input has another shape than the product");
  Matrix<X>(context, x).times(b, false, out);
  if (out.elements() == 0) return;
  context.map(uhal_map_scale, {&added}, {&scaled}, {static_cast<double>(beta), 0});
  context.map(uhal_map_scale, {&out}, {&out}, {static_cast<double>(alpha), 0});
  context.map(uhal_map_add, {&out, &scaled}, {&out});
}
// Paddle hands the factors over in the other order here.
template <class X, class Y>
void add_product_grad(Context context, Input, X x, Input y, Input dz, float alpha, float beta, Output da, Y dx,
                      Output dy) {
  const View b = y.view(), gradient = dz.view();
  if (da) {
    const View out = context.allocate(da, gradient.dtype);
    if (out.elements() > 0) context.map(uhal_map_scale, {&gradient}, {&out}, {static_cast<double>(beta), 0});
  }
  const View out = dy ? context.allocate(dy, b.dtype) : View();
  product_gradients(context, x, b, gradient, static_cast<double>(alpha), dx, dy ? &out : nullptr);
}

}  // namespace

KernelTable sparse_product_kernels() {
  return {
      UNIHAL_KERNEL("matmul_coo_dense", kWideFloats, sparse_times_dense<CooInput>),
      UNIHAL_KERNEL("matmul_coo_dense_grad", kWideFloats, product_with_dense_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("mv_coo", kWideFloats, sparse_times_dense<CooInput>),
      UNIHAL_KERNEL("mv_csr", kWideFloats, sparse_times_dense<CsrInput>),
      UNIHAL_KERNEL("mv_coo_grad", kWideFloats, product_with_dense_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("mv_csr_grad", kWideFloats, product_with_dense_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("addmm_coo_dense", kWideFloats, add_product<CooInput>),
      UNIHAL_KERNEL("addmm_csr_dense", kWideFloats, add_product<CsrInput>),
      UNIHAL_KERNEL("addmm_coo_dense_grad", kWideFloats, add_product_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("addmm_csr_dense_grad", kWideFloats, add_product_grad<CsrInput, CsrOutput>),
  };
}

}  // namespace unihal::paddle
