// UHAL_OP_REDUCE over every set of axes.
#include <cmath>
#include <limits>

#include "tests/stub/data_test.h"

namespace data_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Reference {
  uhal_reduction reduction;
  const char* name;
  double neutral;
  double (*add)(double total, double x);
  double (*finish)(double total, double count);
};

double keep(double total, double) { return total; }
double larger(double a, double x) { return std::isnan(a) || a > x ? a : x; }
double smaller(double a, double x) { return std::isnan(a) || a < x ? a : x; }

const Reference kReferences[] = {
    {UHAL_REDUCE_SUM, "sum", 0, [](double a, double x) { return a + x; }, keep},
    {UHAL_REDUCE_MEAN, "mean", 0, [](double a, double x) { return a + x; }, [](double a, double n) { return a / n; }},
    {UHAL_REDUCE_PRODUCT, "product", 1, [](double a, double x) { return a * x; }, keep},
    {UHAL_REDUCE_MAXIMUM, "maximum", -kInfinity, larger, keep},
    {UHAL_REDUCE_MINIMUM, "minimum", kInfinity, smaller, keep},
    {UHAL_REDUCE_ALL, "all", 1, [](double a, double x) { return a * (x != 0); }, keep},
    {UHAL_REDUCE_ANY, "any", 0, [](double a, double x) { return std::fmax(a, x != 0); }, keep},
    {UHAL_REDUCE_SUM_OF_SQUARES, "sum_of_squares", 0, [](double a, double x) { return a + x * x; }, keep},
    {UHAL_REDUCE_L1_NORM, "l1_norm", 0, [](double a, double x) { return a + std::abs(x); }, keep},
    {UHAL_REDUCE_L2_NORM, "l2_norm", 0, [](double a, double x) { return a + x * x; },
     [](double a, double) { return std::sqrt(a); }},
    {UHAL_REDUCE_LOG_SUM_EXP, "log_sum_exp", 0, [](double a, double x) { return a + std::exp(x); },
     [](double a, double) { return std::log(a); }},
};

uhal_reduce_attributes attributes_for(uhal_reduction reduction) { return unihal::reduce_attributes(reduction); }

void check(const Reference& reference, const Array& x, Array& y, double tolerance) {
  const uhal_reduce_attributes attributes = attributes_for(reference.reduction);
  run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  const Shape kept = y.shape();
  std::vector<double> totals(static_cast<size_t>(y.size()), reference.neutral);
  for_each(x.shape(), [&](const Shape& at) {
    size_t position = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      position = position * static_cast<size_t>(kept[i]) + static_cast<size_t>(kept[i] == 1 ? 0 : at[i]);
    }
    totals[position] = reference.add(totals[position], x.at(at));
  });
  const double behind = static_cast<double>(x.size()) / std::max(1.0, static_cast<double>(y.size()));
  for (double& total : totals) total = rounded(y.dtype(), reference.finish(total, behind));
  expect_near(totals, y.values(), tolerance, reference.name);
}

// Sums are exact to about two units in the last place of the result's dtype, which is rounded once.
double tolerance_for(uhal_dtype dtype) { return epsilon(dtype) == 0 ? 0 : 4 * epsilon(dtype); }

TEST(Reduce, EveryReductionOverEverySetOfAxes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    Shape shape(1 + random() % 4);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % 7);
    if (trial % 4 == 0) shape[random() % shape.size()] = 150;
    const uhal_dtype dtype = kFloating[trial % 4];
    Array x = Array::scattered(dtype, shape, random);
    x.fill_random(random, 0.5, 1.5);
    for (unsigned axes = 0; axes < 1u << shape.size(); ++axes) {
      Shape kept = shape;
      for (size_t i = 0; i < kept.size(); ++i) kept[i] = (axes >> i & 1) != 0 ? 1 : kept[i];
      const Reference& reference = kReferences[random() % std::size(kReferences)];
      Array y = Array::scattered(dtype, kept, random);
      check(reference, x, y, tolerance_for(dtype) * (reference.reduction == UHAL_REDUCE_PRODUCT ? 4 : 1));
    }
  }
}

TEST(Reduce, Integers) {
  std::mt19937 random(2);
  for (const uhal_dtype dtype : {UHAL_BOOL, UHAL_INT8, UHAL_UINT8, UHAL_INT32, UHAL_INT64, UHAL_UINT64}) {
    Array x = Array::scattered(dtype, {9, 4, 33}, random);
    x.fill_random(random, 0, 3);
    for (const Shape& kept : {Shape{9, 4, 1}, Shape{1, 4, 33}, Shape{9, 1, 33}, Shape{1, 1, 1}}) {
      for (const Reference& reference : kReferences) {
        const bool logical = reference.reduction == UHAL_REDUCE_ALL || reference.reduction == UHAL_REDUCE_ANY;
        const bool exact = reference.reduction != UHAL_REDUCE_MEAN && reference.reduction < UHAL_REDUCE_L2_NORM;
        if (reference.reduction == UHAL_REDUCE_PRODUCT) continue;  // beyond float64's whole numbers
        Array y(logical ? UHAL_BOOL : exact ? UHAL_INT64 : UHAL_FLOAT32, kept);
        check(reference, x, y, exact ? 0 : tolerance_for(UHAL_FLOAT32));
      }
    }
  }
}

