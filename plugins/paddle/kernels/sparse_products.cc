// Products of sparse matrices with dense ones and vectors, and their gradients.
#include <optional>
#include <string>

#include "plugins/paddle/kernels/sparse_rows.h"

namespace unihal::paddle {
namespace {

// The row and the column of each element.
class Places {
 public:
  Places(const Context& context, const CooTensor& x) {
    require_matrix(context, x.dims());
    const View indices = x.indices().view();
    rows_ = indices.sliced(0, 0, 1);
    columns_ = indices.sliced(0, 1, 1);
    for (View* part : {&rows_, &columns_}) *part = View(part->data, part->dtype, indices.shape + 1, 1);
  }
  Places(const Context& context, const CsrTensor& x) {
    require_matrix(context, x.dims());
    columns_ = x.cols().view();
    expanded_.emplace(context, columns_.dtype, columns_);
    expand(context, x.crows().view(), *expanded_);
    rows_ = *expanded_;
  }
  const View& rows() const { return rows_; }
  const View& columns() const { return columns_; }

 private:
  std::optional<Scratch> expanded_;
  View rows_, columns_;
};

// y = the sums, over the elements whose place is `to`, of value times the row `from` of x.
void combine(const Context& context, const View& x, const View& to, const View& from, const View& values,
             const View& y) {
  if (values.elements() == 0 || y.elements() == 0) return fill_zero(context, y);
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  context.run(UHAL_OP_SEGMENT_REDUCE, {&x, &to, &from, &values}, {&y}, &sum);
}

// y = the product of x's rows `at` with z's rows `by`, one by one.
void multiply_rows(const Context& context, const View& x, const View& at, const View& z, const View& by,
                   const View& y) {
  if (y.elements() == 0) return;
  const int64_t shape[] = {y.elements(), x.shape[1]};
  const Scratch left(context, y.dtype, shape, 2), right(context, y.dtype, shape, 2);
  take(context, x, at, left);
  take(context, z, by, right);
  context.map(uhal_map_multiply, {&left, &right}, {&left});
  const View column = y.reshaped({y.elements(), 1});
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&left}, {&column}, &sum);
}

template <class X>
void multiply_dense(const Context& context, const X& x, const View& y, const View& z) {
  const Places places(context, x);
  combine(context, y, places.rows(), places.columns(), x.values().view(), z);
}

void require_factors(const Context& context, const View& values, const Dims& dims, const View& y) {
  require_same_dtype(context, values, y);
  if (y.rank != 2 || y.shape[0] != dims[1]) {
    invalid(context, "y has other rows than x has columns, " + std::to_string(dims[1]));
  }
}

// Of z = x y: dx at x's places, dy = x^T dz.
template <class X, class DX>
void gradients(const Context& context, const X& x, const View& y, const View& dz, DX dx, const View* dy) {
  const Places places(context, x);
  const View values = x.values().view();
  if (dx) {
    multiply_rows(context, dz, places.rows(), y, places.columns(), values_like(context, x, dx, values.dtype));
    share_places(x, dx);
  }
  if (dy != nullptr) combine(context, dz, places.columns(), places.rows(), values, *dy);
}

void matmul_csr_dense(Context context, CsrInput x, Input y, Output z) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View values = x.values().view(), b = y.view();
  require_factors(context, values, dims, b);
  multiply_dense(context, x, b, allocate(context, z, values.dtype, {dims[0], b.shape[1]}));
}
void matmul_csr_dense_grad(Context context, CsrInput x, Input y, Input dz, CsrOutput dx, Output dy) {
  const View b = y.view();
  const View target = dy ? allocate(context, dy, b.dtype, dims_of(b)) : View();
  gradients(context, x, b, dz.view(), dx, dy ? &target : nullptr);
}

// -- products with a vector

View column_of(const View& vector) { return vector.reshaped({vector.elements(), 1}); }

template <class X>
void multiply_vector(Context context, X x, Input y, Output z) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View values = x.values().view(), vector = y.view();
  if (vector.rank != 1) invalid(context, "the second operand has " + std::to_string(vector.rank) + " axes, expected 1");
  require_factors(context, values, dims, column_of(vector));
  multiply_dense(context, x, column_of(vector), column_of(allocate(context, z, values.dtype, {dims[0]})));
}
template <class X, class DX>
void multiply_vector_grad(Context context, X x, Input y, Input dz, DX dx, Output dy) {
  const View vector = y.view();
  const View target = dy ? column_of(allocate(context, dy, vector.dtype, dims_of(vector))) : View();
  gradients(context, x, column_of(vector), column_of(dz.view()), dx, dy ? &target : nullptr);
}

// -- beta input + alpha x y

