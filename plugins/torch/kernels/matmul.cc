// Matrix products.
#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {

uhal_math_mode math_mode() {
  return at::globalContext().float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST ? UHAL_MATH_STRICT
                                                                                             : UHAL_MATH_ALLOW_TF32;
}

namespace {

// d = beta * c + alpha * a @ b; an undefined c is none. Operands of no elements give beta * c, or zeros.
void multiply(Call& call, const View& a, const View& b, const View* c, const View& d, double beta = 1,
              double alpha = 1) {
  if (d.elements() == 0) return;
  uhal_matmul_attributes attributes = matmul_attributes(math_mode());
  attributes.alpha = alpha;
  attributes.beta = beta;
  call.launch(UHAL_OP_MATMUL, {&a, &b, c}, {&d}, &attributes);
}

at::Tensor resolved(Call& call, int index) { return call.keep(call.tensor(index).resolve_conj().resolve_neg()); }

// PyTorch's meta functions do not look at both factors' dtypes; its CPU does where it multiplies, which it does not in
// batches of nothing.
void require_one_dtype(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 3 && (a.numel() == 0 || b.numel() == 0)) return;
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected both factors to have the same dtype, but got ",
              a.scalar_type(), " and ", b.scalar_type());
}

// a @ b of two arguments.
template <class Meta>
void product(Call& call) {
  require_one_dtype(call.tensor(0), call.tensor(1));
  Structured<Meta>(call).infer();
  multiply(call, view_of(resolved(call, 0)), view_of(resolved(call, 1)), nullptr, view_of(call.result()));
}

// A factor as the CPU takes it; one outside the dtype is refused.
at::Scalar factor_of(const Call& call, int index) {
  const at::ScalarType dtype = at::toOpMathType(call.tensor(1).scalar_type());
  const at::Scalar factor = number_of(dtype, call.scalar(index));
  return c10::isComplexType(dtype) ? call.scalar(index) : factor;
}

// Factors that are complex, and whole numbers that are added, are no part of unihal's product.
bool is_composed(const Call& call, const at::Scalar& beta, const at::Scalar& alpha) {
  if (beta.isComplex() || alpha.isComplex()) return true;
  const bool is_product = beta.toDouble() == 0 && alpha.toDouble() == 1;
  return !is_product && c10::isIntegralType(call.tensor(1).scalar_type(), true);
}

void add_composed(Call& call, const at::Tensor& product, at::Scalar beta, at::Scalar alpha) {
  if (c10::isIntegralType(product.scalar_type(), true)) {  // as the CPU: factors of whole numbers are cut
    beta = static_cast<int64_t>(beta.toDouble());
    alpha = static_cast<int64_t>(alpha.toDouble());
  }
  const at::Tensor scaled = at::mul(product, alpha);
  const bool has_self = beta.toComplexDouble() != c10::complex<double>(0, 0);
  call.set_result(0, has_self ? at::add(scaled, at::mul(call.tensor(0), beta)) : scaled);
}

// beta * self + alpha * a @ b. (self, a, b, *, beta, alpha)
template <class Meta>
void add_product(Call& call) {
  require_one_dtype(call.tensor(1), call.tensor(2));
  Structured<Meta>(call).infer();
  const at::Scalar beta = factor_of(call, 3);
  const at::Scalar alpha = factor_of(call, 4);
  if (is_composed(call, beta, alpha))
    return add_composed(call, at::matmul(call.tensor(1), call.tensor(2)), beta, alpha);
  const at::Tensor& result = call.result();
  // What beta = 0 leaves out is not read: it may be NaN.
  const bool has_c = beta.toDouble() != 0;
  const at::Tensor self = has_c ? call.keep(resolved(call, 0).expand(result.sizes())) : at::Tensor();
  const View c = has_c ? view_of(self) : View();
  multiply(call, view_of(resolved(call, 1)), view_of(resolved(call, 2)), has_c ? &c : nullptr, view_of(result),
           beta.toDouble(), alpha.toDouble());
}

void matrix_times_vector(Call& call) {
  Structured<at::meta::structured_addmv>(call).infer();
  const at::Scalar beta = factor_of(call, 3);
  const at::Scalar alpha = factor_of(call, 4);
  if (is_composed(call, beta, alpha)) return add_composed(call, at::mv(call.tensor(1), call.tensor(2)), beta, alpha);
  const at::Tensor& result = call.result();
  const bool has_c = beta.toDouble() != 0;
  const at::Tensor self = has_c ? call.keep(resolved(call, 0).expand(result.sizes())) : at::Tensor();
  const View c = has_c ? view_of(self).unsqueezed(1) : View();
  multiply(call, view_of(resolved(call, 1)), view_of(resolved(call, 2)).unsqueezed(1), has_c ? &c : nullptr,
           view_of(result).unsqueezed(1), beta.toDouble(), alpha.toDouble());
}

