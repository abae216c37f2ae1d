// Products of vectors and matrices that are none of matmul's, and rows chosen from several tensors.
#include <algorithm>
#include <vector>

#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

// -- cross products of vectors with three elements

int cross_axis(const Context& context, const View& x, int axis) {
  constexpr int kFirstOfThree = 9;  // Paddle's default
  if (axis == kFirstOfThree) {
    for (int i = 0; i < x.rank; ++i) {
      if (x.shape[i] == 3) return i;
    }
    invalid(context, "no axis of x has 3 elements");
  }
  const int wanted = from_front(axis, x.rank);
  if (wanted < 0 || wanted >= x.rank || x.shape[wanted] != 3) invalid(context, "the axis does not have 3 elements");
  return wanted;
}

void cross_of(const Context& context, const View& a, const View& b, int axis, const View& y) {
  const View first = y.sliced(axis, 0, 1);
  const Scratch left(context, y.dtype, first), right(context, y.dtype, first);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    const View a1 = a.sliced(axis, j, 1), a2 = a.sliced(axis, k, 1), b1 = b.sliced(axis, j, 1),
               b2 = b.sliced(axis, k, 1), target = y.sliced(axis, i, 1);
    context.map(uhal_map_multiply, {&a1, &b2}, {&left});
    context.map(uhal_map_multiply, {&a2, &b1}, {&right});
    context.map(uhal_map_subtract, {&left, &right}, {&target});
  }
}

void cross(Context context, Input x, Input y, int axis, Output out) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View target = context.allocate(out, a.dtype);
  const int along = cross_axis(context, a, axis);
  if (target.elements() > 0) cross_of(context, a, b, along, target);
}

// dx = y x dout, dy = dout x x, of complex numbers' conjugates.
void cross_grad(Context context, Input x, Input y, Input dout, int axis, Output dx, Output dy) {
  const View a = x.view(), b = y.view(), gradient = dout.view();
  const int along = cross_axis(context, a, axis);
  const auto one = [&](Output wanted, const View& other, bool first) {
    if (!wanted) return;
    const View target = context.allocate(wanted, other.dtype);
    if (target.elements() == 0) return;
    const Scratch factor(context, other.dtype, other), result(context, other.dtype, gradient);
    context.map(is_complex(other.dtype) ? uhal_map_conjugate : uhal_map_identity, {&other}, {&factor});
    cross_of(context, first ? static_cast<const View&>(factor) : gradient,
             first ? gradient : static_cast<const View&>(factor), along, result);
    sum_to_shape(context, result, target);
  };
  one(dx, b, true);
  one(dy, a, false);
}

// -- Kronecker's product

// x and y as operands that broadcast to (x0, y0, x1, y1, ...).
struct Interleaved {
  View x, y;
  std::vector<int64_t> product;

  Interleaved(const Context& context, const View& a, const View& b) {
    const int rank = std::max(a.rank, b.rank);
    if (2 * rank > UHAL_MAX_RANK) unsupported(context, "a product of tensors with more than five axes");
    const View left = with_rank(a, rank), right = with_rank(b, rank);
    x = left;
    y = right;
    x.rank = y.rank = 2 * rank;
    for (int i = 0; i < rank; ++i) {
      product.push_back(left.shape[i]);
      product.push_back(right.shape[i]);
      x.shape[2 * i] = left.shape[i];
      x.strides[2 * i] = left.strides[i];
      y.shape[2 * i + 1] = right.shape[i];
      y.strides[2 * i + 1] = right.strides[i];
      x.shape[2 * i + 1] = y.shape[2 * i] = 1;
      x.strides[2 * i + 1] = y.strides[2 * i] = 0;
    }
  }
};

void kron(Context context, Input x, Input y, Output out) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const Interleaved operands(context, a, b);
  const View target = context.allocate(out, a.dtype).reshaped(operands.product);
  if (target.elements() > 0) context.map(uhal_map_multiply, {&operands.x, &operands.y}, {&target});
}

void kron_grad(Context context, Input x, Input y, Input dout, Output dx, Output dy) {
  const View a = x.view(), b = y.view();
  const Interleaved operands(context, a, b);
  const View gradient = dout.view().reshaped(operands.product);
  const int multiply = is_complex(a.dtype) ? uhal_map_multiply_conjugate : uhal_map_multiply;
  const auto one = [&](Output wanted, const View& mine, const View& other) {
    if (!wanted) return;
    View target = context.allocate(wanted, mine.dtype);
    const Scratch part(context, mine.dtype, gradient);
    if (gradient.elements() == 0) return fill_zero(context, target);
    context.map(multiply, {&gradient, &other}, {&part});
    sum_to_shape(context, part, target.reshaped(mine.shape, mine.rank));
  };
  one(dx, operands.x, operands.y);
  one(dy, operands.y, operands.x);
}

// -- bilinear forms

// out[b, o] = x[b] weight[o] y[b]^T + bias[o]
void bilinear(Context context, Input x, Input y, Input weight, OptionalInput bias, Output out) {
  const View a = x.view(), b = y.view(), w = weight.view();
  const View target = context.allocate(out, a.dtype);
  if (target.elements() == 0) return;
  const int64_t outputs = w.shape[0], dims[] = {outputs, b.shape[0], b.shape[1]};
  const Scratch products(context, a.dtype, dims, 3);
  multiply(context, a.unsqueezed(0), w, 1, products);
  context.map(uhal_map_multiply, {&products, &b}, {&products});
  sum_to_shape(context, products, target.transposed().unsqueezed(2));
  if (!bias) return;
  const View added = bias.view();
  context.map(uhal_map_add, {&target, &added}, {&target});
}

