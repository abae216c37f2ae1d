// Ranks, logarithms of determinants, and the norm of a weight as its largest singular value.
#include <limits>

#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

// -- ranks

// The singular values of matrices; of Hermitian ones they are the eigenvalues' absolute values.
class SingularValues : public Scratch {
 public:
  SingularValues(const Context& context, const View& a)
      : Scratch(context, real_of(a.dtype), dims_of(a).data(), a.rank - 1) {
    if (elements() == 0) return;
    const Info info(context, a);
    context.run(UHAL_OP_SVD, {&a}, {this, nullptr, nullptr, &info});
    info.require_converged("singular values", UHAL_INVALID_ARGUMENT);
  }

 private:
  static std::vector<int64_t> dims_of(const View& a) {
    std::vector<int64_t> dims(a.shape, a.shape + a.rank - 1);
    dims.back() = std::min(a.shape[a.rank - 2], a.shape[a.rank - 1]);
    return dims;
  }
};

double default_tolerance(const View& a) {
  const double epsilon = real_of(a.dtype) == UHAL_FLOAT64 ? std::numeric_limits<double>::epsilon()
                                                          : static_cast<double>(std::numeric_limits<float>::epsilon());
  return epsilon * static_cast<double>(std::max(a.shape[a.rank - 2], a.shape[a.rank - 1]));
}

// How many singular values are above the larger of an absolute limit and one that is relative to the largest; either
// may be absent.
void count_above(const Context& context, const View& a, const View* absolute, const View* relative, Output out) {
  require_matrices(context, a, false);
  const View target = context.allocate(out, UHAL_INT64);
  if (target.elements() == 0) return;
  const SingularValues values(context, a);
  if (values.elements() == 0) return fill_zero(context, target);
  const Scratch largest(context, values.dtype, values.shape, values.rank - 1), limit(context, values.dtype, target);
  reduce_last(context, UHAL_REDUCE_MAXIMUM, values, largest);
  if (relative != nullptr) {
    context.map(uhal_map_multiply, {&largest, relative}, {&limit});
  }
  if (absolute != nullptr) {
    if (relative != nullptr) {
      context.map(uhal_map_maximum, {&limit, absolute}, {&limit});
    } else {
      copy_or_cast(context, *absolute, limit);
    }
  }
  // Limits broadcast against the matrices.
  View each = values;
  while (each.rank < target.rank + 1) each = each.unsqueezed(0);
  const View bound = limit.unsqueezed(limit.rank);
  int64_t dims[UHAL_MAX_RANK];
  for (int i = 0; i < target.rank; ++i) dims[i] = target.shape[i];
  dims[target.rank] = values.shape[values.rank - 1];
  const Scratch above(context, UHAL_BOOL, dims, target.rank + 1);
  context.map(uhal_map_greater, {&each, &bound}, {&above});
  reduce_last(context, UHAL_REDUCE_SUM, above, target);
}

void matrix_rank(Context context, Input x, float tolerance, bool use_default, bool, Output out) {
  const View a = x.view();
  const Scratch limit(context, real_of(a.dtype), nullptr, 0);
  fill(context, limit, use_default ? default_tolerance(a) : static_cast<double>(tolerance), 0);
  const View& chosen = limit;
  count_above(context, a, use_default ? nullptr : &chosen, use_default ? &chosen : nullptr, out);
}

void matrix_rank_tol(Context context, Input x, Input tolerance, bool use_default, bool, Output out) {
  const View a = x.view(), absolute = tolerance.view();
  const Scratch relative(context, real_of(a.dtype), nullptr, 0);
  fill(context, relative, default_tolerance(a), 0);
  const View& limit = relative;
  count_above(context, a, &absolute, use_default ? &limit : nullptr, out);
}

void matrix_rank_tolerances(Context context, Input x, Input absolute, OptionalInput relative, bool, Output out) {
  const View a = x.view(), least = absolute.view();
  if (relative) {
    const View factor = relative.view();
    return count_above(context, a, &least, &factor, out);
  }
  // Without one the relative limit is the usual one, where no absolute one is given.
  const Scratch usual(context, real_of(a.dtype), least), none(context, least.dtype, nullptr, 0);
  const Scratch given(context, UHAL_BOOL, least), zero(context, usual.dtype, nullptr, 0);
  fill_zero(context, none);
  fill_zero(context, zero);
  fill(context, usual, default_tolerance(a), 0);
  context.map(uhal_map_greater, {&least, &none}, {&given});
  context.map(uhal_map_select, {&given, &zero, &usual}, {&usual});
  const View& factor = usual;
  count_above(context, a, &least, &factor, out);
}

// -- logarithms of determinants