template <bool kConjugate>
void dot(Call& call) {
  const at::Tensor a =
      kConjugate && call.tensor(0).is_complex() ? call.keep(call.tensor(0).conj().resolve_conj()) : resolved(call, 0);
  const at::Tensor b = resolved(call, 1);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  const View d = view_of(call.make_result(0, {}, a.scalar_type())).unsqueezed(0).unsqueezed(0);
  multiply(call, view_of(a).unsqueezed(0), view_of(b).unsqueezed(1), nullptr, d);
}

// beta * self + alpha * the sum of a[i] @ b[i]: one product along the batches and the inner axis together.
void add_sum_of_products(Call& call) {
  const at::Tensor& a = call.tensor(1);
  const at::Tensor& b = call.tensor(2);
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), "batch1 and batch2 must have matching sizes, got ",
              a.sizes(), " and ", b.sizes());
  const int64_t inner = a.size(0) * a.size(2);
  const at::Tensor left = a.transpose(0, 1).reshape({a.size(1), inner});
  const at::Tensor right = b.reshape({inner, b.size(2)});
  call.set_result(0, at::addmm(call.tensor(0), left, right, call.scalar(3), call.scalar(4)));
}

// (self, mat1, mat2, *, beta, alpha, use_gelu)
void add_product_and_activate(Call& call) {
  const at::Tensor sum = at::addmm(call.tensor(0), call.tensor(1), call.tensor(2), call.scalar(3), call.scalar(4));
  call.set_result(0, call.boolean(5) ? at::gelu(sum, "tanh") : at::relu(sum));
}

// What PyTorch's CPU says of `_int_mm`, in its order.
void check_whole_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const int64_t rows = a.size(0), columns = b.size(1);  // of fewer axes an IndexError, before all else
  TORCH_CHECK(a.dim() == 2, "Expected self to be of dimension 2 but got ", a.dim());
  TORCH_CHECK(b.dim() == 2, "Expected mat2 to be of dimension 2 but got ", b.dim());
  TORCH_CHECK(a.size(1) == b.size(0), "self.size(1) needs to match mat2.size(0) but got ", a.size(1), " and ",
              b.size(0));
  TORCH_CHECK(a.scalar_type() == at::kChar || a.scalar_type() == at::kByte,
              "Expected self dtype to be int8 or uint8 but got ", a.scalar_type());
  TORCH_CHECK(b.scalar_type() == at::kChar, "Expected mat2 dtype to be int8 but got ", b.scalar_type());
  if (!out.defined()) return;
  TORCH_CHECK(out.scalar_type() == at::kInt, "Expected result dtype to be int32 but got ", out.scalar_type());
  TORCH_CHECK(out.sizes() == at::IntArrayRef({rows, columns}), "Expected result of size ", rows, " by ", columns,
              " but got ", out.sizes());
  TORCH_CHECK(out.is_contiguous(), "Expected result to be contiguous.");
}

// (self, mat2): int8, or uint8 by int8, summed in int32
void whole_product(Call& call) {
  const at::Tensor& a = call.tensor(0);
  const at::Tensor& b = call.tensor(1);
  check_whole_product(a, b, call.result());
  multiply(call, view_of(a), view_of(b), nullptr, view_of(call.make_result(0, {a.size(0), b.size(1)}, at::kInt)));
}

constexpr DtypeSet kFactors = kNumbers | kComplex;

constexpr Kernel kMatmulKernels[] = {
    {"mm", kFactors, product<at::meta::structured_mm>},
    {"bmm", kFactors, product<at::meta::structured_bmm>},
    {"addmm", kFactors, add_product<at::meta::structured_addmm>},
    {"baddbmm", kFactors, add_product<at::meta::structured_baddbmm>},
    {"addmv", kFactors, matrix_times_vector},
    {"addbmm", kFactors, add_sum_of_products},
    {"_addmm_activation", kFloats, add_product_and_activate},
    {"_int_mm", kAll, whole_product},
    {"dot", kFactors, dot<false>},
    {"vdot", kFactors, dot<true>},
};

}  // namespace

void register_matmul() { register_kernels(kMatmulKernels); }

}  // namespace unihal::pytorch
