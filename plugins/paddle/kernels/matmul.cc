// Matrix products. Transposed operands are strides; the gradients are products themselves.
#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

View transposed_if(const View& view, bool transpose) { return transpose && view.rank > 1 ? view.transposed() : view; }

// A vector on the left is a row, on the right a column.
View as_left(const View& a) { return a.rank == 1 ? a.unsqueezed(0) : a; }
View as_right(const View& b) { return b.rank == 1 ? b.unsqueezed(1) : b; }

// The product's shape as the op has it: (batch..., rows, columns), also where Paddle drops an axis of length 1.
View product_view(const View& out, const View& a, const View& b) {
  const View left = as_left(a), right = as_right(b);
  int64_t dims[UHAL_MAX_RANK];
  const int batch = (left.rank > right.rank ? left.rank : right.rank) - 2;
  for (int i = 0; i < batch; ++i) {
    const int in_left = i - batch + left.rank - 2, in_right = i - batch + right.rank - 2;
    const int64_t l = in_left < 0 ? 1 : left.shape[in_left], r = in_right < 0 ? 1 : right.shape[in_right];
    dims[i] = l == 1 ? r : l;
  }
  dims[batch] = left.shape[left.rank - 2];
  dims[batch + 1] = right.shape[right.rank - 1];
  return out.reshaped(dims, batch + 2);
}

void multiply_matrices(const Context& context, const View& a, const View& b, const View& out) {
  if (out.elements() == 0) return;
  if (a.elements() == 0) return fill_zero(context, out);
  const auto attributes = matmul_attributes(product_math_mode());
  context.run(UHAL_OP_MATMUL, {&a, &b}, {&out}, &attributes);
}

void matmul(Context context, Input x, Input y, bool transpose_x, bool transpose_y, Output out) {
  const View a = transposed_if(x.view(), transpose_x), b = transposed_if(y.view(), transpose_y);
  require_same_dtype(context, a, b);
  if (a.elements() == 0 || b.elements() == 0) return fill_zero(context, context.allocate(out, a.dtype));
  // Of batches of different rank that both broadcast Paddle infers another shape, which its CPU kernel corrects.
  const bool is_inferred = a.rank == b.rank || std::min(a.rank, b.rank) <= 2;
  const View shape = product_view(View(nullptr, a.dtype, a.shape, 0), a, b);
  const View result =
      is_inferred ? context.allocate(out, a.dtype) : context.allocate(out, a.dtype, shape.shape, shape.rank);
  multiply_matrices(context, as_left(a), as_right(b), result.reshaped(shape.shape, shape.rank));
}

void bmm(Context context, Input x, Input y, Output out) { matmul(context, x, y, false, false, out); }

void mv(Context context, Input x, Input y, Output out) { matmul(context, x, y, false, false, out); }

// Joins the batch axes of a view to one of its matrix axes, where they lie one behind the other in memory.
bool join_batch(const View& view, int axis, View* matrix) {
  *matrix = view;
  for (int i = 0; i < 2; ++i) {
    matrix->shape[i] = view.shape[view.rank - 2 + i];
    matrix->strides[i] = view.strides[view.rank - 2 + i];
  }
  matrix->rank = 2;
  for (int i = view.rank - 3; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != matrix->shape[axis] * matrix->strides[axis]) return false;
    matrix->shape[axis] *= view.shape[i];
  }
  return true;
}

bool same_batch(const View& a, const View& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank - 2, b.shape);
}

// target (batch axes possibly broadcast) = sum over the broadcast batch axes of a @ b
void product_to_shape(const Context& context, const View& a, const View& b, const View& target) {
  const View shape = product_view(View(nullptr, target.dtype, target.shape, 0), a, b);
  if (shape.elements() == 0) return fill_zero(context, target);
  if (shape.elements() == target.elements())
    return multiply_matrices(context, a, b, target.reshaped(shape.shape, shape.rank));
  // Summed over all batches (a layer's weight): one product over longer rows and columns.
  View left, right;
  if (target.rank == 2 && same_batch(a, b) && join_batch(a, 1, &left) && join_batch(b, 0, &right))
    return multiply_matrices(context, left, right, target);
  const Scratch full(context, target.dtype, shape);
  multiply_matrices(context, a, b, full);
  sum_to_shape(context, full, target);
}