void sign_and_logarithm(const Context& context, const View& a, const View& sign, const View& logarithm) {
  if (sign.elements() == 0) return;
  if (a.elements() == 0) {
    fill(context, sign, 1, 1);
    return fill_zero(context, logarithm);
  }
  const Factors factors(context, a);
  const View diagonal = diagonal_of(factors.lu);
  const Scratch places(context, UHAL_INT32, &a.shape[a.rank - 1], 1);
  const Scratch exchanged(context, UHAL_BOOL, factors.pivots), terms(context, a.dtype, factors.pivots);
  const Scratch turns(context, real_of(a.dtype), factors.pivots), sizes(context, real_of(a.dtype), factors.pivots);
  count_up(context, places);
  context.map(uhal_map_not_equal, {&factors.pivots, &places}, {&exchanged});
  context.map(uhal_map_scale, {&exchanged}, {&turns}, {-2, 1});
  context.map(uhal_map_sign, {&diagonal}, {&terms});
  context.map(uhal_map_multiply, {&terms, &turns}, {&terms});
  reduce_last(context, UHAL_REDUCE_PRODUCT, terms, sign);
  context.map(uhal_map_absolute, {&diagonal}, {&sizes});
  context.map(uhal_map_log, {&sizes}, {&sizes});
  reduce_last(context, UHAL_REDUCE_SUM, sizes, logarithm);
}

View member_of_pair(const View& pair, int64_t i) {
  const View row = pair.sliced(0, i, 1);
  return View(row.data, row.dtype, pair.shape + 1, pair.rank - 1);
}

// Both in one tensor (2, ...).
void slogdet(Context context, Input x, Output out) {
  const View a = x.view();
  require_matrices(context, a, true);
  std::vector<int64_t> dims(a.shape, a.shape + a.rank - 2);  // Paddle infers another shape than its own kernel gives
  dims.insert(dims.begin(), 2);
  const View target = context.allocate(out, a.dtype, dims.data(), static_cast<int>(dims.size()));
  sign_and_logarithm(context, a, member_of_pair(target, 0), member_of_pair(target, 1));
}
void slogdet_apart(Context context, Input x, Output sign, Output logarithm) {
  const View a = x.view();
  require_matrices(context, a, true);
  const View first = context.allocate(sign, a.dtype), second = context.allocate(logarithm, real_of(a.dtype));
  sign_and_logarithm(context, a, first, second);
}

// d log|det a| = a^-H, times the gradient; the sign has none.
void slogdet_grad_of(const Context& context, const View& a, const View& gradient, const View& target) {
  if (target.elements() == 0) return;
  const Adjoint turned(context, a);
  const Factors factors(context, turned);
  const int64_t n = a.shape[a.rank - 1], dims[] = {n, n};
  const Scratch identity(context, a.dtype, dims, 2), inverted(context, a.dtype, a);
  fill_zero(context, identity);
  fill(context, diagonal_of(identity), 1, 1);
  factors.solve(identity, inverted);
  const View factor = gradient.unsqueezed(gradient.rank).unsqueezed(gradient.rank + 1);
  context.map(uhal_map_multiply, {&inverted, &factor}, {&target});
}
void slogdet_grad(Context context, Input x, Input, Input dout, Output dx) {
  const View a = x.view();
  View gradient = dout.view();
  gradient.rank = a.rank - 1;
  slogdet_grad_of(context, a, member_of_pair(gradient, 1), context.allocate(dx, a.dtype, a.shape, a.rank));
}
void slogdet_apart_grad(Context context, Input x, Input, Input, Input, Input dlogarithm, Output dx) {
  const View a = x.view();
  slogdet_grad_of(context, a, dlogarithm.view(), context.allocate(dx, a.dtype));
}

// -- a weight divided by its largest singular value

// The weight as a matrix whose rows are the axis `dim`, its singular vectors after some iterations, and its value.
class Spectrum {
 public:
  Spectrum(const Context& context, const View& weight, const View& u, const View& v, int dim, int iterations,
           double epsilon)
      : matrix(context, weight.dtype, matrix_dims(weight, dim).data(), 2),
        left(context, weight.dtype, std::vector<int64_t>{matrix.shape[0], 1}.data(), 2),
        right(context, weight.dtype, std::vector<int64_t>{matrix.shape[1], 1}.data(), 2),
        value(context, weight.dtype, std::vector<int64_t>{1, 1}.data(), 2),
        context_(context) {
    arrange(weight, dim);
    copy_or_cast(context, weight_, arranged_);
    copy_or_cast(context, u.reshaped({matrix.shape[0], 1}), left);
    copy_or_cast(context, v.reshaped({matrix.shape[1], 1}), right);
    for (int i = 0; i < iterations; ++i) {
      multiply(context, matrix.transposed(), left, 1, right);
      normalize(right, epsilon);
      multiply(context, matrix, right, 1, left);
      normalize(left, epsilon);
    }
    const Scratch product(context, weight.dtype, left);
    multiply(context, matrix, right, 1, product);
    multiply(context, left.transposed(), product, 1, value);
  }
  // From the matrix's order of axes to the weight's.
  void restore(const View& from, const View& to) const {
    View source = arranged_, target = to;
    source.data = from.data;
    for (int i = 0; i < to.rank; ++i) target.shape[i] = to.shape[order_[i]], target.strides[i] = to.strides[order_[i]];
    copy_or_cast(context_, source, target);
  }
  View number() const { return value.reshaped(nullptr, 0); }

