// Copies of operands with longer lines: that the library's product of them is the product, for every way that operands
// lie, and when there are none. Views are moved on the host; of the product, elements here and there are computed.

#include "csrc/kernels/gemm_padding.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "csrc/backends/common/dtype.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kLineBytes = 16;
constexpr int64_t kLineElements = 8;  // of bfloat16

// Small whole numbers: sums of their products are exact in float32.
uint16_t bfloat16_of(int value) {
  const auto number = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

char* place_of(const MatmulOperand& operand, int64_t row, int64_t column) {
  const int64_t element = row * operand.row_stride + column * operand.column_stride;
  return static_cast<char*>(operand.data) + element * dtype_size(operand.dtype);
}

float read(const MatmulOperand& operand, int64_t row, int64_t column) {
  uint32_t bits = 0;
  const auto size = static_cast<size_t>(dtype_size(operand.dtype));
  std::memcpy(reinterpret_cast<char*>(&bits) + (sizeof bits - size), place_of(operand, row, column), size);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class Visit>
uhal_status for_each(const uhal_tensor& view, const Visit& visit) {
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    for (int64_t j = 0; j < view.shape[1]; ++j) visit(i * view.strides[0] + j * view.strides[1], i, j);
  }
  return UHAL_OK;
}

uhal_status copy(const uhal_tensor& from, const uhal_tensor& to) {
  const auto size = static_cast<size_t>(dtype_size(from.dtype));
  return for_each(from, [&](int64_t place, int64_t i, int64_t j) {
    const int64_t target = i * to.strides[0] + j * to.strides[1];
    std::memcpy(static_cast<char*>(to.data) + target * static_cast<int64_t>(size),
                static_cast<const char*>(from.data) + place * static_cast<int64_t>(size), size);
  });
}

uhal_status zero(const uhal_tensor& view) {
  const auto size = static_cast<size_t>(dtype_size(view.dtype));
  return for_each(view, [&](int64_t place, int64_t, int64_t) {
    std::memset(static_cast<char*>(view.data) + place * static_cast<int64_t>(size), 0, size);
  });
}

// A product of a and b in bfloat16 with d and a bias in float32.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k) {
    problem.m = m;
    problem.n = n;
    problem.k = k;
  }

  // `gap`: elements between one line and the next.
  void lay(int number, uhal_dtype dtype, int64_t rows, int64_t columns, bool by_rows, int64_t gap = 0) {
    const int64_t pitch = (by_rows ? columns : rows) + gap;
    const auto size = static_cast<size_t>(dtype_size(dtype));
    std::vector<char>& bytes = memory_[number];
    bytes.resize(static_cast<size_t>((by_rows ? rows : columns) * pitch * dtype_size(dtype) + 256));
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    char* const base = bytes.data() + ((address + 255) / 256 * 256 - address);
    problem.operands[number] = {base, dtype, by_rows ? pitch : 1, by_rows ? 1 : pitch};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const uint16_t value = bfloat16_of(static_cast<int>(random_() % 4) - 1);
        char* const place = place_of(problem.operands[number], i, j);
        std::memset(place, 0, size);
        std::memcpy(place + size - sizeof value, &value, sizeof value);
      }
    }
  }

  void lay_all(bool a_by_rows, bool b_by_rows, bool has_bias = false) {
    lay(kMatmulA, UHAL_BFLOAT16, problem.m, problem.k, a_by_rows);
    lay(kMatmulB, UHAL_BFLOAT16, problem.k, problem.n, b_by_rows);
    lay(kMatmulD, UHAL_FLOAT32, problem.m, problem.n, true);
    if (!has_bias) return;
    lay(kMatmulC, UHAL_FLOAT32, 1, problem.n, true);
    problem.operands[kMatmulC].row_stride = 0;
    problem.beta = 1;
  }

  MatmulProblem problem;

 private:
  std::mt19937 random_{1};
  std::vector<char> memory_[kMatmulOperands];
};

float element_of(const MatmulProblem& problem, int64_t row, int64_t column) {
  const MatmulOperand* operands = problem.operands;
  float sum = problem.beta != 0 ? read(operands[kMatmulC], row, column) : 0;
  for (int64_t k = 0; k < problem.k; ++k) sum += read(operands[kMatmulA], row, k) * read(operands[kMatmulB], k, column);
  return sum;
}