// The conjugate of complex numbers; of others a view.
class Conjugate : public View {
 public:
  Conjugate(const Context& context, const View& x) : View(x) {
    if (!is_complex(dtype) || elements() == 0) return;
    memory_.emplace(context, dtype, x);
    context.map(uhal_map_conjugate, {&x}, {&*memory_});
    static_cast<View&>(*this) = *memory_;
  }

 private:
  std::optional<Scratch> memory_;
};

// Of z = x y, each transposed or not.
void product_gradient(const Context& context, const View& x, const View& y, const View& dense, bool transpose_x,
                      bool transpose_y, Output dx, Output dy) {
  const Conjugate first(context, x), second(context, y);
  const View a = as_left(transposed_if(first, transpose_x)), b = as_right(transposed_if(second, transpose_y));
  const View gradient = product_view(dense, a, b);
  // The gradient of the operand as multiplied; a transposed one is the other product, in the operand's own layout.
  if (dx) {
    const View out = context.allocate(dx, a.dtype);
    const View target = out.rank == 1 ? out.reshaped({1, out.shape[0]}) : out;
    if (transpose_x && out.rank > 1) {
      product_to_shape(context, b, gradient.transposed(), target);
    } else {
      product_to_shape(context, gradient, b.transposed(), target);
    }
  }
  if (dy) {
    const View out = context.allocate(dy, b.dtype);
    const View target = out.rank == 1 ? out.reshaped({out.shape[0], 1}) : out;
    if (transpose_y && out.rank > 1) {
      product_to_shape(context, gradient.transposed(), a, target);
    } else {
      product_to_shape(context, a.transposed(), gradient, target);
    }
  }
}

void matmul_grad(Context context, Input x, Input y, Input dz, bool transpose_x, bool transpose_y, Output dx,
                 Output dy) {
  product_gradient(context, x.view(), y.view(), dz.view(), transpose_x, transpose_y, dx, dy);
}

// ddz = ddx y + x ddy; dx is what a product with ddy has, dy with ddx.
void matmul_double_grad(Context context, Input x, Input y, Input dz, OptionalInput ddx, OptionalInput ddy,
                        bool transpose_x, bool transpose_y, Output dx, Output dy, Output ddz) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  const Scratch sum(context, a.dtype, gradient), part(context, a.dtype, gradient);
  if (ddz) {
    const auto add = [&](const View& first, const View& second, const View& out) {
      const View left = as_left(transposed_if(first, transpose_x)),
                 right = as_right(transposed_if(second, transpose_y));
      multiply_matrices(context, left, right, product_view(out, left, right));
    };
    fill_zero(context, sum);
    if (ddx) add(ddx.view(), b, sum);
    if (ddy) {
      add(a, ddy.view(), part);
      if (sum.elements() > 0) context.map(uhal_map_add, {&sum, &part}, {&sum});
    }
  }
  if (dx && ddy) product_gradient(context, a, ddy.view(), gradient, transpose_x, transpose_y, dx, Output());
  if (dx && !ddy) fill_zero(context, context.allocate(dx, a.dtype));
  if (dy && ddx) product_gradient(context, ddx.view(), b, gradient, transpose_x, transpose_y, Output(), dy);
  if (dy && !ddx) fill_zero(context, context.allocate(dy, b.dtype));
  if (ddz) copy_or_cast(context, sum, context.allocate(ddz, a.dtype));
}

// The tensor as a matrix whose rows are its first `rows` axes.
View as_matrix(const View& x, int rows) {
  int64_t height = 1, width = 1;
  for (int i = 0; i < x.rank; ++i) (i < rows ? height : width) *= x.shape[i];
  return x.reshaped({height, width});
}