template <class X>
void addmm(Context context, Input input, X x, Input y, float beta, float alpha, Output z) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View values = x.values().view(), b = y.view(), given = input.view();
  require_factors(context, values, dims, b);
  const View out = allocate(context, z, values.dtype, {dims[0], b.shape[1]});
  if (given.rank != 2 || given.shape[0] != dims[0] || given.shape[1] != b.shape[1]) {
    invalid(context, "the input has another shape than the product");
  }
  if (out.elements() == 0) return;
  multiply_dense(context, x, b, out);
  const Scratch scaled(context, out.dtype, out);
  context.map(uhal_map_scale, {&given}, {&scaled}, {beta, 0});
  context.map(uhal_map_scale, {&out}, {&out}, {alpha, 0});
  context.map(uhal_map_add, {&out, &scaled}, {&out});
}
template <class X, class DX>
void addmm_grad(Context context, Input input, X x, Input y, Input dz, float alpha, float beta, Output dinput, DX dx,
                Output dy) {
  const View gradient = dz.view(), b = y.view();
  if (dinput) {
    const View out = allocate(context, dinput, input.uhal(), dims_of(gradient));
    if (out.elements() > 0) context.map(uhal_map_scale, {&gradient}, {&out}, {beta, 0});
  }
  const Scratch scaled(context, gradient.dtype, gradient);
  if (gradient.elements() > 0) context.map(uhal_map_scale, {&gradient}, {&scaled}, {alpha, 0});
  const View target = dy ? allocate(context, dy, b.dtype, dims_of(b)) : View();
  gradients(context, x, b, scaled, dx, dy ? &target : nullptr);
}

// -- products of dense matrices at the places of a sparse one

// values = (x y) at the mask's places, without the rest of the product.
void masked_matmul_csr(Context context, Input x, Input y, CsrInput mask, CsrOutput z) {
  require_matrix(context, mask.dims());
  const View a = x.view(), b = y.view(), cols = mask.cols().view();
  require_same_dtype(context, a, b);
  const View out = values_like(context, mask, z, a.dtype);
  if (out.elements() > 0) {
    const int64_t shape[] = {out.elements(), a.shape[1]}, turned_shape[] = {b.shape[1], b.shape[0]};
    const Scratch rows(context, cols.dtype, cols), left(context, a.dtype, shape, 2), right(context, a.dtype, shape, 2);
    const Scratch turned(context, b.dtype, turned_shape, 2);
    expand(context, mask.crows().view(), rows);
    copy_or_cast(context, b.transposed(0, 1), turned);
    take(context, a, rows, left);
    take(context, turned, cols, right);
    context.map(uhal_map_multiply, {&left, &right}, {&left});
    const View column = out.reshaped({out.elements(), 1});
    const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&left}, {&column}, &sum);
  }
  share_places(mask, z);
}

void masked_matmul_csr_grad(Context context, Input x, Input y, CsrInput dz, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.values().view(), cols = dz.cols().view();
  const Scratch rows(context, cols.dtype, cols);
  expand(context, dz.crows().view(), rows);
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  if (dx) {
    const View out = allocate(context, dx, a.dtype, dims_of(a));
    const int64_t turned_shape[] = {b.shape[1], b.shape[0]};
    const Scratch turned(context, b.dtype, turned_shape, 2);
    copy(context, b.transposed(0, 1), turned);
    fill_zero(context, out);
    if (gradient.elements() > 0) context.run(UHAL_OP_SEGMENT_REDUCE, {&turned, &rows, &cols, &gradient}, {&out}, &sum);
  }
  if (dy) {
    const View out = allocate(context, dy, b.dtype, dims_of(b));
    const int64_t turned_shape[] = {b.shape[1], b.shape[0]};
    const Scratch turned(context, b.dtype, turned_shape, 2);
    fill_zero(context, out);
    if (gradient.elements() == 0) return;
    context.run(UHAL_OP_SEGMENT_REDUCE, {&a, &cols, &rows, &gradient}, {&turned}, &sum);
    copy_or_cast(context, turned.transposed(0, 1), out);
  }
}

}  // namespace

KernelTable sparse_product_kernels() {
  return {
      UNIHAL_KERNEL("addmm_coo_dense", kWideFloats, addmm<CooInput>),
      UNIHAL_KERNEL("addmm_coo_dense_grad", kWideFloats, addmm_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("addmm_csr_dense", kWideFloats, addmm<CsrInput>),
      UNIHAL_KERNEL("addmm_csr_dense_grad", kWideFloats, addmm_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("masked_matmul_csr", kWideFloats, masked_matmul_csr),
      UNIHAL_KERNEL("masked_matmul_csr_grad", kWideFloats, masked_matmul_csr_grad),
      UNIHAL_KERNEL("matmul_csr_dense", kWideFloats, matmul_csr_dense),
      UNIHAL_KERNEL("matmul_csr_dense_grad", kWideFloats, matmul_csr_dense_grad),
      UNIHAL_KERNEL("mv_coo", kWideFloats, multiply_vector<CooInput>),
      UNIHAL_KERNEL("mv_coo_grad", kWideFloats, multiply_vector_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("mv_csr", kWideFloats, multiply_vector<CsrInput>),
      UNIHAL_KERNEL("mv_csr_grad", kWideFloats, multiply_vector_grad<CsrInput, CsrOutput>),
  };
}

}  // namespace unihal::paddle
