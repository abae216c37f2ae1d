// Sparse tensors: made of coordinates and values or of a dense tensor, turned into one another and into dense ones,
// functions of their values, and products of compressed rows with dense matrices.
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/paddle/kernels/sparse_parts.h"

namespace unihal::paddle {
namespace {

// The dense kernel whose name is this one's without "_coo" and "_csr".
const Entry& dense_kernel(const Context& context, const char* signature) {
  static const auto& rows = *[] {
    auto* made = new std::unordered_map<std::string, const KernelRow*>();
    for (const KernelRow& row : all_kernels()) {
      if (skip_reason(row).empty()) made->emplace(row.name, &row);
    }
    return made;
  }();
  std::string name = context.kernel();
  for (const char* layout : {"_coo", "_csr"}) {
    const size_t at = name.find(layout);
    if (at != std::string::npos) name.erase(at, 4);
  }
  const auto found = rows.find(name);
  if (found == rows.end() || signature_of(found->second->entry) != signature) {
    unsupported(context, "a kernel '" + name + "' of this Paddle's signature");
  }
  return found->second->entry;
}

// y's values = the dense function of x's.
template <class X, class Y>
void map_values(Context context, X x, Y y) {
  const Entry& dense = dense_kernel(context, "tensor;;tensor");
  values_like(context, x, y, x.values().uhal());
  reinterpret_cast<void (*)(const void*, void*, void*)>(dense.variadic)(context.handle(), x.values().handle,
                                                                        y.values().handle);
  share_places(x, y);
}

// dx's values = the dense gradient at the forward's operand or result, whichever the dense kernel takes.
template <class X, class Y>
void unary_grad(Context context, X x, X dy, Y dx) {
  const Entry& dense = dense_kernel(context, "tensor,tensor;;tensor");
  values_like(context, x, dx, x.values().uhal());
  reinterpret_cast<void (*)(const void*, void*, void*, void*)>(dense.variadic)(context.handle(), x.values().handle,
                                                                               dy.values().handle, dx.values().handle);
  share_places(x, dx);
}

template <int function, class X, class Y>
void map_with(const Context& context, const X& x, const Y& y, std::initializer_list<double> parameters) {
  const View in = x.values().view(), out = values_like(context, x, y, in.dtype);
  if (out.elements() > 0) context.map(function, {&in}, {&out}, parameters);
  share_places(x, y);
}
template <int function, class X, class Y>
void values_gradient_with(const Context& context, const X& x, const X& dy, const Y& dx,
                          std::initializer_list<double> parameters) {
  const View in = x.values().view(), gradient = dy.values().view(), out = values_like(context, x, dx, in.dtype);
  if (out.elements() > 0) context.map(function, {&in, &gradient}, {&out}, parameters);
  share_places(x, dx);
}

template <class X, class Y>
void sparse_leaky_relu(Context context, X x, float slope, Y y) {
  map_with<uhal_map_leaky_relu>(context, x, y, {slope});
}
template <class X, class Y>
void sparse_leaky_relu_grad(Context context, X x, X dy, float slope, Y dx) {
  values_gradient_with<uhal_map_leaky_relu_backward>(context, x, dy, dx, {slope, 1});
}
template <class X, class Y>
void sparse_power(Context context, X x, float exponent, Y y) {
  map_with<uhal_map_power_scalar>(context, x, y, {exponent});
}
template <class X, class Y>
void sparse_power_grad(Context context, X x, X dy, float exponent, Y dx) {
  values_gradient_with<uhal_map_power_scalar_backward>(context, x, dy, dx, {exponent});
}
template <class X, class Y>
void sparse_scale(Context context, X x, float factor, float bias, bool bias_last, Y y) {
  if (bias_last) return map_with<uhal_map_scale>(context, x, y, {factor, bias});
  map_with<uhal_map_add_then_scale>(context, x, y, {factor, bias});
}
template <class X, class Y>
void divide_scalar(Context context, X x, float divisor, Y y) {
  map_with<uhal_map_scale>(context, x, y, {1.0 / static_cast<double>(divisor), 0});
}

// Dtypes that are not given stay.
uhal_dtype given_or(Dtype dtype, uhal_dtype other) { return dtype > kUndefined ? to_uhal(dtype) : other; }

void cast_coo(Context context, CooInput x, Dtype of_indices, Dtype of_values, CooOutput y) {
  const View places = x.indices().view(), in = x.values().view();
  copy(context, places, allocate(context, y.indices(), given_or(of_indices, places.dtype), dims_of(places)));
  copy(context, in, values_like(context, x, y, given_or(of_values, in.dtype)));
  y.set(y.indices(), y.values(), x.dims(), x.is_coalesced());
}
void cast_coo_grad(Context context, CooInput x, CooInput dy, Dtype, CooOutput dx) {
  copy(context, dy.values().view(), values_like(context, x, dx, x.values().uhal()));
  share_places(x, dx);
}
void cast_csr(Context context, CsrInput x, Dtype of_indices, Dtype of_values, CsrOutput y) {
  const View crows = x.crows().view(), cols = x.cols().view(), in = x.values().view();
  copy(context, crows, allocate(context, y.crows(), given_or(of_indices, crows.dtype), dims_of(crows)));
  copy(context, cols, allocate(context, y.cols(), given_or(of_indices, cols.dtype), dims_of(cols)));
  copy(context, in, values_like(context, x, y, given_or(of_values, in.dtype)));
  y.set(y.crows(), y.cols(), y.values(), x.dims());
}
void cast_csr_grad(Context context, CsrInput x, CsrInput dy, Dtype, CsrOutput dx) {
  copy(context, dy.values().view(), values_like(context, x, dx, x.values().uhal()));
  share_places(x, dx);
}

// -- parts

void sparse_coo_tensor(Context, Input values, Input indices, Span<int64_t> shape, CooOutput y) {
  y.set(indices, values, {shape.begin(), shape.end()}, false);
}

template <class X>
void values_of(Context context, X x, Output y) {
  const View in = x.values().view();
  copy(context, in, allocate(context, y, in.dtype, dims_of(in)));
}
void indices_of(Context context, CooInput x, Output y) {
  const View in = x.indices().view();
  copy(context, in, allocate(context, y, in.dtype, dims_of(in)));
}
void values_coo_grad(Context context, CooInput x, Input dy, CooOutput dx) {
  copy(context, dy.view(), values_like(context, x, dx, dy.uhal()));
  share_places(x, dx);
}

// -- dense tensors

void coo_to_dense(Context context, CooInput x, Output y) {
  const View in = x.values().view();
  scatter_elements(context, rows_of(x.indices().view()), in, allocate(context, y, in.dtype, x.dims()));
}
void coo_to_dense_grad(Context context, CooInput x, Input dy, CooOutput dx) {
  const View gradient = dy.view();
  take_at(context, gradient, rows_of(x.indices().view()), values_like(context, x, dx, gradient.dtype));
  share_places(x, dx);
}

// The values' gradient: what the sparse gradient has at their places.
void sparse_coo_tensor_grad(Context context, Input indices, CooInput dy, Output dvalues) {
  const View gradient = dy.values().view(), places = indices.view(), others = dy.indices().view();
  Dims dims = dims_of(gradient);
  dims[0] = places.shape[1];
  const View out = allocate(context, dvalues, gradient.dtype, dims);
  if (places.data == others.data && places.shape[1] == others.shape[1]) return copy(context, gradient, out);
  const Dims all = dy.dims();
  const Scratch dense(context, gradient.dtype, all.data(), static_cast<int>(all.size()));
  scatter_elements(context, rows_of(others), gradient, dense);
  take_at(context, dense, rows_of(places), out);
}

// Where a dense tensor has elements, or slices of which one is, that are not 0.
class NonZero {
 public:
  NonZero(const Context& context, const View& x, int axes)
      : mask_(context, UHAL_BOOL, x.shape, axes), places_(context, mark(context, x, axes)) {}
  TruePlaces& places() { return places_; }