// What programs of the old intermediate representation call mul; fully connected layers are made of it.
void matmul_with_flatten(Context context, Input x, Input y, int x_rows, int y_rows, Output out) {
  const View a = as_matrix(x.view(), x_rows), b = as_matrix(y.view(), y_rows);
  const View result = context.allocate(out, a.dtype);
  multiply_matrices(context, a, b, as_matrix(result, x_rows));
}

void matmul_with_flatten_grad(Context context, Input x, Input y, Input dz, int x_rows, int y_rows, Output dx,
                              Output dy) {
  const View a = as_matrix(x.view(), x_rows), b = as_matrix(y.view(), y_rows);
  const View gradient = as_matrix(dz.view(), x_rows);
  if (dx) multiply_matrices(context, gradient, b.transposed(), as_matrix(context.allocate(dx, a.dtype), x_rows));
  if (dy) multiply_matrices(context, a.transposed(), gradient, as_matrix(context.allocate(dy, b.dtype), y_rows));
}

void bmm_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  matmul_grad(context, x, y, dz, false, false, dx, dy);
}

void mv_grad(Context context, Input x, Input y, Input dz, Output dx, Output dy) {
  matmul_grad(context, x, y, dz, false, false, dx, dy);
}

// out = beta * input + alpha * x @ y, of matrices or batches of them
void addmm(Context context, Input input, Input x, Input y, float beta, float alpha, Output out) {
  const View c = input.view(), a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  require_same_dtype(context, a, c);
  const View result = context.allocate(out, a.dtype);
  auto attributes = matmul_attributes(product_math_mode());
  attributes.alpha = static_cast<double>(alpha);
  attributes.beta = static_cast<double>(beta);
  context.run(UHAL_OP_MATMUL, {&a, &b, &c}, {&result}, &attributes);
}

// d(beta * input + alpha * x @ y)
void addmm_grad(Context context, Input input, Input x, Input y, Input dz, float alpha, float beta, Output dinput,
                Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dz.view();
  static_cast<void>(input);
  auto attributes = matmul_attributes(product_math_mode());
  attributes.alpha = static_cast<double>(alpha);
  auto multiply = [&](const View& first, const View& second, const View& out) {
    if (out.elements() == 0) return;
    if (first.elements() == 0) return fill_zero(context, out);
    context.run(UHAL_OP_MATMUL, {&first, &second}, {&out}, &attributes);
  };
  if (dinput) {
    const View out = context.allocate(dinput, a.dtype);
    const Scratch sum(context, accumulator(a.dtype), out);
    sum_to_shape(context, gradient, sum);
    if (out.elements() > 0) context.map(uhal_map_scale, {&sum}, {&out}, {static_cast<double>(beta), 0});
  }
  if (dx) multiply(gradient, b.transposed(), context.allocate(dx, a.dtype));
  if (dy) multiply(a.transposed(), gradient, context.allocate(dy, b.dtype));
}

// -- the product of several matrices, the first and the last of which may be vectors

using ChainFactors = std::vector<View>;

ChainFactors factors_of(const InputList& list) {
  ChainFactors factors;
  for (size_t i = 0; i < list.size(); ++i) factors.push_back(list[i].view());
  factors.front() = as_left(factors.front());
  factors.back() = as_right(factors.back());
  return factors;
}

// The last product of the cheapest order of each chain from i to j, by its number of multiplications.
std::vector<std::vector<size_t>> cheapest_splits(const ChainFactors& factors) {
  const size_t n = factors.size();
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      const size_t j = i + length;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double product = static_cast<double>(factors[i].shape[0]) * static_cast<double>(factors[k].shape[1]) *
                               static_cast<double>(factors[j].shape[1]);
        const double total = cost[i][k] + cost[k + 1][j] + product;
        if (total < cost[i][j]) {
          cost[i][j] = total;
          split[i][j] = k;
        }
      }
    }
  }
  return split;
}