// Runs the product of the copies for some elements, those at the ends among them, and looks at d.
void expect_the_product(const MatmulProblem& problem) {
  const GemmPadding padding(problem, kLineBytes);
  ASSERT_TRUE(padding.is_needed());
  std::vector<char> memory(padding.bytes() + 256, static_cast<char>(0xff));  // NaN
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  void* const base = memory.data() + ((address + 255) / 256 * 256 - address);
  ASSERT_EQ(padding.prepare(base, copy, zero), UHAL_OK);
  const MatmulProblem product = padding.product(base);
  for (const int number : {kMatmulA, kMatmulB, kMatmulD}) {
    const MatmulOperand& operand = product.operands[number];
    const int64_t pitch = operand.column_stride == 1 ? operand.row_stride : operand.column_stride;
    EXPECT_EQ(pitch * dtype_size(operand.dtype) % kLineBytes, 0) << number;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(operand.data) % kLineBytes, 0U) << number;
  }
  const auto for_some = [&](const auto& visit) {
    for (int64_t i = 0; i < problem.m; i += problem.m / 5) visit(i, (i * 7) % problem.n);
    visit(problem.m - 1, problem.n - 1);
    visit(0, problem.n - 1);
    visit(problem.m - 1, 0);
  };
  for_some([&](int64_t i, int64_t j) {
    const float value = element_of(product, i, j);
    std::memcpy(place_of(product.operands[kMatmulD], i, j), &value, sizeof value);
  });
  ASSERT_EQ(padding.finish(base, copy), UHAL_OK);
  for_some([&](int64_t i, int64_t j) {
    EXPECT_EQ(read(problem.operands[kMatmulD], i, j), element_of(problem, i, j)) << i << ", " << j;
  });
}

TEST(GemmPadding, IsTheProductHoweverOperandsLie) {
  for (const bool a_by_rows : {true, false}) {
    for (const bool b_by_rows : {true, false}) {
      SCOPED_TRACE(std::to_string(a_by_rows) + std::to_string(b_by_rows));
      Product product(1299, 1301, 1303);
      product.lay_all(a_by_rows, b_by_rows);
      expect_the_product(product.problem);
    }
  }
}

TEST(GemmPadding, TakesABias) {
  Product product(1304, 1301, 1304);
  product.lay_all(true, false, true);
  expect_the_product(product.problem);
}

TEST(GemmPadding, LengthensWhatLiesAlongLinesOnly) {
  Product product(1304, 1301, 1304);  // b by columns of 1304: its 1301 columns are lines
  product.lay_all(true, false);
  const MatmulProblem longer = GemmPadding(product.problem, kLineBytes).product(nullptr);
  EXPECT_EQ(longer.m, 1304);
  EXPECT_EQ(longer.n, 1304) << "d's lines are rows of n";
  EXPECT_EQ(longer.k, 1304);
  EXPECT_EQ(longer.operands[kMatmulA].data, product.problem.operands[kMatmulA].data) << "it is as it should be";

  Product other(1303, 1304, 1304);  // a and d by rows: m is along no line
  other.lay_all(true, true);
  EXPECT_FALSE(GemmPadding(other.problem, kLineBytes).is_needed());
}

TEST(GemmPadding, CopiesLinesThatBeginAtOddPlaces) {
  Product product(1304, 1304, 1304);
  product.lay_all(true, true);
  EXPECT_FALSE(GemmPadding(product.problem, kLineBytes).is_needed());
  product.lay(kMatmulA, UHAL_BFLOAT16, 1304, 1304, true, kLineElements);
  EXPECT_FALSE(GemmPadding(product.problem, kLineBytes).is_needed()) << "a gap of whole pieces";
  product.lay(kMatmulA, UHAL_BFLOAT16, 1304, 1304, true, 3);
  expect_the_product(product.problem);
  product.lay_all(true, true);
  MatmulOperand& b = product.problem.operands[kMatmulB];
  product.lay(kMatmulB, UHAL_BFLOAT16, 1305, 1304, true);
  b.data = static_cast<char*>(b.data) + 2;
  expect_the_product(product.problem);
}

// Nothing is read of a product that is only planned.
MatmulProblem planned(int64_t m, int64_t n, int64_t k) {
  MatmulProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.operands[kMatmulA] = {nullptr, UHAL_BFLOAT16, k, 1};
  problem.operands[kMatmulB] = {nullptr, UHAL_BFLOAT16, n, 1};
  problem.operands[kMatmulD] = {nullptr, UHAL_BFLOAT16, n, 1};
  return problem;
}

TEST(GemmPadding, IsForWorkThatIsWorthIt) {
  const auto is_needed = [](const MatmulProblem& problem, int64_t line_bytes = kLineBytes) {
    return GemmPadding(problem, line_bytes).is_needed();
  };
  MatmulProblem problem = planned(1299, 1301, 1303);
  EXPECT_TRUE(is_needed(problem));
  EXPECT_FALSE(is_needed(problem, 1)) << "a library that does not ask for it";
  EXPECT_FALSE(is_needed(planned(1001, 1001, 1001))) << "little work";
  EXPECT_FALSE(is_needed(planned(16, 20001, 8000))) << "it reads and writes as much as it computes";

  problem.batch_rank = 1;
  problem.batch[0] = 2;
  EXPECT_FALSE(is_needed(problem)) << "batches";
  problem.batch_rank = 0;
  problem.operands[kMatmulC] = problem.operands[kMatmulD];
  problem.beta = 1;
  EXPECT_FALSE(is_needed(problem)) << "a c that is no row";
}

}  // namespace
}  // namespace unihal::kernels