 private:
  const View& mark(const Context& context, const View& x, int axes) {
    const Scratch zero(context, x.dtype, nullptr, 0), differs(context, UHAL_BOOL, x);
    fill_zero(context, zero);
    if (x.elements() == 0) {
      fill_zero(context, mask_);
      return mask_;
    }
    context.map(uhal_map_not_equal, {&x, &zero}, {&differs});
    int64_t rest = 1;
    for (int i = axes; i < x.rank; ++i) rest *= x.shape[i];
    const int64_t rows = mask_.elements();
    const View slices = differs.reshaped({rows, rest}), target = mask_.reshaped({rows, 1});
    const auto any = reduce_attributes(UHAL_REDUCE_ANY);
    context.run(UHAL_OP_REDUCE, {&slices}, {&target}, &any);
    return mask_;
  }

  Scratch mask_;
  TruePlaces places_;
};

void dense_to_coo(Context context, Input x, int64_t axes, CooOutput y) {
  const View in = x.view();
  if (axes < 1 || axes > in.rank) {
    invalid(context, "sparse_dim is " + std::to_string(axes) + ", expected 1 to " + std::to_string(in.rank));
  }
  NonZero found(context, in, static_cast<int>(axes));
  const int64_t count = found.places().count();
  Dims dims(in.shape + axes, in.shape + in.rank);
  dims.insert(dims.begin(), count);
  const View values = allocate(context, y.values(), in.dtype, dims);
  const View indices = allocate(context, y.indices(), UHAL_INT64, {axes, count});
  if (count > 0) {
    copy_or_cast(context, found.places().view(context), rows_of(indices));
    take_at(context, in, found.places().view(context), values);
  }
  y.set(y.indices(), y.values(), dims_of(in), true);
}

// -- compressed rows

void coo_to_csr(Context context, CooInput x, CsrOutput y) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View places = x.indices().view(), in = x.values().view();
  const int64_t count = places.shape[1];
  const Scratch rows(context, places.dtype, &count, 1), order(context, UHAL_INT64, &count, 1);
  const int64_t pair[] = {count, 2};
  const Scratch pairs(context, places.dtype, pair, 2), sorted(context, places.dtype, pair, 2);
  copy(context, rows_of(places), pairs);
  if (count > 0) sort_rows(context, pairs, order);
  take(context, pairs, order, sorted);
  View first = sorted.sliced(1, 0, 1), second = sorted.sliced(1, 1, 1);
  first.rank = second.rank = 1;
  copy(context, first, rows);
  compress(context, rows, allocate(context, y.crows(), places.dtype, {dims[0] + 1}));
  copy(context, second, allocate(context, y.cols(), places.dtype, {count}));
  take(context, in, order, allocate(context, y.values(), in.dtype, {count}));
  y.set(y.crows(), y.cols(), y.values(), dims);
}

void dense_to_csr(Context context, Input x, CsrOutput y) {
  const View in = x.view();
  const Dims dims = dims_of(in);
  require_matrix(context, dims);
  NonZero found(context, in, 2);
  const int64_t count = found.places().count();
  const View values = allocate(context, y.values(), in.dtype, {count});
  const View cols = allocate(context, y.cols(), UHAL_INT64, {count});
  const View crows = allocate(context, y.crows(), UHAL_INT64, {dims[0] + 1});
  const Scratch rows(context, UHAL_INT64, &count, 1);
  if (count > 0) {
    const View& places = found.places().view(context);
    View first = places.sliced(1, 0, 1), second = places.sliced(1, 1, 1);
    first.rank = second.rank = 1;
    copy_or_cast(context, first, rows);
    copy_or_cast(context, second, cols);
    take_at(context, in, places, values);
  }
  compress(context, rows, crows);
  y.set(y.crows(), y.cols(), y.values(), dims);
}

void csr_to_coo(Context context, CsrInput x, CooOutput y) {
  require_matrix(context, x.dims());
  const View cols = x.cols().view(), in = x.values().view();
  write_places(context, x, rows_of(allocate(context, y.indices(), cols.dtype, {2, cols.elements()})));
  copy(context, in, allocate(context, y.values(), in.dtype, dims_of(in)));
  y.set(y.indices(), y.values(), x.dims(), true);
}

void csr_to_dense(Context context, CsrInput x, Output y) {
  require_matrix(context, x.dims());
  const View cols = x.cols().view(), in = x.values().view();
  const int64_t dims[] = {cols.elements(), 2};
  const Scratch places(context, cols.dtype, dims, 2);
  write_places(context, x, places);
  scatter_elements(context, places, in, allocate(context, y, in.dtype, x.dims()));
}

// -- sums

void coalesce(Context context, CooInput x, CooOutput y) {
  const View places = x.indices().view(), in = x.values().view();
  const int64_t dims[] = {places.shape[1], places.shape[0]};
  const Scratch rows(context, places.dtype, dims, 2);
  copy(context, rows_of(places), rows);
  coalesce_into(context, rows, in, x.dims(), y);
}

// z = x + factor * y: all elements of both, coalesced.
void add_scaled(const Context& context, const CooTensor& x, const CooTensor& y, double factor, const CooTensor& z) {
  if (x.dims() != y.dims()) invalid(context, "x and y have different shapes");
  const View first = x.indices().view(), second = y.indices().view();
  const View a = x.values().view(), b = y.values().view();
  require_same_dtype(context, a, b);
  const int64_t m = first.shape[1], n = second.shape[1];
  const int64_t dims[] = {m + n, first.shape[0]};
  const Scratch rows(context, first.dtype, dims, 2);
  Dims shape = dims_of(a);
  shape[0] = m + n;
  const Scratch values(context, a.dtype, shape.data(), static_cast<int>(shape.size()));
  copy(context, rows_of(first), rows.sliced(0, 0, m));
  copy(context, rows_of(second), rows.sliced(0, m, n));
  copy(context, a, values.sliced(0, 0, m));
  const View rest = values.sliced(0, m, n);
  if (n > 0) context.map(uhal_map_scale, {&b}, {&rest}, {factor, 0});
  coalesce_into(context, rows, values, x.dims(), z);
}
template <int sign>
void add_coo(Context context, CooInput x, CooInput y, CooOutput z) {
  add_scaled(context, x, y, sign, z);
}

template <int sign>
void add_coo_grad(Context context, CooInput x, CooInput y, CooInput dz, CooOutput dx, CooOutput dy) {
  if (dx) take_gradient(context, x, dz, 1, dx);
  if (dy) take_gradient(context, y, dz, sign, dy);
}

// -- products with dense matrices

// z = x y: a row of z is the sum of rows of y, each times a value.
void matmul_csr_dense(Context context, CsrInput x, Input y, Output z) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View in = x.values().view(), cols = x.cols().view(), b = y.view();
  require_same_dtype(context, in, b);
  if (b.rank != 2 || b.shape[0] != dims[1]) {
    invalid(context, "y has other rows than x has columns, " + std::to_string(dims[1]));
  }
  const View out = allocate(context, z, in.dtype, {dims[0], b.shape[1]});
  if (in.elements() == 0 || out.elements() == 0) return fill_zero(context, out);
  const Scratch rows(context, cols.dtype, cols);
  rows_from_crows(context, x.crows().view(), rows);
  const auto sum = summed();
  context.run(UHAL_OP_SEGMENT_REDUCE, {&b, &rows, &cols, &in}, {&out}, &sum);
}