void bilinear_grad(Context context, Input x, Input y, Input weight, Input dout, Output dx, Output dy, Output dweight,
                   Output dbias) {
  const View a = x.view(), b = y.view(), w = weight.view(), gradient = dout.view();
  // (outputs, batch, 1)
  const View shares = gradient.transposed().unsqueezed(2);
  const auto one = [&](Output wanted, const View& mine, const View& other, const View& matrices) {
    if (!wanted) return;
    const View target = context.allocate(wanted, mine.dtype);
    if (gradient.elements() == 0) return fill_zero(context, target);
    const int64_t dims[] = {w.shape[0], mine.shape[0], mine.shape[1]};
    const Scratch parts(context, mine.dtype, dims, 3);
    multiply(context, other.unsqueezed(0), matrices, 1, parts);
    context.map(uhal_map_multiply, {&parts, &shares}, {&parts});
    sum_to_shape(context, parts, target.unsqueezed(0));
  };
  one(dx, a, b, w.transposed());
  one(dy, b, a, w);
  if (dweight) {
    const View target = context.allocate(dweight, w.dtype);
    const int64_t dims[] = {w.shape[0], a.shape[0], a.shape[1]};
    const Scratch scaled(context, a.dtype, dims, 3);
    if (gradient.elements() == 0) {
      fill_zero(context, target);
    } else {
      context.map(uhal_map_multiply, {&a, &shares}, {&scaled});
      multiply(context, scaled.transposed(), b.unsqueezed(0), 1, target);
    }
  }
  if (dbias) sum_to_shape(context, gradient, context.allocate(dbias, w.dtype));
}

// -- a row of one of several tensors

// Whether each row's number is k, shaped to broadcast along the rows of `like`.
class RowsNumbered : public Scratch {
 public:
  RowsNumbered(const Context& context, const View& ids, int64_t k, const View& like)
      : Scratch(context, UHAL_BOOL, ids.shape, 1), rank_(like.rank) {
    const Scratch number(context, ids.dtype, nullptr, 0);
    fill(context, number, static_cast<double>(k), k);
    context.map(uhal_map_equal, {&ids, &number}, {this});
  }
  View rows() const {
    View result = *this;
    while (result.rank < rank_) result = result.unsqueezed(result.rank);
    return result;
  }

 private:
  int rank_;
};

void multiplex(Context context, InputList candidates, Input ids, Output out) {
  const View numbers = flat(ids.view());
  const View target = context.allocate(out, candidates[0].uhal());
  if (target.elements() == 0) return;
  // A number that names none is an error of the stream.
  const int64_t count = static_cast<int64_t>(candidates.size()), one[] = {count};
  const Scratch places(context, UHAL_INT32, one, 1), checked(context, UHAL_INT32, numbers);
  fill_zero(context, places);
  const auto first = index_attributes(0);
  context.run(UHAL_OP_GATHER, {&places, &numbers}, {&checked}, &first);
  copy_or_cast(context, candidates[0].view(), target);
  for (int64_t k = 1; k < count; ++k) {
    const RowsNumbered chosen(context, numbers, k, target);
    const View rows = chosen.rows(), candidate = candidates[static_cast<size_t>(k)].view();
    context.map(uhal_map_select, {&rows, &candidate, &target}, {&target});
  }
}

void multiplex_grad(Context context, Input ids, Input dout, OutputList dcandidates) {
  const View numbers = flat(ids.view()), gradient = dout.view();
  const Scratch zero(context, gradient.dtype, nullptr, 0);
  fill_zero(context, zero);
  for (size_t k = 0; k < dcandidates.size(); ++k) {
    if (!dcandidates[k]) continue;
    const View target = context.allocate(dcandidates[k], gradient.dtype);
    if (target.elements() == 0) continue;
    const RowsNumbered chosen(context, numbers, static_cast<int64_t>(k), gradient);
    const View rows = chosen.rows();
    context.map(uhal_map_select, {&rows, &gradient, &zero}, {&target});
  }
}

}  // namespace

KernelTable product_kernels() {
  constexpr DtypeSet kProducts = kFloats | kInt32And64 | kComplex;
  return {
      UNIHAL_KERNEL("bilinear", kWideFloats, bilinear),
      UNIHAL_KERNEL("bilinear_grad", kWideFloats, bilinear_grad),
      UNIHAL_KERNEL("cross", kProducts, cross),
      UNIHAL_KERNEL("cross_grad", kProducts, cross_grad),
      UNIHAL_KERNEL("kron", kProducts, kron),
      UNIHAL_KERNEL("kron_grad", kProducts, kron_grad),
      UNIHAL_KERNEL("multiplex", kWideFloats | kInt32And64 | kComplex, multiplex),
      UNIHAL_KERNEL("multiplex_grad", kWideFloats | kInt32And64 | kComplex, multiplex_grad),
  };
}

}  // namespace unihal::paddle
