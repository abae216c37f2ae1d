#include <cmath>

#include "tests/stub/nn_test.h"

namespace nn_test {
namespace {

// a (batch, m, k) @ b (batch, k, n); a batch of 1 is broadcast.
Values product(const Shape& a_shape, const Values& a, const Shape& b_shape, const Values& b) {
  const int64_t m = a_shape[1], k = a_shape[2], n = b_shape[2];
  const int64_t batch = std::max(a_shape[0], b_shape[0]);
  Values d(static_cast<size_t>(batch * m * n));
  for (int64_t l = 0; l < batch; ++l) {
    const double* left = a.data() + (a_shape[0] == 1 ? 0 : l * m * k);
    const double* right = b.data() + (b_shape[0] == 1 ? 0 : l * k * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t p = 0; p < k; ++p) {
        for (int64_t j = 0; j < n; ++j) d[(l * m + i) * n + j] += left[i * k + p] * right[p * n + j];
      }
    }
  }
  return d;
}

struct Case {
  int64_t batch_a, batch_b, m, k, n;
};

// Around the edges of tiles and blocks, and large enough for oneDNN and for several threads.
constexpr Case kCases[] = {{1, 1, 1, 1, 1},    {1, 1, 5, 7, 3},   {1, 1, 1, 64, 10},    {1, 1, 64, 300, 17},
                           {3, 3, 6, 5, 16},   {4, 1, 13, 21, 9}, {1, 4, 13, 21, 9},    {1, 1, 130, 70, 530},
                           {2, 2, 65, 33, 70}, {5, 1, 1, 40, 30}, {1, 1, 100, 600, 90}, {1, 1, 64, 40, 2100}};

TEST(Matmul, EqualsTheReferenceInAllLayouts) {
  for (const Case& c : kCases) {
    const Shape a_shape = {c.batch_a, c.m, c.k}, b_shape = {c.batch_b, c.k, c.n};
    const Shape d_shape = {std::max(c.batch_a, c.batch_b), c.m, c.n};
    for (const Layout a_layout : {Layout::kRowMajor, Layout::kReversed, Layout::kGaps}) {
      for (const Layout b_layout : {Layout::kRowMajor, Layout::kReversed}) {
        for (const Layout d_layout : {Layout::kRowMajor, Layout::kReversed, Layout::kGaps}) {
          const Tensor a(a_shape, UHAL_FLOAT32, a_layout), b(b_shape, UHAL_FLOAT32, b_layout);
          const Tensor d(d_shape, UHAL_FLOAT32, d_layout);
          run(UHAL_OP_MATMUL, {&a, &b}, {&d});
          SCOPED_TRACE(testing::Message() << c.m << "x" << c.k << "x" << c.n);
          expect_near(product(a_shape, a.values(), b_shape, b.values()), d, std::sqrt(c.k));
        }
      }
    }
  }
}

TEST(Matmul, EqualsTheReferenceInAllDtypes) {
  for (const uhal_dtype dtype : kFloating) {
    const Shape a_shape = {2, 33, 80}, b_shape = {1, 80, 50};
    const Tensor a(a_shape, dtype), b(b_shape, dtype), d({2, 33, 50}, dtype);
    run(UHAL_OP_MATMUL, {&a, &b}, {&d});
    expect_near(product(a_shape, a.values(), b_shape, b.values()), d, dtype == UHAL_FLOAT32 ? 9 : 1);
  }
}

TEST(Matmul, IntegersAreExact) {
  for (const uhal_dtype dtype : {UHAL_INT32, UHAL_INT64}) {
    const Tensor a({2, 3}, {1, 2, 3, -4, 5, 1000000}, dtype), b({3, 2}, {7, 8, 9, 10, 11, 2000}, dtype);
    const Tensor d({2, 2}, dtype);
    run(UHAL_OP_MATMUL, {&a, &b}, {&d});
    EXPECT_EQ((Values{58, 6028, 11000017, 2000000018}), d.values());
  }
}

double activated(uhal_activation activation, double x) {
  switch (activation) {
    case UHAL_ACTIVATION_RELU:
      return std::max(0.0, x);
    case UHAL_ACTIVATION_GELU_ERF:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case UHAL_ACTIVATION_GELU_TANH:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case UHAL_ACTIVATION_SIGMOID:
      return 1 / (1 + std::exp(-x));
    case UHAL_ACTIVATION_TANH:
      return std::tanh(x);
    case UHAL_ACTIVATION_SILU:
      return x / (1 + std::exp(-x));
    case UHAL_ACTIVATION_RELU6:
      return std::min(6.0, std::max(0.0, x));
    default:
      return x;
  }
}

// Small (our kernel) and large (oneDNN, where it is used).
TEST(Matmul, Epilogue) {
  for (const Shape& size : {Shape{5, 6, 7}, Shape{70, 90, 80}}) {
    const Shape a_shape = {1, size[0], size[1]}, b_shape = {1, size[1], size[2]}, d_shape = {1, size[0], size[2]};
    for (uhal_activation activation = UHAL_ACTIVATION_NONE; activation <= UHAL_ACTIVATION_RELU6; ++activation) {
      for (const Shape& c_shape : {Shape{size[2]}, Shape{size[0], 1}, d_shape, Shape{1, 1, 1}}) {
        for (const double alpha : {1.0, 0.5}) {
          const Tensor a(a_shape, UHAL_FLOAT32), b(b_shape, UHAL_FLOAT32), c(c_shape, UHAL_FLOAT32);
          const Tensor d(d_shape, UHAL_FLOAT32);
          auto attributes = make_attributes<uhal_matmul_attributes>();
          attributes.alpha = alpha;
          attributes.beta = alpha == 1 ? 1 : -2;
          attributes.activation = activation;
          run(UHAL_OP_MATMUL, {&a, &b, &c}, {&d}, &attributes);
          Values expected = product(a_shape, a.values(), b_shape, b.values());
          const Values addend = c.values();
          for (int64_t i = 0; i < size[0]; ++i) {
            for (int64_t j = 0; j < size[2]; ++j) {
              const size_t from = c_shape == d_shape          ? i * size[2] + j
                                  : c_shape.size() == 1       ? j
                                  : c_shape == Shape{1, 1, 1} ? 0
                                                              : i;
              double& value = expected[i * size[2] + j];
              value = activated(activation, alpha * value + attributes.beta * addend[from]);
            }
          }
          SCOPED_TRACE(testing::Message()
                       << "activation " << activation << ", alpha " << alpha << ", c of " << c_shape.size() << " axes");
          expect_near(expected, d, 10);
        }
      }
    }
  }
}

TEST(Matmul, AddsToItsOwnResult) {
  for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16}) {
    const Shape a_shape = {1, 80, 70}, b_shape = {1, 70, 90};
    const Tensor a(a_shape, dtype), b(b_shape, dtype), d({1, 80, 90}, dtype);
    Values expected = product(a_shape, a.values(), b_shape, b.values());
    const Values before = d.values();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    run(UHAL_OP_MATMUL, {&a, &b, &d}, {&d});
    expect_near(expected, d, 10);
  }
}