// The products of a chain, each kept for as long as this is.
class ProductChain {
 public:
  ProductChain(const Context& context, ChainFactors factors)
      : context_(context), factors_(std::move(factors)), splits_(cheapest_splits(factors_)) {}

  void write(const View& out) { multiply(0, factors_.size() - 1, out); }

 private:
  void multiply(size_t i, size_t j, const View& out) {
    const size_t k = splits_[i][j];
    multiply_matrices(context_, product(i, k), product(k + 1, j), out);
  }
  View product(size_t i, size_t j) {
    if (i == j) return factors_[i];
    const int64_t dims[] = {factors_[i].shape[0], factors_[j].shape[1]};
    const Scratch& out = made_.emplace_back(context_, factors_[i].dtype, dims, 2);
    multiply(i, j, out);
    return out;
  }
  const Context& context_;
  ChainFactors factors_;
  std::vector<std::vector<size_t>> splits_;
  std::deque<Scratch> made_;
};

void require_chain(const Context& context, const ChainFactors& factors) {
  if (factors.size() < 2) invalid(context, "expected two matrices or more");
  for (const View& factor : factors) {
    if (factor.rank != 2) invalid(context, "an operand has rank " + std::to_string(factor.rank) + ", expected 2");
    require_same_dtype(context, factors.front(), factor);
  }
}

void multi_dot(Context context, InputList x, Output y) {
  const ChainFactors factors = factors_of(x);
  require_chain(context, factors);
  const View out = context.allocate(y, factors.front().dtype);
  ProductChain(context, factors).write(out.reshaped({factors.front().shape[0], factors.back().shape[1]}));
}

// Of a factor: what stands before it, transposed, times the gradient, times what stands behind it, transposed.
void multi_dot_grad(Context context, InputList x, Input dy, OutputList dx) {
  const ChainFactors factors = factors_of(x);
  require_chain(context, factors);
  const View gradient = dy.view().reshaped({factors.front().shape[0], factors.back().shape[1]});
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!dx[i]) continue;
    const View out = context.allocate(dx[i], factors[i].dtype).reshaped(factors[i].shape, 2);
    ChainFactors chain;
    for (size_t k = i; k-- > 0;) chain.push_back(factors[k].transposed());
    chain.push_back(gradient);
    for (size_t k = factors.size(); k-- > i + 1;) chain.push_back(factors[k].transposed());
    ProductChain(context, chain).write(out);
  }
}

}  // namespace

KernelTable matmul_kernels() {
  return {
      UNIHAL_KERNEL("matmul", kFloats | kComplex | kInt32And64, matmul),
      UNIHAL_KERNEL("matmul_grad", kFloats | kComplex, matmul_grad),
      UNIHAL_KERNEL("bmm", kFloats, bmm),
      UNIHAL_KERNEL("bmm_grad", kFloats, bmm_grad),
      UNIHAL_KERNEL("mv", kFloats, mv),
      UNIHAL_KERNEL("mv_grad", kFloats, mv_grad),
      UNIHAL_KERNEL("matmul_double_grad", kFloats | kComplex, matmul_double_grad),
      UNIHAL_KERNEL("addmm", kFloats, addmm),
      UNIHAL_KERNEL("addmm_grad", kFloats, addmm_grad),
      UNIHAL_KERNEL("baddbmm", kFloats, addmm),
      UNIHAL_KERNEL("baddbmm_grad", kFloats, addmm_grad),
      UNIHAL_KERNEL("multi_dot", kFloats, multi_dot),
      UNIHAL_KERNEL("multi_dot_grad", kFloats, multi_dot_grad),
      UNIHAL_KERNEL("matmul_with_flatten", kFloats, matmul_with_flatten),
      UNIHAL_KERNEL("matmul_with_flatten_grad", kFloats, matmul_with_flatten_grad),
  };
}

}  // namespace unihal::paddle
