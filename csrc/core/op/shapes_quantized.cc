// Rules of products with weights of few bits.
#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

// The smallest block whose scale all weights of a load share, on every backend.
constexpr int64_t kLeastBlock = 16;

uhal_status check_number(const OpView& op, const uhal_tensor* operand) {
  if (operand == nullptr) return UHAL_OK;
  return expect_dtype(op, operand, is_floating(operand->dtype) && operand->dtype != UHAL_FLOAT64,
                      "float32, float16 or bfloat16; cast it first");
}

}  // namespace

uhal_status check_matmul_quantized(const OpView& op) {
  const uhal_tensor& a = *op.input(0);
  const uhal_tensor& b = *op.input(1);
  const uhal_tensor* zero_points = op.input(3);
  const uhal_tensor& d = *op.output(0);
  const auto& attributes = op.attributes_as<uhal_matmul_quantized_attributes>();
  UHAL_EXPECT(expect_attribute(op, "activation", attributes.activation, UHAL_ACTIVATION_NONE, UHAL_ACTIVATION_RELU6));
  const int64_t bits = attributes.bits;
  if (bits != 8 && bits != 4) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "matmul_quantized: the attribute bits is %d, expected 8 or 4.",
                     attributes.bits);
  }
  const int64_t block = attributes.block_size;
  if (block != 0 && (block < kLeastBlock || (block & (block - 1)) != 0)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "matmul_quantized: the attribute block_size is %lld, expected a power of two from %lld, or 0 for "
                     "one scale per channel.",
                     static_cast<long long>(block), static_cast<long long>(kLeastBlock));
  }
  for (const uhal_tensor* operand : {&a, op.input(2), op.input(4), &d}) UHAL_EXPECT(check_number(op, operand));
  UHAL_EXPECT(expect_dtype(op, &b, b.dtype == UHAL_INT8 || b.dtype == UHAL_UINT8, "int8 or uint8"));
  UHAL_EXPECT(expect_rank(op, &a, 2, UHAL_MAX_RANK, "(..., m, k)"));
  UHAL_EXPECT(expect_rank(op, &b, 2, 2, "(k, n), or of 4 bits (k / 2, n)"));
  const int64_t k = a.shape[a.rank - 1];
  const int64_t n = b.shape[1];
  const int64_t packed = 8 / bits;
  UHAL_EXPECT(expect_shape(op, &b, Shape{k / packed + (k % packed != 0), n},
                           bits == 8 ? "(k, n) for a (..., m, k)" : "(ceil(k / 2), n) for a (..., m, k) and 4 bits"));
  Shape product(a);
  product.dims[a.rank - 1] = n;
  UHAL_EXPECT(expect_shape(op, &d, product, "(..., m, n) of a (..., m, k) and n channels"));
  const int64_t blocks = block == 0 ? 1 : k / block + (k % block != 0);
  UHAL_EXPECT(expect_broadcast(op, op.input(2), Shape{blocks, n}));
  if (zero_points != nullptr) {
    const bool is_packed = zero_points->dtype == b.dtype;
    if (!is_packed && (!is_floating(zero_points->dtype) || zero_points->dtype == UHAL_FLOAT64)) {
      return expect_dtype(op, zero_points, false, "b's dtype, or float32, float16 or bfloat16");
    }
    const int64_t rows = is_packed ? blocks / packed + (blocks % packed != 0) : blocks;
    UHAL_EXPECT(expect_broadcast(op, zero_points, Shape{rows, n}));
  }
  return expect_broadcast(op, op.input(4), product);
}

}  // namespace unihal::core