void matmul_csr_dense_grad(Context context, CsrInput x, Input y, Input dz, CsrOutput dx, Output dy) {
  const Dims dims = x.dims();
  require_matrix(context, dims);
  const View in = x.values().view(), cols = x.cols().view(), b = y.view(), gradient = dz.view();
  const Scratch rows(context, cols.dtype, cols);
  rows_from_crows(context, x.crows().view(), rows);
  if (dx) {
    const View out = values_like(context, x, dx, in.dtype);
    if (out.elements() > 0) {
      const int64_t shape[] = {in.elements(), b.shape[1]};
      const Scratch left(context, in.dtype, shape, 2), right(context, in.dtype, shape, 2);
      take(context, gradient, rows, left);
      take(context, b, cols, right);
      context.map(uhal_map_multiply, {&left, &right}, {&left});
      const View column = out.reshaped({in.elements(), 1});
      const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
      context.run(UHAL_OP_REDUCE, {&left}, {&column}, &sum);
    }
    share_places(x, dx);
  }
  if (!dy) return;
  const View out = allocate(context, dy, b.dtype, dims_of(b));
  if (in.elements() == 0 || out.elements() == 0) return fill_zero(context, out);
  const auto sum = summed();
  context.run(UHAL_OP_SEGMENT_REDUCE, {&gradient, &cols, &rows, &in}, {&out}, &sum);
}

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
    rows_from_crows(context, mask.crows().view(), rows);
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
  rows_from_crows(context, dz.crows().view(), rows);
  const auto sum = summed();
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