  Scratch matrix, left, right, value;

 private:
  static std::vector<int64_t> matrix_dims(const View& weight, int dim) {
    return {weight.shape[dim], weight.elements() / std::max<int64_t>(1, weight.shape[dim])};
  }
  void arrange(const View& weight, int dim) {
    order_[0] = dim;
    for (int i = 0, next = 1; i < weight.rank; ++i) {
      if (i != dim) order_[next++] = i;
    }
    weight_ = weight.permuted(order_, weight.rank);
    arranged_ = View(matrix.data, matrix.dtype, weight_.shape, weight_.rank);
  }
  void normalize(const View& x, double epsilon) const {
    const Scratch norm(context_, x.dtype, std::vector<int64_t>{1, 1}.data(), 2);
    const auto attributes = reduce_attributes(UHAL_REDUCE_SUM_OF_SQUARES);
    context_.run(UHAL_OP_REDUCE, {&x}, {&norm}, &attributes);
    context_.map(uhal_map_sqrt, {&norm}, {&norm});
    context_.map(uhal_map_scale, {&norm}, {&norm}, {1, epsilon});
    context_.map(uhal_map_divide, {&x, &norm}, {&x});
  }

  int order_[UHAL_MAX_RANK] = {};
  View weight_, arranged_;
  const Context& context_;
};

void spectral_norm(Context context, Input weight, Input u, Input v, int dim, int iterations, float epsilon,
                   Output out) {
  const View w = weight.view(), target = context.allocate(out, w.dtype);
  if (target.elements() == 0) return;
  const Spectrum spectrum(context, w, u.view(), v.view(), from_front(dim, w.rank), iterations,
                          static_cast<double>(epsilon));
  const View sigma = spectrum.number();
  context.map(uhal_map_divide, {&w, &sigma}, {&target});
}

// Of y = w / s with s = u^T w v: dw = (dy - sum(dy y) u v^T) / s.
void spectral_norm_grad(Context context, Input weight, Input u, Input v, Input dout, int dim, int iterations,
                        float epsilon, Output dweight) {
  const View w = weight.view(), dy = dout.view(), target = context.allocate(dweight, w.dtype);
  if (target.elements() == 0) return;
  const Spectrum spectrum(context, w, u.view(), v.view(), from_front(dim, w.rank), iterations,
                          static_cast<double>(epsilon));
  const View sigma = spectrum.number();
  const Scratch product(context, w.dtype, w), sum(context, w.dtype, nullptr, 0),
      outer(context, w.dtype, spectrum.matrix);
  context.map(uhal_map_multiply, {&dy, &w}, {&product});
  const View all = flat(product), one = sum.reshaped({1});
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&all}, {&one}, &attributes);
  context.map(uhal_map_divide, {&sum, &sigma}, {&sum});
  multiply(context, spectrum.left, spectrum.right.transposed(), 1, outer);
  context.map(uhal_map_multiply, {&outer, &sum}, {&outer});
  spectrum.restore(outer, product);
  context.map(uhal_map_subtract, {&dy, &product}, {&product});
  context.map(uhal_map_divide, {&product, &sigma}, {&target});
}

}  // namespace

KernelTable matrix_measure_kernels() {
  return {
      UNIHAL_KERNEL("matrix_rank", kMatrices, matrix_rank),
      UNIHAL_KERNEL("matrix_rank_tol", kMatrices, matrix_rank_tol),
      UNIHAL_KERNEL("matrix_rank_atol_rtol", kWideFloats, matrix_rank_tolerances),
      UNIHAL_KERNEL("slogdet", kMatrices, slogdet),
      UNIHAL_KERNEL("slogdet_grad", kMatrices, slogdet_grad),
      UNIHAL_KERNEL("slogdet_v2", kMatrices, slogdet_apart),
      UNIHAL_KERNEL("slogdet_v2_grad", kMatrices, slogdet_apart_grad),
      UNIHAL_KERNEL("spectral_norm", kWideFloats, spectral_norm),
      UNIHAL_KERNEL("spectral_norm_grad", kWideFloats, spectral_norm_grad),
  };
}

}  // namespace unihal::paddle