TEST(Matmul, SumOverNothingIsZeroAndEmptyResultsAreFine) {
  const Tensor a({3, 0}, UHAL_FLOAT32), b({0, 4}, UHAL_FLOAT32), c({4}, {1, 2, 3, 4}, UHAL_FLOAT32);
  const Tensor d({3, 4}, UHAL_FLOAT32);
  run(UHAL_OP_MATMUL, {&a, &b}, {&d});
  EXPECT_EQ(Values(12, 0.0), d.values());
  run(UHAL_OP_MATMUL, {&a, &b, &c}, {&d});
  EXPECT_EQ((Values{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}), d.values());
  const Tensor empty({0, 3, 4}, UHAL_FLOAT32), full({4, 5}, UHAL_FLOAT32), result({0, 3, 5}, UHAL_FLOAT32);
  run(UHAL_OP_MATMUL, {&empty, &full}, {&result});
}

TEST(Matmul, RefusesWhatItCannotMultiply) {
  const Tensor a({2, 2}, UHAL_BOOL), d({2, 2}, UHAL_BOOL);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_MATMUL, {&a, &a}, {&d}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cast the operands first", uhal_last_error()->message);
  const Tensor integers({2, 2}, UHAL_INT32), sums({2, 2}, UHAL_INT32);
  auto attributes = make_attributes<uhal_matmul_attributes>();
  attributes.beta = 1;
  for (const double alpha : {0.5, std::nan(""), HUGE_VAL, -1e30, 0x1p63}) {
    attributes.alpha = alpha;
    EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_MATMUL, {&integers, &integers}, {&sums}, &attributes)) << alpha;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "whole numbers within 64 bits", uhal_last_error()->message);
  }
}

}  // namespace
}  // namespace nn_test