#define UNIHAL_SPARSE_UNARY(name, dtypes)                                       \
  UNIHAL_KERNEL(name "_coo", dtypes, map_values<CooInput, CooOutput>),          \
      UNIHAL_KERNEL(name "_csr", dtypes, map_values<CsrInput, CsrOutput>),      \
      UNIHAL_KERNEL(name "_coo_grad", dtypes, unary_grad<CooInput, CooOutput>), \
      UNIHAL_KERNEL(name "_csr_grad", dtypes, unary_grad<CsrInput, CsrOutput>)

}  // namespace

KernelTable sparse_tensor_kernels() {
  return {
      UNIHAL_SPARSE_UNARY("abs", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("asin", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("asinh", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("atan", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("atanh", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("expm1", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("log1p", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("relu", kWideFloats),
      UNIHAL_SPARSE_UNARY("relu6", kWideFloats),
      UNIHAL_SPARSE_UNARY("sin", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("sinh", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("sqrt", kWideFloats),
      UNIHAL_SPARSE_UNARY("square", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("tan", kWideFloats | kComplex),
      UNIHAL_SPARSE_UNARY("tanh", kWideFloats | kComplex),

      UNIHAL_KERNEL("leaky_relu_coo", kWideFloats, sparse_leaky_relu<CooInput, CooOutput>),
      UNIHAL_KERNEL("leaky_relu_csr", kWideFloats, sparse_leaky_relu<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("leaky_relu_coo_grad", kWideFloats, sparse_leaky_relu_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("leaky_relu_csr_grad", kWideFloats, sparse_leaky_relu_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("pow_coo", kWideFloats, sparse_power<CooInput, CooOutput>),
      UNIHAL_KERNEL("pow_csr", kWideFloats, sparse_power<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("pow_coo_grad", kWideFloats, sparse_power_grad<CooInput, CooOutput>),
      UNIHAL_KERNEL("pow_csr_grad", kWideFloats, sparse_power_grad<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("scale_coo", kNumbers, sparse_scale<CooInput, CooOutput>),
      UNIHAL_KERNEL("scale_csr", kNumbers, sparse_scale<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("divide_scalar_coo", kWideFloats, divide_scalar<CooInput, CooOutput>),
      UNIHAL_KERNEL("divide_scalar_csr", kWideFloats, divide_scalar<CsrInput, CsrOutput>),
      UNIHAL_KERNEL("cast_coo", kReal, cast_coo),
      UNIHAL_KERNEL("cast_coo_grad", kReal, cast_coo_grad),
      UNIHAL_KERNEL("cast_csr", kReal, cast_csr),
      UNIHAL_KERNEL("cast_csr_grad", kReal, cast_csr_grad),

      UNIHAL_KERNEL("sparse_coo_tensor", kEvery, sparse_coo_tensor),
      UNIHAL_KERNEL("sparse_coo_tensor_grad", kFloats | kComplex, sparse_coo_tensor_grad),
      UNIHAL_KERNEL("values_coo", kEvery, values_of<CooInput>),
      UNIHAL_KERNEL("values_csr", kEvery, values_of<CsrInput>),
      UNIHAL_KERNEL("values_coo_grad", kFloats | kComplex, values_coo_grad),
      UNIHAL_KERNEL("indices_coo", kEvery, indices_of),

      UNIHAL_KERNEL("coo_to_dense", kEvery, coo_to_dense),
      UNIHAL_KERNEL("coo_to_dense_grad", kFloats | kComplex, coo_to_dense_grad),
      UNIHAL_KERNEL("dense_to_coo", kEvery, dense_to_coo),
      UNIHAL_KERNEL("dense_to_csr", kEvery, dense_to_csr),
      UNIHAL_KERNEL("coo_to_csr", kEvery, coo_to_csr),
      UNIHAL_KERNEL("csr_to_coo", kEvery, csr_to_coo),
      UNIHAL_KERNEL("csr_to_dense", kEvery, csr_to_dense),

      UNIHAL_KERNEL("coalesce_coo", kNumbers | kComplex, coalesce),
      UNIHAL_KERNEL("add_coo_coo", kNumbers | kComplex, add_coo<1>),
      UNIHAL_KERNEL("add_coo_coo_grad", kWideFloats | kComplex, add_coo_grad<1>),
      UNIHAL_KERNEL("subtract_coo_coo", kNumbers | kComplex, add_coo<-1>),
      UNIHAL_KERNEL("subtract_coo_coo_grad", kWideFloats | kComplex, add_coo_grad<-1>),
      UNIHAL_KERNEL("matmul_csr_dense", kWideFloats, matmul_csr_dense),
      UNIHAL_KERNEL("matmul_csr_dense_grad", kWideFloats, matmul_csr_dense_grad),
      UNIHAL_KERNEL("masked_matmul_csr", kWideFloats, masked_matmul_csr),
      UNIHAL_KERNEL("masked_matmul_csr_grad", kWideFloats, masked_matmul_csr_grad),
  };
}

#undef UNIHAL_SPARSE_UNARY

}  // namespace unihal::paddle