// The layouts of bias gradients and of whole losses, large enough for all cores.
TEST(Reduce, LargeShapes) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{600, 1000}, Shape{1000, 600}, Shape{200000, 3}, Shape{3, 200000}}) {
    for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_BFLOAT16}) {
      Array x(dtype, shape);
      x.fill_random(random, 0.5, 1.5);
      for (const Shape& kept : {Shape{1, 1}, Shape{1, shape[1]}, Shape{shape[0], 1}}) {
        for (const uhal_reduction reduction : {UHAL_REDUCE_SUM, UHAL_REDUCE_MAXIMUM, UHAL_REDUCE_LOG_SUM_EXP}) {
          Array y(UHAL_FLOAT32, kept);
          check(kReferences[reduction - 1], x, y, tolerance_for(UHAL_FLOAT32));
        }
      }
    }
  }
}

TEST(Reduce, BiasGradientOfImages) {
  std::mt19937 random(4);
  Array rows(UHAL_FLOAT32, {8, 24, 30, 30});
  Array channels_last(UHAL_FLOAT32, {8, 30, 30, 24});
  rows.fill_random(random, 0.5, 1.5);
  channels_last.fill_random(random, 0.5, 1.5);
  channels_last.mutable_view() =
      unihal::View(channels_last.view()->data, UHAL_FLOAT32, {8, 30, 30, 24}).channels_first();
  for (const Array* x : {&rows, &channels_last}) {
    Array y(UHAL_FLOAT32, {1, 24, 1, 1});
    check(kReferences[0], *x, y, tolerance_for(UHAL_FLOAT32));
  }
}

TEST(Reduce, NanWinsInMaximumAndMinimum) {
  for (const int64_t columns : {1, 40}) {
    Array x(UHAL_FLOAT32, {200, columns}, std::vector<double>(static_cast<size_t>(200 * columns), 2));
    x.set({150, columns - 1}, kNan);
    for (const Shape& kept : {Shape{1, columns}, Shape{200, 1}, Shape{1, 1}}) {
      Array y(UHAL_FLOAT32, kept);
      check(kReferences[3], x, y, 0);
      check(kReferences[4], x, y, 0);
    }
  }
}

TEST(Reduce, NothingGivesTheNeutralElement) {
  const double expected[] = {0, kNan, 1, -kInfinity, kInfinity, 1, 0, 0, 0, 0, -kInfinity};
  Array x(UHAL_FLOAT32, {0, 2});
  for (size_t i = 0; i < std::size(kReferences); ++i) {
    const uhal_reduce_attributes attributes = attributes_for(kReferences[i].reduction);
    Array y(UHAL_FLOAT32, {1, 2}, {7, 7});
    run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
    expect_near({expected[i], expected[i]}, y.values(), 0, kReferences[i].name);
  }
  Array none(UHAL_INT8, {0});
  Array largest(UHAL_INT8, {1});
  const uhal_reduce_attributes maximum = attributes_for(UHAL_REDUCE_MAXIMUM);
  run(UHAL_OP_REDUCE, {&none}, {&largest}, &maximum);
  EXPECT_EQ(-128, largest.at({0}));
}

TEST(Reduce, LogSumExpNeitherOverflowsNorTurnsToNan) {
  const uhal_reduce_attributes attributes = attributes_for(UHAL_REDUCE_LOG_SUM_EXP);
  Array x(UHAL_FLOAT32, {3, 2}, {1000, 1000, -kInfinity, -kInfinity, kInfinity, 1});
  Array y(UHAL_FLOAT32, {3, 1});
  run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  expect_near({1000 + std::log(2.0), -kInfinity, kInfinity}, y.values(), 1e-6, "log_sum_exp");
}

TEST(Reduce, NormOfIntegersBeyondTheSignedSumOfSquares) {
  const uhal_reduce_attributes attributes = attributes_for(UHAL_REDUCE_L2_NORM);
  Array x(UHAL_INT64, {2}, {3e9, 1e9});  // the squares sum up to 10^19, above 2^63
  Array y(UHAL_INT64, {1});
  run(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  EXPECT_EQ(3162277660, y.at({0}));
}

// A naive float32 sum of 16 million tenths is off by more than a percent.
TEST(Reduce, LongSumsStayAccurate) {
  const int64_t length = int64_t{1} << 24;
  Array x(UHAL_FLOAT32, {length});
  float* values = x.host<float>();
  for (int64_t i = 0; i < length; ++i) values[i] = 0.1f;
  Array y(UHAL_FLOAT32, {1});
  run(UHAL_OP_REDUCE, {&x}, {&y});
  EXPECT_NEAR(1, y.at({0}) / (static_cast<double>(0.1f) * static_cast<double>(length)), 1e-6);
}

}  // namespace
}  // namespace data_test
